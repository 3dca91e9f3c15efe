"""Compaction items of Responses that come back: the proxy's own are opened, all others refused."""

import json
from typing import Any

import openai
import pytest

from chat_proxy.compaction.contracts.sealed import PREFIX
from tests.support.wires.responses_engines import TRIGGER, dumped, management, open_desk, talk

pytestmark = pytest.mark.anyio
KINDS = pytest.mark.parametrize("kind", ["vllm", "llama.cpp", "strict"])
NEXT: Any = {"role": "user", "content": "And then?"}


def sealed_in(output: list[Any]) -> str:
    text = output[0].encrypted_content
    assert output[0].type == "compaction"
    assert text.startswith(PREFIX)
    return str(text)


@KINDS
@pytest.mark.parametrize("drops", [False, True])
async def test_an_item_that_comes_back_stands_for_all_before_it(kind: str, drops: bool) -> None:
    async with open_desk(kind) as desk:
        sdk, first = desk.sdk(), talk()
        answer = await sdk.responses.create(
            model="fake", input=first, context_management=management()
        )
        sent = desk.engine.last["input"]
        older = [] if drops else first

        again = await sdk.responses.create(
            model="fake",
            input=[*older, *dumped(answer.output), NEXT],
            context_management=management(),
        )

        assert desk.engine.last["input"][: len(sent)] == sent
        assert desk.engine.last["input"][-1] == NEXT
        assert [item.type for item in again.output] == ["message"]
        assert len(desk.engine.summaries) == 1


async def test_a_client_that_ignores_the_item_buys_no_second_summary() -> None:
    async with open_desk() as desk:
        for _ in range(3):
            answer = await desk.sdk().responses.create(
                model="fake", input=talk(), context_management=management()
            )
            assert answer.output[0].type == "compaction"

        assert len(desk.engine.summaries) == 1


async def test_a_conversation_goes_on_for_many_compactions() -> None:
    async with open_desk(budget={"prepare": 1}) as desk:
        sdk = desk.sdk()
        items: list[Any] = []
        sizes, compactions = [], 0
        for turn in range(40):
            items += [{"role": "user", "content": f"Question {turn}: " + "and what? " * 60}]
            answer = await sdk.responses.create(
                model="fake", input=items, context_management=management(1_500)
            )
            if answer.output[0].type == "compaction":
                compactions += 1
                items = []
            items += dumped(answer.output)
            sizes.append(answer.usage.input_tokens if answer.usage else 0)

        assert max(sizes) < 2_500
        assert 3 <= compactions <= 20
        assert len(desk.engine.summaries) <= compactions


async def test_what_the_proxy_did_not_seal_is_refused() -> None:
    async with open_desk() as desk:
        sdk = desk.sdk()
        answer = await sdk.responses.create(model="fake", input=[*talk(), TRIGGER])
        text = sealed_in(answer.output)
        asked = len(desk.engine.bodies)
        for forged in (text[:-1], text[:-9] + "AAAAAAAAA", "gAAAAABforeign", "", f"{text}x"):
            item: Any = {"type": "compaction", "id": "cmp_1", "encrypted_content": forged}
            with pytest.raises(openai.BadRequestError) as refused:
                await sdk.responses.create(model="fake", input=[item, NEXT])
            error: Any = refused.value.body
            assert error["type"] == "invalid_request_error"
            assert error["code"] == "invalid_encrypted_content"
            assert "compaction item cannot be used" in error["message"]

        assert len(desk.engine.bodies) == asked


async def test_another_tenant_s_or_model_s_item_is_refused() -> None:
    async with open_desk() as desk:
        answer = await desk.sdk().responses.create(model="fake", input=[*talk(), TRIGGER])
        items = [*dumped(answer.output), NEXT]

        with pytest.raises(openai.BadRequestError):
            await desk.sdk("sk-two").responses.create(model="fake", input=items)
        with pytest.raises(openai.BadRequestError):
            await desk.sdk().responses.create(model="other", input=items)
        assert desk.engine.bodies == []
        await desk.sdk().responses.create(model="fake", input=items)


async def test_a_replica_with_only_the_secret_opens_the_item() -> None:
    store = {"url": "memory:", "secret": "one secret of the deployment"}
    async with open_desk(store=store) as desk:
        answer = await desk.sdk().responses.create(model="fake", input=[*talk(), TRIGGER])
        items = [*dumped(answer.output), NEXT]
        async with open_desk(engine=desk.engine, store=store) as second:
            await second.sdk().responses.create(model="fake", input=items)
            assert b"Question 0" in desk.engine.bodies[-1]
        other = {"url": "memory:", "secret": "another secret"}
        async with open_desk(engine=desk.engine, store=other) as third:
            with pytest.raises(openai.BadRequestError):
                await third.sdk().responses.create(model="fake", input=items)


async def test_an_item_that_opens_to_more_than_a_body_may_have_is_refused() -> None:
    store = {"url": "memory:", "secret": "one"}
    async with open_desk(store=store) as desk:
        answer = await desk.sdk().responses.create(model="fake", input=[*talk(40), TRIGGER])
        items = [*dumped(answer.output), NEXT]
        await desk.sdk().responses.create(model="fake", input=items)
        limits = {"max_body_bytes": len(desk.engine.bodies[-1]) - 1}
        assert len(json.dumps(items)) < limits["max_body_bytes"] - 100
        async with open_desk(engine=desk.engine, store=store, limits=limits) as narrow:
            with pytest.raises(openai.APIStatusError) as refused:
                await narrow.sdk().responses.create(model="fake", input=items)

        assert refused.value.status_code == 413
