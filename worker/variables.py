"""Values of variables of the environment. A bad one raises InvalidSettings, which names the
variable, its value and what is allowed. One that is set to nothing is not set.
"""

from collections.abc import Mapping

from worker.errors import InvalidSettings


def whole(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise InvalidSettings(f"{name}={text!r} must be a whole number from {least} to {most}")
    return int(text)


def number(environ: Mapping[str, str], name: str, least: float, most: float) -> float | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise InvalidSettings(f"{name}={text!r} must be a number from {least:g} to {most:g}")
    return value


def flag(environ: Mapping[str, str], name: str) -> bool:
    """On unless it is turned off."""
    text = environ.get(name) or "on"
    if text.lower() not in ("on", "off"):
        raise InvalidSettings(f"{name}={text!r:.80} must be on or off")
    return text.lower() == "on"
