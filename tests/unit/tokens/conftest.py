"""Tokenizers that are loaded once, without a network for any test here."""

import socket
import sys
from collections.abc import Iterator

import pytest

from chat_proxy.tokens.tiktoken_counter import TiktokenCounter


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        pytest.fail("counting asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="session")
def o200k() -> TiktokenCounter:
    counter = TiktokenCounter("o200k_base")
    assert counter.load()
    return counter


@pytest.fixture(scope="session")
def cl100k() -> TiktokenCounter:
    counter = TiktokenCounter("cl100k_base")
    assert counter.load()
    return counter


@pytest.fixture
def untraced() -> Iterator[None]:
    """Let a test measure the code itself, and not the coverage tool that watches it."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)
