"""Rows B16 to B19: refusals, and successes that are none."""

from itertools import pairwise

import pytest

from tests.faults.faulty import Says, Streams, is_error, whole
from tests.journeys.replay.small_server import always, at_least, is_answer, over, visiting
from tests.journeys.summaries.talking import long_chat
from tests.journeys.summaries.troubles import history, troubled
from tests.support.conversations import listening
from tests.support.meeting import Stage
from tests.support.summary_model import failing
from tests.support.wires.apis import ALL, Api

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("retry_after", ["7", "Wed, 21 Oct 2026 07:28:00 GMT", None, "1000000000"])
async def test_b16_a_429_passes_with_its_retry_after(stage: Stage, retry_after: str | None) -> None:
    body = b'{"error" : {"message": "slow down"}}'
    headers = [f"retry-after: {retry_after}"] if retry_after else []
    async with stage(Says(whole("429 Too Many", body, *headers))) as they:
        answer = await they.ask()

        assert (answer.status, answer.body) == (429, body)
        assert answer.headers.get("retry-after") == retry_after
        assert they.chats == 1
        assert they.figure("chat_proxy_upstream_429_total") == 1


@ALL
@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 501, 502, 503, 504, 529])
@pytest.mark.parametrize("streams", [True, False])
async def test_b17_other_refusals_pass_byte_for_byte(
    stage: Stage, status: int, streams: bool, api: Api
) -> None:
    body = b"<html>\n\xff broken \x00</html>"
    async with stage(Says(whole(f"{status} X", body, "content-type: text/html")), api) as they:
        answer = await they.ask(stream=streams)

    assert (answer.status, answer.body) == (status, body)
    assert answer.headers["content-type"] == "text/html"
    assert "x-chat-proxy-error" not in answer.headers


@ALL
@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b'{"a":1', b"<html></html>", b"null", b"[]", b'{"a":\xff}', b"{]}"]
)
async def test_b19_a_success_that_is_no_completion_is_none(
    stage: Stage, body: bytes, api: Api
) -> None:
    async with stage(Says(whole("200 OK", body, "content-type: application/json")), api) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response", api)


@ALL
async def test_b19_an_empty_stream_is_no_success(stage: Stage, api: Api) -> None:
    async with stage(Streams(), api) as they:
        answer = await they.stream()

    assert is_error(answer, 502, "upstream_invalid_response", api)


async def test_b16_side_queries_wait_as_long_as_they_are_told_and_no_longer_than_a_minute() -> None:
    for wish, pause in (("45", 45), ("1000000000", 60)):
        async with troubled(failing(429, f"retry-after: {wish}")) as trouble:
            await trouble.ask(history(name="a"))
            trouble.now += pause - 1
            await trouble.ask(history(name="b"))
            too_early = len(trouble.questions)
            trouble.now += 1
            await trouble.ask(history(name="c"))

            assert (too_early, len(trouble.questions)) == (1, 2)


async def test_b18_a_compacted_request_that_is_too_long_all_the_same_is_sent_again() -> None:
    async with visiting(over(2_500), window=8_000) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert 2 <= len(guest.calls) <= 3
    assert all(new < old for old, new in pairwise(guest.prompts))
    assert guest.replays("sent") == len(guest.calls) - 1


async def test_b18_when_nothing_smaller_is_left_the_client_gets_the_upstreams_own_error() -> None:
    refusal = at_least(2_500)
    async with visiting(always(refusal), window=8_000) as guest:
        answer = await guest.tell(long_chat())

    assert (answer.status, answer.body) == (400, refusal)
    assert "x-chat-proxy-error" not in answer.headers
    assert len(guest.calls) <= 3
    assert guest.replays("exhausted") == 1


async def test_b19_nothing_of_an_invalid_answer_is_logged(stage: Stage) -> None:
    page = b"<html>private-words</html>"
    with listening() as heard:
        async with stage(Says(whole("200 OK", page, "content-type: text/html"))) as they:
            answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")
    assert heard.lines("request")
    assert "private-words" not in heard.text + answer.body.decode()
