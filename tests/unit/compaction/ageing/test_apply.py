"""Treatments applied to a conversation: results, calls and media are shown as they say."""

from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.compaction.ageing.apply import Where, age, nowhere
from chat_proxy.compaction.ageing.line import RESULT_NOTE
from chat_proxy.compaction.ageing.treatments import Treatments
from tests.unit.chat.shapes import Fields, conversation, image, result, says, text, user
from tests.unit.compaction.examples import at, called, embedded, sized

LONG = "x " * 200
LIMIT = 120
MARK = {"type": "ephemeral"}
PNG_NOTE = "[Old inline media cleared: image/png]"
LINE = f"{RESULT_NOTE} tool() → 400 chars; {'x ' * 23}x…"


def aged(*messages: Fields, where: Where = nowhere, **treatments: Any) -> list[Fields]:
    outcome = age(conversation(*messages), Treatments(**treatments), where)
    return list(outcome.fields)


def stored(_: str, _number: int) -> str:
    return " [offload id: 0123]"


# Lines


def test_a_result_becomes_its_line_and_every_other_field_stays() -> None:
    """BUGS 42"""
    given = {"role": "tool", "tool_call_id": "a", "metadata": {"k": 1}}

    (*_, after) = aged(
        user(), called("a", "read_file", path="a.py"), {**given, "content": LONG}, lines=at(2)
    )

    shown = f"{RESULT_NOTE} read_file(path: a.py) → 400 chars; {'x ' * 23}x…"
    assert after == {**given, "content": shown}


def test_the_line_names_the_place_of_the_whole_text() -> None:
    (after,) = aged(result("a", LONG), where=stored, lines=at(0))

    assert after["content"] == f"{LINE} [offload id: 0123]"


def test_the_line_of_a_result_that_was_truncated_before_keeps_its_place() -> None:
    note = f"[Tool output truncated: omitted 9000 chars] [offload id: {'ab' * 16}]"

    (after,) = aged(result("a", f"{LONG}\n{note}\n{LONG}"), where=stored, lines=at(0))

    assert after["content"].endswith(f" [offload id: {'ab' * 16}]")
    assert "0123" not in after["content"]


def test_an_id_that_no_note_of_ours_names_is_not_the_place() -> None:
    (after,) = aged(result("a", "see [offload id: 99] there\n" * 50), where=stored, lines=at(0))

    assert after["content"].endswith(" [offload id: 0123]")


def test_a_list_becomes_a_list_of_the_line() -> None:
    """BUGS 39"""
    given = result("a", [text(LONG, cache_control=MARK), text("more")])

    (after,) = aged(given, lines=at(0))

    shown = f"{RESULT_NOTE} tool() → 405 chars; {'x ' * 23}x… … more"
    assert after == {**given, "content": [text(shown, cache_control=MARK)]}


def test_a_single_part_becomes_the_line() -> None:
    (after,) = aged(result("a", text(LONG)), lines=at(0))

    assert after["content"] == text(LINE)


def test_a_legacy_result_becomes_a_line_too() -> None:
    (after,) = aged({"role": "function", "name": "f", "content": LONG}, lines=at(0))

    assert after["content"].startswith(f"{RESULT_NOTE} f() → 400 chars")


def test_media_stay_beside_the_line_of_their_result() -> None:
    given = result("a", [text(LONG), image(), text("done")])

    (lined,) = aged(given, lines=at(0))
    (both,) = aged(given, lines=at(0), media=at((0, 0)))

    assert [part["type"] for part in lined["content"]] == ["text", "image_url"]
    assert both["content"][1] == text(f"{PNG_NOTE} 1x1, message #0")
    assert both["content"][0]["text"].startswith(RESULT_NOTE)


@pytest.mark.parametrize(
    "content",
    [
        "",
        None,
        "x" * len(RESULT_NOTE),
        RESULT_NOTE,
        f"{RESULT_NOTE} f() → 9 chars",
        [],
        [text("x" * 20), image()],
        [text("x" * 20), text(PNG_NOTE)],
    ],
)
def test_what_is_not_longer_than_its_line_stays(content: Any) -> None:
    given = conversation(user(), result("a", content))

    assert age(given, Treatments(lines=at(1))) is given


def test_a_long_result_that_only_begins_like_a_line_becomes_one() -> None:
    (after,) = aged(result("a", f"{RESULT_NOTE} {LONG}"), lines=at(0))

    assert len(after["content"]) < 200


def test_only_results_become_lines() -> None:
    """BUGS 38"""
    given = conversation(user(LONG), says(LONG), {"role": "system", "content": LONG})
    places = at(0, 1, 2, (0, 0), (1, 0))

    assert age(given, Treatments(places, dict.fromkeys(places, 9), {}, places)) is given


def test_places_that_are_not_there_are_skipped() -> None:
    given = conversation(user(), result("a", LONG), result("b", [image()]))
    treatments = Treatments(at(7, (1, 3)), sized(9, 9, (0, 1)), sized(9, 1, 8), at((2, 1), (5, 0)))

    assert age(given, treatments) is given
    assert age(given, Treatments()) is given


def test_a_message_is_found_by_its_place_in_the_clients_list() -> None:
    whole = conversation(user(), result("a", LONG), result("b", LONG), result("c", LONG))

    after = age(whole.only([0, 2, 3]), Treatments(lines=at(1, 2)))

    assert [message["content"] for message in after.fields] == ["hi", LINE, LONG]
    assert list(after.origins) == [0, 2, 3]


def test_a_message_that_the_client_did_not_send_is_not_touched() -> None:
    messages = conversation(result("a", LONG), result("b", LONG)).messages

    after = age(Conversation(messages, [None, 0]), Treatments(lines=at(0)))

    assert [message["content"] for message in after.fields] == [LONG, LINE]


# Embedded results


def test_an_embedded_result_becomes_a_line_inside_its_block() -> None:
    """BUGS 24"""
    given = f"Look:\n{embedded('f', LONG)}\nand {embedded('g', LONG)} done"

    (after,) = aged(says(given), lines=at((0, 1)))

    line = f"{RESULT_NOTE} g() → 400 chars; {'x ' * 23}x…"
    (first, second) = embedded_results(after["content"])
    assert (first.text, second.text) == (LONG, line)
    assert after["content"].startswith(f"Look:\n{embedded('f', LONG)}\nand <details ")
    assert after["content"].endswith("</details> done")


def test_embedded_results_are_counted_through_all_parts_of_a_message() -> None:
    """BUGS 39"""
    given = says(
        [text(embedded("f", LONG)), image(), text(embedded("g", LONG), cache_control=MARK)]
    )

    (after,) = aged(given, lines=at((0, 1)))

    assert after["content"][0] is given["content"][0]
    (found,) = embedded_results(after["content"][2]["text"])
    assert found.text.startswith(f"{RESULT_NOTE} g()")
    assert after["content"][2]["cache_control"] == MARK


def test_an_embedded_result_is_shortened_inside_its_block() -> None:
    (after,) = aged(says(embedded("f", LONG)), short=sized(LIMIT, (0, 0)))

    (found,) = embedded_results(after["content"])
    assert found.name == "f"
    assert len(found.text) <= LIMIT
    assert "[Tool output truncated: omitted " in found.text


# Short results


def test_a_result_is_shortened_to_its_limit() -> None:
    (after,) = aged(result("a", f"begin {LONG} end"), short=sized(LIMIT, 0), where=stored)

    assert len(after["content"]) <= LIMIT
    assert after["content"].startswith("begin ")
    assert after["content"].endswith("end")
    assert "[offload id: 0123]" in after["content"]


def test_each_result_has_its_own_limit() -> None:
    one, two = aged(result("a", LONG), result("b", LONG), short={**sized(100, 0), **sized(200, 1)})

    assert len(one["content"]) <= 100 < len(two["content"]) <= 200


def test_a_result_within_its_limit_stays() -> None:
    given = conversation(result("a", "x" * LIMIT))

    assert age(given, Treatments(short=sized(LIMIT, 0))) is given


def test_the_texts_of_a_list_share_the_limit() -> None:
    """BUGS 39"""
    given = result("a", [text(LONG), text("short"), image(), text(LONG, cache_control=MARK)])

    (after,) = aged(given, short=sized(200, 0))

    first, short, picture, last = after["content"]
    assert (short, picture) == (text("short"), image())
    assert 120 < len(first["text"]) + len(last["text"]) <= 195
    assert last["cache_control"] == MARK


def test_the_notes_of_media_have_no_share_of_the_limit() -> None:
    """BUGS 21: a result is shortened to the same text before and after its media are noted."""
    (with_media,) = aged(result("a", [image(), text(LONG)]), short=sized(LIMIT, 0))
    (without,) = aged(result("a", [text(PNG_NOTE), text(LONG)]), short=sized(LIMIT, 0))

    assert without["content"] == [text(PNG_NOTE), with_media["content"][1]]
