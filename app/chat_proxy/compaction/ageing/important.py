"""The lines of tool output that matter most: failing tests, errors, exit status."""

import re
from collections.abc import Iterator
from typing import Final

MAX_LINE_CHARS: Final = 200

_FAILING_TEST = re.compile(
    r"^\s*(?:FAILED\s+\S|FAIL[:\s]\s*\S|ERROR\s+\S+::|--- FAIL: |not ok \d"
    r"|[\u2717\u2715\u2718\u00d7\u274c]\s*\S)"
    r"|(?:^|\s)(?=\S*::)\S++\s++(?:FAILED|ERROR)\b|\.\.\. (?:FAILED|ERROR|FAIL)\s*$"
    r"|\bTest\S++ FAILED"
    r"|^\s*test \S+ \.\.\. FAILED|^\s*\d+\) \S.*failed",
)
_ERROR = re.compile(
    r"\b(?:error|exception|fatal|panic(?:ked)?|segfault|segmentation fault|traceback|undefined"
    r"|unresolved|denied|refused|timed? ?out|not found|no such file|cannot|could not|failed|failure"
    r"|fehler|fehlgeschlagen)\b|\w(?:Error|Exception)\b|错误|失败",
    re.IGNORECASE,
)
# A line of source code that raises, catches or prints an error reports none.
_SOURCE = re.compile(
    r"^\s*(?:\d+[\s|:→]+)?(?:raise|except|throw|catch|try|if|elif|else|for|while|return|def|class"
    r"|import|from|func|fn|let|const|var|async|await|assert|with|export|public|private|protected"
    r"|#|//|/\*|\*|\"\"\"|--|@)(?:\b|\s|\W)"
    r"|\b(?:log(?:ger|ging)?|console|self|this|sys|os|errors?|fmt)\.\w+\("
    r"|[{;,]\s*$|\)\s*:\s*$|=>|->|:=|\bself\b",
)
_EXIT = re.compile(
    r"\bexit(?:ed)?(?:[ _]?(?:with|code|status|value))*\W{1,4}?(?P<code>-?\d{1,5})\b"
    r"|\breturn_?code\W{1,4}?(?P<other>-?\d{1,5})\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_READING = frozenset({"read", "readfile", "readfiles", "cat", "view", "open", "load"})
_READING_FILES = frozenset({"fetch", "get", "show"})
_EXIT_CHARS = 2_000
_SCANNED_LINE_CHARS = 1_000


def is_failing_test(line: str) -> bool:
    """Return whether a line names a test that failed."""
    return _FAILING_TEST.search(line) is not None


def is_error(line: str) -> bool:
    """Return whether a line reports an error, and is not source code that mentions one."""
    return _ERROR.search(line) is not None and _SOURCE.search(line) is None


def exit_status(text: str) -> str:
    """Return the exit status that tool output reports near its ends, empty if there is none."""
    for part in (text[-_EXIT_CHARS:], text[:_EXIT_CHARS]):
        found = None
        for match in _EXIT.finditer(part):
            found = match
        if found is not None:
            return found["code"] or found["other"] or ""
    return ""


def reads_files(tool: str) -> bool:
    """Return whether a tool returns a file's content, in which words like "error" mean nothing."""
    words = {word.lower() for word in _WORD.findall(tool)}
    return bool(words & _READING or (words & _READING_FILES and words & {"file", "files"}))


def important_lines(text: str, tool: str) -> Iterator[str]:
    """Yield the failing tests, then the errors in a tool's output; none in a file's content."""
    if reads_files(tool):
        return
    lines = [line.strip()[:_SCANNED_LINE_CHARS] for line in text.splitlines() if line.strip()]
    failing = [line for line in lines if is_failing_test(line)]
    yield from dict.fromkeys(failing)
    known = frozenset(failing)
    yield from dict.fromkeys(line for line in lines if line not in known and is_error(line))
