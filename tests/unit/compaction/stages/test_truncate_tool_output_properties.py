import copy
import json
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.tool_rules import ToolRule
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.compaction.truncate_text import exceeds
from tests.unit.chat.payloads import ENCODED, PROSE, URL_SAFE, WRAPPED
from tests.unit.chat.shapes import (
    Fields,
    conversation,
    image,
    ordinary_messages,
    result,
    says,
    text,
)
from tests.unit.compaction.stages.truncating import (
    KEEPING,
    NOTHING,
    folded,
    name_of,
    size_of,
    truncate,
)

letters = "ab\n é漢😀\ud83d<&\"'"
repeated = st.builds(
    lambda start, times: start * times, st.text(letters, max_size=9), st.integers(0, 40)
)
PIECES = [
    ENCODED,
    WRAPPED,
    ENCODED[:230],
    URL_SAFE[:300],
    f"data:a/b;base64,{ENCODED}",
    "words" * 60,
    *" \n-_x=",
]
encoded = st.builds(
    lambda before, parts: PROSE + before + "".join(parts),
    repeated,
    st.lists(st.sampled_from(PIECES)),
)
words = st.one_of(repeated, repeated, encoded)
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
recents = st.integers(0, 3)
rules = st.dictionaries(
    st.sampled_from(["*", "f", "s*", "search", "get_weather"]),
    st.one_of(st.sampled_from(["whole", "recent"]), st.integers(1, 700)),
)
contexts = st.sampled_from([NOTHING, KEEPING])


@given(talks, limits, contexts, recents, rules)
def test_no_message_grows_and_nothing_else_changes(
    messages: list[Fields],
    limit: int,
    context: StageContext,
    recent: int,
    ruled: dict[str, ToolRule],
) -> None:
    before = copy.deepcopy(messages)

    outcome = truncate(
        *messages, max_bytes=limit, context=context, recent=recent, rules=ruled
    ).conversation

    assert messages == before
    assert len(outcome) == len(messages)
    for sent, kept in zip(messages, outcome.fields, strict=True):
        assert {**sent, "content": None} == {**kept, "content": None}
        if kept is not sent:
            assert size_of(kept) < size_of(sent)
            assert sent["role"] in ("tool", "function", "assistant")


@given(talks, limits, contexts, recents, rules)
def test_cutting_a_cut_conversation_changes_nothing(
    messages: list[Fields],
    limit: int,
    context: StageContext,
    recent: int,
    ruled: dict[str, ToolRule],
) -> None:
    cut = partial(truncate, max_bytes=limit, context=context, recent=recent, rules=ruled)

    once = cut(*messages).conversation
    again = cut(*once.fields)

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


@given(talks, limits, recents, rules)
def test_every_cut_text_is_kept_whole(
    messages: list[Fields], limit: int, recent: int, ruled: dict[str, ToolRule]
) -> None:
    outcome = truncate(*messages, max_bytes=limit, context=KEEPING, recent=recent, rules=ruled)

    written = json.dumps(outcome.conversation.fields)
    assert all(name_of(full) == name for name, full in outcome.offloads.items())
    assert all(name in written for name in outcome.offloads)


@given(talks, limits, contexts, recents, rules)
def test_what_is_left_alone_at_a_glance_is_left_alone(
    messages: list[Fields],
    limit: int,
    context: StageContext,
    recent: int,
    ruled: dict[str, ToolRule],
) -> None:
    policy = TruncateToolOutputPolicy(True, limit, frozenset(), recent, 100, tuple(ruled.items()))
    stage = TruncateToolOutput(policy)
    plain = [it for it in messages if isinstance(it.get("content"), str)]
    before = conversation(*plain)

    if stage.has_nothing_to_do(before.shape):
        assert stage(before, context).conversation is before


@given(talks, talks, limits, rules)
def test_the_prefix_is_stable_under_append_unless_age_counts(
    messages: list[Fields], more: list[Fields], limit: int, ruled: dict[str, ToolRule]
) -> None:
    """BUGS 21."""
    ageless = {tool: rule for tool, rule in ruled.items() if rule != "recent"}
    first = truncate(*messages, max_bytes=limit, rules=ageless).conversation.fields
    second = truncate(*messages, *more, max_bytes=limit, rules=ageless).conversation.fields

    assert second[: len(first)] == first
