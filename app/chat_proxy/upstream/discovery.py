"""Discovery: the context windows that upstreams report, refreshed in the background."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from chat_proxy.caches import LruCache
from chat_proxy.errors import UpstreamError, UpstreamFirstByteTimeout
from chat_proxy.http.headers import RawHeaders
from chat_proxy.registry.listing import read_bases, read_kind, read_names, read_windows
from chat_proxy.tokens.overheads import UpstreamKind
from chat_proxy.upstream.client import Upstream

LISTING_SECONDS = 10
FIRST_SECONDS = 1.0
DIALLING_SECONDS = 0.15
RETRY_SECONDS = 15
REMEMBERED = 1_000

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Listing:
    """What an upstream reports about itself: its models' windows and bases, its kind of server."""

    windows: Mapping[str, int]
    kind: UpstreamKind
    bases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The models that a model is made from, by its name."""
    names: frozenset[str] = field(default=frozenset(), compare=False)
    """The models that it lists, with a window or without."""

    def updated_by(self, newer: "Listing") -> "Listing":
        """Return both as one; what the newer one does not say stays known."""
        kind = self.kind if newer.kind == "unknown" else newer.kind
        bases = {**self.bases, **newer.bases}
        names = newer.names or self.names
        return Listing({**self.windows, **newer.windows}, kind, bases, names)


UNKNOWN_LISTING = Listing({}, "unknown")


@dataclass(slots=True)
class _Asker:
    """A credential with which an upstream is asked: when it was, and what it was told."""

    asked_at: float
    listing: Listing | None = None


def credential_key(credentials: RawHeaders) -> int:
    """Return the key of credentials in caches: a hash with a secret of the process."""
    return hash(tuple(credentials))


class Windows:
    """The listing of each upstream, keyed by base URL and credential, REMEMBERED of them.

    Each credential has its own: an upstream may list other models or windows for another key. What
    one is told is also the first guess for others, and never replaces what they were told. An
    upstream is asked again when a listing is old. Only the first requests wait for it.
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
        """The number of refreshes that changed a listing or had no answer."""
        self._common: dict[str, Listing] = {}
        self._askers: LruCache[_Key, _Asker] = LruCache(REMEMBERED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_waits: dict[_Key, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Cancel the running refreshes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def of(self, base_url: str, credentials: RawHeaders) -> Listing:
        """Return the listing of an upstream, and refresh it in the background when it is old.

        The first request with a credential waits for the listing up to FIRST_SECONDS, only briefly
        if another credential has one, and so do requests that come meanwhile; later ones do not
        wait. A refresh uses the credentials of the request that caused it: only a client or the
        configuration has a key for the upstream.
        """
        key = base_url, credential_key(credentials)
        asker = self._askers.get(key)
        if asker is None:
            asker = _Asker(0)
            self._askers.put(key, asker)
            refresh = self._begin_refresh(base_url, credentials, asker)
            waiting = self._begin(self._wait_for_first(base_url, refresh))
            self._first_waits[key] = waiting
            waiting.add_done_callback(lambda _: self._first_waits.pop(key, None))
        elif self._clock() > asker.asked_at + self._refresh_seconds:
            self._begin_refresh(base_url, credentials, asker)
        if key in self._first_waits:
            await asyncio.shield(self._first_waits[key])
        return asker.listing or self._common.get(base_url, UNKNOWN_LISTING)

    def lists(self, base_url: str, model: str) -> bool:
        """Return whether the upstream's latest listing, for whatever credential, has this model."""
        return model in self._common.get(base_url, UNKNOWN_LISTING).names

    def good_until(self, base_url: str, credentials: RawHeaders) -> float:
        """Return when the listing for these credentials is old, at once if it was never asked."""
        asker = self._askers.get((base_url, credential_key(credentials)))
        return asker.asked_at + self._refresh_seconds if asker else 0

    def _begin_refresh(
        self, base_url: str, credentials: RawHeaders, asker: _Asker
    ) -> asyncio.Task[None]:
        asker.asked_at = self._clock()
        return self._begin(self._refresh(base_url, credentials, asker))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_for_first(self, base_url: str, refresh: asyncio.Task[None]) -> None:
        """Wait for a first listing, only briefly if there is a guess or no connection."""
        await asyncio.wait({refresh}, timeout=DIALLING_SECONDS)
        has_guess = base_url in self._common
        if not refresh.done() and not has_guess and not self._upstream.is_dialling(base_url):
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
        return Listing(
            read_windows(document),
            read_kind(document),
            read_bases(document),
            read_names(document),
        )

    async def _refresh(self, base_url: str, credentials: RawHeaders, asker: _Asker) -> None:
        """Refresh a listing; without an answer, keep the old one and ask again soon."""
        try:
            told = await self.ask(base_url, credentials)
        except UpstreamError:
            wait = min(RETRY_SECONDS, self._refresh_seconds)
            asker.asked_at = self._clock() - self._refresh_seconds + wait
            self.news += 1
            return
        common = self._common.get(base_url, UNKNOWN_LISTING)
        known = common if asker.listing is None else common.updated_by(asker.listing)
        listing = known.updated_by(told)
        self._common[base_url] = common = common.updated_by(told)
        if listing != asker.listing:
            # Where all are told the same, they share one object.
            asker.listing = common if listing == common else listing
            self.news += 1
