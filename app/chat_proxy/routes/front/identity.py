"""The identity of callers: the only module that reads API keys from requests."""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from chat_proxy.caches import BoundedDict
from chat_proxy.errors import InvalidApiKey
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import ANONYMOUS, Caller

REMEMBERED_CALLERS = 1_000
REMEMBERED_BYTES = 1_024

_CREDENTIALS = (b"authorization", b"x-api-key")
_KEY_IN_QUERY = re.compile(rb"(?i)(?:^|[&;])(?:api[-_]?key|key|(?:access[-_]?)?token)=")


class Gate:
    """Identify callers: by one of the proxy's keys if any are set, else by the key they send.

    Callers are cached by their whole credential header, at most REMEMBERED_CALLERS of them; only a
    request with the same header finds an entry.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]
        # Keyed by the header itself: hashing a key costs more than this lookup.
        self._known: BoundedDict[tuple[bytes, bytes], Caller] = BoundedDict(REMEMBERED_CALLERS)

    def caller(self, headers: RawHeaders, query: bytes = b"") -> Caller:
        """Return the caller, or raise InvalidApiKey."""
        if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
            raise InvalidApiKey("Send the API key as a header: addresses end up in logs.")
        carried = [header for header in headers if header[0] in _CREDENTIALS]
        if len(carried) != 1:
            return self._identify(carried)
        caller = self._known.get(carried[0])
        if caller is None:
            caller = self._identify(carried)
            if len(carried[0][1]) <= REMEMBERED_BYTES:
                self._known.put(carried[0], caller)
        return caller

    def _identify(self, carried: RawHeaders) -> Caller:
        credential = _only_credential(carried) if carried else b""
        digest = sha256(credential) if credential else None
        if self._digests and not (digest and self._is_known(digest.digest())):
            raise InvalidApiKey
        if digest is None:
            return ANONYMOUS
        return Caller(digest.hexdigest(), [] if self._digests else carried)

    def _is_known(self, digest: bytes) -> bool:
        """Return whether a key has this digest; compare all, so that timing reveals nothing."""
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


class AdminGate:
    """Guard the operators' endpoints; they are open if no admin key is set."""

    def __init__(self, key: str | None) -> None:
        self._gate = Gate([key]) if key else None

    def check(self, headers: RawHeaders) -> None:
        """Raise InvalidApiKey unless the admin key was sent or none is set."""
        if self._gate is not None:
            self._gate.caller(headers)


def _only_credential(carried: RawHeaders) -> bytes:
    """Return the credential that was sent; raise InvalidApiKey if there are different ones."""
    if len(carried) == 1:
        return _bare(carried[0][1])
    credentials = {_bare(value) for _, value in carried}
    if len(credentials) > 1:
        raise InvalidApiKey("Several different API keys were sent.")
    return credentials.pop()


def _bare(value: bytes) -> bytes:
    """Return the key without its scheme, which is optional."""
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else value.strip()
