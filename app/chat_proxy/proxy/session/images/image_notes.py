"""Notes of images, written by the vision model in the background, once for each image."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any, Final

import orjson

from chat_proxy.caches import LruCache
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.apply import media_slots
from chat_proxy.compaction.ageing.treatments import Place
from chat_proxy.compaction.media_notes import one_line
from chat_proxy.errors import UpstreamError
from chat_proxy.imaging.scaled_images import ScaledImages
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.store.base import Store
from chat_proxy.tokens.images.size import base64_of, image_size
from chat_proxy.upstream.client import Call, Upstream
from chat_proxy.upstream.completion import NotAnswered, complete
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS

KIND: Final = "image_note"
TTL_SECONDS: Final = 30 * 86_400.0
INSTRUCTION: Final = (
    "Describe this image in two short sentences for someone who cannot see it: what it shows, and "
    "any text, number or name in it. Answer with these two sentences only."
)
MAX_TOKENS: Final = 160
ESTIMATED_TOKENS: Final = 1_600
SIDE: Final = 1_024
"""The longer side of the image that the model is shown, in pixels."""
MAX_PENDING: Final = 16
CONCURRENCY: Final = 2
TIMEOUT_SECONDS: Final = 60.0
REMEMBERED: Final = 10_000
PER_REQUEST: Final = 4

Spend = Callable[[str, int], bool]
"""Spends tokens of a tenant's budget for side-queries; returns False if it has none left."""
Images = dict[Place, tuple[str, str]]
"""The data and the base64 of inline images, by their place."""


class ImageNotes:
    """Ask the request's own model about images, and keep its answers in the store.

    Notes are keyed by tenant and content, so that no tenant can read another's or learn what it
    sent. The number of pending queries is bounded; what is over it is asked with a later request.
    """

    def __init__(
        self, store: Store, upstream: Upstream, images: ScaledImages, spend: Spend
    ) -> None:
        self._store = store
        self._upstream = upstream
        self._images = images
        self._spend = spend
        self._known: LruCache[bytes, str] = LruCache(REMEMBERED)
        """The notes, empty for an image that the model could not describe."""
        self._pending: dict[bytes, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(CONCURRENCY)

    async def about(
        self, compaction: CompactionRequest, origins: Iterable[int]
    ) -> dict[Place, str]:
        """Return the notes of the images in these messages of the client, as far as known."""
        if not compaction.policy.asks_about_images:
            return {}
        images = images_in(compaction.conversation, frozenset(origins))
        found: dict[Place, str] = {}
        for place, (_, base64) in images.items():
            note = await self._note(await self._address(compaction.tenant, base64))
            if note:
                found[place] = note
        return found

    async def ask_about(self, compaction: CompactionRequest) -> None:
        """Start queries about the newest images of the client that have no note yet."""
        if not compaction.policy.asks_about_images or compaction.is_dry_run:
            return
        conversation = compaction.conversation
        users = frozenset(
            index for index, message in enumerate(conversation.messages) if message.is_user
        )
        newest = list(images_in(conversation, users).values())[-PER_REQUEST:]
        for data, base64 in reversed(newest):
            address = await self._address(compaction.tenant, base64)
            is_new = address not in self._known and address not in self._pending
            if is_new and len(self._pending) < MAX_PENDING and await self._note(address) is None:
                task = asyncio.create_task(self._ask(compaction, data, base64, address))
                self._pending[address] = task
                task.add_done_callback(partial(self._ended, address))

    def _ended(self, address: bytes, _: asyncio.Task[None]) -> None:
        self._pending.pop(address, None)

    async def close(self) -> None:
        """Cancel the queries that still run."""
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _address(self, tenant: str, base64: str) -> bytes:
        digest = await run_inline_or_in_thread(partial(_digest, base64), len(base64))
        return self._store.address(b"image-note", tenant.encode(), digest)

    async def _note(self, address: bytes) -> str | None:
        """Return a note, empty if there will be none, None if the image was not asked about."""
        known = self._known.get(address)
        if known is None:
            row = (await self._store.get_many(KIND, [address])).get(address)
            known = None if row is None else row.decode("utf-8", "replace")
            if known is not None:
                self._known.put(address, known)
        return known

    async def _ask(
        self, compaction: CompactionRequest, data: str, base64: str, address: bytes
    ) -> None:
        if not self._spend(compaction.tenant, ESTIMATED_TOKENS):
            return
        shown = (await self._images.scale(compaction.tenant, _smaller(data, base64))).values()
        url = next((image.url for image in shown if image is not None), data)
        call, route = _call(compaction, url), compaction.route
        try:
            async with self._slots, asyncio.timeout(TIMEOUT_SECONDS):
                with compaction.span.side_query("image-note", route.model, route.base_url) as span:
                    call.headers = span.with_context(call.headers)
                    answer = await complete(self._upstream, call, CHAT_COMPLETIONS.answers)
        except (NotAnswered, UpstreamError, TimeoutError):
            self._known.put(address, "")
            return
        note = one_line(answer.text)
        self._known.put(address, note)
        if note:
            value = note.encode("utf-8", "replace")
            await self._store.put(KIND, address, value, TTL_SECONDS, compaction.tenant)


def images_in(conversation: Conversation, origins: frozenset[int]) -> Images:
    """Return the inline images of these messages of the client, oldest first."""
    found: Images = {}
    for index in sorted(origins):
        message = conversation.messages[index]
        if type(message.content) not in (list, dict):
            continue
        media = {medium.path: medium for medium in message.media()}
        for number, slot in enumerate(media_slots(message)):
            medium = media.get(slot.path)
            if medium is not None and medium.kind == "image" and medium.is_inline:
                base64 = base64_of(medium.data)
                if base64:
                    url = medium.data if base64 is not medium.data else _url(medium.mime, base64)
                    found[Place(index, number)] = (url, base64)
    return found


def _digest(base64: str) -> bytes:
    return sha256(base64.encode()).digest()


def _url(mime: str, base64: str) -> str:
    return f"data:{mime};base64,{base64}"


def _smaller(data: str, base64: str) -> list[tuple[str, int]]:
    size = image_size(data)
    return [(base64, SIDE)] if size is not None and max(size) > SIDE else []


def _call(compaction: CompactionRequest, url: str) -> Call:
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": INSTRUCTION},
    ]
    body = {
        "model": compaction.route.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": MAX_TOKENS,
        "stream": False,
    }
    return Call(
        "POST",
        compaction.route.base_url,
        "/chat/completions",
        [
            *compaction.credentials,
            (b"content-type", b"application/json"),
            (b"x-chat-proxy-purpose", b"image-note"),
            (b"x-request-id", compaction.request_id.encode("ascii")),
        ],
        orjson.dumps(body),
    )
