"""The dependency audit says "clean" only if it found out."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.packaging.scripts import script

AUDIT = script("audit")
BAD = str(AUDIT.KNOWN_BAD)
Answer = Callable[[list[dict[str, Any]]], bytes]


@contextmanager
def database(answer: Answer, status: int = 200) -> Iterator[str]:
    """A database of advisories that answers so, until the block ends."""

    class Asked(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = answer(json.loads(self.rfile.read(length))["queries"])
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Asked) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
        finally:
            server.shutdown()
            thread.join()


def knowing(*packages: str) -> Answer:
    """Know one advisory about each of these packages: all versions of a name, or one of them."""

    def answer(queries: list[dict[str, Any]]) -> bytes:
        asked = [(it["package"]["name"], it["version"]) for it in queries]
        found = [
            {"vulns": [{"id": "CVE-1"}]} if {name, f"{name} {version}"} & {*packages} else {}
            for name, version in asked
        ]
        return json.dumps({"results": found}).encode()

    return answer


def test_a_database_that_answers_for_all_makes_it_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with database(knowing(BAD)) as url:
        code = AUDIT.audit(url)

    said = capsys.readouterr()
    count = len(AUDIT.locked())
    assert code == 0
    assert f"answered for {count} packages" in said.out
    assert ": 0 with known vulnerabilities." in said.out
    assert said.err == ""
    assert count > 40


def test_a_vulnerable_package_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with database(knowing(BAD, "aiohttp")) as url:
        code = AUDIT.audit(url)

    said = capsys.readouterr()
    assert code == 1
    assert said.err.startswith("audit: aiohttp ")
    assert "CVE-1" in said.err
    assert "1 with known" in said.out


def test_a_database_that_cannot_be_reached_is_never_clean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = AUDIT.audit("http://127.0.0.1:1/v1/querybatch")

    said = capsys.readouterr()
    assert code == 3
    assert said.out == ""
    assert said.err.startswith("audit: NOT DONE. The advisory database 127.0.0.1:1 could not be")
    assert "Nothing is known about" in said.err


LIES: dict[str, tuple[Answer, int]] = {
    "knows nothing at all": (knowing(), 200),
    "answers with a page": (lambda _: b"<html>", 200),
    "answers with nothing": (lambda _: b"", 200),
    "answers with a list": (lambda _: b"[]", 200),
    "answers with no results": (lambda _: b'{"results": []}', 200),
    "answers with null": (lambda _: b'{"results": null}', 200),
    "answers for too few": (lambda _: b'{"results": [{"vulns": [{"id": "x"}]}]}', 200),
    "is broken": (knowing(BAD), 500),
    "is forbidden": (knowing(BAD), 403),
}


@pytest.mark.parametrize(("answer", "status"), LIES.values(), ids=LIES)
def test_an_answer_that_proves_nothing_is_never_clean(
    answer: Answer, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with database(answer, status) as url:
        code = AUDIT.audit(url)

    said = capsys.readouterr()
    assert code == 3
    assert "NOT DONE" in said.err
    assert said.out == ""
