"""Guard against web pages: what they can make a browser send without its user's leave."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address

from chat_proxy.errors import UnsupportedMediaType, UntrustedHost, UntrustedOrigin

REMEMBERED_NAMES = 256
PREFLIGHT_SECONDS = 600
MAX_HEADER_NAMES_BYTES = 2_048

_FORM_TYPES = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")
_OTHER_SITES = (b"cross-site", b"same-site")
_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/]*))(?::[0-9]*)?")
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9_-]+(?:, ?[A-Za-z0-9_-]+)*")
_ORIGIN = re.compile(rb"https?://(.*)")


class BrowserGuard:
    """Refuse requests of foreign web pages.

    With `checks_names`, for a proxy on loopback that holds a key, only local names are answered:
    anyone's page can reach it through a browser on this machine, by DNS rebinding even as its own.
    Pages of the `origins` are not foreign, and may read the answers (CORS).
    """

    def __init__(self, origins: Iterable[str] = (), *, checks_names: bool) -> None:
        self._checks_names = checks_names
        self._page_headers = {origin.encode(): _page_headers(origin) for origin in origins}

    def page_headers(self, values: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that let a page read the answer; none if it may not."""
        return self._page_headers.get(values.get(b"origin", b""), ())

    def preflight(
        self, values: Mapping[bytes, bytes], methods: Collection[str]
    ) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer to a preflight of a known page; none if it is none."""
        if b"access-control-request-method" not in values:
            return []
        headers = [
            (b"access-control-allow-methods", ", ".join(sorted(methods)).encode()),
            (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        ]
        wanted = values.get(b"access-control-request-headers", b"")
        if len(wanted) <= MAX_HEADER_NAMES_BYTES and _HEADER_NAMES.fullmatch(wanted):
            headers.append((b"access-control-allow-headers", wanted))
        if values.get(b"access-control-request-private-network") == b"true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers

    def check_names(self, values: Mapping[bytes, bytes]) -> None:
        """Raise if the host or the origin is a foreign one."""
        if not self._checks_names:
            return
        if not _is_local_host(values.get(b"host", b"")):
            raise UntrustedHost
        origin = values.get(b"origin")
        if origin and origin not in self._page_headers and not _is_local_origin(origin):
            raise UntrustedOrigin

    def check_form(self, values: Mapping[bytes, bytes]) -> None:
        """Refuse a POST that any page can make a browser send: a form, or no content type."""
        if self.page_headers(values):
            return
        if not values.get(b"origin") and values.get(b"sec-fetch-site") not in _OTHER_SITES:
            return
        content_type = values.get(b"content-type", b"").strip().lower()
        if not content_type or content_type.startswith(_FORM_TYPES):
            raise UnsupportedMediaType


def _page_headers(origin: str) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"access-control-allow-origin", origin.encode()),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    )


def is_local_name(host: str) -> bool:
    """Return whether a host is an address, or a name that does not exist in the public DNS.

    Names below `.local` are not trusted: any machine of the network can claim one.
    """
    try:
        ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".internal"))
    return True


@lru_cache(REMEMBERED_NAMES)
def _is_local_host(host: bytes) -> bool:
    """Return whether a Host header is local; only programs send none."""
    found = _HOST.fullmatch(host.strip())
    return found is not None and is_local_name((found[1] or found[2]).decode("latin-1").lower())


@lru_cache(REMEMBERED_NAMES)
def _is_local_origin(origin: bytes) -> bool:
    found = _ORIGIN.fullmatch(origin.strip())
    return found is not None and _is_local_host(found[1])
