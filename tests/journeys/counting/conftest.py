"""What tests of counting share: the log as they go."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chat_proxy.telemetry.logs import configure_logging

Said = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def said() -> Iterator[Said]:
    """Return the log's lines with a sentence so far; afterwards all is as it was."""
    stream = io.StringIO()
    configure_logging("info", "json", stream)

    def find(sentence: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in lines if line["message"] == sentence]

    yield find
    configure_logging("error", "json", sys.stderr)
