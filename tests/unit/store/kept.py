"""An archive for tests, with a clock that they move."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.dialog import DialogPlace
from chat_proxy.store.base import Capacity

DAY = 86_400.0
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
TENANT = "a" * 64
OTHER = "b" * 64


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Kept:
    """An archive, its clock, and what it complained about."""

    def __init__(
        self,
        root: Path,
        max_bytes: int = 10**9,
        wait_seconds: float = 10,
        tenant_max_bytes: int = 10**9,
    ) -> None:
        self.root = root
        self.clock = Clock()
        self.heard: list[tuple[str, str]] = []
        self.archive = Archive(
            root,
            5,
            Capacity(max_bytes, tenant_max_bytes),
            notice=lambda operation, reason: self.heard.append((operation, reason)),
            clock=self.clock,
            wait_seconds=wait_seconds,
        )

    async def dialog(self, chain: str, *messages: dict[str, Any], **options: Any) -> DialogPlace:
        place = await self.archive.keep_dialog(TENANT, chain, messages, **options)
        assert place is not None, self.heard
        return place

    async def result(self, number: int, text: str, tenant: str = TENANT) -> Path | None:
        return await self.archive.keep_result(tenant, f"{number:032x}", text)

    def lines(self, place: DialogPlace) -> list[Any]:
        """What an agent finds that reads the lines it was told of."""
        lines = (self.root / place.file).read_bytes().split(b"\n")[place.first - 1 : place.last]
        return [json.loads(line)["message"] for line in lines]

    def files(self) -> set[str]:
        return {p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file()}
