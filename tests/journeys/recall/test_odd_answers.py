"""Recalls in answers and requests that are not ordinary: cut, broken off, forced, with thoughts."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from anthropic import APIError as AnthropicError
from openai import APIError as OpenAiError
from openai import LengthFinishReasonError

from tests.journeys.recall.agents import NEEDLE, NEEDLE_NUMBER, TOOL, WIRES, agent_on, steps
from tests.journeys.recall.test_recall import READ, begins_with, items_of, streams
from tests.support.live import http_client
from tests.support.recall_model import (
    RECALL,
    Answer,
    Breaks,
    Calls,
    IsCut,
    Says,
    ScriptedModel,
    Thinks,
    recall,
)
from tests.unit.chat.shapes import image

pytestmark = pytest.mark.anyio
wires = pytest.mark.parametrize("wire", WIRES)
LONG_SUMMARY = [
    f"The file src/part_{step}.py was read: its values are {step}." for step in range(16)
]
NAMES = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
FORCED: dict[str, list[Any]] = {
    "chat": ["none", "required", {"type": "function", "function": {"name": "read_file"}}],
    "responses": ["none", "required", {"type": "function", "name": "read_file"}],
    "messages": [{"type": "none"}, {"type": "any"}, {"type": "tool", "name": "read_file"}],
}


@wires
@streams
async def test_an_answer_that_is_cut_within_a_call_stays_cut(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[Says("I look it "), Calls(RECALL, '{"id": "r', "c1"), IsCut()]])

    async with agent_on(wire, brain) as agent:
        if stream and wire != "messages":  # OpenAI's SDK has no result for such a stream
            with pytest.raises((LengthFinishReasonError, RuntimeError), match=r"length|completed"):
                await agent.ask(stream=True)
        else:
            answered = await agent.ask(stream=stream)
            assert answered.is_cut
            assert answered.text == "I look it "
            assert answered.calls == []

    assert len(brain.bodies) == 1


@pytest.mark.parametrize("arguments", ["{broken", "", "[1]", '"r7"', '{"id": null}'])
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_arguments_that_are_no_object_are_sent_back_as_one(wire: str, arguments: str) -> None:
    """Servers parse the arguments of all calls in a history, and refuse what is no object."""
    brain = ScriptedModel([[Calls(RECALL, arguments, "c1")], [Says("As you say.")]])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=True)

    assert answered.text == "As you say."
    items = items_of(brain.bodies[1])
    call = items[-2]["tool_calls"][0]["function"] if wire == "chat" else items[-2]
    assert type(json.loads(call["arguments"])) is dict
    assert "Give an `id`" in json.dumps(items[-1])


@wires
@streams
async def test_thoughts_go_back_with_the_calls_that_they_led_to(wire: str, *, stream: bool) -> None:
    """BUGS 19: some upstreams refuse a call without the thoughts before it."""
    brain = ScriptedModel(
        [
            [Thinks("I need the part."), recall(NEEDLE_NUMBER)],
            [Thinks("There it is."), Says("It is 48213.")],
        ]
    )

    async with agent_on(wire, brain) as agent:
        await agent.ask(stream=stream)
        agent.add_user("And?")
        await agent.ask(stream=stream)

    assert "I need the part." in json.dumps(brain.bodies[1])
    assert begins_with(brain.bodies[2], brain.bodies[1])
    assert json.dumps(items_of(brain.bodies[2])).count("I need the part.") == 1


@wires
@streams
async def test_thoughts_before_calls_of_both_are_sent_back_once(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[Thinks("Both at once."), recall(NEEDLE_NUMBER), READ]])

    async with agent_on(wire, brain) as agent:
        await agent.ask(stream=stream)
        agent.add_result("call_own", "the readme")
        await agent.ask(stream=stream)

    assert begins_with(brain.bodies[1], brain.bodies[0])
    assert json.dumps(items_of(brain.bodies[1])).count("Both at once.") == 1


@wires
@streams
async def test_texts_of_two_rounds_are_set_apart(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[Says("I will look."), recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)
        agent.add_user("And?")
        await agent.ask(stream=stream)

    glue = "\n\n" if wire == "chat" else ""
    assert answered.text == f"I will look.{glue}It is 48213."
    assert begins_with(brain.bodies[2], brain.bodies[1])
    answer = json.dumps(items_of(brain.bodies[2])[len(items_of(brain.bodies[1]))])
    assert '"It is 48213."' in answer


@wires
@streams
async def test_an_upstream_that_breaks_in_the_second_round_is_an_error(
    wire: str, *, stream: bool
) -> None:
    """FAULTS B7, B8: what was relayed stays, and the client sees that the rest is missing."""
    brain = ScriptedModel([[Says("I look. "), recall(NEEDLE_NUMBER)], [Says("It is"), Breaks()]])

    async with agent_on(wire, brain) as agent:
        with pytest.raises((OpenAiError, AnthropicError, RuntimeError)) as raised:
            await agent.ask(stream=stream)
        brain.script = []
        answered = await agent.ask(stream=stream)

    # OpenAI's client says so where the response that fails is not the one that began.
    assert "identity changed" not in str(raised.value)
    assert answered.text == "Well."


@wires
@pytest.mark.parametrize("forced", [0, 1, 2], ids=["none", "required", "named"])
async def test_what_the_client_forces_stays_forced_to_the_last_round(
    wire: str, forced: int
) -> None:
    choice = FORCED[wire][forced]
    script: list[Answer] = [[recall(5, f"call_{at}")] for at in range(3)]
    brain = ScriptedModel([*script, [READ]])

    async with agent_on(wire, brain) as agent:
        agent.options = {"tool_choice": choice}
        answered = await agent.ask(stream=True)

    assert [body["tool_choice"] for body in brain.bodies] == [choice] * 4
    assert answered.calls == [("call_own", {"path": "README.md"})]
    assert RECALL not in json.dumps(brain.bodies[-1]["tools"])


@wires
async def test_where_it_is_the_only_tool_the_last_round_forbids_calls(wire: str) -> None:
    """Some servers refuse a history with calls where no tool is defined."""
    brain = ScriptedModel([[recall(5, f"call_{at}")] for at in range(4)])
    sections: dict[str, Any] = {"recall": {"enabled": True, "without_tools": True}}

    async with agent_on(wire, brain, **sections) as agent:
        agent.options = {"tools": []}
        answered = await agent.ask(stream=False)

    assert answered.calls == []
    assert [len(body["tools"]) for body in brain.bodies] == [1] * 4
    assert brain.bodies[-1]["tool_choice"] == ({"type": "none"} if wire == "messages" else "none")


@wires
async def test_a_tool_of_the_client_with_this_name_stays_the_clients(wire: str) -> None:
    brain = ScriptedModel([[Calls(RECALL, {"id": "r5"}, "call_own")]])
    own = {**TOOL, "name": RECALL}
    forms: dict[str, Any] = {
        "chat": {"type": "function", "function": own},
        "responses": {"type": "function", **own, "strict": False},
        "messages": {"name": RECALL, "input_schema": TOOL["parameters"]},
    }

    async with agent_on(wire, brain) as agent:
        agent.options = {"tools": [forms[wire]]}
        answered = await agent.ask(stream=True)

    assert answered.calls == [("call_own", {"id": "r5"})]
    assert len(brain.bodies[0]["tools"]) == 1
    assert "[Recall:" not in json.dumps(brain.bodies[0])


@wires
async def test_without_tools_a_known_fold_names_no_tool(wire: str) -> None:
    """FAULTS C19: a reference to the tool never without the tool."""
    brain = ScriptedModel()

    async with agent_on(wire, brain) as agent:
        await agent.ask(stream=False)
        agent.history.pop()
        agent.options = {"tools": []}
        await agent.ask(stream=False)

    first, second = map(json.dumps, brain.bodies)
    assert "[Recall:" in first
    assert RECALL not in second
    assert "[recall:" not in second


@streams
async def test_answers_of_both_kinds_are_known_when_the_client_has_them(*, stream: bool) -> None:
    """A client may send its next request at once: what was recalled must be in it already."""
    brain = ScriptedModel([[recall(NEEDLE_NUMBER), READ]] * 8)

    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        headers = {"authorization": "Bearer key"}
        for turn in range(4):
            body: dict[str, Any] = {
                "model": "fake",
                "messages": [{"role": "system", "content": "Be brief."}, *agent.history],
                "tools": [{"type": "function", "function": TOOL}],
                "stream": stream,
            }
            request = client.build_request("POST", "/v1/chat/completions", json=body)
            request.headers.update(headers)
            answer = await client.send(request, stream=True)
            seen = b""
            async for piece in answer.aiter_raw():
                seen += piece
                if b"finish_reason" in seen and b"tool_calls" in seen.split(b"finish_reason")[-1]:
                    break
            call = {
                "id": "call_own",
                "type": "function",
                "function": {"name": "read_file", "arguments": '{"path": "README.md"}'},
            }
            agent.history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            agent.add_result("call_own", f"readme {turn}")
            await answer.aclose()

    for earlier, later in zip(brain.bodies, brain.bodies[1:], strict=False):
        assert begins_with(later, earlier)
        assert json.dumps(later).count(NEEDLE) == json.dumps(earlier).count(NEEDLE) + 1


async def test_log_probabilities_are_those_of_the_whole_text() -> None:
    brain = ScriptedModel([[Says("I look. "), recall(NEEDLE_NUMBER)], [Says("It is 5.")]])

    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        body = {
            "model": "fake",
            "messages": agent.history,
            "tools": [{"type": "function", "function": TOOL}],
            "logprobs": True,
        }
        answer = await client.post("/v1/chat/completions", json=body)

    content = answer.json()["choices"][0]["logprobs"]["content"]
    assert [it["token"] for it in content] == ["I", "look.", "It", "is", "5."]
    assert answer.headers["x-chat-proxy-recalls"] == "1"


@wires
async def test_the_answer_shrinks_by_what_was_recalled(wire: str) -> None:
    """Strictly: prompt + answer <= window, as vLLM refuses what exceeds it."""
    said = steps()
    said[8]["content"] = "\n".join(f"row {at} of the table is {at * 31}" for at in range(2_000))
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("Long.")]], window=12_000)

    async with agent_on(wire, brain, said) as agent:
        agent.options = {NAMES[wire]: 9_000}
        answered = await agent.ask(stream=False)

    first, second = (body[NAMES[wire]] for body in brain.bodies)
    assert answered.text == "Long."
    assert second < first


async def test_the_upstreams_pings_pass_in_every_round() -> None:
    class Slow(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            if received.method == "POST":
                await asyncio.sleep(0.3)
            await super().__call__(received, line)

    brain = Slow([[Says("I look. "), recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])
    async with agent_on("chat", brain, server={"ping_seconds": 0.05}) as agent:
        answered = await agent.ask(stream=True)

    assert answered.text == "I look. It is 48213."


async def test_all_rounds_together_have_the_time_of_one_answer() -> None:
    """FAULTS B14: a model that asks again and again does not get the time limit anew."""

    class Slow(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            if received.method == "POST" and not received.header("x-chat-proxy-purpose"):
                with suppress(TimeoutError):
                    await asyncio.wait_for(line.until_closed(), 0.8)
            await super().__call__(received, line)

    brain = Slow([[recall(5, f"call_{at}")] for at in range(3)])
    async with agent_on("chat", brain, upstream={"total_timeout_seconds": 1.5}) as agent:
        with pytest.raises(OpenAiError) as refused:
            await agent.ask(stream=False)

    assert "longer than allowed" in str(refused.value)
    assert len(brain.bodies) < 3


@wires
async def test_a_fold_that_the_client_gets_names_no_ids_of_what_it_replaces(wire: str) -> None:
    """FAULTS C19: the client sends it in place of its messages, so ids would name others."""
    brain = ScriptedModel(summary=LONG_SUMMARY)
    keys = {"chat": "messages", "responses": "input", "messages": "messages"}

    async with agent_on(wire, brain) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        body = {**brain.bodies[0], keys[wire]: agent.history}
        body["tools"] = [it for it in body["tools"] if RECALL not in json.dumps(it)]
        headers = {"authorization": "Bearer key"}
        answer = await client.post("/v1/chat/compact", json=body, headers=headers)

    assert answer.status_code == 200
    assert "Summary of earlier conversation" in answer.text
    assert "[Recall:" in json.dumps(brain.bodies[0])
    assert "[Recall:" not in answer.text


async def test_a_sealed_prompt_names_no_ids_of_what_it_replaces() -> None:
    brain = ScriptedModel(summary=LONG_SUMMARY)

    async with agent_on("responses", brain) as agent, http_client(agent.proxy) as client:
        body = {
            "model": "fake",
            "input": agent.history,
            "tools": [{"type": "function", **TOOL, "strict": False}],
            "store": False,
            "context_management": [{"type": "compaction", "compact_threshold": 2_000}],
        }
        headers = {"authorization": "Bearer key"}
        answer = await client.post("/v1/responses", json=body, headers=headers)

    kinds = [item["type"] for item in answer.json()["output"]]
    assert "compaction" in kinds
    assert RECALL not in json.dumps(brain.bodies)


async def test_turns_that_an_image_hides_can_be_asked_for() -> None:
    brain = ScriptedModel([[Calls(RECALL, {"search": "value_1_3"}, "c1")], [Says("It is 3.")]])
    brain.window = 60_000
    question = [{"type": "text", "text": "What is this, and what was value_1_3?"}, image()]

    async with agent_on("chat", brain, steps(3)[:-1]) as agent:
        agent.history.append({"role": "user", "content": question})
        answered = await agent.ask(stream=True)

    assert answered.text == "It is 3."
    assert "value_1_3 = 3" not in json.dumps(brain.bodies[0])
    assert "value_1_3 = 3" in json.dumps(brain.bodies[1])
