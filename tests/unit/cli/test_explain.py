"""`chat-proxy explain FILE`: what it prints, and how it ends."""

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli import main as cli
from tests.support.command import Ended, run_command
from tests.support.fake_model import COMPLETION, MODELS, Line, Received, answer_json, fake_model
from tests.support.live import chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

DOWN = "http://127.0.0.1:1/v1"
REQUEST = {
    "model": "fake",
    "max_tokens": 300,
    "stream": True,
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Read the file."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"a.py"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "print(1)\n" * 50},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this picture?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        },
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
    ],
}
SHAPES: list[dict[str, Any]] = [
    # openai-python and langchain
    {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.1},
    {
        "model": "gpt-4o-mini",
        "messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "y"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    },
    # vercel-ai: parts in tool results
    {
        "model": "x",
        "messages": [{"role": "tool", "tool_call_id": "1", "content": [{"type": "text"}]}],
    },
    # aider, mini-swe: texts only, many turns
    {"model": "x", "messages": [{"role": "user", "content": "a"}] * 50},
    # qwen-code, pi: stream options, reasoning, legacy calls
    {
        "model": "x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "assistant", "content": None, "function_call": {"name": "f"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "assistant", "content": "ok", "reasoning_content": "hm"},
        ],
    },
    {"messages": []},
]


Explained = Callable[..., Awaitable[Ended]]


@pytest.fixture
def explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Explained:
    """Run the command in a thread of this process, in an empty folder: it is faster than one."""
    monkeypatch.chdir(tmp_path)

    async def explain(typed: object, *arguments: str, **variables: str) -> Ended:
        body = typed if isinstance(typed, bytes) else json.dumps(typed).encode()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
            for name, value in {"UPSTREAM_BASE_URL": DOWN, **variables}.items():
                patch.setenv(f"CHAT_PROXY_{name}", value)
            code = await asyncio.to_thread(leave, "explain", *(arguments or ("-",)))
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return explain


def leave(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    return int(str(left.value.code or 0))


async def lists(received: Received, line: Line) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 1}
    await answer_json(line, MODELS if received.method == "GET" else {**COMPLETION, "usage": usage})


async def test_it_tells_that_digits_are_counted_one_by_one(explained: Explained) -> None:
    ended = await explained({"model": "qwen3:8b", "messages": []})

    assert "counted by o200k_base with single digits, not calibrated yet" in ended.out


async def test_it_prints_a_table(tmp_path: Path) -> None:
    async with fake_model(lists) as model:
        file = tmp_path / "request.json"
        file.write_text(json.dumps(REQUEST))
        ended = await run_command("explain", str(file), cwd=tmp_path, UPSTREAM_BASE_URL=model.url)

        assert {request.method for request in model.requests} == {"GET"}
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert lines[0] == "model   fake"
    assert lines[1].endswith("counted by o200k_base, not calibrated yet")
    assert "images 1,600" in lines[2]
    assert lines[3].startswith("window  4,096 (discovery); this request fills ")
    assert lines[4] == ("budget  usable 3,796, reserve 300, prepare at 2,467, compact at 3,036")
    assert lines[5] == "mode    on; this request would be sent as: trimmed"
    assert lines[6].startswith("stage   limit_vision_history: 5 -> 2 messages, ")
    assert lines[8].split() == ["#", "turn", "group", "role", "tokens", "after", "what"]
    assert [[*line.split()[:4], line.split()[5]] for line in lines[9:14]] == [
        ["0", "-", "0", "system", "="],
        ["1", "0", "1", "user", "-"],
        ["2", "0", "2", "assistant", "-"],
        ["3", "0", "2", "tool", "-"],
        ["4", "1", "3", "user", "="],
    ]
    assert lines[15].split() == ["#", "image", "size", "tokens", "family", "what"]
    assert lines[16].split()[3:5] == ["1,600", "unknown"]
    assert lines[-2].split() == ["tool", "tokens"]
    assert lines[-1].split()[0] == "read_file"


async def test_json_is_what_the_route_tells(explained: Explained) -> None:
    body = json.dumps(REQUEST).encode()
    async with fake_model(lists) as model:
        ended = await explained(body, "-", "--json", UPSTREAM_BASE_URL=model.url)
        async with running_proxy(model.url) as proxy, raw_client(proxy) as client:
            request = chat_request(body).replace(b"/chat/completions", b"/chat/explain", 1)
            await client.send(request)
            answer = await client.answer()

    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == json.loads(answer.body)


async def test_it_reads_the_standard_input_and_says_that_the_window_is_unknown() -> None:
    typed = json.dumps(REQUEST).encode()
    ended = await run_command("explain", "-", typed=typed, UPSTREAM_BASE_URL=DOWN)

    assert (ended.code, ended.err) == (0, "")
    assert (
        "window  unknown; set it in the registry or by CHAT_PROXY_BUDGET_CONTEXT_WINDOW"
        in ended.out.splitlines()
    )
    assert "budget" not in ended.out


async def test_it_leaves_no_file_behind(explained: Explained, tmp_path: Path) -> None:
    ended = await explained(REQUEST)

    assert ended.code == 0
    assert names_in(tmp_path) == []


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_request_over_the_trigger_says_so(explained: Explained) -> None:
    ended = await explained(REQUEST, BUDGET_CONTEXT_WINDOW="2000")

    assert "window  2,000 (setting); this request fills 1" in ended.out
    assert ended.out.splitlines()[4].endswith(": over it")


async def test_what_is_no_request_is_one_line_of_a_real_process(tmp_path: Path) -> None:
    missing, broken = await asyncio.gather(
        run_command("explain", "missing.json", cwd=tmp_path),
        run_command("explain", "-", typed=b'{"messages": ['),
    )

    assert (missing.code, missing.out) == (broken.code, broken.out) == (2, "")
    assert missing.err == "chat-proxy: missing.json: No such file or directory\n"
    assert broken.err.startswith("chat-proxy: -: The body is not valid JSON")
    assert broken.err.count("\n") == 1


async def test_what_cannot_be_read_is_one_line(explained: Explained, tmp_path: Path) -> None:
    (tmp_path / "x.db").mkdir()
    store = {"STORE_URL": f"sqlite:///{tmp_path}/x.db", "STORE_REQUIRED": "true"}
    ended = [
        await explained(b"", str(tmp_path)),
        await explained(b""),
        await explained(b"\xff\xfe"),
        await explained(b"[]"),
        await explained({"messages": 1}),
        await explained(REQUEST, STORE_URL="nonsense:"),
        await explained(REQUEST, **store),
        await explained(REQUEST, SERVER_PROT="1"),
    ]

    assert {(one.code, one.out, one.err.count("\n")) for one in ended} == {(2, "", 1)}
    assert ended[0].err == f"chat-proxy: {tmp_path}: Is a directory\n"
    assert ended[4].err == "chat-proxy: -: messages must be a list of objects.\n"
    assert ended[6].err.startswith("chat-proxy: CHAT_PROXY_STORE_URL: ")


async def test_names_play_no_tricks_on_the_terminal(explained: Explained) -> None:
    trick = "\x1b]0;owned\x07\x9b31m\u202e\r\nx"
    request = {
        "model": trick,
        "messages": [{"role": trick, "content": trick}],
        "tools": [{"function": {"name": trick}}, {"function": {"name": "\ud83d 漢字"}}],
    }
    ended = await explained(request)

    assert ended.code == 0
    assert all(line.isprintable() for line in ended.out.split("\n"))
    assert "model   \\x1b]0;owned\\x07\\x9b31m\\u202e\\r\\nx" in ended.out
    assert "\\ud83d" in ended.out


async def test_shapes_of_real_clients_are_explained(explained: Explained) -> None:
    for shape in SHAPES:
        ended = await explained(shape, "-", "--json")
        table = await explained(shape)

        assert (ended.code, table.code) == (0, 0)
        told = json.loads(ended.out)
        assert len(told["messages"]) == len(shape["messages"])
        assert told["tokens"]["is_guess"] is False


async def test_what_the_proxy_learned_counts_here_too(explained: Explained, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    messages = [{"role": "user", "content": "some words " * 20}]
    request = {"model": "fake", "messages": messages}
    async with fake_model(lists) as model:
        proxy_there = running_proxy(model.url, store={"url": url})
        async with proxy_there as proxy, raw_client(proxy) as client:
            for _ in range(3):
                await client.send(chat_request(chat_body(messages=messages)))
                assert (await client.answer()).status == 200
        ended = await explained(request, UPSTREAM_BASE_URL=model.url, STORE_URL=url)

    assert "calibrated by 3 answers" in ended.out
