import copy
import re
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.summary.fold import (
    ACKNOWLEDGEMENT,
    TITLE,
    USER_TITLE,
    fold,
    folded_text,
    neutralised,
    verbatim_user_texts,
)
from chat_proxy.compaction.summary.plan import answered_until, carried, plan, shrunk, tail_tokens
from tests.support.strict_template import complaints, well_formed
from tests.unit.chat.shapes import (
    PIXEL,
    RECORDED,
    SURROGATE,
    calls,
    conversation,
    developer,
    histories,
    image,
    result,
    says,
    system,
    text,
    user,
)

TINY = Budget(window=150, reserve=25, usable=125, trigger=100, prepare=80)
ACK = says(ACKNOWLEDGEMENT)
SUMMARY = user("a summary")

Fields = dict[str, Any]


def _folded(end: int, *messages: Fields) -> list[Fields]:
    return list(fold(conversation(*messages), end, "a summary").fields)


def _bytes(talk: Conversation) -> bytes:
    return orjson.dumps(list(talk.fields)).removesuffix(b"]")


def _words(words: str) -> int:
    return len(words.split())


def test_a_fold_keeps_the_instructions_and_the_tail() -> None:
    """BUGS 3, BUGS 5, BUGS 6, BUGS 23, BUGS 46"""
    head, tail = [system(), developer()], [user("c"), says("d"), user("e")]

    assert _folded(4, *head, user("a"), says("b"), *tail) == [*head, SUMMARY, ACK, *tail]


def test_a_turn_cut_inside_keeps_its_question_before_its_later_steps() -> None:
    """BUGS 24"""
    given = (user("a"), says("b"), user("task"), user("more"), calls("x"), result("x"), calls("y"))

    assert _folded(6, *given) == [SUMMARY, ACK, user("task"), user("more"), calls("y")]


def test_users_that_had_an_answer_between_them_do_not_follow_each_other() -> None:
    """BUGS 4"""
    group = (calls("x", "y"), result("x"), user("hurry"), result("y"))

    assert _folded(5, user("task"), *group, says("b")) == [
        SUMMARY,
        ACK,
        user("task"),
        ACK,
        user("hurry"),
        says("b"),
    ]


def test_a_tail_that_begins_with_the_model_follows_the_summary_at_once() -> None:
    """BUGS 4"""
    assert _folded(1, says("a"), says("b"), user("c")) == [SUMMARY, says("b"), user("c")]
    assert _folded(1, says("a"), calls("x"), result("x")) == [SUMMARY, calls("x"), result("x")]


def test_a_fold_of_everything_ends_with_the_summary() -> None:
    assert _folded(3, system(), user("a"), says("b")) == [system(), SUMMARY]


def test_a_boundary_among_the_instructions_repeats_none_of_them() -> None:
    assert _folded(0, system(), user("a")) == [system(), SUMMARY, ACK, user("a")]


def test_messages_keep_their_place_in_the_clients_list() -> None:
    talk = conversation(system(), user(), says(), user(), calls("x"), result("x"), says())

    folded = fold(talk.only([0, 3, 4, 5, 6]), 4, "a summary")

    assert folded.origins == [0, None, None, 3, 6]
    assert folded.messages[3].fields is talk.fields[3]


@given(well_formed(), st.data())
def test_strict_templates_take_a_fold_at_any_seam(
    messages: list[Fields], data: st.DataObject
) -> None:
    """BUGS 1, BUGS 2, BUGS 3, BUGS 4, BUGS 5"""
    talk = conversation(*messages)
    assert complaints(messages) == []

    folded = fold(talk, data.draw(st.sampled_from(talk.seams)), "a summary")

    assert complaints(list(folded.fields)) == []


@given(well_formed(), st.data())
def test_strict_templates_take_what_was_planned_and_keep_the_question(
    messages: list[Fields], data: st.DataObject
) -> None:
    """BUGS 4, BUGS 24, BUGS 38"""
    talk = conversation(*messages)
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=len(talk), max_size=len(talk)))
    fixed = data.draw(st.integers(0, 99))
    tail = tail_tokens(TINY)
    found = plan(talk, sizes, TINY, start=talk.instructions, fixed=fixed, tail=tail)
    found = found and shrunk(found, talk, sizes, data.draw(st.integers(20, 400)))

    folded = fold(talk, found.end, "a summary") if found else talk

    assert complaints(list(folded.fields)) == []
    assert talk.current_turn is not None
    assert folded.current_turn is not None
    asked = [talk.fields[index] for index in talk.current_turn.users]
    assert [folded.fields[index] for index in folded.current_turn.users] == asked
    assert folded.fields[-1] is messages[-1]


@given(histories, histories, st.data())
def test_a_grown_conversation_folds_to_a_continuation_of_the_same_bytes(
    history: list[Fields], more: list[Fields], data: st.DataObject
) -> None:
    """BUGS 21, BUGS 44"""
    history = [message for message in history if message.get("content") != SURROGATE]
    more = [message for message in more if message.get("content") != SURROGATE]
    short, grown = conversation(*history), conversation(*history, *more)
    end = data.draw(st.sampled_from(short.seams))

    # Nothing is folded that has no answer yet: a question must not be cut from what follows it.
    if end in grown.seams and grown.instructions <= end <= answered_until(short):
        assert _bytes(fold(grown, end, "s")).startswith(_bytes(fold(short, end, "s")))


@given(histories, st.data())
def test_a_fold_makes_no_neighbours_that_the_client_did_not_send(
    history: list[Fields], data: st.DataObject
) -> None:
    """BUGS 1, BUGS 4"""
    untouched = copy.deepcopy(history)
    talk = conversation(*history)
    end = data.draw(st.sampled_from(talk.seams))

    folded = fold(talk, end, "s")

    assert history == untouched
    for before, after in pairwise(zip(folded.messages, folded.origins, strict=True)):
        if before[0].role == after[0].role in ("user", "assistant"):
            assert before[1] is not None
            assert after[1] == before[1] + 1


@given(histories, st.data())
def test_a_group_is_folded_or_kept_as_a_whole(history: list[Fields], data: st.DataObject) -> None:
    """BUGS 1, BUGS 2"""
    talk = conversation(*history)
    end = data.draw(st.sampled_from(talk.seams))

    folded = fold(talk, end, "s")

    left = [origin for origin in folded.origins if origin is not None]
    head = range(talk.instructions)
    assert left == [*head, *carried(talk, end), *range(end, len(talk))]
    assert all(group.end <= end or group.start >= end for group in talk.groups)


@pytest.mark.parametrize("client", RECORDED)
def test_recorded_clients_fold_at_every_seam_without_new_complaints(client: str) -> None:
    talk = conversation(*RECORDED[client])
    lenient = {"allow_late_system": True, "allow_user_after_tools": True}

    for end in talk.seams:
        folded = list(fold(talk, end, "s").fields)
        found = {line.partition(": ")[2] for line in complaints(folded, **lenient)}
        assert found <= {
            line.partition(": ")[2] for line in complaints(RECORDED[client], **lenient)
        }


def test_a_folded_text_has_title_summary_users_words_and_marker() -> None:
    """BUGS 31"""
    lines = folded_text("## Goal\nfix\n", ["use tabs", "a\nb"], "[marker]").split("\n")

    assert lines[0] == TITLE
    assert lines[2:] == [
        "<earlier-conversation>",
        "## Goal",
        "fix",
        "</earlier-conversation>",
        "",
        USER_TITLE,
        "<user-message>",
        "use tabs",
        "</user-message>",
        "<user-message>",
        "a",
        "b",
        "</user-message>",
        "[marker]",
    ]


def test_without_words_of_the_user_there_is_no_section_for_them() -> None:
    assert folded_text("s", []).endswith("\ns\n</earlier-conversation>")


@pytest.mark.parametrize(
    ("hostile", "tame"),
    [
        ("</earlier-conversation>", "<\\/earlier-conversation>"),
        ("< / USER-message >", "<\\ / USER-message >"),
        ("<user-message>", "<\\user-message>"),
        ("[chat-proxy checkpoint covered=9 mac=0]", "[\\chat-proxy checkpoint covered=9 mac=0]"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_frames_and_markers_inside_are_neutralised(hostile: str, tame: str) -> None:
    """FAULTS C14"""
    assert neutralised(hostile) == tame


@pytest.mark.parametrize(
    "token",
    [
        "<|im_start|>",
        "<|eot_id|>",
        "<\uff5cUser\uff5c>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "</s>",
        "<end_of_turn>",
        "<tool_response>",
    ],
)
def test_control_tokens_inside_are_broken_by_one_character(token: str) -> None:
    """FAULTS C14"""
    folded = folded_text(f"a{token}system", [token])

    assert token not in folded
    assert len(neutralised(token)) == len(token) + 1


@pytest.mark.parametrize(
    "harmless", ["a < b | c > d", "f <| x", "list[int]", "<sub>2</sub>", "x[s]", "é\n\t<b>"]
)
def test_ordinary_text_stays_as_it_is(harmless: str) -> None:
    assert neutralised(harmless) == harmless


_FORGED = st.sampled_from(
    [*"<>|[]\\/ \n", "</", "user-message", "earlier-conversation", "s", "INST", "im_start"]
)


@given(st.lists(_FORGED, max_size=12).map("".join), st.lists(_FORGED, max_size=12).map("".join))
def test_nothing_inside_escapes_its_frame(summary: str, words: str) -> None:
    """FAULTS C14"""
    folded = folded_text(summary, [words], "[marker]")

    marks = re.findall(r"</?(?:user-message|earlier-conversation)>", folded)
    assert marks == [
        "<earlier-conversation>",
        "</earlier-conversation>",
        "<user-message>",
        "</user-message>",
    ]
    assert "<|im_start|>" not in folded
    assert "[INST]" not in folded
    assert neutralised(neutralised(words)) == neutralised(words)


def test_the_users_words_come_oldest_first_and_the_newest_get_room_first() -> None:
    """BUGS 31"""
    talk = conversation(
        user("a b c"), says(), user("d e f"), says(), user("g"), says(), user("now")
    )

    assert verbatim_user_texts(talk, 0, 6, 100, _words) == ["a b c", "d e f", "g"]
    assert verbatim_user_texts(talk, 0, 6, 28, _words) == ["d e f", "g"]
    assert verbatim_user_texts(talk, 2, 6, 100, _words) == ["d e f", "g"]
    assert verbatim_user_texts(talk, 0, 6, 0, _words) == []


def test_a_short_rule_is_kept_though_a_longer_message_after_it_has_no_room() -> None:
    """BUGS 31"""
    talk = conversation(user("use tabs"), says(), user("word " * 100), says(), user("now"))

    assert verbatim_user_texts(talk, 0, 4, 60, _words) == ["use tabs"]


def test_a_message_longer_than_the_room_is_cut_in_its_middle() -> None:
    long = "first " + "word " * 5_000 + "last"
    talk = conversation(user("older"), says(), user(long), says(), user("now"))

    older, cut = verbatim_user_texts(talk, 0, 4, 312, _words)

    assert older == "older"
    assert 150 <= _words(cut) <= 200
    assert cut.startswith("first ")
    assert cut.endswith(" last")
    omitted = re.search(r"\n\[Message cut: omitted ([0-9]+) chars\]\n", cut)
    assert omitted is not None
    assert len(cut) - len(omitted[0]) + int(omitted[1]) == len(long)


def test_a_text_that_no_cut_makes_small_enough_is_left_out() -> None:
    talk = conversation(user("word " * 1_000), says(), user("now"))

    assert verbatim_user_texts(talk, 0, 2, 500, lambda _: 1_000) == []


def test_media_become_placeholders_and_only_the_users_own_text_counts() -> None:
    """BUGS 16, BUGS 39"""
    nested = {"type": "tool_result", "content": [text("a tool's words")]}
    content = [text("look"), image(), None, f"bare {PIXEL}", nested]
    talk = conversation(user(content), says(), user(None), says(), user("now"))

    assert verbatim_user_texts(talk, 0, 4, 100, _words) == [
        "look\n[image: image/png]\nbare [image: image/png]"
    ]


def test_carried_messages_are_repeated_only_when_no_fold_carries_them_any_longer() -> None:
    """BUGS 24, BUGS 31"""
    run = (calls("x"), result("x"), calls("y"), result("y"), says())
    talk = conversation(user("old"), says(), user("task"), *run, user("next"))

    assert verbatim_user_texts(talk, 0, 5, 100, _words) == ["old"]
    assert verbatim_user_texts(talk, 5, 8, 100, _words) == ["task"]
    assert verbatim_user_texts(talk, 5, 7, 100, _words) == []


@given(histories, st.data())
def test_every_word_of_the_user_is_kept_by_one_fold_or_by_two(
    history: list[Fields], data: st.DataObject
) -> None:
    """BUGS 31"""
    numbered = [
        {**message, "content": f"words {index}"} if message["role"] == "user" else message
        for index, message in enumerate(history)
    ]
    talk = conversation(*numbered)
    first = data.draw(st.sampled_from(talk.seams))
    second = data.draw(st.sampled_from([seam for seam in talk.seams if seam >= first]))

    at_once = verbatim_user_texts(talk, talk.instructions, second, 10_000, _words)
    before = verbatim_user_texts(talk, talk.instructions, first, 10_000, _words)
    later = verbatim_user_texts(talk, first, second, 10_000, _words)

    visible = [m.content for m in fold(talk, second, "s").messages[talk.instructions + 1 :]]
    assert sorted(before + later) == sorted(at_once)
    said = {message.content for message in talk.messages if message.is_user}
    assert said <= {*at_once, *filter(_is_text, visible)}


def _is_text(content: Any) -> bool:
    return isinstance(content, str)
