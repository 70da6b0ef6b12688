"""What callers call things by is shown by Temporal's UI as it is, which reads Markdown."""

from uuid import UUID

from durable_context import CompactionPolicy
from durable_context.compaction.run_texts import rebuild_details, shown_ids, summary_text
from durable_context.contracts.rebuild import RebuildRequest
from workflows.details import details

BRANCH = UUID(int=1)
ODD = "![p](http://odd/p.png) **b** `c` <img src=x> [l](http://odd/l)"
AS_IT_IS = r"!\[p\](http://odd/p.png) \*\*b\*\* \`c\` \<img src=x> \[l\](http://odd/l)"


def test_an_id_in_a_summary_is_no_markdown() -> None:
    label, conversation = shown_ids(CompactionPolicy(expose_ids=True), ODD, "main")
    request = _request(label=label, conversation=conversation)
    assert summary_text("compact", request) == f"compact {AS_IT_IS}/main"


def test_the_name_of_a_summarizer_stays_in_its_cell() -> None:
    name = f"{ODD}\n\n# Big\n\n| a |"
    text = rebuild_details(_request(summarizers=(name,)))
    assert f"| summarizers | {AS_IT_IS} # Big \\| a \\| |" in text.splitlines()
    assert f"| recipe | {AS_IT_IS} |" in details("p", [("reason", "turn"), ("recipe", ODD)])


def _request(**fields: object) -> RebuildRequest:
    known = {
        "tenant": "t",
        "branch_uuid": BRANCH,
        "policy": CompactionPolicy(),
        "reason": "rebuild",
    }
    return RebuildRequest.model_validate(known | fields)
