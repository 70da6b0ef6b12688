"""The groups that `durable-context --help` lists its commands in."""

from typing import Final

LOOK: Final = "Look"
CONTROL: Final = "Control"
MOVE: Final = "Move"
