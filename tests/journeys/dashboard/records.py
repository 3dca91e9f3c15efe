"""Finished exchanges for tests of the operator's page."""

from typing import Any

from chat_proxy.telemetry.record import RequestRecord


def finished(**fields: Any) -> RequestRecord:
    """Return a chat that was answered well, but for the fields that are given."""
    record = RequestRecord("id", "/v1/chat/completions", "POST")
    usual = {
        "model": "demo",
        "status": 200,
        "tokens_before": 100,
        "tokens_after": 100,
        "window": 1_000,
        "window_source": "setting",
        "upstream_seconds": 0.5,
    }
    for name, value in {**usual, **fields}.items():
        setattr(record, name, value)
    record.finish()
    return record
