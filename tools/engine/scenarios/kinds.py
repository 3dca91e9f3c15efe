"""Counts by kind of content: each kind alone, while all of them come mixed."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tools.engine.client.asking import Answer, asking_through_the_proxy
from tools.engine.client.scripts import CJK, HINDI
from tools.engine.client.talk import SYSTEM, TOOLS, Talk, answered
from tools.engine.client.wires import FORMS, Fields, Messages, WireForm
from tools.engine.findings import Finding, below, none_of, percentile, told
from tools.engine.progress import tell
from tools.engine.serving import Engine

LEARNING = 20
"""The mixed requests after which the counts must hold."""
WORST = 0.03
SIZES = (1, 4, 2, 6, 3, 5)


def _prose(talk: Talk, size: int) -> Messages:
    return [SYSTEM, _user(talk.prose(90 * size))]


def _code(talk: Talk, size: int) -> Messages:
    return [SYSTEM, _user(f"{talk.prose(8)}\n\n{talk.code(12 * size)}")]


def _tools(talk: Talk, size: int) -> Messages:
    return [SYSTEM, *(message for _ in range(size) for message in talk.step())]


def _cjk(talk: Talk, size: int) -> Messages:
    return [SYSTEM, _user(talk.sentences(talk.one_of(CJK), 2 * size))]


def _hindi(talk: Talk, size: int) -> Messages:
    return [SYSTEM, _user(talk.sentences(HINDI, size))]


def _short_chats(talk: Talk, size: int) -> Messages:
    turns = ([_user(talk.prose(6)), answered(talk.prose(4))] for _ in range(size))
    return [SYSTEM, *(message for turn in turns for message in turn), _user(talk.prose(5))]


KINDS: dict[str, Callable[[Talk, int], Messages]] = {
    "prose": _prose,
    "code": _code,
    "tools": _tools,
    "CJK": _cjk,
    "Hindi": _hindi,
    "short chats": _short_chats,
}


@dataclass(frozen=True)
class Kinds:
    """Rounds of mixed requests, each before a proxy that knows nothing yet, one for each API."""

    each: int
    """The measured requests of each kind in a round."""
    sizes: tuple[int, ...] = SIZES
    __name__ = "counts by kind"

    async def __call__(self, engine: Engine) -> list[Finding]:
        """Send them; compare what both counted, for each kind alone."""
        rounds = [await self._round(engine, number, form) for number, form in enumerate(FORMS)]
        answers = [answer for one in rounds for found in one.values() for answer in found]
        refused = sum(answer.status != 200 for answer in answers)
        title = f"{len(rounds)} times {LEARNING} mixed requests, then {self.each} of each kind"
        return [
            none_of(f"{title}, mixed: errors", refused),
            *(_of_kind(kind, rounds) for kind in KINDS),
            told("… all kinds, by each API: p95", ", ".join(map(_of_round, FORMS, rounds))),
            told("… answers without the engine's count", sum(map(_is_uncounted, answers))),
            told("… answers that the proxy had to send again", sum(map(_is_replayed, answers))),
        ]

    async def _round(self, engine: Engine, number: int, form: WireForm) -> dict[str, list[Answer]]:
        """Return the measured answers by kind."""
        measured: dict[str, list[Answer]] = defaultdict(list)
        async with asking_through_the_proxy(engine) as plain:
            asker = replace(plain, form=form)
            for at, (kind, messages, fields) in enumerate(self.mixed(number)):
                tell(f"{form.name}: request {at + 1}")
                answer = await asker.ask(messages, max_tokens=2, streams=at % 2 == 1, **fields)
                if at >= LEARNING:
                    measured[kind].append(answer)
        return measured

    def mixed(self, seed: int) -> Iterator[tuple[str, Messages, Fields]]:
        """Yield requests of all kinds in another order each time around."""
        talk = Talk(300 + seed)
        number = 0
        while number < LEARNING + self.each * len(KINDS):
            for kind in talk.shuffled(KINDS):
                size = self.sizes[(number // len(KINDS) + number) % len(self.sizes)]
                yield kind, KINDS[kind](talk, size), {"tools": TOOLS} if kind == "tools" else {}
                number += 1


def _of_kind(kind: str, rounds: list[dict[str, list[Answer]]]) -> Finding:
    errors = _errors([answer for one in rounds for answer in one[kind]])
    half = f"(half of them: {percentile(errors, 0.5):.2%}, worst: {max(errors):.2%})"
    found = below(f"… {kind}: p95", percentile(errors, 0.95), WORST)
    return replace(found, figure=f"{found.figure} {half}")


def _of_round(form: WireForm, one: dict[str, list[Answer]]) -> str:
    errors = _errors([answer for found in one.values() for answer in found])
    return f"{form.name} {percentile(errors, 0.95):.2%}"


def _errors(answers: list[Answer]) -> list[float]:
    """Return the errors, of answers with the engine's count only."""
    return [answer.counting_error for answer in answers if answer.prompt_tokens] or [1.0]


def _is_uncounted(answer: Answer) -> bool:
    return answer.status == 200 and not answer.prompt_tokens


def _is_replayed(answer: Answer) -> bool:
    return "replay" in answer.stages


def _user(text: str) -> Fields:
    return {"role": "user", "content": text}
