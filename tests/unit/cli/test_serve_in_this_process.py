"""Serving from the test's own process, so that signals, branches and exit codes are seen."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from chat_proxy.cli import main as cli
from chat_proxy.cli.serve import SWITCH_SECONDS, serve_here, shorten_switch_interval
from chat_proxy.http.process.workers import CANNOT_START, Workers
from chat_proxy.telemetry.logs import configure_logging
from tests.support.live import settings

TWO_WORKERS = {"SERVER_WORKERS": "2", "SERVER_DRAIN_GRACE_SECONDS": "0"}


@pytest.fixture
def _log_as_before() -> Iterator[None]:
    yield
    configure_logging("error", "json", sys.stderr)


@pytest.fixture
def _switch_interval_as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switch_interval_as_before")
def test_a_thread_passes_the_interpreter_on_within_a_millisecond() -> None:
    shorten_switch_interval()

    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert SWITCH_SECONDS <= 0.001


def unheard(_: int) -> None:
    """Take what workers tell about those that have ended."""


def test_workers_of_which_the_first_cannot_start_end_with_its_code() -> None:
    workers = Workers(2, sys.exit, (CANNOT_START,), on_exit=unheard, on_deaths=unheard)

    assert workers.run() == CANNOT_START


def test_workers_run_until_a_signal_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    workers = Workers(1, time.sleep, (60,), on_exit=unheard, on_deaths=unheard)

    def kill_one_then_stop() -> None:
        while not workers._first:
            time.sleep(0.02)
        [process] = workers._first
        process.kill()
        while process in workers._processes or not workers._processes:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=kill_one_then_stop).start()

    assert workers.run() == 0
    assert signal.getsignal(signal.SIGTERM) is before


def interrupt_when_it_answers(url: str, number: int, answers: list[int]) -> None:
    """From another thread: ask until there is an answer, then send this process a signal."""

    def run() -> None:
        with httpx.Client(trust_env=False, verify=False) as client:
            while not answers:
                try:
                    answers.append(client.get(url).status_code)
                except httpx.TransportError:
                    time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=run).start()


@pytest.mark.usefixtures("_log_as_before")
def test_workers_serve_from_this_process_and_end_at_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {**TWO_WORKERS, "SERVER_PORT": str(port), "LOG_LEVEL": "error"}.items():
        monkeypatch.setenv(f"CHAT_PROXY_{name}", value)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    answers: list[int] = []

    interrupt_when_it_answers(f"http://127.0.0.1:{port}/metrics", signal.SIGTERM, answers)
    with pytest.raises(SystemExit) as left:
        cli.main(["serve"])

    assert left.value.code == 0
    assert answers == [200]


@pytest.mark.usefixtures("_log_as_before")
def test_a_configuration_that_went_bad_is_told_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "registry.json"
    file.write_text("{")

    with pytest.raises(SystemExit) as left, socket.create_server(("127.0.0.1", 0)) as listener:
        serve_here(settings(registry={"file": file}), {}, listener)

    assert left.value.code == CANNOT_START
    line = json.loads(capsys.readouterr().err)
    assert line["message"] == "the configuration cannot be used any more"
    assert line["reason"].startswith(f"{file}: is not JSON")


@pytest.mark.usefixtures("_log_as_before")
def test_the_demo_serves_in_this_process_and_ends_at_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("CHAT_PROXY_SERVER_PORT", str(port))
    monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", "::1")
    answers: list[int] = []

    interrupt_when_it_answers(f"http://[::1]:{port}/v1/models", signal.SIGINT, answers)
    with pytest.raises(SystemExit) as left:
        cli.main(["demo", "--window", "1000"])

    assert left.value.code == 0
    assert answers == [200]
    said = " ".join(capsys.readouterr().out.split())
    assert f"a 1000-token demo model behind the proxy at http://[::1]:{port}/v1" in said
