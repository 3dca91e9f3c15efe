from dataclasses import FrozenInstanceError

import pytest

from chat_proxy.registry.model_card import ModelCard


def test_a_card_with_just_a_name_knows_nothing_else() -> None:
    card = ModelCard("some-model")

    assert card == ModelCard(
        name="some-model",
        aliases=(),
        base_url=None,
        api_key_env=None,
        context_window=None,
        max_output_tokens=None,
        vision=None,
        encoding=None,
        image_family=None,
        overrides={},
    )


def test_a_card_goes_by_its_name_and_its_aliases() -> None:
    assert ModelCard("a", aliases=("b", "c")).names == ("a", "b", "c")


def test_a_card_cannot_be_changed() -> None:
    card = ModelCard("a")

    with pytest.raises(FrozenInstanceError):
        card.name = "b"  # type: ignore[misc]


def test_equal_cards_have_equal_hashes_whatever_they_override() -> None:
    one, other = (ModelCard("a", overrides={"mode": "off"}) for _ in range(2))

    assert one == other
    assert hash(one) == hash(other)
