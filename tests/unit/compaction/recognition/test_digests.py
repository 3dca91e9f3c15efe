"""Digests of covered messages: stored, read again, refused when they are anything else."""

from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from chat_proxy.chat.normal_form.normal_form import NormalMessage, normal_forms
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.recognition.digests import (
    HEAD_BYTES,
    HEAD_CHARS,
    MAX_HEADS,
    NOTHING,
    Covered,
    Digester,
    MessageDigest,
    covered_by,
    cut_at,
)
from tests.unit.chat.shapes import Fields, image, says, text, user

ONE, OTHER = Digester(b"one key"), Digester(b"another key")
LONG = "a line of output\n" * 400
_digests = st.builds(
    MessageDigest,
    st.sampled_from(["user", "assistant", "result", "other"]),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=4, max_size=4),
)


def digest(message: Fields, digester: Digester = ONE) -> MessageDigest:
    (form,) = normal_forms([message], VolatileBlocks(()))
    return digester.digest(form, digester.full(form))


def test_a_digest_depends_on_the_key_the_kind_and_the_words() -> None:
    given = digest(user("hi"))

    assert given == digest(user("hi"))
    assert given != digest(user("ho"))
    assert given != digest(user("hi"), OTHER)
    assert given.said != digest(says("hi")).said


def test_a_message_without_media_is_told_from_one_with_a_note_about_them() -> None:
    note = text("[Old inline media cleared: image/png]")
    given = [digest(user([text("see"), more])) for more in (image(), note, text(""))]

    assert [it.has_media for it in given] == [True, False, False]
    assert len({it.media for it in given}) == 3
    assert len({it.said for it in given}) == 1


def test_only_the_user_and_the_model_speak() -> None:
    kinds = [digest(it) for it in (user(), says(), {"role": "tool"}, {"role": "new"})]

    assert [it.is_speech for it in kinds] == [True, True, False, False]


def test_the_ends_of_a_result_are_digested_by_their_length() -> None:
    ends = ONE.ends(LONG[:300])

    assert ends.chars == 300
    assert len(ends.heads) == len(ends.tails) == 5 * HEAD_BYTES
    assert ends.heads == ONE.heads(LONG)[: 5 * HEAD_BYTES] != OTHER.heads(LONG[:300])
    assert ends.tails == ONE.tails(f"x{LONG[:300]}") != ONE.tails(LONG[:299])


def test_ends_of_the_newest_long_results_that_are_whole_are_kept() -> None:
    texts = {at: f"{at} {LONG}" for at in range(MAX_HEADS + 2)}
    texts[7] = "short"
    texts[9] += "\n[... 20 lines truncated ...]\n"
    covered = covered_by([], texts, b"", ONE)

    assert set(covered.ends) == set(texts) - {0, 7, 9}


@pytest.mark.parametrize(
    "words",
    [
        "[... 200 lines truncated ...]",
        "<Output too long, only the beginning is shown>",
        "(middle omitted)",
        "... [CONTENT TRUNCATED] ...",
        "\u2026 1200 tokens truncated \u2026",
        "...elided...",
    ],
)
def test_a_note_that_text_is_left_out_is_found(words: str) -> None:
    found = cut_at(f"head\n{words}\ntail")

    assert found is not None
    assert 5 <= found.start < 10
    assert found.stop <= 5 + len(words)


@pytest.mark.parametrize(
    "words",
    [
        "the table was truncated",
        "(a) rows were omitted",
        "[1] too\nlong",
        "... \ntruncated",
        "[untruncated]",
        "[" + "x" * 130 + " truncated]",
        "",
    ],
)
def test_other_words_are_no_such_note(words: str) -> None:
    assert cut_at(f"head\n{words}\ntail") is None


@examples(
    st.lists(_digests, max_size=20),
    st.dictionaries(st.integers(0, 600), st.text(min_size=128, max_size=400), max_size=4),
    st.binary(max_size=32),
)
def test_digests_come_back_as_they_were(
    messages: list[MessageDigest], texts: dict[int, str], older: bytes
) -> None:
    covered = covered_by(messages, texts, older, ONE)

    read = Covered.from_document(covered.as_document())

    assert read == covered
    assert read.as_document() == covered.as_document()


def test_a_long_result_has_all_of_its_ends() -> None:
    covered = covered_by([digest(user())], {3: "x" * 40_000}, b"", ONE)

    assert len(covered.ends[3].heads) == len(HEAD_CHARS) * HEAD_BYTES
    assert Covered.from_document(covered.as_document()) == covered


GOOD = covered_by([digest(user())], {0: LONG}, b"older", ONE).as_document()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "x",
        {},
        {**GOOD, "messages": None},
        {**GOOD, "messages": "not base64!"},
        {**GOOD, "messages": "AAAA"},
        {**GOOD, "messages": "BAAAAAAAAAAAAAAAAA=="},
        {**GOOD, "messages": "\ud800"},
        {**GOOD, "ends": []},
        {**GOOD, "ends": {"x": "AAAAAA=="}},
        {**GOOD, "ends": {"0": ""}},
        {**GOOD, "ends": {"0": None}},
        {**GOOD, "ends": {"0": "AAAA/w=="}},
        {**GOOD, "ends": {"0": "AAAAAAAA"}},
        {**GOOD, "older": "zz"},
        {**GOOD, "older": 1},
    ],
)
def test_what_is_no_document_of_digests_is_refused(document: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words do not matter
        Covered.from_document(document)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@examples(st.fixed_dictionaries({"messages": _json, "ends": _json, "older": _json}))
def test_a_broken_document_raises_nothing_else(document: Any) -> None:
    try:
        covered = Covered.from_document(document)
    except ValueError:
        return
    assert all(isinstance(it, MessageDigest) for it in covered.messages)


def test_nothing_covered_is_a_document_too() -> None:
    assert Covered.from_document(NOTHING.as_document()) == NOTHING


def test_the_whole_digest_is_longer_than_what_is_stored() -> None:
    form = NormalMessage("user", b"hi")

    assert ONE.full(form).startswith(ONE.digest(form, ONE.full(form)).said)
    assert len(ONE.full(form)) == 24
