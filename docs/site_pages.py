"""Make a site of docs/ and of the files beside it: the hooks of mkdocs (configs/mkdocs.yml).

Pages link as they do in the repository. Here README.md and its like become pages, other files that
a page links are copied to files/, and the links are rewritten. A pattern in the navigation becomes
the pages that no other line names.
"""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs/"
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "configs/README.md": "configs.md",
    "app/chat_proxy/routes/dashboard/page/icon.svg": "assets/icon.svg",
}
"""What is part of the site though it is not in docs/, and its place there."""
_REPOSITORY_PATHS = {place: path for path, place in BESIDE.items()}
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=(?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files beside docs/, then name the pages that the navigation has patterns for."""
    for path, place in {**BESIDE, **dict(linked_files(files))}.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    pages = sorted(page.src_uri for page in files.documentation_pages())
    config.nav = with_pages(config.nav or [], pages)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return the text of a page with links to places of the site."""
    here = page.file.src_uri

    def rewritten(link: re.Match[str]) -> str:
        place = place_of(target_of(link[0], here))
        return posixpath.relpath(place, posixpath.dirname(here)) if place else link[0]

    return _LINK.sub(rewritten, markdown)


def linked_files(files: Files) -> Iterator[tuple[str, str]]:
    """Yield each file of the repository that a page links and that is no page, with its place."""
    texts = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    texts += [(place, (ROOT / path).read_text("utf-8")) for path, place in BESIDE.items()]
    for here, text in texts:
        for link in _LINK.findall(text):
            path = target_of(link, here)
            if (place := place_of(path)) and place.startswith("files/"):
                yield path, place


def target_of(link: str, here: str) -> str:
    """Return the path in the repository that a link of a page leads to."""
    folder = posixpath.dirname(_REPOSITORY_PATHS.get(here, DOCS + here))
    return posixpath.normpath(posixpath.join(folder, link))


def place_of(path: str) -> str | None:
    """Return where the site has a file of the repository; None if there is no such file."""
    if path in BESIDE:
        return BESIDE[path]
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
        return place_of(path) if (ROOT / path).is_file() else None
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return f"files/{path}" if not path.startswith("..") and (ROOT / path).is_file() else None


def with_pages(nav: list[Any], pages: list[str]) -> list[Any]:
    """Return the navigation with pages in the place of its patterns, without empty sections."""
    left = [page for page in pages if page not in set(named_pages(nav))]

    def expanded(item: Any) -> list[Any]:
        if isinstance(item, dict):
            [(title, below)] = item.items()
            below = [it for child in listed(below) for it in expanded(child)]
            return [{title: below}] if below else []
        if "*" not in item:
            return [item]
        return [left.pop(left.index(page)) for page in list(left) if fnmatch(page, item)]

    return [it for item in nav for it in expanded(item)]


def named_pages(nav: Any) -> Iterator[str]:
    """Yield every page that the navigation names."""
    for item in listed(nav):
        if isinstance(item, dict):
            for below in item.values():
                yield from named_pages(below)
        else:
            yield item


def listed(item: Any) -> list[Any]:
    """Return the item as a list."""
    return item if isinstance(item, list) else [item]
