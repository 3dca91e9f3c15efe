"""What all journeys share: code that is not watched while timed."""

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from chat_proxy.cli.serve import freeze_garbage_collector, shorten_switch_interval


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
