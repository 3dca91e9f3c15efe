"""Whose summary it is: found by the content of a history alone, by the same tenant alone."""

import random
from collections.abc import Callable
from copy import deepcopy

import pytest

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.memory import MemoryStore
from tests.journeys.summaries.talking import SYSTEM, WINDOW, Talk, label, long_chat, talking
from tests.journeys.trimming.growing import Asked
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, calls, result, says, system, user
from tests.unit.proxy.session.recognition.histories import history

pytestmark = pytest.mark.anyio

ALICE, BOB = "authorization: Bearer alice", "authorization: Bearer bob"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
PAIRS = 4_000


async def asked_twice(
    talk: Talk, change: Callable[[list[Fields], int], None]
) -> tuple[Asked, Asked]:
    """Send a history and then a changed one; the change is told where the fold's tail begins."""
    given = long_chat()
    first = await talk.ask(given)
    tail = len(given) - (len(first.messages) - 3)
    changed = deepcopy(given)
    change(changed, tail)
    return first, await talk.ask(changed)


async def labels_of(change: Callable[[list[Fields], int], None]) -> tuple[str, str, int]:
    """Return what became of both, and how many summaries were written."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        first, second = await asked_twice(talk, change)
    return label(first), label(second), len(brain.summaries)


@pytest.mark.parametrize("place", [1, 2, "last"])
async def test_an_edit_inside_the_covered_span_is_another_history(place: int | str) -> None:
    """BUGS 36: not one word may differ in what a summary stands for."""

    def change(messages: list[Fields], tail: int) -> None:
        index = tail - 1 if place == "last" else int(place)
        messages[index]["content"] += "!"

    assert await labels_of(change) == ("built", "built", 2)


@pytest.mark.parametrize("place", [0, 1, -1])
async def test_an_edit_behind_the_covered_span_keeps_the_summary(place: int) -> None:
    """A branch shares what lies before it."""

    def change(messages: list[Fields], tail: int) -> None:
        messages[tail + place if place >= 0 else place]["content"] += " Really?"

    assert await labels_of(change) == ("built", "reused", 1)


async def test_a_branch_that_leaves_out_the_last_turn_keeps_the_summary() -> None:
    def change(messages: list[Fields], _: int) -> None:
        del messages[-3:-1]

    assert await labels_of(change) == ("built", "reused", 1)


async def test_a_changed_system_message_is_sent_beside_the_same_summary() -> None:
    """BUGS 45: the fold is reused, and the instructions are those of this request."""
    brain = SummaryModel(window=WINDOW)
    careless = system("You are careless. " * 20)
    async with talking(brain) as talk:
        first = await talk.ask(long_chat())
        second = await talk.ask([careless, *long_chat()[1:]])

    assert (label(first), label(second)) == ("built", "reused")
    assert len(brain.summaries) == 1
    assert first.messages[0] == SYSTEM
    assert second.messages == [careless, *first.messages[1:]]


async def test_a_moved_cache_mark_is_no_change() -> None:
    """BUGS 40: some clients move it with every request."""

    def change(messages: list[Fields], _: int) -> None:
        messages[1]["cache_control"] = {"type": "ephemeral"}

    assert await labels_of(change) == ("built", "reused", 1)


async def test_a_requests_own_tools_are_sent_beside_a_summary_written_without_them() -> None:
    """BUGS 45: the fold is reused, and the tools are those of this request."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        await talk.ask(long_chat())
        talk.fields["tools"] = TOOLS
        asked = await talk.ask(long_chat())

    assert label(asked) == "reused"
    assert brain.chats[-1].fields["tools"] == TOOLS
    assert "tools" not in brain.chats[0].fields


async def test_another_tenant_with_the_same_messages_gets_a_summary_of_its_own() -> None:
    """BUGS 36: the tenant is part of the key, and each asks with its own authorization."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        labels = [label(await talk.ask(long_chat(), who)) for who in (ALICE, BOB, ALICE, BOB)]

    assert labels == ["built", "built", "reused", "reused"]
    asked_by = [question.received.header("authorization") for question in brain.summaries]
    assert asked_by == ["Bearer alice", "Bearer bob"]


async def test_another_model_gets_a_summary_of_its_own() -> None:
    """BUGS 36: what one model wrote for its window is not another's."""
    brain = SummaryModel(window=WINDOW, names=("fake", "other"))
    async with talking(brain) as talk:
        await talk.ask(long_chat())
        talk.fields["model"] = "other"
        asked = await talk.ask(long_chat())

    assert label(asked) == "built"
    assert [it.fields["model"] for it in brain.summaries] == ["fake", "other"]


def some_history(dice: random.Random) -> list[Fields]:
    """Return a small history; many have the same beginning, as those of one program have."""
    messages: list[Fields] = [SYSTEM, user(dice.choice(["Hi", "Hello", "Fix it"]))]
    for number in range(dice.randint(1, 4)):
        if dice.random() < 0.3:
            messages += [calls(f"c{number}"), result(f"c{number}", str(dice.randint(0, 3)))]
        messages += [says(dice.choice(["ok", "no", "so"])), user(str(dice.randint(0, 3)))]
    return messages


def edit(messages: list[Fields], dice: random.Random) -> None:
    chosen = dice.choice(messages[1:])
    chosen["content"] = f"{chosen['content']}!"


def drop(messages: list[Fields], dice: random.Random) -> None:
    del messages[dice.randrange(1, len(messages))]


def insert(messages: list[Fields], dice: random.Random) -> None:
    messages.insert(dice.randint(1, len(messages) - 1), user("between"))


def another_role(messages: list[Fields], _: random.Random) -> None:
    messages[1]["role"] = "developer"


def another_field(messages: list[Fields], dice: random.Random) -> None:
    spoken = [message for message in messages[1:] if message["role"] != "tool"]
    dice.choice(spoken)["name"] = "eve"


def moved_words(messages: list[Fields], _: random.Random) -> None:
    """Let two messages say together what they said before, cut at another place."""
    messages[1]["content"] += messages[2].get("content") or "?"
    messages[2]["content"] = ""


def swap(messages: list[Fields], _: random.Random) -> None:
    messages[1], messages[2] = messages[2], messages[1]


EDITS = (edit, drop, insert, another_role, another_field, moved_words, swap)


async def keep_for(
    checkpoints: Checkpoints, scope: Scope, messages: list[Fields], own: Checkpoint
) -> None:
    """Leave a checkpoint behind for all of these messages, as a request does."""
    await checkpoints.keep(scope, history(*messages), own)


async def found_for(
    checkpoints: Checkpoints, scope: Scope, messages: list[Fields]
) -> Checkpoint | None:
    """Look for what was left behind for these messages, as a request does."""
    return await checkpoints.find(scope, history(*messages), len(messages))


async def test_of_thousands_of_pairs_no_history_gets_a_foreign_summary() -> None:
    """BUGS 36: 0 foreign reuse, and the own history always finds its own."""
    dice = random.Random(5)
    foreign = missed = 0
    for number in range(PAIRS):
        checkpoints = Checkpoints(MemoryStore(b"secret"), max_local=20)
        scope = Scope("alice", b"policy")
        messages = some_history(dice)
        own = Checkpoint(len(messages), Treatments(), 100, len(messages), f"Summary {number}")
        await keep_for(checkpoints, scope, messages, own)
        missed += await found_for(checkpoints, scope, [*messages, says("and so on")]) != own
        other, stranger = deepcopy(messages), scope
        if number % 10 == 0:
            stranger = dice.choice([Scope("bob", b"policy"), Scope("alice", b"another")])
        elif number % 10 == 1:
            stranger = Scope("alicep", b"olicy")
        else:
            EDITS[number % len(EDITS)](other, dice)
        foreign += await found_for(checkpoints, stranger, [*other, says("and so on")]) is not None

    assert (foreign, missed) == (0, 0)


async def test_of_many_conversations_in_one_store_each_finds_its_own() -> None:
    """BUGS 36: a common system prompt and a common first message tell nobody apart."""
    dice = random.Random(7)
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    scope = Scope("alice", b"policy")
    kept: dict[bytes, Checkpoint] = {}
    histories = [some_history(dice) for _ in range(1_000)]
    for number, messages in enumerate(histories):
        link, until = history(*messages).links[-1], len(messages)
        kept[link] = Checkpoint(until, Treatments(), 100, until, f"Summary {number}")
        await keep_for(checkpoints, scope, messages, kept[link])

    for messages in histories:
        link = history(*messages).links[-1]
        assert await found_for(checkpoints, scope, messages) == kept[link]
