"""Originals of what is cut and folded: in the store for their tenant, in files for operators."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chat_proxy.caches import RecentCache
from chat_proxy.chat.body.splice import dumped
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.files import RESULTS

CLOSE_SECONDS = 5.0
FILED_AGAIN_SECONDS = 6 * 3600.0
REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class SpanOfMessages:
    """The client's messages that a summary stands for, and the names of the spans around."""

    tenant: str
    name: str
    messages: Sequence[Mapping[str, Any]]
    start: int
    after: str | None


class Originals:
    """Keeps originals, and says in a prompt where they are."""

    def __init__(
        self,
        offloads: Offloads,
        archive: Archive | None,
        folder: Path,
        *,
        mentions_paths: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offloads = offloads
        self._archive = archive
        self._folder = folder
        self._mentions_paths = mentions_paths and archive is not None
        self._clock = clock
        self._filed_at: RecentCache[str, float] = RecentCache(REMEMBERED)
        self._writes: set[asyncio.Task[bool]] = set()

    @property
    def file_of(self) -> Callable[[str], str] | None:
        """Names the file of a tool result, if prompts name files."""
        return self._file_of if self._mentions_paths else None

    async def keep_results(self, tenant: str, texts: Mapping[str, str]) -> frozenset[str]:
        """Keep cut tool results by their ids; return the ids of those that could not be kept.

        A file that no prompt names is written behind; one that is named must be there first.
        """
        unkept = await self._offloads.keep(tenant, texts)
        kept = {name: text for name, text in texts.items() if name not in unkept}
        if self._archive is None:
            return unkept
        for name, text in kept.items():
            if self._is_filed(name):
                continue
            filing = asyncio.create_task(self._file(self._archive, tenant, name, text))
            self._writes.add(filing)
            filing.add_done_callback(self._writes.discard)
            if self._mentions_paths and not await asyncio.shield(filing):
                unkept |= {name}
        return unkept

    async def keep_span(self, span: SpanOfMessages) -> str:
        """Keep folded messages; return the line that says where, empty if they are nowhere."""
        place = None
        if self._archive is not None:
            place = await self._archive.keep_dialog(
                span.tenant, span.name, span.messages, start=span.start, after=span.after
            )
        if self._mentions_paths and place is not None:
            file = self._folder / place.file
            lines = f"lines {place.first}-{place.last}"
            return f"[The original messages: {file}, {lines}; read them from the end backwards]"
        text = await asyncio.to_thread(lines_of, span.messages)
        name = self._offloads.id_of(span.tenant, text)
        unkept = await self._offloads.keep(span.tenant, {name: text})
        return "" if unkept else f"[The original messages: offload id {name}]"

    async def close(self) -> None:
        """Wait for what is being written, but not for ever."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=CLOSE_SECONDS)

    def _file_of(self, name: str) -> str:
        return str(self._folder / RESULTS / f"{name}.txt")

    def _is_filed(self, name: str) -> bool:
        """Tell whether a result was filed lately; asked for again it lives on."""
        filed_at = self._filed_at.get(name)
        return filed_at is not None and self._clock() - filed_at < FILED_AGAIN_SECONDS

    async def _file(self, archive: Archive, tenant: str, name: str, text: str) -> bool:
        if await archive.keep_result(tenant, name, text) is None:
            return False
        self._filed_at.put(name, self._clock())
        return True


def lines_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as lines of JSON."""
    return "\n".join(dumped(dict(message)).decode("utf-8") for message in messages)
