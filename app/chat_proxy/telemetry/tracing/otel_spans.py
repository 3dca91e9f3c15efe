"""The spans of a traced request, made with OpenTelemetry's API."""

import asyncio
from types import TracebackType
from typing import Final

from opentelemetry.propagators.textmap import DefaultGetter
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, format_trace_id
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from chat_proxy.errors import ProxyError
from chat_proxy.http.headers import RawHeaders
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.telemetry.tracing.attributes import (
    OPERATIONS,
    Value,
    address_attributes,
    first_attributes,
    last_attributes,
    model_attributes,
    model_name,
    name_of,
    request_attributes,
    usage_attributes,
)
from chat_proxy.telemetry.tracing.span import NO_CALL, CallSpan, RequestSpan

TRACE_HEADERS: Final = (b"traceparent", b"tracestate")
_W3C = TraceContextTextMapPropagator()
_GETTER = DefaultGetter()


def begin_request(tracer: Tracer, record: RequestRecord, headers: RawHeaders) -> RequestSpan:
    """Begin the span of a request; the client's trace context makes it part of its trace."""
    carried: dict[str, list[str]] = {}
    for name, value in headers:
        if name in TRACE_HEADERS:
            carried.setdefault(name.decode("ascii"), []).append(value.decode("latin-1"))
    parent = _W3C.extract(carried, getter=_GETTER) if carried else None
    span = tracer.start_span(
        name_of(record), parent, SpanKind.SERVER, attributes=first_attributes(record)
    )
    return OtelRequestSpan(tracer, span)


class OtelRequestSpan(RequestSpan):
    """A server span, and the beginning of its client spans."""

    __slots__ = ("_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def trace_id(self) -> str:
        """The id of the trace, 32 hexadecimal digits."""
        return format_trace_id(self._span.get_span_context().trace_id)

    def upstream_call(self, record: RequestRecord) -> CallSpan:
        """Begin the span of the call that the client's answer comes from."""
        operation = OPERATIONS.get(record.route, "")
        attributes = {
            **first_attributes(record),
            **request_attributes(record),
            "chat_proxy.purpose": "answer",
            "chat_proxy.replay": record.replays,
        }
        is_named = operation and record.model
        name = f"{operation} {model_name(record.model)}" if is_named else name_of(record)
        return self._call(name, attributes, record.upstream)

    def side_query(self, purpose: str, model: str, base_url: str) -> CallSpan:
        """Begin the span of a query of the proxy's own; it may outlive the request."""
        attributes = {**model_attributes("chat", model), "chat_proxy.purpose": purpose}
        return self._call(f"{purpose} {model_name(model)}", attributes, base_url)

    def _call(self, name: str, attributes: dict[str, Value], base_url: str) -> CallSpan:
        found = {**attributes, **address_attributes(base_url)}
        within = set_span_in_context(self._span)
        try:
            return OtelCallSpan(self._tracer.start_span(name, within, SpanKind.CLIENT, found))
        except Exception as error:  # noqa: BLE001 - tracing fails open: a sampler is foreign code
            log_exception("call could not be traced", error)
            return NO_CALL

    def finish(self, record: RequestRecord) -> None:
        """End the span at the time at which the record ended."""
        span = self._span
        if span.is_recording():
            span.set_attributes(last_attributes(record))
            if record.status >= 500:
                span.set_status(StatusCode.ERROR)
        began = getattr(span, "start_time", None)
        span.end(began + int(record.seconds * 1e9) if began else None)


class OtelCallSpan(CallSpan):
    """A client span; it ends with the block that it is used in."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span, with the kind of error that ended the call: its message may quote text."""
        status = getattr(error, "status", None)
        if isinstance(error, ProxyError):
            self._failed(error.code)
        elif isinstance(error, asyncio.CancelledError):
            self._failed("cancelled")
        elif isinstance(status, int):
            self.answered(status)
        self._span.end()

    def with_context(self, headers: RawHeaders) -> RawHeaders:
        """Return the call's headers with the trace context of this span."""
        carried: dict[str, str] = {}
        _W3C.inject(carried, set_span_in_context(self._span))
        others = [header for header in headers if header[0] not in TRACE_HEADERS]
        own = [(name.encode("ascii"), value.encode("latin-1")) for name, value in carried.items()]
        return others + own

    def answered(self, status: int) -> None:
        """Record the status of the answer."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._failed(str(status))

    def used(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> None:
        """Record the token counts of the model server, if it gave any."""
        if prompt_tokens:
            used = usage_attributes(prompt_tokens, completion_tokens, cached_tokens)
            self._span.set_attributes(used)

    def _failed(self, code: str) -> None:
        self._span.set_attribute("error.type", code)
        self._span.set_status(StatusCode.ERROR)
