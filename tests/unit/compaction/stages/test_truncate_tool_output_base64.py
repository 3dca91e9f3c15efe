"""Base64 inside tool results goes on every request, whatever the size of the result."""

import re

import pytest

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.result_texts import has_base64
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from tests.unit.chat.payloads import ENCODED, PROSE, WITH_BASE64, WITHOUT_BASE64, WRAPPED
from tests.unit.chat.shapes import (
    RECORDED,
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

LARGE = 50_000
NOTE = "[base64 removed: 3001 bytes]"
FULL = f"{PROSE}({ENCODED}) and {ENCODED}"
STRIPPED = f"{PROSE}({NOTE}) and {NOTE}"


@pytest.mark.parametrize("name", WITH_BASE64)
def test_base64_goes_and_the_rest_of_the_result_stays(name: str) -> None:
    before, payload, after = WITH_BASE64[name]
    full = f"{PROSE}{before}{payload}{after}"

    outcome = truncate(calls("1"), result("1", full), max_bytes=LARGE, context=KEEPING)

    content = outcome.conversation.fields[1]["content"]
    assert content == f"{PROSE}{before}{NOTE} [offload id: {name_of(full)}]{after}"
    assert outcome.offloads == {name_of(full): full}


@pytest.mark.parametrize("name", WITHOUT_BASE64)
def test_what_only_looks_like_base64_stays(name: str) -> None:
    given = conversation(calls("1"), result("1", f"{PROSE}{WITHOUT_BASE64[name]}"))
    stage = TruncateToolOutput(TruncateToolOutputPolicy(True, LARGE, frozenset()))

    assert stage.has_nothing_to_do(given.shape)
    assert stage(given, KEEPING).conversation is given


@pytest.mark.parametrize("name", RECORDED)
def test_the_stage_has_nothing_to_do_in_recorded_conversations(name: str) -> None:
    stage = TruncateToolOutput(TruncateToolOutputPolicy(True, LARGE, frozenset()))
    plain = [fields for fields in RECORDED[name] if not isinstance(fields.get("content"), list)]

    assert stage.has_nothing_to_do(conversation(*plain).shape)


def test_a_result_with_base64_is_seen_at_a_glance() -> None:
    stage = TruncateToolOutput(TruncateToolOutputPolicy(True, LARGE, frozenset()))

    assert not stage.has_nothing_to_do(conversation(result("1", FULL)).shape)
    assert not stage.has_nothing_to_do(conversation(says(folded(FULL))).shape)
    assert stage.has_nothing_to_do(conversation(user(FULL), says(FULL)).shape)


def test_only_tool_results_lose_their_base64() -> None:
    """BUGS 24: whatever is cut, the question is not."""
    given = [system(FULL), user(FULL), says(FULL), user([text(FULL)])]

    outcome = truncate(*given, result("1", FULL), max_bytes=LARGE).conversation.fields

    assert all(kept is sent for kept, sent in zip(outcome[:4], given, strict=True))
    assert outcome[4]["content"] == STRIPPED


def test_media_are_no_text() -> None:
    given = result("1", [image(f"data:image/png;base64,{ENCODED}"), text(PROSE)])

    assert truncate(given, max_bytes=LARGE).conversation.fields[0] is given


def test_each_text_of_a_list_loses_its_base64() -> None:
    kept = text(PROSE, cache_control={"type": "ephemeral"})
    nested = {"type": "tool_result", "content": [text(FULL), image()]}
    given = result("1", [kept, nested, text(FULL)])

    outcome = truncate(given, max_bytes=LARGE).conversation.fields[0]

    assert outcome["content"][0] is kept
    assert outcome["content"][1]["content"][1] == image()
    assert texts_of(outcome) == [PROSE, STRIPPED, STRIPPED]


def test_an_embedded_result_loses_its_base64_inside_its_block() -> None:
    given = says(f"Look: {folded(FULL)} and {folded('short')}")

    outcome = truncate(given, max_bytes=LARGE, context=KEEPING)

    content = outcome.conversation.fields[0]["content"]
    first, second = embedded_results(content)
    assert first.text == STRIPPED.replace(NOTE, f"{NOTE} [offload id: {name_of(FULL)}]", 1)
    assert second.text == "short"
    assert content.startswith("Look: <details ")
    assert outcome.offloads == {name_of(FULL): FULL}


def test_base64_that_escaping_hides_stays_whatever_the_other_results_contain() -> None:
    """A prompt must not change its beginning because of a later message."""
    escaped = re.sub("[a/+]", lambda found: f"&#{ord(found[0])};", ENCODED)
    hidden = says(folded(FULL).replace(ENCODED, escaped))
    long = [hidden, result("1", "x" * 300)]

    alone = truncate(*long, max_bytes=LARGE, rules={"other": 100}).conversation
    later = truncate(*long, result("2", FULL), max_bytes=LARGE, rules={"other": 100}).conversation

    assert [it.text for it in embedded_results(hidden["content"])] == [FULL]
    assert alone.fields[0] is hidden
    assert later.fields[0] is hidden
    assert later.fields[2]["content"] == STRIPPED


def test_a_text_that_could_not_be_kept_keeps_its_base64() -> None:
    """FAULTS D12."""
    context = StageContext(offload_id=name_of, whole=frozenset([name_of(FULL)]))

    outcome = truncate(result("1", FULL), result("2", f"{FULL}."), max_bytes=LARGE, context=context)

    assert outcome.conversation.fields[0]["content"] is FULL
    assert list(outcome.offloads) == [name_of(f"{FULL}.")]


def test_no_text_is_cut_that_was_not_kept_when_another_could_not_be() -> None:
    """FAULTS D12: what the second run offloads was all in the first."""
    parts = [text(FULL), *(text(f"{number} {PROSE}") for number in range(40))]
    given = result("1", parts)
    first = truncate(given, max_bytes=9_000, context=KEEPING).offloads

    for name in first:
        context = StageContext(offload_id=name_of, whole=frozenset([name]))
        second = truncate(given, max_bytes=9_000, context=context).offloads

        assert second.keys() <= first.keys() - {name}


@pytest.mark.parametrize("rule", ["exempt", "whole", "recent"])
def test_a_result_that_stays_whole_keeps_its_base64(rule: str) -> None:
    given: Fields = {**result("1", FULL), "name": "skill"}

    if rule == "exempt":
        outcome = truncate(given, exempt=("skill",))
    else:
        outcome = truncate(given, rules={"skill": "whole" if rule == "whole" else "recent"})

    assert outcome.conversation.fields[0] is given


def test_a_result_that_is_still_too_long_is_truncated_too() -> None:
    full = f"{ENCODED}\n{PROSE * 9}"

    outcome = truncate(result("1", full), max_bytes=1_000, context=KEEPING)

    content = outcome.conversation.fields[0]["content"]
    place = f"[offload id: {name_of(full)}]"
    assert content.startswith(f"{NOTE} {place}\nThe tool")
    assert f" chars] {place}\n" in content
    assert size_of(outcome.conversation.fields[0]) <= 1_000
    assert outcome.offloads == {name_of(full): full}


def test_a_result_that_fits_without_its_base64_is_not_truncated() -> None:
    assert (
        truncate(result("1", FULL), max_bytes=2_000).conversation.fields[0]["content"] == STRIPPED
    )


def test_the_line_to_read_on_from_is_one_of_the_full_text() -> None:
    full = WRAPPED + "".join(f"line {number}\n" for number in range(400))
    given = {**result("1", full), "name": "read"}

    outcome = truncate(given, rules={"read": 600}, context=KEEPING)

    content = outcome.conversation.fields[0]["content"]
    head, _, rest = content.partition("[Tool output truncated: ")
    line = int(rest.partition("[read on from line ")[2].partition("]")[0])
    assert full.splitlines()[line - 2] == head.splitlines()[-1]
    assert WRAPPED.count("\n") < line


@pytest.mark.parametrize("content", [PROSE, f"{PROSE}{ENCODED[:300]}"])
def test_results_with_the_same_text_stay_the_same_objects(content: str) -> None:
    """The second is equal to the first, and another object; a long path makes the note long."""
    context = StageContext(offload_id=name_of, file_of=lambda name: f"{'data/' * 99}{name}")
    given = conversation(*(result(name, [text("".join(list(content))), image()]) for name in "ab"))

    stage = TruncateToolOutput(TruncateToolOutputPolicy(True, LARGE, frozenset()))

    assert stage(given, context).conversation is given


def test_a_text_that_was_truncated_is_not_searched_again() -> None:
    """The words are cut off, and what is left of the line looks like base64."""
    given = f"{PROSE}{ENCODED[:300]}{'words' * 900}"

    once = truncate(result("1", given), max_bytes=2_900, context=KEEPING).conversation.fields
    again = truncate(*once, max_bytes=2_900, context=KEEPING).conversation.fields

    assert has_base64(once[0]["content"])
    assert again[0] is once[0]


def test_a_file_with_the_full_text_is_named() -> None:
    context = StageContext(offload_id=name_of, file_of=lambda name: f"data/{name}.txt")

    outcome = truncate(result("1", FULL), max_bytes=LARGE, context=context)

    content = outcome.conversation.fields[0]["content"]
    assert f"({NOTE} [full text: data/{name_of(FULL)}.txt]) and {NOTE}" in content
