"""What a run saw: how requests ended, and which foreign bytes were delivered when."""

from collections import Counter
from typing import TYPE_CHECKING

from tools.crosstalk.ledger import CANARY, Ledger, Order

if TYPE_CHECKING:
    from tools.crosstalk.clients import Request

KEPT_EXAMPLES = 20
INTERNAL_ERROR = "500"


class Findings:
    """Counts by misbehaviour, and whatever must not happen in words."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.requests = 0
        self.sent_of: Counter[str] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self.delivered: Counter[tuple[str, Order]] = Counter()
        self.complaints: list[str] = []

    def sent(self, request: "Request") -> None:
        """Count a request that was sent to its end."""
        self.requests += 1
        self.sent_of[request.act] += 1

    def answered(self, request: "Request", raw: bytes, *, is_whole: bool) -> None:
        """Search an answer, whole or not, for the canaries of others."""
        found = set(CANARY.findall(raw))
        foreign = found - {request.canary}
        for canary in foreign:
            order = self._ledger.judge(canary, request.canary)
            self.delivered[self._ledger.act_of(canary), order] += 1
            if order not in (Order.AFTER, Order.MEANWHILE):
                self.complain(f"{canary!r} reached {request.canary!r}: {order}")
        status = raw[9:12].decode("latin-1")
        if status == INTERNAL_ERROR:
            self.complain(f"{request.canary!r} ({request.act}) got a 500")
        self.ends[request.act, _end_of(status, is_whole=is_whole, is_own=not foreign)] += 1

    def hung(self, request: "Request") -> None:
        """Note a request that did not end in time."""
        self.ends[request.act, "hung"] += 1
        self.complain(f"{request.canary!r} ({request.act}) hung")

    def complain(self, what: str) -> None:
        """Note something that must not happen; the first ones are kept."""
        if len(self.complaints) < KEPT_EXAMPLES:
            self.complaints.append(what)


def _end_of(status: str, *, is_whole: bool, is_own: bool) -> str:
    if not is_own:
        return "another's"
    if not is_whole:
        return "cut"
    return "own" if status == "200" else "error"
