"""Writes the context windows of hosted models from a public table: `make windows`.

The table is that of LiteLLM's package; taken are the vendors' own names. Patterns of
tokens/windows.py know open weights, which every host serves with a window of its own: they are
corrected only for models that nobody but their vendor has.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chat_proxy.tokens.model_names import is_local_tag, plain_name
from chat_proxy.tokens.windows import by_pattern, without_date

TARGET = Path(__file__).parents[1] / "app" / "chat_proxy" / "tokens" / "windows.json"
PACKAGE = "litellm"
TABLE = "litellm/model_prices_and_context_window_backup.json"
CLOSED = {"anthropic", "gemini", "openai", "xai"}
VENDORS = {*CLOSED, "cohere_chat", "deepseek", "mistral", "moonshot", "zai"}
MODES = {"chat", "completion", "responses"}
LEAST, MOST = 4_096, 20_000_000
"""A window beyond them is a mistake of the table."""
SAME = 0.05
"""Windows that differ by less are the same one, rounded."""
_NO_TEXT = re.compile("audio|image|live|lyria|realtime|robotics|transcribe|tts")


def main() -> None:
    """Fetch the table and write what is taken of it."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*install, folder, PACKAGE], check=True)
        table = json.loads((Path(folder) / TABLE).read_text(encoding="utf-8"))
        (about,) = Path(folder).glob(f"{PACKAGE}-*.dist-info")
    found = dict(sorted(windows(table)))
    source = about.name.removesuffix(".dist-info").replace("-", " ")
    written = json.dumps({"source": source, "windows": found}, indent=1)
    TARGET.write_text(written + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} windows from {source}\n")


def windows(table: dict[str, dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield each bare name that adds something to the patterns, with its smallest window."""
    stated: dict[str, list[tuple[int, str]]] = {}
    for name, model in table.items():
        window, vendor = model.get("max_input_tokens"), model.get("litellm_provider")
        if vendor in VENDORS and model.get("mode") in MODES and is_window(window):
            stated.setdefault(plain_name(name), []).append((window, vendor))
    smallest = {name: min(found) for name, found in stated.items()}
    for name, (window, vendor) in smallest.items():
        undated = without_date(name)
        is_repeated = undated != name and smallest.get(undated) == (window, vendor)
        if not is_repeated and adds_something(name, window, vendor):
            yield name, window


def is_window(value: Any) -> bool:
    """Return whether the value can be a window."""
    return isinstance(value, int) and LEAST <= value <= MOST


def adds_something(name: str, window: int, vendor: str) -> bool:
    """Return whether the patterns do not know the name, or know another window."""
    if is_local_tag(name) or _NO_TEXT.search(name):
        return False
    known = by_pattern(name)
    if known is None:
        return True
    limits = {known.window, known.input_limit or known.window}
    return vendor in CLOSED and all(abs(it - window) > SAME * window for it in limits)


if __name__ == "__main__":
    main()
