"""Which refusals say that an upstream does not know a contract's parameters."""

import json

import pytest

from chat_proxy.proxy.contracts.refusals import (
    FORGOTTEN_SECONDS,
    MAX_REFUSALS,
    LearnedRefusals,
    is_contract_refusal,
)
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.wires.responses.wire import RESPONSES
from tests.unit.proxy.contracts.routes import route_to


@pytest.mark.parametrize(
    "message",
    [
        "context_management: Extra inputs are not permitted",
        "Unknown parameter: 'context_management'.",
        "Unsupported parameter: context_management",
        "Invalid value: 'compaction_trigger'. Supported values are: 'message'.",
        "Cannot determine type of 'item'",
        "body -> context_management: extra fields not permitted (type=value_error.extra_forbidden)",
        "edits.0: Input tag 'compact_20260112' found using 'type' does not match any of the tags",
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_of_the_parameters_is_recognised(message: str, status: int) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()

    assert is_contract_refusal(status, body)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 4096 tokens."),
        (400, "temperature: Extra inputs are not permitted"),
        (401, "Unknown parameter: 'context_management'."),
        (429, "context_management is not supported at this rate"),
        (500, "context_management: Extra inputs are not permitted"),
        (400, "Invalid type for 'input'."),
    ],
)
def test_other_refusals_are_not(status: int, message: str) -> None:
    assert not is_contract_refusal(status, json.dumps({"error": {"message": message}}).encode())


def test_a_refusal_is_remembered_for_its_tenant_upstream_wire_and_model_for_a_day() -> None:
    now = [0.0]
    refusals = LearnedRefusals(lambda: now[0])
    route = route_to("https://api.openai.com/v1", "one")

    refusals.add("tenant", route, RESPONSES)

    assert refusals.has("tenant", route, RESPONSES)
    assert not refusals.has("other", route, RESPONSES)
    assert not refusals.has("tenant", route_to("https://api.openai.com/v1", "two"), RESPONSES)
    assert not refusals.has("tenant", route_to("https://eu.api.openai.com/v1", "one"), RESPONSES)
    now[0] = FORGOTTEN_SECONDS
    assert not refusals.has("tenant", route, RESPONSES)


def test_refusals_are_bounded() -> None:
    refusals = LearnedRefusals()
    routes: list[ModelRoute] = [route_to("http://a/v1", f"m{n}") for n in range(MAX_REFUSALS + 1)]

    for route in routes:
        refusals.add("tenant", route, RESPONSES)

    assert not refusals.has("tenant", routes[0], RESPONSES)
    assert refusals.has("tenant", routes[-1], RESPONSES)
