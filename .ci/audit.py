"""Asks a database of advisories about every locked package; says what it could reach.

`python .ci/audit.py [--database URL]` ends with 0 only if the database answered for every package
and proved that it knows something: with each question goes one about a package that is known to be
vulnerable. It ends with 1 if a package is vulnerable, and with 3 if it could not find out.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

TOP = Path(__file__).parents[1]
DATABASE = "https://api.osv.dev/v1/querybatch"
LOCKS = ("requirements.lock", ".ci/dev.lock")
CLEAN, VULNERABLE, UNKNOWN = 0, 1, 3
SECONDS = 30
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Package:
    """A package in one version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


KNOWN_BAD = Package("jinja2", "2.4.1")
"""A proof that the database is alive: four advisories at least are about it."""


class NotFoundOut(Exception):
    """Nothing is known about the packages; the text says why."""


def locked(locks: Sequence[str] = LOCKS) -> list[Package]:
    """Return every package that a lock file pins."""
    found = {Package(*pin) for lock in locks for pin in _PIN.findall((TOP / lock).read_text())}
    return sorted(found)


def advisories(packages: list[Package], database: str) -> dict[Package, list[str]]:
    """Return the advisories about each package, or raise NotFoundOut."""
    questions = [KNOWN_BAD, *packages]
    results = asked(questions, database)
    if len(results) != len(questions):
        raise NotFoundOut(f"it answered {len(results)} of {len(questions)} questions")
    found = {
        package: sorted(str(it["id"]) for it in result.get("vulns", []))
        for package, result in zip(questions, results, strict=True)
    }
    if not found.pop(KNOWN_BAD):
        raise NotFoundOut(f"it does not know that {KNOWN_BAD} is vulnerable")
    return found


def asked(packages: list[Package], database: str) -> list[dict[str, list[dict[str, str]]]]:
    """Return the database's answers as they are."""
    if urlsplit(database).scheme not in ("https", "http"):
        raise NotFoundOut("its address is none")
    queries = [
        {"version": it.version, "package": {"name": it.name, "ecosystem": "PyPI"}}
        for it in packages
    ]
    body = json.dumps({"queries": queries}).encode()
    request = Request(database, body, {"content-type": "application/json"})  # noqa: S310 - see above
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - see above
            return list(json.load(answer)["results"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise NotFoundOut(f"{type(error).__name__}: {error}") from None


def audit(database: str) -> int:
    """Say what is known about the locked packages; return the exit code."""
    packages, host = locked(), urlsplit(database).netloc
    try:
        found = advisories(packages, database)
    except NotFoundOut as reason:
        sys.stderr.write(
            f"audit: NOT DONE. The advisory database {host} could not be used ({reason}). "
            f"Nothing is known about {len(packages)} packages.\n"
        )
        return UNKNOWN
    bad = {package: ids for package, ids in found.items() if ids}
    for package, ids in bad.items():
        sys.stderr.write(f"audit: {package}: {', '.join(ids)}\n")
    sys.stdout.write(
        f"audit: {host} answered for {len(found)} packages of {' and '.join(LOCKS)}: "
        f"{len(bad)} with known vulnerabilities.\n"
    )
    return VULNERABLE if bad else CLEAN


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Ask about the locked packages.")
    parser.add_argument("--database", default=DATABASE, help="an OSV querybatch address")
    sys.exit(audit(parser.parse_args().database))


if __name__ == "__main__":
    main()
