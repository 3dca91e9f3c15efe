"""The tools of the coding agent, and what a call of each looks like."""

import json
from typing import Any

from bench.conversation.texts import Texts

Json = dict[str, Any]


def _tool(name: str, description: str, **parameters: str) -> Json:
    properties = {key: {"type": "string", "description": what} for key, what in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = [
    _tool("read_file", "Read a file, or some lines of it.", path="the file", lines="first-last"),
    _tool("edit_file", "Replace a text in a file.", path="the file", old="before", new="after"),
    _tool("run_command", "Run a command in the workspace's shell.", command="what to run"),
    _tool("search", "Search the workspace for a pattern.", pattern="a regular expression"),
    _tool("query", "Ask the development database.", statement="one SELECT statement"),
]


def call_and_result(texts: Texts, number: int, words: int) -> tuple[Json, str]:
    """Return a call and its result; few results are long and many are short."""
    size = min(int(words * texts.random.lognormvariate(0, 0.8)), words * 5)
    path = texts.path()
    arguments, result = texts.random.choice(
        (
            _read_file,
            _read_file,
            _run_command,
            _search,
            _query,
            _edit_file,
        )
    )(texts, path, size)
    name = arguments.pop("tool")
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number:06d}", "type": "function", "function": function}, result


def _read_file(texts: Texts, path: str, size: int) -> tuple[Json, str]:
    return {"tool": "read_file", "path": path, "lines": "1-400"}, texts.code(max(3, size // 9))


def _run_command(texts: Texts, path: str, size: int) -> tuple[Json, str]:
    return {"tool": "run_command", "command": f"pytest -q {path}"}, texts.log(max(2, size // 14))


def _search(texts: Texts, path: str, size: int) -> tuple[Json, str]:
    return {"tool": "search", "pattern": path[4:12]}, texts.matches(max(1, size // 16))


def _query(texts: Texts, path: str, size: int) -> tuple[Json, str]:
    return {"tool": "query", "statement": f"SELECT * /* {path} */"}, texts.rows(max(1, size // 20))


def _edit_file(texts: Texts, path: str, size: int) -> tuple[Json, str]:
    old = texts.code(min(12, max(1, size // 30)))
    return {"tool": "edit_file", "path": path, "old": old, "new": old[::-1]}, f"Edited {path}."
