"""Row B27: an upstream that is not there is left alone for a while, and not for good."""

from typing import Any

import pytest

from chat_proxy.errors import UpstreamUnavailable
from chat_proxy.upstream.breaker import LET_THROUGH_ONE_IN, LONGEST_SECONDS, Breaker, Breakers
from tests.support.clock import own_time
from tests.support.fake_model import Line, Received, answer_json, fake_model, on_chat, polite
from tests.support.live import chat_request, raw_client, running_proxy
from tests.support.meeting import cut, meeting


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Patient:
    """A breaker under a clock that a test moves."""

    def __init__(self, failures: int = 3, seconds: float = 30) -> None:
        self.clock = Clock()
        self.breaker = Breaker(failures, seconds, self.clock)

    def fails(self, times: int = 1) -> None:
        for _ in range(times):
            self.breaker.failed()

    def later(self, seconds: float) -> None:
        self.clock.now += seconds

    def lets_pass(self) -> bool:
        try:
            self.breaker.check()
        except UpstreamUnavailable:
            return False
        return True


def test_it_opens_at_the_limit_and_not_before() -> None:
    patient = Patient(failures=3)
    patient.fails(2)
    assert patient.lets_pass()

    patient.fails()

    assert not patient.lets_pass()
    assert patient.breaker.is_open


def test_only_failures_in_a_row_count() -> None:
    patient = Patient(failures=3)
    patient.fails(2)
    patient.breaker.succeeded()
    patient.fails(2)

    assert patient.lets_pass()


def test_it_never_opens_when_turned_off() -> None:
    patient = Patient(failures=0)
    patient.fails(100)

    assert all(patient.lets_pass() for _ in range(100))


def test_it_says_when_to_come_back() -> None:
    patient = Patient(failures=1, seconds=30)
    patient.fails()
    patient.later(10)

    with pytest.raises(UpstreamUnavailable) as refusal:
        patient.breaker.check()

    assert refusal.value.retry_after == 20


def test_one_call_probes_when_the_time_is_up() -> None:
    patient = Patient(failures=1, seconds=30)
    patient.fails()
    patient.later(30)

    assert [patient.lets_pass() for _ in range(3)] == [True, False, False]


def test_a_good_probe_closes_it() -> None:
    patient = Patient(failures=1, seconds=30)
    patient.fails()
    patient.later(30)
    patient.lets_pass()

    patient.breaker.succeeded()

    assert all(patient.lets_pass() for _ in range(20))


def test_each_failed_probe_doubles_the_pause_up_to_a_limit() -> None:
    patient = Patient(failures=1, seconds=30)
    patient.fails()
    for pause in (30, 60, 120, 240, LONGEST_SECONDS, LONGEST_SECONDS):
        patient.later(pause - 1)
        assert not patient.lets_pass()
        patient.later(1)
        assert patient.lets_pass()
        patient.fails()

    patient.breaker.succeeded()
    patient.fails()
    patient.later(30)
    assert patient.lets_pass()


def test_stragglers_that_fail_during_the_pause_do_not_prolong_it() -> None:
    patient = Patient(failures=2, seconds=30)
    patient.fails(50)
    patient.later(30)

    assert patient.lets_pass()


def test_a_probe_that_tells_nothing_leaves_room_for_another() -> None:
    patient = Patient(failures=1, seconds=30)
    patient.fails()
    patient.later(30)
    patient.lets_pass()
    assert not patient.lets_pass()

    patient.breaker.probe_cancelled()

    assert patient.lets_pass()


def test_one_call_in_ten_flows_all_the_same() -> None:
    patient = Patient(failures=1)
    patient.fails()

    passed = [patient.lets_pass() for _ in range(5 * LET_THROUGH_ONE_IN)]

    assert passed.count(True) == 5


def test_each_upstream_has_its_own() -> None:
    breakers = Breakers(1, 30)
    breakers.of("http://a/v1").failed()

    breakers.of("http://b/v1").check()
    assert breakers.of("http://a/v1") is breakers.of("http://a/v1")
    assert breakers.open_count() == 1


@pytest.mark.anyio
async def test_a_dead_upstream_is_refused_fast_and_found_again() -> None:
    limits = {"breaker_failures": 3, "breaker_seconds": 0.3}
    async with fake_model(polite) as model:
        port = model.port
    async with (
        running_proxy(f"http://127.0.0.1:{port}/v1", upstream=limits) as proxy,
        raw_client(proxy) as client,
    ):

        async def ask() -> Any:
            await client.send(chat_request())
            return await client.answer()

        codes = [(await ask()).error["code"] for _ in range(3)]
        start = own_time()
        refused = await ask()
        seconds = own_time() - start
        open_count = proxy.services.forwarding.upstream.breakers.open_count()
        async with fake_model(polite, port=port):
            while (answer := await ask()).status == 503:
                assert own_time() - start < 2

    assert codes == ["upstream_connect_error"] * 3
    assert (refused.status, refused.error["code"]) == (503, "upstream_unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    assert seconds < 0.05
    assert open_count == 1
    assert answer.status == 200


async def silent(received: Received, line: Line) -> None:
    await line.until_closed()


async def broken(received: Received, line: Line) -> None:
    cut(line)


def refuses(status: int) -> Any:
    async def refuse(received: Received, line: Line) -> None:
        await answer_json(line, {"error": {"message": "no"}}, status)

    return refuse


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("behaviour", "counts"),
    [
        (silent, False),
        (broken, True),
        (refuses(502), False),
        (refuses(503), False),
        (refuses(504), False),
        (refuses(500), False),
        (refuses(429), False),
        (refuses(400), False),
    ],
    ids=["silence", "reset", "502", "503", "504", "500", "429", "400"],
)
async def test_only_what_says_that_nobody_is_there_counts(behaviour: Any, counts: bool) -> None:
    limits = {"breaker_failures": 2, "first_byte_timeout_seconds": 0.1}
    async with meeting(behaviour, upstream=limits) as they:
        for _ in range(2):
            await they.ask()
        they.model.behaviour = on_chat(polite)
        answer = await they.ask()

    assert (answer.status == 503) is counts
