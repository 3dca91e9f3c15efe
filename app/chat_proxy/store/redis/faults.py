"""What can go wrong with Redis, by few names."""

from dataclasses import dataclass

from redis import exceptions as errors

# What the library lets through: its own errors, the network's, and answers that make no sense.
FAULTS = (errors.RedisError, errors.RedisClusterException, OSError, ValueError)

_REASONS: list[tuple[tuple[type[Exception], ...], str]] = [
    ((TimeoutError, errors.TimeoutError), "slow"),
    ((errors.BusyLoadingError,), "loading"),
    ((errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError), "denied"),
    ((errors.OutOfMemoryError,), "full"),
    ((errors.ReadOnlyError,), "read_only"),
    # Only a client that knows no cluster ever sees it.
    ((errors.MovedError,), "moved"),
    ((errors.ClusterError, errors.RedisClusterException), "unavailable"),
    ((errors.ConnectionError, OSError), "unavailable"),
]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a value."""

    error: Exception

    @property
    def reason(self) -> str:
        """The fault's name, from a closed set."""
        for kinds, name in _REASONS:
            if isinstance(self.error, kinds):
                return name
        return "error"

    @property
    def is_answer(self) -> bool:
        """Whether the server itself refused: it is there, and other questions may do better."""
        refused = isinstance(self.error, errors.ResponseError)
        return refused and not isinstance(self.error, errors.ClusterError)
