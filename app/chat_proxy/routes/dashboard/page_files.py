"""The files of the dashboard's page, read once at start; it loads nothing from elsewhere."""

from importlib.resources import files
from typing import NamedTuple

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class PageFile(NamedTuple):
    """One file and its media type."""

    content: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """Return the page's files by their names."""
    return {
        file.name: PageFile(file.read_bytes(), TYPES[suffix])
        for file in files("chat_proxy.routes.dashboard").joinpath("page").iterdir()
        if (suffix := file.name.rpartition(".")[2]) in TYPES
    }
