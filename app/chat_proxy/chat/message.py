"""A read-only view of one chat message: the client's dict is copied, never changed."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from chat_proxy.chat.media import Media, Path, media_in
from chat_proxy.chat.normal_form.canonical import canonical_bytes
from chat_proxy.chat.texts import RESULT_ROLES, Piece, PieceKind, pieces_of

__all__ = ["Message", "Piece", "PieceKind"]


class Message:
    """One message of a conversation; two are equal only if they view the same dict."""

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
        """The role; empty if it is missing or not a string."""
        role = self.fields.get("role")
        return role if type(role) is str else ""

    @property
    def content(self) -> Any:
        """The content as the client sent it."""
        return self.fields.get("content")

    @property
    def is_instruction(self) -> bool:
        """Whether this is a system or developer message."""
        return self.fields.get("role") in ("system", "developer")

    @property
    def is_user(self) -> bool:
        """Whether this is a user message."""
        return self.fields.get("role") == "user"

    @property
    def is_assistant(self) -> bool:
        """Whether this is an assistant message."""
        return self.fields.get("role") == "assistant"

    @property
    def is_tool_result(self) -> bool:
        """Whether this is a tool result."""
        return self.fields.get("role") in RESULT_ROLES

    @property
    def calls_tools(self) -> bool:
        """Whether the message calls tools, in the current or the legacy form."""
        calls = self.fields.get("tool_calls")
        return (type(calls) is list and bool(calls)) or bool(self.fields.get("function_call"))

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the calls, in order; calls without an id are left out."""
        calls = self.fields.get("tool_calls")
        if type(calls) is not list:
            return ()
        ids = []
        for call in calls:
            call_id = call.get("id") if type(call) is dict else None
            if type(call_id) is str and call_id:
                ids.append(call_id)
        return tuple(ids)

    @property
    def answers(self) -> str | None:
        """The id of the call that this message answers."""
        call_id = self.fields.get("tool_call_id")
        return call_id if type(call_id) is str and call_id else None

    @property
    def canonical(self) -> bytes:
        """The bytes that represent this message in a hash chain."""
        return canonical_bytes(self.fields)

    def pieces(self) -> Iterator[Piece]:
        """Yield every text that a chat template renders, without media.

        A text may contain lone surrogates if the client sent them.
        """
        return iter(pieces_of(self.fields))

    def media(self) -> Iterator[Media]:
        """Yield every media item in the content."""
        return media_in(self.fields)

    def with_content(self, content: Any) -> Self:
        """Return a message with new content and all other fields unchanged."""
        return type(self)({**self.fields, "content": content})

    def with_parts(self, parts: Mapping[Path, Any]) -> Self:
        """Return a message with new parts at these paths; the same object if there are none.

        Each container on a path is copied once only, as a list may have thousands of parts. No
        path may be a prefix of another.
        """
        if not parts:
            return self
        copies: dict[Path, Any] = {(): self.fields.copy()}
        for path, part in parts.items():
            _copy_at(path[:-1], copies)[path[-1]] = part
        return type(self)(copies[()])


def _copy_at(path: Path, copies: dict[Path, Any]) -> Any:
    """Return the copy of the container at the path, copying it and its parents if needed."""
    if path not in copies:
        parent = _copy_at(path[:-1], copies)
        copies[path] = parent[path[-1]] = parent[path[-1]].copy()
    return copies[path]
