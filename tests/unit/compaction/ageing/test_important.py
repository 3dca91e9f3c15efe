"""Failing tests, errors and exit status in tool output; source code and files have none."""

import time

import pytest

from chat_proxy.compaction.ageing.important import (
    exit_status,
    important_lines,
    is_error,
    is_failing_test,
    reads_files,
)


def important(text: str, tool: str = "bash") -> list[str]:
    return list(important_lines(text, tool))


@pytest.mark.parametrize(
    "line",
    [
        "FAILED tests/test_refund.py::test_total - assert 1 == 2",
        "tests/test_refund.py::test_total FAILED   [ 40%]",
        "ERROR tests/test_refund.py::test_total - fixture 'db' not found",
        "--- FAIL: TestRefund (0.00s)",
        "    --- FAIL: TestRefund/empty (0.00s)",
        "FAIL: test_total (tests.RefundTest.test_total)",
        "test parser::numbers ... FAILED",
        "not ok 3 - refunds the order",
        "✗ refunds the order",
        "✕ refunds the order (12 ms)",
        "test_total (tests.RefundTest) ... ERROR",
        "RefundServiceTest > TestRefund FAILED",
        "  3) refund of an order failed",
    ],
)
def test_a_failing_test_of_any_runner_is_known(line: str) -> None:
    assert is_failing_test(line)


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_refund.py::test_total PASSED",
        "test parser::numbers ... ok",
        "ok 3 - refunds the order",
        "--- PASS: TestRefund (0.00s)",
        "0 failed, 12 passed",
        "fail fast is on",
        "",
    ],
)
def test_a_passing_test_is_no_failing_one(line: str) -> None:
    assert not is_failing_test(line)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: shard 4 has no leader",
        "error: linker `cc` not found",
        "fatal: not a git repository",
        "bash: foo: command not found",
        "Permission denied (publickey).",
        "curl: (28) Operation timed out",
        "thread 'main' panicked at src/lib.rs",
        "12 passed, 1 failed",
        "Fehler: Datei fehlt",
        "错误: 文件不存在",
    ],
)
def test_an_error_is_known(line: str) -> None:
    assert is_error(line)


@pytest.mark.parametrize(
    "line",
    [
        "raise ValueError('bad')",
        "    except KeyError:",
        "12: raise ValueError('bad')",
        "  if error is not None:",
        "logger.error('could not connect')",
        "console.error(message)",
        "throw new Error('bad');",
        "const error = new Error();",
        "# this cannot fail",
        "// not found here",
        "* an error of the parser",
        "function fail(error) {",
        "case 'error' => handle",
        "self.error = None",
    ],
)
def test_a_source_line_is_no_error(line: str) -> None:
    assert not is_error(line)


def test_failing_tests_come_before_errors_each_once() -> None:
    text = "E   ValueError: bad\nFAILED a.py::b\n\n  ValueError: bad\nFAILED a.py::b\nfine"

    assert important(text) == ["FAILED a.py::b", "E   ValueError: bad", "ValueError: bad"]


@pytest.mark.parametrize("tool", ["read_file", "Read", "ReadFile", "readFile", "cat", "view"])
def test_a_file_has_no_errors(tool: str) -> None:
    assert important("FAILED a.py::b\nValueError: bad", tool) == []


@pytest.mark.parametrize(
    "tool",
    [
        "read_file",
        "read_many_files",
        "builtin_read_file",
        "get_file_contents",
        "fetch_file",
        "show_file",
        "open_file",
        "load-file",
        "readfile",
    ],
)
def test_tools_that_read_files_are_known_by_a_word_of_their_name(tool: str) -> None:
    assert reads_files(tool)


@pytest.mark.parametrize(
    "tool",
    [
        "bash",
        "run_tests",
        "get_location",
        "send_notification",
        "list_threads",
        "upload",
        "preview_site",
        "truncate",
        "get_weather",
        "spreadsheet_edit",
        "",
    ],
)
def test_other_tools_do_not_read_files(tool: str) -> None:
    """A word inside another one ("cat" in "location") is none."""
    assert not reads_files(tool)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("all good\nexit code: 0", "0"),
        ("Process exited with code 137", "137"),
        ("Command exited with status 2.", "2"),
        ("returncode=-9", "-9"),
        ("exit status 1", "1"),
        ("exit code 3\nlater\nexit code 4", "4"),
        ("exit code 3\n" + "x\n" * 5_000, "3"),
        ("x\n" * 5_000 + "exit code 3\n" + "x\n" * 5_000, ""),
        ("exit the room 5 times", ""),
        ("exitcode" * 3, ""),
        ("", ""),
    ],
)
def test_the_exit_status_stands_near_an_end(text: str, status: str) -> None:
    assert exit_status(text) == status


@pytest.mark.parametrize(
    "bomb",
    ["a::", "::", "Test-", "Test", "::a ", "a:: ", "FAILED ", "... ", "exit ", "error ", " ", "{ "],
)
def test_hostile_output_takes_no_time(bomb: str) -> None:
    long = bomb * (200_000 // len(bomb))
    started = time.process_time()

    important(long)
    important(f"{bomb * 200}\n" * 100)
    exit_status(long)

    assert time.process_time() - started < 1
