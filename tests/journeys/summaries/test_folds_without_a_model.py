"""The last thing before an overflow: a fold without a model, when none can write a summary."""

import json
from typing import Any

import pytest

from chat_proxy.compaction.summary.fold_text import NO_SUMMARY
from tests.journeys.summaries.troubles import (
    FRAME,
    RULES,
    SECRET_WORD,
    TRIGGER,
    WINDOW,
    Trouble,
    chatter,
    history,
    outcome,
    troubled,
)
from tests.support.fake_model import Line, begin_stream
from tests.support.strict_template import complaints
from tests.support.summary_model import (
    Question,
    Telling,
    calling,
    empty,
    endless,
    failing,
    garbage,
    good,
    only_thinking,
    refusing,
    unrepaired,
)
from tests.unit.chat.shapes import Fields, result, says, user

pytestmark = pytest.mark.anyio


async def hanging(_: Question, line: Line) -> None:
    """Begin an answer and say nothing more."""
    await begin_stream(line)
    await line.until_closed()


def step(number: int, tokens: int = 200) -> list[Fields]:
    """Return a call and its result."""
    name = f"call-{number}"
    function = {"name": "read_file", "arguments": json.dumps({"path": f"src/module_{number}.py"})}
    found = f"Result {number} begins here\n{chatter(tokens, number)}"
    return [
        says(None, tool_calls=[{"id": name, "type": "function", "function": function}]),
        result(name, found),
    ]


def work(steps: int, name: str = "a") -> list[Fields]:
    """Return an agent's conversation: many turns of one step each."""
    told: list[Fields] = [RULES]
    for number in range(steps):
        told += [user(f"Please read module {name}{number}."), *step(number), says("I read it.")]
    return [*told, user("And what do you think?")]


def folded(messages: list[Fields]) -> str:
    (found,) = [str(it["content"]) for it in messages if FRAME in str(it["content"])]
    return found


@pytest.mark.parametrize(
    "telling",
    [
        hanging,
        pytest.param(failing(500), id="500"),
        pytest.param(failing(429), id="429"),
        pytest.param(failing(400), id="400"),
        empty,
        endless,
        refusing,
        calling,
        only_thinking,
        garbage,
        unrepaired,
    ],
)
async def test_a_request_that_would_not_fit_is_folded_whatever_the_models_do(
    telling: Telling,
) -> None:
    """DESIGN 1.7: the server's own overflow is never reached."""
    summary = {"timeout_seconds": 0.5}
    async with troubled(telling, window=WINDOW, summary=summary) as trouble:
        answered = await trouble.ask(history(26))

        assert outcome(answered) == "failed-open"
        assert [it for it in trouble.brain.overflows if not it.is_summary] == []
        assert NO_SUMMARY in folded(trouble.sent)
        assert complaints(trouble.sent) == []
        assert trouble.sent[0] == RULES
        assert trouble.sent[-1] == history(26)[-1]


async def test_a_request_that_fits_is_not_folded_by_force() -> None:
    async with troubled(failing(500), window=WINDOW) as trouble:
        answered = await trouble.ask(history(20))

        assert outcome(answered) == "failed-open"
        assert trouble.is_unchanged


async def test_every_call_is_noted_with_its_arguments_and_its_place() -> None:
    """The notes say where a result stood among the client's messages, and not all that it said."""
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(work(36))

        text, shown = folded(trouble.sent), str(trouble.sent[2:])
        for number in range(36):
            place, path = 3 + 4 * number, f"src/module_{number}.py"
            noted = f"#{place} read_file(path: {path}) → "
            assert (noted in text) != (path in shown), number
        assert text.count(SECRET_WORD) <= 2 * 10


async def test_every_user_message_is_kept_word_for_word() -> None:
    """BUGS 31: the newest in frames of their own, the older ones in the notes."""
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(work(36))

        whole = json.dumps(trouble.sent)
        for number in range(36):
            assert f"Please read module a{number}." in whole


async def test_what_the_user_wants_remembered_is_kept_with_what_it_refers_to() -> None:
    """ "Please always remember that." alone says nothing."""
    wish = user("I am allergic to peanuts, and so is my son. Please always remember that.")
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask([RULES, wish, says("I will."), *history(60)[1:]])

        assert wish not in trouble.sent
        assert "I am allergic to peanuts, and so is my son." in folded(trouble.sent)
        assert "Please always remember that." in folded(trouble.sent)


async def test_a_fold_without_a_model_fills_its_room() -> None:
    """The prompt stands at its target, half of the trigger for talk that grows so fast."""
    async with troubled(failing(500), window=WINDOW) as trouble:
        answered = await trouble.ask(work(36))

    assert TRIGGER * 0.45 <= int(answered.headers["x-chat-proxy-tokens-after"]) <= TRIGGER * 0.55


async def test_the_same_request_is_folded_to_the_same_bytes_again() -> None:
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(history(26))
        first, asked = trouble.brain.chats[-1].received.body, len(trouble.questions)

        again = await trouble.ask(history(26))

        assert trouble.brain.chats[-1].received.body == first
        assert outcome(again) == "reused"
        assert len(trouble.questions) == asked


async def test_later_requests_keep_the_prefix() -> None:
    given = history(26)
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(given)
        first = trouble.sent

        await trouble.ask([*given, says("That."), user("And then?")])

        assert trouble.sent[: len(first)] == first


async def test_a_model_that_is_well_again_summarises_what_was_only_noted() -> None:
    """DESIGN rule 12: also the messages that were folded without it, as the client sent them."""
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(history(26))
        trouble.now += 60
        trouble.brain.telling = good
        trouble.questions.clear()

        answered = await trouble.ask(history(45))

        assert outcome(answered) == "built"
        shown = "\n".join(text for question in trouble.questions for text in question.texts)
        for number in range(26):
            assert f"In note 0 of a{number}? there is" in shown
        assert folded(trouble.sent).count(FRAME) == 1
        assert NO_SUMMARY not in folded(trouble.sent)


async def grown(trouble: Trouble, turns: int) -> list[str]:
    """Let a conversation grow turn by turn; return what became of each request."""
    return [outcome(await trouble.ask(history(number))) for number in range(20, turns)]


async def test_a_conversation_goes_on_for_ever_without_any_summary() -> None:
    """Each fold by force replaces the one before: the prompt stays inside the window."""
    async with troubled(failing(500), window=WINDOW) as trouble:
        outcomes = await grown(trouble, 150)

        assert trouble.brain.overflows == []
        assert set(outcomes) <= {"none", "reused", "failed-open"}
        sizes = [chat.tokens for chat in trouble.brain.chats]
        assert min(sizes[-40:]) < WINDOW * 0.7


async def test_an_agents_run_goes_on_for_ever_without_any_summary() -> None:
    """BUGS 24: one user message and hundreds of steps; the task stays, and pairs are whole."""
    task = user("Read all modules, and never change one.")
    steps: list[Any] = []
    async with troubled(failing(500), window=WINDOW) as trouble:
        for number in range(150):
            steps += step(number)
            if number > 20:
                await trouble.ask([RULES, task, *steps])
                assert task in trouble.sent
                assert complaints(trouble.sent) == []

        assert trouble.brain.overflows == []


async def test_where_summaries_are_off_only_what_does_not_fit_is_folded() -> None:
    """DESIGN rule 11: if a form fits, it is answered, and no model is asked for it."""
    summary = {"enabled": False}
    async with troubled(good, window=WINDOW, summary=summary) as trouble:
        fitting = await trouble.ask(history(20))
        assert (outcome(fitting), trouble.is_unchanged) == ("none", True)

        answered = await trouble.ask(history(30))

        assert outcome(answered) == "built"
        assert NO_SUMMARY in folded(trouble.sent)
        assert trouble.questions == trouble.brain.overflows == []
