"""The load generator, one process for each burst: `python -m bench.traffic.load`.

It reads a job as a line of JSON, opens and warms the connections, says "ready", waits for a line,
runs the burst, and writes the outcome as a line of JSON.
"""

import asyncio
import gc
import itertools
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import cast

import httptools
import orjson
import uvloop

from bench.traffic.payloads import complaint_about, payload

LONGEST_BURST_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Job:
    """What a burst is to do: at least these seconds and at least these requests."""

    port: int
    headers: dict[str, str]
    kind: str
    connections: int
    seconds: float
    least_requests: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a burst saw; latencies from the request's write to the answer's last byte."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    reads_per_answer: float
    errors: dict[str, int]


class Burst:
    """The requests of one burst, shared out to the connections as they become free."""

    def __init__(self, job: Job) -> None:
        self.payload = payload(job.kind, job.connections)
        self.head = _request_head(job.headers)
        self.errors: Counter[str] = Counter()
        self.reads = 0
        self._job = job
        self._serials = itertools.count(time.time_ns() // 1_000)
        self._latencies: list[float] = []
        self._begun = 0
        self._busy = 0
        self._requests_wanted = 0
        self._deadline = 0.0
        self._all_free = asyncio.Event()

    async def warm(self, clients: list["Client"]) -> None:
        """Send one request on each connection, and forget what it took."""
        await self._run(clients, least_requests=len(clients), seconds=0)
        self._latencies, self.reads = [], 0

    async def measure(self, clients: list["Client"]) -> Outcome:
        """Keep all connections busy for the length of the job."""
        began = time.perf_counter()
        await self._run(clients, self._job.least_requests, self._job.seconds)
        took = time.perf_counter() - began
        ordered = sorted(self._latencies) or [0.0]
        return Outcome(
            requests=len(self._latencies),
            seconds=took,
            p50_us=ordered[len(ordered) // 2] * 1e6,
            p99_us=ordered[len(ordered) * 99 // 100] * 1e6,
            reads_per_answer=self.reads / len(ordered),
            errors=dict(self.errors),
        )

    async def _run(self, clients: list["Client"], least_requests: int, seconds: float) -> None:
        self._begun, self._busy, self._requests_wanted = 0, len(clients), least_requests
        self._deadline = time.perf_counter() + seconds
        self._all_free.clear()
        for client in clients:
            client.go_on()
        try:
            await asyncio.wait_for(self._all_free.wait(), LONGEST_BURST_SECONDS)
        except TimeoutError:
            self.errors[f"{self._busy} connections without an answer"] += 1

    def next_body(self, connection: int) -> bytes | None:
        """Return the body of a connection's next request, or None when the burst is over."""
        if self._begun >= self._requests_wanted and time.perf_counter() >= self._deadline:
            return None
        self._begun += 1
        return self.payload.body(connection, next(self._serials))

    def answered(self, latency: float, status: int, body: bytes, sent_bytes: int) -> None:
        """Note an answer and what is wrong with it."""
        self._latencies.append(latency)
        if status != 200:
            self.errors[f"status {status}: {body[:200]!r}"] += 1
        elif complaint := complaint_about(body, self.payload.streamed, sent_bytes):
            self.errors[complaint] += 1

    def freed(self) -> None:
        """Note that a connection has nothing more to do."""
        self._busy -= 1
        if self._busy == 0:
            self._all_free.set()


class Client(asyncio.Protocol):
    """One kept-alive connection; httptools calls its `on_…` methods."""

    def __init__(self, burst: Burst, number: int) -> None:
        self._burst = burst
        self._number = number
        self._sent_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._began = 0.0
        self._waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to ask on."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count an answer that will not come."""
        if self._waiting:
            self._waiting = False
            self._burst.errors[f"connection lost: {exc}"] += 1
            self._burst.freed()

    def go_on(self) -> None:
        """Send the next request, if there is one."""
        if self._transport.is_closing():
            self._burst.errors["connection closed between two requests"] += 1
            return self._burst.freed()
        body = self._burst.next_body(self._number)
        if body is None:
            return self._burst.freed()
        self._waiting, self._sent_bytes = True, len(body)
        request = b"%s%d\r\n\r\n%s" % (self._burst.head, len(body), body)
        self._began = time.perf_counter()
        return self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self._burst.reads += 1
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Collect the answer's body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand the answer in and go on."""
        latency = time.perf_counter() - self._began
        body, self._body, self._waiting = b"".join(self._body), [], False
        self._burst.answered(latency, self._parser.get_status_code(), body, self._sent_bytes)
        self.go_on()


def _request_head(headers: dict[str, str]) -> bytes:
    """Return the head of every request, up to the length of its body."""
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1"]
    lines += ["content-type: application/json", "accept: */*"]
    all_headers = {"authorization": "Bearer sk-bench", **headers}
    lines += [f"{name}: {value}" for name, value in all_headers.items()]
    return "\r\n".join([*lines, "content-length: "]).encode()


async def run(job: Job) -> Outcome:
    """Open the connections, wait for the word, and run the burst."""
    loop, burst = asyncio.get_running_loop(), Burst(job)
    clients = [Client(burst, number) for number in range(job.connections)]
    for client in clients:
        await loop.create_connection(lambda c=client: c, "127.0.0.1", job.port)  # type: ignore[misc]
    await burst.warm(clients)
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()  # blocks the loop, which has nothing to do
    return await burst.measure(clients)


if __name__ == "__main__":
    outcome = uvloop.run(run(Job(**orjson.loads(sys.stdin.readline()))))
    print(orjson.dumps(asdict(outcome)).decode(), flush=True)
