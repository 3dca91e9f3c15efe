"""Read archived conversations back from their files, as an operator's own script would."""

import json
from pathlib import Path
from typing import Any


def read_dialog(root: Path, tenant: str, chain_id: str) -> list[dict[str, Any]]:
    """Return the messages of a history, and of those that it continues, in their order."""
    lines = [line for line in _lines(root) if line["tenant"] == tenant]
    after = {line["chain"]: line.get("after") for line in lines}
    wanted = set()
    name: str | None = chain_id
    while name is not None and name not in wanted:
        wanted.add(name)
        name = after.get(name)
    found = {line["index"]: line["message"] for line in lines if line["chain"] in wanted}
    return [found[index] for index in sorted(found)]


def _lines(root: Path) -> list[dict[str, Any]]:
    """Return every whole line of the archive, which ends with a newline; a deleted one is empty."""
    files = sorted((root / "dialog").glob("*.jsonl"))
    texts = [line for file in files for line in file.read_bytes().split(b"\n")[:-1]]
    return [json.loads(text) for text in texts if text]
