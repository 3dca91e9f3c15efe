"""What is counted, from the record of each exchange."""

from collections.abc import Callable
from typing import Any

import pytest

from chat_proxy.telemetry.metrics import PENDING_RECORDS, Metrics
from chat_proxy.telemetry.record import RequestRecord
from tests.support.figures import figure_in


def finished(**fields: Any) -> RequestRecord:
    record = RequestRecord("id", "/v1/chat/completions", "POST")
    for name, value in fields.items():
        setattr(record, name, value)
    record.finish()
    return record


def figure(metrics: Metrics, name: str) -> float:
    return figure_in(metrics.render().decode(), name)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (
            {"code": "client_closed_request", "phase": "stream"},
            'client_abort_total{phase="stream"}',
        ),
        ({"code": "client_stalled"}, "client_stall_total"),
        ({"code": "upstream_truncated"}, "stream_truncated_total"),
        ({"code": "internal_error"}, "internal_error_total"),
        ({"retried": True}, 'retry_total{reason="reused_conn"}'),
        ({"repeats_keys": True}, "dup_key_total"),
        ({"has_lone_surrogates": True}, 'input_repaired_total{kind="surrogate"}'),
        ({"status": 429}, "upstream_429_total"),
    ],
)
def test_trouble_is_counted_by_its_kind(fields: dict[str, Any], name: str) -> None:
    metrics = Metrics()

    metrics.observe(finished(**fields))

    assert figure(metrics, f"chat_proxy_{name}") == 1


def test_records_wait_for_each_other_but_not_for_ever() -> None:
    metrics = Metrics()
    counted: Callable[[], float] = lambda: sum(  # noqa: E731 - the figure as it stands
        sample.value
        for family in metrics.requests.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )

    for _ in range(PENDING_RECORDS - 1):
        metrics.observe(finished(status=200))
    before = counted()
    metrics.observe(finished(status=200))

    assert (before, counted()) == (0, PENDING_RECORDS)


def test_every_metric_is_documented_and_named_as_ours() -> None:
    documented = Metrics().documented()

    assert len(documented) >= 17
    for name, kind, labels, meaning in documented:
        assert name.startswith("chat_proxy_")
        assert name.endswith("_total") == (kind == "counter")
        assert kind in ("counter", "gauge", "histogram")
        assert meaning.endswith(".")
        assert set(labels.split(", ")) <= {
            "", "op", "route", "status", "code", "kind", "direction", "phase", "reason",
            "wire", "mode", "outcome", "stage", "result", "shape",
            "model", "upstream", "version", "python",
        }  # fmt: skip


def test_two_apps_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()

    one.observe(finished(status=429))

    assert figure(one, "chat_proxy_upstream_429_total") == 1
    assert figure(other, "chat_proxy_upstream_429_total") == 0


def test_the_log_says_what_is_known_and_no_more() -> None:
    bare = finished(status=404, tenant="a" * 64, model="m" * 500).log_fields()
    full = finished(
        upstream_seconds=0.5, prompt_tokens=3, completion_tokens=2, cached_tokens=1, window=4096
    ).log_fields()

    assert bare["tenant"] == "a" * 12
    assert bare["model"] == "m" * 128
    assert not {"upstream_ms", "prompt_tokens", "window"} & set(bare)
    assert full["upstream_ms"] == 500
    assert (full["prompt_tokens"], full["completion_tokens"], full["cached_tokens"]) == (3, 2, 1)
    assert full["window"] == 4096
