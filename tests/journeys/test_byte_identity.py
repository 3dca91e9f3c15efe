"""Generated requests and answers cross the proxy without a byte changed, a thousand times over."""

import asyncio
import hashlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fake_model import (
    DONE,
    FakeModel,
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    polite,
)
from tests.support.fake_model import event as sse
from tests.support.live import running_proxy
from tests.support.odd_json import bodies, objects_of, values

EXAMPLES = 1_000


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """The pieces of a streamed answer, cut anywhere."""
    events = draw(
        st.lists(
            st.one_of(
                st.text(max_size=10).map(delta),
                st.sampled_from([b": ping\n\n", b"data:{}\r\n\r\n", b"event: x\ndata: 1\n\n"]),
                st.dictionaries(st.text(max_size=4), st.integers(), max_size=2).map(sse),
            ),
            max_size=6,
        )
    )
    whole = b"".join([*events, delta(finish_reason="stop"), DONE])
    cuts = sorted(draw(st.sets(st.integers(1, len(whole) - 1), max_size=4)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@dataclass
class Stage:
    """A proxy and its upstream in a thread, and what the upstream says next."""

    model: FakeModel = field(default_factory=lambda: FakeModel(polite))
    port: int = 0
    pieces: list[bytes] = field(default_factory=list)
    whole: bytes = b"{}"

    async def behave(self, received: Received, line: Line) -> None:
        if received.method == "GET":
            await polite(received, line)
        elif self.pieces:
            await begin_stream(line)
            for piece in self.pieces:
                await line.chunk(piece)
            await line.chunk(b"")
        else:
            await line.head(
                200, "content-type: application/json", f"content-length: {len(self.whole)}"
            )
            await line.send(self.whole)

    async def run(self, ready: threading.Event, stop: threading.Event) -> None:
        async with fake_model(self.behave) as self.model, running_proxy(self.model.url) as proxy:
            self.port = proxy.port
            ready.set()
            await asyncio.to_thread(stop.wait)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage, ready, stop = Stage(), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(stage.run(ready, stop)))
    thread.start()
    assert ready.wait(20)
    yield stage
    stop.set()
    thread.join()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=bodies("messages"), pieces=answers(), whole=objects_of(values))
def test_what_one_side_sends_the_other_receives(
    stage: Stage, request: tuple[bytes, bool], pieces: list[bytes], whole: str
) -> None:
    body, streams = request
    json.loads(body.decode("utf-8-sig"))
    stage.pieces = pieces if streams else []
    stage.whole = whole.encode()
    stage.model.requests.clear()

    connection = http.client.HTTPConnection("127.0.0.1", stage.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()

    (received,) = (r for r in stage.model.requests if r.method == "POST")
    assert hashlib.sha256(received.body).digest() == hashlib.sha256(body).digest()
    assert response.status == 200
    assert answer == (b"".join(pieces) if streams else stage.whole)
