"""What is talked about: prose, code and records of this repository, the same for the same seed."""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from tools.engine.client.wires import Messages
from tools.engine.install import ROOT

SYSTEM = {"role": "system", "content": "You help with a proxy for language models. Be brief."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a part of a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]

Option = TypeVar("Option")


class Talk:
    """A conversation's own side: what its user says and what its tools return."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def prose(self, words: int) -> str:
        """So many words, from anywhere in the documentation."""
        start = self._random.randrange(len(_prose()) - words)
        return " ".join(_prose()[start : start + words])

    def code(self, lines: int) -> str:
        """So many lines of a program."""
        start = self._random.randrange(len(_code()) - lines)
        return "\n".join(_code()[start : start + lines])

    def records(self, rows: int) -> str:
        """So many rows of a log, as JSON."""
        found = [
            {"id": self._random.randrange(10**6), "path": f"/v1/{name}", "seconds": 0.25}
            for name in self._random.choices(_prose(), k=rows)
        ]
        return json.dumps(found)

    def sentences(self, known: Sequence[str], number: int) -> str:
        """So many of the sentences, in any order."""
        return " ".join(self._random.choices(known, k=number))

    def one_of(self, options: Sequence[Option]) -> Option:
        """Any of the options."""
        return self._random.choice(options)

    def shuffled(self, options: Iterable[Option]) -> list[Option]:
        """All options, in any order."""
        found = list(options)
        return self._random.sample(found, len(found))

    def question(self) -> Messages:
        """What a user says next."""
        return [{"role": "user", "content": self.prose(self._random.randint(20, 60))}]

    def step(self) -> Messages:
        """A user's request and a tool's work on it, which the model is to comment on."""
        name = f"call_{self._random.randrange(10**9)}"
        path = json.dumps({"path": f"app/{self._random.choice(_prose())}.py"})
        function = {"name": "read_file", "arguments": path}
        result = self._random.choice([self.code(8), self.records(3)])
        return [
            {"role": "user", "content": self.prose(12)},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": name, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": name, "content": result},
        ]

    def turns(self, number: int, *, with_tools: bool = True) -> Iterator[Messages]:
        """What the client adds to its history before each of so many requests."""
        for turn in range(number):
            yield self.step() if with_tools and turn % 4 == 3 else self.question()


def answered(text: str) -> dict[str, Any]:
    """An answer as it stands in the history."""
    return {"role": "assistant", "content": text}


@cache
def _prose() -> list[str]:
    files = [ROOT / "README.md", *sorted(ROOT.glob("docs/decisions/*.md"))]
    words = (word for path in files for word in path.read_text().split())
    return [word for word in words if re.fullmatch(r"[A-Za-z][a-z'-]*[.,;:]?", word)]


@cache
def _code() -> list[str]:
    files = sorted(ROOT.glob("app/**/*.py"))
    return [line for path in files for line in path.read_text().splitlines() if line.strip()]
