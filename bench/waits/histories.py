"""The conversations that are measured: an agent at work on a repository, of any length."""

import random
from collections.abc import Iterator
from typing import Any

import orjson

from chat_proxy.tokens.tiktoken_counter import TiktokenCounter

MODEL = "waits-model"
ENCODING = "o200k_base"
SAMPLED_MESSAGES = 400
TOKENS_PER_MESSAGE = 4

_NOUNS = (
    "account archive balance bridge buffer cache client column cursor deadline digest driver error "
    "event failure fixture folder gateway handler header index invoice journal key ledger limit "
    "loader lock message migration module network number offset order parser payment policy pool "
    "query queue record region request response result retry router sample schema server session "
    "shard signal socket stage store stream table tenant thread timeout token total user value "
    "window worker writer"
)
_WORDS = _NOUNS.split()
_VERBS = ("checks", "drops", "keeps", "loads", "moves", "needs", "reads", "sends", "writes")

Json = dict[str, Any]


class History:
    """A conversation that grows; another seed has other words."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._number = 0
        self.messages: list[Json] = [
            {
                "role": "system",
                "content": f"You work on the repository {seed}. Always run the tests.",
            }
        ]

    def grow(self, size: int) -> None:
        """Add steps of at least so many bytes, and the user's next question."""
        while size > 0:
            step = list(self._step())
            self.messages += step
            size -= sum(len(orjson.dumps(message)) for message in step)
        self.messages.append({"role": "user", "content": self._prose(40)})

    def ask(self) -> None:
        """Add an answer and a short question."""
        answer = {"role": "assistant", "content": self._prose(60)}
        self.messages += [answer, {"role": "user", "content": self._prose(30)}]

    def body(self) -> bytes:
        """Return the request."""
        return orjson.dumps({"model": MODEL, "messages": self.messages, "max_tokens": 512})

    def _step(self) -> Iterator[Json]:
        self._number += 1
        number, words = self._number, self._random
        if number % 4 == 1:
            yield {"role": "user", "content": self._prose(60)}
        path = f"src/{words.choice(_WORDS)}/{words.choice(_WORDS)}_{number}.py"
        function = {"name": "read_file", "arguments": orjson.dumps({"path": path}).decode()}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": self._prose(25), "tool_calls": [call]}
        result = self._code(words.randrange(10, 120)) if number % 3 else self._report(path)
        yield {"role": "tool", "tool_call_id": call["id"], "content": result}
        if number % 4 == 0:
            yield {"role": "assistant", "content": self._prose(120)}

    def _prose(self, words: int) -> str:
        return " ".join(self._sentence() for _ in range(max(1, words // 10)))

    def _sentence(self) -> str:
        one, other, third = self._random.choices(_WORDS, k=3)
        verb, number = self._random.choice(_VERBS), self._random.randrange(10_000)
        return f"The {one} {verb} the {other} of {third}_{number} before {number % 97} seconds."

    def _code(self, lines: int) -> str:
        return "\n".join(map(self._line, range(lines)))

    def _line(self, number: int) -> str:
        one, other, third = self._random.choices(_WORDS, k=3)
        if number % 9 == 0:
            return f"def {one}_{other}({third}: int, limit: int = {self._random.randrange(4096)}):"
        return f"    {one} = {other}.{third}('{one}-{self._random.randrange(10**6):x}')"

    def _report(self, path: str) -> str:
        names = [self._random.choice(_WORDS) for _ in range(25)]
        passed = [f"tests/test_{name}.py::test_{name}_{n} PASSED" for n, name in enumerate(names)]
        failed = f"FAILED tests/test_{names[0]}.py::test_{names[1]} - AssertionError: {path}"
        return "\n".join([*passed, failed, f"1 failed, {len(passed)} passed in 3.21s"])


def count_tokens(messages: list[Json]) -> int:
    """Return about how many tokens messages have, from a sample of them."""
    counter = TiktokenCounter(ENCODING)
    if not counter.load():
        raise SystemExit("the ranks of the tokenizer are missing")
    sample = messages[:SAMPLED_MESSAGES]
    share = len(orjson.dumps(messages)) / len(orjson.dumps(sample))
    return int(sum(map(counter.count, _texts(sample))) * share) + TOKENS_PER_MESSAGE * len(messages)


def _texts(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        yield message["content"]
        for call in message.get("tool_calls", ()):
            yield call["function"]["arguments"]
