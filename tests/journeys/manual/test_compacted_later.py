"""What `POST /v1/chat/compact` folded is found by later requests, and brought up to date."""

import json
from pathlib import Path

import pytest

from chat_proxy.compaction.summary.fold_text import TITLE
from tests.journeys.manual.hands import (
    MARKER,
    SHORT,
    UPDATE,
    WISH,
    brief,
    compacted,
    model,
    post_compact,
    sent,
    small_chat,
)
from tests.journeys.summaries.talking import (
    SYSTEM,
    label,
    long_chat,
    talking,
    talking_to,
    turns,
)
from tests.support.fake_model import fake_model
from tests.support.summary_model import (
    good,
    in_turn,
)
from tests.unit.chat.shapes import image, says, text, user

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", ["small", "large"])
async def test_later_requests_with_the_original_history_reuse_it(size: str) -> None:
    given = small_chat() if size == "small" else long_chat(20)[:-1]
    async with talking(model()) as talk:
        done = await compacted(talk, given)
        asked = await talk.ask([*given, user("And now?")])
        again = await talk.ask([*given, user("And now?"), says("Well."), user("And then?")])

        assert label(asked) == label(again) == "reused"
        assert talk.brain.chats[0].messages == [*done["messages"], user("And now?")]
        assert talk.broken() == []


async def test_another_replica_finds_it_too(tmp_path: Path) -> None:
    """However small the conversation is: they share a store, and no session."""
    given = small_chat()
    store = {"url": f"sqlite:///{tmp_path}/shared.db"}
    async with (
        fake_model(model()) as upstream,
        talking_to(upstream, store=store) as here,
        talking_to(upstream, store=store) as there,
    ):
        await compacted(here, given)
        asked = await there.ask([*given, user("And now?")])

    assert label(asked) == "reused"


async def test_other_conversations_of_the_tenant_go_on_as_they_are() -> None:
    async with talking(model()) as talk:
        await compacted(talk, small_chat())
        asked = await talk.ask([SYSTEM, *turns(3, 240, first=50), user("And now?")])

        assert label(asked) == "none"
        assert asked.upstream == asked.body


async def test_a_request_without_messages_goes_on_as_it_is() -> None:
    async with talking(model()) as talk:
        await compacted(talk, small_chat())
        asked = await talk.ask([])

    assert asked.upstream == asked.body


async def test_another_tenant_has_no_part_in_it() -> None:
    one, two = "authorization: Bearer one", "authorization: Bearer two"
    given = small_chat()
    async with talking(model()) as talk:
        await post_compact(talk.line, given, one)
        theirs = await talk.ask([*given, user("And now?")], two)
        ours = await talk.ask([*given, user("And now?")], one)

    assert (label(theirs), label(ours)) == ("none", "reused")


async def test_the_compacted_list_goes_on_as_it_is_and_is_brought_up_to_date_later() -> None:
    async with talking(model()) as talk:
        done = await compacted(talk, small_chat())
        asked = await talk.ask([*done["messages"], user("And now?")])
        assert asked.upstream == asked.body

        more = [*done["messages"], *turns(3, 240, first=60)]
        second = await compacted(talk, more)

        assert UPDATE in talk.brain.summaries[-1].texts[-1]
        assert second["messages"][3:] == more[-2:]
        assert json.dumps(second["messages"]).count(MARKER) == 1


async def test_the_same_again_asks_no_model_again() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        first = await compacted(talk, given)
        answered = await post_compact(talk.line, given)

        assert json.loads(answered.body) == first
        assert label(answered) == "reused"
        assert len(talk.brain.summaries) == 1


async def test_another_instruction_has_it_written_anew() -> None:
    given = small_chat()
    async with talking(model(in_turn(good, brief))) as talk:
        first = await compacted(talk, given)
        second = await compacted(talk, given, instruction=WISH)
        await talk.ask([*given, user("And now?")])

        assert first["summary"] != second["summary"] == SHORT
        assert UPDATE not in talk.brain.summaries[-1].texts[-1]
        assert SHORT in sent(talk)[1]["content"]


async def test_more_turns_than_an_earlier_summary_left_come_back() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        await compacted(talk, given)
        done = await compacted(talk, given, keep=3)
        await talk.ask([*given, user("And now?")])

        assert done["messages"][3:] == given[-6:]
        assert sent(talk)[3:-1] == given[-6:]


async def test_what_was_said_since_is_worked_into_the_earlier_summary() -> None:
    given = small_chat()
    later = [*given, *turns(4, 240, first=70)]
    async with talking(model(brief)) as talk:
        await compacted(talk, given)
        done = await compacted(talk, later)

        assert UPDATE in talk.brain.summaries[-1].texts[-1]
        assert done["checkpoint"] == {"covered": len(later) - 2}
        assert done["messages"][3:] == later[-2:]


async def test_turns_that_the_vision_stage_drops_are_summed_up_as_well() -> None:
    given = [*small_chat(), user([text("And this?"), image()]), says("A penguin.")]
    async with talking(model()) as talk:
        done = await compacted(talk, given)
        await talk.ask([*given, user("And now?")])

        assert done["messages"][3:] == given[-2:]
        assert sent(talk)[1]["content"].startswith(TITLE)


async def test_a_model_whose_window_nobody_knows_is_compacted_too() -> None:
    given = small_chat()
    async with talking(model(), budget={"context_window": None}) as talk:
        await compacted(talk, given)
        asked = await talk.ask([*given, user("And now?")])

    assert label(asked) == "reused"
