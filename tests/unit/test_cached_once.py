"""A property that is found out once."""

from chat_proxy.caches import cached_once


class Counted:
    """Counts how often it was asked."""

    asked = 0

    @cached_once
    def answer(self) -> int:
        """Say it."""
        self.asked += 1
        return 42


def test_it_is_found_out_when_asked_for_and_not_again() -> None:
    counted = Counted()
    assert counted.asked == 0

    assert [counted.answer, counted.answer] == [42, 42]
    assert counted.asked == 1


def test_each_has_its_own() -> None:
    first, second = Counted(), Counted()

    assert (first.answer, second.asked) == (42, 0)


def test_the_class_tells_what_it_is() -> None:
    assert isinstance(Counted.answer, cached_once)
    assert Counted.answer.__doc__ == "Say it."
