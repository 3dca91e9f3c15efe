"""The sizes at which clients compact their conversations themselves."""

from typing import Final

from chat_proxy.caches import LruCache
from chat_proxy.proxy.session.recognition.scope import Scope

REMEMBERED_SCOPES: Final = 2_000
MARGIN: Final = 1.05
"""How far beyond its last own compaction a client may go before the next one."""
LATEST_SHARE: Final = 0.95
"""The share of the longest prompt from which on a summary is written in any case."""


class ClientLimits:
    """Remember how large a prompt was when its client last compacted it itself.

    A summary that is written before that is never used: the client replaces the messages that it
    stands for. Keyed by tenant, model and policy, bounded, in memory: what is forgotten costs one
    summary.
    """

    def __init__(self) -> None:
        self._tokens: LruCache[Scope, int] = LruCache(REMEMBERED_SCOPES)

    def saw_own_compaction(self, scope: Scope, tokens: int) -> None:
        """Remember the size of a client's own compaction request."""
        self._tokens.put(scope, tokens)

    def expects_own_compaction(self, scope: Scope, tokens: int, limit: int) -> bool:
        """Return whether a prompt of this size is likely to be compacted by its client next."""
        known = self._tokens.get(scope)
        return known is not None and tokens <= min(known * MARGIN, limit * LATEST_SHARE)
