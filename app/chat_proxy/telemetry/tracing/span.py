"""The spans of a request that is not traced: they do nothing. Traced ones are in otel_spans.py."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from chat_proxy.http.headers import RawHeaders

if TYPE_CHECKING:
    from chat_proxy.telemetry.record import RequestRecord


class CallSpan:
    """The span of one call to a model server, from its request to the end of its answer."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def with_context(self, headers: RawHeaders) -> RawHeaders:
        """Return the call's headers with the trace context of this span."""
        return headers

    def answered(self, status: int) -> None:
        """Record the status of the answer."""

    def used(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> None:
        """Record the token counts of the model server."""


class RequestSpan:
    """The span of one client's request; the spans of its calls are its children."""

    __slots__ = ()

    @property
    def trace_id(self) -> str:
        """The id by which a trace is found; empty if there is none."""
        return ""

    def upstream_call(self, record: "RequestRecord") -> CallSpan:  # noqa: ARG002 - see otel_spans.py
        """Begin the span of the call that the client's answer comes from."""
        return NO_CALL

    def side_query(self, purpose: str, model: str, base_url: str) -> CallSpan:  # noqa: ARG002
        """Begin the span of a query of the proxy's own; it may outlive the request."""
        return NO_CALL

    def finish(self, record: "RequestRecord") -> None:
        """End the span at the time at which the record ended."""


NO_CALL = CallSpan()
NO_SPAN = RequestSpan()
