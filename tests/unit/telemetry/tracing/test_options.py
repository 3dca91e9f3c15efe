"""Which `OTEL_*` variables turn traces on."""

import pytest

from chat_proxy.telemetry.tracing.options import TracingOptions, options_in

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
EXPORTER = "OTEL_TRACES_EXPORTER"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {EXPORTER: "none", ENDPOINT: "http://collector:4318"},
        {"OTEL_SDK_DISABLED": "TRUE", ENDPOINT: "http://collector:4318"},
        {ENDPOINT: " "},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318"},
    ],
)
def test_traces_are_off_unless_they_are_asked_for(variables: dict[str, str]) -> None:
    assert options_in(variables) == TracingOptions()


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({ENDPOINT: "http://collector:4318"}, "http://collector:4318/v1/traces"),
        ({ENDPOINT: "http://collector:4318/base/"}, "http://collector:4318/base/v1/traces"),
        ({TRACES: "https://c/spans", ENDPOINT: "http://x"}, "https://c/spans"),
        ({EXPORTER: "otlp"}, "http://localhost:4318/v1/traces"),
        ({EXPORTER: "OTLP ", "OTEL_SDK_DISABLED": "false"}, "http://localhost:4318/v1/traces"),
        ({ENDPOINT: "https://me:secret@c:1"}, "https://c:1/v1/traces"),
        ({TRACES: "https://c/spans?key=secret#x"}, "https://c/spans"),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            "http://c/v1/traces",
        ),
    ],
)
def test_an_endpoint_is_shown_without_its_credentials(
    variables: dict[str, str], endpoint: str
) -> None:
    assert options_in(variables) == TracingOptions(("otlp",), endpoint)


def test_spans_can_be_printed_as_well() -> None:
    assert options_in({EXPORTER: "console"}) == TracingOptions(("console",))
    assert options_in({EXPORTER: "otlp, console"}).exporters == ("otlp", "console")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({EXPORTER: "zipkin"}, "'zipkin' is not otlp, console"),
        ({ENDPOINT: "collector:4318"}, "is not an http(s) URL"),
        ({ENDPOINT: "http://"}, "is not an http(s) URL"),
        ({ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(variables: dict[str, str], words: str) -> None:
    options = options_in(variables)

    assert words in options.problem
    assert options.exporters == ()
