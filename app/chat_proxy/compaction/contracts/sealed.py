"""Sealed prompts: what a compaction left, compressed and authenticated, for the client to keep.

    prefix · base64url( version · form · created · expires · MAC · content )

The key belongs to one tenant, model and policy, so a prompt that another owner sealed has a MAC
that is wrong here. The content is the compressed prompt, or the digest of one that is stored.
"""

import hmac
import json
import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from hashlib import sha256
from typing import Any, Final, NamedTuple

from chat_proxy.wires.contracts.contract import SealedPrompt

PREFIX: Final = "cpx1_"
"""How every sealed prompt of ours begins; anything else is another server's."""
KEPT_SECONDS: Final = 30 * 86_400
MAX_PLAIN_BYTES: Final = 64 * 1024 * 1024
"""The longest prompt that is sealed; more is refused before it takes memory."""
MAX_CHARS: Final = len(PREFIX) + (MAX_PLAIN_BYTES + MAX_PLAIN_BYTES // 1024) * 4 // 3
"""The longest text of a seal: a content may grow a little where it cannot be compressed."""

_VERSION: Final = 1
_INLINE: Final = 0
_STORED: Final = 1
_PURPOSE: Final = b"chat-proxy/sealed/1"
_HEAD: Final = struct.Struct(">BBQQ")
_MAC_BYTES: Final = 32
_LEVEL: Final = 6


class StoredPrompt(NamedTuple):
    """A genuine seal whose content is stored under its digest."""

    digest: bytes


class Refused(NamedTuple):
    """A seal that is not used, and why: one sentence for the client."""

    reason: str


FOREIGN: Final = Refused("it was not made by this proxy.")
UNVERIFIED: Final = Refused(
    "it could not be verified: it was changed, or made for another key, model or configuration."
)
EXPIRED: Final = Refused("it has expired.")
NOT_STORED: Final = Refused("its content is no longer stored.")
UNREADABLE: Final = Refused("its content cannot be read.")


def is_ours(text: str) -> bool:
    """Return whether a text claims to be a sealed prompt of ours."""
    return text.startswith(PREFIX)


def content_of(prompt: SealedPrompt) -> bytes | None:
    """Return a prompt compressed; None if it is too long to be opened again."""
    plain = _plain(prompt)
    return zlib.compress(plain, _LEVEL) if len(plain) <= MAX_PLAIN_BYTES else None


def digest_of(content: bytes) -> bytes:
    """Return what identifies a stored content."""
    return sha256(content).digest()


def seal(content: bytes, key: bytes, created: int, *, is_stored: bool = False) -> str:
    """Return a content, or the digest of a stored one, sealed under its owner's key."""
    carried = digest_of(content) if is_stored else content
    form = _STORED if is_stored else _INLINE
    head = _HEAD.pack(_VERSION, form, created, created + KEPT_SECONDS)
    packed = head + _mac(key, head, carried) + carried
    return PREFIX + urlsafe_b64encode(packed).decode().rstrip("=")


def unseal(text: object, key: bytes, now: int) -> SealedPrompt | StoredPrompt | Refused:
    """Return what a text of the client seals, or why it is not used."""
    if type(text) is not str or not is_ours(text):
        return FOREIGN
    packed = _unpacked(text) if len(text) <= MAX_CHARS else None
    if packed is None:
        return UNVERIFIED
    head, mac = packed[: _HEAD.size], packed[_HEAD.size : _HEAD.size + _MAC_BYTES]
    carried = packed[_HEAD.size + _MAC_BYTES :]
    if not hmac.compare_digest(mac, _mac(key, head, carried)):
        return UNVERIFIED
    version, form, _, expires = _HEAD.unpack(head)
    if now >= expires:
        return EXPIRED
    if version != _VERSION or form not in (_INLINE, _STORED):
        return UNREADABLE
    return read_content(carried) if form == _INLINE else StoredPrompt(carried)


def read_stored(stored: bytes | None, digest: bytes) -> SealedPrompt | Refused:
    """Return the prompt of a stored content, if it is the one that was sealed."""
    if stored is None or not hmac.compare_digest(digest_of(stored), digest):
        return NOT_STORED
    return read_content(stored)


def read_content(content: bytes) -> SealedPrompt | Refused:
    """Return the prompt in a content whose origin was checked before."""
    inflating = zlib.decompressobj()
    try:
        plain = inflating.decompress(content, MAX_PLAIN_BYTES + 1)
        document: Any = json.loads(plain) if inflating.eof else None
        return _prompt(document)
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return UNREADABLE


def _prompt(document: Any) -> SealedPrompt:
    return SealedPrompt(
        str(document["wire"]),
        _items(document["items"]),
        _items(document["instructions"]),
        int(document["created"]),
        str(document.get("text", "")),
    )


def _items(items: Any) -> tuple[dict[str, Any], ...]:
    if type(items) is not list or any(type(item) is not dict for item in items):
        raise ValueError("not a list of objects")
    return tuple(items)


def _plain(prompt: SealedPrompt) -> bytes:
    # Not by orjson: texts may hold lone surrogates.
    document = {
        "wire": prompt.wire,
        "items": prompt.items,
        "instructions": prompt.instructions,
        "created": prompt.created,
        "text": prompt.text,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _unpacked(text: str) -> bytes | None:
    """Return the bytes of a text that is written in the one way in which we write it."""
    encoded = text.removeprefix(PREFIX)
    try:
        packed = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (NotBase64, ValueError):
        return None
    if len(packed) < _HEAD.size + _MAC_BYTES:
        return None
    return packed if urlsafe_b64encode(packed).decode().rstrip("=") == encoded else None


def _mac(key: bytes, head: bytes, carried: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + head + carried, "sha256")
