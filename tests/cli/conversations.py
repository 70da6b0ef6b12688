"""Small conversations for the command line to replay."""

from typing import Any

Messages = list[dict[str, Any]]


def talk(turns: int, words: int = 40) -> Messages:
    """Turns of a question and an answer, told apart by their numbers."""
    return [message for number in range(1, turns + 1) for message in _turn(number, words)]


def run_of_tools(exchanges: int) -> Messages:
    """One request that takes many tool exchanges."""
    messages: Messages = [{"role": "user", "content": "Fix the failing build."}]
    for number in range(exchanges):
        function = {"name": "bash", "arguments": '{"command": "make"}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"error {number}"},
        ]
    return [*messages, {"role": "assistant", "content": "Fixed."}]


def _turn(number: int, words: int) -> Messages:
    story = " ".join(f"fact{number}x{word}" for word in range(words))
    return [
        {"role": "user", "content": f"What about order A-{number}?"},
        {"role": "assistant", "content": f"Order A-{number} was shipped. {story}."},
    ]
