"""What every test gets: asyncio for async tests, and no CHAT_PROXY_* of the machine it runs on."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from chat_proxy.telemetry.logs import configure_logging

# Enough for every run; `pytest --hypothesis-profile=thorough` looks longer.
settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    configure_logging("error", "json")


@pytest.fixture(autouse=True, scope="session")
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is stored by default out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # noqa: TID251 - tests clear it
        if name.upper().startswith("CHAT_PROXY_"):
            monkeypatch.delenv(name)
