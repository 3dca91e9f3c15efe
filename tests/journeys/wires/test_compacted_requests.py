"""Whatever is folded, aged, dropped, truncated or clipped: the API accepts what is sent."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.responses.wire import RESPONSES
from chat_proxy.wires.wire import Wire
from tests.journeys.summaries.in_process import House, open_house
from tests.journeys.wires.desk import RULES, Prepared, open_desk
from tests.support.wires.talks import STEPS, Step, messages_body, responses_body

Fields = dict[str, Any]
BODIES: dict[str, Callable[..., Fields]] = {"messages": messages_body, "responses": responses_body}
INPUT: TypeAdapter[Any] = TypeAdapter(ResponseInputParam)
"""The items as OpenAI's own types describe them."""
SEALED = ("thinking", "redacted_thinking", "reasoning", "server_tool_use", "web_search_tool_result")
FRAME = "<earlier-conversation>"
WIRES = pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
THOROUGH = settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as house:
        yield house


def entries_of(body: Fields) -> list[Fields]:
    """Return the items, or the blocks of all messages, of a request."""
    if "messages" not in body:
        return list(body["input"])
    contents = [message["content"] for message in body["messages"]]
    return [
        block
        for content in contents
        for block in (content if type(content) is list else [{"type": "text", "text": content}])
    ]


def ids_in(entries: Sequence[Fields]) -> list[str]:
    """Return the ids of calls and results, in their order."""
    found = [
        entry.get("call_id") or entry.get("tool_use_id") or entry.get("id") for entry in entries
    ]
    return [str(each) for each in found if each]


def is_ours(entry: Fields) -> bool:
    """Tell whether an entry is the fold or the answer to it."""
    said = str(entry.get("text") or entry.get("content"))
    return FRAME in said or ACKNOWLEDGEMENT in said


def check(wire: Wire, prepared: Prepared, given: Fields) -> None:
    """Check that nothing but what may change has changed, and that the API accepts it."""
    sent = prepared.body
    assert RULES[wire.name](sent) == []
    before, after = entries_of(given), entries_of(sent)
    wanted = iter(ids_in(before))
    assert all(each in wanted for each in ids_in(after)), "ids in another order, or new ones"
    for entry in after:
        assert entry.get("type") not in SEALED or entry in before
    unknown = [entry for entry in after if entry not in before and not is_ours(entry)]
    assert all(_is_changed(entry, before) for entry in unknown), unknown
    for key in ("system", "instructions", "tools", "model"):
        assert sent.get(key) == given.get(key)


def _is_changed(entry: Fields, before: Sequence[Fields]) -> bool:
    """Tell whether an entry is one of the client's with less in it."""
    kind = entry.get("type")
    same = [each for each in before if each.get("type") == kind]
    if "call_id" in entry or "tool_use_id" in entry or kind == "tool_use":
        names = ("type", "call_id", "tool_use_id", "id", "name", "status")
        return any(all(entry.get(n) == each.get(n) for n in names) for each in same)
    return kind in ("text", "message")


@pytest.mark.parametrize("fails", [False, True], ids=["summaries", "no summaries"])
@WIRES
@THOROUGH
@given(
    steps=st.lists(STEPS, min_size=2, max_size=12),
    window=st.sampled_from([2_048, 4_096, 8_192]),
    sections=st.builds(
        lambda limit, drops: {"tools": {"max_bytes": limit}, "vision": {"truncate_history": drops}},
        st.sampled_from([300, 100_000]),
        st.booleans(),
    ),
    most=st.sampled_from([None, 64, 1_500, 32_000]),
)
def test_a_compacted_request_is_one_that_the_api_accepts(
    *,
    house: House,
    wire: Wire,
    fails: bool,
    steps: Sequence[Step],
    window: int,
    sections: dict[str, Any],
    most: int | None,
) -> None:
    name = "max_tokens" if wire is MESSAGES else "max_output_tokens"
    with open_desk(house, wire, window, fails=fails, **sections) as desk:
        for end in range(2, len(steps) + 1, 2):
            body = BODIES[wire.name](steps[:end], **({name: most} if most else {}))
            assert RULES[wire.name](body) == [], "the test's own request"
            if wire is RESPONSES:
                INPUT.validate_python(body["input"])

            prepared = desk.ask(body)

            event(f"{wire.name}: {prepared.record.compaction}")
            for stage in prepared.record.stages:
                event(f"{wire.name}: {stage}")
            check(wire, prepared, body)
            if wire is RESPONSES:
                INPUT.validate_python(prepared.body["input"])
            assert desk.writer.wrong == []
