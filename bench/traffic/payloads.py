"""What travels in the benchmark: the requests, the answers, and how an answer is checked."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from typing import Any

import orjson

MODEL = "bench-model"
CHUNKS = 100
# Large enough that no request of the benchmark is compacted: everyone relays the same bytes.
WINDOW_TOKENS = 131_072
BYTES_PER_TOKEN = 4
# A peer may write the same JSON a little shorter; less than this share was not relayed whole.
LEAST_SHARE_RELAYED = 0.8

_SERIAL_MARK = b"@@@@@@@@@@@@"
_ENDING = b"]}"
TURNS = 36
"""The turns of a growing conversation, about 6.5 KB each."""
_SENTENCE = (
    "the connection pool keeps a request open until server answers or client leaves and every "
    "retry is counted once because timeout of upstream belongs to caller while queue drains "
    "slowly under pressure with small batches that return results in order of their arrival"
)
_WORDS = _SENTENCE.split()

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Payload:
    """A request body around the place of a serial number, so that no two requests are equal."""

    head: bytes
    tail: bytes
    streamed: bool

    def body(self, connection: int, serial: int) -> bytes:  # noqa: ARG002
        """Return the body with this serial number, whatever the connection."""
        return b"%s%s%s" % (self.head, number_of(serial), self.tail)


class GrowingChats:
    """A conversation for each connection that grows by one turn with each request.

    It ends at about 240 KB, and the connection begins another one. The first conversations begin
    at different lengths, so that a burst of any length has requests of 120 KB on average. Every
    message is new to the proxies: it has the number of its conversation.
    """

    streamed = False

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._opening, self._turns, self._ending = _pieces()
        self._said: dict[int, list[bytes]] = {}
        self._numbers: dict[int, bytes] = {}

    def body(self, connection: int, serial: int) -> bytes:
        """Return the next request of a connection's conversation."""
        said = self._said.get(connection)
        if said is None:
            past = len(self._turns) * connection // self._connections
            said = self._begun(connection, serial, past)
        elif len(said) == len(self._turns):
            said = self._begun(connection, serial, 0)
        else:
            self._say(said, self._numbers[connection])
        question, _ = self._turns[len(said) - 1]
        asked = question.replace(_SERIAL_MARK, self._numbers[connection])
        return b"".join([*said, asked, self._ending])

    def _begun(self, connection: int, serial: int, turns: int) -> list[bytes]:
        number = self._numbers[connection] = number_of(serial)
        said = self._said[connection] = [self._opening.replace(_SERIAL_MARK, number)]
        for _ in range(turns):
            self._say(said, number)
        return said

    def _say(self, said: list[bytes], number: bytes) -> None:
        question, work = self._turns[len(said) - 1]
        said.append((question + work).replace(_SERIAL_MARK, number))


def number_of(serial: int) -> bytes:
    """Return a serial number in the text of a request; its length is always the same."""
    return b"%012d" % (serial % 10**12)


def payload(kind: str, connections: int = 1) -> Payload | GrowingChats:
    """Return the requests of a scenario: small, growing or stream."""
    if kind == "growing":
        return GrowingChats(connections)
    words = random.Random(kind)  # the same text in every run and every process
    streamed = kind == "stream"
    messages = _short_chat(words)
    body: Json = {"model": MODEL, "messages": messages, "temperature": 0.7, "max_tokens": 512}
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    head, tail = orjson.dumps(body).split(_SERIAL_MARK)
    return Payload(head, tail, streamed)


def answer(prompt_bytes: int) -> bytes:
    """Return the JSON answer, about 600 bytes, to a prompt of this size."""
    message = {"role": "assistant", "content": ANSWER_TEXT}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return orjson.dumps(_envelope("chat.completion", [choice], _usage(prompt_bytes)))


def answer_events(prompt_bytes: int) -> list[bytes]:
    """Return the events of the streamed answer, each to be written on its own."""
    return [*_deltas(), _event([], _usage(prompt_bytes)), b"data: [DONE]\n\n"]


def models() -> bytes:
    """Return the list of models, as vLLM writes it."""
    card = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": WINDOW_TOKENS}
    return orjson.dumps({"object": "list", "data": [card]})


def complaint_about(body: bytes, streamed: bool, sent_bytes: int) -> str | None:
    """Say what is wrong with an answer, or None when it is whole."""
    try:
        text, usage = _read_events(body) if streamed else _read_answer(body)
        prompt_bytes = usage["prompt_tokens"] * BYTES_PER_TOKEN
    except (KeyError, IndexError, TypeError, ValueError) as error:
        return f"unreadable answer ({type(error).__name__}: {error})"
    if text != ("".join(STREAM_WORDS) if streamed else ANSWER_TEXT):
        return "the text of the answer is not the upstream's"
    if prompt_bytes < sent_bytes * LEAST_SHARE_RELAYED:
        return f"the upstream was sent {prompt_bytes} of {sent_bytes} bytes"
    return None


def _read_answer(body: bytes) -> tuple[str, Json]:
    read = orjson.loads(body)
    return read["choices"][0]["message"]["content"], read["usage"]


def _read_events(body: bytes) -> tuple[str, Json]:
    """Return text and usage of a stream that has its finish reason and its end."""
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    if lines.pop().strip() != b"[DONE]":
        raise ValueError("no [DONE]")
    events = [orjson.loads(line) for line in lines]
    choices = [event["choices"][0] for event in events if event["choices"]]
    if not any(choice.get("finish_reason") == "stop" for choice in choices):
        raise ValueError("no finish_reason")
    usages = [event["usage"] for event in events if event.get("usage")]
    return "".join(choice["delta"].get("content") or "" for choice in choices), usages[-1]


@cache
def _deltas() -> list[bytes]:
    words = [_event([_chunk_choice({"content": word})]) for word in STREAM_WORDS]
    return [*words, _event([_chunk_choice({}, "stop")])]


def _event(choices: list[Json], usage: Json | None = None) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(_envelope("chat.completion.chunk", choices, usage))


def _chunk_choice(delta: Json, finish_reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _envelope(kind: str, choices: list[Json], usage: Json | None) -> Json:
    head = {"id": "chatcmpl-bench", "object": kind, "created": 1_790_000_000, "model": MODEL}
    return {**head, "choices": choices, **({"usage": usage} if usage else {})}


def _usage(prompt_bytes: int) -> Json:
    prompt = -(-prompt_bytes // BYTES_PER_TOKEN)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": CHUNKS,
        "total_tokens": prompt + CHUNKS,
    }


def _short_chat(words: random.Random) -> list[Json]:
    question = f"{_prose(words, 500)} (request {_SERIAL_MARK.decode()})"
    return [
        {"role": "system", "content": _prose(words, 650)},
        {"role": "user", "content": question},
    ]


@cache
def _pieces() -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
    """Return the opening of a body, for each turn its question and the work on it, and the end."""
    words = random.Random("growing")
    mark = _SERIAL_MARK.decode()
    system = {"role": "system", "content": f"{_prose(words, 5_000)} (session {mark})"}
    body: Json = {"model": MODEL, "temperature": 0.7, "max_tokens": 512, "messages": [system]}
    opening = orjson.dumps(body).removesuffix(_ENDING)
    turns = []
    for question, *work in islice(_turns(words), TURNS):
        asked, done = (orjson.dumps(it)[1:-1] for it in ([question], work))
        turns.append((b"," + asked, b"," + done))
    return opening, turns, _ENDING


def _turns(words: random.Random) -> Iterator[list[Json]]:
    mark = _SERIAL_MARK.decode()
    for number in count():
        function = {"name": "read_file", "arguments": f'{{"path": "src/part_{number}.py"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield [
            {"role": "user", "content": f"{_prose(words, 300)} ({mark})"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"call_{number}",
                "content": f"# {mark}\n{_code(words, 5_000)}",
            },
            {"role": "assistant", "content": f"{_prose(words, 700)} ({mark})"},
        ]


def _prose(words: random.Random, length: int) -> str:
    return " ".join(words.choices(_WORDS, k=length // 5))[:length]


def _code(words: random.Random, length: int) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < length:
        name, left, right = words.choices(_WORDS, k=3)
        lines.append(
            f"    {name}_{len(lines)} = {left}({right!r}, limit={words.randrange(4096)})\n"
        )
    return "".join(lines)


ANSWER_TEXT = _prose(random.Random("answer"), 330)
STREAM_WORDS = tuple(f" {word}" for word in random.Random("stream").choices(_WORDS, k=CHUNKS))
