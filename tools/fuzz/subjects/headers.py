"""Headers: only what may pass does, in both directions, and no key reaches where it must not."""

from chat_proxy.errors import InvalidApiKey
from chat_proxy.http.headers import RawHeaders, values_of
from chat_proxy.routes.front.front_door import request_id
from chat_proxy.routes.front.identity import Gate
from chat_proxy.upstream.header_rules import answered, forwarded_headers

SECRET = b"sk-the-secret"
NEVER_SENT = (b"authorization", b"x-api-key", b"cookie", b"host", b"connection", b"upgrade")
NEVER_ANSWERED = (b"set-cookie", b"transfer-encoding", b"content-length", b"x-request-id")

_OPEN_GATE = Gate([])
_LOCKED_GATE = Gate([SECRET.decode()])


def pass_any_headers(data: bytes) -> None:
    """Take the lines as a client's headers, and as an upstream's."""
    headers = _headers_in(data)
    _check_sent([(name.lower(), value) for name, value in headers])
    names = {name for name, _ in answered(headers)}
    assert not names.intersection(NEVER_ANSWERED)
    assert not any(name.startswith(b"x-chat-proxy-") for name in names)


def _check_sent(headers: RawHeaders) -> None:
    passed = list(forwarded_headers(headers))
    assert all(header in headers for header in passed)
    assert not {name for name, _ in passed}.intersection(NEVER_SENT)
    assert not any(name.startswith((b"x-forwarded-", b"x-chat-proxy-")) for name, _ in passed)
    chosen = request_id(values_of(headers))
    assert chosen.isascii()
    assert chosen.isprintable()
    assert 0 < len(chosen) <= 128
    _check_identity(headers)


def _check_identity(headers: RawHeaders) -> None:
    query = b"".join(value for name, value in headers if name == b"query")
    try:
        caller = _OPEN_GATE.caller(headers, query)
    except InvalidApiKey:
        return
    assert all(header in headers for header in caller.credentials)
    carried = [value for name, value in headers if name in (b"authorization", b"x-api-key")]
    try:
        assert not _LOCKED_GATE.caller(headers, query).credentials
    except InvalidApiKey:
        return
    assert carried
    assert all(SECRET in value for value in carried)


def _headers_in(data: bytes) -> RawHeaders:
    lines = (line.partition(b":") for line in data.split(b"\n"))
    return [(name, value.strip()) for name, _, value in lines]
