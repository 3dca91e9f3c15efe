from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.conversation.model import Call, ScriptedModel, running
from bench.conversation.prompt import Json, Prompt, rendered
from bench.conversation.replay import client_session
from bench.conversation.responses import chat_fields, items_of
from bench.conversation.senders import Dropping, Sender, ThroughProxy
from bench.quality.recordings.dialogues import dialogue
from bench.quality.recordings.trajectories import trajectory
from bench.quality.replay import POINTS, has_waited, replay
from bench.quality.systems import DROP_OLDEST, ENDLESS, OWN_SUMMARY, Setting, System, systems
from tests.bench.quality.test_dialogues import TALK
from tests.bench.quality.test_trajectories import RUN

pytestmark = pytest.mark.anyio
SYSTEMS = {system.name: system for system in systems()}


async def test_an_endless_window_knows_everything_word_for_word(tmp_path: Path) -> None:
    outcome = await replay(dialogue(TALK), "talk", 60, SYSTEMS[ENDLESS], tmp_path)

    assert len(outcome.asked) == len(POINTS)
    last = outcome.asked[-1]
    assert last.questions == last.known == last.verbatim == 2
    assert (outcome.requests, outcome.refused, outcome.side_queries) == (3, 0, 0)


async def test_a_small_window_forgets_what_was_dropped(tmp_path: Path) -> None:
    outcome = await replay(dialogue(TALK), "talk", 60, SYSTEMS[DROP_OLDEST], tmp_path)

    assert outcome.asked[-1].known == 0
    assert outcome.last_tokens < 60


async def test_own_summaries_are_waited_for_and_billed(tmp_path: Path) -> None:
    turns = [
        {
            "speaker": "AB"[number % 2],
            "id": f"D1:{number}",
            "text": f"Item{number} is {number * 7}.",
        }
        for number in range(200)
    ]
    talk = {"speakers": ["A", "B"], "sessions": [{"turns": turns}], "qa": []}

    outcome = await replay(dialogue(talk), "talk", 1_024, SYSTEMS[OWN_SUMMARY], tmp_path)

    assert outcome.side_queries == outcome.waited > 1
    assert outcome.billed < outcome.tokens


async def test_after_refusals_in_a_row_nothing_more_is_sent(tmp_path: Path) -> None:
    refusing = Refusing(1_000, {})

    @asynccontextmanager
    async def opened(_: Setting) -> AsyncIterator[Sender]:
        yield refusing

    long_talk = {**TALK, "sessions": TALK["sessions"] * 5}

    outcome = await replay(dialogue(long_talk), "talk", 1_000, System("refusing", opened), tmp_path)

    assert outcome.refused == outcome.requests > refusing.sent == 5
    assert outcome.asked[-1].known == 0


class Refusing(Dropping):
    sent = 0

    async def send(self, history: list[Json]) -> Prompt | None:  # noqa: ARG002
        self.sent += 1
        return None


def test_a_summary_before_the_chat_was_waited_for_and_one_behind_it_was_not() -> None:
    chat, side = _call(is_side_query=False), _call(is_side_query=True)

    assert has_waited([side, chat])
    assert has_waited([side])
    assert not has_waited([chat, side])
    assert not has_waited([])


def test_messages_come_back_from_the_items_of_the_responses_api() -> None:
    messages = trajectory(RUN).messages
    body = {"model": "m", "instructions": messages[0]["content"], "input": items_of(messages[1:])}

    found = chat_fields(body)["messages"]

    assert list(map(rendered, found)) == list(map(rendered, messages))


def _call(*, is_side_query: bool) -> Call:
    return Call(10, 0, 1, is_side_query, broken_pairs=0)


async def test_a_refusal_is_kept_with_its_status_and_code() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=502, headers={"x-chat-proxy-error": "upstream_unreachable"})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", refuse)
    model = ScriptedModel(1_000)
    async with running(model), TestServer(app) as server, client_session() as client:
        sender = ThroughProxy(client, str(server.make_url("")).rstrip("/"), model, {})

        assert await sender.send([{"role": "user", "content": "Hello."}]) is None
        assert sender.refusals == {"502 upstream_unreachable": 1}
