"""Remove URLs and secret keys from a summary that do not occur in the conversation."""

import re
from typing import Final

NOTE: Final = "[removed]"

_TRAILING = ".,;:!?*_/"
_URL = re.compile(
    r"(?<![A-Za-z0-9])(?:[a-z][a-z0-9+.-]{1,10}://|www\.)[^\s<>\"'`()\[\]{}|\\]+", re.IGNORECASE
)
_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END[A-Z ]{0,40}-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:(?:sk|pk|rk|glpat|xox[abeprs])-[\w-]{16,}|(?:sk|pk|rk)_(?:live|test)_\w{10,}"
    r"|gh[opsur]_\w{20,}|github_pat_\w{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|hf_\w{20,}"
    r"|npm_\w{30,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*+)?)"
    r"|(?<=bearer )(?=[^\s\d]{0,80}\d)[\w.~+/=-]{16,}",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{32,}+")
_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_WORD = re.compile(r"[A-Za-z0-9]{20,}")


def without_foreign(text: str, source: str) -> tuple[str, int]:
    """Return the text without URLs and keys that its source lacks, and how many there were."""
    foreign: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        found = match[0]
        if _core(found) in source:
            return found
        foreign.add(found)
        return NOTE + found[len(found.rstrip(".,;:!?")) :]

    def replace_random(match: re.Match[str]) -> str:
        return replace(match) if _looks_random(match[0]) else match[0]

    for pattern, replacement in ((_URL, replace), (_KEY, replace), (_RANDOM, replace_random)):
        text = pattern.sub(replacement, text)
    return text, len(foreign)


def without_keys(text: str) -> str:
    """Return the text with a note in place of everything that begins like a well-known API key."""
    return _KEY.sub(NOTE, text)


def _core(found: str) -> str:
    """Return the part that must be in the source: a URL may have lost or gained its scheme."""
    return found.rpartition("://")[2].rstrip(_TRAILING)


def _looks_random(run: str) -> bool:
    """Return whether a run is a key or hash, not a path or long name: it mixes character kinds."""
    return bool(_HEX.search(run)) or any(_is_mixed(word) for word in _WORD.findall(run))


def _is_mixed(word: str) -> bool:
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(is_kind(character) for character in word) for is_kind in kinds)
