"""Who a request is for, by the model's name alone."""

from app.proxy.addressee import NAME_CHARS, REMEMBERED_NAMES, Addressees
from app.registry.model_card import ModelCard
from app.registry.registry import ModelRegistry
from app.server import make_services
from tests.support.live import settings


def addressees(*cards: ModelCard) -> Addressees:
    services = make_services(settings(), {})
    return Addressees(ModelRegistry(cards), services.policies, services.destinations)


def test_a_name_is_found_once_and_remembered() -> None:
    known = addressees(ModelCard("own", base_url="http://own/v1"))

    assert known.of("own") is known.of("own")
    assert known.of("own").base_url == "http://own/v1"
    assert known.of("other").card == ModelCard("other")


def test_names_without_end_are_not_kept() -> None:
    known = addressees()

    for number in range(REMEMBERED_NAMES + 10):
        known.of(f"model-{number}")
    known.of("x" * (NAME_CHARS + 1))

    assert len(known._known) == 10


def test_models_of_different_names_share_no_fingerprint() -> None:
    known = addressees()

    assert known.of("a").fingerprint != known.of("b").fingerprint
    assert known.of("\ud800").fingerprint
