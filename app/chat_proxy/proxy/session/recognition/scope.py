"""The owner of stored decisions, and the addresses at which only that owner finds them."""

from hashlib import blake2b
from typing import Final, NamedTuple

from chat_proxy.store.base import Store

ADDRESS_BYTES: Final = 32
ROOT_BYTES: Final = 8


class Scope(NamedTuple):
    """The owner of stored values: one tenant, under one policy."""

    tenant: str
    fingerprint: bytes

    def key(self, store: Store, kind: str) -> bytes:
        """Return the key of all addresses of one kind, which no other scope has."""
        return store.address(kind.encode(), self.tenant.encode(), self.fingerprint)

    def address(self, store: Store, kind: str, link: bytes, root: bytes | None = None) -> bytes:
        """Return the store's address of a history, given by its last hash."""
        return address_of(self.key(store, kind), link, root or link)


def address_of(key: bytes, link: bytes, root: bytes) -> bytes:
    """Return a history's address under a scope's key: keyed BLAKE2, a fifth of an HMAC's time.

    It begins with the hash of its conversation, so that all addresses of one conversation are on
    the same few pages of a file: reading fifty of them from a large store reads one page, not
    fifty.
    """
    return page_of(key, root) + own_of(key, link)


def page_of(key: bytes, root: bytes) -> bytes:
    """Return the beginning of all addresses of one conversation."""
    return blake2b(root, key=key, digest_size=ROOT_BYTES).digest()


def own_of(key: bytes, link: bytes) -> bytes:
    """Return the part of an address that only one history has."""
    return blake2b(link, key=key, digest_size=ADDRESS_BYTES - ROOT_BYTES).digest()
