"""Who is calling: the one place that reads keys out of requests."""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from chat_proxy.errors import InvalidApiKey
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import NOBODY, Caller

REMEMBERED_CALLERS = 1_000
REMEMBERED_BYTES = 1_024

_CREDENTIALS = (b"authorization", b"x-api-key")
_KEY_IN_QUERY = re.compile(rb"(?i)(?:^|[&;])(?:api[-_]?key|key|(?:access[-_]?)?token)=")


class Gate:
    """Lets callers in: by one of our keys if there are any, else with whatever they carry."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]
        # Those who were let in before: to hash a key costs more than to find its caller.
        self._known: dict[tuple[bytes, bytes], Caller] = {}

    def caller(self, headers: RawHeaders, query: bytes = b"") -> Caller:
        """Return who is calling, or raise InvalidApiKey."""
        if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
            raise InvalidApiKey("Send the API key as a header: addresses end up in logs.")
        carried = [header for header in headers if header[0] in _CREDENTIALS]
        if len(carried) != 1:
            return self._let_in(carried)
        caller = self._known.get(carried[0])
        if caller is None:
            caller = self._let_in(carried)
            if len(self._known) >= REMEMBERED_CALLERS:
                self._known.clear()
            if len(carried[0][1]) <= REMEMBERED_BYTES:
                self._known[carried[0]] = caller
        return caller

    def _let_in(self, carried: RawHeaders) -> Caller:
        credential = _only_credential(carried) if carried else b""
        digest = sha256(credential) if credential else None
        if self._digests and not (digest and self._is_known(digest.digest())):
            raise InvalidApiKey
        if digest is None:
            return NOBODY
        return Caller(digest.hexdigest(), [] if self._digests else carried)

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
    if len(carried) == 1:
        return _bare(carried[0][1])
    credentials = {_bare(value) for _, value in carried}
    if len(credentials) > 1:
        raise InvalidApiKey("Several different API keys were sent.")
    return credentials.pop()


def _bare(value: bytes) -> bytes:
    """Return the key without its scheme."""
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else value.strip()
