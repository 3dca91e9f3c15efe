"""What is remembered across requests: small sealed values under content addresses."""

import hashlib
import hmac
from typing import Protocol, runtime_checkable

Rows = dict[bytes, bytes]

LONGEST_LIFE = 366 * 86_400
"""The seconds that anything is kept at most."""
CLOCK_SLACK = 90_000
"""A clock may be off by a day, and an hour more: by less than that nothing is judged for good."""


class Store(Protocol):
    """Keeps values by kind and key; a fault is a miss, never an exception."""

    async def open(self) -> None:
        """Make ready; raise StoreUnavailable if that cannot be."""
        ...

    async def close(self) -> None:
        """Write what waits, and let go."""
        ...

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there, whole and not expired."""
        ...

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        """Keep a value; return whether it was kept. `owner` is the tenant by whom it is purged."""
        ...

    def address(self, *parts: bytes) -> bytes:
        """Return the key that stands for these parts in this deployment; the store must be open."""
        ...


@runtime_checkable
class Watched(Protocol):
    """A store outside of this process, of which operators want to know how it is."""

    @property
    def is_in_trouble(self) -> bool:
        """Whether it is away, damaged, or refused what it was last given."""
        ...

    @property
    def log_bytes(self) -> int:
        """How much its write-ahead log takes up; 0 if it has none."""
        ...


class StoreUnavailable(Exception):
    """The store cannot be used; the text says why."""


class Seal:
    """Makes rows that only this deployment can have written.

    Every field is length-prefixed, so that no two rows have the same bytes under the seal.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, kind: str, key: bytes, value: bytes, expires: int) -> bytes:
        """Return a row's seal."""
        mac = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in (kind.encode(), key, value, b"%d" % expires):
            mac.update(len(part).to_bytes(8, "big"))
            mac.update(part)
        return mac.digest()

    def holds(self, seal: bytes, kind: str, key: bytes, value: bytes, expires: int) -> bool:
        """Tell whether the seal is this row's own; in a file anything may stand in any column."""
        is_a_row = type(seal) is type(value) is bytes and type(expires) is int
        return is_a_row and hmac.compare_digest(seal, self.of(kind, key, value, expires))


class Addresses:
    """Gives contents names that only this deployment can give, and that tell nothing of them."""

    def __init__(self, secret: bytes) -> None:
        # A key of its own: no address, which may be shown, can ever be a row's seal.
        self._key = hmac.digest(secret, b"chat-proxy/address/1", "sha256")

    def of(self, *parts: bytes) -> bytes:
        """Return the parts' name; other parts, or the same bytes parted otherwise, have another."""
        prefixed = (len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, b"".join(prefixed), "sha256")
