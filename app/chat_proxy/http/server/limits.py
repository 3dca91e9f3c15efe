"""Limits on the size and the duration of a request's arrival."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Time and size limits for the arrival of one request."""

    header_seconds: float
    body_seconds: float
    max_header_bytes: int
    max_header_line_bytes: int
    max_headers: int
    stall_seconds: float
    keep_alive_seconds: float

    @property
    def shortest_seconds(self) -> float:
        """The shortest of the timeouts."""
        return min(self.header_seconds, self.body_seconds, self.keep_alive_seconds)

    @property
    def harmless_bytes(self) -> int:
        """Bytes below which a head is surely within all limits and need not be measured.

        Half of a limit, because a header counts for up to a quarter more than its bytes.
        """
        return min(self.max_header_bytes, self.max_header_line_bytes) // 2

    def body_deadline(self, body_bytes: int) -> float:
        """Return the seconds that a body may take: one more for each mebibyte received."""
        return self.body_seconds + body_bytes / MEBIBYTE

    def most_framing(self, body_bytes: int) -> int:
        """Return how many bytes may be spent on sizes and extensions of chunks.

        Each chunk costs a call, whatever its size. So many chunks of any size are accepted as fit
        into the limit of a head, about 13,000; beyond, they must have 20 bytes on average.
        """
        return self.max_header_bytes + body_bytes // 4
