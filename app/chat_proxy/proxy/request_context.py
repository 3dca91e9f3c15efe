"""The context of one request: the client, where the answer goes, the record."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.lifecycle.cancellation import Cancellation
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.wires.answers import Tap
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.contracts.contract import NOTHING_DONE, Contract, ContractOutcome
from chat_proxy.wires.event_streams.events import AnswerEdit
from chat_proxy.wires.wire import Wire

NOT_BUFFERED = (b"x-accel-buffering", b"no")
"""The header that keeps nginx from holding a stream back."""


class Sink(Protocol):
    """Where an answer is written."""

    @property
    def started(self) -> bool:
        """Whether the status has been sent."""
        ...

    def start(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        """Send status and headers."""
        ...

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        """Send a whole answer with its length."""
        ...

    def write(self, chunk: bytes) -> Awaitable[None]:
        """Send a piece of the body, waiting while the client does not read it."""
        ...

    def write_now(self, chunk: bytes) -> bool:
        """Send a piece of the body unless that means to wait; return whether it was sent."""
        ...

    def end(self, chunk: bytes = b"") -> Awaitable[None]:
        """Send the last piece."""
        ...

    async def abort(self) -> None:
        """Break the connection, so that half an answer does not pass for a whole one."""
        ...


def hold_nothing(_bytes: int) -> None:
    """Hold no memory for a request, where none is limited."""


@dataclass(slots=True)
class RequestContext:
    """Everything about a request except its body."""

    record: RequestRecord
    caller: Caller
    headers: RawHeaders
    values: Mapping[bytes, bytes]
    """The first value of each header."""
    query: bytes
    sink: Sink
    cancellation: Cancellation
    tap: Tap | None = None
    wire: Wire = CHAT_COMPLETIONS
    edits: Sequence[AnswerEdit] = ()
    """What changes the upstream's answer on its way, nearest to the upstream first."""
    before_end: Callable[[], Awaitable[None]] | None = None
    """What is done before the client has the end of an answer; it never raises."""
    contract: Contract | None = None
    """What the client asks the server to do about its context, where the proxy does it."""
    done: ContractOutcome = NOTHING_DONE
    """What was done for it."""
    may_be_refused: bool = False
    """Whether the request has parameters that the upstream may refuse, and that ask for nothing."""
    hold: Callable[[int], None] = hold_nothing
    """Has the request hold so many bytes from now on; raises Overloaded if that is too much."""

    _response_id: str = ""
    """The id of the answer in the streams before the one that is observed now."""
    _report: tuple[ContractOutcome, AnswerEdit | None] | None = None
    """The last outcome that was to be reported, and what reports it."""

    @property
    def response_id(self) -> str:
        """The id that the client knows the answer by, where a stream's last event repeats it."""
        return self._response_id or (self.tap.response_id if self.tap else "")

    def observe(self, tap: Tap | None) -> None:
        """Observe the stream of one more call; the answer keeps the id of the first."""
        self._response_id = self.response_id
        self.tap = tap

    @property
    def answer_edits(self) -> tuple[AnswerEdit, ...]:
        """All that changes the answer; what reports on the contract comes last.

        An answer that several calls make has one report.
        """
        if self.contract is None:
            return tuple(self.edits)
        if self._report is None or self._report[0] is not self.done:
            self._report = self.done, self.wire.answer_edit(self.done, self.record.request_id)
        report = self._report[1]
        return (*self.edits, report) if report else tuple(self.edits)

    def answer_json(self, body: bytes) -> Awaitable[None]:
        """Answer with a document of the proxy's own."""
        self.record.status = 200
        self.record.bytes_out = len(body)
        headers = [(b"content-type", b"application/json"), *self.record.response_headers()]
        return self.sink.answer(200, headers, body)
