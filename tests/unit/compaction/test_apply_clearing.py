from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.media import MAX_DEPTH
from chat_proxy.chat.message import Message
from chat_proxy.compaction.apply_clearing import RESULT_NOTE, clear, media_slots
from chat_proxy.compaction.clearing import Clearing, Place
from tests.unit.chat.shapes import Fields, calls, conversation, image, result, says, text, user
from tests.unit.compaction.stages.pressing import at, folded

LONG = "x" * 400
LIMIT = 120
MARK = {"type": "ephemeral"}
PNG_NOTE = "[Old inline media cleared: image/png]"


def _cleared(*messages: Fields, **places: frozenset[Place]) -> list[Fields]:
    outcome = clear(conversation(*messages), Clearing(**places), LIMIT)
    return list(outcome.fields)


# Whole results


def test_a_text_becomes_the_note_and_every_other_field_stays() -> None:
    """BUGS 42."""
    given = {"role": "tool", "tool_call_id": "a", "name": "f", "metadata": {"k": 1}}

    (*_, after) = _cleared(user(), calls("a"), {**given, "content": LONG}, results=at(2))

    assert after == {**given, "content": RESULT_NOTE}


def test_a_list_becomes_a_list_of_the_note() -> None:
    """BUGS 39."""
    given = result("a", [text(LONG, cache_control=MARK), text("more")])

    (after,) = _cleared(given, results=at(0))

    note = {"type": "text", "text": RESULT_NOTE, "cache_control": MARK}
    assert after == {**given, "content": [note]}


def test_a_single_part_becomes_the_note() -> None:
    (after,) = _cleared(result("a", text(LONG)), results=at(0))

    assert after["content"] == text(RESULT_NOTE)


def test_a_legacy_result_is_cleared_too() -> None:
    (after,) = _cleared({"role": "function", "name": "f", "content": LONG}, results=at(0))

    assert after == {"role": "function", "name": "f", "content": RESULT_NOTE}


def test_media_go_with_the_result_that_holds_them() -> None:
    (after,) = _cleared(result("a", [text(LONG), image()]), results=at(0), media=at((0, 0)))

    assert after["content"] == [text(RESULT_NOTE)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        None,
        "x" * len(RESULT_NOTE),
        RESULT_NOTE,
        [],
        [text("x" * 20), image()],
        [text("x" * 20), text(PNG_NOTE)],
    ],
)
def test_what_says_no_more_than_the_note_stays(content: Any) -> None:
    given = conversation(user(), result("a", content))

    assert clear(given, Clearing(results=at(1)), LIMIT) is given


def test_one_character_more_than_the_note_goes() -> None:
    (after,) = _cleared(result("a", "x" * (len(RESULT_NOTE) + 1)), results=at(0))

    assert after["content"] == RESULT_NOTE


def test_only_results_are_cleared() -> None:
    """BUGS 38."""
    given = conversation(user(LONG), says(LONG), {"role": "system", "content": LONG})
    places = at(0, 1, 2, (0, 0), (1, 0))

    assert clear(given, Clearing(places, places, places), LIMIT) is given


def test_places_that_are_not_there_are_skipped() -> None:
    given = conversation(user(), result("a", LONG), result("b", [image()]))
    clearing = Clearing(at(7, (1, 3)), at(9, (0, 1)), at((2, 1), (5, 0)))

    assert clear(given, clearing, LIMIT) is given
    assert clear(given, Clearing(), LIMIT) is given


def test_a_message_is_found_by_its_place_in_the_clients_list() -> None:
    whole = conversation(user(), result("a", LONG), result("b", LONG), result("c", LONG))

    after = clear(whole.only([0, 2, 3]), Clearing(results=at(1, 2)), LIMIT)

    assert [message["content"] for message in after.fields] == ["hi", RESULT_NOTE, LONG]
    assert list(after.origins) == [0, 2, 3]


def test_a_message_that_the_client_did_not_send_is_not_touched() -> None:
    messages = conversation(result("a", LONG), result("b", LONG)).messages
    given = Conversation(messages, [None, 0])

    after = clear(given, Clearing(results=at(0)), LIMIT)

    assert [message["content"] for message in after.fields] == [LONG, RESULT_NOTE]


# Folded results


def test_a_folded_result_is_cleared_inside_its_block() -> None:
    """BUGS 24."""
    given = f"Look:\n{folded('f', LONG)}\nand {folded('g', LONG)} done"

    (after,) = _cleared(says(given), results=at((0, 1)))

    assert after["content"] == f"Look:\n{folded('f', LONG)}\nand {folded('g', RESULT_NOTE)} done"


def test_folded_results_are_counted_through_all_parts_of_a_message() -> None:
    """BUGS 39."""
    given = says([text(folded("f", LONG)), image(), text(folded("g", LONG), cache_control=MARK)])

    (after,) = _cleared(given, results=at((0, 1)))

    assert after["content"][0] is given["content"][0]
    assert after["content"][2] == text(folded("g", RESULT_NOTE), cache_control=MARK)


def test_a_folded_result_no_longer_than_the_note_stays() -> None:
    given = conversation(says(folded("f", "x" * len(RESULT_NOTE))))

    assert clear(given, Clearing(results=at((0, 0))), LIMIT) is given


def test_a_folded_result_is_shortened_inside_its_block() -> None:
    (after,) = _cleared(says(folded("f", LONG)), shortened=at((0, 0)))

    (found,) = embedded_results(after["content"])
    assert found.name == "f"
    assert len(found.text) <= LIMIT
    assert "[Tool output truncated: omitted " in found.text


# Shortened results


def test_a_result_is_shortened_to_the_limit() -> None:
    (after,) = _cleared(result("a", f"begin {LONG} end"), shortened=at(0))

    assert len(after["content"]) <= LIMIT
    assert after["content"].startswith("begin ")
    assert after["content"].endswith(" end")


def test_a_result_within_the_limit_is_not_shortened() -> None:
    given = conversation(result("a", "x" * LIMIT))

    assert clear(given, Clearing(shortened=at(0)), LIMIT) is given


def test_the_texts_of_a_list_share_the_limit() -> None:
    """BUGS 39."""
    given = result("a", [text(LONG), text("short"), image(), text(LONG, cache_control=MARK)])

    outcome = clear(conversation(given), Clearing(shortened=at(0)), 200)

    first, short, picture, last = outcome.fields[0]["content"]
    assert (short, picture) == (text("short"), image())
    assert 120 < len(first["text"]) + len(last["text"]) <= 195
    assert last["cache_control"] == MARK


def test_the_notes_of_media_have_no_share_of_the_limit() -> None:
    """BUGS 21: a result is shortened to the same text before and after its media are cleared."""
    (with_media,) = _cleared(result("a", [image(), text(LONG)]), shortened=at(0))
    (without,) = _cleared(result("a", [text(PNG_NOTE), text(LONG)]), shortened=at(0))

    assert without["content"] == [text(PNG_NOTE), with_media["content"][1]]


def test_a_result_that_was_cut_before_keeps_its_offload_id() -> None:
    note = f"[Tool output truncated: omitted 9000 chars] [offload id: {'ab' * 16}]"

    outcome = clear(
        conversation(result("a", f"{LONG}\n{note}\n{LONG}")), Clearing(shortened=at(0)), 200
    )

    content = outcome.fields[0]["content"]
    assert len(content) <= 200
    assert content.count(f"[offload id: {'ab' * 16}]") == 1


# Media


@pytest.mark.parametrize(
    ("part", "mime"),
    [
        (image(), "image/png"),
        (image("https://a/b.jpg"), "image/jpeg"),
        ({"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}, "audio/wav"),
        ({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}, "video/mp4"),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBE"}}, "application/pdf"),
        (image("data:<b>;base64,AA"), "application/octet-stream"),
    ],
)
def test_a_medium_becomes_a_note_of_its_type(part: Fields, mime: str) -> None:
    (after,) = _cleared(user([text("look"), part]), media=at((0, 0)))

    assert after["content"] == [text("look"), text(f"[Old inline media cleared: {mime}]")]


def test_a_cache_mark_stays_where_it_was() -> None:
    (after,) = _cleared(user([{**image(), "cache_control": MARK}]), media=at((0, 0)))

    assert after["content"] == [text(PNG_NOTE, cache_control=MARK)]


def test_a_nested_medium_and_a_single_part_are_cleared_too() -> None:
    """BUGS 39."""
    nested = {"type": "tool_result", "content": [text("a"), image()], "id": 1}

    after = _cleared(user([nested]), user(image()), media=at((0, 0), (1, 0)))

    assert after[0]["content"] == [{**nested, "content": [text("a"), text(PNG_NOTE)]}]
    assert after[1]["content"] == text(PNG_NOTE)


def test_media_keep_their_numbers_when_one_of_them_is_cleared() -> None:
    given = conversation(user([image(), image("https://a/b.jpg")]))
    first = Clearing(media=at((0, 0)))

    once = clear(given, first, LIMIT)

    assert clear(once, first, LIMIT) is once
    both = clear(once, Clearing(media=at((0, 1))), LIMIT)
    assert both.fields[0]["content"][1] == text("[Old inline media cleared: image/jpeg]")


def test_the_note_of_a_result_is_what_agents_know_from_elsewhere() -> None:
    assert RESULT_NOTE == "[Old tool result content cleared]"


@pytest.mark.parametrize("levels", range(MAX_DEPTH + 2))
def test_media_are_numbered_as_deep_as_they_are_found(levels: int) -> None:
    """Both walk the same parts, or a medium would have no number."""
    content: list[Any] = [text("a"), image(), image()]
    for _ in range(levels):
        content = [{"type": "tool_result", "content": content}]
    message = Message(result("1", content))

    found = [medium.path for medium in message.media()]
    assert [slot.path for slot in media_slots(message)] == found
    assert len(found) == (2 if levels < MAX_DEPTH else 0)
