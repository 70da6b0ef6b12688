"""What compactions cost and saved, in a few characters."""

from decimal import Decimal

from rich.text import Text

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def balance_text(tokens: int) -> Text:
    return Text(f"{tokens:+,}" if tokens else "0", style="red" if tokens < 0 else "")


def price_text(price: Decimal | None) -> str:
    """In US dollars; a question mark where it is not known."""
    if price is None:
        return "?"
    return "$0" if price == 0 else f"${price:.4f}" if price >= Decimal("0.0001") else "<$0.0001"


def age_text(seconds: float) -> str:
    """In the largest unit that it is one of."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
