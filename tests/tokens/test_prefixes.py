"""A conversation that has grown is counted from where it was, and never otherwise than anew."""

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.request import ChatRequest
from app.proxy.tokenizers import Tokenizers
from app.tokens import prefixes
from app.tokens.counter import count_messages
from app.tokens.overheads import rules_for
from app.tokens.prefixes import BLOCK_BYTES, NOTHING, Prefix, Prefixes, least_bytes
from app.tokens.tiktoken_counter import TiktokenCounter

Fields = dict[str, Any]
Writer = Callable[[Fields], bytes]

OPEN = rules_for("Qwen/Qwen3-8B", "vllm")
OPENAI = rules_for("gpt-4o", "openai")
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": "It has a role. " * 40}}
    for n in range(60)
]
WRITERS: dict[str, Writer] = {
    "compact": orjson.dumps,
    "spaced": lambda fields: json.dumps(fields).encode(),
    "in letters of its own": lambda fields: json.dumps(fields, ensure_ascii=False).encode(),
    "indented": lambda fields: json.dumps(fields, indent=1).encode(),
}


def turn(number: int) -> list[Fields]:
    """A question, a call and its result, about 2.5 KB."""
    function = {"name": "read", "arguments": json.dumps({"path": f"{number}/" * 40})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"Frage {number}: größer?\n" * 30},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"line {number}\n" * 100},
    ]


def conversation(turns: int) -> list[Fields]:
    return [message for number in range(turns) for message in turn(number)]


def read(body: bytes) -> ChatRequest:
    return ChatRequest(body, json.loads(body))


def learned(fields: Fields, counter: TiktokenCounter, write: Writer = orjson.dumps) -> Prefixes:
    memory = Prefixes()
    memory.learn(read(write(fields)), NOTHING, counter, OPEN)
    return memory


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("way", WRITERS)
def test_what_a_conversation_has_grown_by_is_all_that_is_counted(
    way: str, place: str, o200k: TiktokenCounter
) -> None:
    before, behind = ({"tools": TOOLS}, {}) if place == "before" else ({}, {"tools": TOOLS})

    def request(turns: int) -> bytes:
        return WRITERS[way]({"model": "m", **before, "messages": conversation(turns), **behind})

    memory = Prefixes()
    memory.learn(read(request(60)), NOTHING, o200k, OPEN)

    found = memory.find(request(61), OPEN).counted

    assert 140 <= len(found.messages) <= 180
    assert found == count_messages(conversation(60)[: len(found.messages)], o200k, OPEN)


def test_a_body_that_begins_otherwise_has_nothing_known(o200k: TiktokenCounter) -> None:
    memory = learned({"messages": conversation(60)}, o200k)

    other = [{"role": "system", "content": "It is 12:01."}, *conversation(60)]

    assert memory.find(orjson.dumps({"messages": other}), OPEN) == NOTHING
    assert memory.find(orjson.dumps({"messages": conversation(60)}), OPENAI) == NOTHING
    assert memory.find(b"{}", OPEN) == NOTHING


def test_a_conversation_that_went_on_otherwise_is_known_up_to_there(o200k: TiktokenCounter) -> None:
    memory = Prefixes()
    for turns in range(20, 61, 10):
        request = read(orjson.dumps({"messages": conversation(turns)}))
        memory.learn(request, memory.find(request.body, OPEN), o200k, OPEN)
    changed = conversation(60)
    changed[120] = {"role": "user", "content": "Something else."}

    found = memory.find(orjson.dumps({"messages": changed}), OPEN).counted

    assert 60 < len(found.messages) <= 120
    assert found == count_messages(changed[: len(found.messages)], o200k, OPEN)


def test_learning_waits_until_there_is_a_block_more(o200k: TiktokenCounter) -> None:
    memory = learned({"messages": conversation(60)}, o200k)
    first = memory.find(orjson.dumps({"messages": conversation(60)}), OPEN)

    def after(turns: int) -> Prefix:
        request = read(orjson.dumps({"messages": conversation(turns)}))
        memory.learn(request, memory.find(request.body, OPEN), o200k, OPEN)
        return memory.find(request.body, OPEN)

    assert after(62) == first
    assert after(75).blocks > first.blocks
    assert after(60).blocks == first.blocks


def test_the_same_history_with_tools_behind_is_learned_once(o200k: TiktokenCounter) -> None:
    memory = learned({"messages": conversation(60)}, o200k)
    request = read(orjson.dumps({"messages": conversation(60), "tools": TOOLS}))
    before = memory.find(request.body, OPEN)

    memory.learn(request, before, o200k, OPEN)

    after = memory.find(request.body, OPEN)
    assert after == before._replace(body_bytes=len(request.body))


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": conversation(2)},
        {"messages": conversation(2), "tools": TOOLS},
        {"messages": conversation(60), "user": "\ud83d"},
        {"messages": [{"content": "no role at all"}] * 2_000},
    ],
)
def test_what_cannot_last_is_not_learned(fields: Fields, o200k: TiktokenCounter) -> None:
    memory = learned(fields, o200k, WRITERS["spaced"])

    assert len(memory._known) == 0


def test_the_memory_is_bounded_and_keeps_no_text(o200k: TiktokenCounter) -> None:
    memory = Prefixes(max_blocks=20)

    for number in range(30):
        messages = [{"role": "system", "content": f"{number}"}, *conversation(40)]
        memory.learn(read(orjson.dumps({"messages": messages})), NOTHING, o200k, OPEN)

    assert 0 < len(memory._known) <= 20
    assert "Frage" not in repr(vars(memory._known))


TEXTS = st.text(st.characters(codec=None, categories=None), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_no_way_of_writing_is_shorter_than_the_least(value: Any) -> None:
    assert least_bytes(value) <= len(json.dumps(value, separators=(",", ":")))
    if "\\ud" not in json.dumps(value):
        packed = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        assert least_bytes(value) <= len(packed)


@pytest.mark.parametrize(
    ("shortest", "least"),
    [(b"1e9", 1), (b"0", 1), (b'"\\u00e9"', 4), (b'{"a":[1,2]}', 10), (b"null", 1)],
)
def test_the_least_is_no_more_than_the_shortest_form(shortest: bytes, least: int) -> None:
    assert least_bytes(json.loads(shortest)) == least <= len(shortest)


MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool", "assistant"]), "content": TEXTS | VALUES},
    optional={"name": TEXTS, "tool_call_id": TEXTS, "x": VALUES},
)
FIELDS = st.dictionaries(st.sampled_from(["a", "tools", "role", "z"]), VALUES, max_size=3)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(MESSAGES, min_size=2, max_size=12),
    st.integers(0, 4),
    FIELDS,
    FIELDS,
    st.sampled_from(["spaced", "indented"]),
)
def test_a_history_is_counted_as_if_for_the_first_time(
    messages: list[Fields], new: int, before: Fields, behind: Fields, way: str
) -> None:
    """Blocks of 16 bytes end everywhere: in keys, numbers, escapes and between messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "BLOCK_BYTES", 16)
        memory = Prefixes()
        for end in sorted({max(1, len(messages) - new), len(messages)}):
            body = WRITERS[way]({**before, "messages": messages[:end], **behind})
            request = read(body)
            found = memory.find(body, OPEN)
            known = count_messages(request.fields["messages"], _LOADED, OPEN, known=found.counted)
            assert known == count_messages(request.fields["messages"], _LOADED, OPEN)
            memory.learn(request, found, _LOADED, OPEN)


@settings(deadline=None)
@given(
    st.lists(MESSAGES, min_size=1, max_size=5), FIELDS, FIELDS, st.sampled_from(["", " ", "\n  "])
)
def test_only_messages_that_end_within_are_taken_to(
    messages: list[Fields], before: Fields, behind: Fields, blank: str
) -> None:
    """At every byte, so that one too many anywhere shows."""

    def write(value: Any) -> str:
        return json.dumps(value, separators=("," + blank, ":" + blank))

    before = {name: before[name] for name in before if name not in behind}
    head, tail = write({**before, "messages": []})[:-2], write({"messages": [], **behind})
    texts = [write(message) for message in messages]
    body = (head + ("," + blank).join(texts) + tail[tail.index("[") + 1 :]).encode()
    request = read(body)
    assert request.fields == {**before, "messages": messages, **behind}
    ends = [
        len(head) + sum(map(len, texts[: n + 1])) + n * len("," + blank) for n in range(len(texts))
    ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "BLOCK_BYTES", 1)
        for place in range(len(body)):
            within = prefixes._messages_within(place, request)
            assert within <= sum(end <= place for end in ends)


_LOADED = TiktokenCounter("o200k_base")
_LOADED.load()


@pytest.mark.anyio
async def test_a_changed_conversation_is_not_taken_for_the_clients_own() -> None:
    tokenizers = Tokenizers()
    await tokenizers.loaded(OPEN.encoding)
    request = read(orjson.dumps({"messages": conversation(60)}))
    own = request.fields["messages"]
    for _ in range(2):
        whole = await tokenizers.count(request, own, OPEN)

    shortened = await tokenizers.count(request, own[90:], OPEN)
    await tokenizers.close()

    assert len(tokenizers._prefixes.find(request.body, OPEN).counted.messages) > 140
    assert shortened.messages == whole.messages[90:]
    assert len(request.body) > 4 * BLOCK_BYTES


@pytest.mark.anyio
async def test_guesses_are_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TiktokenCounter, "load", lambda _: False)
    tokenizers = Tokenizers()
    request = read(orjson.dumps({"messages": conversation(60)}))

    count = await tokenizers.count(request, request.fields["messages"], OPEN)
    await tokenizers.close()

    assert count.is_guess
    assert tokenizers._prefixes.find(request.body, OPEN) == NOTHING
