"""The contracts of the Responses API: `context_management`, `compaction_trigger`, sealed items."""

from typing import Any, Final

from chat_proxy.wires.contracts.contract import Contract, SealedPrompt
from chat_proxy.wires.reading import Fields

MANAGEMENT: Final = "context_management"
TRIGGER: Final = "compaction_trigger"
ITEM: Final = "compaction"
THRESHOLD: Final = "compact_threshold"
_INSTRUCTING: Final = ("system", "developer")


def contract_in(fields: Fields) -> Contract | None:
    """Return what a request asks the server to do about its context; None: nothing."""
    items = _items_in(fields)
    kinds = [item.get("type") for item in items]
    management = fields.get(MANAGEMENT)
    sealed = next((_sealed_in(item) for item in reversed(items) if _is(item, ITEM)), None)
    if management is None and TRIGGER not in kinds and sealed is None:
        return None
    if TRIGGER in kinds[:-1]:
        mistake = f"A {TRIGGER} must be the last item of the input."
        return Contract(sealed=sealed, mistake=mistake, param="input")
    threshold, mistake = _threshold_in(management)
    return Contract(
        compacts=bool(management),
        trigger=threshold,
        compacts_now=bool(kinds) and kinds[-1] == TRIGGER,
        sealed=sealed,
        mistake=mistake,
        param=MANAGEMENT if mistake else "",
    )


def without_contract(fields: Fields, sealed: SealedPrompt | None) -> Fields:
    """Return the fields without the contract's parameters, a sealed prompt opened."""
    others = {name: value for name, value in fields.items() if name != MANAGEMENT}
    given = fields.get("input")
    if type(given) is not list:
        return others
    items = [item for item in given if not _is(item, TRIGGER)]
    if sealed is not None:
        items = _opened(items, sealed)
    return others if items == given else {**others, "input": items}


def _opened(items: list[Any], sealed: SealedPrompt) -> list[Any]:
    """Return the items with a sealed prompt in place of its item and all before that.

    Instructions in front stay as the client sends them now; a client that sends none gets those
    that it had.
    """
    newest = max(index for index, item in enumerate(items) if _is(item, ITEM))
    leading: list[Any] = []
    for item in items[:newest]:
        if type(item) is not dict or item.get("role") not in _INSTRUCTING:
            break
        leading.append(item)
    behind = items[newest + 1 :]
    if not any(type(it) is dict and it.get("role") in _INSTRUCTING for it in (*leading, *behind)):
        leading = [*sealed.instructions]
    return [*leading, *sealed.items, *behind]


def _threshold_in(management: Any) -> tuple[int | None, str]:
    """Return the trigger that a request sets, and what is wrong with it."""
    if management is None:
        return None, ""
    if type(management) is not list or any(type(entry) is not dict for entry in management):
        return None, f"{MANAGEMENT} must be a list of objects."
    thresholds = []
    for entry in management:
        if entry.get("type") != ITEM:
            return None, f"{MANAGEMENT} knows only entries of the type '{ITEM}'."
        threshold = entry.get(THRESHOLD)
        if threshold is not None and (type(threshold) is not int or threshold < 1):
            return None, f"{THRESHOLD} must be a number of tokens, at least 1."
        thresholds.append(threshold)
    return min((it for it in thresholds if it is not None), default=None), ""


def _sealed_in(item: Fields) -> str:
    """Return the sealed prompt of an item; an empty one, which nobody opens, if it has none."""
    sealed = item.get("encrypted_content")
    return sealed if type(sealed) is str else ""


def _items_in(fields: Fields) -> list[Fields]:
    given = fields.get("input")
    if type(given) is not list:
        return []
    return [item for item in given if type(item) is dict]


def _is(item: Any, kind: str) -> bool:
    return type(item) is dict and item.get("type") == kind
