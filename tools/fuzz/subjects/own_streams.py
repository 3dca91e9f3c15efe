"""Answers with calls of our own tool: no bytes break the edit, however they are cut."""

from itertools import pairwise
from random import Random
from typing import Final

from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.wires.own_calls.edit import OwnCall, OwnCallEdit
from chat_proxy.wires.recognise import WIRES
from chat_proxy.wires.wire import Wire

TOOL: Final = "chat_proxy_recall"
CUTS: Final = 6


def edit_any_stream(data: bytes) -> None:
    """Take the calls out of a stream in one piece, in pieces, and of a whole answer."""
    random = Random(len(data))
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(CUTS))
    pieces = [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]
    for wire in WIRES:
        assert _edited(wire, [data]) == _edited(wire, pieces), wire.name
        edit = wire.own_calls(TOOL)
        try:
            edit.whole(data)
        except UpstreamInvalidResponse:
            continue
        _next_round(edit)


def _edited(wire: Wire, pieces: list[bytes]) -> tuple[bytes, list[OwnCall]]:
    edit = wire.own_calls(TOOL)
    sent = b"".join(map(edit.feed, pieces)) + edit.end()
    calls = list(edit.calls)
    _next_round(edit)
    edit.feed(pieces[0])
    return sent, calls


def _next_round(edit: OwnCallEdit) -> None:
    """Answer the calls, as the proxy does, and expect the next answer."""
    edit.answer()
    if edit.goes_on:
        assert len(edit.results(["a result"] * len(edit.calls))) > 0
        assert len(edit.said()) > 0
        edit.next_round()
