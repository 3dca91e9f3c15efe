"""Report the faults of upstreams and stores to the operator."""

import re
from collections.abc import Callable

from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.metrics import Metrics


def report_breaker(base_url: str, seconds: float | None) -> None:
    """Log that calls to an upstream are refused from now on, or that it answers again."""
    if seconds is None:
        log("the upstream answers again", upstream=base_url)
    else:
        sentence = "the upstream fails repeatedly: requests to it are refused for a while"
        log(sentence, WARNING, upstream=base_url, seconds=seconds)


def fault_reporter(metrics: Metrics, place: str) -> Callable[[str, str], None]:
    """Return a function that counts and logs the faults of the store or the archive.

    `place` is its address or folder; the log has it without credentials.
    """
    store = without_credentials(place)

    def report(operation: str, kind: str) -> None:
        metrics.store_errors.labels(operation, kind).inc()
        log("a store operation failed", WARNING, store=store, operation=operation, kind=kind)

    return report


def without_credentials(place: str) -> str:
    """Return an address without its user name, password and query, which may hold a key too."""
    return re.sub(r"//[^/]*@", "//", place).partition("?")[0]
