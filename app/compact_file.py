"""`chat-proxy compact FILE`: a request body with its older messages folded into a summary."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from app.chat.request import read_request
from app.environment import BadConfiguration
from app.errors import BadRequest
from app.explain_file import read_body, without_new_store
from app.proxy.caller import NOBODY
from app.proxy.case import Case, body_of
from app.proxy.counted import counted_case
from app.proxy.manual import ByHand, Wish, compact_by_hand
from app.proxy.services import Services
from app.routes.compact import document_of, required_model
from app.server import make_services
from app.settings import Settings
from app.store.base import StoreUnavailable
from app.telemetry.logs import configure_logging

PROGRESS_SECONDS = 0.5
CLEAR_LINE = "\r\x1b[K"


def compact_file(
    settings: Settings, variables: Mapping[str, str], name: str, wish: Wish, *, as_json: bool
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
        case, done = asyncio.run(compact_body(body, services, wish))
    except BadRequest as error:
        raise BadConfiguration(f"{name}: {error.message}") from None
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    sys.stderr.write(f"chat-proxy: {told(done)}\n")
    if done.has_failed:
        return 1
    printed = document_of(case, done) if as_json else body_of(case, done.conversation)
    sys.stdout.buffer.write(printed.rstrip() + b"\n")
    return 0


async def compact_body(body: bytes, services: Services, wish: Wish) -> tuple[Case, ByHand]:
    """Compact a request body, with a sign of progress on a terminal."""
    request = read_request(body, services.limits)
    required_model(request)
    await services.open()
    try:
        case = await counted_case(request, NOBODY, "compact-file", services)
        async with progress(len(case.conversation)):
            return case, await compact_by_hand(case, services, wish)
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


def told(done: ByHand) -> str:
    """Return what became of the conversation as one line."""
    if done.has_failed:
        return f"not compacted: {done.note}"
    figures = (
        f"{done.messages_compacted:,} messages compacted, "
        f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
    )
    return f"{figures}; {done.note}" if done.note else figures
