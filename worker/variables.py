"""Values of variables of the environment. A bad one raises InvalidSettings, which names the
variable, its value and what is allowed. One that is set to nothing is not set.
"""

import re
from collections.abc import Mapping

from worker.errors import InvalidSettings

LONGEST_NUMBER = 18
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")


def whole(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    if not is_whole(text) or not least <= int(text) <= most:
        raise InvalidSettings(f"{name}={text!r:.80} must be a whole number from {least} to {most}")
    return int(text)


def is_whole(text: str) -> bool:
    """Digits, of which Python takes more kinds, and more of them, than anybody means."""
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def number(environ: Mapping[str, str], name: str, least: float, most: float) -> float | None:
    text = environ.get(name)
    if not text:
        return None
    value = float(text) if NUMBER.fullmatch(text) else float("nan")
    if not least <= value <= most:
        raise InvalidSettings(f"{name}={text!r:.80} must be a number from {least:g} to {most:g}")
    return value


def flag(environ: Mapping[str, str], name: str) -> bool:
    """On unless it is turned off."""
    text = environ.get(name) or "on"
    if text.lower() not in ("on", "off"):
        raise InvalidSettings(f"{name}={text!r:.80} must be on or off")
    return text.lower() == "on"
