"""Watching long work ends with the work."""

import asyncio

from durable_context.cli.progress import watching


async def test_watching_ends_though_a_look_ends_as_it_is_left() -> None:
    answer = asyncio.get_running_loop().create_future()
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await asyncio.wait_for(answer, 5)

    async with watching(look), asyncio.timeout(5):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answer.set_result(None)

    assert looks == 1
