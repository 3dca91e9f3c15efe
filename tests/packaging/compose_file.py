"""The compose file, as Compose sees it."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

TEXT = (Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8")


def with_defaults(text: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the file as Compose sees it with these variables and no others."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda it: variables.get(it[1], it[2]), text)
