"""What holds for all stages together, whatever the conversation: limits so small that all act.

A token is a character here, and every medium weighs the same.
"""

import copy
import json

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.compaction.pipeline import Pipeline
from chat_proxy.compaction.stages.limit_vision_history import LimitVisionHistoryPolicy
from chat_proxy.compaction.stages.order import StagePolicies, trimming_stages
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.strip_media import StripMediaPolicy
from chat_proxy.compaction.stages.truncate_tool_output import TruncateToolOutputPolicy
from tests.unit.chat.shapes import (
    Fields,
    calls,
    conversation,
    developer,
    image,
    odd_messages,
    result,
    says,
    system,
    text,
    user,
)
from tests.unit.compaction.examples import busy_messages, embedded

_HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]
thorough = settings(max_examples=40, deadline=None, suppress_health_check=_HEALTH)

MEDIUM_TOKENS = 1_000

_outputs = st.sampled_from(["", "20C", "x" * 40, "é\n" * 60, "line\n" * 80, "half \ud83d" * 30])
_contents = st.one_of(
    _outputs,
    st.lists(st.one_of(st.builds(text, _outputs), st.builds(image)), min_size=1, max_size=3),
)
_extra: st.SearchStrategy[Fields] = st.sampled_from(
    [{}, {"name": "n"}, {"metadata": {"a": [1]}, "cache_control": {"t": 1}}]
)


@st.composite
def groups(draw: st.DrawFn) -> list[Fields]:
    """Return a question, an answer, or a step of one or more calls with all their results."""
    kind = draw(
        st.sampled_from(["user", "user", "says", "step", "step", "step", "system", "embed"])
    )
    extra = draw(_extra)
    if kind == "user":
        return [{**user(draw(_contents)), **extra}]
    if kind == "says":
        return [says("ok", reasoning_content="why", **extra)]
    if kind == "system":
        return [system("A late word")]
    if kind == "embed":
        return [says(f"a {embedded('f', draw(_outputs))} b {embedded('skill', 'z' * 60)} c")]
    names = [f"{draw(st.integers(0, 10**6))}-{number}" for number in range(draw(st.integers(1, 3)))]
    return [calls(*names, **extra), *({**result(name, draw(_contents)), **extra} for name in names)]


def flat(parts: list[list[Fields]]) -> list[Fields]:
    return [copy.deepcopy(message) for part in parts for message in part]


leading = st.sampled_from([[], [system()], [system(), developer([text("Rules"), image()])]])
histories = st.builds(
    lambda head, parts: flat([head, *parts]), leading, st.lists(groups(), max_size=9)
)
any_histories = st.one_of(
    histories,
    st.lists(busy_messages, max_size=9),
    st.lists(st.one_of(busy_messages, odd_messages), max_size=7),
)


@st.composite
def policies(draw: st.DrawFn, *, limits_vision: bool = True) -> StagePolicies:
    """Return policies whose limits are so small that most conversations are beyond them."""
    exempt = st.sampled_from([frozenset[str](), frozenset({"f"})])
    return StagePolicies(
        LimitVisionHistoryPolicy(
            enabled=limits_vision, keep_system=True, keep_last_n_turns=draw(st.integers(0, 2))
        ),
        StripMediaPolicy(enabled=True),
        TruncateToolOutputPolicy(
            enabled=True, max_bytes=draw(st.integers(1, 150)), exempt_tools=draw(exempt)
        ),
    )


contexts = st.builds(
    lambda can_see, name: StageContext(can_see=can_see, offload_id=name),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, lambda _: "0" * 8]),
)


def tokens(given: Conversation) -> int:
    return sum(
        sum(len(words) for _, words in message.pieces()) + MEDIUM_TOKENS * len([*message.media()])
        for message in given.messages
    )


def trimmed(policy: StagePolicies, context: StageContext, given: Conversation) -> Conversation:
    return Pipeline(policy).trim(given, context).conversation


def dumped(given: Conversation) -> list[str]:
    return [json.dumps(fields) for fields in given.fields]


def others_of(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != "content"}


def texts(fields: Fields) -> list[str]:
    return [words for _, words in texts_in(Message(fields))]


@settings(thorough, max_examples=100)
@given(any_histories, policies(), contexts)
def test_what_a_stage_leaves_alone_at_a_glance_it_leaves_alone(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    before = conversation(*messages)
    stages = list(trimming_stages(policy))
    at_a_glance = [it for it in stages if it.has_nothing_to_do(before.shape)]
    assert Pipeline(policy).has_nothing_to_do(before.shape) == (at_a_glance == stages)
    assume(at_a_glance)

    for stage in at_a_glance:
        assert stage(before, context).conversation is before


@thorough
@given(any_histories, policies(), contexts)
def test_nothing_ever_becomes_larger(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    before = conversation(*messages)

    after = trimmed(policy, context, before)

    assert tokens(after) <= tokens(before)
    assert len(after) <= len(before)


@thorough
@given(any_histories, policies(), contexts)
def test_the_clients_own_messages_are_never_changed(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    kept = copy.deepcopy(messages)

    trimmed(policy, context, conversation(*messages))

    assert messages == kept


@thorough
@given(any_histories, policies(), contexts)
def test_no_stage_fails_on_any_message(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    assert Pipeline(policy).trim(conversation(*messages), context).failures == ()


@thorough
@given(any_histories, policies(), contexts)
def test_what_stays_keeps_its_place_and_all_fields_but_the_content(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 42: role, name, ids, calls, reasoning and unknown fields."""
    after = trimmed(policy, context, conversation(*messages))

    origins = [origin for origin in after.origins if origin is not None]
    assert len(origins) == len(after)
    assert origins == sorted(set(origins))
    for origin, fields in zip(origins, after.fields, strict=True):
        assert others_of(fields) == others_of(messages[origin])
        assert list(fields) == list(messages[origin])


@thorough
@given(any_histories, policies(), contexts)
def test_pairs_are_kept_or_go_as_one(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 1, 2: of a call and its results all are there or none; system messages may stay."""
    before = conversation(*messages)

    after = trimmed(policy, context, before)

    kept = set(after.origins)
    for group in before.groups:
        there = [at in kept for at in range(*group) if not before.messages[at].is_instruction]
        assert all(there) or not any(there)


@thorough
@given(any_histories, policies(), contexts)
def test_instructions_and_the_current_question_are_kept(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 23, 32, 38, 46: they keep their bytes, except media that the model cannot see."""
    before = conversation(*messages)
    turn = before.current_turn
    sacred = {*range(before.instructions), *(turn.users if turn else ())}
    late = {at for at, message in enumerate(before.messages) if message.is_instruction}

    after = trimmed(policy, context, before)

    now = dict(zip(after.origins, after.fields, strict=True))
    assert all(set(texts(messages[at])) <= set(texts(now[at])) for at in sacred | late)
    if context.can_see is not False:
        assert all(now[at] is messages[at] for at in sacred)


@thorough
@given(any_histories, policies(), contexts)
def test_trimming_twice_is_trimming_once(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    once = trimmed(policy, context, conversation(*messages))
    twice = trimmed(policy, context, once)

    assert dumped(twice) == dumped(once)


@thorough
@given(any_histories, any_histories, policies(limits_vision=False), contexts)
def test_a_grown_conversation_begins_with_the_same_bytes(
    messages: list[Fields], more: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 21, 22"""
    before = trimmed(policy, context, conversation(*messages))

    grown = trimmed(policy, context, conversation(*messages, *more))

    assert dumped(grown)[: len(messages)] == dumped(before)
