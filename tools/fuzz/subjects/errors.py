"""Upstream errors: whatever one says, only sane numbers are learned from it."""

from chat_proxy.upstream.overflow import LARGEST_LIMIT, STATUSES, is_sane, overflow_in

ALL_STATUSES = (*sorted(STATUSES), 401, 429, 503)


def read_any_error(data: bytes) -> None:
    """Read an error under each status."""
    for status in ALL_STATUSES:
        found = overflow_in(status, data)
        if found is None:
            continue
        assert status in STATUSES
        for limit in (found.limit, found.input_limit):
            assert limit is None or is_sane(limit)
        for tokens in (found.prompt_tokens, found.output_tokens):
            assert tokens is None or 0 <= tokens <= 10 * LARGEST_LIMIT
        assert not (found.is_bytes and found.limit)
