"""C18, C19: a compacted prefix stays as it is, and names nothing that cannot be had."""

import re
from pathlib import Path

import pytest

from tests.journeys.summaries.talking import WINDOW, label, long_chat, prose, talking, turns
from tests.support.conversations import get
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, calls, result, says, user

pytestmark = pytest.mark.anyio

MORE_TURNS = 8
OFFLOAD = re.compile(r"offload id:? ([0-9a-f]{32})")
TOOLS = {"max_bytes": 3_000}
ROOMY = 64_000
LOG = prose(2_000, "the log")


def reading(content: str) -> list[Fields]:
    """A conversation in which a tool has printed this."""
    return [user("Read the log"), calls("1"), result("1", content), says("Done."), user("And?")]


async def test_c18_the_compacted_prefix_is_the_same_in_the_turns_that_follow() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        messages = long_chat()
        built = await talk.ask(messages)
        for number in range(MORE_TURNS):
            messages += [says(f"Answer {number}."), user(f"Question {number}?")]
            assert label(await talk.ask(messages)) == "reused"
        breaks = talk.proxy.services.metrics.render().decode()

    assert label(built) == "built"
    assert talk.broken() == []
    assert "chat_proxy_prefix_breaks_total 1.0" in breaks
    assert len(brain.summaries) == 1


async def test_c18_a_restart_changes_nothing_about_it(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/store.db"}
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, store=store) as talk:
        before = await talk.ask(long_chat())
    async with talking(brain, store=store) as talk:
        after = await talk.ask(long_chat())

    assert (label(before), label(after)) == ("built", "reused")
    assert before.upstream == after.upstream


async def test_c19_every_id_in_a_prompt_leads_to_its_text() -> None:
    async with talking(SummaryModel(), window=ROOMY, tools=TOOLS) as talk:
        asked = await talk.ask(reading(LOG))
        (name,) = OFFLOAD.findall(asked.upstream.decode())
        found = await get(talk.line, f"/v1/offload/{name}")

    assert label(asked) == "trimmed"
    assert found.body == LOG.encode()


async def test_c19_the_id_in_a_summary_leads_to_what_it_stands_for() -> None:
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask(long_chat())
        (name,) = OFFLOAD.findall(asked.upstream.decode())
        found = await get(talk.line, f"/v1/offload/{name}")

    assert label(asked) == "built"
    for message in turns(4):
        assert message["content"].splitlines()[0] in found.body.decode()


async def test_c19_what_cannot_be_kept_is_not_cut_and_no_id_is_named(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/store.db", "max_bytes": 1}
    async with talking(SummaryModel(), window=ROOMY, tools=TOOLS, store=store) as talk:
        asked = await talk.ask(reading(LOG))

    assert label(asked) == "none"
    assert asked.upstream == asked.body
    assert not OFFLOAD.search(asked.upstream.decode())


async def test_c19_what_was_cut_is_not_cut_again_when_it_comes_back() -> None:
    brain = SummaryModel()
    async with talking(brain, window=ROOMY, tools=TOOLS) as talk:
        await talk.ask(reading(LOG))
        cut = brain.chats[-1].messages
        again = await talk.ask([*cut, says("So."), user("And then?")])

    assert label(again) == "none"
    assert brain.chats[-1].messages[: len(cut)] == cut
