"""The folded messages of a conversation, as they were stored span by span."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from chat_proxy.proxy.session.offloads import Offloads

MAX_SPANS: Final = 256

_PLACE: Final = re.compile(
    r"offload id ([0-9a-f]{32})( \(a list of \d+ earlier places\))?", re.ASCII
)


class StoredHistory(NamedTuple):
    """The messages that could be read, oldest first, and how many spans have expired."""

    messages: list[dict[str, Any]]
    expired: int


def history_id(tenant: str, sources: Sequence[str], offloads: Offloads) -> str:
    """Return the id under which a tenant finds the folded messages; empty if there are none."""
    return offloads.id_of(tenant, "\n".join(sources)) if sources else ""


async def keep_history(tenant: str, sources: Sequence[str], offloads: Offloads) -> None:
    """Store which spans a conversation's folded messages are."""
    if sources:
        text = "\n".join(sources)
        await offloads.keep(tenant, {offloads.id_of(tenant, text): text})


async def find_history(tenant: str, name: str, offloads: Offloads) -> StoredHistory | None:
    """Return the folded messages of an id; None if this tenant has no such id."""
    listed = await offloads.find(tenant, name)
    if listed is None:
        return None
    places = [_PLACE.fullmatch(line) for line in listed.splitlines()]
    if not places or not all(places):
        return None
    return await stored_messages(tenant, listed.splitlines(), offloads)


async def stored_messages(tenant: str, sources: Sequence[str], offloads: Offloads) -> StoredHistory:
    """Return the messages of stored spans in order."""
    messages: list[dict[str, Any]] = []
    expired = 0
    for name in (await _spans(tenant, sources, offloads))[:MAX_SPANS]:
        text = await offloads.find(tenant, name)
        if text is None:
            expired += 1
        else:
            messages += [orjson.loads(line) for line in text.splitlines() if line]
    return StoredHistory(messages, expired)


async def _spans(tenant: str, sources: Sequence[str], offloads: Offloads) -> list[str]:
    """Return the ids of spans, oldest first; one place may be a list of earlier ones."""
    names: list[str] = []
    for source in sources:
        found = _PLACE.fullmatch(source)
        if found is None:
            continue
        if found[2]:
            listed = await offloads.find(tenant, found[1]) or ""
            names += await _spans(tenant, listed.splitlines()[1:], offloads)
        else:
            names.append(found[1])
    return names
