"""`chat-proxy purge`: delete data from the archive and the store permanently."""

import asyncio
import re
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.cli.terminal.progress import progress
from chat_proxy.config.environment import read_settings
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.proxy.routing.caller import ANONYMOUS_TENANT
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.files import DIALOG, RESULTS
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.factory import MEMORY, SQLITE
from chat_proxy.store.purge_selection import Purged, Selection
from chat_proxy.store.sqlite.store import SqliteStore

STANDARD_INPUT = "-"
WAIT_SECONDS = 30.0

_HASH = re.compile(r"[0-9a-f]{64}")


def run(options: Namespace) -> int:
    """Run the command."""
    settings = read_settings(*sources_of(options))
    return purge(settings, options.older_than, options.tenant, everything=options.all)


def purge(
    settings: Settings, older_than_days: float | None, tenant: str | None, *, everything: bool
) -> int:
    """Delete by age, by tenant or everything; return 1 if something could not be deleted.

    Raise BadConfiguration if the selection is missing or contradictory.
    """
    owner = None if tenant is None else tenant_of(tenant)
    try:
        selection = Selection.of(older_than_days, owner, time.time(), everything=everything)
    except ValueError as error:
        raise BadConfiguration(f"purge: {error}") from None
    with progress("searching for data to delete"):
        purged, failures = asyncio.run(_purge_all(settings, selection))
    return _report(purged, failures)


def tenant_of(name: str) -> str:
    """Return the tenant named by a hash; for `-` read its API key from the standard input.

    A key is never an argument: other users of the machine can see arguments.
    """
    if name == STANDARD_INPUT:
        key = sys.stdin.buffer.read().strip()
        if not key:
            raise BadConfiguration("--tenant -: there is no API key on the standard input")
        return sha256(key).hexdigest()
    if name == ANONYMOUS_TENANT or _HASH.fullmatch(name):
        return name
    raise BadConfiguration(
        "--tenant: a tenant is named by the SHA-256 of its API key in hex, or anonymous; "
        "use - to read the key from the standard input"
    )


async def _purge_all(settings: Settings, selection: Selection) -> tuple[Purged, list[str]]:
    """Delete from archive and store, each even if the other fails; return the failures."""
    purged = Purged()
    failures: list[str] = []
    parts: list[Callable[[Settings, Selection], Awaitable[Purged]]] = [_purge_archive, _purge_store]
    for part in parts:
        try:
            purged += await part(settings, selection)
        except StoreUnavailable as error:
            failures.append(str(error))
    return purged, failures


def _report(purged: Purged, failures: list[str]) -> int:
    """Print what was deleted and what was not; return the exit code."""
    for failure in failures:
        sys.stderr.write(f"chat-proxy: not purged: {failure}\n")
    sys.stdout.write(
        f"purged {purged.files:,} files, {purged.lines:,} lines, {purged.rows:,} rows: "
        f"{purged.bytes:,} bytes\n"
    )
    return 1 if failures else 0


async def _purge_archive(settings: Settings, selection: Selection) -> Purged:
    folder = settings.archive.dir
    if not any((folder / name).exists() for name in (DIALOG, RESULTS)):
        return Purged()
    archive = Archive(folder, settings.archive.retention_days, wait_seconds=WAIT_SECONDS)
    try:
        return await archive.purge(selection)
    finally:
        await archive.close()


async def _purge_store(settings: Settings, selection: Selection) -> Purged:
    path = _store_file(settings.store.url)
    if path is None:
        return Purged()
    secret = settings.store.secret
    key = secret.get_secret_value().encode() if secret else None
    store = SqliteStore(path, key, notice=_report_fault, wait_seconds=WAIT_SECONDS)
    try:
        await store.open()
        return await store.purge(selection)
    finally:
        await store.close()


def _store_file(url: str) -> Path | None:
    """Return the store's file if there is one; raise StoreUnavailable if the store is elsewhere."""
    if not url.startswith((SQLITE, MEMORY)):
        raise StoreUnavailable("the store is not a file; its rows expire by themselves")
    path = Path(url.removeprefix(SQLITE))
    return path if url.startswith(SQLITE) and path.exists() else None


def _report_fault(operation: str, reason: str) -> None:
    sys.stderr.write(f"chat-proxy: store fault during {operation}: {reason}\n")
