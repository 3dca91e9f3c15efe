"""Conversations with tool results and media, and strategies for histories of any shape."""

import html
import json
from typing import Any

from hypothesis import strategies as st

from chat_proxy.compaction.ageing.treatments import Place, Treatments
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


def embedded(name: str, words: str) -> str:
    """Return a block with a call and its result, as Open WebUI writes it into assistant text."""
    escaped = html.escape(json.dumps(words))
    return (
        f'<details type="tool_calls" done="true" id="1" name="{name}" arguments="&quot;{{}}&quot;" '
        f'result="{escaped}">\n<summary>Tool Executed</summary>\n</details>'
    )


def called(name: str, tool: str, /, **arguments: Any) -> Fields:
    """Return a call of one tool with these arguments."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return says(None, tool_calls=[{"id": name, "type": "function", "function": function}])


def tool_step(name: str, tool: str, content: Any, /, **arguments: Any) -> list[Fields]:
    """Return a call of one tool and its result."""
    return [called(name, tool, **arguments), result(name, content)]


def step(name: str, *sizes: int) -> list[Fields]:
    """Return a call of one or more tools at once, and results of these lengths."""
    names = [f"{name}.{number}" for number in range(len(sizes))]
    results = [result(name, "x" * size) for name, size in zip(names, sizes, strict=True)]
    return [calls(*names), *results]


def turn(name: str, *sizes: int) -> list[Fields]:
    """Return a question, one step for every result, and an answer."""
    steps = [message for at, size in enumerate(sizes) for message in step(f"{name}-{at}", size)]
    return [user(f"do {name}"), *steps, says(f"did {name}")]


def at(*places: int | tuple[int, int]) -> frozenset[Place]:
    """Return places, each by its origin or by its origin and part."""
    return frozenset(Place(*((place,) if isinstance(place, int) else place)) for place in places)


def sized(max_bytes: int, *places: int | tuple[int, int]) -> dict[Place, int]:
    """Return places with the same maximum of bytes."""
    return dict.fromkeys(at(*places), max_bytes)


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
    st.builds(lambda words: says(f"a {embedded('f', words)} b {embedded('g', 'z' * 60)}"), words),
    st.builds(
        lambda words: says([text(embedded("f", words)), text(embedded("g", "z" * 60))]), words
    ),
)
busy_histories = st.lists(busy_messages, max_size=10)

_places = st.builds(Place, st.integers(0, 9), st.integers(-1, 3))
_some_places = st.frozensets(_places, max_size=12)
_sizes = st.dictionaries(_places, st.sampled_from([0, 30, 60, 200, 900]), max_size=12)
any_treatments = st.builds(Treatments, _some_places, _sizes, _sizes, _some_places)
"""Any treatments; a place may be both a line and short, as no decision is."""
treatments = any_treatments.map(lambda given: given | Treatments())
"""Treatments as decisions are made: no result is both a line and short."""
