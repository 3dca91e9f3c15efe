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

from tests.support.fake_model import FakeModel, Line, Received, begin_stream, fake_model, polite
from tests.support.fake_model import event as sse
from tests.support.live import running_proxy
from tests.support.odd_json import MESSAGES_ITEMS, RESPONSES_ITEMS, bodies, objects_of, values
from tests.support.wires.apis import CHAT, MESSAGES, RESPONSES, Api

EXAMPLES = 1_000


@st.composite
def answers(draw: st.DrawFn, api: Api = CHAT) -> list[bytes]:
    """The pieces of a streamed answer, cut anywhere."""
    events = draw(
        st.lists(
            st.one_of(
                st.text(max_size=10).map(api.words),
                st.sampled_from([b": ping\n\n", b"data:{}\r\n\r\n", b"event: x\ndata: 1\n\n"]),
                st.dictionaries(st.text(max_size=4), st.integers(), max_size=2).map(sse),
            ),
            max_size=6,
        )
    )
    whole = b"".join([*events, *api.ends])
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
        # Three generated images are more than the window that the fake model reports.
        wide = {"context_window": 1_000_000}
        async with (
            fake_model(self.behave) as self.model,
            running_proxy(self.model.url, budget=wide) as proxy,
        ):
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


def check_what_passes(
    stage: Stage, api: Api, request: tuple[bytes, bool], pieces: list[bytes], whole: str
) -> None:
    """Check that a request and its answer cross the proxy without a byte changed."""
    body, streams = request
    json.loads(body.decode("utf-8-sig"))
    stage.pieces = pieces if streams else []
    stage.whole = whole.encode()
    stage.model.requests.clear()

    connection = http.client.HTTPConnection("127.0.0.1", stage.port, timeout=60)
    connection.request("POST", api.path, body, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()

    (received,) = (r for r in stage.model.requests if r.method == "POST")
    assert received.target == api.path
    assert hashlib.sha256(received.body).digest() == hashlib.sha256(body).digest()
    assert response.status == 200
    assert answer == (b"".join(pieces) if streams else stage.whole)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=bodies("messages"), pieces=answers(), whole=objects_of(values))
def test_what_one_side_sends_the_other_receives(
    stage: Stage, request: tuple[bytes, bool], pieces: list[bytes], whole: str
) -> None:
    check_what_passes(stage, CHAT, request, pieces, whole)


SOME = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SOME
@given(
    request=bodies("input", RESPONSES_ITEMS),
    pieces=answers(RESPONSES),
    whole=objects_of(values),
)
def test_so_it_is_with_responses(
    stage: Stage, request: tuple[bytes, bool], pieces: list[bytes], whole: str
) -> None:
    check_what_passes(stage, RESPONSES, request, pieces, whole)


@SOME
@given(
    request=bodies("messages", MESSAGES_ITEMS),
    pieces=answers(MESSAGES),
    whole=objects_of(values),
)
def test_so_it_is_with_messages(
    stage: Stage, request: tuple[bytes, bool], pieces: list[bytes], whole: str
) -> None:
    check_what_passes(stage, MESSAGES, request, pieces, whole)
