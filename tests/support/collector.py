"""A stand-in for a collector of traces: an HTTP server that decodes OTLP's protobuf."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from gzip import decompress
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.fake_model import FakeModel, Line, Received, answer_json, fake_model


@dataclass(frozen=True)
class Seen:
    """A span as the collector got it."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    has_failed: bool
    nanoseconds: int
    resource: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class Collector:
    """What arrived, in its order."""

    server: FakeModel
    spans: list[Seen] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that send spans here; a test does not wait for a batch to fill."""
        endpoint = self.server.url.removesuffix("/v1")
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20"}

    def of(self, kind: str, beginning: str = "") -> list[Seen]:
        """Return the spans of a kind whose names begin so."""
        return [it for it in self.spans if it.kind == kind and it.name.startswith(beginning)]

    @property
    def texts(self) -> str:
        """Everything that the spans say, as one text."""
        return repr([(it.name, it.attributes, it.resource) for it in self.spans])


@asynccontextmanager
async def collecting(port: int = 0) -> AsyncIterator[Collector]:
    """Run a collector on a free loopback port."""

    async def take(received: Received, line: Line) -> None:
        assert received.target == "/v1/traces"
        assert received.header("content-type") == "application/x-protobuf"
        collector.spans += spans_of(received)
        await answer_json(line, {})

    async with fake_model(take, port=port) as server:
        collector = Collector(server)
        yield collector


def spans_of(received: Received) -> list[Seen]:
    """Decode one export."""
    is_packed = received.header("content-encoding") == "gzip"
    body = decompress(received.body) if is_packed else received.body
    export = ExportTraceServiceRequest.FromString(body)
    return [
        _seen(span, _attributes(of_resource.resource.attributes))
        for of_resource in export.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _seen(span: Span, resource: dict[str, Any]) -> Seen:
    return Seen(
        span.name,
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _attributes(span.attributes),
        span.status.code == 2,
        span.end_time_unix_nano - span.start_time_unix_nano,
        resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(it) for it in value.array_value.values]
    return getattr(value, kind) if kind else None
