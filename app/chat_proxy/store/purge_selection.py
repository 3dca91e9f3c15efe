"""What is to be deleted of all that is kept, and what was."""

from dataclasses import dataclass
from typing import Self

DAY_SECONDS = 86_400
LONGEST_DAYS = 100_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Whose and how old the things are that are to be deleted; by default all."""

    tenant: str | None = None
    before: float | None = None

    @classmethod
    def of(
        cls, older_than_days: float | None, tenant: str | None, now: float, *, everything: bool
    ) -> Self:
        """Select by age, by tenant, by both, or everything; raise ValueError if none is said."""
        is_narrowed = older_than_days is not None or tenant is not None
        if everything and is_narrowed:
            raise ValueError("--all deletes everything: say it alone, or say an age or a tenant")
        if not everything and not is_narrowed:
            raise ValueError("say what to delete: --older-than, --tenant, both, or --all")
        if older_than_days is not None and not 0 <= older_than_days < LONGEST_DAYS:
            raise ValueError("an age must be a number of days from 0 on")
        return cls(tenant, None if older_than_days is None else now - older_than_days * DAY_SECONDS)

    def is_old(self, at: float) -> bool:
        """Tell whether something last written then is old enough."""
        return self.before is None or at <= self.before

    def is_theirs(self, owner: str | None) -> bool:
        """Tell whether something may be the tenant's; what is of unknown owner may be anyone's."""
        return self.tenant is None or owner is None or owner == self.tenant


@dataclass(frozen=True, slots=True)
class Purged:
    """How much was deleted."""

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
