"""A model asks for what left its prompt; the client sees one clean answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.proxy.recall.exchanges import Exchanges
from tests.journeys.recall.agents import NEEDLE, NEEDLE_NUMBER, WIRES, agent_on, steps
from tests.support.conversations import listening
from tests.support.recall_model import RECALL, Calls, Says, ScriptedModel, recall

pytestmark = pytest.mark.anyio
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
wires = pytest.mark.parametrize("wire", WIRES)
KEYS = {"chat": "messages", "responses": "input", "messages": "messages"}
READ = Calls("read_file", {"path": "README.md"}, "call_own")


def items_of(body: dict[str, Any]) -> list[Any]:
    """The messages or items of a prompt."""
    items = body["messages"] if "messages" in body else body["input"]
    assert type(items) is list
    return items


def begins_with(body: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Whether a prompt begins as an earlier one did: instructions, tools, messages."""
    before = items_of(earlier)
    same = all(body.get(it) == earlier.get(it) for it in ("system", "instructions", "tools"))
    return same and items_of(body)[: len(before)] == before


@wires
@streams
async def test_one_recall_gives_one_clean_answer(wire: str, *, stream: bool) -> None:
    """BUGS 37: the tool is there exactly if it is answered."""
    brain = ScriptedModel([[Says("Let me look. "), recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)

    first, second = brain.bodies
    assert answered.text == "Let me look. It is 48213."
    assert answered.calls == []
    assert NEEDLE not in json.dumps(first)
    assert NEEDLE in json.dumps(second)
    assert begins_with(second, first)
    assert answered.usage[1] == 12


@wires
@streams
async def test_two_rounds_and_a_search_are_one_answer(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel(
        [
            [Calls(RECALL, {"search": "48213"}, "call_a")],
            [Says("Found. "), recall(NEEDLE_NUMBER, "call_b"), recall(5, "call_c")],
            [Says("It is 48213.")],
        ]
    )

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)

    assert answered.text == "Found. It is 48213."
    assert len(brain.bodies) == 3
    assert f"r{NEEDLE_NUMBER} line 13" in json.dumps(brain.bodies[1])
    assert begins_with(brain.bodies[2], brain.bodies[1])
    assert answered.usage[1] == 18


@wires
@streams
async def test_the_next_prompt_begins_with_the_last(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[Says("One moment. "), recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])

    async with agent_on(wire, brain) as agent:
        await agent.ask(stream=stream)
        agent.add_user("Thanks. And the others?")
        await agent.ask(stream=stream)

    _, second, third = brain.bodies
    assert begins_with(third, second)
    assert "It is 48213." in json.dumps(items_of(third)[len(items_of(second)) :])


@wires
@streams
async def test_calls_beside_the_clients_own_are_held_with_its_turn(
    wire: str, *, stream: bool
) -> None:
    brain = ScriptedModel([[Says("Both. "), recall(NEEDLE_NUMBER), READ]])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)
        agent.add_result("call_own", "the readme")
        await agent.ask(stream=stream)

    first, second = brain.bodies
    assert answered.text == "Both. "
    assert answered.calls == [("call_own", {"path": "README.md"})]
    assert begins_with(second, first)
    added = json.dumps(items_of(second)[len(items_of(first)) :])
    assert added.index(RECALL) < added.index(NEEDLE) < added.index("call_own")
    assert added.index("call_own") < added.index("the readme")


@wires
@streams
@pytest.mark.parametrize("second", [[Says("Well.")], [READ, recall(5)]], ids=["text", "calls"])
async def test_an_exchange_is_kept_before_the_client_has_the_end_of_its_answer(
    wire: str, *, stream: bool, second: list[Says | Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks again at once is in time, however slow the store is."""
    is_asked, answers, keep = asyncio.Event(), asyncio.Event(), Exchanges.keep

    async def keep_slowly(self: Exchanges, *exchange: Any) -> bool:
        is_asked.set()
        await answers.wait()
        return await keep(self, *exchange)

    monkeypatch.setattr(Exchanges, "keep", keep_slowly)
    brain = ScriptedModel([[Says("Let me look. "), recall(NEEDLE_NUMBER)], second])
    async with agent_on(wire, brain) as agent:
        asking = asyncio.create_task(agent.ask(stream=stream))
        await is_asked.wait()
        await asyncio.sleep(0.2)
        has_ended = asking.done()
        answers.set()
        answered = await asking
        monkeypatch.undo()
        if answered.calls:
            agent.add_result("call_own", "the readme")
        else:
            agent.add_user("Thanks. And the others?")
        await agent.ask(stream=stream)

    assert not has_ended
    assert NEEDLE in json.dumps(brain.bodies[-1])


@wires
@streams
async def test_a_store_that_fails_at_the_end_costs_the_exchange_and_not_the_answer(
    wire: str, *, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> bool:
        raise RuntimeError

    monkeypatch.setattr(Exchanges, "keep", fail)
    brain = ScriptedModel([[Says("Let me look. "), recall(NEEDLE_NUMBER)], [Says("Well.")]])
    with listening() as heard:
        async with agent_on(wire, brain) as agent:
            answered = await agent.ask(stream=stream)

    assert answered.text == "Let me look. Well."
    assert len(heard.lines("an exchange could not be kept")) == 1


@wires
@streams
async def test_a_model_that_asks_for_ever_is_stopped(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[recall(5, f"call_{at}")] for at in range(9)])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)

    assert len(brain.bodies) == 4
    assert answered.calls == []
    assert [RECALL in json.dumps(body.get("tools")) for body in brain.bodies] == [True] * 3 + [
        False
    ]


@wires
async def test_nothing_is_offered_before_the_first_cut(wire: str) -> None:
    brain = ScriptedModel(window=60_000)

    async with agent_on(wire, brain, steps(2)) as agent:
        await agent.ask(stream=False)

    assert RECALL not in json.dumps(brain.bodies)


@wires
async def test_nothing_is_offered_unless_it_is_enabled(wire: str) -> None:
    brain = ScriptedModel()

    async with agent_on(wire, brain, recall={"enabled": False}) as agent:
        await agent.ask(stream=False)

    assert RECALL not in json.dumps(brain.bodies)
    assert "recall" not in json.dumps(brain.bodies)


@wires
async def test_an_unknown_id_is_answered_as_unknown(wire: str) -> None:
    brain = ScriptedModel([[recall(4_000)], [Says("So be it.")]])

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=True)

    assert answered.text == "So be it."
    assert "unknown: no earlier message" in json.dumps(brain.bodies[1])


@wires
@streams
async def test_results_that_do_not_fit_are_left_out(wire: str, *, stream: bool) -> None:
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("Then without.")]], refuses=NEEDLE)

    async with agent_on(wire, brain) as agent:
        answered = await agent.ask(stream=stream)

    assert answered.text == "Then without."
    assert "no room" in json.dumps(brain.bodies[-1])


async def test_recall_can_be_enabled_for_one_model(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "fake", "overrides": {"recall_enabled": True}}]))
    brain = ScriptedModel()

    async with agent_on(
        "chat", brain, recall={"enabled": False}, registry={"file": str(registry)}
    ) as agent:
        await agent.ask(stream=False)

    assert RECALL in json.dumps(brain.bodies[-1]["tools"])
