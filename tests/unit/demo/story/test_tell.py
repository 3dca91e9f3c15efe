"""The demo's story: what its table shows, and how it ends whatever happens to it."""

import asyncio
import io
import json
import os
import pty
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from chat_proxy.cli.demo import WHAT_TO_TRY, for_demo, for_story, run_demo, running_model, stage_of
from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.model.template import IMAGE_TOKENS
from chat_proxy.demo.real.model import NAME
from chat_proxy.demo.story.script import log_of, plain_turns, png_url, turns
from chat_proxy.demo.story.table import Table, Told, done_in, figure, fitted
from chat_proxy.demo.story.tell import (
    PlainClient,
    Reply,
    SdkClient,
    Stage,
    Story,
    StoryFailed,
    make_client,
    run_story,
)
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.tokens.images.size import image_size
from tests.support.clock import own_seconds_to_end, own_time
from tests.support.command import ROOT, environment
from tests.support.live import running_proxy, settings

WINDOW = 4096
BUILT = {
    "x-chat-proxy-tokens-before": "9000",
    "x-chat-proxy-tokens-after": "2500",
    "x-chat-proxy-compaction": "built",
    "x-chat-proxy-stages": "truncate_tool_output,summary",
}


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    """A stream that nobody reads any more."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


class CutOff:
    """A proxy whose every answer is a tool call without an end."""

    messages: list[dict[str, Any]]

    async def ask(self, fields: dict[str, Any]) -> Reply:
        self.messages = fields["messages"]
        function = {"name": "read_log", "arguments": '{"path": "a'}
        return Reply({}, {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]})


@asynccontextmanager
async def stage(window: int = WINDOW, **options: Any) -> AsyncIterator[Stage]:
    """The proxy in front of a demo model that speaks without pauses."""
    with running_model(DemoModel(window, words_per_second=0)) as url:
        media = {"image_token_estimate": IMAGE_TOKENS}
        async with running_proxy(url, tools={"max_bytes": window}, media=media) as proxy:
            yield Stage(proxy.url, "anything", window, **options)


async def told(where: Stage, is_up: Callable[[], bool] = lambda: True) -> str:
    """Tell the story from a thread, as the demo does; return what it says."""
    out = io.StringIO()
    await asyncio.to_thread(run_story, where, out, is_up)
    return out.getvalue()


def without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)


def is_figure(word: str) -> bool:
    return word.replace(",", "").isdigit()


def rows_of(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines() if " -> " in line]


# the whole story


@pytest.mark.anyio
@pytest.mark.parametrize("has_sdk", [True, False])
async def test_every_kind_of_compaction_is_in_the_story(
    has_sdk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_sdk:
        without_sdk(monkeypatch)
    async with stage() as where:
        said = await told(where)

    rows = rows_of(said)
    assert 20 <= len(rows) <= 30
    done = {word for row in rows for word in row[-1].split("+")}
    assert {"none", "cut", "aged", "reused", "vision"} <= done
    assert f"\n{len(rows)} requests: " in said
    assert said.endswith(
        f"See all requests on {where.root}/dashboard\nThe proxy stays up; Ctrl-C stops it.\n"
    )


@pytest.mark.anyio
@pytest.mark.parametrize("window", [2048, WINDOW, 16_384])
async def test_the_counts_grow_with_the_chat_and_each_row_has_its_own_savings(window: int) -> None:
    """A count that falls while a chat grows looks like a mistake, even if it corrects one."""
    async with stage(window) as where:
        said = await told(where)

    figures = [
        [int(word.replace(",", "")) for word in row if is_figure(word)] for row in rows_of(said)
    ]
    before, sent, saved = zip(*(row[-3:] for row in figures), strict=True)
    assert list(before) == sorted(before)
    assert [was - now for was, now in zip(before, sent, strict=True)] == list(saved)
    assert f"{sum(before):,} tokens received, {sum(sent):,} sent." in said
    assert f"Saved in all: {sum(saved):,} tokens" in said


@pytest.mark.anyio
async def test_no_line_is_wider_than_a_small_terminal() -> None:
    async with stage() as where:
        said = await told(where)

    assert max(map(len, said.splitlines())) <= 80
    what_to_try = WHAT_TO_TRY.format(
        window=WINDOW, kind="demo", model=NAME, url="http://127.0.0.1:65535/v1", root="http://x"
    )
    assert max(map(len, what_to_try.splitlines())) <= 80


@pytest.mark.anyio
async def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    async with stage(has_dashboard=False) as where:
        said = await told(where)

    assert said.isascii()
    assert "\x1b" not in said
    assert "\r" not in said
    assert "dashboard" not in said


# how it ends


@pytest.mark.anyio
@pytest.mark.parametrize("has_sdk", [True, False])
async def test_a_refused_request_is_one_line(
    has_sdk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_sdk:
        without_sdk(monkeypatch)
    async with stage(window=60) as where:
        said = await told(where)

    last = said.splitlines()[-1]
    assert last.startswith("chat-proxy demo: the story ends early: ")
    assert "400" in last
    assert "maximum context length is 60 tokens" in last
    assert has_sdk or '{"error"' not in last
    assert last.endswith("; the proxy stays up.")
    assert len(rows_of(said)) == 0


@pytest.mark.anyio
async def test_a_proxy_that_is_not_there_is_one_line() -> None:
    said = await told(Stage("http://127.0.0.1:1", "anything", WINDOW))

    assert said.startswith("chat-proxy demo: the story ends early: ")
    assert said.count("\n") == 1


@pytest.mark.anyio
async def test_what_fails_because_the_proxy_stops_is_not_told() -> None:
    looks = iter([True])

    said = await told(Stage("http://127.0.0.1:1", "anything", WINDOW), lambda: next(looks, False))

    assert said == ""


@pytest.mark.anyio
async def test_a_running_request_is_let_go_when_the_proxy_stops() -> None:
    began, began_own = time.monotonic(), own_time()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Stage(f"http://127.0.0.1:{silent.getsockname()[1]}", "anything", WINDOW)
        said = await told(where, lambda: time.monotonic() - began < 0.3)

    assert said == ""
    assert own_time() - began_own < 2


@pytest.mark.anyio
async def test_an_output_that_is_closed_ends_it_silently() -> None:
    async with stage() as where:
        await asyncio.to_thread(run_story, where, Closed(), lambda: True)


@pytest.mark.anyio
async def test_a_connection_that_breaks_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    without_sdk(monkeypatch)
    async with httpx.AsyncClient(trust_env=False) as http:
        client = make_client("http://127.0.0.1:1/v1", "anything", http)

        with pytest.raises(StoryFailed):
            await client.ask({})

    assert isinstance(client, PlainClient)


@pytest.mark.anyio
async def test_the_sdk_is_used_where_it_is_installed() -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        assert isinstance(make_client("http://127.0.0.1:1/v1", "anything", http), SdkClient)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"choices": []}', '{"choices": [{}]}'])
def test_an_answer_without_a_message_ends_the_story(body: str) -> None:
    with pytest.raises(StoryFailed, match="no message"):
        Reply.of({}, body)


@pytest.mark.anyio
async def test_a_tool_call_that_was_cut_off_has_a_result_too() -> None:
    client = CutOff()

    await Story(client, Table(io.StringIO()), 1000).tell()

    results = [message for message in client.messages if message["role"] == "tool"]
    assert {message["tool_call_id"] for message in results} == {"1"}


# the table


def test_on_a_terminal_a_request_shows_while_it_runs_and_news_stand_out() -> None:
    out = Terminal()
    table = Table(out)

    table.waiting(3, "a question")
    table.answered(3, "a question", Told.by(BUILT), 1.5)
    table.answered(4, "another", Told.by(BUILT), 0.1)

    running, first, second = out.getvalue().removesuffix("\n").split("\r\x1b[K")
    assert running.split() == ["3", "a", "question", "..."]
    assert first.startswith("\x1b[1m")
    assert first.endswith(" 9,000 ->   2,500   6,500  1.5 s built+cut\x1b[0m\n")
    assert "\x1b" not in second
    assert second.endswith(" 9,000 ->   2,500   6,500  0.1 s built+cut")


def test_a_request_the_proxy_says_nothing_about_has_no_tokens() -> None:
    assert Told.by({}) == Told(0, 0, ("-",))


def test_words_that_do_not_fit_are_left_out_whole() -> None:
    assert fitted(("reused", "cut", "aged"), 15) == "reused+cut+aged"
    assert fitted(("reused", "cut", "aged"), 14) == "reused+cut+.."
    assert fitted(("reused",), 3) == ".."


def test_figures_stay_short() -> None:
    assert [figure(it) for it in (7, 999_999, 12_345_678)] == ["7", "999,999", "12.3M"]


@pytest.mark.parametrize("compaction", ["built", "failed-open"])
def test_the_widest_row_fits(compaction: str) -> None:
    stages = "limit_vision_history,truncate_tool_output,age_tool_output,age_media,strip_media"
    out = io.StringIO()

    Table(out).answered(
        19,
        "a question about it",
        Told(999_999, 888_888, done_in(compaction, stages.split(","))),
        99.9,
    )

    assert len(out.getvalue().rstrip()) <= 80


# the script


def test_the_story_is_the_same_each_time_and_grows_with_the_window() -> None:
    small, large = list(turns(1000)), list(turns(100_000))

    assert small == list(turns(1000))
    assert [turn.says for turn in small] == [turn.says for turn in large]
    assert max(turn.log_lines for turn in large) > max(turn.log_lines for turn in small)
    assert log_of("a.log", 61).splitlines()[60].startswith("10:01:00 a.log request 60")


def test_a_plain_model_gets_the_logs_as_text_and_no_images() -> None:
    found = list(plain_turns(2_048))

    assert all(isinstance(turn.message()["content"], str) for turn in found)
    assert not any(turn.log_lines for turn in found)
    assert sum("took" in turn.says for turn in found) >= 10


def test_its_images_are_images() -> None:
    assert png_url(1) != png_url(2)
    assert image_size(png_url(80)) == (512, 384)


# around it


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    yield
    configure_logging("error", "json", sys.stderr)


def test_settings_that_somebody_chose_stay() -> None:
    chosen = settings(tools={"max_bytes": 7_000}, log={"level": "debug"})

    assert for_story(chosen, WINDOW) == chosen


def test_results_are_cut_to_fit_the_window_and_no_log_line_breaks_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())

    small, large = (for_story(settings(), window) for window in (WINDOW, 1_000_000))

    assert small.tools.max_bytes == WINDOW
    assert large.tools.max_bytes == settings().tools.max_bytes
    assert small.log.level == "error"


def test_the_demo_leaves_no_files_behind() -> None:
    chosen = for_demo(settings(archive={"files": True}), "http://127.0.0.1:1/v1")

    assert not chosen.archive.files


def test_the_story_has_a_key_where_one_is_needed() -> None:
    keys = {"keys": "sk-one,sk-two"}

    assert stage_of(settings(auth=keys), "http://x", 1).api_key == "sk-one"
    assert stage_of(settings(), "http://x", 1).api_key == "anything"


def test_the_thread_of_the_demo_model_ends_with_its_block() -> None:
    """A loop of uvloop that runs while the interpreter ends crashes one demo in sixteen."""
    with running_model(DemoModel()) as url:
        answer = httpx.get(f"{url}/models", trust_env=False)
        running = {thread.name for thread in threading.enumerate()}

    assert answer.status_code == 200
    assert "model" in running
    assert "model" not in {thread.name for thread in threading.enumerate()}


class Interrupting(io.StringIO):
    """An output that presses Ctrl-C when the first request is told."""

    def write(self, text: str) -> int:
        if " -> " in text:
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def test_a_story_that_is_asked_for_is_told_after_what_to_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In this process; without a terminal."""
    out = Interrupting()
    monkeypatch.setattr(sys, "stdout", out)

    code = run_demo(settings(log={"level": "error"}), WINDOW, story=True)

    assert code == 0
    assert out.getvalue().startswith("chat-proxy demo: a 4096-token demo model")
    assert 0 < out.getvalue().index("Ctrl-C stops it.") < out.getvalue().index(" -> ")
    assert "ends early" not in out.getvalue()


@pytest.mark.anyio
async def test_on_a_terminal_the_demo_tells_its_story_and_stops_at_once() -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chat_proxy", "demo"),
        env=environment({}), cwd=ROOT, stdout=theirs, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b" -> " not in said:
        said += await asyncio.to_thread(os.read, ours, 4096)
    process.send_signal(signal.SIGINT)
    (_, err), seconds = await asyncio.gather(process.communicate(), own_seconds_to_end(process))
    os.close(ours)

    assert process.returncode == 0
    assert seconds < 2
    assert b"Ctrl-C stops it." in said
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert messages[-1] == "server stopped"
