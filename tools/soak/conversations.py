"""Conversations that grow over the window again and again: chats, and agents with tools."""

import json
from itertools import count
from random import Random
from typing import Any

from tests.journeys.summaries.talking import prose
from tests.unit.chat.shapes import Fields, calls, result, says, system, user

SHORTEST, LONGEST = 10, 50
_numbers = count()


class Growing:
    """A conversation as its client holds it; no two are alike."""

    def __init__(self, random: Random) -> None:
        self.name = f"talk {next(_numbers)}"
        self.turns_left = random.randint(SHORTEST, LONGEST)
        self._random = random
        self._works = random.random() < 0.5
        self.messages: list[Fields] = [
            system(f"You are careful in {self.name}. " * 5),
            user(f"{self.name}: let us begin"),
        ]

    def grow(self) -> None:
        """Take in an answer, or a step with its results, and go on."""
        self.turns_left -= 1
        number = len(self.messages)
        if self._works and self._random.random() < 0.7:
            self._step(number)
        else:
            told = prose(self._random.randint(50, 600), f"{self.name}, answer {number}")
            self.messages += [says(told), user(f"{self.name}: question {number}?")]

    def _step(self, number: int) -> None:
        names = [f"call_{number}_{index}" for index in range(self._random.randint(1, 3))]
        results = (prose(self._random.randint(20, 1_500), f"{self.name}, {it}") for it in names)
        self.messages.append(calls(*names))
        self.messages += [result(name, told) for name, told in zip(names, results, strict=True)]

    def body(self, model: str, **fields: Any) -> bytes:
        """Return the request with the whole history."""
        return json.dumps({"model": model, "messages": self.messages, **fields}).encode()
