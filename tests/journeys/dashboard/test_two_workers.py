"""Two processes behind one port: whoever answers, the dashboard shows the chats of both."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import ask, running_command
from tests.support.fake_model import fake_model, polite

pytestmark = pytest.mark.anyio

CHATS = 20
ROUNDS = 10
BODY = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}


async def test_the_dashboard_shows_the_requests_of_both_workers(tmp_path: Path) -> None:
    async with (
        fake_model(polite) as model,
        running_command(
            "serve",
            SERVER_WORKERS="2",
            UPSTREAM_BASE_URL=model.url,
            STORE_URL=f"sqlite:///{tmp_path}/store.db",
        ) as command,
        asyncio.timeout(90),
    ):
        await command.said("server started", times=2, seconds=60)
        url = await command.url()
        sent = await keep_both_busy(url)
        told = await seen_by_both(url, sent)

    for figures in told:
        assert len(figures["rows"]) == figures["totals"]["chats"] == sent
        assert len({row["worker"] for row in figures["rows"]}) == 2
        assert figures["state"]["workers"] == 2


async def keep_both_busy(url: str) -> int:
    """Send chats until both have some: who gets a connection is the kernel's choice."""
    busy: set[str] = set()
    for sent in range(CHATS, ROUNDS * CHATS + 1, CHATS):
        chats = (ask(f"{url}/v1/chat/completions", "POST", json=BODY) for _ in range(CHATS))
        await asyncio.gather(*chats)
        busy |= {row["worker"] for figures in await four_looks(url) for row in figures["rows"]}
        if len(busy) == 2:
            return sent
    raise AssertionError("one worker got everything")


async def seen_by_both(url: str, sent: int) -> list[dict[str, Any]]:
    """Ask until each of the two workers has told everything."""
    whole: dict[str, dict[str, Any]] = {}
    while len(whole) < 2:
        for figures in await four_looks(url):
            if figures["totals"]["chats"] == sent:
                whole[figures["state"]["worker"]] = figures
        await asyncio.sleep(0.2)
    return list(whole.values())


async def four_looks(url: str) -> list[dict[str, Any]]:
    answers = await asyncio.gather(*(ask(f"{url}/dashboard/data") for _ in range(4)))
    return [answer.json() for answer in answers]
