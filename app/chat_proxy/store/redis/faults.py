"""The faults of Redis, reduced to a few names."""

from dataclasses import dataclass

from redis import exceptions as errors

# What the library raises: its own errors, network errors, and ValueError for invalid answers.
FAULTS = (errors.RedisError, errors.RedisClusterException, OSError, ValueError)

_REASONS: list[tuple[tuple[type[Exception], ...], str]] = [
    ((TimeoutError, errors.TimeoutError), "slow"),
    ((errors.BusyLoadingError,), "loading"),
    ((errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError), "denied"),
    ((errors.OutOfMemoryError,), "full"),
    ((errors.ReadOnlyError,), "read_only"),
    # Only a client without cluster support gets this.
    ((errors.MovedError,), "moved"),
    ((errors.ClusterError, errors.RedisClusterException), "unavailable"),
    ((errors.ConnectionError, OSError), "unavailable"),
]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a value, for returning instead of raising."""

    error: Exception

    @property
    def reason(self) -> str:
        """The name of the fault, from a closed set."""
        for kinds, name in _REASONS:
            if isinstance(self.error, kinds):
                return name
        return "error"

    @property
    def is_answer(self) -> bool:
        """Whether the server itself refused: it is up, and other commands may succeed."""
        refused = isinstance(self.error, errors.ResponseError)
        return refused and not isinstance(self.error, errors.ClusterError)
