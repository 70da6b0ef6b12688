"""The demo's plot: tokens of the whole conversation against tokens of the prompt, turn by turn."""

from collections.abc import Sequence
from pathlib import Path

from durable_context.cli.replay_model import ReplayedTurn


def write_plot(turns: Sequence[ReplayedTurn], budget: int, path: Path) -> None:
    """A PNG with two lines for each conversation."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    for conversation_id in dict.fromkeys(turn.conversation_id for turn in turns):
        own = [turn for turn in turns if turn.conversation_id == conversation_id]
        numbers = [turn.turn_no for turn in own]
        whole = [turn.whole_tokens or turn.raw_tokens for turn in own]
        prompts = [turn.prompt_tokens for turn in own]
        axes.plot(numbers, whole, color="#b0563a", linewidth=1.2)
        axes.plot(numbers, prompts, color="#2b6ca3", linewidth=1.8)
    limit = axes.axhline(budget, color="grey", linestyle="--", linewidth=1)
    axes.legend(
        [*axes.get_lines()[:2], limit], ["whole conversation", "prompt", "budget"], loc="upper left"
    )
    axes.set(xlabel="turn", ylabel="tokens", title="What the next prompt holds, turn by turn")
    axes.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=144)
    pyplot.close(figure)
