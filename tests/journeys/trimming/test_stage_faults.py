"""Any stage may fail: the request passes, unchanged by that stage, and the log says which."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.compaction.pipeline import Pipeline
from chat_proxy.compaction.planner import working
from chat_proxy.compaction.planner.forms import Planner
from chat_proxy.proxy.session import session
from tests.support.conversations import (
    get,
    last_body,
    last_messages,
    listening,
    photo,
    post,
    registry_file,
    sha256,
    trimming,
)
from tests.support.live import RawAnswer, chat_body, chat_request
from tests.support.meeting import Meeting
from tests.unit.chat.shapes import Fields, calls, result, says, system, text, user

pytestmark = pytest.mark.anyio

SECRET = "the user's own words"
LONG = f"{SECRET} " * 5_000
TRIMMING_STAGES = ["limit_vision_history", "strip_media", "truncate_tool_output"]
MISTAKES = [RuntimeError(SECRET), RecursionError(SECRET), MemoryError(SECRET), KeyError(SECRET)]


class Broken:
    """A stage that always fails, and whose mistake quotes the conversation."""

    def __init__(self, name: str, mistake: Exception) -> None:
        self.name = name
        self._mistake = mistake

    def has_nothing_to_do(self, _: object) -> bool:
        return False

    def __call__(self, *_: object) -> Any:
        raise self._mistake


def break_stages(met: Meeting, mistake: Exception, *names: str) -> None:
    """Put broken stages in the place of these."""

    def replaced(stages: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            Broken(stage.name, mistake) if stage.name in names else stage for stage in stages
        )

    pipeline = pipeline_of(met)
    pipeline._trimming = replaced(pipeline._trimming)


def pipeline_of(met: Meeting) -> Pipeline:
    services = met.proxy.services
    return services.policies.of(services.registry.find("fake")).pipeline


@asynccontextmanager
async def blind_meeting(folder: Path, *, is_blind: bool) -> AsyncIterator[Meeting]:
    registry = registry_file(folder, {"name": "fake", "vision": not is_blind})
    async with trimming(registry=registry) as met:
        yield met


def failed(page: str) -> dict[str, float]:
    """How often each stage failed, as /metrics tells it."""
    head = 'chat_proxy_stage_failures_total{stage="'
    lines = [line.removeprefix(head) for line in page.splitlines() if line.startswith(head)]
    parted = (line.split('"} ') for line in lines)
    return {name: float(number) for name, number in parted}


MESSAGES: list[Fields] = [
    system(),
    user([text("Look"), photo(1)]),
    says("Nice."),
    user([text(SECRET), photo(2)]),
    calls("1"),
    result("1", LONG),
]


async def trimmed_with_broken(
    name: str, folder: Path, mistake: Exception = MISTAKES[0]
) -> tuple[RawAnswer, list[Fields], str]:
    """Send a chat on which two stages act, one of them broken; return the answer and the rest."""
    async with blind_meeting(folder, is_blind=name == "strip_media") as met:
        break_stages(met, mistake, name)
        answer = await post(met.client, chat_body(messages=MESSAGES))
        page = (await get(met.client, "/metrics")).body.decode()
        return answer, last_messages(met.model), page


@pytest.mark.parametrize("name", TRIMMING_STAGES)
async def test_a_trimming_stage_that_fails_is_passed_by_and_the_others_act(
    name: str, tmp_path: Path
) -> None:
    other = TRIMMING_STAGES[0 if name == "truncate_tool_output" else 2]
    with listening() as heard:
        answer, received, page = await trimmed_with_broken(name, tmp_path)

    assert answer.headers["x-chat-proxy-stages"] == other
    assert answer.headers["x-chat-proxy-compaction"] == "trimmed"
    if name == "truncate_tool_output":
        assert received == [MESSAGES[0], *MESSAGES[3:]]
    else:
        assert received[:5] == MESSAGES[:5]
        assert len(received[5]["content"]) <= 50_000
    assert failed(page) == {name: 1}
    [line] = heard.lines("a stage failed and was skipped")
    assert (line["stage"], line["exception"], line["level"]) == (name, "RuntimeError", "warning")
    assert line["request_id"] == answer.headers["x-request-id"]
    assert heard.lines("request")[0]["failed_stages"] == name
    assert "user's own" not in heard.text


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: type(mistake).__name__)
async def test_no_mistake_quotes_the_conversation_in_the_log(
    mistake: Exception, tmp_path: Path
) -> None:
    with listening() as heard:
        answer, _, _ = await trimmed_with_broken("limit_vision_history", tmp_path, mistake)

    assert answer.status == 200
    [line] = heard.lines("a stage failed and was skipped")
    assert line["exception"] == type(mistake).__name__
    assert "user's own" not in heard.text


async def test_where_all_stages_fail_the_clients_bytes_go_on() -> None:
    body = b" " + chat_body(messages=MESSAGES) + b"\n"
    async with trimming() as met:
        break_stages(met, MISTAKES[0], *TRIMMING_STAGES)
        answer = await post(met.client, body)
        streamed = await post(met.client, chat_body(messages=MESSAGES, stream=True))
        page = (await get(met.client, "/metrics")).body.decode()

        assert [sha256(request.body) for request in met.model.requests if request.body] == [
            sha256(body),
            sha256(chat_body(messages=MESSAGES, stream=True)),
        ]
    assert "x-chat-proxy-stages" not in answer.headers
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert failed(page) == dict.fromkeys(TRIMMING_STAGES, 2)


def pressing() -> list[Fields]:
    """An agent's run with old pictures and old results, over the trigger of a small window."""
    seen = [user([text("Look"), photo(1)]), says("Nice."), user([photo(2)]), says("Nice too.")]
    steps = [step for at in range(9) for step in (calls(f"{at}"), result(f"{at}", LONG[:6_000]))]
    return [system(), *seen, user(SECRET), *steps]


PRESSED: dict[str, Any] = {
    "budget": {"context_window": 12_000},
    "vision": {"truncate_history": False},
}


def fail(*_: object, **__: object) -> Any:
    """Fail as code with a mistake does, and quote the conversation."""
    raise RuntimeError(SECRET)


@pytest.mark.parametrize("place", [(Planner, "plan"), (working, "tool_results"), (session, "age")])
async def test_where_no_plan_can_be_made_or_applied_the_clients_bytes_go_on(
    place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = chat_body(messages=pressing())
    monkeypatch.setattr(*place, fail)
    with listening() as heard:
        async with trimming(**PRESSED) as met:
            answer = await post(met.client, body)

            assert sha256(last_body(met.model)) == sha256(body)
    assert answer.headers["x-chat-proxy-compaction"] == "failed-open"
    assert heard.lines("request")[0]["compaction"] == "failed-open"
    assert "user's own" not in heard.text


async def test_a_planner_that_works_again_plans_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with trimming(**PRESSED) as met:
        with monkeypatch.context() as broken:
            broken.setattr(Planner, "plan", fail)
            await post(met.client, chat_body(messages=pressing()))
        answer = await post(met.client, chat_body(messages=pressing()))

    assert answer.headers["x-chat-proxy-stages"] == "age_tool_output,age_media"


async def test_a_decision_that_cannot_be_repeated_lets_the_request_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = pressing()
    grown = chat_body(messages=[*given, says("Done."), user("Thanks")])

    with listening() as heard:
        async with trimming(**PRESSED) as met:
            await post(met.client, chat_body(messages=given))
            assert last_messages(met.model) != given
            monkeypatch.setattr(session, "age", fail)
            answer = await post(met.client, grown)

            assert sha256(last_body(met.model)) == sha256(grown)
    assert answer.headers["x-chat-proxy-compaction"] == "failed-open"
    assert "user's own" not in heard.text


async def test_explain_names_the_stage_that_failed() -> None:
    request = chat_request(chat_body(messages=MESSAGES)).replace(b"/completions", b"/explain", 1)
    async with trimming() as met:
        break_stages(met, MISTAKES[0], "limit_vision_history")
        await met.client.send(request)
        answer = await met.client.answer()

    compaction = json.loads(answer.body)["compaction"]
    assert compaction["failed_stages"] == ["limit_vision_history"]
    assert [stage["stage"] for stage in compaction["stages"]] == ["truncate_tool_output"]
    assert b"user's own" not in answer.body


async def test_a_stage_that_works_again_acts_again() -> None:
    async with trimming() as met:
        healthy = pipeline_of(met)._trimming
        break_stages(met, MISTAKES[0], *TRIMMING_STAGES)
        await post(met.client, chat_body(messages=MESSAGES))
        pipeline_of(met)._trimming = healthy
        answer = await post(met.client, chat_body(messages=MESSAGES))

        assert len(last_messages(met.model)) == 4
    assert answer.headers["x-chat-proxy-stages"] == "limit_vision_history,truncate_tool_output"
