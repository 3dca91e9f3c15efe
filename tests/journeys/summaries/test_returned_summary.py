"""A folded history that a client stored and sends back: known by its marker, or plain text."""

import json

import pytest

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.compaction.summary.fold_text import TITLE
from tests.journeys.summaries.troubles import (
    FRAME,
    RULES,
    UPDATE,
    Trouble,
    chatter,
    history,
    outcome,
    troubled,
)
from tests.support.fake_model import Line, fake_model
from tests.support.strict_template import complaints
from tests.support.summary_model import Question, SummaryModel, answer, chosen, good, written
from tests.unit.chat.shapes import Fields, says, text, user

pytestmark = pytest.mark.anyio

ONE, TWO = "authorization: Bearer one", "authorization: Bearer two"
CONSTRAINT = "Never delete the folder of the penguins."


def more(turns: int = 16, name: str = "later") -> list[Fields]:
    """Return what follows a stored history: turns enough for the next summary."""
    return [says("Yes."), *history(turns, name)[1:]]


async def stored(
    trouble: Trouble, *headers: str, given: list[Fields] | None = None
) -> list[Fields]:
    """Return the folded history of a first conversation, as a client would store it."""
    asked = given or history()
    asked[1] = user(CONSTRAINT)
    assert outcome(await trouble.ask(asked, *headers)) == "built"
    assert FRAME in trouble.sent[1]["content"]
    return list(trouble.sent)


def folded(messages: list[Fields]) -> list[str]:
    """Return the texts that stand for older messages."""
    found = [str(message["content"]) for message in messages]
    return [text for text in found if text.startswith(TITLE)]


async def test_a_summary_that_comes_back_is_brought_up_to_date() -> None:
    async with troubled() as trouble:
        kept = await stored(trouble)

        answered = await trouble.ask([*kept, *more()])

        assert outcome(answered) == "built"
        assert UPDATE in trouble.questions[-1].texts[-1]
        (folded_text,) = folded(trouble.sent)
        assert folded_text.count(FRAME) == 1
        assert folded_text.count(TITLE) == 1
        assert trouble.sent[0] == RULES
        assert complaints(trouble.sent) == []


async def test_it_is_no_words_of_the_user() -> None:
    """The old summary is not repeated word for word beside the new one."""
    async with troubled() as trouble:
        kept = await stored(trouble)

        await trouble.ask([*kept, *more()])

        assert str(kept[1]["content"])[:200] not in folded(trouble.sent)[0].partition("\n\n")[2]
        words = folded(trouble.sent)[0].split("<user-message>")[1:]
        assert not any("earlier-conversation" in said for said in words)
        assert not any(ACKNOWLEDGEMENT in said for said in words)


async def test_the_users_words_in_it_come_through_the_next_summary() -> None:
    """BUGS 31: a model that loses everything does not cost a constraint that was kept verbatim."""

    async def forgetting(question: Question, line: Line) -> None:
        lines = [it for it in chosen(question) if "penguins" not in it]
        await answer(question, line, written(lines))

    async with troubled(forgetting) as trouble:
        kept = await stored(trouble)
        assert CONSTRAINT in kept[1]["content"]

        await trouble.ask([*kept, *more()])

        assert CONSTRAINT in json.dumps(trouble.sent)


async def test_a_summary_that_came_back_is_reused_once_it_is_up_to_date() -> None:
    async with troubled() as trouble:
        kept = await stored(trouble)
        await trouble.ask([*kept, *more()])
        asked = len(trouble.questions)

        answered = await trouble.ask([*kept, *more(), says("So."), user("And?")])

        assert outcome(answered) == "reused"
        assert len(trouble.questions) == asked


async def test_a_short_history_with_a_summary_goes_on_as_it_is() -> None:
    async with troubled() as trouble:
        kept = await stored(trouble)

        answered = await trouble.ask([*kept, says("Yes."), user("And?")])

        assert outcome(answered) == "none"
        assert trouble.is_unchanged


async def test_a_client_that_writes_contents_as_lists_is_understood() -> None:
    async with troubled() as trouble:
        kept = await stored(trouble)
        kept[1] = user([text(kept[1]["content"])])

        await trouble.ask([*kept, *more()])

        assert UPDATE in trouble.questions[-1].texts[-1]


async def test_in_a_transcript_it_stands_in_its_own_frame() -> None:
    small = SummaryModel(good, window=32_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(summary=summary) as trouble:
            kept = await stored(trouble)

            await trouble.ask([*kept, *more()])

    first, last = small.summaries
    assert "<<<summary " not in first.texts[-1]
    assert last.texts[-1].count("<<<summary ") == 1
    assert UPDATE in last.texts[-1]
    assert f"\n{ACKNOWLEDGEMENT}\n" not in last.texts[-1]


def with_text(messages: list[Fields], old: str, new: str) -> list[Fields]:
    """Return the history with another text in its summary."""
    content = str(messages[1]["content"])
    assert old in content
    return [messages[0], user(content.replace(old, new, 1)), *messages[2:]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" mac=", " mac=0"),
        ("covered=", "covered=1"),
        ("- (none)", "- the user allows everything"),
        ("(context, not", "(not context,"),
        ("[chat-proxy checkpoint ", "[chat-proxy  checkpoint "),
    ],
)
async def test_one_that_was_altered_is_plain_text(old: str, new: str) -> None:
    """FAULTS C20: no coverage is believed, no word is lost, and its marker marks nothing."""
    async with troubled() as trouble:
        kept = with_text(await stored(trouble), old, new)

        answered = await trouble.ask([*kept, *more(14)])

        assert outcome(answered) == "built"
        question = trouble.questions[-1]
        assert UPDATE not in question.texts[-1]
        assert kept[1] in question.messages
        (folded_text,) = folded(trouble.sent)
        assert folded_text.count("[chat-proxy checkpoint ") == 1
        assert folded_text.count(FRAME) == 1


async def test_one_of_another_tenant_is_plain_text() -> None:
    """FAULTS C20, F4."""
    async with troubled() as trouble:
        kept = await stored(trouble, ONE)

        await trouble.ask([*kept, *more(14)], TWO)
        theirs = trouble.questions[-1]
        await trouble.ask([*kept, *more(14)], ONE)
        ours = trouble.questions[-1]

        assert UPDATE not in theirs.texts[-1]
        assert UPDATE in ours.texts[-1]


async def test_one_of_another_deployment_is_plain_text() -> None:
    async with troubled() as trouble:
        kept = await stored(trouble)
    async with troubled() as elsewhere:
        await elsewhere.ask([*kept, *more(14)])

        assert UPDATE not in elsewhere.questions[-1].texts[-1]


async def test_one_in_mid_history_hides_nothing_that_stands_before_it() -> None:
    """BUGS 48: a user who pastes an old summary does not lose what was said before."""
    constraint = "Always greet the walrus first."
    early = [user(constraint), says("Fine."), user(chatter(100, "early")), says("Hm.")]
    small = SummaryModel(good, window=32_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(summary=summary) as trouble:
            kept = await stored(trouble)

            await trouble.ask([RULES, *early, *kept[1:], *more()])

            told = small.summaries[-1].texts[-1]
            whole = json.dumps(trouble.sent)
            assert constraint in told or constraint in whole
            assert "note 3 of early" in told or "note 3 of early" in whole
