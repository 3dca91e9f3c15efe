"""What tests of the surface share: the log as they go."""

from tests.journeys.counting.conftest import said

__all__ = ["said"]
