"""The errors that the proxy returns to clients, each with its HTTP status and code.

The first line of an error's docstring is its default message, which clients read.
"""

from collections.abc import Iterable
from typing import ClassVar


class BadConfiguration(Exception):
    """The configuration cannot be used; each line of the message gives one reason."""


class ProxyError(Exception):
    """The proxy could not answer this request."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    kind: ClassVar[str] = "server_error"
    closes_connection: ClassVar[bool] = False

    def __init__(
        self, message: str = "", *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.param = param
        self.retry_after = retry_after
        super().__init__(self.message)

    def document(self) -> dict[str, dict[str, str | None]]:
        """Return the error body in OpenAI's format."""
        fields = (self.message, self.kind, self.param, self.code)
        return {"error": dict(zip(("message", "type", "param", "code"), fields, strict=True))}


class InternalError(ProxyError):
    """The proxy made a mistake; its log says where."""


class BadRequest(ProxyError):
    """The request cannot be read."""

    status = 400
    code = "invalid_request"
    kind = "invalid_request_error"


class InvalidJson(BadRequest):
    """The body is not valid JSON."""

    code = "invalid_json"


class InvalidJsonRoot(BadRequest):
    """The body must be a JSON object."""

    code = "invalid_json_root"


class InvalidEncoding(BadRequest):
    """The body must be UTF-8."""

    code = "invalid_encoding"


class InvalidNumber(BadRequest):
    """The body contains a number that JSON does not allow or that is too long."""

    code = "invalid_number"


class TooDeep(BadRequest):
    """The body is nested too deeply."""

    code = "too_deep"


class TooComplex(BadRequest):
    """The body has too many elements."""

    code = "too_complex"


class InvalidValue(BadRequest):
    """A field has a value that is not allowed."""

    code = "invalid_value"


class InvalidCompactionItem(BadRequest):
    """The compaction item cannot be used."""

    code = "invalid_encrypted_content"


class RequestTooLarge(BadRequest):
    """The request is larger than this proxy accepts."""

    status = 413
    code = "request_too_large"
    closes_connection = True


class HeadersTooLarge(BadRequest):
    """The request's header block is larger than this proxy accepts."""

    status = 431
    code = "headers_too_large"
    closes_connection = True


class UnsupportedContentEncoding(BadRequest):
    """Request bodies may be compressed by gzip or zstd only, and only once."""

    status = 415
    code = "unsupported_content_encoding"


class InvalidContentEncoding(BadRequest):
    """The compressed body is damaged or incomplete."""

    code = "invalid_content_encoding"


class UnsupportedMediaType(BadRequest):
    """Form posts from browsers are not accepted; send application/json."""

    status = 415
    code = "unsupported_media_type"


class RequestTimeout(BadRequest):
    """The request did not arrive in time."""

    status = 408
    code = "request_timeout"
    closes_connection = True


class ExpectationFailed(BadRequest):
    """Only `Expect: 100-continue` is supported."""

    status = 417
    code = "expectation_failed"
    closes_connection = True


class InvalidApiKey(BadRequest):
    """No valid API key was sent."""

    status = 401
    code = "invalid_api_key"


class NotFound(BadRequest):
    """There is nothing at this path."""

    status = 404
    code = "not_found"


class UntrustedHost(BadRequest):
    """The proxy is answered here under addresses and local names only."""

    status = 403
    code = "strange_host"


class UntrustedOrigin(BadRequest):
    """Web pages of other machines are not answered here."""

    status = 403
    code = "strange_origin"


class MethodNotAllowed(BadRequest):
    """The path does not support the request method."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, methods: Iterable[str]) -> None:
        self.methods = sorted(methods)
        right = " or ".join(self.methods)
        super().__init__(f"The path does not support the request method; use {right}.")


class ClientGone(ProxyError):
    """The client disconnected before its answer was complete."""

    status = 499
    code = "client_closed_request"


class ClientStalled(ClientGone):
    """The client stopped reading its answer."""

    code = "client_stalled"


class Overloaded(ProxyError):
    """The proxy has reached its memory limit for request bodies; try again soon."""

    status = 503
    code = "overloaded"


class BodyRefused(Overloaded):
    """The proxy has reached its memory limit for request bodies; try again soon."""

    closes_connection = True


class TooManyRequests(ProxyError):
    """You have too many requests in progress; send this one again when one of them has ended."""

    status = 429
    code = "rate_limit_exceeded"
    kind = "rate_limit_error"


class TooManyConnections(Overloaded):
    """The proxy has reached its limit of connections; try again soon."""

    closes_connection = True


class ServerShuttingDown(ProxyError):
    """The proxy is shutting down; send the request again."""

    status = 503
    code = "server_shutting_down"
    closes_connection = True


class SummaryNotWritten(ProxyError):
    """No summary was written; nothing was changed."""

    status = 502
    code = "summary_failed"


class UpstreamError(ProxyError):
    """The upstream did not return a usable answer."""

    status = 502
    code = "upstream_error"


class UpstreamConnectError(UpstreamError):
    """The upstream refused the connection."""

    code = "upstream_connect_error"


class UpstreamDnsError(UpstreamError):
    """The upstream's name could not be resolved."""

    code = "upstream_dns_error"


class UpstreamTlsError(UpstreamError):
    """The upstream's certificate or TLS handshake was not accepted."""

    code = "upstream_tls_error"


class UpstreamReset(UpstreamError):
    """The upstream broke the connection before its answer was complete."""

    code = "upstream_reset"


class UpstreamTruncated(UpstreamError):
    """The upstream's stream ended without a finish reason."""

    code = "upstream_truncated"


class UpstreamInvalidResponse(UpstreamError):
    """The upstream's answer does not have the expected format."""

    code = "upstream_invalid_response"


class UpstreamResponseTooLarge(UpstreamError):
    """The upstream's answer is larger than this proxy accepts without streaming."""

    code = "upstream_response_too_large"


class UpstreamRedirect(UpstreamError):
    """The upstream answered with a redirect, which is never followed."""

    code = "upstream_redirect"


class UpstreamConnectTimeout(UpstreamError):
    """The upstream did not accept the connection in time."""

    status = 504
    code = "upstream_connect_timeout"


class UpstreamFirstByteTimeout(UpstreamError):
    """The upstream did not begin its answer in time."""

    status = 504
    code = "upstream_first_byte_timeout"


class UpstreamIdleTimeout(UpstreamError):
    """The upstream stopped sending in the middle of its answer."""

    status = 504
    code = "upstream_idle_timeout"


class UpstreamTotalTimeout(UpstreamError):
    """The upstream's answer took longer than allowed."""

    status = 504
    code = "upstream_total_timeout"


class UpstreamUnavailable(UpstreamError):
    """The upstream failed repeatedly; requests to it are refused for a while."""

    status = 503
    code = "upstream_unavailable"
