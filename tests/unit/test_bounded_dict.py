"""A dict with a bound: for lookups on every request."""

from chat_proxy.caches import BoundedDict


def test_the_oldest_entry_goes_when_the_dict_is_full() -> None:
    held: BoundedDict[str, int] = BoundedDict(2)

    for number, key in enumerate("abc"):
        held.put(key, number)

    assert dict(held) == {"b": 1, "c": 2}


def test_an_entry_that_is_set_again_costs_no_other() -> None:
    held: BoundedDict[str, int] = BoundedDict(2)
    held.put("a", 1)
    held.put("b", 2)

    held.put("a", 3)

    assert dict(held) == {"a": 3, "b": 2}
