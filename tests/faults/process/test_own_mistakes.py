"""Row E10: a mistake of our own in logs, metrics or the relay."""

import asyncio
import json
import re
from typing import NoReturn

import pytest

from tests.support.command import ask, running_command
from tests.support.fake_model import COMPLETION, fake_model, polite
from tests.support.live import chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio


def fail(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("secret inside")


@pytest.mark.parametrize(
    "place",
    [
        "chat_proxy.telemetry.metrics.Metrics.observe",
        "chat_proxy.telemetry.metrics.Metrics.flush",
        "chat_proxy.telemetry.logs._WRITER._line",
        "chat_proxy.proxy.reporting.chat_log.ChatLog.add",
        "chat_proxy.proxy.chat.measure",
    ],
)
async def test_e10_what_fails_beside_a_request_does_not_fail_it(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        with monkeypatch.context() as broken:
            broken.setattr(place, fail)
            await client.send(chat_request())
            first = await client.answer()
            await client.send(chat_request())
            second = await client.answer()

    assert first.status == second.status == 200
    assert json.loads(second.body) == COMPLETION


async def test_e10_a_mistake_before_the_first_byte_is_a_json_500(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat_proxy.proxy.outgoing.call_of", fail)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        answer = await client.answer()

    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert not re.search(rb"secret|Traceback|\.py", answer.body)


async def test_e10_a_mistake_behind_the_first_byte_ends_the_stream_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat_proxy.wires.chat_completions.StreamTap.feed", fail)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(stream=True)))
        answer = await client.answer()

    assert answer.status == 200
    assert b'"code":"internal_error"' in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert not re.search(rb"secret|Traceback|\.py", answer.body)


async def test_e10_a_broken_stderr_does_not_stop_the_service() -> None:
    """Whoever read the log has gone."""
    async with (
        fake_model(polite) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url) as command,
    ):
        url = await command.url()
        command.process._transport.get_pipe_transport(2).close()  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        answers = [
            await ask(f"{url}/v1/chat/completions", "POST", content=chat_body()) for _ in range(3)
        ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
