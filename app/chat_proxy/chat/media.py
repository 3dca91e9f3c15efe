"""Images, audio, video and files in a message: their kind, type and position."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

MediaKind = Literal["image", "video", "audio", "document"]
Path = tuple[str | int, ...]

MAX_DEPTH = 8
UNKNOWN_MIME = "application/octet-stream"

_MIME = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,60}")
_MAX_MIME_CHARS = 101
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}:")

_KIND_OF_TYPE: dict[str, MediaKind] = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "image_embeds": "image",
    "video_url": "video",
    "input_video": "video",
    "video": "video",
    "input_audio": "audio",
    "audio_url": "audio",
    "audio": "audio",
    "audio_embeds": "audio",
    "file": "document",
    "input_file": "document",
    "document": "document",
    "resource": "document",
}
# vLLM allows a part without a type, whose only key names it; these keys also hold the payload.
_PAYLOAD_KEYS = (
    "image_url",
    "image",
    "image_embeds",
    "video_url",
    "video",
    "input_audio",
    "audio_url",
    "audio",
    "audio_embeds",
    "file",
)
_PAYLOAD_OBJECT_KEYS = ("source", "resource", "input_image", "input_video", "input_file")
_DATA_KEYS = (
    "url",
    "data",
    "file_data",
    "base64",
    "blob",
    "file_url",
    "image_embeds",
    "audio_embeds",
)
_MIME_KEYS = ("media_type", "mimeType", "mime_type", "mediaType")
_NAME_KEYS = ("filename", "file_name", "name", "title")
_MIME_OF_SUFFIX = {
    "pdf": "application/pdf",
    "json": "application/json",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
}


@dataclass(frozen=True, slots=True)
class Media:
    """One media item; `path` leads from the message's dict to the part that contains it."""

    kind: MediaKind
    mime: str
    data: str
    """A data URL, bare base64 or a remote URL; empty if the part has only an id."""
    detail: str | None
    is_inline: bool
    path: Path


def media_in(fields: dict[str, Any]) -> Iterator[Media]:
    """Yield every media item of the message's content in order, including nested ones."""
    content = fields.get("content")
    if type(content) is list:
        yield from _media_of_list(content, ("content",), MAX_DEPTH)
    elif type(content) is dict:
        yield from _media_of_part(content, ("content",), MAX_DEPTH)


def is_media(part: dict[str, Any]) -> bool:
    """Return whether the part is a media item; a document given as text is not."""
    return _kind_of(part) is not None


def nested_parts(part: dict[str, Any]) -> tuple[Path, list[Any]] | None:
    """Return the list of parts inside a part (tool result or document) and the path to it."""
    content = part.get("content")
    if type(content) is list:
        return ("content",), content
    source = part.get("source")
    if type(source) is dict and type(source.get("content")) is list:
        return ("source", "content"), source["content"]
    return None


def with_inline_data(part: dict[str, Any], medium: Media, mime: str, base64: str) -> dict[str, Any]:
    """Return the part of an inline medium with other data of another type, in the same form."""
    is_url = medium.data[:5].lower() == "data:"
    data = f"data:{mime};base64,{base64}" if is_url else base64
    return _with_data(part, medium.data, data, mime)


def _with_data(fields: dict[str, Any], old: str, new: str, mime: str) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for key, value in fields.items():
        if type(value) is str and value == old:
            changed[key] = new
        elif type(value) is dict:
            inner = _with_data(value, old, new, mime)
            if inner is not value:
                changed[key] = inner
    if not changed:
        return fields
    types = {key: mime for key in _MIME_KEYS if type(fields.get(key)) is str}
    return {**fields, **types, **changed}


def sanitised_mime(text: str) -> str:
    """Return the media type in lower case, or `UNKNOWN_MIME` if it is malformed."""
    if len(text) <= _MAX_MIME_CHARS and _MIME.fullmatch(lowered := text.lower()):
        return lowered
    return UNKNOWN_MIME


def _media_of_list(parts: list[Any], path: Path, depth: int) -> Iterator[Media]:
    for index, part in enumerate(parts):
        if type(part) is dict and not ("text" in part and part.get("type") == "text"):
            yield from _media_of_part(part, (*path, index), depth)


def _media_of_part(part: dict[str, Any], path: Path, depth: int) -> Iterator[Media]:
    kind = _kind_of(part)
    if kind is not None:
        yield _medium(part, kind, path)
    elif depth > 1 and (nested := nested_parts(part)) is not None:
        yield from _media_of_list(nested[1], path + nested[0], depth - 1)


def _kind_of(part: dict[str, Any]) -> MediaKind | None:
    named = part.get("type")
    if type(named) is not str:
        named = next((key for key in _PAYLOAD_KEYS if key in part), "")
    kind = _KIND_OF_TYPE.get(named)
    if kind == "document" and _is_text(named, part):
        return None
    return kind


def _is_text(named: str, part: dict[str, Any]) -> bool:
    """Return whether a document or resource is plain text or a list of parts."""
    if named == "resource":
        resource = part.get("resource")
        return not (type(resource) is dict and type(resource.get("blob")) is str)
    source = part.get("source")
    if type(source) is dict:
        return source.get("type") in ("text", "content")
    return named == "document" and type(part.get("content")) in (list, str)


def _medium(part: dict[str, Any], kind: MediaKind, path: Path) -> Media:
    payload = _payload_of(part)
    data = _data_of(payload)
    mime = _mime_of(kind, [payload, part], data)
    if kind == "document":
        kind = _KIND_OF_TYPE.get(mime.partition("/")[0], kind)
    detail = _first_text([payload, part], ("detail",))
    return Media(kind, mime, data, detail or None, _is_inline(data), path)


def _payload_of(part: dict[str, Any]) -> Any:
    """Return the value with the payload: an object, a string, a list of frames, or the part."""
    for key in _PAYLOAD_KEYS:
        if part.get(key):
            return part[key]
    for key in _PAYLOAD_OBJECT_KEYS:
        if type(part.get(key)) is dict:
            return part[key]
    return part


def _data_of(payload: Any) -> str:
    if type(payload) is list:
        payload = next((frame for frame in payload if type(frame) is str), "")
    if type(payload) is str:
        return payload
    return _first_text([payload], _DATA_KEYS)


def _is_inline(data: str) -> bool:
    return bool(data) and (data[:5].lower() == "data:" or not _SCHEME.match(data))


def _mime_of(kind: MediaKind, places: list[Any], data: str) -> str:
    claimed = ""
    if data[:5].lower() == "data:":
        claimed = data[5:512].partition(",")[0]
    claimed = claimed.partition(";")[0] or _first_text(places, _MIME_KEYS).partition(";")[0]
    if claimed:
        return sanitised_mime(claimed)
    form = _first_text(places, ("format",))
    if form and kind != "document":
        return sanitised_mime(f"{kind}/{form}")
    name = _first_text(places, _NAME_KEYS)
    if not name and not _is_inline(data):
        name = data.partition("?")[0]
    suffix = name.rpartition(".")[2].lower()
    return _MIME_OF_SUFFIX.get(suffix, UNKNOWN_MIME if kind == "document" else f"{kind}/unknown")


def _first_text(places: list[Any], keys: tuple[str, ...]) -> str:
    """Return the first non-empty string under one of the keys."""
    for place in places:
        if type(place) is dict:
            for key in keys:
                value = place.get(key)
                if type(value) is str and value:
                    return value
    return ""
