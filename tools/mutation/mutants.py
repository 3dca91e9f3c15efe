"""Small changes of a source file, each of which some test should notice."""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """One change: at a line of a file, these words instead of those."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """Return the source with the change."""
        return source[: self.start] + self.after + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file}:{self.line}: {before} -> {after}"


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return every change of a file, in the order of its lines."""
    tree = ast.parse(source)
    starts = _starts_of_lines(source)
    found: list[Mutant] = []
    for node in _statements_and_values(tree):
        start = _place(source, starts, node.lineno, node.col_offset)
        end = _place(source, starts, node.end_lineno or 0, node.end_col_offset or 0)
        before = source[start:end]
        changes = (after for after in _changes(node) if after != before)
        found += (Mutant(file, node.lineno, start, end, before, after) for after in changes)
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def _starts_of_lines(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _place(source: str, starts: list[int], line: int, column: int) -> int:
    """Return a place in the text; columns are told in bytes."""
    start = starts[line - 1]
    text = source[start : starts[line]]
    return start + len(text.encode()[:column].decode())


def _statements_and_values(node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield what runs: neither annotations nor decorators, docstrings, or parts of f-strings."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        left_out += [*node.decorator_list, node.returns]
    elif isinstance(node, ast.ClassDef):
        left_out += node.decorator_list
    elif isinstance(node, ast.AnnAssign | ast.arg):
        left_out.append(node.annotation)
    elif isinstance(node, ast.JoinedStr) or _is_docstring(node):
        return
    if isinstance(node, ast.stmt | ast.expr):
        yield node
    for child in ast.iter_child_nodes(node):
        if child not in left_out:
            yield from _statements_and_values(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.stmt | ast.expr) -> Iterator[str]:
    """Yield what may stand in the place of a statement or a value."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = copy(node)
        other.ops = [_COMPARISONS[type(node.ops[0])]()]
        yield f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        both = copy(node)
        both.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(both)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = copy(node)
        result.op = _OPERATORS[type(node.op)]()
        yield f"({ast.unparse(result)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.body)})"
        yield f"({ast.unparse(node.orelse)})"
    else:
        yield from _other_steps(node)


def _other_constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int):
        yield repr(value + 1)
    elif isinstance(value, float):
        yield repr(value * 1.5)
    elif isinstance(value, str) and value:
        yield repr(f"XX{value}")


def _other_steps(node: ast.stmt | ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield "return None"
    elif isinstance(node, ast.Continue):
        yield "break"
    elif isinstance(node, ast.Break):
        yield "continue"
    elif isinstance(node, ast.AugAssign) or _is_call(node):
        yield "pass"


def _is_call(node: ast.stmt | ast.expr) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
