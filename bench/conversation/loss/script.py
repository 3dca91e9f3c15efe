"""A coding agent's session with chat in it: all facts first, then work without end.

The 200 facts are spread evenly over the first 25 turns. In each of these the user says a constraint
and a fact, the assistant tells a path and a decision, and tools answer once or twice with two facts
(failing tests, numbers in a log, settings) and once with code that has none. After 15 of them the
user shows an image, which the assistant describes once. That is about 35,000 tokens with results of
1,000 characters and 115,000 with 5,000: more than a window, so the folds are counted for each fact
by itself, from the first one that has its message behind it. The work after them has failing tests,
numbers and settings too, which nobody asks for: what is new must not be all that is kept.
"""

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest

from bench.conversation.loss.facts import TOOL_ONLY, Fact, Kind, others
from bench.conversation.loss.outputs import Output, code, output_with
from bench.conversation.prompt import Json
from bench.conversation.texts import Texts

SYSTEM_WORDS = 250
FACTS_PER_RESULT = 2
STEPS_LATER = 5
IMAGE_PIXELS = 224
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Said:
    """A message, and the facts that stand in it."""

    message: Json
    facts: tuple[Fact, ...] = ()


class Script:
    """Writes one session; `messages` goes on for as long as it is asked."""

    def __init__(self, facts: Sequence[Fact], result_chars: int, seed: int) -> None:
        self._texts = Texts(f"loss {result_chars} {seed}")
        self._chars = result_chars
        self._calls = count(1)
        self._others = {kind: others(kind, facts, self._texts) for kind in TOOL_ONLY}
        self._of = {kind: [fact for fact in facts if fact.kind == kind] for kind in _kinds(facts)}

    def messages(self) -> Iterator[Said]:
        """Yield the session's messages."""
        rules = f"You are a coding agent. {self._texts.prose(SYSTEM_WORDS)}"
        yield Said({"role": "system", "content": rules})
        yield from self._planting()
        while True:
            yield from self._later_turn()

    def _planting(self) -> Iterator[Said]:
        spoken = [self._facts(kind) for kind in ("user constraint", "user fact", "decision")]
        turns = list(zip_longest(*spoken, self._facts("file path")))
        outputs = self._outputs()
        images = self._facts("image content")
        for number, (constraint, known, decision, path) in enumerate(turns):
            share = slice(
                number * len(outputs) // len(turns), (number + 1) * len(outputs) // len(turns)
            )
            yield self._user([fact for fact in (constraint, known) if fact])
            plain = (code(self._chars, self._texts), ())
            yield from self._steps([*outputs[share], plain], [fact for fact in (path,) if fact])
            yield self._assistant([fact for fact in (decision,) if fact], words=110)
            if number < len(images):
                yield from self._image_turn(images[number], number)
            if number % 5 == 4:
                yield from self._talk()
        yield from (said for image in images[len(turns) :] for said in self._image_turn(image, 0))

    def _outputs(self) -> list[tuple[Output, tuple[Fact, ...]]]:
        """Return all tool results with facts, mixed."""
        batches = [
            (kind, tuple(self._facts(kind)[at : at + FACTS_PER_RESULT]))
            for kind in TOOL_ONLY
            for at in range(0, len(self._facts(kind)), FACTS_PER_RESULT)
        ]
        self._texts.random.shuffle(batches)
        return [
            (output_with(kind, batch, self._chars, self._texts), batch) for kind, batch in batches
        ]

    def _steps(
        self, outputs: Sequence[tuple[Output, tuple[Fact, ...]]], told: list[Fact]
    ) -> Iterator[Said]:
        """Yield a call and a result for each output; what is told stands beside the first call."""
        for output, facts in outputs:
            yield from self._step(output, facts, told)
            told = []

    def _step(self, output: Output, facts: tuple[Fact, ...], told: list[Fact]) -> Iterator[Said]:
        name, arguments, result = output
        number = f"call_{next(self._calls):06d}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": number, "type": "function", "function": function}
        yield Said(
            {"role": "assistant", "content": self._prose(told, 25), "tool_calls": [call]},
            tuple(told),
        )
        yield Said({"role": "tool", "content": result, "tool_call_id": number}, facts)

    def _image_turn(self, fact: Fact, number: int) -> Iterator[Said]:
        parts = [
            {"type": "text", "text": f"What do you see here? {self._texts.sentence()}"},
            {"type": "image_url", "image_url": {"url": picture(number)}},
        ]
        yield Said({"role": "user", "content": parts})
        yield self._assistant([fact], words=40)

    def _talk(self) -> Iterator[Said]:
        """Yield a question and a long answer."""
        yield Said({"role": "user", "content": f"{self._texts.prose(40)} Why is that?"})
        yield self._assistant([], words=200)

    def _later_turn(self) -> Iterator[Said]:
        """Yield a turn without facts that are asked for."""
        yield self._user([])
        for kind in (*TOOL_ONLY, None, None)[:STEPS_LATER]:
            if kind is None:
                output = code(self._chars, self._texts)
            else:
                output = output_with(kind, [next(self._others[kind])], self._chars, self._texts)
            yield from self._step(output, (), [])
        yield self._assistant([], words=110)
        yield from self._talk()

    def _user(self, facts: list[Fact]) -> Said:
        asked = f"Please look into {self._texts.path()} next."
        text = f"{self._prose(facts, 35)} {asked}"
        return Said({"role": "user", "content": text}, tuple(facts))

    def _assistant(self, facts: list[Fact], words: int) -> Said:
        return Said({"role": "assistant", "content": self._prose(facts, words)}, tuple(facts))

    def _prose(self, facts: Sequence[Fact], words: int) -> str:
        """Return sentences with those of the facts among them."""
        texts = self._texts
        sentences = [
            texts.sentence(texts.random.randint(8, 18)) for _ in range(max(1, words // 13))
        ]
        for fact in facts:
            sentences.insert(texts.random.randrange(len(sentences) + 1), fact.said)
        return " ".join(sentences)

    def _facts(self, kind: Kind) -> list[Fact]:
        return self._of.get(kind, [])


def _kinds(facts: Sequence[Fact]) -> dict[Kind, None]:
    return dict.fromkeys(fact.kind for fact in facts)


def picture(number: int) -> str:
    """Return a grey image of its own as a data URL."""
    row = b"\0" + bytes([number % 256]) * IMAGE_PIXELS
    header = struct.pack(">IIBBBBB", IMAGE_PIXELS, IMAGE_PIXELS, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * IMAGE_PIXELS)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(_PNG + body).decode()}"
