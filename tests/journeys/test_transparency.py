"""Nothing to do, nothing changed: bytes pass in both directions."""

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from tests.support.fake_model import DONE, Line, Received, begin_stream, fake_model, on_chat, polite
from tests.support.live import chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer_pass_byte_for_byte() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        body = b'{"model" : "fake",\n "messages":[{"role":"user","content":"\\ud83d"}], "n":1}'
        await client.send(chat_request(body))
        answer = await client.answer()

    assert answer.status == 200
    assert [r.body for r in model.requests if r.method == "POST"] == [body]


async def test_a_stream_passes_byte_for_byte() -> None:
    pieces = [
        b": hello\r\n\r\n",
        b'data:{"x":1}\n\n',
        'data: {"choices":[{"delta":{"content":"ä"},"finish_reason":"stop"}]}\n\n'.encode(),
        DONE,
    ]

    async def stream(received: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in pieces:
            await line.chunk(piece[:3])
            await line.chunk(piece[3:])
        await line.chunk(b"")

    async with (
        fake_model(on_chat(stream)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(stream=True)))
        answer = await client.answer()

    assert answer.body == b"".join(pieces)


async def test_the_openai_sdk_works_streaming_and_not() -> None:
    hello: ChatCompletionUserMessageParam = {"role": "user", "content": "Hi"}
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="sk-test") as client,
    ):
        chat = client.chat.completions
        whole = await chat.create(model="fake", messages=[hello])
        stream = await chat.create(model="fake", messages=[hello], stream=True)
        words = [chunk.choices[0].delta.content async for chunk in stream]

    assert whole.choices[0].message.content == "Hello from the fake model."
    assert words[:2] == ["word0 ", "word1 "]
