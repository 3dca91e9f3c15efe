"""Remove payloads, control tokens of chat templates and broken characters from texts."""

import re
from collections.abc import Iterator
from typing import Final

from chat_proxy.chat.media import sanitised_mime
from chat_proxy.compaction.remove_base64 import base64_note

PIECE_CHARS: Final = 65_536
"""A longer text is searched for base64 in pieces: while a pattern runs, no other thread does."""

_MIN_RUN_CHARS = 200
_KINDS = ("image", "audio", "video")
_DATA_URL = re.compile(
    r"data:(?:([\w.+-]{1,40}/[\w.+-]{1,60})[^,\s\"'<>()]{0,100}|[^,\s\"'<>()]{0,100};base64),"
    r"[^\s\"'<>()\]\\]*+",
    re.IGNORECASE,
)
_B = r"[A-Za-z0-9+/_=-]"
_LINE_END = r"(?:\r?\n|\\r\\n|\\n)[ \t]{0,8}"
_BASE64 = re.compile(
    # One long run, or several lines as in mail and PEM, with an optional short last line;
    rf"(?<!{_B})(?:{_B}{{{_MIN_RUN_CHARS},}}+|{_B}{{60,}}+(?={_LINE_END}{_B}{{60}}))"
    rf"(?:{_LINE_END}{_B}{{60,}}+)*(?:{_LINE_END}{_B}{{1,75}}+(?<==))?"
    # a short file with the signature of an image or document; a run with escaped slashes.
    rf"|(?<!{_B})(?:iVBORw0KGgo|/9j/4|R0lGODlh|UklGR|JVBERi0|UEsDBB){_B}{{20,}}+"
    rf"|(?<![A-Za-z0-9+/_=\\-])(?>(?:[A-Za-z0-9+=_-]*+\\/){{4,}}){_B}{{12,}}+"
)
# What each of these runs has; most texts have neither, and looking for it is a third of the cost.
_LONG_RUN = re.compile(rf"(?<!{_B}){_B}{{60}}")
_SIGNATURES = ("iVBORw0KGgo", "/9j/4", "R0lGODlh", "UklGR", "JVBERi0", "UEsDBB", "\\/")
# No run extends over this character, and none that begins behind it depends on what precedes it.
_OUTSIDE = re.compile(r"[^A-Za-z0-9+/_=\\\r\n\t -]")
_SIGNS = ("+", "/", "_", "=", "\\", "-")
# Each backslash goes, and with it the letter of an escaped line end.
_NOT_ENCODED = ("=", " ", "\t", "\r", "\n", "\\", "\\r", "\\n")
_BAR = r"[|\uff5c]"
_WORD = r"/?[\w.:/-]{1,40}+"
_CONTROL = re.compile(
    # Between two bars any text matches; with one bar only a word, as code has such signs too.
    rf"<(?=(?:{_BAR}[^|\uff5c<>\n]{{1,40}}+{_BAR}|{_BAR}{_WORD}|{_WORD}{_BAR}"
    r"|/?s|bos|eos|sop|eop|pad|unk|extra_id_\d{1,4}|(?:start|end)_of_turn"
    r"|/?(?:think|thinking|tool_calls?|tool_response|tools)|</?SYS>)>)"
    rf"|\[(?=(?:{_BAR}{_WORD}{_BAR}|[gs]MASK"
    r"|/?(?:INST|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|SYSTEM_PROMPT|THINK))\])",
    re.IGNORECASE,
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def sanitised(text: str) -> str:
    """Return the text without anything that a decoder or a chat template would act on."""
    return without_control_tokens(without_payloads(_LONE_SURROGATE.sub("\ufffd", text)))


def without_payloads(text: str, piece_chars: int = PIECE_CHARS) -> str:
    """Return the text with a short note in place of every data URL and run of base64."""
    text = _DATA_URL.sub(_note_for_url, text)
    if len(text) <= piece_chars:
        return _without_base64(text)
    return "".join(map(_without_base64, _pieces(text, piece_chars)))


def without_control_tokens(text: str) -> str:
    """Return the text with a space inside every token that would begin or end a message."""
    return _CONTROL.sub(r"\g<0> ", text)


def _pieces(text: str, chars: int) -> Iterator[str]:
    """Yield a text in pieces of about so many characters; no run of base64 lies in two of them."""
    start = 0
    while start < len(text):
        outside = _OUTSIDE.search(text, start + chars)
        end = outside.end() if outside else len(text)
        yield text[start:end]
        start = end


def _without_base64(text: str) -> str:
    if _LONG_RUN.search(text) is None and not any(sign in text for sign in _SIGNATURES):
        return text
    return _BASE64.sub(_note_for_base64, text)


def _note_for_url(match: re.Match[str]) -> str:
    mime = sanitised_mime(match[1] or "")
    kind = mime.partition("/")[0]
    return f"[{kind if kind in _KINDS else 'document'}: {mime}]"


def _note_for_base64(match: re.Match[str]) -> str:
    """Return the note, or the run itself if it is a drawn line or a path with escaped slashes."""
    run = match[0]
    if "\\/" in run and len(run) < _MIN_RUN_CHARS:
        return run
    if 2 * sum(map(run.count, _SIGNS)) >= len(run):
        return run
    return base64_note((len(run) - sum(map(run.count, _NOT_ENCODED))) * 3 // 4)
