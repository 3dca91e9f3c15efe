"""Where the time goes: the proxy itself, a summary, the upstream, each told apart."""

import asyncio
import re

import pytest

from tests.journeys.summaries.troubles import history, outcome, troubled
from tests.support.conversations import listening
from tests.support.fake_model import Line, Received, answer_json, begin_stream, polite, story
from tests.support.live import RawAnswer, eventually
from tests.support.meeting import Meeting, meeting
from tests.support.summary_model import Question, good

pytestmark = pytest.mark.anyio

PAUSE = 0.3


def timing(answer: RawAnswer) -> dict[str, float]:
    """Return the milliseconds in the header by name."""
    found = re.findall(r"(\w+);dur=([\d.]+)", answer.headers["server-timing"])
    return {name: float(value) for name, value in found}


async def slow(received: Received, line: Line) -> None:
    await asyncio.sleep(PAUSE)
    await polite(received, line)


async def test_the_upstreams_time_is_counted_from_its_call() -> None:
    with listening() as heard:
        async with meeting(slow) as met:
            answer = await met.ask()
            await eventually(lambda: heard.lines("request"))
            (line,) = heard.lines("request")
            (row,) = met.proxy.services.chat_log.history.rows()

    found = timing(answer)
    assert set(found) == {"proxy", "upstream"}
    assert found["upstream"] >= 1000 * PAUSE
    assert found["upstream"] == pytest.approx(line["upstream_ms"], abs=0.11)
    assert found["proxy"] == pytest.approx(line["proxy_ms"], abs=0.11)
    assert line["proxy_ms"] + line["upstream_ms"] <= line["ms"] + 0.2
    assert (row["proxy_ms"], row["upstream_ms"]) == (line["proxy_ms"], line["upstream_ms"])
    assert seconds(met, "upstream_first_byte_seconds", 'route="/v1/chat/completions"') >= PAUSE
    assert 0 < seconds(met, "proxy_seconds", 'route="/v1/chat/completions"') < line["ms"] / 1000


async def test_a_wait_for_a_summary_is_neither_the_proxys_nor_the_upstreams_time() -> None:
    async def slowly(question: Question, line: Line) -> None:
        await asyncio.sleep(PAUSE)
        await good(question, line)

    async with troubled(slowly) as trouble:
        answer = await trouble.ask(history())
        await eventually(lambda: trouble.heard.lines("request"))
        (line,) = trouble.heard.lines("request")
        (row,) = trouble.met.proxy.services.chat_log.history.rows()

    assert outcome(answer) == "built"
    found = timing(answer)
    assert found["summary"] >= 1000 * PAUSE
    assert found["upstream"] < 1000 * PAUSE
    assert (
        line["summary_wait_ms"]
        == row["summary_wait_ms"]
        == pytest.approx(found["summary"], abs=0.11)
    )
    assert line["proxy_ms"] + line["summary_wait_ms"] + line["upstream_ms"] <= line["ms"] + 0.2
    assert seconds(trouble.met, "summaries_wait_seconds") >= PAUSE


async def test_all_tries_of_a_request_that_was_too_long_are_the_upstreams_time() -> None:
    tries = 0

    async def refuse_once(received: Received, line: Line) -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(PAUSE)
        if tries > 1:
            await polite(received, line)
            return
        words = "This model's maximum context length is 1000 tokens, you sent 1100 tokens."
        refusal = {"message": words, "code": "context_length_exceeded"}
        await answer_json(line, {"error": refusal}, 400)

    told = [
        {"role": role, "content": f"{number} " + "word " * 60}
        for number in range(8)
        for role in ("user", "assistant")
    ]
    async with meeting(refuse_once, summary={"enabled": False}) as met:
        answer = await met.ask(messages=[*told, {"role": "user", "content": "Go on."}])

    assert (tries, answer.status) == (2, 200)
    assert timing(answer)["upstream"] >= 2_000 * PAUSE
    assert timing(answer)["proxy"] < 1_000 * PAUSE


async def test_a_stream_is_not_to_be_buffered_by_a_proxy_in_front() -> None:
    async with meeting(polite) as met:
        stream, whole = await met.stream(), await met.ask()

    assert stream.headers["x-accel-buffering"] == "no"
    assert "x-accel-buffering" not in whole.headers


async def test_the_upstreams_own_word_about_buffering_stays() -> None:
    async def decided(_: Received, line: Line) -> None:
        await begin_stream(line, "x-accel-buffering: yes")
        for piece in [*story(), b""]:
            await line.chunk(piece)

    async with meeting(decided) as met:
        stream = await met.stream()

    assert stream.headers["x-accel-buffering"] == "yes"


def seconds(met: Meeting, name: str, labels: str = "") -> float:
    """Return the sum of a histogram."""
    return met.figure(f"chat_proxy_{name}_sum" + (f"{{{labels}}}" if labels else ""))
