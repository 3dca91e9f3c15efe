"""The places that notes on old results name exist, whatever form the client sends them in later."""

import json
import re

import pytest

from tests.journeys.recognition.clients import TOOLS, Client
from tests.journeys.summaries.talking import SYSTEM, WINDOW, Talk, talking
from tests.journeys.trimming.growing import step
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

REQUESTS = 45
LIMIT = 1_000
_PLACE = re.compile(r"offload id:? ([0-9a-f]{32})")


def run() -> list[list[Fields]]:
    """Return the history of a run that prints tables, as it is with each request."""
    messages: list[Fields] = [SYSTEM, user("Find out why tests/test_login.py fails.")]
    histories = []
    for number in range(REQUESTS):
        rows = "\n".join(f"row {number}.{row} has the value {number * row}" for row in range(60))
        messages = [*messages, *step(str(number), rows)]
        histories.append(messages)
    return histories


def _results_in(messages: list[Fields]) -> list[int]:
    return [at for at, message in enumerate(messages) if message["role"] == "tool"]


def cuts_old_results(messages: list[Fields], _: int) -> list[Fields]:
    """Cut every second result behind the last eight."""
    old = _results_in(messages)[:-8][1::2]
    return [
        {**message, "content": f"{message['content'][:LIMIT]}\n[... truncated]"}
        if at in old
        else message
        for at, message in enumerate(messages)
    ]


def reminds_for_a_while(messages: list[Fields], number: int) -> list[Fields]:
    """Append a reminder to the newest three results, another one with each request."""
    reminder = f"\n<system-reminder>It is request {number}.</system-reminder>"
    newest = _results_in(messages)[-3:]
    return [
        {**message, "content": message["content"] + reminder} if at in newest else message
        for at, message in enumerate(messages)
    ]


async def statuses_of_places(talk: Talk, messages: list[Fields]) -> list[int]:
    """Send a history, and ask for each place that its prompt names."""
    asked = await talk.ask(messages)
    statuses = []
    for place in _PLACE.findall(json.dumps(asked.messages)):
        await talk.line.send(f"GET /v1/offload/{place} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        statuses.append((await talk.line.answer()).status)
    return statuses


@pytest.mark.parametrize("client", [cuts_old_results, reminds_for_a_while])
async def test_each_place_that_a_prompt_names_exists(client: Client) -> None:
    async with talking(SummaryModel(window=WINDOW), summary={"enabled": False}) as talk:
        talk.fields["tools"] = TOOLS
        found = [
            await statuses_of_places(talk, client(messages, at))
            for at, messages in enumerate(run())
        ]

    assert sum(map(len, found)) > REQUESTS
    assert {status for statuses in found for status in statuses} == {200}
