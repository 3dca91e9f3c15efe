"""A bounded memory keeps what was used last."""

from chat_proxy.caches import LruCache


def test_what_was_used_longest_ago_goes_first() -> None:
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1)
    recent.put("b", 2)
    recent.get("a")

    recent.put("c", 3)

    assert [recent.get(key) for key in "abc"] == [1, None, 3]


def test_weights_add_up() -> None:
    recent: LruCache[str, int] = LruCache(10)
    recent.put("a", 1, 6)
    recent.put("a", 2, 4)

    recent.put("b", 3, 6)

    assert (recent.get("a"), recent.get("b")) == (2, 3)


def test_one_that_is_too_heavy_is_not_held() -> None:
    recent: LruCache[str, int] = LruCache(10)
    recent.put("a", 1)

    assert not recent.put("a", 2, 11)
    assert "a" not in recent


def test_the_oldest_is_taken_out() -> None:
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1)
    recent.put("b", 2)

    assert recent.pop_oldest() == ("a", 1)
    assert len(recent) == 1


def test_nothing_is_left_after_clearing() -> None:
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1, 2)

    recent.clear()

    assert not recent
    assert recent.put("b", 2, 2)
    recent.forget("never there")
    assert "b" in recent
