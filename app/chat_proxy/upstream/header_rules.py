"""Which headers cross the proxy: a list of what may pass, so that nothing unknown leaks."""

from functools import lru_cache

from chat_proxy.http.headers import RawHeaders

# Names come from outside, but the same few again and again.
REMEMBERED_NAMES = 256

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


def sent_on(headers: RawHeaders) -> RawHeaders:
    """Return the client's headers that the upstream gets."""
    passing = [header for header in headers if _is_sent_on(header[0])]
    named = _hop_by_hop_in(headers)
    return [header for header in passing if header[0] not in named] if named else passing


def answered(headers: RawHeaders) -> RawHeaders:
    """Return the upstream's headers that the client gets; its request id under another name.

    Their names are in lower case already.
    """
    named = _hop_by_hop_in(headers)
    if named:
        headers = [header for header in headers if header[0] not in named]
    return [(name, value) for raw_name, value in headers if (name := _answered_name(raw_name))]


@lru_cache(REMEMBERED_NAMES)
def _is_sent_on(name: bytes) -> bool:
    """Tell whether a client's header of this name may pass."""
    if name in _SENT_ON:
        return True
    return (
        name.startswith(_SENT_ON_PREFIXES)
        and name not in _KEPT_BACK
        and not name.startswith(_KEPT_BACK_PREFIXES)
    )


@lru_cache(REMEMBERED_NAMES)
def _answered_name(raw_name: bytes) -> bytes:
    """Return the name under which an upstream's header passes, empty if it does not."""
    name = raw_name.lower()
    if name in _NOT_ANSWERED or name.startswith(_NOT_ANSWERED_PREFIXES):
        return b""
    return b"x-upstream-request-id" if name == b"x-request-id" else name


def _hop_by_hop_in(headers: RawHeaders) -> set[bytes]:
    """Return the names that Connection headers make hop-by-hop."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return named
