"""How an error shows a value from outside."""


def shown(value: object, limit: int = 80) -> str:
    """The value short and on one line, whatever it is: `repr` of some fails."""
    try:
        text = repr(value)
    except Exception:  # nested too deeply, an integer of too many digits, an object's own error
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
