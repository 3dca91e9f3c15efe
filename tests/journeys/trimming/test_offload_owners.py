"""A cut result comes back whole from `/v1/offload/{id}` for whoever sent it, for nobody else."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.journeys.trimming.offloading import (
    ANN,
    BOB,
    LONG,
    UNKNOWN,
    body_with,
    cut_of,
    id_in,
    in_file,
    offloaded,
)
from tests.support.conversations import (
    get,
    last_body,
    last_messages,
    listening,
    post,
    sha256,
    trimming,
)
from tests.support.live import RawAnswer, chat_body
from tests.unit.chat.shapes import calls, result, user

pytestmark = pytest.mark.anyio


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
