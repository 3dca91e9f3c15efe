"""Recall among tenants, conversations and replicas, and when something is away."""

import asyncio
import json
import random
import re
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anthropic import APIError as AnthropicError
from openai import APIError as OpenAiError

from tests.journeys.recall.agents import (
    NEEDLE,
    NEEDLE_NUMBER,
    TOOL,
    WIRES,
    Agent,
    agent_on,
    history_on,
    steps,
)
from tests.journeys.recall.test_recall import begins_with
from tests.support.fake_model import begin_stream, event, fake_model
from tests.support.live import http_client, raw_client, running_proxy
from tests.support.recall_model import RECALL, Calls, Says, ScriptedModel, recall

pytestmark = pytest.mark.anyio
wires = pytest.mark.parametrize("wire", WIRES)


def answers_of(brain: ScriptedModel) -> str:
    """All that recalls returned."""
    return json.dumps([body["messages"][-1] for body in brain.bodies[1:]])


async def test_f20_ids_of_another_conversation_are_unknown() -> None:
    """What a model can ask for is in the request itself: there is nothing to guess."""
    secret = steps()
    secret[8]["content"] = "the secret of the other conversation"
    numbers = random.Random(5)
    wild = [f"r{numbers.randrange(10**6)}" for _ in range(30)] + ["../r9", "r-1", "0" * 32, "ä"]
    script: list[list[Says | Calls]] = [
        [Calls(RECALL, {"id": name}, f"c{at}")] for at, name in enumerate(wild)
    ]
    brain = ScriptedModel([[Says("Seen.")]])
    async with agent_on("chat", brain, secret) as agent:
        await agent.ask(stream=False)
        brain.bodies.clear()
        brain.script = [*script, [Says("No.")]]
        other = Agent("chat", agent.proxy, agent.model, history_on("chat", steps(14)))
        for _ in range(9):
            await other.ask(stream=False)
            other.history.pop()

    assert "secret" not in json.dumps(brain.bodies)
    assert "unknown" in json.dumps(brain.bodies)


async def test_an_exchange_is_put_back_for_its_tenant_only() -> None:
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])
    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        agent.add_user("And now?")
        body: dict[str, Any] = {
            "model": "fake",
            "messages": [{"role": "system", "content": "Be brief."}, *agent.history],
            "tools": brain.bodies[0]["tools"][:1],
        }
        brain.bodies.clear()
        for key in ("key", "other"):
            headers = {"authorization": f"Bearer {key}"}
            await client.post("/v1/chat/completions", json=body, headers=headers)

    mine, foreign = brain.bodies
    assert NEEDLE in json.dumps(mine)
    assert NEEDLE not in json.dumps(foreign)


@wires
async def test_without_a_store_recalls_are_answered_from_the_request(wire: str) -> None:
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])
    store = {"url": "redis://127.0.0.1:1/0", "secret": "a secret that is long enough"}

    async with agent_on(wire, brain, store=store, archive={"enabled": False}) as agent:
        answered = await agent.ask(stream=True)
        agent.add_user("And?")
        await agent.ask(stream=True)

    assert answered.text == "It is 48213."
    assert begins_with(brain.bodies[2], brain.bodies[1])


async def test_another_replica_puts_an_exchange_back(tmp_path: Path) -> None:
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])
    sections: dict[str, Any] = {
        "recall": {"enabled": True},
        "store": {"url": f"sqlite:///{tmp_path}/store.db", "secret": "shared by both replicas"},
    }
    async with fake_model(brain) as model:
        async with running_proxy(model.url, **sections) as first:
            agent = Agent("chat", first, model, history_on("chat", steps()))
            await agent.ask(stream=False)
        async with running_proxy(model.url, **sections) as second:
            agent.proxy = second
            agent.add_user("And the others?")
            await agent.ask(stream=False)

    assert begins_with(brain.bodies[2], brain.bodies[1])


async def test_a_client_that_drops_its_oldest_messages_can_still_recall_them(
    tmp_path: Path,
) -> None:
    brain = ScriptedModel()
    store = {"url": f"sqlite:///{tmp_path}/store.db"}
    async with agent_on("chat", brain, store=store) as agent:
        for turn in range(3):
            await agent.ask(stream=False)
            agent.add_user(f"Go on with part {turn}.")
        agent.history = [agent.history[0], *agent.history[11:]]
        brain.bodies.clear()
        brain.script = [[recall(NEEDLE_NUMBER)], [Says("Well.")]]
        await agent.ask(stream=False)

    assert len(brain.bodies) == 2
    answer = brain.bodies[1]["messages"][-1]["content"]
    assert NEEDLE in answer


async def test_a_client_that_leaves_in_the_middle_ends_the_rounds() -> None:
    """FAULTS A18, A19: nobody is asked again for a client that has gone."""
    is_asked = asyncio.Event()

    class Slow(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            if len(self.bodies) == 1 and received.method == "POST":
                is_asked.set()
                await line.until_closed()
                return
            await super().__call__(received, line)

    brain = Slow([[recall(NEEDLE_NUMBER)]])
    async with agent_on("chat", brain) as agent, raw_client(agent.proxy) as client:
        body = json.dumps(
            {
                "model": "fake",
                "stream": True,
                "messages": agent.history,
                "tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}],
            }
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: p\r\ncontent-length: {len(body)}\r\n"
        await client.send(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        await asyncio.wait_for(is_asked.wait(), 20)
        client.writer.transport.abort()
        for _ in range(500):
            if not agent.model.open_connections:
                break
            await asyncio.sleep(0.02)

    assert not agent.model.open_connections


async def test_a_long_result_is_cut_to_the_room_that_is_left() -> None:
    said = steps(lines=24)
    said[8]["content"] = "\n".join(f"row {at} of the table is {at * 31}" for at in range(2_000))
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("Long.")]])

    async with agent_on("chat", brain, said) as agent:
        answered = await agent.ask(stream=False)

    assert answered.text == "Long."
    assert "It goes on: " in answers_of(brain)
    assert answered.usage[0] < 2 * brain.window


async def test_the_history_of_a_conversation_is_returned_to_its_tenant_only() -> None:
    brain = ScriptedModel()
    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        agent.add_user("And now?")
        body = {
            "model": "fake",
            "messages": [{"role": "system", "content": "Be brief."}, *agent.history],
            "tools": brain.bodies[0]["tools"][:1],
        }
        headers = {"authorization": "Bearer key"}
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)
        name = answer.headers["x-chat-proxy-checkpoint"]
        path = f"/v1/chat/history/{name}"
        mine = await client.get(path, headers=headers)
        readable = await client.get(f"{path}?format=markdown", headers=headers)
        foreign = await client.get(path, headers={"authorization": "Bearer other"})
        unknown = await client.get("/v1/chat/history/" + "0" * 32, headers=headers)

    lines = [json.loads(line) for line in mine.text.splitlines()]
    assert lines == body["messages"][: len(lines)]
    assert NEEDLE in mine.text
    assert "## 9 · tool · read_file" in readable.text
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json() == unknown.json()


async def test_explain_says_what_can_be_recalled() -> None:
    brain = ScriptedModel()
    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        body = {
            "model": "fake",
            "messages": [{"role": "system", "content": "Be brief."}, *agent.history],
            "tools": brain.bodies[0]["tools"][:1],
        }
        headers = {"authorization": "Bearer key"}
        answer = await client.post("/v1/chat/explain", json=body, headers=headers)

    recalled = answer.json()["recall"]
    assert recalled["offered"] is True
    first, last = recalled["folded"]
    assert f"messages {first}-{last} by id" in json.dumps(brain.bodies[0])


async def test_explain_knows_the_history_with_its_recalls() -> None:
    """What explain counts is what is sent: calls that the client never saw are put back first."""
    brain = ScriptedModel([[recall(NEEDLE_NUMBER)], [Says("It is 48213.")]])
    async with agent_on("chat", brain) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        agent.add_user("And now?")
        body = {
            "model": "fake",
            "messages": [{"role": "system", "content": "Be brief."}, *agent.history],
            "tools": brain.bodies[0]["tools"][:1],
        }
        headers = {"authorization": "Bearer key"}
        explained = await client.post("/v1/chat/explain", json=body, headers=headers)
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)

    assert len(explained.json()["messages"]) == len(body["messages"]) + 2
    assert answer.headers["x-chat-proxy-compaction"] == "reused"


async def test_explain_names_a_result_that_was_cut_by_its_size_alone() -> None:
    said = steps(2)
    said[2]["content"] = "\n".join(f"row {at} of the table is {at * 31}" for at in range(4_000))
    brain = ScriptedModel(window=100_000)
    async with agent_on("chat", brain, said) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        body = {
            "model": "fake",
            "messages": [{"role": "system", "content": "Be brief."}, *agent.history[:-1]],
            "tools": brain.bodies[0]["tools"][:1],
        }
        headers = {"authorization": "Bearer key"}
        answer = await client.post("/v1/chat/explain", json=body, headers=headers)

    assert answer.json()["recall"]["shortened"] == ["r3"]


async def test_a_truncated_result_is_recalled_by_its_offload_id() -> None:
    said = steps(2)
    said[2]["content"] = "\n".join(f"row {at} of the table is {at * 31}" for at in range(4_000))

    class Asking(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            found = re.search(rb"offload id: ([0-9a-f]{32})", received.body)
            if found and not self.bodies:
                name = found[1].decode()
                wish = {"id": name, "from": 2_001, "lines": 1}
                self.script = [[Calls(RECALL, wish, "c1")], [Says("Read.")]]
            await super().__call__(received, line)

    brain = Asking(window=100_000)
    async with agent_on("chat", brain, said) as agent:
        answered = await agent.ask(stream=True)

    assert answered.text == "Read."
    assert "row 2000 of the table is 62000" in answers_of(brain)


async def test_a_client_that_leaves_within_the_second_round_ends_it() -> None:
    """FAULTS A19: the upstream is let go, whichever round it is in."""
    is_in_second = asyncio.Event()

    class Dripping(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            if len(self.bodies) == 1 and received.method == "POST":
                self.bodies.append({})
                await begin_stream(line)
                piece = {"choices": [{"index": 0, "delta": {"content": "word "}}]}
                is_in_second.set()
                for _ in range(2_000):
                    await line.chunk(event(piece))
                    await asyncio.sleep(0.005)
                return
            await super().__call__(received, line)

    brain = Dripping([[Says("I look. "), recall(NEEDLE_NUMBER)]])
    async with agent_on("chat", brain) as agent:
        asking = asyncio.create_task(agent.ask(stream=True))
        await asyncio.wait_for(is_in_second.wait(), 20)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        for _ in range(500):
            if not agent.model.open_connections:
                break
            await asyncio.sleep(0.02)

        assert not agent.model.open_connections
        assert len(brain.bodies) == 2


@wires
async def test_results_that_fit_no_window_at_all_are_the_upstreams_refusal(wire: str) -> None:
    """FAULTS B18: the client gets the upstream's own words, in a stream as its last event."""

    class Small(ScriptedModel):
        async def __call__(self, received: Any, line: Any) -> None:
            self.window = 6_000 if not self.bodies else 10
            await super().__call__(received, line)

    brain = Small([[Says("I look. "), recall(NEEDLE_NUMBER)]])
    async with agent_on(wire, brain) as agent:
        with pytest.raises((OpenAiError, AnthropicError, RuntimeError)):
            await agent.ask(stream=True)

    assert len(brain.bodies) == 3


async def test_expired_originals_are_told_apart(tmp_path: Path) -> None:
    """FAULTS D12: the model is told what happened to a message that is nowhere any more."""
    brain = ScriptedModel()
    store = {"url": f"sqlite:///{tmp_path}/store.db"}
    async with agent_on("chat", brain, store=store) as agent:
        for turn in range(3):
            await agent.ask(stream=False)
            agent.add_user(f"Go on with part {turn}.")
        with sqlite3.connect(tmp_path / "store.db") as file:
            tables = file.execute("select name from sqlite_master where type='table'").fetchall()
            for (table,) in tables:
                columns = [row[1] for row in file.execute(f"pragma table_info({table})")]
                if "kind" in columns:
                    file.execute(f"delete from {table} where kind = 'offload'")
        agent.history = [agent.history[0], *agent.history[11:]]
        brain.bodies.clear()
        brain.script = [[recall(NEEDLE_NUMBER)], [Says("Well.")]]
        await agent.ask(stream=False)

    assert len(brain.bodies) == 2
    assert "has expired" in brain.bodies[1]["messages"][-1]["content"]


async def test_ten_thousand_made_up_ids_leak_nothing_over_the_wire() -> None:
    """FAULTS F20: another conversation's ids, another tenant's, and what is no id at all."""
    secret = steps()
    secret[8]["content"] = "the secret of the other conversation"
    source = random.Random(5)
    brain = ScriptedModel([[Says("Seen.")]])
    async with agent_on("chat", brain, secret) as agent, http_client(agent.proxy) as client:
        await agent.ask(stream=False)
        foreign = "0123456789abcdef" * 2
        answered = 0
        for batch in range(20):
            wild = [
                source.choice(
                    [
                        f"r{source.randrange(100, 10**6)}",
                        f"{source.getrandbits(128):032x}",
                        foreign,
                        "../" * source.randrange(1, 5) + "r9",
                        "".join(source.choices("r#abcdef/.-_ %\\\0[]:é", k=source.randint(1, 40))),
                    ]
                )
                for _ in range(500)
            ]
            calls = [Calls(RECALL, {"id": name}, f"c{at}") for at, name in enumerate(wild)]
            calls.append(Calls(RECALL, {"search": "secret of the other"}, "s"))
            brain.bodies.clear()
            brain.script = [calls, [Says("No.")]]
            brain.window, brain.refuses = 6_000, ""
            body = {
                "model": "fake",
                "messages": [{"role": "system", "content": "Be brief."}, *steps(14)],
                "tools": [{"type": "function", "function": TOOL}],
            }
            headers = {"authorization": f"Bearer {'key' if batch % 2 else 'other'}"}
            await client.post("/v1/chat/completions", json=body, headers=headers)
            results = [it["content"] for it in brain.bodies[1]["messages"] if it["role"] == "tool"]
            answered += sum(text.startswith(("unknown", "Give an")) for text in results)
            assert "the secret" not in json.dumps(results)

    assert answered == 10_000
