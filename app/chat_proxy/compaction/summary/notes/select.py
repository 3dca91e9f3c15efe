"""Choose the units that tell the most per token, and write them as notes in their order."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.line import cut_end
from chat_proxy.compaction.summary.notes.telegraphic import telegraphic
from chat_proxy.compaction.summary.notes.terms import frequencies, rarity, terms_of
from chat_proxy.compaction.summary.notes.units import IMAGE, NumberedMessage, Unit, units_of

DEMANDS_SHARE: Final = 0.8
"""The share of the room that the user's demands may take before all other notes."""
WHOLE_SHARE: Final = 0.4
"""The share of the room up to which demands are noted whole, and not in few words."""
IMAGES_SHARE: Final = 0.5
"""The share of the room that what images showed may take after the demands."""
REQUIRED_SHARE: Final = 0.4
"""The share of the room that failing tests may take after the demands."""
LEAST_DENSITY: Final = 0.02
"""What tells less per token is not worth its place."""
NOTES_SEPARATOR: Final = " | "
"""Stands between the notes of one message."""
LEAST_IMAGE_CHARS: Final = 48
LINE_TOKENS: Final = 4
"""About the tokens of a new line with its message's number and speaker."""
MAX_UNITS: Final = 20_000

Count = Callable[[str], int]


def notes(
    messages: Sequence[NumberedMessage],
    calls: Mapping[int, ResultCall],
    known: str,
    room: int,
    count: Count,
    told: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return notes of messages within `room` tokens, without what a known text already says.

    No model takes part: the sentences and lines are chosen that carry the rarest names, numbers
    and words for the fewest tokens. Each line begins with the message's number. `told` has what a
    model wrote about the images of a message, by its number.
    """
    units = _bounded(units_of(messages, calls, told))
    units = _with_short_demands(units, int(room * WHOLE_SHARE), count)
    units = _with_short_images(units, int(room * IMAGES_SHARE / 2), count)
    selection = _Selection(units, known, count)
    chosen = selection.choose(room)
    text = _written(sorted(chosen), units)
    spare = room - count(text)
    if spare > LINE_TOKENS:
        chosen += selection.fill(spare)
        text = _written(sorted(chosen), units)
    while chosen and count(text) > room:
        del chosen[-1 - len(chosen) // 50 :]
        text = _written(sorted(chosen), units)
    return text


def demands_size(messages: Sequence[NumberedMessage], known: str, count: Count) -> int:
    """Return the tokens of the user's demands in few words, without what a known text says."""
    spoken = [(number, message) for number, message in messages if message.is_user]
    demands = [unit for unit in units_of(spoken, {}) if unit.is_required and unit.speaker == "user"]
    return _Selection(_with_short_demands(demands, 0, count), known, count).required_size()


class _Selection:
    """A greedy choice: at each step the unit with the most new terms for its tokens."""

    def __init__(self, units: Sequence[Unit], known: str, count: Count) -> None:
        self._units = units
        self._terms = [terms_of(unit.text) for unit in units]
        by_message: dict[int, dict[str, float]] = {}
        for unit, terms in zip(units, self._terms, strict=True):
            by_message.setdefault(unit.message, {}).update(terms)
        counts, total = frequencies(by_message.values())
        self._rarity = {term: rarity(times, total) for term, times in counts.items()}
        self._covered = set(terms_of(known))
        self._known = known
        self._costs = [count(unit.text) + 1 for unit in units]
        self._messages: set[int] = set()

    def choose(self, room: int) -> list[int]:
        """Return the chosen units in the order of choice: the required ones first."""
        required = self._required()
        demands = [index for index in required if self._units[index].speaker == "user"]
        images = [index for index in required if self._units[index].speaker == IMAGE]
        others = [index for index in required if self._units[index].speaker == "tool"]
        chosen: list[int] = []
        left = room
        shares = (
            (demands, DEMANDS_SHARE),
            (images, IMAGES_SHARE),
            (others, REQUIRED_SHARE),
        )
        for indexes, share in shares:
            most = int(left * share)
            left += self._take(indexes, most, chosen, least_new=0) - most
        return chosen + self.fill(left)

    def required_size(self) -> int:
        """Return the tokens of all required units."""
        return sum(map(self._cost, self._required()))

    def _required(self) -> list[int]:
        """Return the required units, newest first, without those that one line says already.

        Words that are known from several lines do not count: a file may be named in one and the
        demand not to touch it in none.
        """
        said = _SaidLines()
        for line in self._known.splitlines():
            said.add(terms_of(line))
        found: list[int] = []
        for index, unit in reversed(list(enumerate(self._units))):
            if not unit.is_required or unit.text in self._known:
                continue
            if not said.say(self._terms[index]):
                found.append(index)
                said.add(self._terms[index])
        return found

    def fill(self, left: int) -> list[int]:
        """Return further units for the tokens that are left, the densest first."""
        chosen: list[int] = []
        heap = [(-self._density(index), index) for index in range(len(self._units))]
        heapq.heapify(heap)
        while heap and left > 0:
            density, index = heapq.heappop(heap)
            now = self._density(index)
            if now < LEAST_DENSITY:
                continue
            if -now > density:  # terms were covered meanwhile: look at it again later
                heapq.heappush(heap, (-now, index))
                continue
            left = self._take((index,), left, chosen)
        return chosen

    def _take(
        self, indexes: Iterable[int], left: int, chosen: list[int], least_new: int = 1
    ) -> int:
        """Choose units with new terms while they fit; return the tokens that are left."""
        for index in indexes:
            cost = self._cost(index)
            new = self._terms[index].keys() - self._covered
            if cost > left or len(new) < least_new:
                continue
            left -= cost
            chosen.append(index)
            self._messages.add(self._units[index].message)
            self._covered.update(self._terms[index])
        return left

    def _density(self, index: int) -> float:
        gain = sum(
            self._rarity[term] * boost
            for term, boost in self._terms[index].items()
            if term not in self._covered
        )
        return gain * self._units[index].weight / self._cost(index)

    def _cost(self, index: int) -> int:
        is_new = self._units[index].message not in self._messages
        return self._costs[index] + (LINE_TOKENS if is_new else 0)


class _SaidLines:
    """Lines by their terms, so that one with certain terms is found without trying all."""

    def __init__(self) -> None:
        self._lines_with: dict[str, set[int]] = {}
        self._count = 0

    def add(self, terms: Iterable[str]) -> None:
        """Add a line."""
        for term in terms:
            self._lines_with.setdefault(term, set()).add(self._count)
        self._count += 1

    def say(self, terms: Iterable[str]) -> bool:
        """Return whether one line has all of these terms."""
        found = sorted((self._lines_with.get(term, set()) for term in terms), key=len)
        return not found or bool(set.intersection(*found))


def _with_short_demands(units: list[Unit], room: int, count: Count) -> list[Unit]:
    """Return the units, with demands in few words if all of them together are over the room.

    Otherwise they would leave no space for other facts, or the newest none for the oldest.
    """
    demands = [unit for unit in units if unit.is_required and unit.speaker == "user"]
    if sum(count(unit.text) + LINE_TOKENS for unit in demands) <= room:
        return units
    return [
        unit._replace(text=telegraphic(unit.text) or unit.text)
        if unit.is_required and unit.speaker == "user"
        else unit
        for unit in units
    ]


def _with_short_images(units: list[Unit], room: int, count: Count) -> list[Unit]:
    """Return the units, with what images showed cut to equal shares if it is over the room.

    A few words about every image tell more than many about the newest.
    """
    images = [unit for unit in units if unit.speaker == IMAGE and unit.is_required]
    tokens = sum(count(unit.text) + LINE_TOKENS for unit in images)
    if not images or tokens <= room:
        return units
    share = max(LEAST_IMAGE_CHARS, sum(len(unit.text) for unit in images) // len(images))
    share = max(LEAST_IMAGE_CHARS, share * room // tokens)
    return [
        unit._replace(text=cut_end(unit.text, share))
        if unit.speaker == IMAGE and unit.is_required
        else unit
        for unit in units
    ]


def _bounded(units: list[Unit]) -> list[Unit]:
    """Return at most `MAX_UNITS` units: of tool output only the newest lines."""
    excess = len(units) - MAX_UNITS
    if excess <= 0:
        return units
    kept = []
    for unit in units:
        if excess > 0 and unit.speaker == "tool" and not unit.is_required:
            excess -= 1
        else:
            kept.append(unit)
    return kept[-MAX_UNITS:]


def _written(indexes: Sequence[int], units: Sequence[Unit]) -> str:
    """Return the units as lines, those of one message on one line."""
    lines: dict[int, list[str]] = {}
    for index in indexes:
        unit = units[index]
        speaker = "" if unit.speaker == "call" else f"{unit.speaker}: "
        parts = lines.setdefault(unit.message, [])
        parts.append(unit.text if parts else f"#{unit.message} {speaker}{unit.text}")
    return "\n".join(NOTES_SEPARATOR.join(parts) for parts in lines.values())
