"""`python -m tools.soak.small_proxy`: the proxy with small caches, so that they fill at once.

Memory that grows then is a leak: neither a cache on its way to its bound, nor what the C library
keeps of a busy second for the next one.
"""

import sys
import time
from contextlib import suppress
from ctypes import CDLL
from importlib import import_module
from threading import Thread

from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.cli.main import main
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter

BOUNDS = {
    "chat_proxy.proxy.session.recognition.checkpoints": {
        "LOCAL_BYTES": 1024 * 1024,
        "REMEMBERED_QUERIES": 500,
    },
    "chat_proxy.proxy.session.originals": {"REMEMBERED": 500},
    "chat_proxy.proxy.session.recognition.last_seen": {"REMEMBERED": 500},
    "chat_proxy.proxy.sizing.learned_windows": {"REMEMBERED_LESSONS": 100},
    "chat_proxy.proxy.session.offloads": {"REMEMBERED": 500},
    "chat_proxy.proxy.sizing.tokenizers": {"MAX_MESSAGES": 5_000},
    "chat_proxy.proxy.summaries.jobs": {"REMEMBERED_FAILURES": 500, "REMEMBERED_JOBS": 20},
    "chat_proxy.proxy.summaries.writing.ability": {"REMEMBERED_MODELS": 20},
    "chat_proxy.telemetry.chat_history": {"ROWS": 100, "DETAILS": 20},
}


def shrink_caches() -> None:
    """Set the bounds; one that is no longer there is a mistake here."""
    for module, bounds in BOUNDS.items():
        for name, bound in bounds.items():
            assert getattr(import_module(module), name) > bound
            setattr(import_module(module), name, bound)
    TiktokenCounter.__init__.__defaults__ = (1_000,)
    BodyPrefixes.__init__.__defaults__ = (64,)


def give_back_memory() -> None:
    """Return what is free to the system every second; only glibc can."""
    with suppress(OSError, AttributeError):
        trim = CDLL("libc.so.6").malloc_trim
        while True:
            time.sleep(1)
            trim(0)


if __name__ == "__main__":
    shrink_caches()
    Thread(target=give_back_memory, daemon=True).start()
    sys.exit(main(["serve"]))
