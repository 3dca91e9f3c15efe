"""Requests that barely fit a window, and a server that refuses every token too many."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.journeys.replay.small_server import (
    Guest,
    Refusal,
    Refusing,
    SmallServer,
    at_least,
    body_of,
    guest_of,
    with_output,
)
from tests.support.fake_model import Received, fake_model
from tests.support.message_slices import message_slices
from tests.support.summary_model import Question, Telling, failing, garbage, good, tokenizer
from tests.unit.chat.shapes import Fields, says, system, user

WINDOW = 8_192
TELLINGS: dict[str, Telling] = {"good": good, "failing": failing(500), "garbage": garbage}
LEAST_ANSWER = 256
SYSTEM = system("You look after the loader. Ask before you delete anything.")
_WORDS = """
    loader table index cache shard queue worker retry timeout budget window prompt token header
    parser socket stream buffer ledger invoice order customer carrier parcel harbour winter
    summer garden kitchen violin teacher bridge river copper silver amber cotton paper letter
    """.split()  # noqa: SIM905 - easier to read as lines


def varied(tokens: int, name: object) -> str:
    """Return text of so many tokens, never more, in which hardly a sentence is like another."""
    chance = random.Random(str(name))
    count = tokenizer().count
    said: list[str] = []
    size = 0
    while True:
        words = chance.choices(_WORDS, k=chance.randint(5, 12))
        value = f"{chance.choice(_WORDS)}_{chance.randint(100, 9_999)}"
        sentence = f"{' '.join(words).capitalize()} {value}."
        size += count(f" {sentence}")
        if size > tokens:
            return " ".join(said) or words[0]
        said.append(sentence)


def exchanges(count: int, tokens: int, name: object = "") -> list[Fields]:
    """Return turns of about so many tokens each."""
    return [
        message
        for number in range(count)
        for message in (
            user(varied(tokens // 3, f"question {name} {number}")),
            says(varied(tokens - tokens // 3, f"answer {name} {number}")),
        )
    ]


def tools(count: int, tokens: int) -> list[Fields]:
    """Return definitions of so many tools that have about so many tokens together."""
    each = tokens // count - 60
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": varied(max(1, each), f"tool {number}"),
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
                    "required": ["path"],
                },
            },
        }
        for number in range(count)
    ]


def tokens_of(messages: Sequence[Fields], factor: float = 1.0, **fields: Any) -> int:
    """Return how many tokens a server counts that needs `factor` tokens for one of ours."""
    received = Received("POST", "/v1/chat/completions", [], body_of(messages, **fields))
    return Question(received, factor).tokens


def strict(window: int) -> Refusing:
    """Refuse a prompt that leaves no room for the output that it asks for, as vLLM does."""

    def judge(question: Question) -> Refusal | None:
        fields = question.fields
        output = int(fields.get("max_completion_tokens") or fields.get("max_tokens") or 0)
        if question.tokens + max(1, output) <= window:
            return None
        told = with_output(window, output, question.tokens) if output else at_least(window)
        return Refusal(told)

    return judge


@asynccontextmanager
async def before_strict_server(
    window: int = WINDOW,
    *,
    factor: float = 1.0,
    telling: Telling | None = None,
    is_announced: bool = True,
    **sections: Any,
) -> AsyncIterator[Guest]:
    """Run a strict server, which announces its window or not, and a proxy; be its guest."""
    server = SmallServer(telling, refusing=strict(window), factor=factor)
    server.window = window if is_announced else None
    sections["budget"] = {"prepare": 0.65, **sections.pop("budget", {})}
    async with fake_model(server) as model, guest_of(server, model, None, **sections) as guest:
        yield guest


def is_intact(guest: Guest, messages: Sequence[Fields], **fields: Any) -> bool:
    """Tell whether instructions, tools and the current message reached the server unchanged."""
    given, sent = body_of(messages, **fields), guest.calls[-1]
    ours, theirs = message_slices(given), message_slices(sent)
    has_instructions = messages[0]["role"] == "system"
    definitions = json.dumps(fields.get("tools"), separators=(",", ":")).encode()
    return (
        given[ours[-1]] == sent[theirs[-1]]
        and (not has_instructions or given[ours[0]] == sent[theirs[0]])
        and ("tools" not in fields or definitions in sent)
    )
