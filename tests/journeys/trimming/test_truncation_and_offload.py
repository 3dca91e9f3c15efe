"""Long tool results are cut, and come back whole from `/v1/offload/{id}` for whoever sent them."""

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.compaction.truncate_text import byte_count
from tests.support.conversations import (
    NO_SUMMARY,
    ROOMY,
    get,
    last_body,
    last_messages,
    listening,
    post,
    sha256,
    trimming,
    without_usage,
)
from tests.support.fake_model import FakeModel, fake_model, on_chat
from tests.support.live import RawAnswer, RawClient, chat_body, raw_client, running_proxy
from tests.unit.chat.shapes import Fields, calls, result, says, text, user

pytestmark = pytest.mark.anyio

LIMIT = 50_000
LONG = "".join(
    f"{number:06} a line of a log that nobody reads to its end\n" for number in range(4000)
)
NOTE = re.compile(r"\[Tool output truncated: omitted (\d+) chars\] \[offload id: ([0-9a-f]{32})\]")
ANN, BOB = "authorization: Bearer sk-ann", "authorization: Bearer sk-bob"
UNKNOWN = "/v1/offload/" + "0" * 32


def with_result(content: Any) -> list[Fields]:
    return [user("Read the log"), calls("1"), result("1", content)]


def body_with(content: Any) -> bytes:
    return chat_body(messages=with_result(content))


def id_in(cut: str) -> str:
    found = NOTE.search(cut)
    assert found, cut[-200:]
    return found[2]


async def cut_of(model: FakeModel, client: RawClient, content: Any, *headers: str) -> Any:
    """Send a tool result; return what the upstream got of it."""
    await post(client, body_with(content), *headers)
    return last_messages(model)[2]["content"]


async def offloaded(client: RawClient, name: str, *headers: str) -> RawAnswer:
    return await get(client, f"/v1/offload/{name}", *headers)


@asynccontextmanager
async def in_file(file: Path, **sections: Any) -> AsyncIterator[tuple[FakeModel, RawClient]]:
    """A model and a client of a proxy that keeps texts in this file."""
    store = {"url": f"sqlite:///{file}", **sections.pop("store", {})}
    async with (
        fake_model(on_chat(without_usage)) as model,
        running_proxy(
            model.url, store=store, summary=NO_SUMMARY, budget=ROOMY, **sections
        ) as proxy,
        raw_client(proxy) as client,
    ):
        yield model, client


async def test_a_long_result_keeps_head_and_tail_within_the_limit() -> None:
    assert len(LONG) > 200_000
    async with trimming() as met:
        answer = await post(met.client, body_with(LONG))

        received = last_messages(met.model)
    assert received[:2] == with_result(LONG)[:2]
    assert received[2].keys() == result("1").keys()
    cut = received[2]["content"]
    assert len(cut) <= LIMIT
    head, tail = NOTE.sub("\0", cut).split("\0\n")
    assert LONG.startswith(head)
    assert LONG.endswith(tail)
    assert len(head) > LIMIT // 3 < len(tail)
    note = NOTE.search(cut)
    assert note
    assert int(note[1]) == len(LONG) - len(head) - len(tail)
    assert answer.headers["x-chat-proxy-compaction"] == "trimmed"
    assert answer.headers["x-chat-proxy-stages"] == "truncate_tool_output"


async def test_a_result_at_the_limit_passes_byte_for_byte_and_one_over_it_is_cut() -> None:
    async with trimming() as met:
        body = body_with("x" * LIMIT)
        await post(met.client, body)
        assert sha256(last_body(met.model)) == sha256(body)

        cut = await cut_of(met.model, met.client, "x" * (LIMIT + 1))
    assert len(cut) <= LIMIT
    assert NOTE.search(cut)


async def test_a_cut_result_that_comes_back_is_not_cut_again() -> None:
    async with trimming() as met:
        cut = await cut_of(met.model, met.client, LONG)
        again = await cut_of(met.model, met.client, cut)

    assert again == cut


async def test_two_requests_give_the_same_bytes_also_as_the_chat_grows() -> None:
    """BUGS 44: an offload id is the same on every request, or the upstream's cache is lost."""
    grown = [*with_result(LONG), says("Hm."), user("And?")]
    async with trimming() as met:
        first = await post(met.client, body_with(LONG))
        once = last_body(met.model)
        await post(met.client, body_with(LONG))
        twice = last_body(met.model)
        await post(met.client, chat_body(messages=grown))
        later = last_body(met.model)

    assert first.status == 200
    assert once == twice
    assert later.startswith(once.removesuffix(b"]}"))


async def test_the_log_names_the_stage_and_nothing_of_the_text() -> None:
    with listening() as heard:
        async with trimming() as met:
            await post(met.client, body_with(LONG))

    [line] = heard.lines("request")
    assert line["stages"] == "truncate_tool_output"
    assert line["tokens_before"] > line["tokens_after"]
    assert "nobody reads" not in heard.text


# What is cut


async def test_texts_of_a_list_count_together() -> None:
    """BUGS 39: content that is a list is cut as well."""
    parts = [text("a" * 60_000), text("small"), text("b" * 60_000, cache_control={"x": 1})]
    async with trimming() as met:
        cut = await cut_of(met.model, met.client, parts)
        kept = [
            (await offloaded(met.client, id_in(part["text"]))).body for part in (cut[0], cut[2])
        ]

    assert sum(len(part["text"]) for part in cut) <= LIMIT
    assert cut[1] == text("small")
    assert cut[2]["cache_control"] == {"x": 1}
    assert kept == [b"a" * 60_000, b"b" * 60_000]


async def test_letters_of_many_bytes_are_never_cut_through() -> None:
    async with trimming() as met:
        for letter in ("é", "漢", "😀", "👩‍🚀", "a漢\n"):
            given = letter * 40_000
            cut = await cut_of(met.model, met.client, given)
            kept = await offloaded(met.client, id_in(cut))

            assert len(cut.encode()) <= LIMIT
            assert set(NOTE.sub("", cut)) <= set(letter) | {"\n"}
            assert kept.body.decode() == given


async def test_half_an_emoji_breaks_nothing() -> None:
    given = "half \ud83d line\n" * 10_000
    async with trimming() as met:
        cut = await cut_of(met.model, met.client, given)
        kept = await offloaded(met.client, id_in(cut))

    assert byte_count(cut) <= LIMIT
    assert cut.startswith("half \ud83d line\n")
    assert kept.body.decode() == given.replace("\ud83d", "\ufffd")


async def test_results_of_exempt_tools_pass_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_PROXY_TOOLS_EXEMPT", "get_weather,other")
    body = body_with(LONG)
    async with trimming() as met:
        answer = await post(met.client, body)

        assert sha256(last_body(met.model)) == sha256(body)
    assert answer.headers["x-chat-proxy-compaction"] == "none"


async def test_only_results_are_cut() -> None:
    """BUGS 38: what the user has just sent is never replaced."""
    body = chat_body(messages=[{"role": "system", "content": LONG}, says(LONG), user(LONG)])
    async with trimming() as met:
        await post(met.client, body)

        assert sha256(last_body(met.model)) == sha256(body)


async def test_other_results_and_fields_keep_their_bytes() -> None:
    """BUGS 42: a cut message keeps the fields that nobody here knows."""
    small = b'{"role":"tool","tool_call_id":"2" , "content":"\\u0032"}'
    long = json.dumps({**result("1", LONG), "name": "read", "metadata": {"a": 1.5}}).encode()
    asked = json.dumps([user(), calls("1", "2")]).encode()[1:-1]
    body = (
        b'{"model":"fake" , "messages":[' + asked + b", " + long + b" , " + small + b' ],"x":1.0}'
    )
    async with trimming() as met:
        await post(met.client, body)

        received = last_body(met.model)
    cut = json.loads(received)["messages"][2]
    assert {**cut, "content": ""} == {**result("1", ""), "name": "read", "metadata": {"a": 1.5}}
    assert received.startswith(b'{"model":"fake" , "messages":[' + asked + b",{")
    assert received.endswith(b"}," + small + b' ],"x":1.0}')


# Who gets it back


async def test_whoever_sent_a_text_gets_it_back_whole() -> None:
    async with trimming() as met:
        name = id_in(await cut_of(met.model, met.client, LONG, ANN))
        answer = await offloaded(met.client, name, ANN)
        by_other_header = await offloaded(met.client, name, "x-api-key: sk-ann")

    assert answer.status == 200
    assert answer.body == by_other_header.body == LONG.encode()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "private, no-store"


async def test_it_can_be_asked_for_without_its_text() -> None:
    async with trimming() as met:
        name = id_in(await cut_of(met.model, met.client, LONG, ANN))
        head = f"HEAD /v1/offload/{name} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{ANN}\r\n\r\n"
        await met.client.send(head.encode())
        received = await met.client.rest()

    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"content-length: %d\r\n" % len(LONG) in received.lower()
    assert received.endswith(b"\r\n\r\n")


async def test_nobody_else_can_tell_it_from_an_id_that_was_never_given() -> None:
    async with trimming() as met:
        name = id_in(await cut_of(met.model, met.client, LONG, ANN))
        unknown = await get(met.client, UNKNOWN, ANN)
        others = [
            await offloaded(met.client, name, BOB),
            await offloaded(met.client, name),
            await offloaded(met.client, name, "authorization: Bearer sk-ann2"),
            await offloaded(met.client, name.upper(), ANN),
            await offloaded(met.client, name + "0", ANN),
            await offloaded(met.client, "", ANN),
        ]

    alike = [plain(answer) for answer in (unknown, *others)]
    assert unknown.status == 404
    assert unknown.error["code"]
    assert all(one == alike[0] for one in alike)


def plain(answer: RawAnswer) -> tuple[int, dict[str, str], bytes]:
    """The answer without what differs from answer to answer."""
    passing = ("date", "x-request-id")
    headers = {name: value for name, value in answer.headers.items() if name not in passing}
    return answer.status, headers, answer.body


async def test_a_text_sent_without_a_key_is_for_those_without_one() -> None:
    async with trimming() as met:
        name = id_in(await cut_of(met.model, met.client, LONG))
        mine = await offloaded(met.client, name)
        theirs = await offloaded(met.client, name, ANN)

    assert (mine.status, theirs.status) == (200, 404)


async def test_the_same_text_has_another_id_for_another_tenant() -> None:
    async with trimming() as met:
        anns = id_in(await cut_of(met.model, met.client, LONG, ANN))
        bobs = id_in(await cut_of(met.model, met.client, LONG, BOB))
        theirs = await offloaded(met.client, bobs, BOB)

    assert anns != bobs
    assert theirs.body == LONG.encode()


async def test_with_keys_of_our_own_the_tenant_is_the_key() -> None:
    async with trimming(auth={"keys": ("sk-ann", "sk-bob")}) as met:
        name = id_in(await cut_of(met.model, met.client, LONG, ANN))
        statuses = [(await offloaded(met.client, name, *key)).status for key in ([ANN], [BOB], [])]

    assert statuses == [200, 404, 401]


async def test_it_comes_back_after_a_restart_and_for_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    async with in_file(file) as (model, client):
        cut = await cut_of(model, client, LONG, ANN)
    async with in_file(file) as (model, client):
        mine = await offloaded(client, id_in(cut), ANN)
        theirs = await offloaded(client, id_in(cut), BOB)
        nobodys = await offloaded(client, id_in(cut))
        again = await cut_of(model, client, LONG, ANN)

    assert mine.body == LONG.encode()
    assert (theirs.status, nobodys.status) == (404, 404)
    assert again == cut


async def test_a_second_proxy_on_the_same_file_cuts_alike_and_gives_it_back(tmp_path: Path) -> None:
    """BUGS 44: ids are the same in every process."""
    file = tmp_path / "x.db"
    async with in_file(file) as (one, client), in_file(file) as (other, other_client):
        cut = await cut_of(one, client, LONG, ANN)
        mine = await offloaded(other_client, id_in(cut), ANN)
        theirs = await offloaded(other_client, id_in(cut), BOB)
        same = await cut_of(other, other_client, LONG, ANN)

    assert mine.body == LONG.encode()
    assert theirs.status == 404
    assert same == cut


async def test_proxies_with_other_files_give_other_ids(tmp_path: Path) -> None:
    async with in_file(tmp_path / "x.db") as (model, client):
        one = id_in(await cut_of(model, client, LONG, ANN))
    async with in_file(tmp_path / "y.db") as (model, client):
        other = id_in(await cut_of(model, client, LONG, ANN))
        missing = await offloaded(client, one, ANN)

    assert one != other
    assert missing.status == 404


# Stores that refuse


async def test_a_full_store_leaves_the_result_whole(tmp_path: Path) -> None:
    body = body_with(LONG)
    with listening() as heard:
        async with in_file(tmp_path / "x.db", store={"max_bytes": 40_000}) as (model, client):
            answer = await post(client, body, ANN)

            assert sha256(last_body(model)) == sha256(body)
    assert answer.headers["x-chat-proxy-compaction"] == "none"
    assert {line["kind"] for line in heard.lines("a store operation failed")} == {"full"}


async def test_what_still_fits_into_a_full_store_is_cut_all_the_same(tmp_path: Path) -> None:
    messages = [user(), calls("1", "2"), result("1", LONG), result("2", "y" * 60_000)]
    async with in_file(tmp_path / "x.db", store={"max_bytes": 140_000}) as (model, client):
        await post(client, chat_body(messages=messages), ANN)

        received = last_messages(model)
        kept = await offloaded(client, id_in(received[3]["content"]), ANN)
    assert received[2] == result("1", LONG)
    assert kept.body == b"y" * 60_000


async def test_a_file_that_another_process_holds_leaves_the_result_whole(tmp_path: Path) -> None:
    file, body = tmp_path / "x.db", body_with(LONG)
    async with in_file(file) as (model, client):
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await post(client, body, ANN)

        assert sha256(last_body(model)) == sha256(body)


@pytest.mark.parametrize("place", ["file/x.db", "file/deeper/x.db"])
async def test_without_a_file_texts_are_kept_in_memory(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    async with in_file(tmp_path / place) as (model, client):
        cut = await cut_of(model, client, LONG, ANN)
        kept = await offloaded(client, id_in(cut), ANN)

    assert kept.body == LONG.encode()


async def test_metrics_tell_what_was_kept_and_what_was_refused(tmp_path: Path) -> None:
    async with in_file(tmp_path / "x.db") as (_, client):
        await post(client, body_with(LONG), ANN)
        kept = (await get(client, "/metrics")).body.decode()
    async with in_file(tmp_path / "y.db", store={"max_bytes": 40_000}) as (_, client):
        await post(client, body_with(LONG), ANN)
        refused = (await get(client, "/metrics")).body.decode()

    assert 'chat_proxy_offloads_total{result="kept"} 1.0' in kept
    assert 'chat_proxy_offloads_total{result="refused"} 1.0' in refused
