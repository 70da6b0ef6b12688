"""What a replay is asked for, and what each of its turns came to."""

from datetime import timedelta

from durable_context import BudgetExceeded
from durable_context.models import Value
from durable_context.prompts.manifest import Block
from durable_context.transcripts import Transcript, TranscriptTurn, stretches


class ReplayOptions(Value):
    """`stretch`: record long runs in stretches of so many tool exchanges.

    `fork`: at half of its turns fork each conversation, and replay the rest into both branches.
    `pace` bounds the wait, after each turn, for the compaction that is due then: a model's answer
    takes seconds, in which compaction goes on. None replays as fast as the database takes it.
    """

    budget: int
    prefix: str = ""
    stretch: int | None = None
    limit: int | None = None
    fork: bool = False
    pace: timedelta | None = timedelta(seconds=20)

    def conversation_id(self, transcript: Transcript) -> str:
        return f"{self.prefix}{transcript.name}"

    def pieces(self, transcript: Transcript) -> list[TranscriptTurn]:
        """Its turns as they are recorded."""
        return [piece for turn in transcript.turns for piece in stretches(turn, self.stretch)][
            : self.limit
        ]

    def fork_turn(self, pieces: int) -> int | None:
        return pieces // 2 if self.fork and pieces else None

    def turn_count(self, transcript: Transcript) -> int:
        """Turns that the replay records, those of the fork too."""
        count = len(self.pieces(transcript))
        forked_at = self.fork_turn(count)
        return count if forked_at is None else 2 * count - forked_at


class ReplayedTurn(Value):
    """One turn of the replay. `raw_tokens` counts the conversation up to and including it.

    `whole_tokens` is what its prompt would have had with every earlier turn in it; `problems` is
    what was found wrong with that prompt. A turn that was recorded before (`repeated`) has no
    prompt; nor has one whose budget was exceeded.
    """

    conversation_id: str
    turn_no: int
    tokens: int
    raw_tokens: int
    branch_id: str = "main"
    prompt_tokens: int | None = None
    whole_tokens: int | None = None
    blocks: tuple[Block, ...] = ()
    exceeded: BudgetExceeded | None = None
    problems: tuple[str, ...] = ()
    prepare_ms: float | None = None
    compactions: int = 0
    repeated: bool = False
