"""What the operator's page says of chats, and what it never says."""

import json

import pytest

from tests.journeys.dashboard.talks import SECRET_WORDS, chat, dashboard, figures, with_pictures
from tests.support.fake_model import Line, Received, answer_json, fake_model, on_chat, polite
from tests.support.live import http_client, running_proxy
from tests.unit.chat.shapes import image, says, text, user

pytestmark = pytest.mark.anyio


async def test_a_chat_is_shown_with_what_was_done_to_it() -> None:
    async with dashboard() as (_, client):
        answer = await chat(client, *with_pictures())
        told = await figures(client)

    (row,) = told["rows"]
    assert row["request_id"] == answer.headers["x-request-id"]
    assert row["tokens"][0] == int(answer.headers["x-chat-proxy-tokens-before"])
    assert row["tokens"][1] == int(answer.headers["x-chat-proxy-tokens-after"])
    assert (row["compaction"], row["stages"]) == ("trimmed", ["limit_vision_history"])
    assert (row["messages"], row["window"], row["status"]) == ([6, 2], 8_000, 200)
    assert 0 < row["proxy_ms"] < row["ms"]
    assert 0 < row["upstream_ms"] < row["ms"]
    assert row["summary_wait_ms"] == 0
    assert told["totals"]["saved"] == row["tokens"][0] - row["tokens"][1] > 0
    assert [model["model"] for model in told["models"]] == ["demo"]
    state = told["state"]
    assert (state["store_degraded"], state["open_breakers"], state["workers"]) == (False, 0, 1)
    assert state["models_without_summaries"] == 0


async def test_requests_of_one_conversation_belong_together() -> None:
    async with dashboard() as (_, client):
        for messages in ([user("a")], [user("a"), user("b")], [user("b")]):
            await chat(client, *messages)
        one, same, other = (row["conversation"] for row in (await figures(client))["rows"])

    assert one == same != other


async def test_the_details_tell_what_became_of_each_message_and_no_word_of_it() -> None:
    async with dashboard() as (_, client):
        await chat(client, *with_pictures())
        row = (await figures(client))["rows"][0]
        answer = await client.get(f"/dashboard/detail/{row['id']}")

    told = answer.json()
    assert [(it["role"], it["change"]) for it in told["before"]] == [
        ("system", "kept"),
        ("user", "dropped"),
        ("assistant", "dropped"),
        ("tool", "dropped"),
        ("assistant", "dropped"),
        ("user", "kept"),
    ]
    assert [it["index"] for it in told["after"]] == [0, 5]
    assert told["before"][1]["media"] == {"image/png": 1}
    assert told["before"][1]["stages"] == ["limit_vision_history"]
    assert told["before"][2]["tools"] == ["get_weather"]
    assert told["stages"] == [{"stage": "limit_vision_history", "messages": [6, 2]}]
    assert (told["messages"], told["shows_text"]) == ([6, 2], False)
    assert not any(word in answer.text for word in ("classified", "Be nice", "this?", "Paris"))


async def test_the_text_is_shown_where_the_operator_asked_for_it() -> None:
    async with dashboard(dashboard={"show_text": True}) as (_, client):
        await chat(client, *with_pictures())
        row = (await figures(client))["rows"][0]
        told = (await client.get(f"/dashboard/detail/{row['id']}")).json()

    assert told["shows_text"]
    assert told["before"][1]["text"] == SECRET_WORDS
    assert "text" not in told["after"][1]
    assert SECRET_WORDS not in json.dumps(row)


async def test_what_a_stage_changed_is_shown_on_both_sides() -> None:
    async with dashboard(
        dashboard={"show_text": True},
        tools={"max_bytes": 1_000},
        vision={"truncate_history": False},
    ) as (_, client):
        await chat(client, *with_pictures("word " * 600))
        row = (await figures(client))["rows"][0]
        told = (await client.get(f"/dashboard/detail/{row['id']}")).json()

    assert [it["change"] for it in told["before"]][3] == "changed"
    assert [it["change"] for it in told["after"]][3] == "changed"
    assert told["after"][3]["tokens"] < told["before"][3]["tokens"]
    assert told["after"][3]["text"] != told["before"][3]["text"]
    assert told["before"][3]["is_cut"]


async def test_a_long_chat_is_told_by_its_first_and_last_messages() -> None:
    async with dashboard(dashboard={"show_text": True}, budget={"context_window": 10**6}) as (
        _,
        client,
    ):
        await chat(client, *[user("word " * 50 + str(number)) for number in range(400)])
        row = (await figures(client))["rows"][0]
        answer = await client.get(f"/dashboard/detail/{row['id']}")

    told = answer.json()
    assert [it["index"] for it in told["before"]] == [*range(20), *range(270, 400)]
    assert told["messages"] == [400, 400]
    assert len(answer.content) < 64 * 1024


async def test_texts_that_do_not_fit_are_left_out() -> None:
    async with dashboard(dashboard={"show_text": True}, budget={"context_window": 10**6}) as (
        _,
        client,
    ):
        await chat(client, *[user("\x01" * 1_000) for _ in range(100)])
        row = (await figures(client))["rows"][0]
        told = (await client.get(f"/dashboard/detail/{row['id']}")).json()

    assert not told["shows_text"]


async def test_a_chat_that_was_sent_again_is_told_as_it_was_sent_last() -> None:
    async def too_long_once(received: Received, line: Line) -> None:
        if b"AAAA" in received.body or received.body.count(b"image_url") > 2:
            message = "This model's maximum context length is 1000 tokens. However, you requested"
            error = {"message": f"{message} 3000 tokens in the messages.", "code": 400}
            await answer_json(line, {"error": error}, 400)
        else:
            await polite(received, line)

    pictures = [image("data:image/png;base64,AAAA"), image(), image()]
    async with (
        fake_model(on_chat(too_long_once)) as model,
        running_proxy(model.url, budget={"context_window": 8_000}) as proxy,
        http_client(proxy) as client,
    ):
        await chat(client, user([text("look"), *pictures]))
        row = (await figures(client))["rows"][0]
        told = (await client.get(f"/dashboard/detail/{row['id']}")).json()

    assert (row["status"], row["replays"]) == (200, 1)
    assert told["after"][0]["change"] == "changed"
    assert told["before"][0]["stages"] == ["age_media"]


async def test_a_chat_that_cannot_be_told_is_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError

    monkeypatch.setattr("chat_proxy.proxy.reporting.chat_log.detail_of", broken)
    async with dashboard() as (_, client):
        answer = await chat(client, *with_pictures())
        row = (await figures(client))["rows"][0]

    assert answer.headers["x-chat-proxy-compaction"] == "trimmed"
    assert not row["has_detail"]


async def test_observe_mode_is_told_as_what_it_is() -> None:
    """BUGS 39."""
    async with dashboard(mode="observe") as (_, client):
        await chat(client, *with_pictures())
        told = await figures(client)

    assert told["totals"]["saved"] == 0 < told["totals"]["would_save"]
    assert told["state"]["mode"] == "observe"


async def test_a_store_that_is_degraded_and_an_upstream_that_is_gone_are_told() -> None:
    async with (
        running_proxy(
            "http://127.0.0.1:1/v1",
            store={"url": "sqlite:////proc/nowhere/x.db"},
            upstream={"breaker_failures": 1},
        ) as proxy,
        http_client(proxy) as client,
    ):
        await chat(client, user("hi"))
        told = await figures(client)

    assert told["state"]["store_degraded"]
    assert told["state"]["open_breakers"] == 1
    assert (told["rows"][0]["status"], told["totals"]["failed"]) == (502, 1)


async def test_under_load_a_chat_has_a_row_but_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dashboard() as (proxy, client):
        monkeypatch.setattr(proxy.services.chat_log, "takes_detail", lambda: False)
        await chat(client, *with_pictures())
        row = (await figures(client))["rows"][0]

    assert (row["stages"], row["has_detail"]) == (["limit_vision_history"], False)
    assert row["conversation"] == ""


async def test_under_load_a_conversation_that_goes_on_is_still_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = [user(f"{number} " * 400) for number in range(30)]
    async with dashboard() as (proxy, client):
        await chat(client, *talk)
        monkeypatch.setattr(proxy.services.chat_log, "takes_detail", lambda: False)
        await chat(client, *talk, says("ok"), user("And then?"))
        rows = (await figures(client))["rows"]

    assert [row["has_detail"] for row in rows] == [True, False]
    assert len({row["conversation"] for row in rows}) == 1
    assert rows[0]["conversation"]
