"""Read a file of recorded conversations, gzipped or not; its format is known by its fields."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench.quality.recordings.dialogues import dialogue
from bench.quality.recordings.session import Session
from bench.quality.recordings.trajectories import trajectory

DIALOGUES, TRAJECTORIES = "dialogues", "agent trajectories"


class UnknownFormat(Exception):
    """A file has neither dialogues nor trajectories."""


class Recordings(NamedTuple):
    """The conversations of one file."""

    kind: str
    sessions: list[Session]


def read(path: Path) -> Recordings:
    """Return the conversations of a file."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    records = orjson.loads(content)
    kind, make = _format_of(records, path)
    return Recordings(kind, [make(fields) for fields in records])


def _format_of(records: Any, path: Path) -> tuple[str, Callable[[dict[str, Any]], Session]]:
    first = records[0] if isinstance(records, list) and records else {}
    if {"sessions", "qa", "speakers"} <= set(first):
        return DIALOGUES, dialogue
    if "traj" in first:
        return TRAJECTORIES, trajectory
    raise UnknownFormat(f"{path} has neither dialogues (sessions, qa) nor trajectories (traj)")
