"""Scaled images, made in threads of their own and cached by content."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Final

from chat_proxy.caches import LruCache
from chat_proxy.imaging.scale import ScaledImage, is_available, scaled_image
from chat_proxy.inline_or_thread import run_inline_or_in_thread

WORKERS: Final = 2
"""How many images are decoded at once: each may take a hundred megabytes."""
MAX_CACHED_BYTES: Final = 64 * 1024 * 1024
MAX_REFUSED: Final = 10_000

Wanted = tuple[str, int]
"""An image in base64, without a data URL's head, and the longer side that it should have."""


class ScaledImages:
    """Scale images down and keep the outcome.

    Entries are keyed by the tenant, the hash of the content and the side, so no tenant can learn
    what another has sent. The total of bytes is bounded: what is evicted is scaled again, to the
    same bytes.
    """

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        self._cache: LruCache[bytes, ScaledImage] = LruCache(MAX_CACHED_BYTES)
        self._refused: LruCache[bytes, bool] = LruCache(MAX_REFUSED)
        self._running: dict[bytes, asyncio.Task[ScaledImage | None]] = {}
        self._report = report
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_available(self) -> bool:
        """Whether images can be scaled at all: Pillow is installed."""
        return is_available()

    def is_refused(self, tenant: str, base64: str) -> bool:
        """Return whether an image of this tenant could not be decoded before."""
        return len(self._refused) > 0 and _key(tenant, base64) in self._refused

    async def scale(
        self, tenant: str, wanted: Iterable[Wanted]
    ) -> dict[Wanted, ScaledImage | None]:
        """Return each image in its wanted size; None for one that cannot be scaled."""
        found: dict[Wanted, ScaledImage | None] = {}
        for image, side in dict.fromkeys(wanted):
            found[image, side] = await self._scaled(tenant, image, side)
        return found

    def close(self) -> None:
        """Let the threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _scaled(self, tenant: str, base64: str, side: int) -> ScaledImage | None:
        image = await run_inline_or_in_thread(partial(_key, tenant, base64), len(base64))
        key = image + b"%d" % side
        known = self._cache.get(key)
        if known is not None:
            self._report("reused")
            return known
        if image in self._refused or not self.is_available:
            return None
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(self._made(base64, side))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        made = await asyncio.shield(task)
        self._report("refused" if made is None else "scaled")
        if made is None:
            self._refused.put(image, value=True)
        else:
            self._cache.put(key, made, len(made.base64))
        return made

    async def _made(self, base64: str, side: int) -> ScaledImage | None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(WORKERS, "images")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, scaled_image, base64, side)


def _key(tenant: str, base64: str) -> bytes:
    """Return the key of an image; three megabytes take about three milliseconds."""
    salt = blake2b(tenant.encode(), digest_size=32).digest()
    return blake2b(base64.encode(), key=salt, digest_size=16).digest()
