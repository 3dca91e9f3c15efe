"""Which models can write summaries: three refusals in a row change how one is asked."""

import pytest

from chat_proxy.proxy.summaries.writing import ability as module
from chat_proxy.proxy.summaries.writing.ability import REMEMBERED_SECONDS, SummaryAbility


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refuse(ability: SummaryAbility, times: int, tenant: str = "t", model: str = "m") -> None:
    for _ in range(times):
        ability.refused(tenant, model)


def test_an_unknown_model_is_asked_for_all_sections() -> None:
    assert SummaryAbility().style_of("t", "m") == "full"


@pytest.mark.parametrize(
    ("refusals", "style"), [(2, "full"), (3, "short"), (5, "short"), (6, "none"), (99, "none")]
)
def test_three_refusals_in_a_row_change_the_style(refusals: int, style: str) -> None:
    ability = SummaryAbility()

    refuse(ability, refusals)

    assert ability.style_of("t", "m") == style


def test_a_model_that_is_too_slow_is_asked_for_less_but_never_given_up() -> None:
    ability = SummaryAbility()

    styles = []
    for _ in range(9):
        styles.append(ability.style_of("t", "m"))
        ability.timed_out("t", "m")

    assert styles == ["full"] * 3 + ["short"] * 6


@pytest.mark.parametrize(
    ("refusals", "is_doubtful"), [(0, False), (1, True), (2, True), (3, False)]
)
def test_a_model_is_doubtful_until_it_is_asked_otherwise(refusals: int, is_doubtful: bool) -> None:
    ability = SummaryAbility()

    refuse(ability, refusals)

    assert ability.is_doubtful("t", "m") == is_doubtful
    assert not ability.is_doubtful("another", "m")


def test_a_usable_summary_ends_the_doubt() -> None:
    ability = SummaryAbility()
    refuse(ability, 2)

    ability.succeeded("t", "m")

    assert not ability.is_doubtful("t", "m")


def test_a_usable_summary_in_between_begins_the_count_anew() -> None:
    ability = SummaryAbility()

    refuse(ability, 2)
    ability.succeeded("t", "m")
    refuse(ability, 2)

    assert ability.style_of("t", "m") == "full"


def test_a_model_that_writes_short_ones_is_asked_for_short_ones_again() -> None:
    ability = SummaryAbility()

    refuse(ability, 4)
    ability.succeeded("t", "m")

    assert ability.style_of("t", "m") == "short"


def test_it_is_remembered_for_an_hour() -> None:
    clock = Clock()
    ability = SummaryAbility(clock)
    refuse(ability, 6)

    clock.now += REMEMBERED_SECONDS
    assert ability.style_of("t", "m") == "none"
    clock.now += 1
    assert ability.style_of("t", "m") == "full"


def test_refusals_an_hour_apart_are_not_in_a_row() -> None:
    clock = Clock()
    ability = SummaryAbility(clock)

    for _ in range(9):
        refuse(ability, 1)
        clock.now += REMEMBERED_SECONDS + 1

    assert ability.style_of("t", "m") == "full"


def test_tenants_and_models_do_not_decide_about_each_other() -> None:
    """DESIGN 1.14"""
    ability = SummaryAbility()

    refuse(ability, 6, "mallory", "m")

    assert ability.style_of("alice", "m") == "full"
    assert ability.style_of("mallory", "other") == "full"


def test_only_so_many_models_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MODELS", 10)
    ability = SummaryAbility()
    refuse(ability, 3)

    for number in range(20):
        refuse(ability, 3, model=f"m{number}")

    assert ability.style_of("t", "m") == "full"
    assert ability.style_of("t", "m19") == "short"
