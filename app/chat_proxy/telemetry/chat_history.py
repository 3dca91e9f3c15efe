"""The latest chats of this process for the dashboard: bounded, and without their text."""

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from chat_proxy.telemetry.printable import without_surrogates
from chat_proxy.telemetry.record import RequestRecord, milliseconds
from chat_proxy.telemetry.totals import Totals

ROWS = 500
DETAILS = 200
DETAIL_BYTES = 64 * 1024

Row = dict[str, Any]


class Kept(NamedTuple):
    """A finished chat; its row is built only when it is requested, which is rare."""

    number: int
    at: float
    record: RequestRecord
    has_detail: bool


class ChatHistory:
    """Keep the latest chats, the details of fewer, and the totals of all.

    For operators only: all tenants share it, at most ROWS chats and DETAILS details.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.worker = secrets.token_hex(4)
        self.started = clock()
        self.totals = Totals()
        self._clock = clock
        self._kept: deque[Kept] = deque(maxlen=ROWS)
        self._details: OrderedDict[int, bytes] = OrderedDict()

    @property
    def count(self) -> int:
        """The number of chats so far, kept or not."""
        return self.totals.chats

    def add(self, record: RequestRecord) -> None:
        """Add a finished request; requests that are not chats are only counted."""
        if not record.wire:
            self.totals.others += 1
            return
        number = self.totals.chats
        self.totals.add(record)
        detail, record.detail = record.detail, b""
        has_detail = 0 < len(detail) <= DETAIL_BYTES
        self._kept.append(Kept(number, self._clock(), record, has_detail))
        if has_detail:
            self._details[number] = detail
            if len(self._details) > DETAILS:
                self._details.popitem(last=False)

    def rows(self, first: int = 0, end: int | None = None) -> list[Row]:
        """Return the kept rows from number `first` up to `end`, which is excluded."""
        oldest = self.count - len(self._kept)
        stop = None if end is None else max(0, end - oldest)
        return [self._row(kept) for kept in islice(self._kept, max(0, first - oldest), stop)]

    def _row(self, kept: Kept) -> Row:
        return {
            "id": f"{self.worker}-{kept.number}",
            "worker": self.worker,
            "number": kept.number,
            "at": round(kept.at, 3),
            **row_of(kept.record),
            "has_detail": kept.has_detail,
        }

    def detail(self, number: int) -> bytes | None:
        """Return the details of one chat as JSON, None if they are not kept."""
        return self._details.get(number)


def row_of(record: RequestRecord) -> Row:
    """Return the row of a request for the dashboard: no text, no header, no key."""
    return {
        "request_id": record.request_id,
        "tenant": record.tenant[:12],
        "conversation": record.conversation,
        "model": without_surrogates(record.model),
        "wire": record.wire,
        "mode": record.mode,
        "streams": record.streams,
        "status": record.status,
        "code": record.code,
        "command": record.command,
        "compaction": record.compaction,
        "stages": list(record.stages),
        "failed_stages": list(record.failed_stages),
        "is_break": record.is_break,
        "replays": record.replays,
        "recalls": [record.recalls, record.recall_rounds, record.recall_tokens],
        "unfit": record.unfit,
        "reason": record.reason,
        "messages": [record.messages_before, record.messages_after],
        "tokens": [record.tokens_before, record.tokens_after],
        "window": record.window,
        "window_source": record.window_source,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "proxy_ms": milliseconds_or_none(record.proxy_seconds),
        "summary_wait_ms": milliseconds(record.summary_wait_seconds),
        "upstream_ms": milliseconds_or_none(record.upstream_seconds),
        "ms": milliseconds(record.seconds),
    }


def milliseconds_or_none(seconds: float | None) -> float | None:
    """Return a time in milliseconds, None for None."""
    return None if seconds is None else milliseconds(seconds)
