"""Context windows as the upstreams tell them, learned in the background and kept."""

import asyncio
import time
from collections.abc import Callable

import orjson

from app.errors import UpstreamError, UpstreamFirstByteTimeout
from app.registry.discovery import read_windows
from app.upstream.client import Upstream
from app.upstream.headers import RawHeaders

LISTING_SECONDS = 10
RETRY_SECONDS = 15


class Windows:
    """Asks each upstream for its models now and then, never while a request waits."""

    def __init__(
        self,
        upstream: Upstream,
        refresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._known: dict[str, dict[str, int]] = {}
        self._asked_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop asking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def window_of(self, base_url: str, model: str, credentials: RawHeaders) -> int | None:
        """Return what is known of the model's window at once; ask behind the scenes if it is old.

        The asking uses the credentials of the request that made it necessary: where the upstream
        wants a key, only a client or the configuration has one.
        """
        asked_at = self._asked_at.get(base_url)
        if asked_at is None or self._clock() - asked_at > self._refresh_seconds:
            self._asked_at[base_url] = self._clock()
            task = asyncio.get_running_loop().create_task(self._refresh(base_url, credentials))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._known.get(base_url, {}).get(model)

    async def ask(self, base_url: str, credentials: RawHeaders) -> dict[str, int]:
        """Ask the upstream now and return its models' windows; raise UpstreamError without any."""
        headers = [(b"accept", b"application/json"), *credentials]
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                response = await self._upstream.fetch("GET", f"{base_url}/models", headers)
        except TimeoutError:
            raise UpstreamFirstByteTimeout from None
        if response.status_code != 200:
            raise UpstreamError(f"The upstream answered {response.status_code} to GET /models.")
        try:
            return read_windows(orjson.loads(response.content))
        except orjson.JSONDecodeError:
            raise UpstreamError("The upstream's list of models is not JSON.") from None

    async def _refresh(self, base_url: str, credentials: RawHeaders) -> None:
        """Learn the windows; what was known stays, and is asked for soon, without an answer."""
        try:
            self._known[base_url] = await self.ask(base_url, credentials)
        except UpstreamError:
            wait = min(RETRY_SECONDS, self._refresh_seconds)
            self._asked_at[base_url] = self._clock() - self._refresh_seconds + wait
