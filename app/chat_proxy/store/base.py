"""The store protocol: small sealed values under content addresses, shared between requests."""

import hashlib
import hmac
from typing import NamedTuple, Protocol, runtime_checkable

Rows = dict[bytes, bytes]

MAX_TTL_SECONDS = 366 * 86_400
"""The maximum time in seconds for which a value is kept."""
CLOCK_SLACK = 90_000
"""Seconds by which a clock may be wrong (25 hours); nothing is deleted on a smaller difference."""


class Capacity(NamedTuple):
    """How many bytes may be kept: of all tenants, and of one."""

    max_bytes: int = 1024 * 1024 * 1024
    tenant_max_bytes: int = 256 * 1024 * 1024


class Store(Protocol):
    """A store of values by kind and key; a fault is a miss, never an exception.

    All tenants share it. The address of a value that belongs to a tenant includes that tenant, so
    no other tenant can find it.
    """

    async def open(self) -> None:
        """Open the store, or raise StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Write pending values and close the store."""
        ...

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that exist, are intact and have not expired."""
        ...

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        """Store a value and return whether it was stored; `owner` is the tenant to purge it by."""
        ...

    def address(self, *parts: bytes) -> bytes:
        """Return the key for these parts in this deployment; the store must be open."""
        ...


@runtime_checkable
class MonitoredStore(Protocol):
    """A store outside this process, whose state is reported to operators."""

    @property
    def is_in_trouble(self) -> bool:
        """Whether the store is unreachable or damaged, or refused the last value."""
        ...

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log; 0 if there is none."""
        ...


class StoreUnavailable(Exception):
    """The store cannot be used; the message gives the reason."""


class Seal:
    """Computes and verifies a MAC for each row, so that only this deployment can write rows.

    Every field is length-prefixed, so that two different rows never have the same MAC input.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, kind: str, key: bytes, value: bytes, expires: int) -> bytes:
        """Return the seal of a row."""
        mac = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in (kind.encode(), key, value, b"%d" % expires):
            mac.update(len(part).to_bytes(8, "big"))
            mac.update(part)
        return mac.digest()

    def holds(self, seal: bytes, kind: str, key: bytes, value: bytes, expires: int) -> bool:
        """Return whether the seal belongs to this row; a file may have any type in any column."""
        is_a_row = type(seal) is type(value) is bytes and type(expires) is int
        return is_a_row and hmac.compare_digest(seal, self.of(kind, key, value, expires))


class Addresses:
    """Derives keys from contents: keyed hashes that do not reveal the contents."""

    def __init__(self, secret: bytes) -> None:
        # A separate key: addresses may be shown, and none of them may be a valid seal of a row.
        self._key = hmac.digest(secret, b"chat-proxy/address/1", "sha256")

    def of(self, *parts: bytes) -> bytes:
        """Return the address of the parts; the same bytes split differently have another."""
        prefixed = (len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, b"".join(prefixed), "sha256")
