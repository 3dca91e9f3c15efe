"""What tests of counting share: the log as they go, and code that is not watched while timed."""

import gc
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chat_proxy.cli.serve import freeze_garbage_collector, shorten_switch_interval
from chat_proxy.telemetry.logs import configure_logging

Said = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def said() -> Iterator[Said]:
    """Return the log's lines with a sentence so far; afterwards all is as it was."""
    stream = io.StringIO()
    configure_logging("info", "json", stream)

    def find(sentence: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in lines if line["message"] == sentence]

    yield find
    configure_logging("error", "json", sys.stderr)


@pytest.fixture
def _untraced() -> Iterator[None]:
    """Let a test measure the code itself: no coverage tool, no garbage of all tests before it.

    Threads hand the interpreter over as soon as they do in a proxy that is served.
    """
    tracer, tracer_of_threads = sys.gettrace(), threading.gettrace()
    interval = sys.getswitchinterval()
    sys.settrace(None)
    threading.settrace(None)
    freeze_garbage_collector()
    shorten_switch_interval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()
    threading.settrace(tracer_of_threads)
    sys.settrace(tracer)
