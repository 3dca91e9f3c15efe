"""What the server asks of the application besides ASGI: how errors look, and what is counted."""

from collections.abc import Callable
from dataclasses import dataclass

from chat_proxy.errors import ProxyError
from chat_proxy.http.headers import RawHeaders

Response = tuple[RawHeaders, bytes]
"""The headers and the body of an error response."""


@dataclass(frozen=True, slots=True)
class ServerHooks:
    """Functions of the application that the server calls; it knows no route and no metric."""

    refusal: Callable[[ProxyError, RawHeaders], Response]
    """Return the response to a request that is refused before the application sees it."""
    failure: Callable[[], Response]
    """Return the response for an application that failed without one."""
    count_refusal: Callable[[str], None]
    """Count a refused request by its error code."""
    count_slow_client: Callable[[str], None]
    """Count a request that did not arrive in time, by what was missing: headers or body."""
