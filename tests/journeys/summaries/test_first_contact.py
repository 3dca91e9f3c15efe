"""A history of many windows at first contact: summarised in parallel parts, in one pass."""

import asyncio
import re
from dataclasses import dataclass, field

import pytest

from chat_proxy.compaction.summary.fold_text import NO_SUMMARY
from chat_proxy.compaction.summary.prompt import SECTIONS
from chat_proxy.proxy.summaries.writing.parts import MAX_PARTS
from tests.journeys.summaries.talking import TRIGGER, WINDOW, label, long_chat, talking, turns
from tests.journeys.trimming.growing import Asked
from tests.support.fake_model import Line
from tests.support.strict_template import complaints
from tests.support.summary_model import Question, SummaryModel, empty, failing, good
from tests.unit.chat.shapes import user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

TURNS = 92
"""About five and a half windows."""


@dataclass
class Crowd:
    """A model that writes slowly and counts how many summaries it writes at once."""

    busy: int = 0
    most: int = 0
    questions: list[Question] = field(default_factory=list)

    async def __call__(self, question: Question, line: Line) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.questions.append(question)
        await asyncio.sleep(0.5)
        self.busy -= 1
        await good(question, line)


def shown(questions: list[Question]) -> list[int]:
    """Return how many questions show each of the turns, and not only a line of it."""
    texts = ["\n".join(question.texts) for question in questions]
    return [
        sum(text.count(f"About answer {number}:") > 5 for text in texts) for number in range(TURNS)
    ]


def folded_turns(asked: Asked) -> int:
    """Return how many turns a fold stands for."""
    left = [it for it in asked.messages[3:] if str(it["content"]).startswith("About answer")]
    return TURNS - len(left)


def fold_of(asked: Asked) -> str:
    return str(asked.messages[1]["content"])


async def test_all_parts_are_asked_for_at_once_and_each_turn_is_in_one_of_them() -> None:
    """Nobody waits for one part after the other, and nothing is folded unseen."""
    crowd = Crowd()
    brain = SummaryModel(crowd, window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(TURNS))

    folded = folded_turns(asked)
    assert 5 * WINDOW < asked.tokens[0] < 6 * WINDOW
    assert label(asked) == "built"
    assert crowd.most == len(brain.summaries) <= MAX_PARTS
    assert shown(brain.summaries)[:folded] == [1] * folded
    assert folded < TURNS


async def test_every_part_fits_its_model_and_the_prompt_its_target() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(TURNS))

    assert brain.overflows == []
    assert all(it.tokens + it.max_tokens < WINDOW for it in brain.summaries)
    assert asked.tokens[1] <= TRIGGER * 0.5
    assert complaints(asked.messages) == []
    assert len(brain.chats) == 1


async def test_the_parts_become_one_summary_in_their_order() -> None:
    """Every section stands there once, with something of the beginning and of the end in it."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(TURNS))

    summary = fold_of(asked).partition("<earlier-conversation>")[2].partition("</earlier")[0]
    told = [int(line.split()[3].strip(":")) for line in summary.splitlines() if "About an" in line]
    assert [summary.count(f"## {section}\n") for section in SECTIONS] == [1] * len(SECTIONS)
    assert told == sorted(told)
    assert told[0] < 10
    assert told[-1] > 75


async def test_what_was_summarised_is_never_asked_for_again() -> None:
    brain = SummaryModel(window=WINDOW)
    given = long_chat(TURNS)
    async with talking(brain) as talk:
        first = await talk.ask(given)
        parts = len(brain.summaries)
        again = await talk.ask(given)
        later = await talk.ask([*given, *turns(8, first=200)[1:], user("And then?")])

    (update,) = brain.summaries[parts:]
    assert [label(it) for it in (first, again, later)] == ["built", "reused", "built"]
    assert again.upstream == first.upstream
    assert "An earlier summary stands at the beginning" in update.texts[-1]
    assert sum(shown([update])) <= TURNS - folded_turns(first)


async def test_a_part_that_was_shown_by_halves_is_shown_whole_in_the_end() -> None:
    """A model that says nothing to a long part gets the first half, and then the rest."""

    async def overwhelmed(question: Question, line: Line) -> None:
        await (empty if question.tokens > 4_000 else good)(question, line)

    brain = SummaryModel(overwhelmed, window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(TURNS))

    written = [question for question in brain.summaries if question.tokens <= 4_000]
    folded = folded_turns(asked)
    assert label(asked) == "built"
    assert shown(written)[:folded] == [1] * folded


async def test_a_model_that_just_failed_is_asked_about_one_part_before_all_others() -> None:
    """A model that writes nothing would keep its server busy with all parts in vain."""
    brain = SummaryModel(empty, window=WINDOW)
    async with talking(brain) as talk:
        await talk.ask(long_chat(TURNS))
        in_vain = len(brain.summaries)
        brain.telling = good
        asked = await talk.ask([user("Another chat."), *long_chat(TURNS)[1:]])

    (question,) = brain.summaries[in_vain:]
    seen = shown([question])
    assert in_vain > 1
    assert label(asked) == "built"
    assert seen == sorted(seen, reverse=True)
    assert 0 < sum(seen) < folded_turns(asked)


async def test_where_most_parts_fail_the_fold_is_made_without_a_model() -> None:
    brain = SummaryModel(failing(500), window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(TURNS))

    assert label(asked) == "failed-open"
    assert NO_SUMMARY in fold_of(asked)
    assert asked.tokens[1] <= TRIGGER * 0.5


async def test_a_history_of_twenty_windows_is_not_asked_about_without_end() -> None:
    """The newest parts are summarised; of what lies before there are notes, and its place."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(340))

    assert asked.tokens[0] > 20 * WINDOW
    assert label(asked) == "built"
    assert len(brain.summaries) == MAX_PARTS
    noted = [int(number) for number in re.findall(r"\n#\d+ user: Question (\d+)", fold_of(asked))]
    assert min(noted) < TURNS
    assert shown(brain.summaries) == [0] * TURNS
    assert "[The original messages: offload id " in fold_of(asked)
