"""A plan in the making: sizes that shrink step by step, and the treatments that shrink them."""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate

from chat_proxy.chat.conversation import carried
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.line import LONGEST_LINE
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.short_calls import with_short_calls
from chat_proxy.compaction.ageing.superseded import superseded
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.planner.placed_media import (
    PlacedMedium,
    name_tokens,
    note_tokens,
    placed_media,
)
from chat_proxy.compaction.planner.plan import Form, Plan
from chat_proxy.compaction.planner.scaling import (
    SCALED_REASON,
    fits_in,
    leaving_media,
    shown_indexes,
)
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.shares import fair_share
from chat_proxy.compaction.tool_results import ToolResult, tool_results
from chat_proxy.compaction.truncate_text import byte_count
from chat_proxy.tokens.images.fit import Fit

LEAST_AGED_TOKENS = 250
"""Results below this size stay: a line would save next to nothing."""
LINE_TOKENS = 70
SMALLEST_RESULT_BYTES = 240
FRAME_TOKENS = 12
"""About the tokens of the acknowledgement behind a folded text."""


class WorkingPlan:
    """The sizes of a conversation under the treatments chosen so far."""

    def __init__(self, view: View, policy: AgeingPolicy) -> None:
        self.view = view
        self.end = view.folded
        self.room = view.fold_tokens
        self._policy = policy
        self._sizes = list(view.sizes)
        self._sums: list[int] | None = None
        """The running totals of the sizes, None after a change."""
        self._lines: set[Place] = set()
        self._short: dict[Place, int] = {}
        self._shown: dict[Place, int] = {}
        self._calls: dict[Place, int] = {}
        self._media: set[Place] = set()
        self._scaled: dict[Place, Fit] = {}
        self._reasons = dict(view.reasons)
        self._named: set[Place] = set()
        self._current_media: int | None = None
        self._results = [
            (result, sum(map(view.count, result.texts)))
            for result in tool_results(view.conversation)
            if result.index >= view.folded
        ]

    @property
    def rest(self) -> int:
        """The tokens beside the folded text."""
        conversation, end = self.view.conversation, self.end
        users = sum(self._sizes[index] for index in carried(conversation, end))
        frame = FRAME_TOKENS if end > conversation.instructions else 0
        if self._sums is None:
            self._sums = list(accumulate(self._sizes, initial=0))
        return self.view.fixed + frame + users + self._sums[-1] - self._sums[end]

    @property
    def tokens(self) -> int:
        """The tokens of the whole prompt."""
        return self.rest + self.room

    @property
    def leaves_lines(self) -> bool:
        """Whether only a line is left of a result that was shown so far."""
        return bool(self._lines)

    def plan(self, form: Form, room: int | None = None) -> Plan:
        """Return the plan as it stands."""
        added = Treatments(
            frozenset(self._lines),
            dict(self._short),
            dict(self._calls),
            frozenset(self._media),
            {place: fit.side for place, fit in self._scaled.items()},
        )
        tokens = self.rest + (self.room if room is None else room)
        return Plan(
            form,
            self.end,
            room,
            self.view.treatments | added,
            tokens,
            dict(self._reasons),
            self._current_media,
        )

    def copy(self) -> "WorkingPlan":
        """Return a copy that can be changed without changing this one."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(other, name, value.copy())
        return other

    def age_superseded(self) -> None:
        """Leave one line of each result that a later one replaces."""
        replaced = superseded(self.view.conversation)
        for result, tokens in self._ageable():
            if result.index in replaced:
                self._to_line(result, tokens, replaced[result.index])

    def age_media(self, max_rest: int = 0) -> None:
        """Replace media beyond the newest few by notes, oldest first, until the rest fits.

        Those of the current user messages and of the newest steps stay.
        """
        shown = list(self._shown_media(self._behind_fold()))
        for it in leaving_media(self.view, self._policy, shown):
            if self.rest <= max_rest:
                return
            self._note_medium(it)

    def scale_media(self, max_rest: int) -> None:
        """Scale images down to equal shares of the room, as far as they can be."""
        shown = list(self._shown_media(shown_indexes(self.view, self.end)))
        room = sum(it.tokens for it in shown) - (self.rest - max_rest)
        fits = fits_in(self.view, shown, room)
        for it in shown:
            if it.place in fits:
                self._scaled[it.place] = fits[it.place]
                self._shrink(it.message, it.tokens - fits[it.place].tokens, SCALED_REASON)

    def age_results(self, max_rest: int) -> None:
        """Shorten old results, then leave one line of each, oldest first, until the rest fits."""
        reason = "older than the newest two steps: {} so that the prompt reaches its target"
        excess = self.rest - max_rest
        for result, tokens in self._ageable():
            if excess <= 0:
                return
            floor = min(tokens, self._tokens_of_bytes(result, tokens, self._policy.old_max_bytes))
            wanted = max(floor, tokens - excess)
            excess -= self._to_size(result, tokens, wanted, reason.format("shortened"))
        for result, tokens in self._ageable():
            if excess <= 0:
                return
            excess -= self._to_line(result, tokens, reason.format("one line is left"))

    def shorten_newest(self, max_rest: int) -> None:
        """Shorten the results of the newest steps to equal shares of the room, never to a line."""
        start = max(self.end, self._newest_start())
        newest = [
            (result, tokens)
            for result, tokens in self._results
            if result.index >= start and result.name not in self._policy.exempt_tools
        ]
        total = sum(self._shown_tokens(result, tokens) for result, tokens in newest)
        room = total - (self.rest - max_rest)
        share = fair_share([self._shown_tokens(*item) for item in newest], max(0, room))
        for result, tokens in newest:
            if self._shown_tokens(result, tokens) > share:
                self._to_size(result, tokens, share, "newest steps: shortened to fit the window")

    def shorten_calls(self, max_bytes: int) -> None:
        """Cut long arguments and texts of the newest steps' calls."""
        for step in self.view.newest_steps:
            message = self.view.conversation.messages[step.start]
            origin = self.view.conversation.origins[step.start]
            shorter = with_short_calls(message, max_bytes)
            if origin is None or shorter is message:
                continue
            self._calls[Place(origin)] = max_bytes
            saved = self._text_tokens(message) - self._text_tokens(shorter)
            reason = "newest steps: long arguments are cut to fit the window"
            self._shrink(step.start, saved, reason)

    def note_older_media(self) -> None:
        """Replace all media outside the current turn by notes."""
        start = self.view.current_start
        for it in self._shown_media(self._behind_fold()):
            if it.message < start:
                self._note_medium(it)

    def note_current_media(self, max_rest: int) -> None:
        """Replace media of the current turn by their names, oldest first, until the rest fits."""
        start = self.view.current_start
        shown = shown_indexes(self.view, self.end)
        media = list(self._shown_media([index for index in shown if index >= start]))
        while media and self.rest > max_rest:
            oldest = media.pop()
            is_first = not any(oldest.place.origin == named.origin for named in self._named)
            left = name_tokens(self.view, oldest, is_first=is_first)
            self._named.add(oldest.place)
            self._current_media = len(media)
            reason = "the media of the current message do not fit the window"
            self._shrink(oldest.message, max(0, oldest.tokens - left), reason)

    def _text_tokens(self, message: Message) -> int:
        return sum(self.view.count(text) for _, text in message.pieces())

    def _ageable(self) -> Iterator[tuple[ToolResult, int]]:
        """Yield the results behind the fold that may age, oldest first."""
        policy, budget = self._policy, self.view.budget
        last = min(self._newest_start(), self._zone_start())
        protected = policy.protected(budget)
        kept = policy.keep_results
        chosen = []
        for result, tokens in reversed(self._results):
            protected -= tokens
            kept -= result.name not in policy.protected_tools  # those stay anyway
            may_age = result.index >= self.end and result.index < last and kept < 0
            if may_age and protected < 0 and self._is_worth(result, tokens):
                chosen.append((result, tokens))
        yield from reversed(chosen)

    def _is_worth(self, result: ToolResult, tokens: int) -> bool:
        is_aged = result.place in self._lines or result.place in self.view.treatments.lines
        is_protected = result.name in self._policy.protected_tools
        return tokens >= LEAST_AGED_TOKENS and not is_aged and not is_protected

    def _newest_start(self) -> int:
        steps = self.view.newest_steps
        return steps[0].start if steps else self.view.current_start

    def _zone_start(self) -> int:
        """Return where the protected turns begin that together are below the trigger."""
        turns = self.view.conversation.turns
        for turn in turns[max(0, len(turns) - self._policy.protect_turns) :]:
            if self.view.sums[-1] - self.view.sums[turn.start] < self.view.budget.trigger:
                return turn.start
        return len(self.view.conversation)

    def _to_line(self, result: ToolResult, tokens: int, reason: str) -> int:
        """Leave one line of a result; return the tokens saved."""
        if sum(map(len, result.texts)) <= LONGEST_LINE:
            return 0
        self._short.pop(result.place, None)
        self._lines.add(result.place)
        return self._show(result, tokens, LINE_TOKENS, reason)

    def _to_size(self, result: ToolResult, tokens: int, wanted: int, reason: str) -> int:
        """Shorten a result to about so many tokens; return the tokens saved."""
        size = sum(map(byte_count, result.texts))
        if wanted >= self._shown_tokens(result, tokens) or size <= SMALLEST_RESULT_BYTES:
            return 0
        if result.name in self._policy.exempt_tools:
            return 0
        self._short[result.place] = max(SMALLEST_RESULT_BYTES, int(size * wanted / tokens * 0.97))
        least = self._tokens_of_bytes(result, tokens, SMALLEST_RESULT_BYTES)
        return self._show(result, tokens, max(wanted, least), reason)

    def _show(self, result: ToolResult, tokens: int, shown: int, reason: str) -> int:
        """Show a result in fewer tokens than before; return the tokens saved."""
        before = self._shown_tokens(result, tokens)
        self._shown[result.place] = min(before, shown)
        saved = max(0, before - shown)
        self._shrink(result.index, saved, reason)
        return saved

    def _shrink(self, index: int, saved: int, reason: str) -> None:
        """Record that a message has fewer tokens, and why."""
        self._sizes[index] = max(0, self._sizes[index] - saved)
        self._sums = None
        self._reasons[index] = reason

    def _shown_tokens(self, result: ToolResult, tokens: int) -> int:
        """Return the tokens of a result as this plan shows it so far."""
        return self._shown.get(result.place, tokens)

    def _tokens_of_bytes(self, result: ToolResult, tokens: int, max_bytes: int) -> int:
        size = sum(map(byte_count, result.texts))
        return min(tokens, tokens * max_bytes // max(1, size))

    def _behind_fold(self) -> range:
        return range(self.end, len(self.view.conversation))

    def _shown_media(self, indexes: Sequence[int]) -> Iterator[PlacedMedium]:
        """Yield each medium of the client's messages that is still shown, newest first."""
        for it in placed_media(self.view, indexes):
            if it.place not in self._media and it.place not in self._named:
                fit = self._scaled.get(it.place)
                yield it if fit is None else it._replace(tokens=fit.tokens)

    def _note_medium(self, it: PlacedMedium) -> None:
        left = note_tokens(self.view, it)
        if it.tokens > left:
            self._media.add(it.place)
            self._shrink(it.message, it.tokens - left, "older media: a note is left")
