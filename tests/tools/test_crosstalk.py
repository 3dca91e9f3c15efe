"""Every run looks for foreign bytes for some seconds; `make crosstalk` takes ten minutes."""

import socket
from pathlib import Path

import pytest

from tools.crosstalk.__main__ import read_options
from tools.crosstalk.clients import Abort, Planner
from tools.crosstalk.findings import Findings
from tools.crosstalk.ledger import Arrival, Ledger, Order, Sent
from tools.crosstalk.looking_proxy import Looks
from tools.crosstalk.report import progress_of, report
from tools.crosstalk.run import Options, crosstalk, errors_in
from tools.crosstalk.upstream.line import Line
from tools.crosstalk.upstream.server import ACTS, EARLY

OWN, FOREIGN = b"cnry-000000000001", b"cnry-000000000002"
LINE = 7
PORT = 40_000
EARLIER, LOOKED, LATER = 1, 2, 3
SECONDS = 10
FEWEST_REQUESTS = 300
MOST_RUNS = 10


@pytest.mark.anyio
async def test_no_bytes_reach_another_client_whatever_an_upstream_does() -> None:
    """With fixed seeds; without the look before the write it finds some within seconds.

    A busy machine needs more than one run for as many requests.
    """
    requests = 0
    for seed in range(1, MOST_RUNS + 1):
        run = await crosstalk(Options(SECONDS, 16, 32, seed=seed), lambda _: None)
        assert run.findings.complaints == [], report(run)
        requests += run.findings.requests
        if requests > FEWEST_REQUESTS:
            break

    assert requests > FEWEST_REQUESTS
    assert sum(run.upstream.open_lines.unasked.values()) > 0
    assert run.findings.ends["polite", "own"] > 0
    assert " 0 complaints" in progress_of(run)
    assert report(run).endswith("foreign: 0")


@pytest.mark.parametrize(
    ("send", "order"),
    [
        (Sent(LINE, 3, 3, EARLIER), Order.AFTER),
        (Sent(LINE, 2, 3, EARLIER), Order.MEANWHILE),
        (Sent(LINE, 2, 2, LATER), Order.MEANWHILE),
        (Sent(LINE, 2, 2, EARLIER), Order.BEFORE),
        (Sent(LINE, 1, 1, LATER), Order.NEVER),
        (Sent(LINE, 4, 4, LATER), Order.NEVER),
        (Sent(LINE + 1, 3, 3, LATER), Order.NEVER),
    ],
)
def test_bytes_of_others_are_judged_by_what_had_arrived_when_they_were_sent(
    send: Sent, order: Order
) -> None:
    ledger = Ledger()
    ledger.arrived(OWN, Arrival(LINE, 3, "polite", LOOKED))
    ledger.sent(FOREIGN, send)

    assert ledger.judge(FOREIGN, OWN) is order


@pytest.mark.parametrize(("before", "complaints"), [(2, 1), (3, 0)])
def test_bytes_that_were_there_before_the_request_are_a_complaint(
    before: int, complaints: int
) -> None:
    ledger = Ledger()
    request = Planner(seed=1, number=1).request("polite")
    ledger.arrived(request.canary, Arrival(LINE, 3, request.act, LOOKED))
    ledger.arrived(FOREIGN, Arrival(LINE, 2, "second_late", 0))
    ledger.sent(FOREIGN, Sent(LINE, before, before, EARLIER))
    findings = Findings(ledger)

    findings.answered(request, b"HTTP/1.1 200 OK\r\n\r\n" + FOREIGN, is_whole=True)

    assert len(findings.complaints) == complaints
    assert findings.delivered.total() == 1
    assert {act for act, _ in findings.delivered} == {"second_late"}


def test_an_internal_error_and_a_request_without_an_end_are_complaints() -> None:
    findings = Findings(Ledger())
    request = Planner(seed=1, number=1).request("polite")

    findings.answered(request, b"HTTP/1.1 500 Internal Server Error\r\n\r\n", is_whole=True)
    findings.hung(request)

    assert len(findings.complaints) == 2


def test_the_same_seed_gives_the_same_requests_of_every_kind() -> None:
    def some(seed: int) -> list[tuple[str, bytes, Abort | None]]:
        planner = Planner(seed, number=3)
        drawn = [request for _ in range(2_000) for request in planner.requests()]
        return [(request.act, request.body, request.abort) for request in drawn]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert {act for act, _, _ in some(1)} == set(ACTS)
    assert {abort for _, _, abort in some(1)} == {None, *Abort}


def test_there_are_many_misbehaviours() -> None:
    assert len(ACTS) >= 60
    assert set(ACTS) >= EARLY


def test_a_proxy_that_does_not_look_is_judged_by_what_had_arrived() -> None:
    ledger = Ledger()
    ledger.arrived(OWN, Arrival(LINE, 3, "polite", 0))
    ledger.sent(FOREIGN, Sent(LINE, 2, 2, LATER))

    assert ledger.judge(FOREIGN, OWN) is Order.BEFORE


def test_looks_are_kept_for_each_request_of_a_connection(tmp_path: Path) -> None:
    """An unasked answer lets the next request be written before this one is read."""
    looks = Looks.create(tmp_path / "looks")
    looks.note(PORT, 1)
    looks.note(PORT, 2)

    same = Looks(tmp_path / "looks")

    assert 0 < same.at(PORT, 1) <= same.at(PORT, 2)
    assert same.at(PORT, 3) == same.at(PORT + 1, 1) == 0
    looks.forget(PORT)
    assert same.at(PORT, 1) == 0


@pytest.mark.anyio
async def test_two_requests_that_arrive_together_are_both_noted(tmp_path: Path) -> None:
    ledger = Ledger()
    first, second = (Planner(1, number).request("polite") for number in (1, 2))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as proxy,
    ):
        line = Line(LINE, listener.accept()[0], ledger, Looks.create(tmp_path / "looks"))
        proxy.sendall(first.head + first.body + second.head + second.body)

        asked = [await line.next_request(), await line.next_request()]
        line.close()

    assert [request.canary for request in asked] == [first.canary, second.canary]
    assert [request.number for request in asked] == [1, 2]


@pytest.mark.anyio
@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_request_that_lies_in_the_kernel_has_arrived(
    tmp_path: Path, *, is_closed: bool
) -> None:
    """Its client may have the answer before the upstream's turn to read comes."""
    ledger = Ledger()
    request = Planner(1, 1).request("polite")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as proxy,
    ):
        line = Line(LINE, listener.accept()[0], ledger, Looks.create(tmp_path / "looks"))
        line.put_unasked(FOREIGN, FOREIGN)
        proxy.sendall(request.head + request.body)
        if is_closed:
            line.close()

        order = ledger.judge(FOREIGN, request.canary)
        line.close()

    assert order in (Order.BEFORE, Order.MEANWHILE)


def test_errors_of_the_proxy_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        '{"level": "info", "message": "request"}\nTraceback\n{"level": "error", "message": "a"}\n'
    )

    assert errors_in(log) == {"a": 1}


def test_the_command_line_says_how_long_and_how_many() -> None:
    assert read_options(["--seconds", "5", "--clients", "2-3", "--seed", "9"]) == Options(
        5, 2, 3, 9
    )
    assert read_options(["--clients", "8"]) == Options(600, 8, 8, 1)
