"""A conversation that grows turn by turn to twenty times its window."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.journeys.summaries.talking import SYSTEM, Talk, label, prose, talking
from tests.journeys.trimming.growing import has_whole_pairs, listening, step
from tests.support.strict_template import complaints
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.timeout(600)

WINDOW = 6_000
TRIGGER = 4_200
TARGET = 2_100
"""Half of the trigger: this conversation grows by a tenth of its window with every request."""
TIMES = 20
DEFAULT_PREPARE = 0.65


@dataclass
class Grown:
    """What a conversation came to."""

    brain: SummaryModel
    talk: Talk
    compactions: list[str]

    @property
    def added(self) -> int:
        """The tokens of the whole history, by the proxy's count."""
        return self.talk.asked[-1].tokens[0]

    @property
    def afterwards(self) -> list[int]:
        """The tokens that each compaction left."""
        asked = {it.headers["x-request-id"]: it for it in self.talk.asked}
        return [asked[name].tokens[1] for name in self.compactions]


def chat_log() -> Iterator[list[Fields]]:
    """Yield turns of many sizes without end; every sixth calls tools before it answers."""
    number = 0
    while True:
        size = (150, 600, 900, 300, 1_200)[number % 5]
        steps = step(str(number), prose(200, number), "none") if number % 6 == 5 else []
        yield [*steps, says(prose(size, f"answer {number}"))]
        number += 1


async def grow(talk: Talk, times: int) -> None:
    """Ask, take in the answer and ask again, until the history has so many windows."""
    messages = [SYSTEM, user("Question 0: where do we begin in src/main.py?")]
    for number, exchange in enumerate(chat_log(), 1):
        asked = await talk.ask(messages)
        if asked.tokens[0] >= times * WINDOW:
            return
        messages = [*messages, *exchange, user(f"Question {number}: and src/part_{number}.py?")]


async def growing(factor: float, prepare: float, times: int) -> Grown:
    """Wait at the trigger where nothing is prepared, else only for what does not fit."""
    brain = SummaryModel(window=WINDOW, factor=factor)
    sections = {
        "budget": {"prepare": prepare},
        "summary": {"wait": "trigger" if prepare == 1 else "overflow"},
    }
    with listening() as log:
        async with talking(brain, window=WINDOW, **sections) as talk:
            await grow(talk, times)
            compactions = await log.compactions(len(talk.asked))
    return Grown(brain, talk, compactions)


@cache
def grown(prepare: float, factor: float, times: int) -> Grown:
    """Let a conversation grow in front of a model that counts in its own way."""
    return asyncio.run(growing(factor, prepare, times))


def twenty_windows(prepare: float = 1) -> Grown:
    """Return the whole conversation, which is held once for all tests."""
    return grown(prepare, 1.05, TIMES)


@pytest.mark.parametrize("prepare", [1, DEFAULT_PREPARE])
def test_a_conversation_of_twenty_windows_is_answered_to_its_end(prepare: float) -> None:
    """BUGS 7, 10: few compactions, which end below the trigger, none over the window.

    On a slow machine the conversation outruns a summary that is being prepared, which is used all
    the same: then one compaction follows another.
    """
    result = twenty_windows(prepare)

    assert result.added >= TIMES * WINDOW
    assert result.brain.overflows == []
    assert 3 <= len(result.brain.summaries) <= result.added / (TRIGGER / 3) + 1
    late = [tokens for tokens in result.afterwards if tokens >= TRIGGER]
    assert len(late) <= (0 if prepare == 1 else len(result.afterwards) // 4)


def test_a_compaction_ends_at_its_target_and_not_far_below() -> None:
    """What a fold may hold is used: a window that stays empty has forgotten for nothing."""
    afterwards = twenty_windows().afterwards

    assert max(afterwards) <= 1.02 * TARGET
    assert sum(afterwards) / len(afterwards) >= 0.9 * TARGET


@pytest.mark.parametrize("prepare", [1, DEFAULT_PREPARE])
def test_between_compactions_every_prompt_begins_with_the_one_before(prepare: float) -> None:
    """BUGS 44: the same fold has the same bytes in every request."""
    result = twenty_windows(prepare)

    assert result.talk.broken() == result.compactions
    assert {label(it) for it in result.talk.asked} >= {"none", "reused"}


def test_every_prompt_of_a_long_conversation_is_one_that_a_strict_template_takes() -> None:
    """BUGS 3, 4: no late system message and no two of a kind in a row, in any request."""
    for asked in twenty_windows().talk.asked:
        assert complaints(asked.messages) == []
        assert has_whole_pairs(asked.messages)


def test_a_summary_is_brought_up_to_date_and_never_begun_anew() -> None:
    """The second question stands behind the first summary, and the fold has one of them only."""
    result = twenty_windows()

    update = "An earlier summary stands at the beginning"
    first, *others = [update in it.texts[-1] for it in result.brain.summaries]
    assert not first
    assert sum(others) > len(others) / 3
    for asked in result.talk.asked:
        assert asked.upstream.count(b"Summary of earlier conversation") <= 1


@pytest.mark.parametrize("prepare", [1, DEFAULT_PREPARE])
def test_every_question_for_a_summary_leaves_room_for_its_answer(prepare: float) -> None:
    """BUGS 11: prompt and answer together are below the window, strictly, by the model's count."""
    for question in twenty_windows(prepare).brain.summaries:
        assert question.tokens + question.max_tokens < WINDOW


@pytest.mark.parametrize("factor", [0.8, 1.4])
def test_a_model_that_counts_otherwise_gets_no_prompt_over_its_window(factor: float) -> None:
    """BUGS 12: the trigger follows what the model itself has counted."""
    result = grown(1, factor, 6)

    assert result.brain.overflows == []
    assert result.talk.broken() == result.compactions
    assert 3 <= len(result.brain.summaries) <= result.added / (TRIGGER / 2) + 1


@pytest.mark.anyio
async def test_a_client_that_writes_blanks_between_its_words_keeps_its_prefix_too() -> None:
    """Rule 5 holds for the bytes of any client's own way to write JSON."""
    brain = SummaryModel(window=WINDOW)
    with listening() as log:
        async with talking(brain, window=WINDOW) as talk:
            talk.separators = (", ", ": ")
            await grow(talk, 3)
            compactions = await log.compactions(len(talk.asked))

    assert len(compactions) >= 3
    assert talk.broken() == compactions
