"""A stage for many meetings with a model that misbehaves."""

from collections.abc import AsyncIterator

import pytest

from tests.support.clock import BACKEND
from tests.support.meeting import Stage, common_stage


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with common_stage() as stage:
        yield stage
