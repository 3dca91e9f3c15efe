"""The map of a reorganisation: which module, definition and identifier is now called what."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

Names = Mapping[str, str]


@dataclass(frozen=True)
class ModuleRenames:
    """What one old module becomes; names are asked for as its own code writes them."""

    module: str
    target: str
    renames: "Renames | None" = None
    identifiers: Names = field(default_factory=dict)

    def home(self, name: str) -> str:
        """Return the module in which a top-level definition stands now."""
        if self.renames is None:
            return self.target
        return self.renames.homes.get(f"{self.module}:{name}", self.target)

    def definition(self, name: str) -> str:
        """Return the new name of a definition of this module."""
        return self.imported(self.module, name)

    def imported(self, module: str, name: str) -> str:
        """Return the new name of a definition of any module."""
        return self.renames.names.get(f"{module}:{name}", name) if self.renames else name

    def kept_in(self, function: str) -> frozenset[str]:
        """Return the identifiers that keep their names in one function."""
        if self.renames is None:
            return frozenset()
        return frozenset(self.renames.exceptions.get(f"{self.module}:{function}", ()))

    def text(self, text: str) -> str:
        """Return a string literal with the dotted names of modules in it brought up to date."""
        return self.renames.text(text) if self.renames else text


class Renames:
    """Reads the map."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.old_root: str = document["old_root"]
        self.package: str = document["package"]
        self.modules: Names = document["modules"]
        self.homes: Names = document["homes"]
        self.names: Names = document["names"]
        self.exceptions: Mapping[str, list[str]] = document["exceptions"]
        self._texts: Names = document["texts"]
        self._identifiers: list[Mapping[str, Any]] = document["identifiers"]
        self._dotted = re.compile(rf"(?<![\w./-]){self.old_root}\.([a-z_][\w.]*\w)")

    @staticmethod
    def nothing(module: str) -> ModuleRenames:
        """Return the renames of a module that is new already: none."""
        return ModuleRenames(module, module)

    def of_module(self, module: str, file: str) -> ModuleRenames:
        """Return the renames that hold in one old module."""
        path = file.removeprefix(f"{self.old_root}/")
        identifiers: dict[str, str] = {}
        for scope in self._identifiers:
            if any(fnmatch(path, pattern) for pattern in scope["files"]):
                identifiers.update(scope["renames"])
        return ModuleRenames(module, self.modules[module], self, identifiers)

    def text(self, text: str) -> str:
        """Return a text with the dotted names of modules and packages in it brought up to date."""
        if text in self._texts:
            return self._texts[text]
        return self._dotted.sub(lambda found: self._moved(found[1]) or found[0], text)

    def _moved(self, path: str) -> str | None:
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            module, rest = ".".join(parts[:end]), parts[end:]
            if module in self.modules:
                target = self.modules[module]
                if rest:
                    target = self.homes.get(f"{module}:{rest[0]}", target)
                    rest[0] = self.names.get(f"{module}:{rest[0]}", rest[0])
                return ".".join([self.package, target, *rest])
        return None
