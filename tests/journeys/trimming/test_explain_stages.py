"""Explain shows what each stage would do and win, message by message, and does nothing of it."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli import main as cli
from tests.support.conversations import photo, post, registry_file, trimming
from tests.support.live import chat_body, chat_request
from tests.support.meeting import Meeting
from tests.unit.chat.shapes import Fields, calls, result, says, system, text, user

pytestmark = pytest.mark.anyio

LONG = "a long line of output\n" * 5_000
SHOWN: list[Fields] = [
    system(),
    user([text("Look"), photo(1)]),
    says("Nice."),
    user([text("Read it"), photo(2)]),
    calls("1"),
    result("1", LONG),
]
KEPT = {"change": "kept", "stages": []}
STAGE = re.compile(
    r"stage   (\w+): (\d+) -> (\d+) messages, (?P<before>[\d,]+) -> (?P<after>[\d,]+) tokens"
)
DROPPED = {"change": "dropped", "tokens": 0, "stages": ["limit_vision_history"]}


async def explained(met: Meeting, messages: list[Fields], *headers: str) -> dict[str, Any]:
    request = chat_request(chat_body(messages=messages), *headers)
    await met.client.send(request.replace(b"/completions", b"/explain", 1))
    answer = await met.client.answer()
    assert answer.status == 200, answer.body
    return dict(json.loads(answer.body))


def afters(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [message["after"] for message in told["messages"]]


async def test_every_stage_is_told_with_messages_and_tokens_before_and_after() -> None:
    async with trimming() as met:
        told = await explained(met, SHOWN)

        assert met.chats == 0
    vision, cut = told["compaction"]["stages"]
    assert (vision["stage"], cut["stage"]) == ("limit_vision_history", "truncate_tool_output")
    assert (vision["messages"], cut["messages"]) == ([6, 4], [4, 4])
    assert vision["tokens"][0] == told["tokens"]["total"]
    assert vision["tokens"][0] > vision["tokens"][1] == cut["tokens"][0] > cut["tokens"][1]
    assert told["compaction"]["tokens_after"] == cut["tokens"][1]
    assert told["compaction"]["messages_after"] == 4
    assert told["compaction"]["outcome"] == "trimmed"
    assert told["compaction"]["failed_stages"] == []
    assert told["mode"] == "on"


async def test_every_message_tells_what_becomes_of_it() -> None:
    async with trimming() as met:
        told = await explained(met, SHOWN)

    tokens = [message["tokens"] for message in told["messages"]]
    assert afters(told)[:5] == [
        {**KEPT, "tokens": tokens[0]},
        DROPPED,
        DROPPED,
        {**KEPT, "tokens": tokens[3]},
        {**KEPT, "tokens": tokens[4]},
    ]
    cut = afters(told)[5]
    assert (cut["change"], cut["stages"]) == ("changed", ["truncate_tool_output"])
    assert 0 < cut["tokens"] < tokens[5]


async def test_what_explain_foretells_is_what_comes(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/x.db"}
    async with trimming(store=store) as met:
        told = await explained(met, SHOWN)
        answer = await post(met.client, chat_body(messages=SHOWN))

    compaction = told["compaction"]
    assert answer.headers["x-chat-proxy-compaction"] == compaction["outcome"]
    assert answer.headers["x-chat-proxy-tokens-before"] == str(told["tokens"]["total"])
    assert answer.headers["x-chat-proxy-tokens-after"] == str(compaction["tokens_after"])
    assert answer.headers["x-chat-proxy-stages"].split(",") == [
        stage["stage"] for stage in compaction["stages"]
    ]


async def test_where_nothing_is_to_be_done_every_message_is_kept() -> None:
    async with trimming() as met:
        told = await explained(met, [system(), user(), says(), user()])

    assert told["compaction"] == {
        "outcome": "none",
        "tokens_after": told["tokens"]["total"],
        "messages_after": 4,
        "stages": [],
        "failed_stages": [],
        "plan": None,
        "unfit": None,
    }
    assert {after["change"] for after in afters(told)} == {"kept"}


async def test_a_blind_models_notes_are_told(tmp_path: Path) -> None:
    registry = registry_file(tmp_path, {"name": "fake", "vision": False})
    async with trimming(registry=registry) as met:
        told = await explained(met, SHOWN[:4])

    assert [stage["stage"] for stage in told["compaction"]["stages"]] == ["strip_media"]
    assert [after["change"] for after in afters(told)] == ["kept", "changed", "kept", "changed"]
    assert afters(told)[1]["tokens"] < told["messages"][1]["tokens"]


async def test_under_pressure_what_would_age_is_told_as_well() -> None:
    steps = [step for at in range(9) for step in (calls(f"{at}"), result(f"{at}", "word " * 900))]
    shown = [user([text("Look"), photo(1)]), says("Nice."), user([photo(2)]), says("Nice too.")]
    sections: dict[str, Any] = {
        "budget": {"context_window": 10_000}, "vision": {"truncate_history": False}
    }  # fmt: skip
    async with trimming(**sections) as met:
        told = await explained(met, [*shown, user("Go on"), *steps])
        again = await explained(met, [*shown, user("Go on"), *steps])

    stages = told["compaction"]["stages"]
    assert [stage["stage"] for stage in stages] == ["age_tool_output", "age_media"]
    assert all(stage["tokens"][0] > stage["tokens"][1] for stage in stages)
    hands = [after["stages"] for after in afters(told)]
    assert hands[0] == ["age_media"]
    assert hands[2] == []
    assert hands[6] == ["age_tool_output"]
    assert hands[-1] == []
    assert again == told
    groups = {group["start"]: group for group in told["compaction"]["plan"]["groups"]}
    assert (groups[5]["treatment"], groups[21]["treatment"]) == ("line", "whole")
    assert all(group["reason"] for group in groups.values())


async def test_explain_says_what_would_be_done_whatever_mode_the_request_asks_for() -> None:
    async with trimming(mode="off") as met:
        told = await explained(met, SHOWN, "x-chat-proxy-mode: off")

    assert told["mode"] == "off"
    assert told["compaction"]["outcome"] == "trimmed"


def leave(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    return int(str(left.value.code or 0))


async def printed(
    capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str
) -> tuple[int, str]:
    """Run `chat-proxy explain FILE` in a thread; return its exit code and what it printed."""
    file = folder / "request.json"
    file.write_bytes(chat_body(messages=SHOWN))
    code = await asyncio.to_thread(leave, "explain", str(file), *arguments)
    return code, capsys.readouterr().out


@pytest.fixture
def _no_upstream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "UPSTREAM_BASE_URL": "http://127.0.0.1:1/v1",
        "BUDGET_CONTEXT_WINDOW": "1000000",
        "SUMMARY_ENABLED": "false",
        "STORE_SECRET": "the same ids in both",
    }.items():
        monkeypatch.setenv(f"CHAT_PROXY_{name}", value)


@pytest.mark.usefixtures("_no_upstream")
async def test_the_command_prints_stages_and_what_is_left_of_each_message(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out = await printed(capsys, tmp_path)

    lines = out.splitlines()
    assert code == 0
    assert "mode    on; this request would be sent as: trimmed" in lines
    vision, cut = [STAGE.fullmatch(line) for line in lines if line.startswith("stage ")]
    assert vision
    assert cut
    assert vision.groups()[:3] == ("limit_vision_history", "6", "4")
    assert cut.groups()[:3] == ("truncate_tool_output", "4", "4")
    assert vision["after"] == cut["before"]
    head = next(at for at, line in enumerate(lines) if line.split()[:1] == ["#"])
    rows = [line.split() for line in lines[head + 1 : head + 7]]
    assert lines[head].split() == ["#", "turn", "group", "role", "tokens", "after", "what"]
    assert [row[5] for row in rows[:5]] == ["=", "-", "-", "=", "="]
    assert int(rows[5][5].replace(",", "")) < int(rows[5][4].replace(",", ""))


@pytest.mark.usefixtures("_no_upstream")
async def test_the_command_and_the_route_tell_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out = await printed(capsys, tmp_path, "--json")
    store = {"url": "memory:", "secret": "the same ids in both"}
    down = {"base_url": "http://127.0.0.1:1/v1"}
    async with trimming(store=store, upstream=down) as met:
        told = await explained(met, SHOWN)

    assert code == 0
    assert json.loads(out) == told


@pytest.mark.usefixtures("_no_upstream")
async def test_the_command_says_which_mode_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_MODE", "observe")

    _, out = await printed(capsys, tmp_path)

    assert "mode    observe; this request would be sent as: trimmed" in out.splitlines()
