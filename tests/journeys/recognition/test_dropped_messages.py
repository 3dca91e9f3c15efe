"""What a client drops from its list stays in the fold, however often it is compacted again."""

import pytest

from tests.journeys.recognition.clients import chat, has_fold, last_messages
from tests.journeys.summaries.talking import WINDOW, talking
from tests.journeys.trimming.growing import Asked
from tests.support.fake_model import Line
from tests.support.summary_model import Question, SummaryModel, answer
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

DEMAND = "You must never deploy on Fridays, the reason is ticket FRIDAY-77."
DROPPED = 4
COMPACTIONS = 3
MOST_REFUSALS_PER_REQUEST = 0.07


async def refusal(question: Question, line: Line) -> None:
    await answer(question, line, "I'm sorry, I can't help with that.")


def fold_in(asked: Asked) -> str:
    """Return the folded text of a prompt, empty if there is none."""
    folds = [it for it in asked.messages if has_fold([it])]
    return str(folds[0]["content"]) if folds else ""


def without_oldest(messages: list[Fields]) -> list[Fields]:
    return [messages[0], *messages[1 + DROPPED :]]


async def test_the_users_demand_outlives_its_message() -> None:
    histories = [[messages[0], user(DEMAND), *messages[2:]] for messages in chat(60)]
    folds: list[str] = []
    async with talking(SummaryModel(refusal, WINDOW)) as talk:
        for messages in histories:
            asked = await talk.ask(without_oldest(messages) if folds else messages)
            if (fold := fold_in(asked)) and fold not in folds:
                folds.append(fold)

    assert len(folds) > COMPACTIONS
    assert all("FRIDAY-77" in fold for fold in folds)
    words = folds[-1].split("<user-message>\n")[1:]
    assert len(words) == len(set(words))


async def test_a_model_that_refuses_is_not_asked_again_because_the_oldest_are_dropped() -> None:
    histories = [last_messages(40)(messages, 0) for messages in chat(65, 300)]
    brain = SummaryModel(refusal, WINDOW)
    async with talking(brain) as talk:
        asked = [await talk.ask(messages) for messages in histories]

    assert 0 < len(brain.summaries) <= MOST_REFUSALS_PER_REQUEST * len(asked)
