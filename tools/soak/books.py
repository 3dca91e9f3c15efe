"""Every request is accounted for: what clients sent, what they got, what the proxy says of it."""

from collections import Counter
from dataclasses import dataclass, field

from tools.soak.plan import EXPECTED, Errand

CHAT = "/v1/chat/completions"
SHOWN = 20


@dataclass
class Books:
    """What was sent and what was logged; a request leaves when both sides are known."""

    sent: int = 0
    by_trouble: Counter[str] = field(default_factory=Counter)
    logged: Counter[str] = field(default_factory=Counter)
    """Log lines by status."""
    codes: Counter[str] = field(default_factory=Counter)
    compactions: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    _open: dict[str, int | None] = field(default_factory=dict)
    """What clients got by request id, None as long as they have nothing, -1 if they left."""
    _early: dict[str, int] = field(default_factory=dict)
    """Log lines of requests whose client has not finished reading."""

    def begin(self, errand: Errand) -> None:
        """Note a request that is about to be sent."""
        self.sent += 1
        self.by_trouble[errand.trouble] += 1
        self._open[errand.request_id] = None

    def left(self, errand: Errand) -> None:
        """Note a client that went away."""
        self._settle(errand.request_id, -1)

    def answered(self, errand: Errand, status: int) -> None:
        """Note an answer, which must be one that the trouble allows."""
        if not errand.is_abort and status not in EXPECTED[errand.trouble]:
            self.complain(f"{errand.request_id} was answered with {status}")
        self._settle(errand.request_id, status)

    def log(self, line: dict[str, object]) -> None:
        """Note a line of the proxy's log."""
        if line.get("message") == "request failed by a mistake in the proxy":
            self.complain(f"a mistake in the proxy: {line}")
        if line.get("message") != "request" or line.get("route") != CHAT:
            return
        name, status = str(line["request_id"]), int(str(line["status"]))
        self.logged[str(status)] += 1
        self.codes[str(line["code"]) or "fine"] += 1
        self.compactions[str(line["compaction"])] += 1
        if name in self._early or name not in self._open:
            self.complain(f"{name} was logged twice, or never sent")
        elif self._open[name] is None:
            self._early[name] = status
        else:
            self._agree(name, status)

    def close(self, counted: Counter[str]) -> list[str]:
        """Return what does not add up at the end; `counted` is requests_total by status."""
        found = [f"{name} has no line in the log" for name in list(self._open)[:SHOWN]]
        if self.logged != counted:
            found.append(f"logged {dict(self.logged)}, but counted {dict(counted)}")
        return [*self.complaints[:SHOWN], *found]

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def complain(self, what: str) -> None:
        """Keep what is wrong."""
        self.complaints.append(what)

    def _settle(self, name: str, status: int) -> None:
        self._open[name] = status
        if name in self._early:
            self._agree(name, self._early.pop(name))

    def _agree(self, name: str, logged: int) -> None:
        got = self._open.pop(name)
        if got not in (-1, logged):
            self.complain(f"{name} got {got}, the log says {logged}")
