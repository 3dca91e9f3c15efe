"""The hashes of a history: one for each cut, and anchors that older changes leave alone."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.normal_form.normal_form import normal_forms
from chat_proxy.proxy.session.recognition.history import (
    MAX_ANCHORS,
    SEED,
    history_of,
)
from tests.unit.chat.shapes import (
    RECORDED,
    calls,
    conversation,
    histories,
    odd_messages,
    ordinary_messages,
    result,
    says,
    system,
    user,
)
from tests.unit.proxy.session.recognition.histories import KEY, VOLATILE, history, words

RUN = [user("a"), calls("1"), result("1"), says("b"), user("c"), says("d")]


def test_every_message_has_a_hash_of_all_before_it() -> None:
    values = history(*RECORDED["openai-py"])

    assert len(values.links) == len(RECORDED["openai-py"])
    first = values.instructions
    assert len(set(values.links[first:])) == len(values.links) - first


def test_a_longer_history_begins_with_the_same_hashes() -> None:
    short, longer = history(*RUN[:4]), history(*RUN)

    assert longer.links[:4] == short.links
    assert longer.digests[:4] == short.digests
    assert longer.beginning == short.beginning
    assert longer.root_at(6) == short.root_at(4)


def test_messages_cannot_be_moved_across_a_border() -> None:
    assert words("ab", "c").links[-1] != words("a", "bc").links[-1]


def test_leading_instructions_are_no_part_of_it() -> None:
    plain, changed = history(*RUN), history(system("x"), system("y"), *RUN)

    assert changed.links == [SEED, SEED, *plain.links]
    assert changed.digests == plain.digests
    assert changed.seams == tuple(seam + 2 for seam in plain.seams)
    assert changed.beginning == plain.beginning
    assert changed.covered(8) == plain.covered(6)
    assert list(changed.anchors(8).values()) == list(plain.anchors(6).values())


def test_a_later_instruction_is_part_of_it() -> None:
    assert history(user(), system("x"), says()).links[-1] != history(user(), says()).links[-1]
    one, other = history(user(), system("x")), history(user(), system("y"))
    assert one.links[-1] != other.links[-1]


def test_a_scope_has_digests_of_its_own() -> None:
    one, other = history(*RUN), history(*RUN, key=b"another".ljust(32))

    assert not set(one.links) & set(other.links)
    assert not {it.said for it in one.digests} & {it.said for it in other.digests}
    assert not set(one.anchors(6).values()) & set(other.anchors(6).values())


@given(histories, histories)
def test_hashes_are_equal_exactly_while_the_normal_forms_are(
    one: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    def hashed(messages: list[dict[str, Any]]) -> tuple[list[Any], list[bytes]]:
        its = history(*messages)
        forms = normal_forms(messages[its.instructions :], VOLATILE)
        return list(forms), list(its.links[its.instructions :])

    (ours, our_links), (theirs, their_links) = hashed(one), hashed(copy.deepcopy(other))

    for length, (left, right) in enumerate(zip(our_links, their_links, strict=False), 1):
        assert (left == right) == (ours[:length] == theirs[:length])


@given(st.lists(odd_messages | ordinary_messages, max_size=6))
def test_no_history_is_too_odd(messages: list[dict[str, Any]]) -> None:
    its = history(*messages)

    assert len(its.links) == len(messages)
    for seam in its.seams:
        assert len(its.covered(seam).messages) == seam - its.instructions
        assert len(its.candidate(seam).digests) == seam - its.instructions
    assert set(its.anchors(len(messages))) <= set(its.seams)


@pytest.mark.anyio
async def test_a_long_history_is_hashed_in_a_thread_to_the_same() -> None:
    held = conversation(*RUN)

    inline = await history_of(held, VOLATILE, KEY, 0)
    threaded = await history_of(held, VOLATILE, KEY, 10**9)

    assert inline.links == threaded.links == history(*RUN).links


def test_an_anchor_is_that_of_the_last_two_who_spoke() -> None:
    anchors = history(*RUN).anchors(6)

    assert list(anchors) == [6, 5, 4, 3]
    assert len(set(anchors.values())) == 4
    longer = history(user("before"), says("so"), *RUN).anchors(8)
    assert longer[8] == anchors[6]
    assert longer[5] == anchors[3]


def test_an_anchor_does_not_depend_on_results() -> None:
    changed = copy.deepcopy(RUN)
    changed[2]["content"] = "[Old tool result content cleared]"

    assert history(*changed).anchors(6) == history(*RUN).anchors(6)


def test_anchors_are_those_between_two_seams() -> None:
    assert list(history(*RUN).anchors(5, 3)) == [5, 4]
    assert list(history(*RUN).anchors(6, 6)) == []
    assert list(history(user("a")).anchors(1)) == []
    assert history().anchors(0) == {}


def test_only_the_newest_seams_have_anchors() -> None:
    many = words(*map(str, range(MAX_ANCHORS * 2)))

    anchors = many.anchors(MAX_ANCHORS * 2)

    assert list(anchors) == list(range(MAX_ANCHORS * 2, MAX_ANCHORS, -1))


def test_a_candidate_counts_its_groups_and_bytes() -> None:
    its = history(system(), *RUN)

    assert its.candidate(7).groups == 5
    assert its.candidate(4).groups == 2
    assert its.candidate(1).size == 0
    assert its.candidate(7).size > its.candidate(4).size > 0
    assert its.candidate(7).text_of(2) == "20C"


def test_the_next_seam_is_found_from_any_position() -> None:
    its = history(system(), *RUN)

    assert [its.seam_from(at) for at in (1, 2, 3, 4, 5)] == [1, 2, 4, 4, 5]
