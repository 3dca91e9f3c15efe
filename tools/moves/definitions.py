"""The definitions of a module as syntax trees, under other names if they are to be compared so."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tools.moves.renames import ModuleRenames

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """One top-level statement that defines something."""

    module: str
    name: str
    tree: str
    kinds: tuple[str, ...]
    merged: tuple[str, ...]
    """New names that stand for two old ones: a variable may hide another then."""


def definitions_in(text: str, renames: ModuleRenames) -> Iterator[Definition]:
    """Yield what a module defines, renamed."""
    module = ast.parse(text)
    bound = _bound_by_imports(module)
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) or _is_text(statement):
            continue
        old_names = list(_names_of(statement))
        home = renames.home(old_names[0]) if old_names else renames.target
        kinds = tuple(_kinds(statement))
        renaming = _Renaming(renames, bound)
        tree = renaming.visit(statement)
        names = list(_names_of(tree))
        dump = ast.dump(tree)
        yield Definition(home, ", ".join(names) or dump[:80], dump, kinds, renaming.merged())


def _bound_by_imports(module: ast.Module) -> dict[str, tuple[str, str]]:
    """Return the names that imports of our own bind, with the module and the name there."""
    bound = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("app."):
            for alias in node.names:
                if alias.asname is None:
                    bound[alias.name] = (node.module.removeprefix("app."), alias.name)
    return bound


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, Function | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _kinds(statement: ast.stmt) -> Iterator[str]:
    inner = [node for node in ast.walk(statement) if isinstance(node, Function | ast.ClassDef)]
    for node in inner:
        yield "classes" if isinstance(node, ast.ClassDef) else "functions"
    if not inner:
        yield "constants"


def _is_text(statement: ast.stmt) -> bool:
    """Tell whether a statement is only a docstring."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


class _Renaming(ast.NodeTransformer):
    """Gives every name its new one, and drops docstrings and imports."""

    def __init__(self, renames: ModuleRenames, bound: dict[str, tuple[str, str]]) -> None:
        self._renames = renames
        self._bound = bound
        self._kept: frozenset[str] = frozenset()
        self._old_names: dict[str, set[str]] = defaultdict(set)
        self._merged: set[str] = set()
        self._depth = 0

    def merged(self) -> tuple[str, ...]:
        """Return the new names under which one function has two different variables."""
        return tuple(sorted(self._merged))

    def _end_scope(self) -> None:
        self._merged |= {new for new, old in self._old_names.items() if len(old) > 1}
        self._old_names.clear()

    def _name(self, name: str) -> str:
        """Return the new name of a variable, a parameter or a definition."""
        bound = self._bound.get(name)
        new = self._renames.imported(*bound) if bound else self._renames.definition(name)
        new = new if new != name else self._identifier(name)
        self._old_names[new].add(name)
        return new

    def _identifier(self, name: str) -> str:
        """Return the new name of an attribute or an argument by keyword."""
        return name if name in self._kept else self._renames.identifiers.get(name, name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        self.generic_visit(node)
        node.arg = self._name(node.arg)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        node.arg = self._identifier(node.arg) if node.arg else node.arg
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._identifier(node.attr)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._definition(node)

    def _definition(self, node: Function | ast.ClassDef) -> ast.AST:
        outer, self._kept = self._kept, self._kept | self._renames.kept_in(node.name)
        node.name = self._name(node.name)
        node.body = [it for it in node.body if not _is_text(it)]
        self._depth += not isinstance(node, ast.ClassDef)
        self.generic_visit(node)
        self._depth -= not isinstance(node, ast.ClassDef)
        if not self._depth:
            self._end_scope()
        node.body = node.body or [ast.Pass()]
        self._kept = outer
        return node

    def visit_Import(self, _: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, _: ast.ImportFrom) -> None:
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Take the entries of `__slots__` for names, whose order means nothing."""
        self.generic_visit(node)
        if [getattr(target, "id", "") for target in node.targets] == ["__slots__"]:
            entries = [it.value for it in getattr(node.value, "elts", ())]
            named = sorted(self._identifier(entry) for entry in entries)
            node.value = ast.Tuple([ast.Constant(name) for name in named], ast.Load())
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            # A whole word in quotation marks may be a type that is defined further down.
            node.value = self._renames.definition(self._renames.text(node.value))
        return node
