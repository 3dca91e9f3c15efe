"""What a purge is to delete, and what it has deleted."""

from dataclasses import dataclass
from typing import Self

DAY_SECONDS = 86_400
LONGEST_DAYS = 100_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The tenant and age of the data to delete; by default all data."""

    tenant: str | None = None
    before: float | None = None

    @classmethod
    def of(
        cls, older_than_days: float | None, tenant: str | None, now: float, *, everything: bool
    ) -> Self:
        """Return a selection by age, tenant or both, or of everything, or raise ValueError."""
        is_narrowed = older_than_days is not None or tenant is not None
        if everything and is_narrowed:
            raise ValueError(
                "--all deletes everything: use it alone, or give an age or a tenant instead"
            )
        if not everything and not is_narrowed:
            raise ValueError("specify what to delete: --older-than, --tenant, both, or --all")
        if older_than_days is not None and not 0 <= older_than_days < LONGEST_DAYS:
            raise ValueError("an age must be a number of days, 0 or more")
        return cls(tenant, None if older_than_days is None else now - older_than_days * DAY_SECONDS)

    def is_old(self, at: float) -> bool:
        """Return whether data last written at this time is old enough to delete."""
        return self.before is None or at <= self.before

    def may_belong_to_tenant(self, owner: str | None) -> bool:
        """Return whether data may belong to the tenant; data of unknown owner may."""
        return self.tenant is None or owner is None or owner == self.tenant


@dataclass(frozen=True, slots=True)
class Purged:
    """The amounts of deleted data."""

    files: int = 0
    lines: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Self) -> "Purged":
        return Purged(
            self.files + other.files,
            self.lines + other.lines,
            self.rows + other.rows,
            self.bytes + other.bytes,
        )
