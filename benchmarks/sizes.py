"""Budgets as the command lines take them."""

import typer


def sizes_of(text: str) -> list[int]:
    """Numbers of tokens with commas between them, smallest first."""
    sizes = [part.strip() for part in text.split(",")]
    if not all(each.isdecimal() and int(each) > 0 for each in sizes):
        raise typer.BadParameter(f"{text!r} must be numbers of tokens such as 1000,2000")
    return sorted({int(each) for each in sizes})
