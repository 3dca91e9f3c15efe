"""What every test gets: asyncio for async tests, and no settings of the machine it runs on."""

import os
import ssl
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from chat_proxy.telemetry.logs import configure_logging
from tests.support.clock import BACKEND

# Enough for every run; `pytest --hypothesis-profile=thorough` looks longer.
# No example is too slow to be made or to be run: that goes by the wall clock.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", UNTIMED, max_examples=30)
settings.register_profile("thorough", UNTIMED, max_examples=500)
settings.load_profile("quick")


@pytest.fixture
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    configure_logging("error", "json")


@pytest.fixture(autouse=True, scope="session")
def _authorities() -> Iterator[None]:
    """Read the machine's certificate authorities once: most of a proxy's start is that."""

    @cache
    def context_of(cafile: object) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=cafile)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        once = SimpleNamespace(create_default_context=context_of)
        patch.setattr("chat_proxy.upstream.client.ssl", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is stored by default out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # noqa: TID251 - tests clear it
        if name.upper().startswith(("CHAT_PROXY_", "OTEL_")):
            monkeypatch.delenv(name)
