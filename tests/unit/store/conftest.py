"""The servers that the stores' tests share."""

from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer, running_cluster, running_redis


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for all tests that do it no harm."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """A cluster of three masters for all tests that do it no harm."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers
