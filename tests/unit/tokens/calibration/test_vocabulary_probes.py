"""Vocabularies are recognised by the tokens that they make of a few texts."""

import pytest

from chat_proxy.tokens.calibration.token_costs import VOCABULARIES, load_costs
from chat_proxy.tokens.calibration.vocabularies import COSTS, EXACT, own_encoding_of
from chat_proxy.tokens.calibration.vocabulary_probes import PROBES, TOKENS, vocabulary_with
from chat_proxy.tokens.tiktoken_counter import load_encoding


@pytest.mark.parametrize("vocabulary", TOKENS)
def test_each_vocabulary_is_recognised_also_with_a_blank_before_texts(vocabulary: str) -> None:
    own = TOKENS[vocabulary]

    assert vocabulary_with(own) == vocabulary
    assert vocabulary_with([tokens + 1 for tokens in own]) == vocabulary


@pytest.mark.parametrize("tokens", [(600, 600, 600), (182, 108, 135), (1, 1, 1), (182, 100, 124)])
def test_other_numbers_are_those_of_no_vocabulary(tokens: tuple[int, int, int]) -> None:
    assert vocabulary_with(tokens) is None


@pytest.mark.parametrize(("vocabulary", "encoding"), [(EXACT, "o200k_base"), ("cl100k", "")])
def test_vocabularies_that_are_encodings_have_their_numbers(vocabulary: str, encoding: str) -> None:
    counter = load_encoding(encoding or own_encoding_of(vocabulary) or "")

    assert tuple(len(counter.encode_ordinary(probe)) for probe in PROBES) == TOKENS[vocabulary]


@pytest.mark.parametrize("vocabulary", sorted(VOCABULARIES))
def test_what_the_costs_make_of_the_texts_is_near(vocabulary: str) -> None:
    """The numbers were counted with the families' own tokenizers, as the costs were."""
    tokens = map(load_encoding("o200k_base").encode_ordinary, PROBES)
    counted = list(map(load_costs(vocabulary).total, tokens))

    assert counted == pytest.approx(TOKENS[vocabulary], rel=0.055)


def test_a_vocabulary_that_is_recognised_can_be_counted_in() -> None:
    for vocabulary in TOKENS:
        assert vocabulary in COSTS
        assert vocabulary in VOCABULARIES or own_encoding_of(vocabulary) or vocabulary == EXACT
