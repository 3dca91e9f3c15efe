"""The outputs of a client's tools: each type of item has a form of its own for them."""

from typing import Any, Final

from chat_proxy.wires.reading import Fields

OUTPUTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "computer_call_output",
    }
)
"""The items that answer a call."""
BLANK_IMAGE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQAB"
    "pfZFQAAAAABJRU5ErkJggg=="
)
"""One transparent pixel, in the place of a screenshot that was dropped: the API wants an image."""
_STREAMS: Final = ("stdout", "stderr")
_LISTS: Final = ("function_call_output", "custom_tool_call_output")
"""The outputs that may be a list of parts; the others are a text."""


def content_of_output(item: Fields) -> Any:
    """Return an output as the content of a tool message."""
    output: Any = item.get("output")
    if item["type"] == "shell_call_output" and _is_shell_output(output):
        return [_text_part(entry.get(name) or "") for entry in output for name in _STREAMS]
    if item["type"] == "computer_call_output" and type(output) is dict:
        return [{**output, "type": "input_image"}]
    return output


def with_output(item: Fields, content: Any) -> Fields:
    """Return the item with another content, in the form that its type has."""
    if content == content_of_output(item):
        return item
    kind = item["type"]
    parts = content if type(content) is list else [content]
    if kind == "computer_call_output":
        return item if _has_image(parts) else {**item, "output": _blank(item.get("output"))}
    if kind in _LISTS and type(content) is not str:
        return {**item, "output": [part_of(part, "input_text") for part in parts]}
    found = [part.get("text") if type(part) is dict else part for part in parts]
    texts = [text for text in found if type(text) is str]
    if len(texts) < len(found):
        return item
    if kind == "shell_call_output":
        return {**item, "output": _shell_output(item.get("output"), texts)}
    return {**item, "output": "\n".join(texts)}


def part_of(part: Any, kind: str) -> Any:
    """Return a content part; a text gets the name that it has in this wire."""
    if type(part) is str:
        return {"type": kind, "text": part}
    if type(part) is dict and part.get("type") == "text":
        return {**part, "type": kind}
    return part


def _text_part(text: str) -> Fields:
    return {"type": "input_text", "text": text}


def _is_shell_output(output: Any) -> bool:
    """Return whether this is a list of commands' outputs with texts."""
    if type(output) is not list or not output:
        return False
    return all(
        type(entry) is dict and all(type(entry.get(name, "")) is str for name in _STREAMS)
        for entry in output
    )


def _shell_output(given: Any, texts: list[str]) -> list[Fields]:
    """Return the outputs of commands with other texts: one by one, or as a single command's."""
    if not _is_shell_output(given):
        given = [{"outcome": {"type": "exit", "exit_code": 0}}]
    if len(texts) == len(given) * len(_STREAMS):
        pairs = zip(texts[::2], texts[1::2], strict=True)
        return [
            {**entry, "stdout": stdout, "stderr": stderr}
            for entry, (stdout, stderr) in zip(given, pairs, strict=True)
        ]
    return [{**given[-1], "stdout": "\n".join(texts), "stderr": ""}]


def _has_image(parts: list[Any]) -> bool:
    return any(type(part) is dict and part.get("type") == "input_image" for part in parts)


def _blank(output: Any) -> Fields:
    given = output.items() if type(output) is dict else ()
    kept = {key: value for key, value in given if key != "file_id"}
    return {"type": "computer_screenshot", **kept, "image_url": BLANK_IMAGE}
