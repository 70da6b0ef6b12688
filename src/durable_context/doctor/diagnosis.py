"""What the doctor says of one thing."""

from typing import Literal

from durable_context.models import Value

State = Literal["ok", "warning", "failed"]


class Diagnosis(Value):
    """`mend` says what to do where it is not ok. Failed: something does not work now. A warning:
    it works, less well than it could, or will not for long.
    """

    check: str
    state: State
    message: str
    mend: str = ""


class Checkup(Value):
    """All of them, in the order in which they depend on each other."""

    diagnoses: tuple[Diagnosis, ...]

    @property
    def failed(self) -> int:
        return sum(one.state == "failed" for one in self.diagnoses)

    @property
    def warnings(self) -> int:
        return sum(one.state == "warning" for one in self.diagnoses)


def ok(check: str, message: str) -> Diagnosis:
    return Diagnosis(check=check, state="ok", message=message)


def warning(check: str, message: str, mend: str) -> Diagnosis:
    return Diagnosis(check=check, state="warning", message=message, mend=mend)


def failed(check: str, message: str, mend: str) -> Diagnosis:
    return Diagnosis(check=check, state="failed", message=message, mend=mend)
