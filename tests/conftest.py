"""What every test gets: asyncio for async tests, and no CHAT_PROXY_* of the machine it runs on."""

import os

import pytest

from app.telemetry.logs import configure_logging


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    configure_logging("error", "json")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):  # noqa: TID251 - tests clear it
        if name.upper().startswith("CHAT_PROXY_"):
            monkeypatch.delenv(name)
