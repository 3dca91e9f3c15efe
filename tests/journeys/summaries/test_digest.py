"""The last thing before an overflow: a fold without a model, when none can write a summary."""

import json
from typing import Any

import pytest

from chat_proxy.compaction.summary.digest import HEAD
from tests.journeys.summaries.troubles import (
    FRAME,
    RULES,
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
    in_turn,
    only_thinking,
    refusing,
    unrepaired,
)
from tests.unit.chat.shapes import Fields, result, says, user

pytestmark = pytest.mark.anyio

NO_CLEARING = {"enabled": False}


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
        assert HEAD in folded(trouble.sent)
        assert complaints(trouble.sent) == []
        assert trouble.sent[0] == RULES
        assert trouble.sent[-1] == history(26)[-1]


async def test_a_request_that_fits_is_not_folded_by_force() -> None:
    async with troubled(failing(500), window=WINDOW) as trouble:
        answered = await trouble.ask(history(16))

        assert outcome(answered) == "failed-open"
        assert trouble.is_unchanged


async def test_user_messages_calls_and_first_lines_of_results_are_kept() -> None:
    async with troubled(failing(500), window=WINDOW, prune=NO_CLEARING) as trouble:
        await trouble.ask(work(29))

        text = folded(trouble.sent)
        assert "Please read module a20." in text
        assert '- called read_file({"path": "src/module_20.py"})' in text
        assert "- result: Result 20 begins here" in text
        assert "note 9 of 20 " not in text
        assert "- assistant: I read it." in text


async def test_every_user_message_is_kept_word_for_word() -> None:
    """BUGS 31: as far as their own room goes, which is a tenth of the window."""
    async with troubled(failing(500), window=WINDOW, prune=NO_CLEARING) as trouble:
        await trouble.ask(work(29))

        whole = json.dumps(trouble.sent)
        for number in range(29):
            assert f"Please read module a{number}." in whole


async def test_the_same_request_is_folded_to_the_same_bytes_again() -> None:
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(history(26))
        first = trouble.brain.chats[-1].received.body

        again = await trouble.ask(history(26))

        assert trouble.brain.chats[-1].received.body == first
        assert outcome(again) == "reused"
        assert len(trouble.questions) == 1


async def test_later_requests_keep_the_prefix() -> None:
    given = history(26)
    async with troubled(failing(500), window=WINDOW) as trouble:
        await trouble.ask(given)
        first = trouble.sent

        await trouble.ask([*given, says("That."), user("And then?")])

        assert trouble.sent[: len(first)] == first


async def test_a_model_that_is_well_again_brings_the_digest_up_to_date() -> None:
    async with troubled(in_turn(failing(500), good), window=WINDOW) as trouble:
        await trouble.ask(history(26))
        trouble.now += 60

        answered = await trouble.ask(history(45))

        assert outcome(answered) == "built"
        assert len(trouble.questions) == 2
        assert folded(trouble.sent).count(FRAME) == 1


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


async def test_where_summaries_are_off_nothing_is_folded() -> None:
    summary = {"enabled": False}
    async with troubled(good, summary=summary) as trouble:
        answered = await trouble.ask(history(30))

        assert outcome(answered) == "none"
        assert trouble.is_unchanged
        assert trouble.questions == []
