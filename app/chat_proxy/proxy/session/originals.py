"""Originals of cut and folded content: in the store for tenants, in files for operators."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chat_proxy.caches import LruCache
from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.stored_history import history_id, keep_history
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.files import RESULTS

CLOSE_SECONDS = 5.0
FILED_AGAIN_SECONDS = 6 * 3600.0
REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class SpanOfMessages:
    """The client's messages that a summary covers, its name and that of the span before it."""

    tenant: str
    name: str
    messages: Sequence[Mapping[str, Any]]
    start: int
    after: str | None


class Originals:
    """Store originals, and name their place for a prompt."""

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
        self._filed_at: LruCache[str, float] = LruCache(REMEMBERED)
        self._writes: set[asyncio.Task[bool]] = set()

    def naming(self, tenant: str) -> Callable[[str], str] | None:
        """Return the function that names a tenant's texts by id; None if no text is stored."""
        return partial(self._offloads.id_of, tenant) if self._offloads.enabled else None

    @property
    def file_of(self) -> Callable[[str], str] | None:
        """The function that names the file of a tool result, None if prompts name no files."""
        return self._file_of if self._mentions_paths else None

    def place_of(self, name: str) -> str:
        """Return the note that names a tool result's place by its id, empty if none is kept."""
        if not self._offloads.enabled:
            return ""
        if self._mentions_paths:
            return f" [full text: {self._file_of(name)}]"
        return f" [offload id: {name}]"

    def id_of(self, tenant: str, text: str) -> str:
        """Return the id of a text."""
        return self._offloads.id_of(tenant, text)

    async def keep_results(self, tenant: str, texts: Mapping[str, str]) -> frozenset[str]:
        """Store cut tool results by their ids; return the ids of those that could not be stored.

        A file that no prompt names is written in the background; one that a prompt names must
        exist first.
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
        """Store folded messages; return the name of their place, empty if there is none."""
        if not self._offloads.enabled:
            return ""
        place = None
        if self._archive is not None:
            place = await self._archive.keep_dialog(
                span.tenant, span.name, span.messages, start=span.start, after=span.after
            )
        if self._mentions_paths and place is not None:
            file = self._folder / place.file
            lines = f"lines {place.first}-{place.last}"
            return f"{file}, {lines} (read them from the end backwards)"
        return await self.keep_text(span.tenant, await asyncio.to_thread(lines_of, span.messages))

    async def keep_history(self, tenant: str, places: Sequence[str]) -> None:
        """Store which places hold a conversation's folded messages, to be found by one id."""
        if self._offloads.enabled:
            await keep_history(tenant, places, self._offloads)

    def history_id(self, tenant: str, places: Sequence[str]) -> str:
        """Return the id of a conversation's folded messages; empty if they are not stored."""
        if not self._offloads.enabled or self._mentions_paths:
            return ""
        return history_id(tenant, places, self._offloads)

    async def keep_text(self, tenant: str, text: str) -> str:
        """Store a text; return the name of its place, empty if it could not be stored."""
        if not self._offloads.enabled:
            return ""
        name = self._offloads.id_of(tenant, text)
        unkept = await self._offloads.keep(tenant, {name: text})
        return "" if unkept else f"offload id {name}"

    async def close(self) -> None:
        """Wait for running writes, up to a time limit."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=CLOSE_SECONDS)

    def _file_of(self, name: str) -> str:
        return str(self._folder / RESULTS / f"{name}.txt")

    def _is_filed(self, name: str) -> bool:
        """Return whether a result was filed recently; after that, filing it again renews it."""
        filed_at = self._filed_at.get(name)
        return filed_at is not None and self._clock() - filed_at < FILED_AGAIN_SECONDS

    async def _file(self, archive: Archive, tenant: str, name: str, text: str) -> bool:
        if await archive.keep_result(tenant, name, text) is None:
            return False
        self._filed_at.put(name, self._clock())
        return True


def lines_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as lines of JSON."""
    return "\n".join(serialise(message).decode("utf-8") for message in messages)
