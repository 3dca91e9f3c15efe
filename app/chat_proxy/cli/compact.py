"""`chat-proxy compact FILE`: a request body with its older messages folded into a summary."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from chat_proxy.chat.body.request import read_request
from chat_proxy.cli.explain import read_body, without_new_store
from chat_proxy.config.environment import BadConfiguration
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadRequest
from chat_proxy.proxy.manual.compact import ManualOptions, ManualResult, compact_manually
from chat_proxy.proxy.routing.caller import NOBODY
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, body_of, counted_request
from chat_proxy.routes.compact import document_of, required_model
from chat_proxy.server import make_services
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.telemetry.logs import configure_logging

PROGRESS_SECONDS = 0.5
CLEAR_LINE = "\r\x1b[K"


def compact_file(
    settings: Settings,
    variables: Mapping[str, str],
    name: str,
    wish: ManualOptions,
    *,
    as_json: bool,
) -> int:
    """Print a compacted request body; return 1 if there is no summary.

    Raise BadConfiguration if the body cannot be read.
    """
    if wish.keep < 1:
        raise BadConfiguration(f"--keep {wish.keep}: must be at least 1")
    configure_logging("error", settings.log.format)
    body = read_body(name)
    services = make_services(without_new_store(settings), variables)
    try:
        compaction, done = asyncio.run(compact_body(body, services, wish))
    except BadRequest as error:
        raise BadConfiguration(f"{name}: {error.message}") from None
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    sys.stderr.write(f"chat-proxy: {told(done)}\n")
    if done.has_failed:
        return 1
    printed = document_of(compaction, done) if as_json else body_of(compaction, done.conversation)
    sys.stdout.buffer.write(printed.rstrip() + b"\n")
    return 0


async def compact_body(
    body: bytes, services: Services, wish: ManualOptions
) -> tuple[CompactionRequest, ManualResult]:
    """Compact a request body, with a sign of progress on a terminal."""
    request = read_request(body, services.limits)
    required_model(request)
    await services.open()
    try:
        compaction = await counted_request(request, NOBODY, "compact-file", services)
        async with progress(len(compaction.conversation)):
            return compaction, await compact_manually(compaction, services, wish)
    finally:
        await services.close()


@asynccontextmanager
async def progress(messages: int) -> AsyncIterator[None]:
    """Show on a terminal how long the work takes already; show nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    showing = asyncio.create_task(_show(messages))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait({showing})
        sys.stderr.write(CLEAR_LINE)


async def _show(messages: int) -> None:
    started = time.monotonic()
    while True:
        seconds = time.monotonic() - started
        sys.stderr.write(
            f"{CLEAR_LINE}chat-proxy: compacting {messages:,} messages, {seconds:.0f} s"
        )
        sys.stderr.flush()
        await asyncio.sleep(PROGRESS_SECONDS)


def told(done: ManualResult) -> str:
    """Return what became of the conversation as one line."""
    if done.has_failed:
        return f"not compacted: {done.note}"
    figures = (
        f"{done.messages_compacted:,} messages compacted, "
        f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
    )
    return f"{figures}; {done.note}" if done.note else figures
