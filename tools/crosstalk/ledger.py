"""What the upstream sent and received, in which order: whose bytes may reach whom."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

CANARY = re.compile(rb"cnry-[0-9a-f]{12}")
REMEMBERED = 100_000
"""Canaries whose sends are remembered; a canary that turns up later than that is foreign."""


class Order(StrEnum):
    """When bytes reached the proxy's socket, seen from the request that they were delivered to."""

    BEFORE = "before the write"
    """They lay in the proxy's socket when it looked at it to write: it must not take them."""
    MEANWHILE = "during the write"
    """They came after the look and before the request had arrived at the upstream."""
    AFTER = "after the write"
    """The request had arrived at the upstream before they were sent: no client can tell."""
    NEVER = "never on its connection"
    """They were sent on another connection, or on this one for an earlier request."""


class Sent(NamedTuple):
    """One send: how many requests had arrived on its connection before and after the call."""

    line: int
    before: int
    after: int
    ended: int
    """When the call had ended, in monotonic nanoseconds."""


class Arrival(NamedTuple):
    """A request at the upstream: the given one of its connection, and how it is answered."""

    line: int
    number: int
    act: str
    looked: int
    """When the proxy looked at the connection to write it, in monotonic nanoseconds."""


class Ledger:
    """Every send of a canary, and on which connection each request arrived."""

    def __init__(self) -> None:
        self._sends: dict[bytes, set[Sent]] = {}
        self._arrivals: dict[bytes, set[Arrival]] = {}
        self._readers: set[Callable[[], object]] = set()

    def watch(self, read: Callable[[], object]) -> None:
        """Have what arrived on a connection read before anything is judged."""
        self._readers.add(read)

    def forget(self, read: Callable[[], object]) -> None:
        """Stop reading a connection that is closed."""
        self._readers.discard(read)

    def arrived(self, canary: bytes, arrival: Arrival) -> None:
        """Note where a request arrived; a request may be sent twice."""
        self._arrivals.setdefault(canary, set()).add(arrival)
        _forget_oldest(self._arrivals)

    def act_of(self, canary: bytes) -> str:
        """Return how the upstream answered the request with this canary."""
        return next((arrival.act for arrival in self._arrivals.get(canary, ())), "unknown")

    def sent(self, canary: bytes, send: Sent) -> None:
        """Note a send of bytes with this canary."""
        self._sends.setdefault(canary, set()).add(send)
        _forget_oldest(self._sends)

    def judge(self, foreign: bytes, own: bytes) -> Order:
        """Return when the foreign bytes were sent, if they may have reached this request.

        An answer may be here before the upstream has read the request that it was delivered to.
        """
        for read in tuple(self._readers):
            read()
        orders = {
            _order_of(send, arrival)
            for arrival in self._arrivals.get(own, ())
            for send in self._sends.get(foreign, ())
        }
        for order in (Order.AFTER, Order.MEANWHILE, Order.BEFORE):
            if order in orders:
                return order
        return Order.NEVER


def _order_of(send: Sent, arrival: Arrival) -> Order:
    """Return whether a send came before or after the write of a request on the same connection."""
    if send.line != arrival.line:
        return Order.NEVER
    if send.before == arrival.number:
        return Order.AFTER
    if send.after == arrival.number:
        return Order.MEANWHILE
    if send.after != arrival.number - 1:
        return Order.NEVER
    return Order.MEANWHILE if arrival.looked and send.ended > arrival.looked else Order.BEFORE


def _forget_oldest(known: dict[bytes, set[Sent]] | dict[bytes, set[Arrival]]) -> None:
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
