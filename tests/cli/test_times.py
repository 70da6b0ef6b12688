"""Times on the command line: local, ISO 8601 in UTC on request, and ISO 8601 in JSON."""

import json
import re
from datetime import datetime

import pytest

from durable_context import ContextClient
from durable_context.database import Pool
from tests.cli.running import run_process
from tests.compacting import compact_all
from tests.turns import numbered

ZONE = {"TZ": "Asia/Kathmandu"}
"""No other zone is 5:45 ahead."""
LOCAL = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0545")
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.mark.parametrize("command", ["show", "branches", "events"])
async def test_times_are_local_and_iso_on_request(
    client: ContextClient, pool: Pool, database_url: str, command: str
):
    branch = await client.open_branch("orders")
    for turn in range(1, 9):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid)
    await branch.pause()
    environment = ZONE | {"DURABLE_CONTEXT_DATABASE_URL": database_url}
    arguments = ["-m", "durable_context.cli", command, "orders"]
    local = await run_process(arguments, environment)
    assert local.code == 0, local.errors
    iso = await run_process([*arguments, "--iso"], environment)
    assert not ISO.search(local.out) and not LOCAL.search(iso.out)
    as_local = [datetime.strptime(one, "%Y-%m-%d %H:%M:%S %z") for one in LOCAL.findall(local.out)]
    as_iso = [datetime.fromisoformat(one) for one in ISO.findall(iso.out)]
    assert as_local == as_iso
    assert len(as_iso) >= 2


async def test_json_is_iso_whatever_the_zone(client: ContextClient, database_url: str):
    await (await client.open_branch("orders")).record_turn(numbered(1))
    ended = await run_process(
        ["-m", "durable_context.cli", "branches", "orders", "--json"],
        ZONE | {"DURABLE_CONTEXT_DATABASE_URL": database_url},
    )
    [branch] = json.loads(ended.out)["branches"]
    assert datetime.fromisoformat(branch["last_turn_at"]).utcoffset() is not None


async def test_a_policy_that_is_none_ends_a_command_in_a_line(database_url: str):
    ended = await run_process(
        ["-m", "durable_context.cli", "branches", "orders"],
        {"DURABLE_CONTEXT_DATABASE_URL": database_url, "DURABLE_CONTEXT_POLICY": '{"fan_out": 99}'},
    )
    assert (ended.code, ended.out) == (2, "")
    assert ended.errors == (
        "durable-context: DURABLE_CONTEXT_POLICY: fan_out=99; allowed is a whole number of at least"
        " 2 and of at most 16\n"
    )
