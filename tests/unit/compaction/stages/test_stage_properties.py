"""What holds for all stages together, whatever the conversation: limits so small that all act.

A token is a character here, and every medium weighs the same.
"""

import copy
import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.pipeline import Pipeline, Relieved
from chat_proxy.compaction.stages.clear_old_media import ClearOldMediaPolicy
from chat_proxy.compaction.stages.clear_old_tool_output import ClearOldToolOutputPolicy
from chat_proxy.compaction.stages.clear_stage import Pressure
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
from tests.unit.compaction.stages.pressing import MEDIUM_TOKENS, busy_messages, folded, pressure_on

_HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]
thorough = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=_HEALTH,
)

TRIGGER = 300
WINDOW = 600

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
        st.sampled_from(["user", "user", "says", "step", "step", "step", "system", "folded"])
    )
    extra = draw(_extra)
    if kind == "user":
        return [{**user(draw(_contents)), **extra}]
    if kind == "says":
        return [says("ok", reasoning_content="why", **extra)]
    if kind == "system":
        return [system("A late word")]
    if kind == "folded":
        return [says(f"a {folded('f', draw(_outputs))} b {folded('skill', 'z' * 60)} c")]
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
def policies(draw: st.DrawFn) -> StagePolicies:
    """Return policies whose limits are so small that most conversations are beyond them."""
    small = st.integers(0, 2)
    exempt = st.sampled_from([frozenset[str](), frozenset({"f"})])
    return StagePolicies(
        LimitVisionHistoryPolicy(enabled=True, keep_system=True, keep_last_n_turns=draw(small)),
        StripMediaPolicy(enabled=True),
        TruncateToolOutputPolicy(
            enabled=True, max_bytes=draw(st.integers(1, 150)), exempt_tools=draw(exempt)
        ),
        ClearOldToolOutputPolicy(
            enabled=True,
            protect_tokens=draw(st.sampled_from([0, 30, 120])),
            minimum_tokens=draw(st.sampled_from([0, 1, 50])),
            protect_turns=draw(small),
            protected_tools=frozenset({"skill"}),
            keep_results=draw(small),
            old_max_bytes=draw(st.integers(1, 80)),
        ),
        ClearOldMediaPolicy(enabled=True, keep_user_media=draw(small), keep_tool_media=draw(small)),
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


def pressure(given: Conversation) -> Pressure:
    goal = int(TRIGGER * 0.6)
    return pressure_on(given, window=WINDOW, trigger=TRIGGER, excess=tokens(given) - goal)


def relieve(pipeline: Pipeline, given: Conversation, done: Clearing = Clearing()) -> Relieved:  # noqa: B008 - frozen
    return pipeline.relieve(given, done, pressure)


def trimmed(pipeline: Pipeline, context: StageContext, given: Conversation) -> Conversation:
    return pipeline.trim(given, context).conversation


def relieved(pipeline: Pipeline, _: StageContext, given: Conversation) -> Conversation:
    return relieve(pipeline, given).conversation


def both(pipeline: Pipeline, context: StageContext, given: Conversation) -> Conversation:
    return relieve(pipeline, trimmed(pipeline, context, given)).conversation


Way = Callable[[Pipeline, StageContext, Conversation], Conversation]
ways = pytest.mark.parametrize("way", [relieved, both])


def dumped(given: Conversation) -> list[str]:
    return [json.dumps(fields) for fields in given.fields]


def others_of(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != "content"}


@settings(thorough, max_examples=200)
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


@ways
@thorough
@given(any_histories, policies(), contexts)
def test_nothing_ever_becomes_larger(
    way: Way, messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    before = conversation(*messages)

    after = way(Pipeline(policy), context, before)

    assert tokens(after) <= tokens(before)
    assert len(after) <= len(before)


@ways
@thorough
@given(any_histories, policies(), contexts)
def test_the_clients_own_messages_are_never_changed(
    way: Way, messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    kept = copy.deepcopy(messages)

    way(Pipeline(policy), context, conversation(*messages))

    assert messages == kept


@thorough
@given(any_histories, policies(), contexts)
def test_no_stage_fails_on_any_message(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    pipeline = Pipeline(policy)

    trim = pipeline.trim(conversation(*messages), context)

    assert trim.failures == ()
    assert relieve(pipeline, trim.conversation).failures == ()


@ways
@thorough
@given(any_histories, policies(), contexts)
def test_what_stays_keeps_its_place_and_all_fields_but_the_content(
    way: Way, messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 42: role, name, ids, calls, reasoning and fields that nobody knows."""
    after = way(Pipeline(policy), context, conversation(*messages))

    origins = [origin for origin in after.origins if origin is not None]
    assert len(origins) == len(after)
    assert origins == sorted(set(origins))
    for origin, fields in zip(origins, after.fields, strict=True):
        assert others_of(fields) == others_of(messages[origin])
        assert list(fields) == list(messages[origin])


@ways
@thorough
@given(any_histories, policies(), contexts)
def test_pairs_are_kept_or_go_as_one(
    way: Way, messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 1, 2: of a call and its results all are there or none; system messages may stay."""
    before = conversation(*messages)

    after = way(Pipeline(policy), context, before)

    kept = set(after.origins)
    for group in before.groups:
        there = [at in kept for at in range(*group) if not before.messages[at].is_instruction]
        assert all(there) or not any(there)


@ways
@thorough
@given(any_histories, policies(), contexts)
def test_instructions_and_the_current_question_are_kept(
    way: Way, messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 23, 32, 38, 46: they keep their bytes, but for media that the model cannot see."""
    before = conversation(*messages)
    turn = before.current_turn
    sacred = {*range(before.instructions), *(turn.users if turn else ())}
    late = {at for at, message in enumerate(before.messages) if message.is_instruction}

    after = way(Pipeline(policy), context, before)

    now = dict(zip(after.origins, after.fields, strict=True))
    assert all(set(texts(messages[at])) <= set(texts(now[at])) for at in sacred | late)
    if context.can_see is not False:
        assert all(now[at] is messages[at] for at in sacred)


def texts(fields: Fields) -> list[str]:
    return [words for _, words in texts_in(Message(fields))]


@thorough
@given(any_histories, policies(), contexts)
def test_trimming_twice_is_trimming_once(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    pipeline = Pipeline(policy)

    once = trimmed(pipeline, context, conversation(*messages))
    twice = trimmed(pipeline, context, once)

    assert dumped(twice) == dumped(once)


@thorough
@given(any_histories, policies(), contexts)
def test_clearing_twice_is_clearing_once(
    messages: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    pipeline = Pipeline(policy)

    once = relieve(pipeline, trimmed(pipeline, context, conversation(*messages)))

    assert pipeline.repeat(once.conversation, once.clearing) == ()


@thorough
@given(any_histories, policies())
def test_repeating_gives_what_deciding_gave(messages: list[Fields], policy: StagePolicies) -> None:
    """BUGS 21, 44: what is kept of a decision is all that is needed to do it again."""
    pipeline = Pipeline(policy)
    before = conversation(*messages)

    decided = relieve(pipeline, before)
    kept = Clearing.from_lists(json.loads(json.dumps(decided.clearing.as_lists())))
    steps = pipeline.repeat(conversation(*copy.deepcopy(messages)), kept)

    assert dumped(steps[-1].conversation if steps else before) == dumped(decided.conversation)


def without_media(messages: list[Fields]) -> list[Fields]:
    return [
        {**message, "content": [part for part in message["content"] if part["type"] == "text"]}
        if isinstance(message["content"], list)
        else message
        for message in messages
    ]


@thorough
@given(histories, policies())
def test_deciding_again_at_once_clears_nothing_more(
    messages: list[Fields], policy: StagePolicies
) -> None:
    """BUGS 7: a compaction that has done what it could does not find more the next time.

    Without media: the note that one leaves in a result is a few tokens more of tool output.
    """
    pipeline = Pipeline(policy)

    once = relieve(pipeline, conversation(*without_media(messages)))
    twice = relieve(pipeline, once.conversation, once.clearing)

    assert twice.clearing == once.clearing
    assert twice.conversation is once.conversation


def without_vision_limit(policy: StagePolicies) -> StagePolicies:
    """Return the policy that leaves turns alone: a new image must not move what was sent before."""
    limit = LimitVisionHistoryPolicy(enabled=False, keep_system=True, keep_last_n_turns=0)
    return StagePolicies(
        limit,
        policy.strip_media,
        policy.truncate_tool_output,
        policy.clear_old_tool_output,
        policy.clear_old_media,
    )


@thorough
@given(any_histories, any_histories, policies(), contexts)
def test_a_grown_conversation_begins_with_the_same_bytes(
    messages: list[Fields], more: list[Fields], policy: StagePolicies, context: StageContext
) -> None:
    """BUGS 21, 22."""
    pipeline = Pipeline(without_vision_limit(policy))
    first = relieve(pipeline, trimmed(pipeline, context, conversation(*messages)))

    grown = trimmed(pipeline, context, conversation(*messages, *more))
    steps = pipeline.repeat(grown, first.clearing)

    now = steps[-1].conversation if steps else grown
    assert dumped(now)[: len(messages)] == dumped(first.conversation)
    assert dumped(now)[len(messages) :] == dumped(grown)[len(messages) :]


@thorough
@given(
    leading,
    st.lists(st.lists(groups(), min_size=1, max_size=3), min_size=2, max_size=6),
    policies(),
)
def test_in_any_order_of_growth_only_a_compaction_moves_the_prefix(
    head: list[Fields], growth: list[list[list[Fields]]], policy: StagePolicies
) -> None:
    """BUGS 21, 22: every request repeats what all before it decided, and adds to it when over."""
    pipeline = Pipeline(without_vision_limit(policy))
    messages = copy.deepcopy(head)
    sent: list[str] = []
    done = Clearing()
    for parts in growth:
        messages += flat(parts)
        now = trimmed(pipeline, StageContext(), conversation(*messages))
        steps = pipeline.repeat(now, done)
        now = steps[-1].conversation if steps else now
        assert dumped(now)[: len(sent)] == sent
        if tokens(now) >= TRIGGER:
            outcome = relieve(pipeline, now, done)
            assert outcome.clearing.results >= done.results
            assert outcome.clearing.media >= done.media
            done, now = outcome.clearing, outcome.conversation
        sent = dumped(now)
