"""Token counts of a whole request by kind, for the context window and for calibration."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args

from chat_proxy.chat.media import MediaKind, media_in
from chat_proxy.chat.message import Message, PieceKind
from chat_proxy.chat.texts import RESULT_ROLES, pieces_of
from chat_proxy.tokens.images.media import media_tokens
from chat_proxy.tokens.images.size import Size, image_size
from chat_proxy.tokens.images.tokens import cells_of
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.tokens.scripts import TOKENS_MASK, escapes_in, scaled
from chat_proxy.tokens.token_counter import TokenCounter
from chat_proxy.tokens.tools import Definitions, definitions_profile

Fields = dict[str, Any]

_INSTRUCTIONS: Final = ("system", "developer")
_RESULT: Final[tuple[PieceKind, ...]] = ("tool_result", "id")
_MAY_HOLD_MEDIA: Final = (list, dict)
_NO_SIZE: Final = Size(0, 0)
_NO_TEXTS: Final[dict[PieceKind, int]] = dict.fromkeys(get_args(PieceKind), 0)
_NO_MEDIA: Final[dict[MediaKind, int]] = dict.fromkeys(get_args(MediaKind), 0)


class RequestCount(NamedTuple):
    """A request's tokens by kind."""

    profiles: tuple[int, ...] = ()
    """The profile of each message, with media and frame (`tokens/scripts.py`)."""
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
    scripts: int = 0
    """The profile of all texts: their tokens by script class (`tokens/scripts.py`)."""
    image_cells: int = 0
    """The 28 px cells of the images whose model family is unknown."""
    image_sizes: tuple[Size, ...] = ()
    """The sizes of images whose family is unknown or uncertain; zeros if they cannot be read."""
    is_led: bool = False
    """Whether instructions come first; some templates add their own if there are none."""
    result_escapes: int = 0
    """About what tool results cost more where templates write them as JSON strings."""
    call_overhead: int = 0
    """The part of `overhead` that is around tool calls and their results."""

    @property
    def messages(self) -> list[int]:
        """The tokens of each message, with media and frame."""
        return [profile & TOKENS_MASK for profile in self.profiles]

    def message_tokens(self, index: int) -> int:
        """Return the tokens of one message, with media and frame."""
        return self.profiles[index] & TOKENS_MASK

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

    def rescaled(self) -> "RequestCount":
        """Return the count after a kind was replaced: the same mixture of scripts in all words."""
        return self._replace(scripts=scaled(self.scripts, self.words))


NOTHING_COUNTED: Final = RequestCount()


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
    tools, frame = definitions_profile(definitions, counter, rules)
    if rules.unled_tokens and not (known.is_led if known.profiles else tally.is_led):
        frame += rules.unled_tokens
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


class _Tally:
    """Sums by kind over the messages of one request."""

    __slots__ = (
        *("_call_overhead", "_counter", "_kinds", "_media", "_overhead", "_rules"),
        *("_searches_family", "_sizes", "_text", "is_led"),
    )

    def __init__(self, counter: TokenCounter, rules: CountingRules) -> None:
        self._text = 0  # a profile, as the values of `_kinds` are
        self._overhead = 0
        self._call_overhead = 0
        self.is_led = False
        self._sizes: tuple[Size, ...] = ()
        self._searches_family = rules.learns_images or rules.image_family is None
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
        """Return the sums, added to those of the earlier messages; `tools` is a profile."""
        kinds, media = self._kinds, self._media
        text, mask = self._text, TOKENS_MASK
        if kinds is None and known is NOTHING_COUNTED:
            overhead, scripts = self._overhead + frame, text + tools
            text, tools = text & mask, tools & mask
            return RequestCount(
                tuple(each), text, 0, 0, 0, tools, 0, 0, 0, 0, overhead, is_guess, scripts,
                0, (), self.is_led,
            )  # fmt: skip
        kinds = kinds or _NO_TEXTS
        escapes = escapes_in(kinds["tool_result"])
        quotes = escapes if self._rules.quotes_results else 0
        return RequestCount(
            (*known.profiles, *each),
            known.text + (text + kinds["text"] + kinds["name"] & mask),
            known.reasoning + (kinds["reasoning"] & mask),
            known.tool_calls + (kinds["tool_call"] + kinds["id"] & mask),
            known.tool_results + (kinds["tool_result"] & mask) + quotes,
            tools & mask,
            known.images + media["image"],
            known.documents + media["document"],
            known.audio + media["audio"],
            known.video + media["video"],
            known.overhead + self._overhead + frame,
            is_guess or known.is_guess,
            known.scripts + text + sum(kinds.values()) + tools + quotes,
            known.image_cells
            + sum(map(cells_of, self._sizes)) * (self._rules.image_family is None),
            (*known.image_sizes, *self._sizes),
            known.is_led if known.profiles else self.is_led,
            known.result_escapes + escapes,
            known.call_overhead + self._call_overhead,
        )

    def add(
        self, messages: Sequence[Fields], max_cold_chars: int | None = None
    ) -> list[int] | None:
        """Count the messages and return the profile of each; None if too much is not cached.

        All texts are looked up at once, and a message with only a text skips the list of pieces:
        counting a long history again costs less than parsing it.
        """
        self.is_led = bool(messages) and messages[0].get("role") in _INSTRUCTIONS
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
        profiles = self._counter.profiles_within(texts, max_cold_chars)
        return None if profiles is None else self._add_up(profiles, others)

    def _add_up(
        self, profiles: list[int], others: list[tuple[int, Fields, Sequence[PieceKind]]]
    ) -> list[int]:
        if not others:
            return self._count_plain(profiles)
        each: list[int] = []
        frame = self._rules.message_tokens
        call_frame = self._rules.tool_call_tokens // 2
        self._kinds = kinds = _NO_TEXTS.copy()
        position = results = ids = 0
        for start, fields, its_kinds in others:
            if start > position:
                each += self._count_plain(profiles[position:start])
            position = start
            if its_kinds is _RESULT:  # most messages of agents: no loop, no media
                result, call_id = profiles[start], profiles[start + 1]
                position += 2
                results += result
                ids += call_id
                self._overhead += frame
                self._call_overhead += frame
                each.append(result + call_id + frame)
                continue
            total = extra = 0
            for kind in its_kinds:
                profile = profiles[position]
                position += 1
                kinds[kind] += profile
                total += profile
                if kind == "tool_call":  # a call is two pieces, its name and its arguments
                    extra += call_frame
                    self._call_overhead += call_frame
                elif kind == "name":
                    extra += 1
            self._overhead += frame + extra
            if type(fields.get("content")) in _MAY_HOLD_MEDIA:
                total += self._count_media(fields)
            each.append(total + frame + extra)
        kinds["tool_result"] += results
        kinds["id"] += ids
        return each + self._count_plain(profiles[position:])

    def _count_plain(self, profiles: list[int]) -> list[int]:
        frame = self._rules.message_tokens
        self._text += sum(profiles)
        self._overhead += frame * len(profiles)
        return [profile + frame for profile in profiles]

    def _count_media(self, fields: Fields) -> int:
        total = 0
        for medium in media_in(fields):
            tokens = media_tokens(medium, self._rules)
            if self._media is _NO_MEDIA:
                self._media = _NO_MEDIA.copy()
            self._media[medium.kind] += tokens
            if medium.kind == "image" and self._searches_family:
                size = image_size(medium.data) if medium.is_inline else None
                self._sizes = (*self._sizes, size or _NO_SIZE)
            total += tokens
        return total
