"""A checkpoint applied to a conversation: aged, folded, named by its steps."""

import pytest

from chat_proxy.compaction.ageing.line import RESULT_NOTE
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.session import apply_checkpoint
from tests.unit.chat.shapes import Fields, conversation, image, says, system, text, user
from tests.unit.compaction.examples import at, tool_step
from tests.unit.proxy.sessions import proxy_with

pytestmark = pytest.mark.anyio

LONG = "many words in a line of output\n" * 40
TALK: list[Fields] = [
    system(),
    user([text("look"), image()]),
    says("I see."),
    user("read it"),
    *tool_step("a", "read_file", LONG, path="a.py"),
    says("done"),
    user("now"),
]
TREATMENTS = Treatments(lines=at(5), media=at((1, 0)))


def stored(_: str, __: int) -> str:
    return " [offload id: 0123]"


def test_without_a_checkpoint_nothing_is_changed() -> None:
    talk = conversation(*TALK)

    applied = apply_checkpoint(talk, None, stored)

    assert applied.visible is applied.unfolded is applied.trimmed is talk
    assert (applied.steps, applied.folded_until, applied.summarised_until) == ((), 0, 0)
    assert (applied.start, applied.treatments) == (1, Treatments())


def test_results_and_media_age_in_two_steps() -> None:
    applied = apply_checkpoint(conversation(*TALK), Checkpoint(6, TREATMENTS, 900), stored)

    assert [step.stage for step in applied.steps] == ["age_tool_output", "age_media"]
    assert applied.visible is applied.unfolded
    assert applied.visible.fields[5]["content"].startswith(RESULT_NOTE)
    assert applied.visible.fields[1]["content"][1]["text"].startswith("[Old inline media cleared")


def test_aged_results_name_their_place_only_if_it_is_there() -> None:
    named = Checkpoint(6, TREATMENTS, 900, names_places=True)
    unnamed = Checkpoint(6, TREATMENTS, 900, names_places=False)

    def line(checkpoint: Checkpoint) -> str:
        fields = apply_checkpoint(conversation(*TALK), checkpoint, stored).visible.fields
        return str(fields[5]["content"])

    assert line(named).endswith("[offload id: 0123]")
    assert "offload" not in line(unnamed)


def test_a_folded_text_stands_for_the_messages_before_it() -> None:
    checkpoint = Checkpoint(3, Treatments(), 900, 3, "the text", "s", 3)

    applied = apply_checkpoint(conversation(*TALK), checkpoint, stored)

    assert [step.stage for step in applied.steps] == ["summary"]
    assert list(applied.visible.origins) == [0, None, None, 3, 4, 5, 6, 7]
    assert applied.visible.fields[1] == user("the text")
    assert len(applied.unfolded) == len(TALK)
    assert applied.start == 3


def test_a_summary_that_is_only_prepared_folds_nothing() -> None:
    prepared = Checkpoint(3, Treatments(), 0, 3, "", "## Goal\n- g", 3)

    assert apply_checkpoint(conversation(*TALK), prepared, stored).steps == ()


def test_the_same_checkpoint_gives_the_same_bytes_when_the_conversation_has_grown() -> None:
    """BUGS 21, 44"""
    checkpoint = Checkpoint(6, TREATMENTS, 900, 3, "the text", "s", 3, names_places=True)

    short = apply_checkpoint(conversation(*TALK), checkpoint, stored).visible
    grown = apply_checkpoint(conversation(*TALK, says("ok"), user("more")), checkpoint, stored)

    assert grown.visible.fields[: len(short)] == short.fields


async def test_an_outcome_is_reused_where_something_is_folded() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(TALK)
        folded = Checkpoint(3, Treatments(), 900, 3, "the text", "s", 3)
        aged = Checkpoint(6, TREATMENTS, 900)

        labels = [
            (await session.outcome(await session.apply(checkpoint))).label
            for checkpoint in (None, aged, folded)
        ]

        assert labels == ["none", "none", "reused"]


async def test_a_kept_checkpoint_is_found_by_later_requests_of_its_tenant_only() -> None:
    checkpoint = Checkpoint(3, Treatments(), 900, 3, "the text", "s", 3)
    async with proxy_with() as proxy:
        session = await proxy.session(TALK)
        await session.keep(checkpoint)

        later = await proxy.session([*TALK, says("ok"), user("more")])
        other = await proxy.session(TALK, tenant="other")

        assert await later.find() == checkpoint
        assert await other.find() is None


async def test_a_text_is_signed_for_its_tenant() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(TALK)
        other = await proxy.session(TALK, tenant="other")

        assert session.sign(b"text") == session.sign(b"text") != other.sign(b"text")
        assert len(session.sign(b"text")) == 32
