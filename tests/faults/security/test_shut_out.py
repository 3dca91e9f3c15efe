"""F24: what one tenant makes the upstream say does not shut out another."""

import asyncio

import pytest

from tests.faults.faulty import whole
from tests.journeys.summaries.troubles import history, outcome, troubled
from tests.support.fake_model import Line, Received, on_chat, polite
from tests.support.live import chat_body, chat_request, raw_client
from tests.support.meeting import Meeting, meeting
from tests.support.summary_model import Question, Telling, good
from tests.support.summary_model import failing as summaries_failing

pytestmark = pytest.mark.anyio

MALLORY, ALICE = "authorization: Bearer mallory", "authorization: Bearer alice"
TRIES = 20


def only_for(key: str, said: bytes) -> object:
    """Return a behaviour: these bytes for one key, empty for silence; others are served."""

    async def behave(received: Received, line: Line) -> None:
        if received.header("authorization") != f"Bearer {key}":
            await polite(received, line)
        elif said:
            await line.send(said)
        else:
            await line.until_closed()

    return behave


@pytest.mark.parametrize("status", ["502 X", "503 X", "504 X", "garbage", "silence"])
async def test_f24_what_the_upstream_says_to_one_tenant_closes_nothing_for_another(
    status: str,
) -> None:
    """F24: a quota that is used up, a prompt that takes too long; the others are answered."""
    said = {"garbage": b"no HTTP\r\n\r\n", "silence": b""}.get(status)
    behaviour = only_for("mallory", whole(status, b"no") if said is None else said)
    limits = {"breaker_failures": 3, "first_byte_timeout_seconds": 0.1}
    async with meeting(polite, upstream=limits) as they:
        they.model.behaviour = on_chat(behaviour)  # type: ignore[arg-type]
        await asyncio.gather(*(asked(they, MALLORY) for _ in range(TRIES)))
        statuses = [await asked(they, ALICE) for _ in range(TRIES)]

    assert statuses == [200] * TRIES


@pytest.mark.parametrize("status", [429, 503])
async def test_f24_one_tenant_s_refused_summaries_stop_no_other_s(status: int) -> None:
    """F24: a pause that was asked of one key is kept by that key alone."""
    async with troubled(refusing("mallory", status)) as trouble:
        for number in range(6):
            await trouble.ask(history(name=f"m{number}"), MALLORY)
        answered = await trouble.ask(history(name="a"), ALICE)

    assert outcome(answered) == "built"


def refusing(key: str, status: int) -> Telling:
    """Refuse summaries to one key, with a pause, and write them for others."""
    refuse = summaries_failing(status, "retry-after: 45")

    async def telling(question: Question, line: Line) -> None:
        is_key = question.received.header("authorization") == f"Bearer {key}"
        await (refuse if is_key else good)(question, line)

    return telling


async def asked(they: Meeting, who: str) -> int:
    """Return the status of a chat on a connection of its own."""
    async with raw_client(they.proxy) as client:
        await client.send(chat_request(chat_body(), who))
        return (await client.answer()).status
