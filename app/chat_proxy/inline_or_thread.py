"""Run work at once when it is small, else in a thread, so that the event loop never blocks."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INLINE_BYTES = 1024 * 1024
"""A request body up to this size is looked at without a thread."""


async def run_inline_or_in_thread(
    work: Callable[[], T], size: int, max_inline: int = INLINE_BYTES
) -> T:
    """Return what the work returns; it runs in a thread if its size is over the limit."""
    return work() if size <= max_inline else await asyncio.to_thread(work)
