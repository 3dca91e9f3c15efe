"""The limits of a request that do not depend on its model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How long a request may take, and how large it and its answer may be."""

    mode: str
    max_body_bytes: int
    max_answer_bytes: int
    first_byte_seconds: float
    idle_seconds: float
    total_seconds: float
    client_stall_seconds: float
    ping_seconds: float
    answers_commands: bool
    """Whether the proxy answers commands in the conversation itself."""
    logs_addresses: bool = False
    """Whether the log has the clients' addresses."""
