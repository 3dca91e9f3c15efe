"""Anthropic's own types read what is sent on Messages, and what the proxy answers itself."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaMessageParam, BetaRawMessageStreamEvent
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from chat_proxy.wires.answers import Reply, data_events
from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.messages.wire import MESSAGES
from tests.journeys.summaries.in_process import House, open_house
from tests.journeys.wires.desk import open_desk
from tests.support.wires.talks import STEPS, Step, messages_body

PARAM: TypeAdapter[Any] = TypeAdapter(list[BetaMessageParam])
EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
REPLY = Reply("Compacted.", "fake", "req-1", 1)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as house:
        yield house


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, min_size=4, max_size=12), window=st.sampled_from([2_048, 4_096]))
def test_a_compacted_request_is_one_of_anthropic_s_own(
    house: House, steps: Sequence[Step], window: int
) -> None:
    body = messages_body(steps)
    PARAM.validate_python(body["messages"])

    with open_desk(house, MESSAGES, window) as desk:
        prepared = desk.ask(body)

    PARAM.validate_python(prepared.body["messages"])
    for question in desk.writer.asked:
        PARAM.validate_python(question["messages"])


def test_an_answer_of_the_proxy_is_a_message() -> None:
    form = MessagesAnswers()

    whole = BetaMessage.model_validate(json.loads(form.whole_reply(REPLY)))
    events = [EVENT.validate_python(event) for event in data_events(form.streamed_reply(REPLY))]

    assert whole.stop_reason == "end_turn"
    assert [event.type for event in events][::5] == ["message_start", "message_stop"]
