"""The start says what runs where; asking the upstream neither delays the start nor fails it."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chat_proxy import __version__
from chat_proxy.cli.check_config import ANSWERS, UpstreamAnswer
from chat_proxy.cli.terminal import start_banner
from chat_proxy.cli.terminal.start_banner import (
    SENTENCE,
    announce,
    archive_of,
    banner_of,
    dashboard_of,
    identity_of,
    store_of,
    text_of,
)
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.wiring import make_services
from tests.support.command import ask, running_command
from tests.support.fake_model import Line, Received, answer_json, fake_model, polite
from tests.support.live import eventually, settings

ADDRESS = "http://127.0.0.1:8100"
GONE = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    yield
    configure_logging("error", "json")


async def silent(_: Received, __: Line) -> None:
    await asyncio.sleep(30)


async def wants_a_key(_: Received, line: Line) -> None:
    await answer_json(line, {"error": {"message": "sk-canary"}}, 401)


def banner_with(answers: list[UpstreamAnswer] | None = None, **sections: Any) -> dict[str, Any]:
    chosen = settings(**sections)
    return banner_of(chosen, make_services(chosen, {}), answers or [], ADDRESS)


@pytest.mark.anyio
async def test_a_start_is_one_structured_line(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "mine", "context_window": 9_000}]))
    async with (
        fake_model(polite) as model,
        running_command(
            "serve",
            UPSTREAM_BASE_URL=model.url,
            REGISTRY_FILE=str(registry),
            STORE_URL=f"sqlite:///{tmp_path}/chat-proxy.db",
            ARCHIVE_FILES="true",
            ARCHIVE_DIR=str(tmp_path),
        ) as command,
    ):
        url = await command.url()
        (line,) = await command.said(SENTENCE)

    assert {name: value for name, value in line.items() if name not in ("time", "message")} == {
        "level": "info",
        "version": __version__,
        "address": f"{url}/v1",
        "mode": "on",
        "upstreams": {model.url: "answers"},
        "models": {"mine": 9_000, "fake": 4_096},
        "store": f"{tmp_path}/chat-proxy.db, not encrypted",
        "archive": f"{tmp_path}, originals of compacted messages as plain text, for 5 days",
        "clients": "send their own key, which the upstream gets",
        "dashboard": f"{url}/dashboard",
    }


@pytest.mark.anyio
async def test_on_a_terminal_it_is_a_block() -> None:
    async with (
        fake_model(polite) as model,
        running_command(
            "serve", UPSTREAM_BASE_URL=model.url, STORE_URL="memory:", LOG_FORMAT="text"
        ) as command,
    ):
        await eventually(lambda: any("dashboard" in line for line in command.err))
        told = "".join(command.err)

    assert f"chat-proxy {__version__} at http://127.0.0.1:" in told
    assert f"\n  upstreams  {model.url}: answers\n" in told
    assert "\n  models     fake: 4,096 tokens\n" in told
    assert "\n  store      in memory; nothing is left after a stop\n" in told


@pytest.mark.anyio
async def test_several_workers_say_it_once() -> None:
    async with running_command("serve", "--workers", "2", UPSTREAM_BASE_URL=GONE) as command:
        await command.said("server started", times=2)
        said = await command.said(SENTENCE)

    assert len(said) == 1


@pytest.mark.anyio
async def test_an_upstream_that_is_gone_is_a_warning_and_the_proxy_serves() -> None:
    async with running_command("serve", UPSTREAM_BASE_URL=GONE) as command:
        answer = await ask(f"{await command.url()}/health")
        (line,) = await command.said(SENTENCE)

    assert answer.json() == {"status": "ok"}
    assert line["level"] == "warning"
    assert line["upstreams"] == {GONE: "The upstream refused the connection."}
    assert line["models"] == {}


@pytest.mark.anyio
async def test_an_upstream_that_is_silent_does_not_delay_the_start() -> None:
    log = io.StringIO()
    configure_logging("info", "json", log)
    async with fake_model(silent) as model:
        chosen = settings(model.url, log={"format": "json"})
        thread = announce(chosen, make_services(chosen, {}), ADDRESS)
        said_at_first, goes_on = log.getvalue(), thread.is_alive()
        await asyncio.to_thread(thread.join, 30)

    assert goes_on
    assert said_at_first == ""
    line = json.loads(log.getvalue())
    assert (line["level"], line["upstreams"]) == ("warning", {model.url: "no answer in time"})


@pytest.mark.anyio
async def test_an_upstream_that_asks_clients_for_a_key_answers() -> None:
    async with (
        fake_model(wants_a_key) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url) as command,
    ):
        (line,) = await command.said(SENTENCE)

    assert line["level"] == "info"
    assert line["upstreams"] == {model.url: "ok; it requires a key, which clients must send"}


def test_a_mistake_of_the_banner_is_logged_and_ends_only_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(start_banner, "banner_of", fail)
    chosen, log = settings(GONE), io.StringIO()
    configure_logging("error", "json", log)

    announce(chosen, make_services(chosen, {}), ADDRESS).join(60)

    line = json.loads(log.getvalue())
    assert line["message"] == "the start could not be described"
    assert line["exception"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("level", "answers", "is_written"),
    [("info", True, True), ("warning", True, False), ("warning", False, True)],
)
def test_a_block_obeys_the_level_of_the_log(
    level: str, answers: bool, is_written: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = settings(log={"level": level, "format": "text"})
    said = [UpstreamAnswer(GONE, answers, ANSWERS, {})]

    start_banner.write_banner(chosen, banner_with(said), said)

    assert bool(capsys.readouterr().err) is is_written


def test_no_password_is_told() -> None:
    chosen = settings(
        store={"url": "redis://:canary@redis/0", "secret": "canary"}, auth={"keys": "canary,b"}
    )

    told = f"{store_of(chosen)} {identity_of(chosen)}"

    assert "canary" not in told
    assert told == "redis://***@redis/0 must send one of 2 keys (CHAT_PROXY_AUTH_KEYS)"


def test_a_key_of_the_proxy_is_told_without_it() -> None:
    chosen = settings(upstream={"api_key": "sk-canary"})

    assert identity_of(chosen) == "need no key; the upstream gets CHAT_PROXY_UPSTREAM_API_KEY"


@pytest.mark.parametrize(
    ("archive", "told"),
    [
        ({"enabled": False}, "off: originals of compacted messages are not kept"),
        ({"files": False}, "only in the store, as plain text, for 5 days"),
        (
            {"dir": "/srv", "retention_days": 1},
            "/srv, originals of compacted messages as plain text, for 1 day",
        ),
    ],
)
def test_it_says_where_originals_are_kept_and_how_long(archive: dict[str, Any], told: str) -> None:
    assert archive_of(settings(archive=archive)) == told


@pytest.mark.parametrize(
    ("address", "sections", "url"),
    [
        ("http://0.0.0.0:8100", {}, "http://127.0.0.1:8100/dashboard"),
        ("http://[::]:8100", {}, "http://[::1]:8100/dashboard"),
        ("http://10.0.0.1:1", {"dashboard": {"enabled": False}}, "off"),
        (
            "http://10.0.0.1:1",
            {"auth": {"admin_key": "canary"}},
            "http://10.0.0.1:1/dashboard, with CHAT_PROXY_AUTH_ADMIN_KEY",
        ),
    ],
)
def test_the_dashboard_has_a_url_that_a_browser_can_open(
    address: str, sections: dict[str, Any], url: str
) -> None:
    assert dashboard_of(settings(**sections), address) == url


def test_many_models_are_counted_instead_of_listed() -> None:
    reported = {f"model-{number}": 1_000 for number in range(400)}

    models = banner_with([UpstreamAnswer(GONE, True, ANSWERS, reported)])["models"]

    assert len(models) == 9
    assert models["model-0"] == 1_000
    assert models["others"] == "392 more"


def test_the_window_of_the_settings_counts_before_the_reported_one() -> None:
    said = [UpstreamAnswer(GONE, True, ANSWERS, {"m": 1_000})]

    assert banner_with(said, budget={"context_window": 500})["models"] == {"m": 500}


def test_a_model_s_name_cannot_control_the_terminal(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "m\u001b[2J"}]))

    lines = list(text_of(banner_with(registry={"file": registry})))

    assert r"  models     m\x1b[2J: window unknown" in lines


def test_data_of_the_working_directory_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "dialog").mkdir(parents=True)

    banner = banner_with(archive={})

    assert str(banner["notice"]).startswith(f"{tmp_path}/data has data of an earlier start")


def test_a_single_key_is_told_as_one() -> None:
    told = identity_of(settings(auth={"keys": "canary"}))

    assert told == "must send the key (CHAT_PROXY_AUTH_KEYS)"


def test_long_lines_go_on_below_on_a_narrow_terminal() -> None:
    banner: dict[str, object] = {
        "version": "1.0",
        "address": "http://127.0.0.1:8100/v1",
        "archive": "/home/ann/.local/share/chat-proxy, originals as plain text, for 5 days",
    }

    assert list(start_banner.text_of(banner, 60)) == [
        "chat-proxy 1.0 at http://127.0.0.1:8100/v1",
        "  archive    /home/ann/.local/share/chat-proxy, originals as",
        "             plain text, for 5 days",
    ]
    assert len(list(start_banner.text_of(banner))) == 2
