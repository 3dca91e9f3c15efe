"""Which headers cross the proxy: a list of what may pass, so that nothing unknown leaks."""

from collections.abc import Iterable, Iterator

RawHeaders = list[tuple[bytes, bytes]]

# What clients of OpenAI-like servers say about a request. Identity is added by the caller.
_SENT_ON = frozenset(
    {
        b"accept",
        b"accept-language",
        b"baggage",
        b"content-type",
        b"http-referer",
        b"idempotency-key",
        b"referer",
        b"originator",
        b"session-id",
        b"thread-id",
        b"traceparent",
        b"tracestate",
        b"user-agent",
    }
)
_SENT_ON_PREFIXES = (b"x-", b"openai-", b"anthropic-", b"helicone-", b"cf-aig-")

# Told by the proxy itself, or nobody's business upstream.
_KEPT_BACK = frozenset({b"x-api-key", b"x-real-ip", b"x-request-id", b"x-client-ip"})
_KEPT_BACK_PREFIXES = (b"x-forwarded-", b"x-chat-proxy-", b"x-original-", b"x-envoy-")

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# An answer's cookie would be one tenant's in another's browser; the date is the server's own.
_NOT_ANSWERED = _HOP_BY_HOP | {b"date", b"server", b"set-cookie", b"alt-svc", b"content-length"}
# Which web pages may read an answer is for the proxy to say, and it says none.
_NOT_ANSWERED_PREFIXES = (b"x-chat-proxy-", b"access-control-")


def sent_on(headers: RawHeaders) -> Iterator[tuple[bytes, bytes]]:
    """Yield the client's headers that the upstream gets."""
    named = _named_by_connection(headers)
    for name, value in headers:
        if (name in _SENT_ON or _is_extension(name)) and name not in named:
            yield name, value


def answered(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the upstream's headers that the client gets; its request id under another name."""
    headers = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(headers)
    for name, value in headers:
        if name in _NOT_ANSWERED or name in named or name.startswith(_NOT_ANSWERED_PREFIXES):
            continue
        yield (b"x-upstream-request-id" if name == b"x-request-id" else name), value


def _is_extension(name: bytes) -> bool:
    """Tell whether a vendor's header may pass."""
    return (
        name.startswith(_SENT_ON_PREFIXES)
        and name not in _KEPT_BACK
        and not name.startswith(_KEPT_BACK_PREFIXES)
    )


def value_of(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """Return the first value of a header, empty if there is none."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""


def _named_by_connection(headers: RawHeaders) -> set[bytes]:
    """Return the names that Connection headers make hop-by-hop."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return named
