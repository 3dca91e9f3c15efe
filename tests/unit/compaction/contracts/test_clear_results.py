"""Tool uses are cleared as the client asks, and what was cleared stays so until it is due again."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.apply import age
from chat_proxy.compaction.ageing.line import RESULT_NOTE
from chat_proxy.compaction.ageing.treatments import CLEARED, Place, Treatments
from chat_proxy.compaction.contracts.clear_results import clearing_due, tool_uses
from chat_proxy.wires.contracts.contract import ClearResults
from tests.unit.chat.shapes import Fields, image, says, text, user
from tests.unit.compaction.examples import sized, tool_step

LONG = "line of output\n" * 40


def conversation(*messages: Fields) -> Conversation:
    return Conversation([Message(fields) for fields in messages])


def run_of(tools: Sequence[str], output: Any = LONG) -> list[Fields]:
    steps = [tool_step(str(at), tool, output, path=f"f{at}") for at, tool in enumerate(tools)]
    return [user("go"), *(message for step in steps for message in step)]


def due(
    messages: list[Fields],
    wish: ClearResults,
    tokens: int = 1_000,
    before: Treatments | None = None,
) -> list[int]:
    """Which results are cleared now, by their number."""
    uses = tool_uses(conversation(*messages))
    found = clearing_due(uses, tokens, before or Treatments(), wish)
    cleared = found.short if found else {}
    assert all(size == CLEARED for size in cleared.values())
    return [number for number, use in enumerate(uses) if use.result in cleared]


def test_all_but_the_newest_are_cleared_over_the_trigger() -> None:
    run = run_of(["read"] * 5)

    assert due(run, ClearResults(trigger_tokens=999, keep=2)) == [0, 1, 2]
    assert due(run, ClearResults(trigger_tokens=1_000, keep=2)) == []
    assert due(run, ClearResults(trigger_tokens=1, keep=0)) == [0, 1, 2, 3, 4]
    assert due(run, ClearResults(trigger_tokens=1, keep=5)) == []


def test_a_trigger_by_tool_uses_counts_those_that_are_whole() -> None:
    run, wish = run_of(["read"] * 5), ClearResults(trigger_results=4, keep=1)

    assert due(run, wish) == [0, 1, 2, 3]
    assert due(run_of(["read"] * 4), wish) == []
    cleared = Treatments(short=sized(CLEARED, 2, 4, 6, 8))
    assert due(run_of(["read"] * 8), wish, before=cleared) == []
    assert due(run_of(["read"] * 9), wish, before=cleared) == [4, 5, 6, 7]


def test_excluded_tools_are_never_cleared_and_do_not_trigger_again() -> None:
    run = run_of(["read", "search", "read", "search", "read"])
    wish = ClearResults(trigger_results=2, keep=1, excluded_tools=frozenset({"search"}))

    assert due(run, wish) == [0, 2]
    cleared = Treatments(short=sized(CLEARED, 2, 6))
    assert due([*run, *tool_step("9", "search", LONG)], wish, before=cleared) == []


def test_inputs_are_cleared_with_their_results_only() -> None:
    run = run_of(["read", "write", "read"])
    uses = tool_uses(conversation(*run))

    everything = clearing_due(uses, 9, Treatments(), ClearResults(1, keep=1, clears_calls=True))
    some = clearing_due(
        uses, 9, Treatments(), ClearResults(1, keep=1, clears_calls=frozenset({"write"}))
    )
    nothing = clearing_due(uses, 9, Treatments(), ClearResults(1, keep=1))

    assert everything is not None
    assert some is not None
    assert nothing is not None
    assert everything.calls == {Place(1, 0): CLEARED, Place(3, 0): CLEARED}
    assert some.calls == {Place(3, 0): CLEARED}
    assert nothing.calls == {}


def test_parallel_calls_are_found_by_their_ids() -> None:
    first, second = tool_step("a", "read", LONG), tool_step("b", "write", LONG)
    both = {**first[0], "tool_calls": [*first[0]["tool_calls"], *second[0]["tool_calls"]]}

    uses = tool_uses(conversation(user("go"), both, second[1], first[1]))

    assert [(use.tool, use.call) for use in uses] == [
        ("write", Place(1, 1)),
        ("read", Place(1, 0)),
    ]


def test_what_is_folded_is_no_tool_use_any_more() -> None:
    run = run_of(["read"] * 4)

    assert len(tool_uses(conversation(*run), folded_until=5)) == 2


def test_a_cleared_use_leaves_a_note_in_its_place() -> None:
    given = conversation(*run_of(["read", "read"]))

    shown = age(given, Treatments(short=sized(CLEARED, 2), calls={Place(1, 0): CLEARED}))

    assert shown.messages[2].content.startswith(RESULT_NOTE)
    assert "read(" in shown.messages[2].content
    assert shown.messages[2].fields["tool_call_id"] == "0"
    (call,) = shown.messages[1].fields["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}
    assert (call["id"], call["function"]["name"]) == ("0", "read")
    assert shown.messages[3:] == given.messages[3:]


def test_media_are_cleared_and_a_result_shorter_than_its_note_stays() -> None:
    given = conversation(*run_of(["read"], "ok"), *tool_step("b", "read", [image(), text("ok")]))

    shown = age(given, Treatments(short=sized(CLEARED, 2, 4)))

    assert shown.messages[2] == given.messages[2]
    assert shown.messages[4].content == RESULT_NOTE


runs = st.lists(st.sampled_from(["read", "write", "search"]), min_size=1, max_size=24)
wishes = st.builds(
    ClearResults,
    trigger_tokens=st.none(),
    trigger_results=st.integers(0, 9),
    keep=st.integers(0, 6),
    excluded_tools=st.sampled_from([frozenset[str](), frozenset({"search"})]),
    clears_calls=st.sampled_from([False, True, frozenset({"write"})]),
)


@given(runs, wishes)
def test_a_growing_run_keeps_its_prefix_between_clearings(
    tools: list[str], wish: ClearResults
) -> None:
    remembered = Treatments()
    sent: list[Fields] = []
    for count in range(1, len(tools) + 1):
        given = conversation(*run_of(tools[:count]))
        uses = tool_uses(given)
        found = clearing_due(uses, 0, remembered, wish)
        remembered |= found or Treatments()
        shown = age(given, remembered)
        if found is None:
            assert list(shown.fields[: len(sent)]) == sent
        else:
            whole = [use for use in uses if use.result not in remembered.short]
            kept = uses[len(uses) - wish.keep :] if wish.keep else []
            assert all(use in kept or use.tool in wish.excluded_tools for use in whole)
        assert all(
            use.result not in remembered.short for use in uses[max(0, count - wish.keep) :]
        ) or (not wish.keep)
        assert age(shown, remembered).fields == shown.fields
        sent = list(shown.fields)


def test_a_message_without_tools_has_no_uses() -> None:
    assert tool_uses(conversation(user("hi"), says("hello"))) == []
    assert clearing_due([], 10**6, Treatments(), ClearResults(1)) is None
