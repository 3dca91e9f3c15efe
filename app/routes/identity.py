"""Who is calling: the one place that reads keys out of requests."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from app.errors import InvalidApiKey
from app.proxy.caller import ANONYMOUS, Caller
from app.upstream.headers import RawHeaders

_CREDENTIALS = (b"authorization", b"x-api-key")


class Gate:
    """Lets callers in: by one of our keys if there are any, else with whatever they carry."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]

    def caller(self, headers: RawHeaders) -> Caller:
        """Return who is calling, or raise InvalidApiKey."""
        carried = [header for header in headers if header[0] in _CREDENTIALS]
        digest = sha256(_only_credential(carried)).digest() if carried else b""
        if self._digests:
            if not self._is_known(digest):
                raise InvalidApiKey
            return Caller(digest.hex(), [])
        return Caller(digest.hex(), carried) if digest else Caller(ANONYMOUS, [])

    def _is_known(self, digest: bytes) -> bool:
        """Compare with every key, so that the time taken tells nothing."""
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


class AdminGate:
    """Guards what is for operators; without a key it stands open."""

    def __init__(self, key: str | None) -> None:
        self._gate = Gate([key]) if key else None

    def check(self, headers: RawHeaders) -> None:
        """Raise InvalidApiKey unless the admin key was sent, or none is set."""
        if self._gate is not None:
            self._gate.caller(headers)


def _only_credential(carried: RawHeaders) -> bytes:
    """Return the one credential that was sent; two different ones are nobody's."""
    credentials = {_bare(value) for _, value in carried}
    if len(credentials) > 1:
        raise InvalidApiKey("Several different API keys were sent.")
    return credentials.pop()


def _bare(value: bytes) -> bytes:
    """Return the key without its scheme."""
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else value.strip()
