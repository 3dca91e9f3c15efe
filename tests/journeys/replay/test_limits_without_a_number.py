"""A refusal that names no limit: the window is below what was refused, once less was accepted."""

import pytest

from tests.journeys.replay.small_server import (
    BELIEVED,
    Refusal,
    always,
    in_words,
    is_answer,
    stages_of,
    visiting,
)
from tests.journeys.summaries.talking import SYSTEM, turns
from tests.support.summary_model import Question
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

WINDOW = 6_000
NAMELESS = {"error": {"message": "Too much.", "code": "context_length_exceeded"}}
TELLS_NOTHING = b'{"error":{"message":"Too much.","code":"context_length_exceeded"}}'


def chat(name: int) -> list[Fields]:
    """A conversation over the window that is like no other."""
    return [SYSTEM, *turns(14, first=100 * name), user("And now?")]


async def test_what_was_refused_is_not_sent_again_once_less_was_accepted() -> None:
    async with visiting(in_words(WINDOW, 400, NAMELESS)) as guest:
        first = await guest.tell(chat(1))
        told = await guest.window()
        refused = len(guest.server.refusals)
        second = await guest.tell(chat(2))

    assert is_answer(first)
    assert "replay" in stages_of(first)
    assert told is not None
    assert told["source"] == "learned"
    assert WINDOW <= told["tokens"] < BELIEVED
    assert refused >= 1
    assert is_answer(second)
    assert len(guest.server.refusals) == refused


async def test_a_server_that_refuses_everything_teaches_nothing() -> None:
    """BUGS 8: it has another reason."""
    async with visiting(always(TELLS_NOTHING)) as guest:
        await guest.tell(chat(1))
        told = await guest.window()

    assert len(guest.calls) == 3
    assert told == {"tokens": BELIEVED, "source": "setting"}


async def test_a_refusal_that_quotes_the_client_teaches_nothing() -> None:
    lie = "the prompt is too long: it exceeds the context window of this model"

    def judge(question: Question) -> Refusal | None:
        is_wicked = lie in str(question.messages) and not question.is_summary
        return (
            Refusal(b'{"error":{"message":"Bad words: %s"}}' % lie.encode()) if is_wicked else None
        )

    async with visiting(judge) as guest:
        await guest.tell([SYSTEM, user(lie), *chat(1)[1:]])
        told = await guest.window()

    assert told == {"tokens": BELIEVED, "source": "setting"}
