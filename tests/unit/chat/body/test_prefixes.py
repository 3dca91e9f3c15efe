"""A body that begins as one before is read from there on, and never otherwise than as a whole."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.chat.body import prefixes as beginnings
from chat_proxy.chat.body import request as requests
from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import NOTHING, BodyPrefix, BodyPrefixes
from chat_proxy.chat.body.request import ChatRequest, PrefixedRequest, read_request
from chat_proxy.errors import BadRequest, InvalidValue, TooDeep
from tests.unit.chat.shapes import turn

Fields = dict[str, Any]
Writer = Callable[[Fields], bytes]

LIMITS = RequestLimits(max_depth=12, max_elements=500_000, max_messages=400, max_choices=4)
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": "It has a role. " * 40}}
    for n in range(60)
]
WRITERS: dict[str, Writer] = {
    "compact": orjson.dumps,
    "spaced": lambda fields: json.dumps(fields).encode(),
    "in letters of its own": lambda fields: json.dumps(fields, ensure_ascii=False).encode(),
}


def conversation(turns: int) -> list[Fields]:
    return [message for number in range(turns) for message in turn(number)]


def body_of(turns: int, **more: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": conversation(turns), "n": 1, **more})


def knowing(*bodies: bytes) -> BodyPrefixes:
    """A memory that has seen these bodies."""
    memory = BodyPrefixes()
    for body in bodies:
        read_request(body, LIMITS, memory)
    return memory


def told(request: ChatRequest) -> dict[str, Any]:
    """All that anybody may ask of a request."""
    talk = request.conversation
    return {
        "body": request.body,
        "model": request.model,
        "streams": request.streams,
        "options": {name: it for name, it in request.options.items() if name != "messages"},
        "surrogates": request.has_lone_surrogates,
        "length": None if talk is None else len(talk),
        "shape": None if talk is None else talk.shape,
        "last": None if talk is None else list(talk.rest[-1:]),
        "fields": list(request.fields.items()),
        "messages": None if talk is None else list(talk.fields),
        "turns": None if talk is None else talk.turns,
    }


def outcome(body: bytes, memory: BodyPrefixes | None = None) -> object:
    """What a body is read as, or why it is refused."""
    try:
        return told(read_request(body, LIMITS, memory))
    except BadRequest as error:
        return type(error), error.message, error.param


# What is read on


@pytest.mark.parametrize("way", WRITERS)
@pytest.mark.parametrize("more", [{}, {"tools": TOOLS}], ids=["nothing behind", "tools behind"])
def test_a_conversation_that_has_grown_is_read_from_where_it_was(way: str, more: Fields) -> None:
    def body(turns: int) -> bytes:
        return WRITERS[way]({"model": "m", "messages": conversation(turns), "n": 1, **more})

    memory = knowing(body(60))

    grown = read_request(body(61), LIMITS, memory)

    assert isinstance(grown, PrefixedRequest)
    assert "fields" not in vars(grown)
    assert 140 <= grown.conversation.beginning.messages < 180
    assert told(grown) == outcome(body(61))


def test_a_request_is_gone_when_nobody_has_it() -> None:
    """Without waiting for the garbage collector: bodies are large."""
    gc.disable()
    request = read_request(body_of(61), LIMITS, knowing(body_of(60)))
    assert told(request)["length"] == 183
    gone = weakref.ref(request)

    del request
    gc.enable()

    assert gone() is None


def test_messages_may_begin_with_their_content() -> None:
    def body(turns: int) -> bytes:
        messages = [dict(sorted(message.items())) for message in conversation(turns)]
        return orjson.dumps({"messages": messages})

    grown = read_request(body(61), LIMITS, knowing(body(60)))

    assert isinstance(grown, PrefixedRequest)
    assert told(grown) == outcome(body(61))


def test_what_was_changed_is_read_again() -> None:
    memory = knowing(*(body_of(turns) for turns in range(20, 61, 10)))
    changed = conversation(60)
    changed[120] = {"role": "user", "content": "Something else."}
    body = orjson.dumps({"model": "m", "messages": changed, "n": 1})

    request = read_request(body, LIMITS, memory)

    assert isinstance(request, PrefixedRequest)
    assert 60 < request.conversation.beginning.messages <= 120
    assert told(request) == outcome(body)


def test_a_body_that_begins_otherwise_is_not_known() -> None:
    memory = knowing(body_of(60))

    assert memory.find(b" " + body_of(60)) == NOTHING
    assert memory.find(orjson.dumps({"model": "x", "messages": conversation(60)})) == NOTHING
    assert memory.find(b"{}") == NOTHING


def test_a_body_behind_a_mark_is_read_as_a_whole() -> None:
    memory = knowing(body_of(60))
    body = b"\xef\xbb\xbf" + body_of(61)

    assert outcome(body, memory) == outcome(body)


# What is learned


def test_learning_waits_until_there_is_a_block_more() -> None:
    memory = knowing(body_of(60))
    first = memory.find(body_of(60))

    def after(turns: int) -> BodyPrefix:
        read_request(body_of(turns), LIMITS, memory)
        return memory.find(body_of(turns))

    assert after(62) == first
    assert after(75).messages > first.messages
    assert after(60).messages == first.messages


def test_the_same_history_with_tools_behind_is_learned_once() -> None:
    memory = knowing(body_of(60))
    before = memory.find(body_of(60))
    body = body_of(60, tools=TOOLS)

    request = read_request(body, LIMITS, memory)

    assert memory.find(body) == before._replace(body_bytes=len(body))
    assert request.next_prefix == before


def test_a_request_says_what_it_taught() -> None:
    memory = BodyPrefixes()

    first = read_request(body_of(60), LIMITS, memory)
    second = read_request(body_of(90), LIMITS, memory)

    assert first.next_prefix == memory.find(body_of(60))
    assert second.next_prefix == memory.find(body_of(90))
    assert second.next_prefix.messages > first.next_prefix.messages > 100


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": conversation(2)},
        {"messages": conversation(2), "tools": TOOLS},
        {"tools": TOOLS, "messages": conversation(60)},
        {"messages": [*conversation(59), {"role": "user", "content": "\ud83d"}]},
        {"messages": [*conversation(59), {"role": "user", "content": 2**70}]},
        {"messages": [*conversation(59), "hi"] * 2},
        {"messages": [{"name": "neither role nor content"}] * 390, "user": "x" * 20_000},
        {"messages": [{"role": "user", "content": "x" * 50_000}] * 5},
        {"messages": {"role": "user"}, "user": "x" * 20_000},
        {"messages": [], "user": "x" * 20_000},
        {"user": "x" * 20_000},
    ],
)
def test_what_is_short_or_odd_is_not_learned(fields: Fields) -> None:
    memory = knowing(WRITERS["spaced"](fields))

    assert len(memory._known) == 0


def test_a_body_of_which_a_key_was_settled_is_not_learned() -> None:
    memory = knowing(b'{"model":"a",' + body_of(60)[1:])

    assert len(memory._known) == 0


@pytest.mark.parametrize("place", ["before", "behind"])
def test_another_list_of_the_same_objects_is_not_taken_for_the_messages(place: str) -> None:
    """From inside of it a parser comes to an end too."""
    messages = [{"role": "user", "content": f"{n}" * 50} for n in range(300)]
    copies = {"others": messages}
    before, behind = (copies, {}) if place == "before" else ({}, copies)
    body = orjson.dumps({**before, "messages": messages, **behind})

    with small_blocks(4_096):
        memory = knowing(body)
        assert outcome(body, memory) == outcome(body)
        found = memory.find(body)

    if place == "before":
        assert found == NOTHING
    else:
        assert found.end < body.index(b'"others"')


def with_copies(copies: list[Fields], end: bytes = b"") -> bytes:
    """A body with a list of messages that another list of its name replaces."""
    messages = [{"role": "user", "content": f"{n}" * 50} for n in range(300)]
    listed = b",".join(map(orjson.dumps, [*messages[-200:], *copies]))
    return b'{"messages":%b,"others":[0,%b],"others":[]%b}' % (orjson.dumps(messages), listed, end)


def test_a_list_that_another_of_its_name_replaces_is_not_taken_for_the_messages() -> None:
    """It ends as the messages do, and what stands behind it is named as what stands behind them."""
    with small_blocks(4_096):
        memory = knowing(with_copies([]))
        body = with_copies([{"role": "user", "content": "Something else."}])

        assert outcome(body, memory) == outcome(body)


def test_what_stands_before_is_not_what_replaces_it_behind() -> None:
    def body(turns: int, end: bytes) -> bytes:
        written = orjson.dumps({"temperature": 1, "user": "a", "messages": conversation(turns)})
        return written.removesuffix(b"}") + end

    memory = knowing(body(60, b',"user":"' + b"b" * 200 + b'","temperature":true}'))
    grown = read_request(body(61, b"}"), LIMITS, memory)

    assert isinstance(grown, PrefixedRequest)
    assert repr(told(grown)) == repr(outcome(body(61, b"}")))


def test_what_is_long_before_is_not_kept_because_it_is_replaced_by_something_short() -> None:
    long = orjson.dumps({"user": "x" * 2_000, "messages": conversation(60)})

    memory = knowing(long.removesuffix(b"}") + b',"user":""}')

    assert len(memory._known) == 0


def test_the_memory_is_bounded_and_keeps_no_text() -> None:
    memory = BodyPrefixes(max_blocks=20)

    for number in range(30):
        messages = [{"role": "system", "content": f"{number}"}, *conversation(40)]
        read_request(orjson.dumps({"messages": messages}), LIMITS, memory)

    assert 0 < len(memory._known) <= 20
    assert "Frage" not in repr(vars(memory._known))


# What is odd behind a beginning


@pytest.mark.parametrize(
    "end",
    [
        b"",
        b"]",
        b"]}}",
        b",]}",
        b'{"role":"user"}]}',
        b',{"role":"user","content":1e999}]}',
        b',{"role":"user","content":123456789012345678901234567890}]}',
        b',{"role":"user","content":"\\ud83d"}]}',
        b',{"role":"user","content":"\xff"}]}',
        b',"hi"]}',
        b'],"model":"other"}',
        b'],"mod\\u0065l":"other"}',
        b'],"messages":[]}',
        b'],"messages":[0,{"role":"user","content":"hi"}]}',
        b'],"mess\\u0061ges":5}',
        b'],"messages":null,"messages":[0]}',
        b'],"stream":false,"stream":true}',
        b'],"n":99}',
        b'],"n":1,"n":2}',
        b'],"stream":true}',
        b"]}  \n",
        b'] , "temperature" : 0.5 }',
        b',{"a":' + b"[" * 20 + b"]" * 20 + b"}]}",
        b',{"role":"user"}' * 400 + b"]}",
    ],
)
def test_whatever_comes_behind_is_read_or_refused_as_in_a_whole(end: bytes) -> None:
    known = orjson.dumps({"model": "m", "messages": conversation(60)})
    memory = knowing(known)
    body = known.removesuffix(b"]}") + end
    assert memory.find(body) != NOTHING

    assert outcome(body, memory) == outcome(body)


def test_limits_hold_for_the_beginning_and_the_rest_together() -> None:
    memory = knowing(body_of(60))

    with pytest.raises(InvalidValue, match="At most 400 messages"):
        read_request(body_of(134), LIMITS, memory)
    with pytest.raises(InvalidValue, match="At most 4 choices"):
        read_request(body_of(61, n=5), LIMITS, memory)
    with pytest.raises(TooDeep):
        read_request(body_of(61, user=[[[[[[[[[[[[[]]]]]]]]]]]]]), LIMITS, memory)


# Anything


@contextmanager
def small_blocks(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (beginnings, requests):
            patch.setattr(module, "BLOCK_BYTES", size)
        yield


TEXTS = st.text(st.characters(codec=None, categories=None), max_size=40) | st.sampled_from(
    ['{"role"', ',{"role":"user"}', '"messages":[', "]}", "model", "größer", "\\"]
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool", "assistant", "system"]), "content": TEXTS | VALUES},
    optional={"name": TEXTS, "tool_call_id": TEXTS, "x": VALUES, "messages": VALUES},
)
LISTS = st.lists(MESSAGES | st.just({"role": "user"}), max_size=4)
NAMES = st.sampled_from(["a", "tools", "role", "z", "n", "stream"])
FIELDS = st.dictionaries(NAMES, VALUES | LISTS, max_size=3)
# Bytes to be put into a body, and how many of its own they replace.
CHANGES = st.tuples(
    st.floats(0, 1),
    st.integers(0, 3),
    st.sampled_from([b"", b",", b"]", b"}", b'"', b"{", b"[", b"0", b"\\", b'"model":1,', b" "]),
)


@st.composite
def growing_bodies(draw: st.DrawFn) -> list[bytes]:
    """Bodies of one conversation that grows, and one in which something is broken or twice."""
    messages = draw(st.lists(MESSAGES, min_size=2, max_size=12))
    before, behind = draw(FIELDS), draw(FIELDS)
    write = WRITERS[draw(st.sampled_from(list(WRITERS)))]
    bodies = []
    for end in range(max(1, len(messages) - draw(st.integers(0, 4))), len(messages) + 1):
        fields = {**before, "messages": messages[:end], **behind}
        try:
            bodies.append(write(fields))
        except (TypeError, UnicodeEncodeError):  # lone surrogates, long integers
            bodies.append(WRITERS["spaced"](fields))
    share, gone, put = draw(CHANGES)
    at = round(share * len(bodies[-1]))
    return [*bodies, bodies[-1][:at] + put + bodies[-1][at + gone :]]


@settings(deadline=None, max_examples=150)
@given(growing_bodies(), st.integers(16, 64))
def test_a_body_is_read_as_if_for_the_first_time(bodies: list[bytes], block: int) -> None:
    """Small blocks end everywhere: in keys, numbers, escapes and between messages."""
    memory = BodyPrefixes()
    with small_blocks(block):
        for body in bodies:
            assert outcome(body, memory) == outcome(body)


@st.composite
def bodies_that_repeat_names(draw: st.DrawFn) -> list[bytes]:
    """Bodies with a list that begins and ends as the messages do, and a name that stands twice."""
    messages = draw(st.lists(MESSAGES, min_size=3, max_size=8))
    copies = [0, *messages[draw(st.integers(0, 2)) :]]
    name = draw(st.sampled_from(["a", "tools", "messages"]))
    again = (name, draw(VALUES | st.just([])))
    pairs = draw(st.permutations([("messages", messages), (name, copies), again]))
    text = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs)
    body = b"{%b}" % text.encode()
    ends = [b"]}", b'],"%b":[]}' % name.encode(), b'],"n":1}']
    cuts = st.sampled_from(
        [at for at in range(len(body)) if body[at - 1 : at + 1] in (b"}]", b"},")]
    )
    more = b',{"role":"user","content":"more"}'
    changed = [body[: draw(cuts)] + more + draw(st.sampled_from(ends)) for _ in range(3)]
    return [body, *changed, body]


@settings(deadline=None, max_examples=150)
@given(bodies_that_repeat_names(), st.integers(16, 64))
def test_names_that_stand_twice_hide_nothing(bodies: list[bytes], block: int) -> None:
    memory = BodyPrefixes()
    with small_blocks(block):
        for body in bodies:
            assert repr(outcome(body, memory)) == repr(outcome(body))


def test_a_long_history_of_short_messages_is_read_from_its_known_prefix() -> None:
    """Issue 22, 19: without it, 9,900 messages cost eight times as much as 3,000."""
    limits = replace(LIMITS, max_messages=10_000)
    messages = [turn(0)[0] | {"content": f"{number} " + "word " * 40} for number in range(9_900)]
    memory = BodyPrefixes()
    body = orjson.dumps({"model": "m", "messages": messages})
    grown = orjson.dumps({"model": "m", "messages": [*messages, *turn(1)]})

    read_request(body, limits, memory)
    request = read_request(grown, limits, memory)

    assert len(body) > 2_000_000
    assert isinstance(request, PrefixedRequest)
    assert list(request.conversation.fields) == [*messages, *turn(1)]
