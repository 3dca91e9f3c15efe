"""Sessions of real clients, in their own forms but with other words: nothing is torn, few breaks.

A text of a session that ends with an ellipsis was a long one, and is made long again here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.trimming.growing import (
    Client,
    answer,
    answer_with_usage,
    client_of,
    fake,
    has_whole_pairs,
    is_line,
    listening,
    output,
    requests_of,
)
from tests.unit.chat.shapes import Fields

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SESSIONS = Path(__file__).parent / "sessions"
AGENTS = ["qwen-long", "pi-long", "mini-swe"]
WINDOW = 32_000
TRIGGER = 19_200
"""The trigger of the sessions that ask for a quarter of the window or more as output."""
OUTPUT_LIMITS = {"max_tokens", "max_completion_tokens"}
RESULT_TOKENS = 2_000
OTHER_TOKENS = 700


def lengthened(value: Any, tokens: int) -> Any:
    """Return a message or part of one with its long texts."""
    if isinstance(value, str):
        return value + output(tokens, value) if value.endswith("…") else value
    if isinstance(value, dict):
        return {name: lengthened(item, tokens) for name, item in value.items()}
    if isinstance(value, list):
        return [lengthened(item, tokens) for item in value]
    return value


def session(name: str) -> Fields:
    """Return the body of a session's last request."""
    body: Fields = json.loads((SESSIONS / f"{name}.json").read_text(encoding="utf-8"))
    sizes = ((m, RESULT_TOKENS if m["role"] == "tool" else OTHER_TOKENS) for m in body["messages"])
    return {**body, "messages": [lengthened(message, size) for message, size in sizes]}


async def replay(client: Client, body: Fields) -> list[str]:
    """Send the session as it grew; return the ids of the requests compacted anew."""
    client.fields = body
    with listening() as log:
        for history in requests_of(body["messages"]):
            await client.ask(history)
        return await log.compactions(len(client.asked))


def texts_of(content: Any) -> Iterator[str]:
    for part in [content] if isinstance(content, str) else content or ():
        yield part if isinstance(part, str) else part.get("text", "")


@pytest.mark.parametrize("behaviour", [answer, answer_with_usage])
@pytest.mark.parametrize("name", AGENTS)
async def test_each_prompt_of_an_agent_begins_with_the_one_before_but_for_compactions(
    name: str, behaviour: Any
) -> None:
    """BUGS 21, 22, 44."""
    async with (
        fake(behaviour) as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        compactions = await replay(client, session(name))

    added = max(asked.tokens[0] for asked in client.asked)
    assert added > TRIGGER
    assert client.broken() == compactions
    assert 1 <= len(compactions) <= added / (TRIGGER / 3)


@pytest.mark.parametrize("name", AGENTS)
async def test_nothing_of_an_agents_session_is_torn_or_lost(name: str) -> None:
    """BUGS 1, 2, 19, 24, 42: only old results and images change, and the output is clipped."""
    body = session(name)
    sent = body["messages"]

    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        await replay(client, body)

    for asked in client.asked:
        assert has_whole_pairs(asked.messages)
        for given, got in zip(sent, asked.messages, strict=False):
            assert list(got) == list(given)
            assert {**got, "content": None} == {**given, "content": None}
            assert (
                got["role"] == "tool"
                or [*texts_of(got["content"])][:1] == [*texts_of(given["content"])][:1]
            )
    last = client.asked[-1].messages
    assert len(last) == len(sent)
    assert any(is_line(words) for message in last for words in texts_of(message["content"]))
    assert last[-1] == sent[-1]
    got = json.loads(client.asked[-1].upstream)
    assert {n: got[n] for n in got.keys() - OUTPUT_LIMITS - {"messages"}} == {
        n: body[n] for n in body.keys() - OUTPUT_LIMITS - {"messages"}
    }
    assert all(0 < got[n] <= body[n] for n in body.keys() & OUTPUT_LIMITS)


async def test_a_session_without_tools_passes_byte_for_byte_while_it_fits() -> None:
    """Nothing in it can age, so it must not be touched, over the trigger or not."""
    body = session("aider-multi")

    async with fake() as model, client_of(model, 12_000) as client:
        compactions = await replay(client, body)

    assert client.asked[-1].tokens[0] > 8_400
    assert compactions == []
    assert all(asked.upstream == asked.body for asked in client.asked)


async def test_a_session_without_tools_that_does_not_fit_is_folded_into_notes() -> None:
    """Switched off, summaries are not asked for; but a prompt over the window would be refused."""
    body = session("aider-multi")

    async with fake() as model, client_of(model, 6_000) as client:
        compactions = await replay(client, body)

    fitting = [asked for asked in client.asked if asked.tokens[0] <= 5_744]
    folded = client.asked[len(fitting) :]
    assert compactions == [folded[0].headers["x-request-id"]]
    assert all(asked.upstream == asked.body for asked in fitting)
    assert all(asked.stages == ["summary"] and asked.tokens[1] <= 5_744 for asked in folded)
    assert all(asked.messages[-1] == json.loads(asked.body)["messages"][-1] for asked in folded)
    assert sum(request.method == "POST" for request in model.requests) == len(client.asked)


@pytest.mark.parametrize("name", [*AGENTS, "aider-multi"])
def test_the_sessions_themselves_are_whole(name: str) -> None:
    assert has_whole_pairs(session(name)["messages"])
