"""Discovery: the context windows that upstreams report, refreshed in the background."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from chat_proxy.errors import UpstreamError, UpstreamFirstByteTimeout
from chat_proxy.http.headers import RawHeaders
from chat_proxy.registry.listing import read_kind, read_windows
from chat_proxy.tokens.overheads import UpstreamKind
from chat_proxy.upstream.client import Upstream

LISTING_SECONDS = 10
FIRST_SECONDS = 1.0
DIALLING_SECONDS = 0.15
RETRY_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Listing:
    """What an upstream reports about itself: its models' windows and its kind of server."""

    windows: Mapping[str, int]
    kind: UpstreamKind


UNKNOWN_LISTING = Listing({}, "unknown")


class Windows:
    """The listing of each upstream, keyed by base URL, which only the configuration sets.

    An upstream is asked again when its listing is old. Only the first requests wait for it.
    """

    def __init__(
        self,
        upstream: Upstream,
        refresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self.news = 0
        """The number of refreshes that have ended, with an answer or without."""
        self._known: dict[str, Listing] = {}
        self._asked_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_waits: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Cancel the running refreshes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def of(self, base_url: str, credentials: RawHeaders) -> Listing:
        """Return the listing of an upstream, and refresh it in the background when it is old.

        The first request to an upstream waits for the listing up to FIRST_SECONDS, and so do
        requests that come meanwhile; later ones do not wait. A refresh uses the credentials of the
        request that caused it: only a client or the configuration has a key for the upstream.
        """
        if base_url not in self._asked_at:
            refresh = self._begin_refresh(base_url, credentials)
            waiting = self._begin(self._wait_for_first(base_url, refresh))
            self._first_waits[base_url] = waiting
            waiting.add_done_callback(lambda _: self._first_waits.pop(base_url))
        elif self._clock() > self.good_until(base_url):
            self._begin_refresh(base_url, credentials)
        if base_url in self._first_waits:
            await asyncio.shield(self._first_waits[base_url])
        return self._known.get(base_url, UNKNOWN_LISTING)

    def good_until(self, base_url: str) -> float:
        """Return when the listing of an upstream is old; the upstream must have been asked."""
        return self._asked_at[base_url] + self._refresh_seconds

    def _begin_refresh(self, base_url: str, credentials: RawHeaders) -> asyncio.Task[None]:
        self._asked_at[base_url] = self._clock()
        return self._begin(self._refresh(base_url, credentials))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_for_first(self, base_url: str, refresh: asyncio.Task[None]) -> None:
        """Wait for the first listing, only briefly if the connection is not accepted."""
        await asyncio.wait({refresh}, timeout=DIALLING_SECONDS)
        if not refresh.done() and not self._upstream.is_dialling(base_url):
            await asyncio.wait({refresh}, timeout=FIRST_SECONDS - DIALLING_SECONDS)

    async def ask(self, base_url: str, credentials: RawHeaders) -> Listing:
        """Ask the upstream now and return its listing; raise UpstreamError without an answer."""
        headers = [(b"accept", b"application/json"), *credentials]
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                response = await self._upstream.fetch("GET", f"{base_url}/models", headers)
        except TimeoutError:
            raise UpstreamFirstByteTimeout from None
        if response.status_code != 200:
            raise UpstreamError(f"The upstream answered {response.status_code} to GET /models.")
        try:
            document = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            raise UpstreamError("The upstream's list of models is not JSON.") from None
        return Listing(read_windows(document), read_kind(document))

    async def _refresh(self, base_url: str, credentials: RawHeaders) -> None:
        """Refresh a listing; without an answer, keep the old one and ask again soon."""
        try:
            self._known[base_url] = await self.ask(base_url, credentials)
        except UpstreamError:
            wait = min(RETRY_SECONDS, self._refresh_seconds)
            self._asked_at[base_url] = self._clock() - self._refresh_seconds + wait
        self.news += 1
