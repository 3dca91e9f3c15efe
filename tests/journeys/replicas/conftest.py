"""The Redis that the tests of several proxies share."""

from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for all tests that do it no harm."""
    with running_redis(tmp_path_factory.mktemp("replicas")) as server:
        yield server


@pytest.fixture
def server(shared_redis: RedisServer) -> RedisServer:
    """The same, empty."""
    shared_redis.ask("FLUSHALL")
    return shared_redis
