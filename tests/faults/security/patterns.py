"""Every regular expression of the app as it is used, and strings made to hurt it."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import thread_time
from types import ModuleType
from typing import Any

import chat_proxy

METHODS = frozenset({"search", "match", "fullmatch", "finditer", "findall", "sub", "split"})
REPEATED = (
    *"aA0 \n\t-_=/\\\"'<`.:[({&#%@+*,;!",
    "\u00e9",
    "a ",
    "a1",
    "a.",
    "- ",
    "\n ",
    "0,",
    "](",
    "://",
    '\\"',
)
TAILS = ("a", "\0\n")


@dataclass(frozen=True)
class Used:
    """A pattern by the name that a module has for it, and a method that is called on it."""

    name: str
    pattern: re.Pattern[Any]
    method: str

    def seconds(self, text: str) -> float:
        """Return the processor time that a text costs."""
        given: Any = text.encode("utf-8") if isinstance(self.pattern.pattern, bytes) else text
        run = self._run()
        start = thread_time()
        run(given)
        return thread_time() - start

    def _run(self) -> Callable[[Any], object]:
        if self.method == "sub":
            return lambda text: self.pattern.sub(text[:0], text)
        if self.method == "finditer":
            return lambda text: list(self.pattern.finditer(text))
        run: Callable[[Any], object] = getattr(self.pattern, self.method)
        return run

    def hurting(self, length: int) -> Iterator[str]:
        """Yield strings of about this length: its own words and common signs, over and over."""
        source = self.pattern.pattern
        written = source.decode() if isinstance(source, bytes) else str(source)
        words = sorted(set(re.findall(r"[A-Za-z]{2,}[ :=<]?", written)), key=len)[-3:]
        starts = ["", *re.findall(r"[A-Za-z]{3,}", written)[:1]]
        for head, body, tail in product(starts, (*REPEATED, *words), TAILS):
            yield head + body * (length // len(body)) + tail


def patterns_in_use() -> Iterator[Used]:
    """Yield every pattern of every module, once for each method."""
    for found in pkgutil.walk_packages(chat_proxy.__path__, "chat_proxy."):
        if not found.name.endswith("__main__"):
            yield from _used_in(importlib.import_module(found.name))


def _used_in(module: ModuleType) -> Iterator[Used]:
    methods = _methods(Path(str(module.__file__)).read_text("utf-8"))
    for name, value in vars(module).items():
        for pattern in _patterns(value):
            for method in sorted(methods.get(name, {"search"})):
                yield Used(f"{module.__name__}.{name}", pattern, method)


def _methods(source: str) -> dict[str, set[str]]:
    """Return which methods are called on which names."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in METHODS
            and isinstance(node.value, ast.Name)
        ):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _patterns(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _patterns(item)
