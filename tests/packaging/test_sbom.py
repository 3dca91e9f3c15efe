"""The bill of materials says what the lock pins."""

import json
import re
from pathlib import Path

import pytest

from tests.packaging.scripts import ROOT, script

SBOM = script("sbom")
LOCK = (ROOT / "requirements.lock").read_text()


def test_every_locked_package_is_in_it_with_its_hashes() -> None:
    bill = SBOM.bill(LOCK)

    named = {(it["name"], it["version"]) for it in bill["components"]}
    hashes = [it["content"] for component in bill["components"] for it in component["hashes"]]
    assert named == set(re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", LOCK, re.MULTILINE))
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", LOCK))
    assert all(component["hashes"] for component in bill["components"])


def test_it_has_the_form_of_cyclonedx() -> None:
    bill = SBOM.bill(LOCK)

    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    refs = [it["bom-ref"] for it in (bill["metadata"]["component"], *bill["components"])]
    assert len(set(refs)) == len(refs)
    assert [it["ref"] for it in bill["dependencies"]] == refs
    assert all(set(it["dependsOn"]) <= set(refs) for it in bill["dependencies"])


def test_licences_are_those_that_packages_state() -> None:
    components = {it["name"]: it for it in SBOM.bill(LOCK)["components"]}
    without = [name for name, it in components.items() if "licenses" not in it]

    assert components["fastapi"]["licenses"] == [{"expression": "MIT"}]
    assert components["httpx"]["licenses"] == [{"license": {"name": "BSD License"}}]
    assert [name for name in without if "properties" not in components[name]] == []


def test_it_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "dist" / name for name in ("one.json", "two.json")]
    for file in files:
        monkeypatch.setattr("sys.argv", ["sbom", str(file)])
        SBOM.main()

    assert files[0].read_bytes() == files[1].read_bytes()
    assert json.loads(files[0].read_bytes()) == SBOM.bill(LOCK)


def test_a_package_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pinned package"):
        list(SBOM.pins("aiohttp>=3"))
