"""Read a request body for the commands that take one, without creating a store."""

import sys
from pathlib import Path

from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.store.factory import MEMORY, SQLITE

STANDARD_INPUT = "-"


def read_body(name: str) -> bytes:
    """Return the file's bytes, or those of the standard input for `-`."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadConfiguration(f"{name}: {error.strerror}") from None


def without_new_store(settings: Settings) -> Settings:
    """Return settings that use an existing store file but create none, and no archive."""
    archive = settings.archive.model_copy(update={"files": False})
    store, url = settings.store, settings.store.url
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        store = store.model_copy(update={"url": MEMORY})
    return settings.model_copy(update={"store": store, "archive": archive})
