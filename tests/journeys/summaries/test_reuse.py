"""A summary is written once: for every later request, every replica, and after a restart."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.journeys.summaries.talking import WINDOW, body_of, label, long_chat, talking_to, turns
from tests.support.command import running_command
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio


def shared(folder: Path) -> dict[str, Any]:
    """The section that names a store for several proxies."""
    return {"url": f"sqlite:///{folder / 'store.db'}"}


async def test_later_requests_repeat_the_fold_and_ask_nobody() -> None:
    """BUGS 9, 44: one summary for all that follows, with the same bytes each time."""
    brain = SummaryModel(window=WINDOW)
    given = long_chat()
    async with fake_model(brain) as model, talking_to(model) as talk:
        first = await talk.ask(given)
        again = await talk.ask(given)
        later = await talk.ask([*given, *turns(1, 100)[1:], user("And then?")])

    assert [label(it) for it in (first, again, later)] == ["built", "reused", "reused"]
    assert len(brain.summaries) == 1
    assert again.upstream == first.upstream
    assert first.begins(later)


async def test_a_second_proxy_on_the_same_file_sends_the_same_bytes(tmp_path: Path) -> None:
    """BUGS 44: nothing in a fold differs from one build to the next."""
    brain = SummaryModel(window=WINDOW)
    async with (
        fake_model(brain) as model,
        talking_to(model, store=shared(tmp_path)) as one,
        talking_to(model, store=shared(tmp_path)) as other,
    ):
        first = await one.ask(long_chat())
        second = await other.ask(long_chat())

    assert (label(first), label(second)) == ("built", "reused")
    assert len(brain.summaries) == 1
    assert second.upstream == first.upstream


async def test_a_restarted_proxy_goes_on_where_it_was(tmp_path: Path) -> None:
    brain = SummaryModel(window=WINDOW)
    given = long_chat()
    async with fake_model(brain) as model:
        async with talking_to(model, store=shared(tmp_path)) as talk:
            first = await talk.ask(given)
        async with talking_to(model, store=shared(tmp_path)) as talk:
            second = await talk.ask(given)
            third = await talk.ask([*given, *turns(1, 100)[1:], user("And then?")])

    assert label(second) == label(third) == "reused"
    assert len(brain.summaries) == 1
    assert second.upstream == first.upstream
    assert first.begins(third)


async def test_another_process_on_the_same_file_sends_the_same_bytes(tmp_path: Path) -> None:
    brain = SummaryModel(window=WINDOW)
    async with fake_model(brain) as model:
        async with talking_to(model, store=shared(tmp_path)) as talk:
            first = await talk.ask(long_chat())
        variables = {
            "UPSTREAM_BASE_URL": model.url,
            "STORE_URL": shared(tmp_path)["url"],
            "BUDGET_CONTEXT_WINDOW": str(WINDOW),
            "BUDGET_PREPARE": "1",
        }
        async with (
            running_command("serve", **variables) as command,
            httpx.AsyncClient(trust_env=False, timeout=60) as client,
        ):
            address = f"{await command.url()}/v1/chat/completions"
            answered = await client.post(address, content=body_of(long_chat()))

    assert answered.headers["x-chat-proxy-compaction"] == "reused"
    assert len(brain.summaries) == 1
    assert brain.chats[-1].received.body == first.upstream


async def test_a_proxy_that_forgets_asks_anew() -> None:
    """The control: without a common store there is nothing to be found."""
    brain = SummaryModel(window=WINDOW)
    async with fake_model(brain) as model:
        for _ in range(2):
            async with talking_to(model) as talk:
                assert label(await talk.ask(long_chat())) == "built"

    assert len(brain.summaries) == 2


async def test_what_one_proxy_prepared_another_takes_over(tmp_path: Path) -> None:
    """A summary that is written behind the scenes is everybody's."""
    brain = SummaryModel(window=WINDOW)
    sections: dict[str, Any] = {"budget": {"prepare": 0.65}, "store": shared(tmp_path)}
    async with (
        fake_model(brain) as model,
        talking_to(model, **sections) as one,
        talking_to(model, **sections) as other,
    ):
        early = await one.ask(long_chat(11))
        summaries = one.proxy.services.compaction.summaries.jobs
        await eventually(lambda: brain.summaries and not summaries._running)
        late = await other.ask([*long_chat(11), *turns(3, first=20)[1:], user("And then?")])

    assert (label(early), label(late)) == ("none", "reused")
    assert len(brain.summaries) == 1
    assert late.tokens[1] < late.tokens[0]


async def test_a_policy_that_writes_other_summaries_does_not_reuse_them(tmp_path: Path) -> None:
    """What a summary says depends on the instruction, so its hash is part of the key."""
    brain = SummaryModel(window=WINDOW)
    instruction = tmp_path / "instruction.txt"
    instruction.write_text("Write it in verse.")
    async with fake_model(brain) as model:
        async with talking_to(model, store=shared(tmp_path)) as talk:
            await talk.ask(long_chat())
        summary = {"prompt_file": str(instruction)}
        async with talking_to(model, store=shared(tmp_path), summary=summary) as talk:
            asked = await talk.ask(long_chat())

    assert label(asked) == "built"
    assert len(brain.summaries) == 2
    assert brain.summaries[1].texts[-1] == instruction.read_text()
