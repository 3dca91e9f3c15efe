"""The proxy's count of a prompt against the engine's own `usage.prompt_tokens`."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.engine.asking import Answer, Messages, asking_through_the_proxy
from tests.engine.conversing import FIRST_LESSONS, Run
from tests.engine.findings import Finding, below, percentile, told
from tests.engine.serving import WINDOW, Engine
from tests.engine.talk import SYSTEM, TOOLS, Talk, answered

CHATS = 120
SIZES = (100, 300, 600, 1_500)


async def counting(engine: Engine) -> list[Finding]:
    """Send chats of many kinds and sizes; compare what both counted."""
    answers = await _answers(engine)
    run = Run([answer for _, answer in answers])
    learned = answers[FIRST_LESSONS:]
    return [
        *_told_first(run),
        below(f"counting error, p95, after {FIRST_LESSONS} chats", run.counting_error, 0.03),
        told("… in proportion to the window", f"{_of_the_window(learned):.2%}"),
        *(_of_kind(kind, learned) for kind in sorted({kind for kind, _ in answers})),
    ]


async def counting_told(engine: Engine) -> list[Finding]:
    """Do the same with a tokenizer that no model would have, and see where the errors are.

    Which words it has as one token is chance, and that evens out in long texts only.
    """
    answers = await _answers(engine)
    run = Run([answer for _, answer in answers])
    learned = [answer for _, answer in answers[FIRST_LESSONS:]]
    return [
        *_told_first(run),
        told(f"counting error, p95, after {FIRST_LESSONS} chats", f"{run.counting_error:.2%}"),
        *(_of_size(least, most, learned) for least, most in pairwise(SIZES)),
    ]


async def _answers(engine: Engine) -> list[tuple[str, Answer]]:
    async with asking_through_the_proxy(engine) as asker:
        return [
            (kind, await asker.ask(messages, max_tokens=2, streams=number % 2 == 1, **fields))
            for number, (kind, messages, fields) in enumerate(_chats(Talk(2)))
        ]


def _told_first(run: Run) -> list[Finding]:
    first = max(answer.counting_error for answer in run.answers[:3])
    return [
        told(
            "chats that have nothing in common, 100 to 1,400 tokens each: errors",
            f"{len(run.errors)} of {len(run.answers)}",
        ),
        told("largest counting error of the first three", f"{first:.1%}"),
    ]


def _of_the_window(learned: list[tuple[str, Answer]]) -> float:
    misses = [abs(answer.estimate - answer.prompt_tokens) for _, answer in learned]
    return percentile(misses, 0.95) / WINDOW


def _of_kind(kind: str, learned: list[tuple[str, Answer]]) -> Finding:
    errors = [answer.counting_error for found, answer in learned if found == kind]
    return told(f"… {kind}: p95", f"{percentile(errors, 0.95):.2%}")


def _of_size(least: int, most: int, learned: list[Answer]) -> Finding:
    sized = [answer for answer in learned if least <= answer.prompt_tokens < most]
    error = percentile([answer.counting_error for answer in sized], 0.95)
    return told(f"… {len(sized)} chats of {least} to {most} tokens: p95", f"{error:.2%}")


def _chats(talk: Talk) -> Iterator[tuple[str, Messages, dict[str, Any]]]:
    for number in range(CHATS):
        size = 1 + number * 7 % 12
        if number % 4 == 0:
            yield "prose", [SYSTEM, _user(talk.prose(80 * size))], {}
        elif number % 4 == 1:
            yield "prose and code", [SYSTEM, _user(talk.prose(40 * size), talk.code(3 * size))], {}
        elif number % 4 == 2:
            yield "many short messages", _history(talk, size), {}
        else:
            steps = [message for _ in range(size) for message in talk.step()]
            yield "tool calls and results", [SYSTEM, *steps[: 3 * 7]], {"tools": TOOLS}


def _user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": "\n\n".join(texts)}


def _history(talk: Talk, size: int) -> Messages:
    turns = ([*talk.question(), answered(talk.prose(15))] for _ in range(size))
    return [SYSTEM, *(message for turn in turns for message in turn), *talk.question()]
