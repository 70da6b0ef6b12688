"""What pages change, with `--allow-changes` only: pauses, pins, compactions, reverts, rebuilds.

Each is one call of the library, which does all of it or nothing; the page that its form goes back
to tells what came of it, failures too.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from durable_context import Branch
from durable_context.compaction.focus import checked_focus
from durable_context.contracts import CompactionResult
from durable_context.contracts.rebuild import RebuildResult
from durable_context.control.reversal import Reversal
from durable_context.errors import InvalidArgument
from durable_context.inspector.forms import back_with, number_field, sent_form, text_field
from durable_context.inspector.links import link
from durable_context.inspector.pages import branch_of, named_branch, page
from durable_context.showing import shown

Form = dict[str, str]


class _Change(NamedTuple):
    """`work` says what it did; `doing` is said of it while it goes on."""

    path: str
    work: Callable[[Branch, Form], Coroutine[Any, Any, str]]
    doing: str


def change_routes() -> list[Route]:
    made = [Route(change.path, _endpoint(change), methods=["POST"]) for change in _CHANGES]
    return [
        *made,
        Route("/branch/confirm-revert", confirm_revert),
        Route("/branch/confirm-rebuild", confirm_rebuild),
        Route("/note", note_part),
    ]


def _endpoint(change: _Change) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        form = await sent_form(request)
        branch = await named_branch(request, form)
        notes = request.app.state.notes
        return back_with(form, await notes.of(change.work(branch, form), change.doing))

    return endpoint


async def _pause(branch: Branch, form: Form) -> str:
    pause = await branch.pause(text_field(form, "because"))
    return f"{_name(branch)} is paused: nothing of it is compacted" + (
        f" ({pause.because})" if pause.because else ""
    )


async def _resume(branch: Branch, form: Form) -> str:
    hinted = await branch.resume()
    when = "what is due is compacted now" if hinted else "the next turn or sweep compacts it"
    if await branch.pauses():
        when = "its tenant is paused still"
    return f"{_name(branch)} goes on; {when}"


async def _compact(branch: Branch, form: Form) -> str:
    focus = text_field(form, "focus")
    return _compacted(await branch.compact(focus=focus and checked_focus(focus)))


def _compacted(result: CompactionResult) -> str:
    checkpoint = f"the newest checkpoint is at turn {result.checkpoint_turn:,}"
    if not result.passes:
        return f"Nothing is due; {checkpoint}"
    passes = "1 pass" if result.passes == 1 else f"{result.passes:,} passes"
    return f"Compacted in {passes} by {result.recipe}; {checkpoint}"


async def _pin(branch: Branch, form: Form) -> str:
    pin = await branch.pin(_turn(form, "turn"), fact=text_field(form, "fact"))
    return f"{_pinned(pin.turn_no, pin.value)} is pinned"


async def _unpin(branch: Branch, form: Form) -> str:
    turn_no, fact = _turn(form, "turn"), text_field(form, "fact")
    was_pinned = await branch.unpin(turn_no, fact=fact)
    return f"{_pinned(turn_no, fact)} {'is' if was_pinned else 'was'} not pinned" + (
        " any more" if was_pinned else ""
    )


async def _revert(branch: Branch, form: Form) -> str:
    reversal = await branch.foresee_revert(_target(form))
    if reversal.changes and form.get("seen") != _seen(reversal):
        raise InvalidArgument(
            "the branch has changed since the page said what a revert would reject; look again"
        )
    newest = await branch.revert(_target(form), because=text_field(form, "because"))
    where = f"the checkpoint of turn {newest.turn_no:,}" if newest else "no checkpoint"
    gone = f"rejected are {reversal.checkpoints_rejected:,} checkpoints"
    return f"{_name(branch)} went back to {where}; {gone}, {reversal.nodes_rejected:,} summaries"


def _seen(reversal: Reversal) -> str:
    """What a form says its page said, so that an old one rejects nothing it did not name."""
    said = (reversal.from_turn, reversal.checkpoints_rejected, reversal.nodes_rejected)
    return ".".join(map(str, (*said, reversal.restored)))


async def _rebuild(branch: Branch, form: Form) -> str:
    focus = text_field(form, "focus")
    result = await branch.rebuild(
        number_field(form, "from") or 1,
        number_field(form, "to"),
        focus=focus and checked_focus(focus),
    )
    return _rebuilt(result)


def _rebuilt(result: RebuildResult) -> str:
    if result.reverted:
        return "The rebuild ended, because the branch was reverted meanwhile"
    made = "1 summary" if result.replaced == 1 else f"{result.replaced:,} summaries"
    said = f"Made {made} anew from {result.tokens_read:,} tokens"
    if result.degraded:
        said += f"; {result.degraded:,} could not be made and stay as they were"
    return said


async def confirm_revert(request: Request) -> Response:
    """What a revert would reject. Changes nothing."""
    branch, asked = await branch_of(request), dict(request.query_params)
    reversal = await branch.foresee_revert(_target(asked))
    return page(
        request,
        "confirm_revert.html",
        title="Revert",
        branch=branch,
        reversal=reversal,
        to=asked["to"],
        seen=_seen(reversal),
        back=link("/branch", conversation=branch.conversation_id, branch=branch.branch_id),
    )


async def confirm_rebuild(request: Request) -> Response:
    """What a rebuild would make anew. Changes nothing."""
    branch, asked = await branch_of(request), dict(request.query_params)
    from_turn, to_turn = number_field(asked, "from") or 1, number_field(asked, "to")
    foreseen = await branch.foresee_rebuild(from_turn, to_turn)
    return page(
        request,
        "confirm_rebuild.html",
        title="Rebuild",
        branch=branch,
        foreseen=foreseen,
        from_turn=from_turn,
        to_turn=to_turn,
        back=link("/branch", conversation=branch.conversation_id, branch=branch.branch_id),
    )


async def note_part(request: Request) -> Response:
    return page(request, "_note.html")


def _turn(form: Form, name: str) -> int:
    turn_no = number_field(form, name)
    if turn_no is None:
        raise InvalidArgument(f"{name} is missing: the number of a turn")
    return turn_no


def _target(form: Form) -> int | UUID:
    """A checkpoint, by its turn or its id."""
    to = form.get("to", "")
    if to.isdecimal() and len(to) <= 10:
        return int(to)
    try:
        return UUID(to)
    except ValueError:
        message = f"to={shown(to)}; allowed are the turn of a checkpoint, its id, and 0 for none"
        raise InvalidArgument(message) from None


def _name(branch: Branch) -> str:
    return f"Branch {branch.branch_id}"


def _pinned(turn_no: int, fact: str | None) -> str:
    return f"Turn {turn_no:,}" if fact is None else f"{shown(fact)} of turn {turn_no:,}"


_CHANGES: Final = (
    _Change("/branch/pause", _pause, "pausing"),
    _Change("/branch/resume", _resume, "resuming"),
    _Change(
        "/branch/compact", _compact, "Compaction is under way; this line tells when it is done"
    ),
    _Change("/branch/pin", _pin, "pinning"),
    _Change("/branch/unpin", _unpin, "unpinning"),
    _Change("/branch/revert", _revert, "The revert is under way; this line tells when it is done"),
    _Change(
        "/branch/rebuild", _rebuild, "The rebuild is under way; this line tells when it is done"
    ),
)
