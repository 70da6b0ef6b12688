"""The statements of the artifact store. $1 is the tenant, $2 the branch that asks."""

from typing import Final

# Of the summaries of one content the newest that is not degraded.
_SUMMARY: Final = """
left join lateral (
    select s.headline, s.text from durable_context.artifact_summaries s
    where s.tenant = a.tenant and s.sha256 = a.sha256
    order by s.degraded, s.created_at desc, s.recipe limit 1
) s on true"""
_SELECT: Final = """
select a.handle, a.name, a.version, a.media_type, a.size, encode(a.sha256, 'hex') as sha256,
    a.token_count, a.line_count, a.width, a.height, a.turn_no, a.source, s.headline,
    s.text as summary, a.created_at"""
_FROM: Final = "\nfrom durable_context.visible_artifacts a"
_CONTENTS: Final = """
join durable_context.artifact_contents c on c.tenant = a.tenant and c.sha256 = a.sha256"""
_WHERE: Final = "\nwhere a.tenant = $1 and a.seen_by = $2 "

# As durable_context.artifacts.contents.StoredContent has them.
CONTENT_COLUMNS: Final = ("content_hash", "content_size", "compression", "data", "object_key")
_CONTENT: Final = """
    c.sha256 as content_hash, c.size as content_size, c.compression, c.data, c.object_key"""

FIND: Final = _SELECT + _FROM + _SUMMARY + _WHERE + "and a.handle = $3"
READ: Final = _SELECT + "," + _CONTENT + _FROM + _CONTENTS + _SUMMARY + _WHERE + "and a.handle = $3"
READ_CONTENTS: Final = (
    "select a.handle," + _CONTENT + _FROM + _CONTENTS + _WHERE + "and a.handle = any($3::text[])"
)

READ_NAMED: Final = (
    _SELECT
    + ","
    + _CONTENT
    + _FROM
    + _CONTENTS
    + _SUMMARY
    + _WHERE
    + "and a.name = $3 and a.source in ('put', 'offloaded') order by a.artifact_no limit 1"
)

_NAMED: Final = _SELECT + _FROM + _SUMMARY + _WHERE + "and a.name = $3 and a.source = 'put'"
HISTORY: Final = (
    _SELECT
    + _FROM
    + _SUMMARY
    + _WHERE
    + "and a.name = $3 and a.source in ('put', 'offloaded') order by a.artifact_no"
)
NEWEST: Final = _NAMED + " order by a.version desc limit 1"
VERSION: Final = _NAMED + " and a.version = $4"

# What turns brought, and the newest version of each name.
_LISTED: Final = (
    "\nfrom (select a.*, max(a.version) over (partition by a.name) as newest"
    + _FROM
    + _WHERE
    + ") a"
)
_IS_NEWEST: Final = "\nwhere (a.version is null or a.version = a.newest)"
LIST: Final = (
    _SELECT + _LISTED + _SUMMARY + _IS_NEWEST + " order by a.turn_no, a.created_at, a.artifact_no"
)
# Summaries are looked up for those of the page alone. $4 is where it begins.
LIST_NEWEST: Final = (
    _SELECT
    + "\nfrom (select a.*"
    + _LISTED
    + _IS_NEWEST
    + """
    and ($4::text is null or (a.turn_no, a.created_at, a.artifact_no) <= (
        select b.turn_no, b.created_at, b.artifact_no from durable_context.visible_artifacts b
        where b.tenant = $1 and b.seen_by = $2 and b.handle = $4
    ))
order by a.turn_no desc, a.created_at desc, a.artifact_no desc limit $3) a"""
    + _SUMMARY
    + " order by a.turn_no desc, a.created_at desc, a.artifact_no desc"
)

OF_TURN: Final = (
    _SELECT + _FROM + _SUMMARY + _WHERE + "and a.turn_no = $3 order by a.artifact_no limit 100"
)

PUT: Final = f"""
select p.status, p.version, p.turn_no, p.created_at, s.headline, s.text as summary
from (select $1::text as tenant, $6::bytea as sha256) a
cross join lateral durable_context.put_artifact(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
) p {_SUMMARY}"""

# A version like any other. Its content is there already, and the function leaves it as it is.
REVERT: Final = f"""
select $5::text as handle, a.name, p.version, a.media_type, a.size,
    encode(a.sha256, 'hex') as sha256, a.token_count, a.line_count, a.width, a.height, p.turn_no,
    a.source, s.headline, s.text as summary, p.created_at
{_FROM} {_CONTENTS}
cross join lateral durable_context.put_artifact(
    $1, $2, $5, a.name, a.media_type, a.sha256, a.size, a.token_count, a.line_count, a.width,
    a.height, c.compression, c.data, c.object_key
) p {_SUMMARY} {_WHERE} and a.name = $3 and a.source = 'put' and a.version = $4"""
