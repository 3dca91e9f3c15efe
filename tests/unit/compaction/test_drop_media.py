"""Media that go when an upstream said "too long": older turns' first, the current turn's last."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.apply import age
from chat_proxy.compaction.drop_media import (
    older_media,
    without_current_media,
    without_older_media,
)
from chat_proxy.compaction.media_notes import LEFT_OUT_NOTE, LONGEST_NAME
from tests.unit.chat.shapes import (
    PIXEL,
    Fields,
    calls,
    conversation,
    image,
    result,
    says,
    system,
    text,
    user,
)
from tests.unit.compaction.examples import at, busy_histories

ATTACHED = text("[Attached image/png: file]")
NOTE = text(LEFT_OUT_NOTE)
MARK = {"type": "ephemeral"}


def cleared(message: int, said: str = "") -> Fields:
    """Return the note of the image in a message."""
    quoted = f"; the assistant said: {said}" if said else ""
    return text(f"[Old inline media cleared: image/png] 1x1, message #{message}{quoted}")


def _media_count(given: Conversation) -> int:
    return sum(len([*message.media()]) for message in given.messages)


def _current_count(given: Conversation) -> int:
    turn = given.current_turn
    return _media_count(given.only(range(turn.start, turn.end))) if turn else 0


def _attached(part: Fields) -> str:
    """Return what a part becomes in the current turn."""
    after = without_current_media(conversation(user([part])))
    words: str = after.fields[0]["content"][0]["text"]
    return words


def test_media_of_older_turns_become_notes() -> None:
    given = conversation(
        system([text("Be nice"), image()]),
        user([text("look"), image()]),
        calls("a"),
        result("a", [image(), text("taken")]),
        says(),
        user([text("and this?"), image()]),
        calls("b"),
        result("b", [image()]),
    )

    after = without_older_media(given)

    assert after.fields[0]["content"] == [text("Be nice"), cleared(0)]
    assert after.fields[1]["content"] == [text("look"), cleared(1)]
    assert after.fields[3]["content"] == [cleared(3, "ok"), text("taken")]
    assert [after.fields[n] is given.fields[n] for n in (2, 4, 5, 6, 7)] == [True] * 5


def test_older_media_are_returned_as_treatments_that_can_be_repeated() -> None:
    """BUGS 21, 44."""
    given = conversation(user([image(), text("x"), image()]), says(), user([image()]))

    treatments = older_media(given)

    assert treatments.media == at((0, 0), (0, 1))
    assert age(given, treatments).fields == without_older_media(given).fields


def test_without_older_media_the_conversation_is_the_same_object() -> None:
    plain = conversation(system(), user(), says(), user([image()]))
    instructions = conversation(system())

    assert without_older_media(plain) is plain
    assert without_older_media(instructions) is instructions
    assert without_older_media(conversation()).fields == []


def test_media_that_the_client_did_not_send_stay_among_the_older_ones() -> None:
    whole = conversation(user([image()]), says(), user())
    given = Conversation(whole.messages, [None, 1, 2])

    assert without_older_media(given) is given


def test_one_image_in_the_current_message_becomes_its_name_and_a_note() -> None:
    """BUGS 32: the model is told, and the user's words stay."""
    given = conversation(user([image()]), says(), user([text("what is it?"), image()]))

    after = without_current_media(given)

    assert after.fields[2]["content"] == [text("what is it?"), ATTACHED, NOTE]
    assert after.fields[0] is given.fields[0]


def test_the_oldest_go_first_and_the_newest_stay() -> None:
    given = conversation(
        user([image(), text("compare")]),
        calls("a", "b"),
        result("a", [image()]),
        result("b", [image(), image()]),
    )

    after = without_current_media(given, keep=1)

    assert after.fields[0]["content"] == [ATTACHED, text("compare"), NOTE]
    assert after.fields[2]["content"] == [ATTACHED, NOTE]
    assert after.fields[3]["content"] == [ATTACHED, image(), NOTE]
    assert after.groups == given.groups


def test_a_message_says_only_once_that_something_was_left_out() -> None:
    given = conversation(user([image(), image(), image()]))

    after = without_current_media(without_current_media(given, keep=1))

    assert after.fields[0]["content"] == [ATTACHED, ATTACHED, ATTACHED, NOTE]
    assert after.fields == without_current_media(given).fields


@pytest.mark.parametrize("keep", [1, 2, 99])
def test_what_is_kept_is_the_same_object(keep: int) -> None:
    given = conversation(user([image()]), says(), user([text("x"), image()]))

    assert without_current_media(given, keep) is given


def test_a_conversation_without_current_media_is_the_same_object() -> None:
    """BUGS 33: what frees nothing is not taken for a gain."""
    for plain in (conversation(), conversation(system([image()])), conversation(user())):
        assert without_current_media(plain) is plain


def test_media_nested_in_a_tool_result_part_go_too() -> None:
    nested = {"type": "tool_result", "tool_use_id": "a", "content": [text("taken"), image()]}
    given = conversation(user([nested, text("so?")]))

    after = without_current_media(given)

    named = {**nested, "content": [text("taken"), ATTACHED]}
    assert after.fields[0]["content"] == [named, text("so?"), NOTE]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (image(), ATTACHED),
        (
            {"type": "tool_result", "content": [image()]},
            {"type": "tool_result", "content": [ATTACHED]},
        ),
    ],
)
def test_a_part_that_stands_alone_is_followed_by_the_note(content: Any, expected: Any) -> None:
    after = without_current_media(conversation(user(content)))

    assert after.fields[0]["content"] == [expected, NOTE]


def test_cache_marks_and_unknown_fields_stay() -> None:
    """BUGS 40, 42."""
    marked = {**image(), "cache_control": MARK}
    message = {**user([marked]), "name": "Ada", "metadata": {"a": 1}}

    after = without_current_media(conversation(message)).fields[0]

    assert after == {**message, "content": [{**ATTACHED, "cache_control": MARK}, NOTE]}
    assert list(after) == list(message)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"type": "file", "file": {"filename": "a b.pdf", "file_data": "JVBE"}}, "a b.pdf"),
        ({"type": "file", "file": {"file_name": "a.pdf", "name": "b"}}, "a.pdf"),
        ({"type": "document", "title": "Report.pdf", "source": {"type": "base64"}}, "Report.pdf"),
        ({**image(), "name": "cat.png"}, "cat.png"),
        ({"type": "resource", "resource": {"uri": "file:///x/y.bin", "blob": "AA"}}, "y.bin"),
        (image("https://host/a/b%20c.png?size=1#x/y"), "b c.png"),
        (image("https://host/a/..%2f..%2fetc%2fpasswd"), "passwd"),
        (image("https://host"), "file"),
        (image("https://host/"), "file"),
        (image("blob:1234"), "file"),
        (image(), "file"),
        ({"type": "file", "file": {"file_id": "file-123"}}, "file"),
        ({**image(), "name": ""}, "file"),
        ({**image(), "name": 5, "title": None}, "file"),
        ({**image(), "name": "/home/me/cat.png"}, "cat.png"),
        ({**image(), "name": "C:\\Users\\me\\cat.png"}, "cat.png"),
        ({**image(), "name": "../.."}, "file"),
        ({**image(), "name": ".env"}, ".env"),
        ({**image(), "name": "a]\n[b\u202e\x00\ud83d.png"}, "ab.png"),
        ({**image(), "name": "é 日本.png"}, "é 日本.png"),
        ({**image(), "name": "\n\t", "title": "cat.png"}, "cat.png"),
        ({**image(), "name": "x" * 1_000_000}, "x" * LONGEST_NAME),
        ({**image(), "name": " " + "x" * 79 + " y"}, "x" * 79),
    ],
)
def test_a_name_is_what_the_client_calls_it_made_harmless(part: Fields, name: str) -> None:
    assert _attached(part).endswith(f": {name}]")


def test_an_attachment_names_its_media_type() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
    odd = image("data:image/<script>;base64,AA")

    assert _attached(audio) == "[Attached audio/wav: file]"
    assert _attached(odd) == "[Attached application/octet-stream: file]"


def test_no_payload_is_left() -> None:
    """BUGS 16, 17."""
    given = conversation(user([image(), {"type": "file", "file": {"file_data": PIXEL}}]))

    assert "base64" not in str(without_current_media(given).fields)


keeps = st.integers(0, 3)
thorough = settings(max_examples=80, deadline=None)


@thorough
@given(busy_histories)
def test_older_media_are_all_gone_and_nothing_else(messages: list[Fields]) -> None:
    before = copy.deepcopy(messages)
    given = conversation(*messages)

    after = without_older_media(given)

    assert messages == before
    assert _media_count(after) == _current_count(given)
    assert without_older_media(after) is after
    assert (after is given) == (_media_count(given) == _current_count(given))
    _check_frame(given, after)


@thorough
@given(busy_histories, keeps)
def test_current_media_go_down_to_what_is_kept(messages: list[Fields], keep: int) -> None:
    before = copy.deepcopy(messages)
    given = conversation(*messages)
    older = _media_count(given) - _current_count(given)

    after = without_current_media(given, keep)

    assert messages == before
    assert _media_count(after) == older + min(keep, _current_count(given))
    assert without_current_media(after, keep) is after
    assert (after is given) == (_current_count(given) <= keep)
    _check_frame(given, after)


@thorough
@given(busy_histories, keeps, keeps)
def test_going_on_gives_what_going_at_once_gives(
    messages: list[Fields], keep: int, later: int
) -> None:
    given = conversation(*messages)

    step_by_step = without_current_media(without_current_media(given, keep + later), keep)

    assert step_by_step.fields == without_current_media(given, keep).fields


@thorough
@given(busy_histories)
def test_the_order_of_both_does_not_matter(messages: list[Fields]) -> None:
    given = conversation(*messages)

    one = without_current_media(without_older_media(given))
    other = without_older_media(without_current_media(given))

    assert one.fields == other.fields
    assert _media_count(one) == 0


def _check_frame(before: Conversation, after: Conversation) -> None:
    """Check that pairs, places and all fields but the content are what they were."""
    assert after.groups == before.groups
    assert after.turns == before.turns
    assert list(after.origins) == list(before.origins)
    for old, new in zip(before.fields, after.fields, strict=True):
        assert list(new) == list(old)
        assert {**new, "content": None} == {**old, "content": None}
