"""Many observations at once are the same as one by one."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from chat_proxy.telemetry.metrics import observe_many

BUCKETS = (0.005, 0.1, 1, 10)


def figures(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    named = [line.rsplit(" ", 1) for line in lines if line and "_created" not in line]
    return {name: round(float(value), 6) for name, value in named if not name.startswith("#")}


@given(st.lists(st.sampled_from([0, 0.005, 0.0051, 0.1, 0.5, 1, 1.5, 10, 11, 1e9])))
def test_as_if_each_had_been_observed(amounts: list[float]) -> None:
    one, many = CollectorRegistry(), CollectorRegistry()
    singly = Histogram("times", "Times.", registry=one, buckets=BUCKETS)

    for amount in amounts:
        singly.observe(amount)
    observe_many(Histogram("times", "Times.", registry=many, buckets=BUCKETS), amounts)

    assert figures(many) == figures(one)
