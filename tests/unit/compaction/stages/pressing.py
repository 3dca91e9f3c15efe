"""Conversations under pressure, where a token is a character and every medium weighs the same."""

import html
import json
from typing import Any

from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.stages.clear_stage import Pressure
from tests.unit.chat.shapes import (
    Fields,
    calls,
    image,
    odd_messages,
    ordinary_messages,
    result,
    says,
    text,
    user,
)

MEDIUM_TOKENS = 1_000


def pressure_on(
    conversation: Conversation,
    *,
    window: int = 1_000_000,
    trigger: int = 600_000,
    excess: int = 0,
) -> Pressure:
    budget = Budget(window, window // 4, window - window // 4, trigger, trigger)

    def weigh_media(index: int) -> list[int]:
        return [MEDIUM_TOKENS for _ in conversation.messages[index].media()]

    sizes = [
        sum(weigh_media(index)) + sum(len(words) for _, words in message.pieces())
        for index, message in enumerate(conversation.messages)
    ]
    return Pressure(budget, sizes, len, weigh_media, excess)


def folded(name: str, words: str) -> str:
    """Return a block as Open WebUI writes it."""
    escaped = html.escape(json.dumps(words))
    return (
        f'<details type="tool_calls" done="true" id="1" name="{name}" arguments="&quot;{{}}&quot;" '
        f'result="{escaped}">\n<summary>Tool Executed</summary>\n</details>'
    )


def step(name: str, *sizes: int) -> list[Fields]:
    """Return a call of one or more tools at once, and the results of these lengths."""
    names = [f"{name}.{number}" for number in range(len(sizes))]
    results = [result(name, "x" * size) for name, size in zip(names, sizes, strict=True)]
    return [calls(*names), *results]


def turn(name: str, *sizes: int) -> list[Fields]:
    """Return a question, one step for every result, and an answer."""
    steps = [message for at, size in enumerate(sizes) for message in step(f"{name}-{at}", size)]
    return [user(f"do {name}"), *steps, says(f"did {name}")]


def at(*places: int | tuple[int, int]) -> frozenset[Place]:
    return frozenset(Place(*((place,) if isinstance(place, int) else place)) for place in places)


words = st.sampled_from(
    ["", "short", "x" * 33, "y" * 34, "é\n" * 40, "line\n" * 60, "\"<&>'" * 30, "half \ud83d" * 9]
)
_parts = st.one_of(
    st.builds(text, words),
    st.builds(text, words, cache_control=st.just({"type": "ephemeral"})),
    st.builds(image),
    st.just(text("[Old inline media cleared: image/png]")),
    st.just({"type": "tool_result", "content": [image(), text("y" * 50)]}),
    st.just({"type": "file", "file": {"file_id": "f"}, "cache_control": {"type": "ephemeral"}}),
    words,
)
contents: st.SearchStrategy[Any] = words | st.lists(_parts, max_size=5) | _parts
_ids = st.sampled_from("xyz")
busy_messages = st.one_of(
    ordinary_messages,
    odd_messages,
    st.builds(lambda odd: {**odd, "role": "tool"}, odd_messages),
    st.builds(user, contents),
    st.builds(lambda name, content: {**result(name, content), "extra": 1}, _ids, contents),
    st.builds(lambda words: says(f"a {folded('f', words)} b {folded('g', 'z' * 60)}"), words),
    st.builds(lambda words: says([text(folded("f", words)), text(folded("g", "z" * 60))]), words),
)
busy_histories = st.lists(busy_messages, max_size=10)

_places = st.frozensets(st.builds(Place, st.integers(0, 9), st.integers(-1, 3)), max_size=12)
clearings = st.builds(Clearing, _places, _places, _places)
