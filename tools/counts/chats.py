"""Requests of many kinds, made of the texts of a pool; the same for the same seed."""

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tools.counts.texts import (
    LANGUAGES,
    Pool,
    as_json,
    code_lines,
    definitions,
    paragraphs,
    sayings,
)

Message = dict[str, Any]

SHORT: Final = "short chats"
CJK: Final = ("chinese", "japanese", "korean")
KINDS: Final = ("prose", "code", "tools", *LANGUAGES[1:], SHORT)
EACH: Final = 7
"""Requests of each kind in one order."""
LEARNING: Final = 20
"""Requests after which errors are reported."""
_SYSTEM: Final = (
    "You are a helpful assistant.",
    "Answer in one sentence.",
    "You review changes of a web service. Be brief, and name files and lines.",
)


class Request(NamedTuple):
    """A request of one kind."""

    kind: str
    messages: list[Message]
    tools: list[dict[str, Any]]


class Writer:
    """Write requests of all kinds."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._random = random.Random(seed)

    def request(self, kind: str) -> Request:
        """Return a request of this kind."""
        makers: dict[str, Callable[[], Request]] = {
            "code": self._code,
            "tools": self._tools,
            SHORT: self._short,
        }
        maker = makers.get(kind)
        return maker() if maker else self._talk(kind)

    def _talk(self, kind: str) -> Request:
        """Return a conversation in a language."""
        language = "english" if kind == "prose" else kind
        number = self._random.choice((1, 1, 3, 5))
        size = self._size() // number
        texts = [self._passage(language, size) for _ in range(number)]
        return Request(kind, [*self._led(), *_turns(texts)], [])

    def _code(self) -> Request:
        """Return a question with programs in it."""
        number = self._random.choice((1, 1, 3))
        size = self._size() // number
        texts = [f"{self._saying()}\n\n```\n{self._program(size)}\n```" for _ in range(number)]
        return Request("code", [*self._led(), *_turns(texts)], [])

    def _short(self) -> Request:
        """Return a chat of a few sentences."""
        number = self._random.choice((1, 3, 3, 5))
        texts = [self._saying() for _ in range(number)]
        if number == 1:
            texts = [f"{texts[0]} {self._saying()}"]
        return Request(SHORT, [*self._led(), *_turns(texts)], [])

    def _tools(self) -> Request:
        """Return some steps of an agent."""
        chance = self._random
        tools = chance.sample(definitions(self._pool), chance.randint(2, 9))
        messages: list[Message] = [
            {"role": "system", "content": self._passage("english", 600)},
            {"role": "user", "content": self._saying()},
        ]
        for _ in range(chance.randint(1, 6)):
            call_id = f"call_{chance.randbytes(9).hex()}"
            arguments = as_json(
                {"path": f"src/{chance.choice(_WORDS)}.py", "line": chance.randrange(900)}
            )
            function = {"name": chance.choice(tools)["function"]["name"], "arguments": arguments}
            call = {"id": call_id, "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": self._result()},
            ]
        return Request("tools", messages, tools)

    def _led(self) -> list[Message]:
        if self._random.random() < 0.5:
            return []
        return [{"role": "system", "content": self._random.choice(_SYSTEM)}]

    def _size(self) -> int:
        """Return a size in bytes: 2,400 at the median, seldom more than 10,000."""
        return int(min(14_000, max(500, self._random.lognormvariate(7.8, 0.7))))

    def _passage(self, language: str, size: int) -> str:
        texts = paragraphs(language, self._pool)
        at = self._random.randrange(len(texts))
        found: list[str] = []
        while sum(len(text.encode()) for text in found) < size:
            found.append(texts[at % len(texts)])
            at += 1
        return "\n\n".join(found)

    def _program(self, size: int) -> str:
        lines = code_lines(self._pool)
        at = self._random.randrange(len(lines))
        found: list[str] = []
        while sum(map(len, found)) < size:
            found.append(lines[at % len(lines)])
            at += 1
        return "\n".join(found)

    def _saying(self) -> str:
        return self._random.choice(sayings(self._pool))

    def _result(self) -> str:
        """Return what a tool returned: a listing, a program, records, a log."""
        chance = self._random
        rows = range(chance.randint(3, 30))
        match chance.randrange(4):
            case 0:
                return self._program(chance.randint(200, 3_000))
            case 1:
                numbered = enumerate(self._program(chance.randint(200, 2_000)).splitlines(), 1)
                return "\n".join(f"{number:6}\t{line}" for number, line in numbered)
            case 2:
                return as_json(
                    [
                        {
                            "id": chance.randrange(10**6),
                            "name": chance.choice(_WORDS),
                            "size": chance.random(),
                        }
                        for _ in rows
                    ]
                )
            case _:
                return "\n".join(
                    f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
                    f"T10:{chance.randint(10, 59)} INFO {chance.choice(_WORDS)} "
                    f"took {chance.randrange(2_000)} ms"
                    for _ in rows
                )


_WORDS: Final = (
    *("server", "handler", "registry", "checkpoint", "parser", "session", "tokens", "window"),
    *("budget", "stream", "headers", "upstream", "planner", "summary", "archive", "metrics"),
)


def _turns(texts: list[str]) -> list[Message]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
