"""The identity of callers: the only module that reads API keys from requests."""

import hmac
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from chat_proxy.caches import BoundedDict
from chat_proxy.errors import InvalidApiKey
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import ANONYMOUS, Caller
from chat_proxy.upstream.header_rules import credentials_in

REMEMBERED_CALLERS = 1_000
REMEMBERED_BYTES = 1_024

# The headers in which the proxy's own keys are accepted; they have one meaning.
_OWN_HEADERS = (b"authorization", b"x-api-key")
_OWN = b"authorization"
_KEY_IN_QUERY = re.compile(rb"(?i)(?:^|[&;])(?:api[-_]?key|key|(?:access[-_]?)?token)=")


class Gate:
    """Identify callers: by one of the proxy's keys if any are set, else by the key they send.

    The tenant is the hash of all credentials that the upstream gets. Callers are cached by their
    credential headers, at most REMEMBERED_CALLERS; only a request with the same headers finds one.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]
        # Keyed by the headers themselves: hashing a key costs more than this lookup.
        self._known: BoundedDict[tuple[tuple[bytes, bytes], ...], Caller] = BoundedDict(
            REMEMBERED_CALLERS
        )

    def caller(self, headers: RawHeaders, query: bytes = b"") -> Caller:
        """Return the caller, or raise InvalidApiKey."""
        if query and _KEY_IN_QUERY.search(unquote_to_bytes(query)):
            raise InvalidApiKey("Send the API key as a header: addresses end up in logs.")
        carried = tuple(credentials_in(headers))
        caller = self._known.get(carried)
        if caller is None:
            caller = self._identify(carried)
            if sum(len(value) for _, value in carried) <= REMEMBERED_BYTES:
                self._known.put(carried, caller)
        return caller

    def _identify(self, carried: tuple[tuple[bytes, bytes], ...]) -> Caller:
        keys = _keys_by_header(carried)
        if self._digests:
            digest = sha256(keys.get(_OWN, b""))
            if _OWN not in keys or not self._is_known(digest.digest()):
                raise InvalidApiKey
            return Caller(digest.hexdigest(), [])
        return Caller(_tenant_of(keys), list(carried)) if keys else ANONYMOUS

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


def _keys_by_header(carried: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the key in each header; raise InvalidApiKey if there are different ones in one."""
    keys: dict[bytes, bytes] = {}
    for name, value in carried:
        kind, key = _OWN if name in _OWN_HEADERS else name, _bare(value)
        if keys.setdefault(kind, key) != key:
            raise InvalidApiKey("Several different API keys were sent.")
    return {kind: key for kind, key in keys.items() if key}


def _tenant_of(keys: Mapping[bytes, bytes]) -> str:
    """Return the hash of all keys; of one key alone, whatever header it came in.

    No header has a NUL in it, so that different keys never run together.
    """
    if len(set(keys.values())) == 1:
        return sha256(next(iter(keys.values()))).hexdigest()
    parts = [part for header in sorted(keys.items()) for part in header]
    return sha256(b"\0".join(parts)).hexdigest()


def _bare(value: bytes) -> bytes:
    """Return the key without its scheme, which is optional."""
    scheme, _, key = value.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else value.strip()
