import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MIME = re.compile(r"data:([\w.+-]{1,40}/[\w.+-]{1,40})")
IMAGE_PARTS = ("image_url", "input_image", "image")
INSTRUCTION_ROLES = ("system", "developer")


@dataclass(frozen=True)
class Call:
    """A tool call that somebody made."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """A message as the model reads it; whatever form it came in, it reads as something."""

    role: str
    text: str = ""
    thoughts: str = ""
    images: tuple[str, ...] = ()
    other_parts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str = ""


def read_message(raw: dict[str, object]) -> Message:
    """Read a message from its JSON."""
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
    """Return the content as a list of parts, whichever of its forms it has."""
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def text_in(part: object) -> str | None:
    """Return the text of a text part, and None for a part of another kind."""
    if isinstance(part, str):
        return part
    if is_image(part):
        return None
    fields = as_dict(part)
    texts = (fields.get(key) for key in ("text", "refusal", "thinking"))
    return next((text for text in texts if isinstance(text, str)), None)


def is_image(part: object) -> bool:
    """Tell whether a part is an image."""
    return as_dict(part).get("type") in IMAGE_PARTS


def image_kind(part: object) -> str:
    """Return an image's mime type from the head of its data URL, else where it is."""
    image = as_dict(part).get("image_url")
    url = as_text(image) or as_text(as_dict(image).get("url"))
    mime = MIME.match(url)
    return mime[1] if mime else "an address that I do not open"


def part_kind(part: object) -> str:
    """Return the type that a part gives itself."""
    return as_text(as_dict(part).get("type"))[:40] or "unknown"


def read_call(raw: object) -> Call:
    """Read a tool call from its JSON; arguments sent as an object are read as their words."""
    function = as_dict(as_dict(raw).get("function"))
    arguments = function.get("arguments")
    return Call(
        id=as_text(as_dict(raw).get("id")),
        name=as_text(function.get("name")),
        arguments=arguments if isinstance(arguments, str) else " ".join(leaves(arguments)),
    )


def leaves(value: object) -> Iterator[str]:
    """Yield every key and scalar of a JSON value in order, however deep it is."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as fields:
                waiting.extend(x for pair in reversed(fields.items()) for x in reversed(pair))
            case list() as items:
                waiting.extend(reversed(items))
            case None:
                pass
            case scalar:
                yield str(scalar)


def last_of(role: str, messages: Iterable[Message]) -> Message:
    """Return the newest message of a role, or an empty one."""
    return next((m for m in reversed(tuple(messages)) if m.role == role), Message(role))


def as_text(value: object) -> str:
    """Return a string as it is, and nothing for anything else."""
    return value if isinstance(value, str) else ""


def as_list(value: object) -> list[object]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_dict(value: object) -> dict[str, object]:
    """Return an object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}
