"""Traces of requests by OpenTelemetry, if the environment asks for them.

OpenTelemetry is the extra `otel`, and it is imported only when traces are on.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from chat_proxy import __version__
from chat_proxy.http.headers import RawHeaders
from chat_proxy.telemetry.logs import WARNING, log, log_exception
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.telemetry.tracing.options import PREFIX, options_in
from chat_proxy.telemetry.tracing.span import NO_SPAN, RequestSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 5.0
"""How long a shutdown waits for the last spans: a collector that is down must not delay it."""
NOT_INSTALLED = "the extra `otel` is not installed: pip install 'chat-proxy[otel]'."

Begin = Callable[[RequestRecord, RawHeaders], RequestSpan]
Environment = Callable[[Mapping[str, str], str], AbstractContextManager[None]]


class Tracing:
    """Begin the spans of requests; without options for them nothing is imported or done."""

    def __init__(
        self, variables: Mapping[str, str], environment: Environment, metrics: Metrics
    ) -> None:
        """Read the options; the SDK reads further ones itself in the given `environment`."""
        self.options = options_in(variables)
        self.begin: Begin | None = None
        """Begins the span of a request; None while traces are off."""
        self._metrics = metrics
        self._environment = partial(environment, variables, PREFIX)
        self._provider: TracerProvider | None = None

    async def open(self) -> None:
        """Start the exporter's thread; without OpenTelemetry requests are served untraced."""
        if self.options.problem:
            log("traces are off", WARNING, reason=self.options.problem)
        if not self.options.exporters:
            return
        try:
            # In a thread: the import alone takes a quarter of a second, and more on a busy machine.
            await asyncio.to_thread(self._begin_tracing)
        except ImportError:
            log("traces are off", WARNING, reason=NOT_INSTALLED)
        except Exception as error:  # noqa: BLE001 - tracing fails open: requests are served
            log_exception("traces are off: OpenTelemetry cannot be set up", error)

    def _begin_tracing(self) -> None:
        # Here, because the extra may be missing.
        from chat_proxy.telemetry.tracing.export import make_provider  # noqa: PLC0415
        from chat_proxy.telemetry.tracing.otel_spans import begin_request  # noqa: PLC0415

        with self._environment():
            self._provider = make_provider(self.options, self._count)
        tracer = self._provider.get_tracer("chat_proxy", __version__)

        def begin(record: RequestRecord, headers: RawHeaders) -> RequestSpan:
            try:
                return begin_request(tracer, record, headers)
            except Exception as error:  # noqa: BLE001 - tracing fails open
                log_exception("request could not be traced", error)
                return NO_SPAN

        self.begin = begin

    def _count(self, is_exported: bool, spans: int) -> None:
        self._metrics.spans.labels("exported" if is_exported else "failed").inc(spans)

    async def close(self) -> None:
        """Export the last spans; give up after FLUSH_SECONDS."""
        if self._provider is None:
            return
        provider, self._provider, self.begin = self._provider, None, None
        # A thread of its own: one of the common pool would be waited for when the process ends.
        last = Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        await asyncio.to_thread(last.join, FLUSH_SECONDS)
        if last.is_alive():
            log("the last spans could not be exported", WARNING, endpoint=self.options.endpoint)
