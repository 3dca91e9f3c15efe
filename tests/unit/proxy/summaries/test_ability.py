"""Which models can write summaries, and for how long that is remembered."""

from chat_proxy.proxy.summaries.writing.ability import REMEMBERED_SECONDS, SummaryAbility

TENANT, MODEL = "tenant", "http://upstream/v1 model"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(ability: SummaryAbility, times: int) -> None:
    for _ in range(times):
        ability.refused(TENANT, MODEL)


def test_three_refusals_in_a_row_change_how_a_model_is_asked() -> None:
    ability = SummaryAbility()

    refused(ability, 2)
    before = ability.style_of(TENANT, MODEL)
    refused(ability, 1)

    assert (before, ability.style_of(TENANT, MODEL)) == ("full", "short")


def test_a_model_that_cannot_list_facts_either_is_not_asked() -> None:
    ability = SummaryAbility()

    refused(ability, 6)

    assert ability.style_of(TENANT, MODEL) == "none"


def test_a_summary_in_between_begins_the_count_anew() -> None:
    ability = SummaryAbility()

    refused(ability, 2)
    ability.succeeded(TENANT, MODEL)
    refused(ability, 2)

    assert ability.style_of(TENANT, MODEL) == "full"


def test_after_an_hour_the_model_is_asked_in_full_again() -> None:
    clock = Clock()
    ability = SummaryAbility(clock)
    refused(ability, 6)

    clock.now = REMEMBERED_SECONDS + 1

    assert ability.style_of(TENANT, MODEL) == "full"


def test_the_content_of_one_tenant_decides_nothing_for_another() -> None:
    ability = SummaryAbility()

    refused(ability, 6)

    assert ability.style_of("another", MODEL) == "full"
