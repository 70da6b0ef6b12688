"""Recipes as labels of metrics. Callers may name any model, misspelt ones too: the first hundred
are told by name, for as long as the process lives.
"""

from typing import Final

MOST: Final = 100
LONGEST: Final = 200
OTHER: Final = "other"

_named: set[str] = set()


def name_always(recipe: str) -> None:
    """Of a chain, each of its recipes too."""
    _named.update((recipe, *recipe.split(" > ")))


def label_of(recipe: str) -> str:
    if recipe in _named:
        return recipe
    if len(_named) >= MOST or len(recipe) > LONGEST or not recipe.isprintable():
        return OTHER
    _named.add(recipe)
    return recipe
