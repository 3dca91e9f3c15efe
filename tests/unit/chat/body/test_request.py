"""Reading a chat request: what is refused, what is accepted, and that it stays as it was sent."""

import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat_proxy import errors
from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import ChatRequest, read_request
from chat_proxy.chat.body.structure import structure_of

LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)
TINY = RequestLimits(max_depth=4, max_elements=60, max_messages=3, max_choices=2)
DECISIVE = ("model", "messages", "stream", "n")


def read(body: bytes | str, limits: RequestLimits = LIMITS) -> ChatRequest:
    return read_request(body.encode() if isinstance(body, str) else body, limits)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def nested(depth: int) -> str:
    """An object that is this deep."""
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


# What cannot be read


@pytest.mark.parametrize(
    "body",
    ["", " ", "{", '{"a":1', '{"a":1}}', '{"a":1} x', "{'a':1}", '{"a":01}', '{"a":"\n"}', "nul"],
)
def test_what_is_not_json_is_refused(body: str) -> None:
    """A1."""
    with pytest.raises(errors.InvalidJson) as caught:
        read(body)

    assert caught.value.status == 400
    assert caught.value.param is None


def test_a_refusal_names_the_place_and_not_the_text() -> None:
    """A1."""
    with pytest.raises(errors.InvalidJson, match="at character 11") as caught:
        read('{"secret": }')

    assert "secret" not in caught.value.message


@pytest.mark.parametrize("body", ["[]", "null", "3", '"text"', "true", "[{}]"])
def test_what_is_not_an_object_is_refused(body: str) -> None:
    """A2."""
    with pytest.raises(errors.InvalidJsonRoot):
        read(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"\xff"}',
        b'{"a":"\xc3"}',
        b'{"a":"\xed\xa0\xbd"}',
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-16-be"),
        '{"a":1}'.encode("utf-32"),
    ],
)
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    """A3."""
    with pytest.raises(errors.InvalidEncoding):
        read(body)


def test_a_byte_order_mark_is_accepted_and_sent_as_it_came() -> None:
    """A3: DESIGN's first rule goes before stripping it."""
    body = b'\xef\xbb\xbf{"model":"m"}'

    request = read(body)

    assert request.model == "m"
    assert request.body is body


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_no_number_in_json_is_refused(number: str) -> None:
    """A5."""
    with pytest.raises(errors.InvalidNumber):
        read(f'{{"temperature":{number}}}')


def test_digits_without_end_are_refused() -> None:
    """A7."""
    with pytest.raises(errors.InvalidNumber):
        read('{"seed":' + "9" * 5000 + "}")


@pytest.mark.parametrize("depth", [65, 300, 2_000, 100_000])
def test_what_is_nested_too_deeply_is_refused(depth: int) -> None:
    """A9."""
    with pytest.raises(errors.TooDeep):
        read(nested(depth))


def test_what_is_nested_to_the_limit_passes() -> None:
    """A9."""
    body = nested(64).encode()

    assert read(body).body is body


def test_brackets_in_a_text_are_not_depth() -> None:
    """A9."""
    body = json.dumps({"messages": [{"role": "user", "content": "[{" * 1000}]}).encode()

    assert read(body).body is body


def test_a_very_deep_body_is_refused_at_once() -> None:
    """A9: in 5 ms; a slow machine gets ten times that."""
    body = nested(100_000).encode()

    began = time.thread_time()
    with pytest.raises(errors.TooDeep):
        read(body)

    assert time.thread_time() - began < 0.05


def test_a_body_of_nothing_but_brackets_is_refused_without_being_parsed() -> None:
    """A10: 30 MB, quickly and in little memory."""
    body = b"[" + b"{}," * 10_000_000 + b"{}]"

    tracemalloc.start()
    began = time.thread_time()
    with pytest.raises(errors.TooComplex):
        read(body)
    seconds = time.thread_time() - began
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert seconds < 0.5
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize("padding", [10, 300_000])
def test_as_many_elements_as_allowed_pass_and_one_more_does_not(padding: int) -> None:
    """A10: the opening brace is one of them."""
    limits = RequestLimits(64, 10, 10_000, 16)
    most = compact({"a": [1] * 8, "b": "x" * padding})

    assert read(most, limits).fields["a"] == [1] * 8
    with pytest.raises(errors.TooComplex):
        read(most.replace("[1,", "[1,1,"), limits)


def test_elements_are_counted_across_slices() -> None:
    """A10: a large text may have many, up to the limit."""
    padding = "x" * 300_000
    limits = RequestLimits(64, 1_000, 10_000, 16)
    fits = json.dumps({"a": padding, "b": [1] * 500, "c": padding, "d": [1] * 490})
    exceeds = json.dumps({"a": padding, "b": [1] * 500, "c": padding, "d": [1] * 510})

    assert read(fits, limits).fields["d"] == [1] * 490
    with pytest.raises(errors.TooComplex):
        read(exceeds, limits)


# What is accepted as it is


@pytest.mark.parametrize(
    "body",
    [
        rb'{"messages":[{"role":"user","content":"\ud83d"}]}',
        b'{"seed":18446744073709551616}',
        b'{"seed":123456789012345678901234567890}',
        b'{"metadata":{"id":-99999999999999999999}}',
        b'{"seed":' + b"9" * 900 + b"}",
        b'{"temperature":0.10000000000000000555, "x":1e-999}',
        b' {"model" : "m"}\r\n',
        b"{}",
        b'{"messages":null}',
        b'{"messages":{}, "n":"many", "stream":"yes", "max_tokens":-1, "temperature":"hot"}',
        b'{"messages":[null,1,{"role":7,"content":{"x":1}},{"content":[{"type":"new"}]}]}',
        b'{"top_level_of_a_vendor":{"a":[1,{"b":null}]}}',
        b'{"n":16}',
        b'{"n":true}',
        b'{"n":-5}',
    ],
)
def test_what_can_be_read_is_sent_as_it_came(body: bytes) -> None:
    """A4, A6, A14, A16, A24."""
    assert read(body).body is body


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        (r"\ud83d", True),
        (r"\uDE00 x", True),
        (r"\ud83d\ude00\ude00", True),
        (r"\ud83d\ud83d\ude00", True),
        (r"\ud83d\ude00", False),
        (r"\\ud83d", False),
    ],
)
def test_a_text_cut_through_a_character_is_noticed(text: str, is_cut: bool) -> None:
    """FAULTS A4."""
    assert read(f'{{"messages":[{{"content":"{text}"}}]}}').has_lone_surrogates == is_cut


def test_what_is_odd_otherwise_is_not_taken_for_a_cut_text() -> None:
    """FAULTS A4, A6."""
    assert not read('{"seed":' + "1" * 400 + "}").has_lone_surrogates


def test_a_lone_surrogate_and_long_digits_are_read_exactly() -> None:
    """A4, A6."""
    request = read(rb'{"model":"\ud83d","seed":123456789012345678901234567890}')

    assert request.model == "\ud83d"
    assert request.fields["seed"] == 123456789012345678901234567890


@pytest.mark.parametrize(
    ("body", "model"), [('{"model":"m"}', "m"), ("{}", ""), ('{"model":7}', "")]
)
def test_a_model_is_a_name_or_nothing(body: str, model: str) -> None:
    assert read(body).model == model


@pytest.mark.parametrize(
    ("value", "streams"), [("true", True), ("false", False), ('"yes"', False), ("1", False)]
)
def test_only_true_asks_for_a_stream(value: str, streams: bool) -> None:
    """A24."""
    assert read(f'{{"stream":{value}}}').streams is streams


@pytest.mark.parametrize("value", ["17", "1000000000", "1e9", "16.5", "9" * 30])
def test_too_many_choices_are_refused(value: str) -> None:
    """A24."""
    with pytest.raises(errors.InvalidValue) as caught:
        read(f'{{"n":{value}}}')

    assert caught.value.param == "n"


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(errors.InvalidValue) as caught:
        read('{"messages":[1,2,3,4]}', TINY)

    assert caught.value.param == "messages"


# Keys that stand twice


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ('{"model":"a","model":"b"}', '{"model":"b"}'),
        (r'{"model":"a","\u006dodel":"b"}', '{"model":"b"}'),
        (r'{"\u006Dode\u006c":"a","model":"b","x":"\u006dodel"}', '{"model":"b","x":"model"}'),
        ('{"n":99,"n":1}', '{"n":1}'),
        ('{"stream":true,"x":{"stream":1},"stream":false}', '{"stream":false,"x":{"stream":1}}'),
        (
            r'{"messages":[1],"seed":123456789012345678901234567890,"messages":["\ud83d"]}',
            r'{"messages":["\ud83d"],"seed":123456789012345678901234567890}',
        ),
        ('{"model":"a","x":1,"x":2,"model":"b"}', '{"model":"b","x":2}'),
        ('{"model": "a", "x": "b", "model": "b"}', '{"model":"b","x":"b"}'),
        ('{"model" :"a","model"\n: "b"}', '{"model":"b"}'),
        (r'{"model": "a", "mod\u0065l": "b", "x": "\u00e9"}', r'{"model":"b","x":"\u00e9"}'),
        (r'{"stream": true, "st\u0072eam": false}', '{"stream":false}'),
        (r'{"model": "a", "x": "a \"model", "model": "b"}', r'{"model":"b","x":"a \"model"}'),
        (r'{"model":"a","model":"b","x":"\u0022model"}', r'{"model":"b","x":"\"model"}'),
        (r'{"n": 99, "n": 1, "x": "\\\u0022n"}', r'{"n":1,"x":"\\\"n"}'),
        (r'{"x": "\\", "model": "a", "y": "\\","model": "b"}', r'{"x":"\\","model":"b","y":"\\"}'),
    ],
)
def test_of_a_repeated_key_the_last_value_is_read_and_sent(body: str, sent: str) -> None:
    """A8."""
    request = read(body)

    assert request.body == sent.encode()
    assert request.fields == json.loads(request.body)


@pytest.mark.parametrize("write", [compact, json.dumps])
@pytest.mark.parametrize("times", [1, 99, 100, 101, 300])
def test_texts_that_end_like_a_key_hide_none(times: int, write: Callable[[Any], str]) -> None:
    """A8: however many there are, before, between and behind."""
    texts = write(['this is a "model'] * times)
    body = f'{{"x":{texts},"model":"a","y":{texts},"model":"b","z":{texts}}}'
    single = f'{{"x":{texts},"model":"a","z":{texts}}}'.encode()

    request = read(body)

    assert request.model == "b"
    assert json.loads(request.body) == request.fields == json.loads(body)
    assert request.body.count(b'"model":') == 1
    assert read(single).body is single


def test_a_repeated_key_cannot_hide_a_forbidden_value() -> None:
    """A8, A24."""
    with pytest.raises(errors.InvalidValue):
        read(r'{"n":1,"\u006e":99}')


@pytest.mark.parametrize(
    "body",
    [
        '{"model":"m","tools":[{"model":{},"n":1},{"model":{},"n":2}]}',
        r'{"model":"m","messages":[{"content":"\"model\" \u0060model\u0060 \u006dodel"}]}',
        r'{"model":"m","messages":[{"content":"\ud83d","model":1}],"n":1}',
        '{"model":"m","x":{"n":1,"n":2}}',
        '{"temperature":1,"temperature":2,"x":[{"n":1},{"n":2}]}',
        '{"model": "m", "tools": [{"model": {}, "n": 1}, {"model": {}, "n": 2}], "n": 1}',
        r'{"model": "m", "x": "\u00e9 \u0022model\u0022 \u006b \u0070"}',
        r'{"model": "m", "x": "\u006d", "messages": [{"model": "\ud83d"}]}',
        '{"model": "model", "x": "model"}',
    ],
)
def test_keys_that_stand_twice_elsewhere_change_nothing(body: str) -> None:
    """A8: nested ones, those inside texts, and those that decide nothing."""
    encoded = body.encode()

    assert read(encoded).body is encoded


# For all bodies

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
keys = st.sampled_from([*DECISIVE, "tools", "x"]) | st.text(max_size=3)


def _finite(value: Any) -> bool:
    return not (isinstance(value, float) and value in (float("inf"), float("-inf")))


values = st.recursive(
    scalars.filter(_finite),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
pairs = st.lists(st.tuples(keys, values), max_size=6)


def as_json(members: list[tuple[str, Any]], *, ascii_only: bool, blank: str) -> bytes:
    """An object with its members as given, repetitions included."""
    inside = f",{blank}".join(
        f"{json.dumps(key, ensure_ascii=ascii_only)}:{blank}"
        f"{json.dumps(value, ensure_ascii=ascii_only, separators=(f',{blank}', f':{blank}'))}"
        for key, value in members
    )
    return f"{{{inside}}}".encode()


def is_within(limits: RequestLimits, fields: dict[str, Any]) -> bool:
    n, messages = fields.get("n"), fields.get("messages")
    few_choices = not isinstance(n, int | float) or n <= limits.max_choices
    few_messages = not isinstance(messages, list) or len(messages) <= limits.max_messages
    return few_choices and few_messages and structure_of(fields, b"").depth <= limits.max_depth


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """A1 to A10."""
    with suppress(errors.BadRequest):
        assert isinstance(read(body, TINY).fields, dict)


@given(st.text(alphabet='{}[]",:\\u0063emodlnstrag 19-.', max_size=60))
def test_anything_like_json_is_read_or_refused(body: str) -> None:
    """A1 to A10."""
    with suppress(errors.BadRequest):
        assert isinstance(read(body, TINY).fields, dict)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pairs, st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_an_object_is_sent_as_it_came_unless_a_decisive_key_stands_twice(
    members: list[tuple[str, Any]], ascii_only: bool, blank: str
) -> None:
    """A8, A14, A16: and what is sent is what was read."""
    body = as_json(members, ascii_only=ascii_only, blank=blank)
    fields = dict(members)
    names = [key for key, _ in members]
    if not is_within(LIMITS, fields):
        return

    request = read(body)

    if any(names.count(key) > 1 for key in DECISIVE):
        assert json.loads(request.body) == fields
        assert request.fields == fields
    else:
        assert request.body is body
        assert set(request.fields) == set(fields)
    assert request.model == (fields["model"] if isinstance(fields.get("model"), str) else "")
    assert request.streams == (fields.get("stream") is True)


@given(values)
def test_depth_is_measured_as_one_would_by_hand(value: Any) -> None:
    """A9."""

    def depth(node: Any) -> int:
        if not isinstance(node, dict | list):
            return 0
        children = node.values() if isinstance(node, dict) else node
        return 1 + max((depth(child) for child in children), default=0)

    if isinstance(value, dict | list):
        assert structure_of(value, b"").depth == depth(value)
