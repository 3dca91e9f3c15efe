"""Spans are exported by a thread of OpenTelemetry's SDK, which holds a bounded number of them."""

import logging
import uuid
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)

from chat_proxy import __version__
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.tracing.options import TracingOptions

SDK_LOGGER = "opentelemetry"
OnExport = Callable[[bool, int], None]
"""Called in the exporting thread: whether spans were exported, and how many."""


def make_provider(options: TracingOptions, on_export: OnExport) -> TracerProvider:
    """Return the maker of spans; its thread runs. The SDK reads the rest of the environment."""
    # Failures are logged by ReportedExporter, once for each outage; the SDK logs each one.
    logging.getLogger(SDK_LOGGER).setLevel(logging.CRITICAL)
    provider = TracerProvider(resource=own_resource(), shutdown_on_exit=False)
    for name in options.exporters:
        exporter = OTLPSpanExporter() if name == "otlp" else ConsoleSpanExporter()
        reported = ReportedExporter(exporter, options.endpoint, on_export)
        provider.add_span_processor(BatchSpanProcessor(reported))
    return provider


def own_resource() -> Resource:
    """Return the name of this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES prevail."""
    own = Resource.create(
        {
            "service.name": "chat-proxy",
            "service.version": __version__,
            "service.instance.id": str(uuid.uuid4()),
        }
    )
    return own.merge(OTELResourceDetector().detect())


class ReportedExporter(SpanExporter):
    """Export spans by another exporter, and log when that begins to fail and when it works again.

    The SDK calls it in its thread. A batch that cannot be exported is dropped.
    """

    def __init__(self, exporter: SpanExporter, endpoint: str, on_export: OnExport) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._on_export = on_export
        self._works = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans, whatever the exporter does."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - tracing fails open: the requests were answered
            result, reason = SpanExportResult.FAILURE, type(error).__name__
        else:
            reason = "the collector cannot be reached or refuses them"
        works = result is SpanExportResult.SUCCESS
        if works and not self._works:
            log("spans are exported again", endpoint=self._endpoint)
        elif self._works and not works:
            log("spans cannot be exported", WARNING, endpoint=self._endpoint, reason=reason)
        self._works = works
        self._on_export(works, len(spans))
        return result

    def shutdown(self) -> None:
        """End the exporter; a retry that is waiting ends too."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have the exporter write what it holds."""
        return self._exporter.force_flush(timeout_millis)
