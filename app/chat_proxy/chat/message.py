"""A read-only view of one chat message; the client's dict is never changed, only copied."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from chat_proxy.chat.hash_chain import canonical_bytes
from chat_proxy.chat.media import Media, Path, media_in
from chat_proxy.chat.texts import RESULT_ROLES, Piece, PieceKind, pieces_of

__all__ = ["Message", "Piece", "PieceKind"]


class Message:
    """One message of a conversation, equal to another only if it views the same dict."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and other.fields is self.fields

    def __hash__(self) -> int:
        return id(self.fields)

    def __repr__(self) -> str:
        return f"Message(role={self.role[:20]!r})"

    @property
    def role(self) -> str:
        """The role, empty if the client sent something else than text."""
        role = self.fields.get("role")
        return role if type(role) is str else ""

    @property
    def content(self) -> Any:
        """The content as the client sent it."""
        return self.fields.get("content")

    @property
    def is_instruction(self) -> bool:
        """Whether the application speaks."""
        return self.fields.get("role") in ("system", "developer")

    @property
    def is_user(self) -> bool:
        """Whether the user speaks."""
        return self.fields.get("role") == "user"

    @property
    def is_assistant(self) -> bool:
        """Whether the model speaks."""
        return self.fields.get("role") == "assistant"

    @property
    def is_tool_result(self) -> bool:
        """Whether a tool answers."""
        return self.fields.get("role") in RESULT_ROLES

    @property
    def calls_tools(self) -> bool:
        """Whether tools are called, in today's form or the legacy one."""
        calls = self.fields.get("tool_calls")
        return (type(calls) is list and bool(calls)) or bool(self.fields.get("function_call"))

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the calls, in their order; calls without an id have none here."""
        calls = self.fields.get("tool_calls")
        if type(calls) is not list:
            return ()
        ids = []
        for call in calls:
            name = call.get("id") if type(call) is dict else None
            if type(name) is str and name:
                ids.append(name)
        return tuple(ids)

    @property
    def answers(self) -> str | None:
        """The id of the call that this message answers."""
        name = self.fields.get("tool_call_id")
        return name if type(name) is str and name else None

    @property
    def canonical(self) -> bytes:
        """The bytes that stand for this message in a hash chain."""
        return canonical_bytes(self.fields)

    def pieces(self) -> Iterator[Piece]:
        """Yield every text that a chat template renders, without media.

        A text may hold lone surrogates if the client sent some.
        """
        return iter(pieces_of(self.fields))

    def media(self) -> Iterator[Media]:
        """Yield every medium in the content."""
        return media_in(self.fields)

    def with_content(self, content: Any) -> Self:
        """Return a message with another content; every other field stays."""
        return type(self)({**self.fields, "content": content})

    def with_parts(self, parts: Mapping[Path, Any]) -> Self:
        """Return a message with other parts at these paths, the very same one if there are none.

        What lies on the way is copied, and only once: a list may have thousands of parts. No path
        may lead through another.
        """
        if not parts:
            return self
        copies: dict[Path, Any] = {(): self.fields.copy()}
        for path, part in parts.items():
            _copy_at(path[:-1], copies)[path[-1]] = part
        return type(self)(copies[()])


def _copy_at(path: Path, copies: dict[Path, Any]) -> Any:
    """Return the copy of what lies at the path, made with all that leads there if it is new."""
    if path not in copies:
        holder = _copy_at(path[:-1], copies)
        copies[path] = holder[path[-1]] = holder[path[-1]].copy()
    return copies[path]
