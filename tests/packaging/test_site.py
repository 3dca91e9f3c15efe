"""The documentation as a site: it builds strictly, is complete, and loads nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.site_pages import place_of, with_pages

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "mkdocs.yml"
TOPICS = {
    "settings", "metrics", "vision", "long-conversations", "apis", "connect", "clients", "deploy",
    "benchmarks", "faults", "troubleshooting", "faq", "architecture", "decisions/018-wires",
    "index", "contributing", "changelog", "security", "configs", "identity", "monitoring",
}  # fmt: skip
_LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]*?src=\"?(?:https?:)?//[^\s>]+"
    r"|<link[^>]*?rel=\"?(?:stylesheet|preconnect|icon|preload)[^>]*?href=\"?(?:https?:)?//[^\s>]+"
    r"|<link[^>]*?href=\"?(?:https?:)?//[^>]*?rel=\"?(?:stylesheet|preconnect|icon|preload)"
)


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config)]
    return subprocess.run(
        [*command, "--site-dir", str(folder)], check=False, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    built = build(CONFIG, folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_it_has_a_page_for_every_topic(site: Path) -> None:
    pages = {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}

    assert pages >= TOPICS


def test_every_page_of_docs_is_in_it(site: Path) -> None:
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    expected = {
        path.with_name("index.html") if path.stem == "README" else path.with_suffix(".html")
        for path in written
    }

    assert {path for path in expected if not (site / path).is_file()} == set()


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    loaded = {
        (path.name, found)
        for path in site.rglob("*.html")
        for found in _LOADED.findall(path.read_text(encoding="utf-8"))
    }
    loaded |= {
        (path.name, found)
        for path in site.rglob("*.css")
        for found in re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]+", path.read_text())
    }

    assert loaded == set()


def test_no_script_of_docs_and_no_path_of_this_machine_is_in_it(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.html"))

    assert not list(site.rglob("*.py"))
    assert str(ROOT) not in pages


def test_files_beside_docs_can_be_opened_from_it(site: Path) -> None:
    page = (site / "deploy.html").read_text(encoding="utf-8")
    original = (ROOT / "docker-compose.yml").read_bytes()

    assert 'href="files/docker-compose.yml"' in page
    assert (site / "files" / "docker-compose.yml").read_bytes() == original


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Page\n\n[nowhere](nowhere.md)\n")
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    strict = {key: settings[key] for key in ("site_name", "strict", "validation")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(strict))

    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")

    assert built.returncode != 0
    assert "nowhere.md" in built.stderr


def test_a_page_that_no_line_names_stands_where_its_pattern_is() -> None:
    nav = [
        {"Start": ["index.md"]},
        {"Bench": "bench/*.md"},
        {"Empty": "none/*.md"},
        {"More": "*.md"},
    ]

    found = with_pages(nav, ["bench/new.md", "index.md", "new.md", "other/new.md"])

    assert found == [
        {"Start": ["index.md"]},
        {"Bench": ["bench/new.md"]},
        {"More": ["new.md", "other/new.md"]},
    ]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("README.md", "index.md"),
        ("docs/deploy.md", "deploy.md"),
        ("docs/decisions", "decisions/README.md"),
        ("configs", "configs.md"),
        ("configs/kubernetes", None),
        ("LICENSE", "files/LICENSE"),
        ("docs/nowhere.md", "nowhere.md"),
        ("nowhere.txt", None),
        ("../outside.txt", None),
    ],
)
def test_a_file_has_its_place(path: str, place: str | None) -> None:
    assert place_of(path) == place
