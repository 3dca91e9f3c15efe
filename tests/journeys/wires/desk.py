"""The proxy's decisions about requests of all wires, without sockets."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from chat_proxy.proxy.chat import prepare
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.routes.read_request import read_wire
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.upstream.client import Call
from chat_proxy.wires.wire import Wire
from tests.journeys.summaries.in_process import Answered, Desk, House, Writer
from tests.support.summary_material import LONGEST_LINE, some_of
from tests.support.summary_model import written
from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.responses_rules import responses_violations

Fields = dict[str, Any]
RULES: dict[str, Callable[[Fields], list[str]]] = {
    "messages": messages_violations,
    "responses": responses_violations,
}


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a request that a model reads."""
    if type(value) is str:
        yield value
    elif type(value) is list:
        for each in value:
            yield from texts_in(each)
    elif type(value) is dict:
        for key in ("messages", "input", "content", "text", "output", "arguments"):
            yield from texts_in(value.get(key))


def summary_in(question: Fields) -> str:
    """Return a usable summary of what a question of any wire shows."""
    given = "\n".join(texts_in(question)).partition("Do not answer or continue")[0]
    lines = (line.strip(" -#")[:LONGEST_LINE] for line in given.splitlines())
    return written(some_of([line for line in lines if line and not line.startswith("<<<")]))


@dataclass
class WireWriter(Writer):
    """Writes summaries in the form of the wire that it is asked by, and checks what it is asked."""

    wrong: list[str] = field(default_factory=list)
    fails: bool = False

    async def send(self, call: Call) -> Answered:
        question = json.loads(call.body)
        self.asked.append(question)
        wire = call.path.strip("/")
        self.wrong += RULES[wire](question) if wire in RULES else []
        if self.fails:
            return Answered(b'{"error":{"message":"no"}}', 500)
        return Answered(json.dumps(_answer(wire, summary_in(question))).encode())


def _answer(wire: str, text: str) -> Fields:
    if wire == "messages":
        content = [{"type": "text", "text": text}]
        return {"type": "message", "content": content, "stop_reason": "end_turn"}
    if wire == "responses":
        part = {"type": "output_text", "text": text}
        item = {"type": "message", "role": "assistant", "content": [part]}
        return {"object": "response", "status": "completed", "output": [item]}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@dataclass
class Prepared:
    """What the client sent, and what would go upstream."""

    given: bytes
    sent: bytes
    record: RequestRecord

    @property
    def body(self) -> Fields:
        return dict(json.loads(self.sent))


@dataclass
class WireDesk:
    """One proxy that speaks one wire."""

    desk: Desk
    wire: Wire
    writer: WireWriter

    def ask(self, body: Fields | bytes) -> Prepared:
        """Have a request prepared."""
        given = body if isinstance(body, bytes) else _compact(body)
        return cast("Prepared", self.desk.run(self._prepared(given)))

    async def _prepared(self, given: bytes) -> Prepared:
        services = self.desk.services
        request = read_wire(given, services.limits, self.wire, None, 0)
        record = RequestRecord("request-1", f"/v1{self.wire.path}", "POST", mode="on")
        nothing = cast("Any", None)
        context = RequestContext(
            record, Caller("t", []), [], {}, b"", nothing, nothing, wire=self.wire
        )
        route = services.model_routes.of(request.model)
        outgoing = await prepare(request, route, context, services)
        record.finish()
        return Prepared(given, outgoing.body, record)


def _compact(body: Fields) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


@contextmanager
def open_desk(house: House, wire: Wire, window: int, **sections: Any) -> Iterator[WireDesk]:
    """Open a proxy for one wire, with a store of its own."""
    writer = WireWriter(fails=sections.pop("fails", False))
    with house.desk(window, writer, **sections) as desk:
        yield WireDesk(desk, wire, writer)
