"""What an upgrade leaves alone because of what became of it before. Conditions on published nodes
`s`, in SQL; `{recipe}` is that of what is wanted, without a focus.
"""

FAILED_LATELY = """exists (
    select from durable_context.compactions k
    where k.tenant = s.tenant and k.branch_uuid = s.branch_uuid and k.level = s.level
        and k.from_turn = s.from_turn and k.to_turn = s.to_turn and k.status = 'failed'
        and k.reason = 'upgrade' and k.attempts > 0
        and split_part(k.recipe, '+focus:', 1) = {recipe}
    having max(k.finished_at) > now() - interval '12 hours' * 2 ^ least(count(*) - 1, 6)
)"""
"""Upgrades of the node failed: after the first it is left alone for half a day, after each further
one for twice as long, at most 32 days.
"""

REVERTED = """exists (
    select from durable_context.summaries r
    where r.tenant = s.tenant and r.branch_uuid = s.branch_uuid and r.level = s.level
        and r.from_turn = s.from_turn and r.to_turn = s.to_turn and r.state = 'rejected'
        and r.published_in is not null and r.created_at > s.created_at
        and split_part(r.recipe, '+focus:', 1) = {recipe}
)"""
"""What the recipe made of it stood there, and a revert went back from that to what there was."""
