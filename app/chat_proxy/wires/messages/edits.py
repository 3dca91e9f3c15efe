"""Read `context_management` and `compaction` of a Messages request.

A parameter exists only with its beta header. Without it the field is one that nobody knows: it is
not read here, and the upstream decides about it.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from chat_proxy.http.headers import RawHeaders
from chat_proxy.wires.contracts.contract import ClearResults, ClearThinking, Contract
from chat_proxy.wires.messages.compaction_blocks import (
    has_blocks,
    mistake_in,
    newest_block,
    sealed_text,
)
from chat_proxy.wires.reading import Fields

BETA_HEADER: Final = b"anthropic-beta"
CONTEXT_MANAGEMENT: Final = "context-management-2025-06-27"
COMPACT: Final = "compact-2026-01-12"
SUMMARIZE: Final = "compact-2026-09-04"

CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
CLEAR_THINKING: Final = "clear_thinking_20251015"
COMPACT_EDIT: Final = "compact_20260112"
MANAGED: Final = "context_management"
SUMMARIZED: Final = "compaction"
PARAMETERS: Final = (MANAGED, SUMMARIZED)

DEFAULT_CLEAR_TRIGGER: Final = 100_000
DEFAULT_KEPT_USES: Final = 3
DEFAULT_KEPT_THINKING: Final = 1
DEFAULT_COMPACT_TRIGGER: Final = 150_000

_BETA_OF: Final = {
    CLEAR_TOOL_USES: CONTEXT_MANAGEMENT,
    CLEAR_THINKING: CONTEXT_MANAGEMENT,
    COMPACT_EDIT: COMPACT,
}


class _Mistake(ValueError):
    """A parameter with a value that the API refuses."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{at}: {reason}")
        self.param = at


def betas_in(headers: RawHeaders) -> frozenset[str]:
    """Return the names in the `anthropic-beta` headers of a request, of which there may be many."""
    lists = (value.decode("latin-1") for name, value in headers if name == BETA_HEADER)
    return frozenset(name.strip() for names in lists for name in names.split(","))


def asked_fields(fields: Fields, betas: Collection[str]) -> tuple[str, ...]:
    """Return the names of the parameters that a request has, each with its beta header."""
    is_managed = CONTEXT_MANAGEMENT in betas or COMPACT in betas
    known = ((MANAGED, is_managed), (SUMMARIZED, SUMMARIZE in betas))
    return tuple(name for name, is_known in known if is_known and fields.get(name) is not None)


def contract_of(fields: Fields, betas: Collection[str]) -> Contract | None:
    """Return what a request asks for beside an answer; None if it asks for nothing.

    A compaction block that comes back must be unfolded, whatever else is asked for.
    """
    asked = asked_fields(fields, betas)
    messages = fields.get("messages")
    has_items = has_blocks(messages)
    if not asked and not has_items:
        return None
    try:
        contract = _asked(asked, fields, betas)
        return replace(contract, sealed=_sealed(messages), has_items=has_items)
    except _Mistake as mistake:
        return Contract(
            sealed=sealed_text(messages),
            has_items=has_items,
            mistake=str(mistake),
            param=mistake.param,
        )


def _sealed(messages: Any) -> str | None:
    """Return the seal of the newest compaction block, None if there is none."""
    found = newest_block(messages)
    if found is not None and (mistake := mistake_in(found)):
        raise _Mistake(*mistake)
    return sealed_text(messages)


def _asked(asked: tuple[str, ...], fields: Fields, betas: Collection[str]) -> Contract:
    """Return the contract that the parameters of a request make."""
    if len(asked) > 1:
        raise _Mistake(SUMMARIZED, f"cannot be combined with {MANAGED}.")
    if SUMMARIZED in asked:
        return Contract(compacts_now=True, instructions=_summarize(fields[SUMMARIZED]))
    return _managed(fields[MANAGED], betas) if asked else Contract()


def _managed(managed: Any, betas: Collection[str]) -> Contract:
    """Return the contract of a list of edits."""
    clear_results, clear_thinking, compact = None, None, Contract()
    seen: set[str] = set()
    for at, edit in _edits_in(managed, betas):
        kind = edit["type"]
        if kind in seen:
            raise _Mistake(at, f"the list has an edit of type {kind} already.")
        seen.add(kind)
        if kind == CLEAR_TOOL_USES:
            clear_results = _clear_results(edit, at)
        elif kind == CLEAR_THINKING:
            clear_thinking = ClearThinking(_kept_thinking(edit.get("keep"), f"{at}.keep"))
        else:
            compact = _compact(edit, at)
    return Contract(
        compact.compacts,
        compact.trigger,
        instructions=compact.instructions,
        pauses=compact.pauses,
        clear_results=clear_results,
        clear_thinking=clear_thinking,
    )


def _edits_in(managed: Any, betas: Collection[str]) -> Iterator[tuple[str, Fields]]:
    """Yield the edits that are known and whose beta is there, each with its place.

    An edit that is newer than this proxy must not fail a request that an engine answers.
    """
    if type(managed) is not dict:
        raise _Mistake(MANAGED, "Input should be an object.")
    edits = managed.get("edits")
    if edits is not None and type(edits) is not list:
        raise _Mistake(f"{MANAGED}.edits", "Input should be a list.")
    for index, edit in enumerate(edits or ()):
        at = f"{MANAGED}.edits.{index}"
        kind = edit.get("type") if type(edit) is dict else None
        if type(kind) is not str:
            raise _Mistake(at, "Input should be an object with a type.")
        if _BETA_OF.get(kind) in betas:
            yield at, edit


def _clear_results(edit: Fields, at: str) -> ClearResults:
    units = ("input_tokens", "tool_uses")
    unit, trigger = _threshold(edit, "trigger", units, DEFAULT_CLEAR_TRIGGER, at)
    _, keep = _threshold(edit, "keep", ("tool_uses",), DEFAULT_KEPT_USES, at)
    _, least = _threshold(edit, "clear_at_least", ("input_tokens",), 0, at)
    inputs = edit.get("clear_tool_inputs")
    return ClearResults(
        trigger if unit == "input_tokens" else None,
        trigger if unit == "tool_uses" else None,
        keep,
        least,
        _names(edit.get("exclude_tools"), f"{at}.exclude_tools"),
        inputs if type(inputs) is bool else _names(inputs, f"{at}.clear_tool_inputs") or False,
    )


def _kept_thinking(keep: Any, at: str) -> int | None:
    if keep in ("all", {"type": "all"}):
        return None
    if keep is None:
        return DEFAULT_KEPT_THINKING
    if type(keep) is not dict or keep.get("type") != "thinking_turns":
        raise _Mistake(at, 'Input should be "all" or a number of thinking_turns.')
    return _count(keep.get("value"), f"{at}.value", least=1)


def _compact(edit: Fields, at: str) -> Contract:
    units = ("input_tokens",)
    _, trigger = _threshold(edit, "trigger", units, DEFAULT_COMPACT_TRIGGER, at)
    pauses = edit.get("pause_after_compaction")
    if pauses is not None and type(pauses) is not bool:
        raise _Mistake(f"{at}.pause_after_compaction", "Input should be a valid boolean.")
    instructions = _text(edit.get("instructions"), f"{at}.instructions")
    return Contract(
        compacts=True, trigger=trigger, instructions=instructions, pauses=pauses is True
    )


def _summarize(summarize: Any) -> str:
    """Return the instructions of a request that is answered by a compaction alone."""
    if type(summarize) is not dict or summarize.get("type") != "summarize":
        raise _Mistake(f"{SUMMARIZED}.type", "Input should be 'summarize'.")
    return _text(summarize.get("instructions"), f"{SUMMARIZED}.instructions")


def _threshold(
    edit: Fields, name: str, units: tuple[str, ...], default: int, at: str
) -> tuple[str, int]:
    """Return the unit and the number of a threshold, its default if it is not given."""
    given = edit.get(name)
    if given is None:
        return units[0], default
    unit = given.get("type") if type(given) is dict else None
    if unit not in units:
        expected = " or ".join(map(repr, units))
        raise _Mistake(f"{at}.{name}.type", f"Input should be {expected}.")
    return unit, _count(given.get("value"), f"{at}.{name}.value")


def _count(value: Any, at: str, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise _Mistake(at, f"Input should be a whole number of at least {least}.")
    return value


def _names(given: Any, at: str) -> frozenset[str]:
    if given is None:
        return frozenset()
    if type(given) is not list or any(type(name) is not str for name in given):
        raise _Mistake(at, "Input should be a list of tool names.")
    return frozenset(given)


def _text(given: Any, at: str) -> str:
    if given is not None and type(given) is not str:
        raise _Mistake(at, "Input should be a valid string.")
    return (given or "").strip()
