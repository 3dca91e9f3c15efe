"""Token counts of a whole request by kind, for the context window and for calibration."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args

from chat_proxy.chat.media import Media, MediaKind, media_in
from chat_proxy.chat.message import Message, PieceKind
from chat_proxy.chat.texts import RESULT_ROLES, pieces_of
from chat_proxy.tokens.images.tokens import image_tokens
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.tokens.token_counter import TokenCounter
from chat_proxy.tokens.tools import schema_tokens, tool_choice_tokens, tools_tokens

Fields = dict[str, Any]

_RESULT: Final[tuple[PieceKind, ...]] = ("tool_result", "id")
_MAY_HOLD_MEDIA: Final = (list, dict)
_NO_TEXTS: Final[dict[PieceKind, int]] = dict.fromkeys(get_args(PieceKind), 0)
_NO_MEDIA: Final[dict[MediaKind, int]] = dict.fromkeys(get_args(MediaKind), 0)


class RequestCount(NamedTuple):
    """A request's tokens by kind; `messages` has one total each, with media and frame."""

    messages: tuple[int, ...] = ()
    text: int = 0
    reasoning: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    tools: int = 0
    images: int = 0
    documents: int = 0
    audio: int = 0
    video: int = 0
    overhead: int = 0
    is_guess: bool = False
    """Whether no tokenizer was loaded; calibration ignores such a count."""

    @property
    def words(self) -> int:
        """All tokens that the tokenizer counted."""
        return self.text + self.reasoning + self.tool_calls + self.tool_results + self.tools

    @property
    def media(self) -> int:
        """All tokens that were computed by a formula or a flat rate."""
        return self.images + self.documents + self.audio + self.video

    @property
    def total(self) -> int:
        """The tokens of the whole prompt before calibration."""
        return self.words + self.media + self.overhead


NOTHING_COUNTED: Final = RequestCount()


class Definitions(NamedTuple):
    """What a request defines besides its messages, as the client sent it."""

    tools: object = None
    tool_choice: object = None
    response_format: object = None
    are_led: bool = False
    """Whether there is a system or developer message."""


NOTHING_DEFINED: Final = Definitions()


def count_request(
    messages: Sequence[Message],
    tools: object,
    counter: TokenCounter,
    rules: CountingRules,
    *,
    tool_choice: object = None,
    response_format: object = None,
) -> RequestCount:
    """Count a request's prompt, without a limit on uncounted text."""
    fields = [message.fields for message in messages]
    are_led = any(message.is_instruction for message in messages)
    definitions = Definitions(tools, tool_choice, response_format, are_led)
    count = count_within(fields, definitions, counter, rules, max_cold_chars=None)
    assert count is not None
    return count


def count_within(
    messages: Sequence[Fields],
    definitions: Definitions,
    counter: TokenCounter,
    rules: CountingRules,
    *,
    max_cold_chars: int | None,
    known: RequestCount = NOTHING_COUNTED,
) -> RequestCount | None:
    """Count a request's prompt; None if more than `max_cold_chars` are not in the cache.

    Counting cached texts is fast. Without the limit the others are counted too, which belongs in
    a thread. `known` is the count of the messages before these, if available.
    """
    is_guess = not counter.is_loaded
    tally = _Tally(counter, rules)
    each = tally.add(messages, max_cold_chars)
    if each is None:
        return None
    tools, frame = _definition_tokens(definitions, counter, rules)
    return tally.count(each, known, is_guess, tools, frame)


def count_messages(
    messages: Sequence[Fields],
    counter: TokenCounter,
    rules: CountingRules,
    *,
    max_cold_chars: int | None = None,
    known: RequestCount = NOTHING_COUNTED,
) -> RequestCount | None:
    """Count the messages only, like `count_within`; counts of parts of a history add up."""
    is_guess = not counter.is_loaded
    tally = _Tally(counter, rules)
    each = tally.add(messages, max_cold_chars)
    return None if each is None else tally.count(each, known, is_guess)


def _definition_tokens(
    definitions: Definitions, counter: TokenCounter, rules: CountingRules
) -> tuple[int, int]:
    """Return the tokens of tools and schema, and those of the frame around the reply."""
    frame = rules.reply_tokens
    if not definitions.tools and definitions.response_format is None:
        return 0, frame
    tokens = tools_tokens(definitions.tools, counter, rules.tools_style)
    if tokens and rules.tools_style == "typescript":
        tokens += tool_choice_tokens(definitions.tool_choice, counter)
        if definitions.are_led:
            frame -= 4  # the definitions are then part of that message
    if definitions.response_format is not None and rules.renders_schema:
        tokens += schema_tokens(definitions.response_format, counter)
    return tokens, frame


def media_tokens(medium: Media, rules: CountingRules) -> int:
    """Count one media item: images by formula, all others by a flat rate."""
    match medium.kind:
        case "image":
            data = medium.data if medium.is_inline else ""
            return image_tokens(data, medium.detail, rules.image_family, rules.image_tokens)
        case "document":
            return rules.document_tokens
        case "audio":
            return rules.audio_tokens
        case "video":
            return rules.video_tokens


class _Tally:
    """Sums by kind over the messages of one request."""

    __slots__ = ("_counter", "_kinds", "_media", "_overhead", "_rules", "_text")

    def __init__(self, counter: TokenCounter, rules: CountingRules) -> None:
        self._text = 0
        self._overhead = 0
        self._kinds: dict[PieceKind, int] | None = None
        self._media: dict[MediaKind, int] = _NO_MEDIA
        self._counter = counter
        self._rules = rules

    def count(
        self,
        each: list[int],
        known: RequestCount,
        is_guess: bool,
        tools: int = 0,
        frame: int = 0,
    ) -> RequestCount:
        """Return the sums, added to those of the earlier messages."""
        kinds, media = self._kinds, self._media
        if kinds is None and known is NOTHING_COUNTED:
            overhead = self._overhead + frame
            return RequestCount(
                tuple(each), self._text, 0, 0, 0, tools, 0, 0, 0, 0, overhead, is_guess
            )
        kinds = kinds or _NO_TEXTS
        return RequestCount(
            (*known.messages, *each),
            known.text + self._text + kinds["text"] + kinds["name"],
            known.reasoning + kinds["reasoning"],
            known.tool_calls + kinds["tool_call"] + kinds["id"],
            known.tool_results + kinds["tool_result"],
            tools,
            known.images + media["image"],
            known.documents + media["document"],
            known.audio + media["audio"],
            known.video + media["video"],
            known.overhead + self._overhead + frame,
            is_guess or known.is_guess,
        )

    def add(
        self, messages: Sequence[Fields], max_cold_chars: int | None = None
    ) -> list[int] | None:
        """Count the messages and return the tokens of each; None if too much text is not cached.

        All texts are looked up at once, and a message with only a text skips the list of pieces:
        counting a long history again costs less than parsing it.
        """
        texts: list[str] = []
        others: list[tuple[int, Fields, Sequence[PieceKind]]] = []
        add_text = texts.append
        for fields in messages:
            content = fields.get("content")
            if type(content) is str:
                size = len(fields)
                if size == 2 and fields.get("role") not in RESULT_ROLES:
                    add_text(content)
                    continue
                if size == 3 and fields.get("role") == "tool" and "tool_call_id" in fields:
                    call_id = fields["tool_call_id"]
                    if type(call_id) is str:
                        others.append((len(texts), fields, _RESULT))
                        texts += (content, call_id)
                        continue
            pieces = pieces_of(fields)
            others.append((len(texts), fields, [kind for kind, _ in pieces]))
            texts += [text for _, text in pieces]
        counts = self._counter.counts_within(texts, max_cold_chars)
        return None if counts is None else self._add_up(counts, others)

    def _add_up(
        self, counts: list[int], others: list[tuple[int, Fields, Sequence[PieceKind]]]
    ) -> list[int]:
        if not others:
            return self._count_plain(counts)
        each: list[int] = []
        frame = self._rules.message_tokens
        call_frame = self._rules.tool_call_tokens // 2
        self._kinds = kinds = _NO_TEXTS.copy()
        position = 0
        for start, fields, its_kinds in others:
            if start > position:
                each += self._count_plain(counts[position:start])
            position = start
            total = extra = 0
            for kind in its_kinds:
                count = counts[position]
                position += 1
                kinds[kind] += count
                total += count
                if kind == "tool_call":  # a call is two pieces, its name and its arguments
                    extra += call_frame
                elif kind == "name":
                    extra += 1
            self._overhead += frame + extra
            if type(fields.get("content")) in _MAY_HOLD_MEDIA:
                total += self._count_media(fields)
            each.append(total + frame + extra)
        return each + self._count_plain(counts[position:])

    def _count_plain(self, counts: list[int]) -> list[int]:
        frame = self._rules.message_tokens
        self._text += sum(counts)
        self._overhead += frame * len(counts)
        return [count + frame for count in counts]

    def _count_media(self, fields: Fields) -> int:
        total = 0
        for medium in media_in(fields):
            tokens = media_tokens(medium, self._rules)
            if self._media is _NO_MEDIA:
                self._media = _NO_MEDIA.copy()
            self._media[medium.kind] += tokens
            total += tokens
        return total
