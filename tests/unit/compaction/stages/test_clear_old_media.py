import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.apply_clearing import clear
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.stages.clear_old_media import ClearOldMedia, ClearOldMediaPolicy
from chat_proxy.compaction.tool_results import seen_until
from tests.unit.chat.shapes import (
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
from tests.unit.compaction.stages.pressing import at, busy_histories, pressure_on

POLICY = ClearOldMediaPolicy(enabled=True, keep_user_media=1, keep_tool_media=1)
NONE_KEPT = ClearOldMediaPolicy(enabled=True, keep_user_media=0, keep_tool_media=0)
LIMIT = 3_000


def _decided(
    given: Conversation, policy: ClearOldMediaPolicy = POLICY, done: Clearing | None = None
) -> Clearing:
    return ClearOldMedia(policy)(given, done or Clearing(), pressure_on(given))


def _looks(*parts: Fields) -> list[Fields]:
    return [user([text("look"), *parts]), says()]


def _screenshot(name: str) -> list[Fields]:
    return [calls(name), result(name, [text("taken"), image()])]


def test_all_but_the_newest_media_go() -> None:
    given = conversation(*_looks(image()), *_looks(image(), image()), *_looks(image()), user())

    assert _decided(given).media == at((0, 0), (2, 0), (2, 1))
    assert _decided(given, replace(POLICY, keep_user_media=2)).media == at((0, 0), (2, 0))
    assert _decided(given, replace(POLICY, keep_user_media=4)) == Clearing()
    assert _decided(given, replace(POLICY, keep_user_media=9)) == Clearing()


def test_messages_without_media_hide_none_behind_them() -> None:
    """Neither plain words nor a list of parts that are all text."""
    words = [user("a"), says([text("b")])]
    given = conversation(*words, *_looks(image()), *words, *_looks(image()), user())

    assert _decided(given).media == at((2, 0))


def test_media_of_tools_are_counted_apart() -> None:
    given = conversation(
        *_looks(image()),
        user(),
        *_screenshot("a"),
        *_screenshot("b"),
        {"role": "function", "name": "f", "content": [image()]},
        says(),
        user(),
    )

    assert _decided(given).media == at((4, 0), (6, 0))
    assert _decided(given, replace(POLICY, keep_tool_media=2)).media == at((4, 0))
    assert _decided(given, NONE_KEPT).media == at((0, 0), (4, 0), (6, 0), (7, 0))


def test_media_of_the_current_user_messages_stay() -> None:
    """BUGS 32."""
    given = conversation(
        *_looks(image()),
        user([image(), image()]),
        user([image()]),
        *_screenshot("a"),
        *_screenshot("b"),
    )

    assert _decided(given, NONE_KEPT).media == at((0, 0), (5, 0))


def test_media_that_the_model_has_not_seen_stay() -> None:
    """BUGS 32."""
    new = calls("a", "b")
    given = conversation(
        user(), *_screenshot("x"), new, result("a", [image()]), result("b", [image()]), user("so?")
    )

    assert _decided(given, NONE_KEPT).media == at((2, 0))


def test_media_of_the_instructions_stay() -> None:
    late = system([image()])
    given = conversation(system([image()]), *_looks(image()), late, says(), user())

    assert _decided(given, NONE_KEPT).media == at((1, 0), (3, 0))


@pytest.mark.parametrize(
    "part",
    [
        image(),
        image("https://a/b.png"),
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "tool_result", "content": [text("a"), image()]},
    ],
)
def test_all_kinds_of_media_go(part: Fields) -> None:
    assert _decided(conversation(*_looks(part), user()), NONE_KEPT).media == at((0, 0))


def test_a_medium_that_weighs_no_more_than_its_note_stays() -> None:
    given = conversation(*_looks(image()), user())
    light = replace(pressure_on(given), weigh_media=lambda _: [37])
    heavier = replace(light, weigh_media=lambda _: [38])

    assert ClearOldMedia(NONE_KEPT)(given, Clearing(), light) == Clearing()
    assert ClearOldMedia(NONE_KEPT)(given, Clearing(), heavier).media == at((0, 0))


def test_what_is_gone_is_neither_cleared_again_nor_counted() -> None:
    """BUGS 22."""
    given = conversation(*_looks(image(), image(), image()), *_looks(image()), user())
    done = Clearing(media=at((0, 0), (2, 0)))

    assert _decided(given, done=done).media == at((0, 1))
    assert _decided(clear(given, done, LIMIT), done=done).media == at((0, 1))


def test_media_of_cleared_results_are_gone_already() -> None:
    given = conversation(user(), *_screenshot("a"), *_screenshot("b"), says(), user())

    assert _decided(given, done=Clearing(results=at(4))) == Clearing()
    assert _decided(given, NONE_KEPT, Clearing(results=at(4))).media == at((2, 0))


def test_a_text_that_looks_like_a_note_does_not_shift_the_places() -> None:
    note = text("[Old inline media cleared: image/png]")
    given = conversation(*_looks(note, image()), user())

    decided = _decided(given, NONE_KEPT)

    assert decided.media == at((0, 1))
    assert clear(given, decided, LIMIT).fields[0]["content"][1:] == [note, note]


def test_media_that_the_client_did_not_send_are_left_alone() -> None:
    whole = conversation(*_looks(image()), user())

    assert _decided(Conversation(whole.messages, [None, 1, 2]), NONE_KEPT) == Clearing()


def test_a_stage_that_is_off_decides_nothing() -> None:
    given = conversation(*_looks(image()), user())

    assert _decided(given, replace(NONE_KEPT, enabled=False)) == Clearing()


def test_an_empty_conversation_and_plain_texts_have_nothing_to_clear() -> None:
    assert _decided(conversation(), NONE_KEPT) == Clearing()
    assert _decided(conversation(system()), NONE_KEPT) == Clearing()
    assert _decided(conversation(user(), says([text("a")]), user()), NONE_KEPT) == Clearing()


def test_a_grown_conversation_begins_with_the_same_bytes() -> None:
    """BUGS 21."""
    messages = [*_looks(image()), *_looks(image(), image()), user([image()])]
    given = conversation(*messages)
    decided = _decided(given)

    sent = json.dumps(clear(given, decided, LIMIT).fields)
    grown = clear(conversation(*messages, says(), user([image()])), decided, LIMIT)

    assert json.dumps(grown.fields).startswith(sent[:-1])


_policies = st.builds(ClearOldMediaPolicy, st.just(True), st.integers(0, 2), st.integers(0, 2))


@given(busy_histories, _policies)
def test_whatever_is_decided_is_right(messages: list[Fields], policy: ClearOldMediaPolicy) -> None:
    """BUGS 32: every place is a medium, none is of the current request or unseen."""
    before = copy.deepcopy(messages)
    given = conversation(*messages)

    decided = _decided(given, policy)
    after = clear(given, decided, LIMIT)

    assert messages == before
    assert after.groups == given.groups
    assert _media_count(given) - _media_count(after) == len(decided.media)
    assert decided.until <= seen_until(given)
    turn = given.current_turn
    assert all(after.fields[index] is messages[index] for index in (turn.users if turn else ()))
    assert not _decided(after, policy, decided).media & decided.media


def _media_count(given: Conversation) -> int:
    return sum(len(list(message.media())) for message in given.messages)
