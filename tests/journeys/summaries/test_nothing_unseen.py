"""What leaves the prompt was shown to the model that summarises it, line by line."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from tests.journeys.summaries.talking import Talk, label, talking
from tests.journeys.trimming.growing import CLEARED, Asked, listening, step
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.timeout(600)

WINDOW = 16_000
STEPS = 70
SYSTEM = system("You are an agent. " * 10)
LINE = re.compile(r"row \d+\.\d+ has key_\w+ = \d+")
MODES: dict[str, dict[str, Any]] = {
    "as shipped": {"budget": {"prepare": 0.65}, "summary": {"wait": "overflow"}},
    "waiting": {"budget": {"prepare": 1}, "summary": {"wait": "trigger"}},
    "another model": {
        "budget": {"prepare": 0.65},
        "summary": {"wait": "overflow", "model": "small"},
    },
}


def rows(number: int) -> str:
    """Return what a tool prints: about 5,000 characters, no line like any other."""
    size = (20, 90, 130, 40, 160)[number % 5]
    return "\n".join(
        f"row {number}.{line} has key_{number}_{line} = {number * 7919 + line * 31}"
        for line in range(size)
    )


def made() -> Iterator[list[Fields]]:
    """Yield an agent's steps; every twelfth ends a turn."""
    for number in range(STEPS):
        yield step(str(number), rows(number), tool="query")
        if number % 12 == 11:
            yield [says(f"Part {number} is done."), user(f"Go on with part {number + 1}.")]


@dataclass
class Run:
    """An agent's run, and how many questions for summaries came before each answer."""

    brain: SummaryModel
    talk: Talk
    questions: list[int] = field(default_factory=list)
    compactions: list[str] = field(default_factory=list)

    def steps(self) -> Iterator[tuple[Asked, list[Fields], set[str]]]:
        """Yield each request, its results, and the lines that summarisers were shown by then."""
        shown: set[str] = set()
        done = 0
        for asked, until in zip(self.talk.asked, self.questions, strict=True):
            for question in self.brain.summaries[done:until]:
                shown |= lines_in(question.texts)
            done = until
            given = json.loads(asked.body)["messages"]
            yield asked, [it for it in given if it["role"] == "tool"], shown


async def running(sections: dict[str, Any]) -> Run:
    brain = SummaryModel(window=WINDOW, names=("fake", "small"))
    async with talking(brain, window=WINDOW, **sections) as talk:
        run = Run(brain, talk)
        messages = [SYSTEM, user("Find all keys that are wrong.")]
        jobs = talk.proxy.services.compaction.summaries.jobs
        with listening() as log:
            for more in made():
                await talk.ask(messages)
                run.questions.append(len(brain.summaries))
                messages = [*messages, *more]
                await eventually(lambda: not jobs._running and not jobs._previewing)
            run.compactions += await log.compactions(len(talk.asked))
    return run


@cache
def held(mode: str) -> Run:
    """Hold the run once for all tests."""
    return asyncio.run(running(MODES[mode]))


def lines_in(texts: Iterable[str]) -> set[str]:
    return {line for text in texts for line in LINE.findall(text)}


@pytest.mark.parametrize("mode", MODES)
def test_every_line_of_a_folded_result_was_shown_to_a_summariser_before(mode: str) -> None:
    """Whole, whatever form the prompt had it in meanwhile: 0 % unseen."""
    gone: set[str] = set()
    for asked, results, shown in held(mode).steps():
        left = {it["tool_call_id"] for it in asked.messages if it["role"] == "tool"}
        folded = lines_in(it["content"] for it in results if it["tool_call_id"] not in left)
        assert folded - shown == set()
        gone |= folded
    assert len(gone) > 4_000


@pytest.mark.parametrize("mode", MODES)
def test_the_newest_two_steps_are_never_one_bare_line(mode: str) -> None:
    """Older results in the tail may be short or a line; each says what it was and where it is."""
    kinds: Counter[str] = Counter()
    for asked, results, _ in held(mode).steps():
        whole = {it["tool_call_id"]: it["content"] for it in results}
        shown = [it for it in asked.messages if it["role"] == "tool"]
        for age, it in enumerate(reversed(shown)):
            kind, is_whole = kind_of(it["content"]), it["content"] == whole[it["tool_call_id"]]
            kinds[kind] += 1
            assert is_whole == (kind == "whole")
            assert kind != "line" or age >= 2
            assert is_whole or re.search(r"\[offload id: [0-9a-f]{32}\]", it["content"])
    assert kinds["whole"] > kinds["short"] + kinds["line"]


def kind_of(content: str) -> str:
    if content.startswith(CLEARED):
        return "line"
    return "short" if "[Tool output truncated: " in content else "whole"


@pytest.mark.parametrize("mode", MODES)
def test_the_prefix_breaks_at_compactions_only(mode: str) -> None:
    run = held(mode)

    assert run.talk.broken() == run.compactions
    assert 5 <= len(run.compactions) <= len(run.brain.summaries)


@pytest.mark.parametrize("mode", MODES)
def test_no_request_of_the_run_is_refused(mode: str) -> None:
    run = held(mode)

    assert run.brain.overflows == []
    assert {label(asked) for asked in run.talk.asked} <= {"none", "built", "reused"}
