"""Messages and tool calls as the demo model reads them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MIME = re.compile(r"data:([\w.+-]{1,40}/[\w.+-]{1,40})")
IMAGE_PARTS = ("image_url", "input_image", "image")
INSTRUCTION_ROLES = ("system", "developer")


@dataclass(frozen=True)
class Call:
    """A tool call in a message."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """A message as the demo model reads it; an unknown form of content is never an error."""

    role: str
    text: str = ""
    thoughts: str = ""
    images: tuple[str, ...] = ()
    other_parts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str = ""


def read_message(raw: dict[str, object]) -> Message:
    """Return a message from its JSON."""
    parts = parts_of(raw.get("content"))
    media = [part for part in parts if text_in(part) is None]
    return Message(
        role=as_text(raw.get("role")),
        text="\n".join(text for part in parts if (text := text_in(part)) is not None),
        thoughts=as_text(raw.get("reasoning")) or as_text(raw.get("reasoning_content")),
        images=tuple(image_kind(part) for part in media if is_image(part)),
        other_parts=tuple(part_kind(part) for part in media if not is_image(part)),
        calls=tuple(read_call(call) for call in as_list(raw.get("tool_calls"))),
        answers=as_text(raw.get("tool_call_id")),
    )


def parts_of(content: object) -> list[object]:
    """Return the content as a list of parts, whatever its form."""
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def text_in(part: object) -> str | None:
    """Return the text of a text part, or None for another kind of part."""
    if isinstance(part, str):
        return part
    if is_image(part):
        return None
    fields = as_dict(part)
    texts = (fields.get(key) for key in ("text", "refusal", "thinking"))
    return next((text for text in texts if isinstance(text, str)), None)


def is_image(part: object) -> bool:
    """Return whether a part is an image."""
    return as_dict(part).get("type") in IMAGE_PARTS


def image_kind(part: object) -> str:
    """Return the MIME type in an image's data URL, or a phrase for any other address."""
    image = as_dict(part).get("image_url")
    url = as_text(image) or as_text(as_dict(image).get("url"))
    mime = MIME.match(url)
    return mime[1] if mime else "an address that I do not open"


def part_kind(part: object) -> str:
    """Return the type of a part, shortened."""
    return as_text(as_dict(part).get("type"))[:40] or "unknown"


def read_call(raw: object) -> Call:
    """Return a tool call from its JSON; arguments sent as an object become plain words."""
    function = as_dict(as_dict(raw).get("function"))
    arguments = function.get("arguments")
    return Call(
        id=as_text(as_dict(raw).get("id")),
        name=as_text(function.get("name")),
        arguments=arguments if isinstance(arguments, str) else " ".join(leaves(arguments)),
    )


def leaves(value: object) -> Iterator[str]:
    """Yield all keys and scalars of a JSON value in order, at any depth."""
    pending = [value]
    while pending:
        match pending.pop():
            case dict() as fields:
                pending.extend(x for pair in reversed(fields.items()) for x in reversed(pair))
            case list() as items:
                pending.extend(reversed(items))
            case None:
                pass
            case scalar:
                yield str(scalar)


def last_of(role: str, messages: Iterable[Message]) -> Message:
    """Return the newest message of a role, or an empty message."""
    return next((m for m in reversed(tuple(messages)) if m.role == role), Message(role))


def as_text(value: object) -> str:
    """Return a string unchanged, and an empty one for any other type."""
    return value if isinstance(value, str) else ""


def as_list(value: object) -> list[object]:
    """Return a list unchanged, and an empty one for any other type."""
    return value if isinstance(value, list) else []


def as_dict(value: object) -> dict[str, object]:
    """Return an object unchanged, and an empty one for any other type."""
    return value if isinstance(value, dict) else {}
