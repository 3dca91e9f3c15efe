"""How long and how large a request's arrival may be."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one client may take of time and room before its request is there."""

    header_seconds: float
    body_seconds: float
    max_header_bytes: int
    max_header_line_bytes: int
    max_headers: int
    stall_seconds: float
    keep_alive_seconds: float

    @property
    def shortest_seconds(self) -> float:
        """The shortest time for which a client is waited."""
        return min(self.header_seconds, self.body_seconds, self.keep_alive_seconds)

    @property
    def harmless_bytes(self) -> int:
        """How many bytes may come before headers are measured: fewer are within all limits.

        Half of a limit, because a header counts for up to a quarter more than its bytes.
        """
        return min(self.max_header_bytes, self.max_header_line_bytes) // 2

    def body_deadline(self, body_bytes: int) -> float:
        """Return how many seconds a body has of which so much is there: a mebibyte buys one."""
        return self.body_seconds + body_bytes / MEBIBYTE
