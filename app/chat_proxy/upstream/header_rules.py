"""Which headers pass the proxy: allow-lists for requests, so that nothing unknown leaks."""

from functools import lru_cache

from chat_proxy.http.headers import RawHeaders

# Clients choose the names, but the same few come again and again.
REMEMBERED_NAMES = 256

# Headers that clients of OpenAI-like servers send. The caller adds the credentials.
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

# Headers that carry a key. All of them make the tenant, and they pass together or not at all.
_CREDENTIALS = frozenset(
    {
        b"authorization",
        b"api-key",
        b"cf-aig-authorization",
        b"helicone-auth",
        b"x-api-key",
        b"x-auth",
        b"x-auth-token",
        b"x-bf-vk",
        b"x-functions-key",
        b"x-goog-api-key",
        b"x-key",
        b"x-litellm-api-key",
        b"x-litellm-key",
        b"x-portkey-virtual-key",
        b"x-token",
    }
)
# What vendors call such headers. One too many costs a shared prefix, one too few a secret.
_CREDENTIAL_SUFFIXES = (
    b"-access-key",
    b"-access-token",
    b"-api-key",
    b"-api-token",
    b"-apikey",
    b"-auth",
    b"-auth-key",
    b"-auth-token",
    b"-authorization",
    b"-credential",
    b"-credentials",
    b"-password",
    b"-secret",
    b"-secret-key",
    b"-security-token",
    b"-subscription-key",
)

# Set by the proxy itself, private between the client and the proxy, or obeyed by servers: another
# path or method, another address or user of the client.
_KEPT_BACK = frozenset(
    {
        b"x-client-dn",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-forwarded",
        b"x-host",
        b"x-http-host-override",
        b"x-jwt-assertion",
        b"x-proxy-url",
        b"x-real-ip",
        b"x-request-id",
        b"x-request-uri",
        b"x-script-name",
        b"x-sendfile",
        b"x-true-client-ip",
    }
)
_KEPT_BACK_PREFIXES = (
    b"x-accel-",
    b"x-amzn-oidc-",
    b"x-auth-request-",
    b"x-authenticated-",
    b"x-chat-proxy-",
    b"x-client-cert",
    b"x-client-verify",
    b"x-consumer-",
    b"x-envoy-",
    b"x-forwarded-",
    b"x-goog-authenticated-",
    b"x-goog-iap-",
    b"x-http-method",
    b"x-lighttpd-",
    b"x-method-",
    b"x-middleware-",
    b"x-ms-client-principal",
    b"x-original-",
    b"x-override-",
    b"x-remote-",
    b"x-reproxy-",
    b"x-rewrite-",
    b"x-ssl-",
    b"x-webauth-",
)

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
# A cookie of one tenant could reach another's browser; our server sets its own date.
_NOT_ANSWERED = _HOP_BY_HOP | {b"date", b"server", b"set-cookie", b"alt-svc", b"content-length"}
_DATA_TYPES = (b"application/json", b"text/event-stream", b"application/octet-stream")
_DATA_KINDS = (b"audio/", b"image/", b"video/")
# A page of the upstream would run in the origin of the dashboard.
_NO_PAGE = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; sandbox",
}
# The proxy decides which web pages may read an answer (CORS), not the upstream.
# Web servers in front of the proxy serve the files that some headers name.
_NOT_ANSWERED_PREFIXES = (
    b"x-chat-proxy-",
    b"access-control-",
    b"x-accel-",
    b"x-lighttpd-",
    b"x-reproxy-",
    b"x-sendfile",
)
_STILL_ANSWERED = b"x-accel-buffering"


@lru_cache(REMEMBERED_NAMES)
def _is_credential(name: bytes) -> bool:
    """Return whether a header of this name carries a key."""
    plain = name.replace(b"_", b"-")
    return plain in _CREDENTIALS or (
        plain.endswith(_CREDENTIAL_SUFFIXES)
        and plain.startswith(_SENT_ON_PREFIXES)
        and not _is_kept_back(plain)
    )


def credentials_in(headers: RawHeaders) -> RawHeaders:
    """Return the client's headers that carry a key and that may be sent to the upstream."""
    carried = [header for header in headers if _is_credential(header[0])]
    named = _hop_by_hop_in(headers)
    return [header for header in carried if header[0] not in named] if named else carried


def forwarded_headers(headers: RawHeaders) -> RawHeaders:
    """Return the client's headers that are sent to the upstream, without its credentials."""
    passing = [header for header in headers if _is_sent_on(header[0])]
    named = _hop_by_hop_in(headers)
    return [header for header in passing if header[0] not in named] if named else passing


def answered(headers: RawHeaders) -> RawHeaders:
    """Return the upstream's headers that are sent to the client; names must be in lower case.

    The upstream's request id is passed under another name. What a browser could take for a page is
    marked so that no script in it runs.
    """
    named = _hop_by_hop_in(headers)
    if named:
        headers = [header for header in headers if header[0] not in named]
    passing = [(name, value) for raw_name, value in headers if (name := _answered_name(raw_name))]
    kinds = [value for name, value in passing if name == b"content-type"]
    return passing if kinds and all(map(_is_data, kinds)) else _as_no_page(passing)


@lru_cache(REMEMBERED_NAMES)
def _is_sent_on(name: bytes) -> bool:
    """Return whether a client's header of this name is sent to the upstream."""
    if name in _SENT_ON:
        return True
    return (
        name.startswith(_SENT_ON_PREFIXES)
        and not _is_kept_back(name.replace(b"_", b"-"))
        and not _is_credential(name)
    )


def _is_kept_back(name: bytes) -> bool:
    """Return whether a header ends here; some servers read `_` in its name as `-`."""
    return name in _KEPT_BACK or name.startswith(_KEPT_BACK_PREFIXES)


@lru_cache(REMEMBERED_NAMES)
def _is_data(content_type: bytes) -> bool:
    """Return whether a browser shows an answer of this type as data, never as a page."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in _DATA_TYPES or (kind.startswith(_DATA_KINDS) and not kind.endswith(b"xml"))


def _as_no_page(headers: RawHeaders) -> RawHeaders:
    """Return the headers with those that keep a browser from running scripts in the answer."""
    return [header for header in headers if header[0] not in _NO_PAGE] + [*_NO_PAGE.items()]


@lru_cache(REMEMBERED_NAMES)
def _answered_name(raw_name: bytes) -> bytes:
    """Return the name that the client gets for an upstream's header, empty to drop it."""
    name = raw_name.lower()
    if name in _NOT_ANSWERED:
        return b""
    if name.startswith(_NOT_ANSWERED_PREFIXES) and name != _STILL_ANSWERED:
        return b""
    return b"x-upstream-request-id" if name == b"x-request-id" else name


def _hop_by_hop_in(headers: RawHeaders) -> set[bytes]:
    """Return the names that Connection headers make hop-by-hop."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return named
