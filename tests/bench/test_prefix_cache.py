from bench.conversation.cache import BLOCK_TOKENS, PrefixCache, common_bytes


def test_a_first_prompt_is_served_by_nothing() -> None:
    assert PrefixCache().take(range(100)) == 0


def test_an_appended_prompt_is_served_in_whole_blocks_of_the_last_one() -> None:
    cache = PrefixCache()
    cache.take(range(40))

    served = cache.take(range(60))

    assert served == 2 * BLOCK_TOKENS


def test_a_change_moves_everything_after_it() -> None:
    cache = PrefixCache()
    cache.take(range(100))

    served = cache.take([*range(20), 7, *range(21, 100)])

    assert served == BLOCK_TOKENS


def test_the_last_token_is_always_computed() -> None:
    cache = PrefixCache()
    cache.take(range(32))

    served = cache.take(range(32))

    assert served == BLOCK_TOKENS


def test_an_older_prompt_is_still_known_after_another_one() -> None:
    cache = PrefixCache()
    cache.take(range(64))
    cache.take([*range(16), *range(500, 600)])

    served = cache.take(range(80))

    assert served == 64


def test_tokens_that_share_bytes_are_not_the_same_tokens() -> None:
    cache = PrefixCache()
    cache.take([*range(15), 0x0102, 5, 6])

    served = cache.take([*range(15), 0x0202, 5, 6])

    assert served == 0


def test_common_bytes_end_at_the_first_difference() -> None:
    assert common_bytes(b"abcdefgh", b"abcxefgh") == 3
    assert common_bytes(b"abc", b"abcdef") == 3
    assert common_bytes(b"", b"abc") == 0
