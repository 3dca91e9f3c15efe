"""Long tool results are cut: head and tail stay, and a note names the place of the whole."""

import json

import pytest

from chat_proxy.compaction.truncate_text import byte_count
from tests.journeys.trimming.offloading import (
    LIMIT,
    LONG,
    NOTE,
    body_with,
    cut_of,
    id_in,
    offloaded,
    with_result,
)
from tests.support.conversations import (
    last_body,
    last_messages,
    listening,
    post,
    sha256,
    trimming,
)
from tests.support.live import chat_body
from tests.unit.chat.shapes import calls, result, says, text, user

pytestmark = pytest.mark.anyio


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
