import copy
from typing import Any

import pytest

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.compaction.truncate_text import byte_count
from tests.unit.chat.shapes import (
    RECORDED,
    SURROGATE,
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
from tests.unit.compaction.stages.truncating import (
    KEEPING,
    folded,
    name_of,
    size_of,
    texts_of,
    truncate,
)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_conversations_pass_untouched(name: str) -> None:
    policy = TruncateToolOutputPolicy(True, 50_000, frozenset())
    given = conversation(*RECORDED[name])

    outcome = TruncateToolOutput(policy)(given, KEEPING)

    assert outcome.conversation is given
    assert (outcome.offloads, outcome.notice) == ({}, "")


@pytest.mark.parametrize("content", ["x" * 200, "é" * 100, [text("x" * 100), text("y" * 100)]])
def test_a_result_at_the_limit_passes_untouched(content: Any) -> None:
    given = conversation(user(), calls("1"), result("1", content))
    stage = TruncateToolOutput(TruncateToolOutputPolicy(True, 200, frozenset()))

    assert stage(given, KEEPING).conversation is given


def test_a_long_result_keeps_its_head_and_tail_within_the_limit() -> None:
    outcome = truncate(user(), calls("1"), result("1", "a" * 500 + "b" * 500))

    content = outcome.conversation.fields[2]["content"]
    head, note, tail = content.split("\n")
    assert set(head) == {"a"}
    assert set(tail) == {"b"}
    assert note == f"[Tool output truncated: omitted {1000 - len(head + tail)} chars]"
    assert 195 <= len(content) <= 200


def test_results_are_cut_wherever_they_stand() -> None:
    long = [calls("1", "2"), result("1", "x" * 300), result("2", "y" * 300)]

    outcome = truncate(
        *long, user(), *long, {"role": "function", "name": "f", "content": "z" * 300}
    )

    sizes = [size_of(fields) for fields in outcome.conversation.fields]
    assert max(sizes) <= 200
    assert len(sizes) == 8


def test_only_tool_output_is_cut() -> None:
    """BUGS 24: whatever is cut, the question is not."""
    long = "x" * 5_000
    given = [system(long), user(long), says(long), user([text(long)])]

    outcome = truncate(*given, calls("1"), result("1", long))

    assert outcome.conversation.fields[:4] == given
    assert all(
        kept is sent for kept, sent in zip(outcome.conversation.fields[:4], given, strict=True)
    )


def test_every_other_field_of_a_result_stays() -> None:
    """BUGS 42."""
    fields = {**result("1", "x" * 300), "name": "f", "metadata": {"a": 1}, "cache_control": {}}

    outcome = truncate(calls("1"), fields).conversation.fields[1]

    assert {**outcome, "content": fields["content"]} == fields
    assert list(outcome) == list(fields)


def test_the_longest_texts_of_a_list_are_cut_first() -> None:
    """BUGS 39."""
    short, long = text("s" * 150), text("l" * 900, cache_control={"type": "ephemeral"})

    outcome = truncate(calls("1"), result("1", [short, image(), long, long]), max_bytes=1_000)

    parts = outcome.conversation.fields[1]["content"]
    assert parts[:2] == [short, image()]
    assert parts[2] == parts[3] == {**long, "text": parts[2]["text"]}
    assert 990 <= size_of(outcome.conversation.fields[1]) <= 1_000


def test_a_text_inside_a_nested_result_is_cut() -> None:
    """BUGS 39."""
    nested = {"type": "tool_result", "tool_use_id": "1", "content": [text("x" * 300), image()]}

    outcome = truncate(calls("1"), result("1", [nested]))

    assert size_of(outcome.conversation.fields[1]) <= 200
    assert outcome.conversation.fields[1]["content"][0]["content"][1] == image()


def test_very_many_small_texts_are_cut_as_one() -> None:
    parts = [text(f"line {number}") for number in range(1_000)]
    marked = text("last", cache_control={"type": "ephemeral"})

    outcome = truncate(calls("1"), result("1", [image(), *parts, marked]), context=KEEPING)

    first, joined, last = outcome.conversation.fields[1]["content"]
    assert (first, last) == (image(), marked)
    assert joined["text"].startswith("line 0\nline 1\n")
    assert joined["text"].endswith("\nline 999")
    assert 150 < size_of(outcome.conversation.fields[1]) <= 200
    assert list(outcome.offloads.values()) == ["\n".join(part["text"] for part in parts)]


def test_small_texts_that_cannot_be_made_shorter_stay() -> None:
    given = result("1", [text("x" * 20, a=1), text("y" * 20, a=2)])

    assert truncate(calls("1"), given, max_bytes=30).conversation.fields[1] is given


def test_media_in_a_result_do_not_count() -> None:
    given = result("1", [image("data:image/png;base64," + "A" * 5_000), text("x" * 200)])

    assert truncate(calls("1"), given).conversation.fields[1] is given


@pytest.mark.parametrize("own_name", [{}, {"name": "skill"}])
def test_results_of_exempt_tools_stay(own_name: Fields) -> None:
    caller = calls("1", "2")
    caller["tool_calls"][0]["function"]["name"] = "skill"
    skill = {**result("1", "x" * 300), **own_name}

    outcome = truncate(caller, skill, result("2", "x" * 300), exempt=("skill",)).conversation

    assert outcome.fields[1] is skill
    assert size_of(outcome.fields[2]) <= 200


def test_a_cut_text_is_kept_whole_under_the_id_in_its_note() -> None:
    full = "é" * 200 + SURROGATE

    outcome = truncate(calls("1"), result("1", full), context=KEEPING)

    content = outcome.conversation.fields[1]["content"]
    assert outcome.offloads == {name_of(full): full}
    assert f" chars] [offload id: {name_of(full)}]\n" in content
    assert byte_count(content) <= 200


def test_a_text_that_could_not_be_kept_is_not_cut() -> None:
    """FAULTS D12."""
    full = "x" * 300
    context = StageContext(offload_id=name_of, whole=frozenset([name_of(full)]))

    outcome = truncate(calls("1", "2"), result("1", full), result("2", "y" * 300), context=context)

    assert outcome.conversation.fields[1]["content"] is full
    assert list(outcome.offloads) == [name_of("y" * 300)]


def test_a_text_that_would_not_be_shorter_is_neither_cut_nor_kept() -> None:
    given = result("1", "x" * 30)

    outcome = truncate(calls("1"), given, max_bytes=20, context=KEEPING)

    assert outcome.conversation.fields[1] is given
    assert outcome.offloads == {}


@pytest.mark.parametrize("as_list", [False, True])
def test_a_folded_result_is_cut_inside_its_block(as_list: bool) -> None:
    before, after = f"Look: {folded('short')}\n", f"\n{'So it is. ' * 100}"
    content = before + folded('"x" ' * 500) + after
    given = says([text("first"), text(content)] if as_list else content)

    outcome = truncate(user(), given, user(), context=KEEPING)

    cut = texts_of(outcome.conversation.fields[1])[-1]
    assert cut.startswith(before)
    assert cut.endswith(after)
    short, long = embedded_results(cut)
    assert short.text == "short"
    assert byte_count(long.text) <= 200
    assert list(outcome.offloads.values()) == ['"x" ' * 500]


def test_a_folded_result_of_an_exempt_tool_stays() -> None:
    given = says(folded("x" * 300, "skill"))

    assert truncate(user(), given, exempt=("skill",)).conversation.fields[1] is given


def test_a_folded_result_that_would_grow_when_it_is_escaped_stays() -> None:
    raw = "a&b>" * 100
    given = says(folded("").replace("&quot;&quot;", raw))

    outcome = truncate(user(), given, max_bytes=390, context=KEEPING)

    assert outcome.conversation.fields[1] is given
    assert outcome.offloads == {}


def test_the_same_result_is_cut_to_the_same_bytes_on_every_request() -> None:
    """BUGS 44."""
    first = [user(), calls("1"), result("1", "x" * 300), says(folded("y" * 300))]

    once = truncate(*first, context=KEEPING).conversation.fields
    later = truncate(*copy.deepcopy(first), user(), calls("1"), context=KEEPING).conversation.fields

    assert later[:4] == once
