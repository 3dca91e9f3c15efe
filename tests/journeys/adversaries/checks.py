"""What holds of every request, whoever misbehaved."""

import json
import re
from dataclasses import dataclass

from tests.journeys.adversaries.talks import TENANTS
from tests.journeys.adversaries.upstream import Tape, mark_of
from tests.journeys.trimming.growing import has_whole_pairs
from tests.support.live import RawAnswer
from tests.support.strict_template import complaints
from tests.unit.chat.shapes import Fields

UNTOUCHED = ("none", "off")
_ERROR_FRAME = re.compile(rb"(?:\n\n)?data: (\{\"error\":.*\})\n\ndata: \[DONE\]\n\n")


@dataclass(frozen=True)
class Asked:
    """A request as its client sent it."""

    request_id: str
    tenant: str
    body: bytes
    messages: list[Fields]


def check(asked: Asked, answer: RawAnswer, tapes: list[Tape]) -> None:
    """Check an answer against the request and all that went upstream for it."""
    assert answer.headers["x-request-id"] == asked.request_id
    assert only_own_marks(asked.tenant, answer.body)
    for tape in tapes:
        check_sent(asked, tape)
    if answer.headers["x-chat-proxy-compaction"] in UNTOUCHED:
        assert all(tape.received.body == asked.body for tape in tapes)
    if "x-chat-proxy-error" in answer.headers:
        check_own_error(answer)
    elif answer.headers["content-type"].startswith("text/event-stream"):
        check_stream(answer, tapes[-1])
    else:
        assert (answer.status, answer.body) == (tapes[-1].status, tapes[-1].body)
        assert tapes[-1].is_whole


def check_sent(asked: Asked, tape: Tape) -> None:
    """Check what the upstream got: whole pairs, a form it takes, and nobody else's summary."""
    messages = json.loads(tape.received.body)["messages"]
    assert tape.tenant == asked.tenant
    assert has_whole_pairs(messages)
    assert complaints(asked.messages) == []
    assert complaints(messages) == []
    assert only_own_marks(asked.tenant, tape.received.body)
    assert len(tape.received.body) <= len(asked.body)


def only_own_marks(tenant: str, text: bytes) -> bool:
    """Tell whether no summary of another tenant is in a text."""
    others = (mark_of(other).encode() for other in TENANTS if other != tenant)
    return not any(mark in text for mark in others)


def check_own_error(answer: RawAnswer) -> None:
    """Check that an error of ours has its documented shape."""
    assert answer.status >= 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"]
    assert answer.error["code"] != "internal_error", answer.error


def check_stream(answer: RawAnswer, tape: Tape) -> None:
    """Check that a stream is what the upstream said, and at most one error frame behind it."""
    assert answer.status == 200
    if tape.is_whole:
        assert answer.body == tape.body
        return
    frame = _ERROR_FRAME.search(answer.body)
    assert frame, answer.body
    assert frame.end() == len(answer.body)
    assert tape.body.startswith(answer.body[: frame.start()].rstrip(b"\n"))
    assert set(json.loads(frame[1])["error"]) == {"message", "type", "param", "code"}
