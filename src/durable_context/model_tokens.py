"""How a model counts, by its name: the family it is of and, for OpenAI's, the encoding. From here
on a budget is read as: Budget -> model_tokens -> calibration -> prompts.model_counting -> limit.

OpenAI publishes the rules that its API's `prompt_tokens` follow (openai-cookbook,
examples/How_to_count_tokens_with_tiktoken.ipynb): 3 for each message, 1 for a name, 3 that prime
the reply; for tools see `tool_tokens`. They are published for gpt-3.5, gpt-4, gpt-4o and
gpt-4o-mini. For gpt-4.1 people counted the same, for o3 one token less a request
(community.openai.com/t/1262691); gpt-5 is counted so too. Nobody publishes what tool calls cost:
`tokens` says what is estimated there.
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Family = Literal["openai", "anthropic", "gemini", "other"]

LONGEST_NAME: Final = 200
"""Characters of a model's name."""

_O200K: Final = "o200k_base"
_CL100K: Final = "cl100k_base"
_ENCODINGS: Final = (
    (r"gpt-(3\.5|35)(-|$)|gpt-4(-|$)", _CL100K),
    (r"(chat)?gpt-4o(-|$)|gpt-4\.[15](-|$)|gpt-5([.-]|$)|o[13](-|$)|o4-mini(-|$)", _O200K),
)
_OPENAI: Final = re.compile(r"(chat)?gpt-|o\d+(-|$)|codex-|text-|davinci|babbage")
_CALLED_BY: Final = re.compile(r"[a-z_-]*(openai|azure)[a-z_-]*:")


class CountedAs(NamedTuple):
    """`name` is the model's own name. `encoding` is that of an OpenAI model with known rules."""

    name: str
    family: Family
    encoding: str | None

    def is_exact(self, encoding: str) -> bool:
        """Whether counts in an encoding are the model's own."""
        return self.encoding == encoding


@lru_cache(maxsize=256)
def counted_as(model: str) -> CountedAs:
    """By the name alone: `openai/gpt-4o`, `openai:gpt-4o` and fine-tunes are the models they name.

    Deployments with names of their own are of no known family, which costs precision only.
    """
    name = _own_name(model)
    if "claude" in name:
        return CountedAs(name, "anthropic", None)
    if "gemini" in name:
        return CountedAs(name, "gemini", None)
    for pattern, encoding in _ENCODINGS:
        if re.match(pattern, name):
            return CountedAs(name, "openai", encoding)
    return CountedAs(name, "openai" if _OPENAI.match(name) else "other", None)


def is_model_name(text: str) -> bool:
    """Whether a text can name a model: any provider's, so not much is asked."""
    return bool(text.strip()) and len(text) <= LONGEST_NAME and text.isprintable()


def _own_name(model: str) -> str:
    name = model.strip().lower().rpartition("/")[2]
    called = _CALLED_BY.match(name)
    if called:
        name = name[called.end() :]
    return name.split(":")[1] if name.startswith("ft:") else name
