"""A tool result of 30 KB in which one line differs from all others."""

LINES = 500
ODD_LINE = 317
_HEADER = "shipment  | destination | plt | status  | due at"
_DESTINATIONS = ("Zürich", "Bristol", "Göteborg", "Lyon", "Gdańsk", "Utrecht", "Trieste")


def shipment_report() -> str:
    """A header, then a shipment per line. The one in line `ODD_LINE` is held."""
    return "\n".join([_HEADER, *map(_line, range(2, LINES + 1))])


def shipment_id(line: int) -> str:
    return f"SHP-{51_000 + line}"


def _line(number: int) -> str:
    destination = _DESTINATIONS[number * number % len(_DESTINATIONS)]
    status = "HELD" if number == ODD_LINE else "on time"
    due = f"2025-03-{10 + number % 19} {6 + number % 13:02}:30"
    return f"{shipment_id(number)} | {destination:<11} | {1 + number % 9:>3} | {status:<7} | {due}"
