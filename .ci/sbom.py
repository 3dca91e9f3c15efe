"""Writes the bill of materials: what requirements.lock pins, as CycloneDX 1.6, the same each time.

`python .ci/sbom.py [FILE]` writes to the file, or to standard output. Licences and dependencies
are those that the installed packages state; one that is not installed here has none.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[1]
LOCK = TOP / "requirements.lock"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*(?:\\|$)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NAMESPACE = uuid.UUID("6f1c2f3e-0f6c-5b0a-9d7e-3a1d2c4b5e60")


@dataclass(frozen=True)
class Pin:
    """One locked package."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its address in bills of materials."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(lock: str) -> Iterator[Pin]:
    """Yield what a lock file pins, with the hashes that it allows."""
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        found = _PIN.match(entry)
        if found is None:
            raise ValueError(f"not a pinned package: {entry.splitlines()[0]!r}")
        name, version, marker = found.groups()
        yield Pin(plain(name), version, marker or "", tuple(sorted(_HASH.findall(entry))))


def plain(name: str) -> str:
    """Return a package's name in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def component(pin: Pin) -> dict[str, Any]:
    """Return a package as a component."""
    told: dict[str, Any] = {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "hashes": [{"alg": "SHA-256", "content": it} for it in pin.hashes],
    }
    licence = licence_of(installed(pin))
    if licence:
        told["licenses"] = [licence]
    if pin.marker:
        told["properties"] = [{"name": "marker", "value": pin.marker.strip()}]
    return told


def installed(pin: Pin) -> Distribution | None:
    """Return the installed package, if it is the one that is pinned."""
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        return None
    return found if found.version == pin.version else None


def licence_of(package: Distribution | None) -> dict[str, Any] | None:
    """Return the licence that a package states, in the best form it has."""
    if package is None:
        return None
    about = package.metadata
    if "License-Expression" in about:
        return {"expression": about["License-Expression"]}
    stated = [
        it.rpartition(" :: ")[2] for it in filter(is_licence, about.get_all("Classifier", []))
    ]
    if not stated and "License" in about:
        stated = about["License"].splitlines()[:1]
    return {"license": {"name": " AND ".join(stated)}} if any(stated) else None


def is_licence(classifier: str) -> bool:
    """Tell whether a classifier names a licence."""
    return classifier.startswith("License :: ") and classifier != "License :: OSI Approved"


def needs(package: Distribution | None, known: dict[str, str]) -> list[str]:
    """Return the addresses of the locked packages that one asks for."""
    asked = [it for it in (package.requires or []) if "extra ==" not in it] if package else []
    names = {plain(found[0]) for it in asked if (found := _NAME.match(it))}
    return sorted(known[name] for name in names if name in known)


def own_version() -> str:
    """Return the project's version, from the one place that has it."""
    text = (TOP / "app/chat_proxy/__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found
    return found[1]


def bill(lock: str) -> dict[str, Any]:
    """Return the whole bill."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    locked = sorted(pins(lock), key=lambda it: it.name)
    known = {pin.name: pin.purl for pin in locked}
    version = own_version()
    own = f"pkg:pypi/{project['name']}@{version}"
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["redis"], *extras["images"]]
    direct = {plain(found[0]) for it in wanted if (found := _NAME.match(it))}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(_NAMESPACE, f"{own}\n{lock}").urn,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": version,
                "purl": own,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [component(pin) for pin in locked],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(known[name] for name in direct)},
            *({"ref": it.purl, "dependsOn": needs(installed(it), known)} for it in locked),
        ],
    }


def main() -> None:
    """Write the bill."""
    written = json.dumps(bill(LOCK.read_text("utf-8")), indent=2) + "\n"
    if len(sys.argv) == 1:
        sys.stdout.write(written)
        return
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
