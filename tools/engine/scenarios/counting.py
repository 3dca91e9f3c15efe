"""The proxy's count of a prompt against the engine's own `usage.prompt_tokens`."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tools.engine.client.asking import Answer, asking_through_the_proxy
from tools.engine.client.conversing import FIRST_LESSONS
from tools.engine.client.talk import SYSTEM, TOOLS, Talk, answered
from tools.engine.client.wires import Messages
from tools.engine.findings import Finding, below, percentile, told
from tools.engine.serving import WINDOW, Engine

Counted = tuple[str, Answer]

CHATS = 120
SEEDS = (2, 201, 202, 203)
"""Several, because one may be lucky."""
SIZES = (100, 300, 600, 1_500)


async def counting(engine: Engine) -> list[Finding]:
    """Send chats of many kinds and sizes; compare what both counted."""
    rounds = await _rounds(engine)
    learned = _learned(rounds)
    return [
        *_told_first(rounds),
        below(f"counting error, p95, after {FIRST_LESSONS} chats", _error(learned), 0.03),
        _of_each(rounds),
        told("… in proportion to the window", f"{_of_the_window(learned):.2%}"),
        *(_of_kind(kind, learned) for kind in sorted({kind for kind, _ in learned})),
    ]


async def counting_told(engine: Engine) -> list[Finding]:
    """Do the same with a tokenizer that no model would have, and see where the errors are.

    Which words it has as one token is chance, and that evens out in long texts only.
    """
    rounds = await _rounds(engine)
    learned = _learned(rounds)
    return [
        *_told_first(rounds),
        told(f"counting error, p95, after {FIRST_LESSONS} chats", f"{_error(learned):.2%}"),
        _of_each(rounds),
        *(_of_size(least, most, learned) for least, most in pairwise(SIZES)),
    ]


async def _rounds(engine: Engine) -> list[list[Counted]]:
    """Hold the chats of each seed before a proxy that knows nothing yet."""
    return [await _round(engine, seed) for seed in SEEDS]


async def _round(engine: Engine, seed: int) -> list[Counted]:
    async with asking_through_the_proxy(engine) as asker:
        return [
            (kind, await asker.ask(messages, max_tokens=2, streams=number % 2 == 1, **fields))
            for number, (kind, messages, fields) in enumerate(_chats(Talk(seed)))
        ]


def _learned(rounds: list[list[Counted]]) -> list[Counted]:
    return [counted for one in rounds for counted in one[FIRST_LESSONS:]]


def _error(learned: list[Counted]) -> float:
    return percentile([answer.counting_error for _, answer in learned], 0.95)


def _told_first(rounds: list[list[Counted]]) -> list[Finding]:
    errors = sum(answer.status != 200 for one in rounds for _, answer in one)
    first = max(answer.counting_error for one in rounds for _, answer in one[:3])
    return [
        told(
            f"{len(rounds)} times {CHATS} chats that have nothing in common, "
            "100 to 1,400 tokens each: errors",
            errors,
        ),
        told("largest counting error of the first three", f"{first:.1%}"),
    ]


def _of_each(rounds: list[list[Counted]]) -> Finding:
    each = (f"{_error(one[FIRST_LESSONS:]):.2%}" for one in rounds)
    return told(f"… of each {CHATS} chats alone", ", ".join(each))


def _of_the_window(learned: list[Counted]) -> float:
    misses = [abs(answer.estimate - answer.prompt_tokens) for _, answer in learned]
    return percentile(misses, 0.95) / WINDOW


def _of_kind(kind: str, learned: list[Counted]) -> Finding:
    errors = [answer.counting_error for found, answer in learned if found == kind]
    return told(f"… {kind}: p95", f"{percentile(errors, 0.95):.2%}")


def _of_size(least: int, most: int, learned: list[Counted]) -> Finding:
    sized = [(kind, answer) for kind, answer in learned if least <= answer.prompt_tokens < most]
    return told(f"… {len(sized)} chats of {least} to {most} tokens: p95", f"{_error(sized):.2%}")


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
