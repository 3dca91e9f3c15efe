"""The sections of summaries: cut one to its share of a folded text, merge several into one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chat_proxy.compaction.shares import fair_share

# What the model needs most to go on comes first; sections of other prompts come in their order.
_FIRST: Final = (
    "Goal",
    "Constraints & Preferences",
    "In Progress",
    "Next Steps",
    "Critical Context",
    "Key Decisions",
    "Blocked",
    "Done",
    "Relevant Files",
)

_NOTHING: Final = "- (none)"


def shortened_summary(summary: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return as many whole lines of a summary as fit, in their order; empty sections go first."""
    if not summary or count(summary) <= max_tokens:
        return summary
    lines = _filled(summary.splitlines())
    kept: set[int] = set()
    left = max_tokens
    for section in _sections(lines):
        heading, *body = section
        headings = {heading, _parent_of(heading, lines)} - kept
        cost = sum(count(lines[index]) + 1 for index in headings)
        costs = {index: count(lines[index]) + 1 for index in body if lines[index].strip()}
        for index in _spread(costs, left - cost):
            if costs[index] + cost > left:
                continue
            left -= costs[index] + cost
            kept |= {*headings, index}
            cost = 0
    return "\n".join(lines[index] for index in sorted(kept))


def _spread(costs: Mapping[int, int], room: int) -> list[int]:
    """Return the lines in the order in which they are kept.

    If not all fit, those come first that are spread evenly from the oldest to the newest.
    """
    lines = list(costs)
    for number in range(len(lines), 1, -1):
        chosen = [lines[it * (len(lines) - 1) // (number - 1)] for it in range(number)]
        if sum(costs[index] for index in chosen) <= room:
            return [*chosen, *(index for index in lines if index not in chosen)]
    return lines


def merged_within(summaries: Sequence[str], max_tokens: int, count: Callable[[str], int]) -> str:
    """Return several summaries as one of at most `max_tokens`; where cut, each has its share."""
    merged = merged_summaries(summaries)
    if count(merged) <= max_tokens:
        return merged
    outline = [line for line in merged.splitlines() if line.startswith("#")]
    left = max_tokens - sum(count(f"{line}\n{_NOTHING}\n") for line in outline)
    filled = ["\n".join(_filled(summary.splitlines())) for summary in summaries]
    share = fair_share(map(count, filled), max(0, left))
    cut = [shortened_summary(summary, share, count) for summary in filled]
    return shortened_summary(merged_summaries(["\n".join(outline), *cut]), max_tokens, count)


def merged_summaries(summaries: Sequence[str]) -> str:
    """Return one summary with the lines of several under each heading, oldest first."""
    bodies: dict[str, list[str]] = {}
    for summary in summaries:
        heading = ""
        for line in summary.splitlines():
            if line.startswith("#"):
                heading = line.strip()
                bodies.setdefault(heading, [])
            elif not _is_empty(line):
                body = bodies.setdefault(heading, [])
                if line not in body:
                    body.append(line)
    lines: list[str] = []
    for heading, body in bodies.items():
        is_parent = heading.startswith("## ") and "Progress" in heading
        lines += [heading] if heading else []
        lines += body if body or is_parent else [_NOTHING]
    return "\n".join(lines)


def _sections(lines: list[str]) -> list[list[int]]:
    """Return the line numbers of each section, the most important sections first."""
    sections: list[list[int]] = [[]]
    for index, line in enumerate(lines):
        if line.startswith("#"):
            sections.append([index])
        else:
            sections[-1].append(index)
    return sorted((section for section in sections if section), key=lambda s: _rank(lines[s[0]]))


def _rank(heading: str) -> int:
    name = heading.lstrip("# ").strip()
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _parent_of(heading: int, lines: list[str]) -> int:
    """Return the line number of the heading above a smaller one, else of the heading itself."""
    if lines[heading].startswith("###"):
        for index in range(heading - 1, -1, -1):
            if lines[index].startswith("## "):
                return index
    return heading


def _filled(lines: list[str]) -> list[str]:
    """Return the lines of a summary that say something, with the headings above them."""
    kept: set[int] = set()
    for section in _sections(lines):
        body = [index for index in section if not lines[index].startswith("#")]
        said = [index for index in body if not _is_empty(lines[index])]
        if said:
            kept |= {section[0], _parent_of(section[0], lines), *said}
    return [lines[index] for index in sorted(kept)]


def _is_empty(line: str) -> bool:
    return line.strip("-* ") in ("", "(none)")
