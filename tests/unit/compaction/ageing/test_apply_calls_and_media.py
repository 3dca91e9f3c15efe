"""Treatments applied to calls and media."""

import json
from typing import Any

import pytest

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.media import MAX_DEPTH
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.apply import age, media_slots
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.media_notes import LONGEST_NOTE, is_media_note
from tests.unit.chat.shapes import Fields, calls, conversation, image, result, says, text, user
from tests.unit.compaction.examples import at, called, embedded, sized

LONG = "x " * 200
LIMIT = 120
MARK = {"type": "ephemeral"}
PNG_NOTE = "[Old inline media cleared: image/png] 1x1, message #0"
SOUND = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBE"}}


def aged(*messages: Fields, **treatments: Any) -> list[Fields]:
    return list(age(conversation(*messages), Treatments(**treatments)).fields)


# Calls


def test_long_arguments_of_a_call_are_cut_and_its_id_stays() -> None:
    given = called("a", "write_file", path="a.py", content="x" * 900)

    (after, *_) = aged(given, result("a"), calls=sized(LIMIT, 0))

    (call,) = after["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert (call["id"], call["type"], call["function"]["name"]) == ("a", "function", "write_file")
    assert arguments["path"] == "a.py"
    assert len(arguments["content"]) <= LIMIT


def test_long_words_beside_a_call_are_cut_too() -> None:
    (after, *_) = aged({**calls("a"), "content": "word " * 99}, result("a"), calls=sized(60, 0))

    assert len(after["content"]) <= 60
    assert after["tool_calls"] == calls("a")["tool_calls"]


@pytest.mark.parametrize(
    "call",
    [
        {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": LONG}}]},
        {"function_call": {"name": "f", "arguments": json.dumps({"a": LONG})}},
        {"tool_calls": [None, "odd", {"id": "a"}, {"function": {"arguments": {"a": LONG}}}]},
    ],
)
def test_calls_of_any_form_are_cut(call: Fields) -> None:
    (after,) = aged(says(None, **call), calls=sized(100, 0))

    assert LONG not in json.dumps(after)
    assert list(after) == list(says(None, **call))


def test_a_block_with_an_embedded_result_is_not_cut_through() -> None:
    """DESIGN 5"""
    (after,) = aged(says(f"Look: {embedded('f', LONG)} done"), calls=sized(100, 0))

    (found,) = embedded_results(after["content"])
    assert len(found.text) <= 100
    assert after["content"].endswith("</details> done")


def test_a_call_without_long_arguments_stays() -> None:
    given = conversation(calls("a"), result("a"), user("x" * 900))

    assert age(given, Treatments(calls=sized(100, 0, 1, 2))) is given


# Media


@pytest.mark.parametrize(
    ("part", "mime", "known"),
    [
        (image(), "image/png", "1x1, "),
        (image("https://a/b.jpg?w=1"), "image/jpeg", "b.jpg, "),
        (SOUND, "audio/wav", ""),
        ({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}, "video/mp4", "b.mp4, "),
        (PDF, "application/pdf", "a.pdf, "),
        (image("data:<b>;base64,AA"), "application/octet-stream", ""),
    ],
)
def test_a_medium_becomes_a_note_of_its_type_name_size_and_place(
    part: Fields, mime: str, known: str
) -> None:
    (after,) = aged(user([text("look"), part]), media=at((0, 0)))

    note = text(f"[Old inline media cleared: {mime}] {known}message #0")
    assert after["content"] == [text("look"), note]


def test_a_note_quotes_what_the_assistant_said_about_the_medium() -> None:
    answer = "<think>Hm.</think>A red bicycle. It leans on a wall. The tyre is flat. It rains."
    (after, *_) = aged(user([image()]), says(answer), user("And?"), media=at((0, 0)))

    said = "A red bicycle. It leans on a wall. The tyre is flat."
    assert after["content"][0]["text"] == f"{PNG_NOTE}; the assistant said: {said}"


def test_a_note_does_not_change_when_the_history_grows() -> None:
    """BUGS 44: a note made again later has the same bytes."""
    shot = [user("go"), calls("a"), result("a", [image()]), calls("b"), result("b")]
    treatments = {"media": at((2, 0))}

    before = aged(*shot, **treatments)
    after = aged(*shot, says("It shows a form."), user("and?"), **treatments)

    assert before == after[: len(before)]


def test_a_note_is_one_line_of_limited_length_without_control_tokens() -> None:
    answer = "<|im_start|>system\n" + "a very long line " * 90
    (after, *_) = aged(user([image()]), says(answer), media=at((0, 0)))

    note = after["content"][0]["text"]
    assert "\n" not in note
    assert "<|im_start|>" not in note
    assert len(note) <= len(PNG_NOTE) + LONGEST_NOTE
    assert is_media_note(note)


def test_a_cache_mark_stays_where_it_was() -> None:
    (after,) = aged(user([{**image(), "cache_control": MARK}]), media=at((0, 0)))

    assert after["content"] == [text(PNG_NOTE, cache_control=MARK)]


def test_a_nested_medium_and_a_single_part_become_notes_too() -> None:
    """BUGS 39"""
    nested = {"type": "tool_result", "content": [text("a"), image()], "id": 1}

    after = aged(user([nested]), user(image()), media=at((0, 0), (1, 0)))

    assert after[0]["content"] == [{**nested, "content": [text("a"), text(PNG_NOTE)]}]
    assert after[1]["content"] == text(PNG_NOTE.replace("#0", "#1"))


def test_media_keep_their_numbers_when_one_of_them_is_noted() -> None:
    given = conversation(user([image(), image("https://a/b.jpg")]))
    first = Treatments(media=at((0, 0)))

    once = age(given, first)

    assert age(once, first) is once
    both = age(once, Treatments(media=at((0, 1))))
    assert both.fields[0]["content"][1] == text(
        "[Old inline media cleared: image/jpeg] b.jpg, message #0"
    )


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
