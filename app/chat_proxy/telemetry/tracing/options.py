"""What the standard `OTEL_*` variables say about traces."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

PREFIX = "OTEL_"
DEFAULT_ENDPOINT = "http://localhost:4318/v1/traces"
_EXPORTERS = ("otlp", "console")
_PROTOCOLS = ("http/protobuf", "")


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """Where spans go: nowhere without an exporter."""

    exporters: tuple[str, ...] = ()
    endpoint: str = ""
    """The collector's URL without credentials, as people see it; empty if there is none."""
    problem: str = ""
    """Why traces that are asked for are not made, one sentence."""


def options_in(variables: Mapping[str, str]) -> TracingOptions:
    """Return the options; without OTEL_TRACES_EXPORTER a collector's endpoint turns traces on."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TracingOptions()
    endpoint = _endpoint_in(variables)
    named = variables.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    exporters = _names(named) if named else ("otlp",) if endpoint else ()
    if "none" in exporters or not exporters:
        return TracingOptions()
    unknown = [name for name in exporters if name not in _EXPORTERS]
    if unknown:
        return TracingOptions(problem=f"OTEL_TRACES_EXPORTER: {unknown[0]!r} is not otlp, console.")
    if "otlp" not in exporters:
        return TracingOptions(exporters)
    return _by_otlp(exporters, endpoint or DEFAULT_ENDPOINT, variables)


def _by_otlp(
    exporters: tuple[str, ...], endpoint: str, variables: Mapping[str, str]
) -> TracingOptions:
    protocol = _first(variables, "TRACES_PROTOCOL", "PROTOCOL").lower()
    if protocol not in _PROTOCOLS:
        return TracingOptions(
            problem=f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}: only http/protobuf is supported."
        )
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        return TracingOptions(problem="OTEL_EXPORTER_OTLP_ENDPOINT: is not an http(s) URL.")
    shown = url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return TracingOptions(exporters, shown)


def _endpoint_in(variables: Mapping[str, str]) -> str:
    """Return the URL that spans are sent to, as the specification builds it."""
    traces = variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    common = variables.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return traces or (common and f"{common.rstrip('/')}/v1/traces")


def _first(variables: Mapping[str, str], *names: str) -> str:
    values = (variables.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip() for name in names)
    return next(filter(None, values), "")


def _names(listed: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in listed.split(","))))
