import copy
import json

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.truncate_text import exceeds
from tests.unit.chat.shapes import Fields, image, ordinary_messages, result, says, text
from tests.unit.compaction.stages.truncating import (
    KEEPING,
    NOTHING,
    folded,
    name_of,
    size_of,
    truncate,
)

letters = "ab\n é漢😀\ud83d<&\"'"
words = st.builds(
    lambda start, times: start * times, st.text(letters, max_size=9), st.integers(0, 40)
)
parts = st.one_of(
    words,
    st.builds(text, words),
    st.builds(lambda inner: text(inner, cache_control={}), words),
    st.just(image()),
    st.builds(lambda inner: {"type": "tool_result", "content": [text(inner)]}, words),
)
results = st.builds(result, st.sampled_from("xyz"), words | st.lists(parts, max_size=5))
said = st.builds(lambda before, answer: says(before + folded(answer)), words, words)
talks = st.lists(results | said | ordinary_messages, max_size=6)
limits = st.integers(0, 600)
contexts = st.sampled_from([NOTHING, KEEPING])


@given(talks, limits, contexts)
def test_no_message_grows_and_nothing_else_changes(
    messages: list[Fields], limit: int, context: StageContext
) -> None:
    before = copy.deepcopy(messages)

    outcome = truncate(*messages, max_bytes=limit, context=context).conversation

    assert messages == before
    assert len(outcome) == len(messages)
    for sent, kept in zip(messages, outcome.fields, strict=True):
        assert {**sent, "content": None} == {**kept, "content": None}
        if kept is not sent:
            assert size_of(kept) < size_of(sent)
            assert sent["role"] in ("tool", "function", "assistant")


@given(talks, limits, contexts)
def test_cutting_a_cut_conversation_changes_nothing(
    messages: list[Fields], limit: int, context: StageContext
) -> None:
    once = truncate(*messages, max_bytes=limit, context=context).conversation
    again = truncate(*once.fields, max_bytes=limit, context=context)

    assert again.conversation.fields == once.fields
    assert again.offloads == {}


@given(talks, st.integers(900, 2_000), contexts)
def test_the_limit_holds_for_every_result(
    messages: list[Fields], limit: int, context: StageContext
) -> None:
    outcome = truncate(*messages, max_bytes=limit, context=context).conversation

    for fields in outcome.fields:
        if fields["role"] in ("tool", "function"):
            assert size_of(fields) <= limit
        elif type(fields.get("content")) is str:
            assert not any(
                exceeds(found.text, limit) for found in embedded_results(fields["content"])
            )


@given(talks, limits)
def test_every_cut_text_is_kept_whole(messages: list[Fields], limit: int) -> None:
    outcome = truncate(*messages, max_bytes=limit, context=KEEPING)

    written = json.dumps(outcome.conversation.fields)
    assert all(name_of(full) == name for name, full in outcome.offloads.items())
    assert all(name in written for name in outcome.offloads)


@given(talks, talks, limits)
def test_the_prefix_is_stable_under_append(
    messages: list[Fields], more: list[Fields], limit: int
) -> None:
    """BUGS 21."""
    first = truncate(*messages, max_bytes=limit).conversation.fields
    second = truncate(*messages, *more, max_bytes=limit).conversation.fields

    assert second[: len(first)] == first
