"""Tool results that a later one replaces: the same call again, a file read again or rewritten."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.normal_form.canonical import is_complex_json
from chat_proxy.chat.tool_names import ResultCall, call_of_results
from chat_proxy.compaction.ageing.important import important_lines, reads_files
from chat_proxy.compaction.tool_results import ToolResult, tool_results

LEAST_SHARE: Final = 4
"""A result that is so many times longer than the later one stays: that may be an error."""

_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file", "absolute_path", "target_file")
_CONTENT_KEYS = ("content", "contents", "text", "file_text")
_WRITING = re.compile(r"write|create|save|(?<![a-z])put(?![a-z])", re.IGNORECASE)
_SCANNED_CHARS = 2_000


def superseded(conversation: Conversation) -> dict[int, str]:
    """Return the results that a later one replaces, by index, each with the reason."""
    calls = call_of_results(conversation)
    newer_calls: set[tuple[str, str]] = set()
    newer_paths: dict[str, tuple[str, int]] = {}
    sizes: dict[object, int] = {}
    found: dict[int, str] = {}
    for result in reversed(_whole_results(conversation)):
        call = calls.get(result.index, ResultCall())
        arguments = _arguments(call)
        size = sum(map(len, result.texts))
        key = (call.tool, _canonical(call, arguments))
        path = _path_in(arguments)
        if key in newer_calls and size <= LEAST_SHARE * sizes[key]:
            found[result.index] = f"the same call of {call.tool} came again later"
        elif path in newer_paths and reads_files(call.tool):
            reason, later_size = newer_paths[path]
            if size <= LEAST_SHARE * later_size:
                found[result.index] = reason
        if call.tool:
            newer_calls.add(key)
            sizes[key] = max(size, sizes.get(key, 0))
        newer = _replaces(call, arguments, result) if path else None
        if newer and newer[1] > newer_paths.get(path, ("", 0))[1]:
            newer_paths[path] = newer
    return found


def _whole_results(conversation: Conversation) -> list[ToolResult]:
    return [result for result in tool_results(conversation) if result.place.part < 0]


def _arguments(call: ResultCall) -> dict[str, Any]:
    if is_complex_json(call.arguments):
        return {}
    try:
        document = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return document if type(document) is dict else {}


def _canonical(call: ResultCall, arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True) if arguments else call.arguments


def _path_in(arguments: dict[str, Any]) -> str:
    return next(_texts_under(arguments, _PATH_KEYS), "")


def _texts_under(arguments: dict[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    return (arguments[key] for key in keys if type(arguments.get(key)) is str and arguments[key])


def _replaces(
    call: ResultCall, arguments: dict[str, Any], result: ToolResult
) -> tuple[str, int] | None:
    """Return why a call makes earlier reads of its file old, and how much it shows of the file."""
    text = "\n".join(result.texts)
    if reads_files(call.tool) and len(arguments) == 1:
        return "the file was read again later", len(text)
    is_whole = _WRITING.search(call.tool) and any(_texts_under(arguments, _CONTENT_KEYS))
    if is_whole and not any(important_lines(text[:_SCANNED_CHARS], "")):
        return "the file was rewritten later", sys.maxsize
    return None
