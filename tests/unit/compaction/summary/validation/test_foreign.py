"""URLs and keys that a summary invents are removed."""

import pytest

from chat_proxy.compaction.summary.validation.foreign import NOTE, without_foreign, without_keys
from chat_proxy.compaction.summary.validation.validate import Verdict
from tests.unit.compaction.summary.validation.examples import GOOD, judge

SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAABCDEFGHIJKLMNOP",
    "xoxb-1234567890-abcdefghij",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "0123456789abcdef0123456789abcdef",
    "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdI",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIabc",
]


@pytest.mark.parametrize("invented", [*SECRETS, "https://evil.example/x?y=1", "www.evil.example"])
def test_addresses_and_keys_that_nobody_wrote_are_removed(invented: str) -> None:
    """BUGS 30, FAULTS C16"""
    outcome = judge(f"{GOOD}\n- see {invented}")

    assert outcome.text == f"{GOOD}\n- see {NOTE}"


@pytest.mark.parametrize("known", [*SECRETS, "https://docs.example/x?y=1", "www.docs.example"])
def test_addresses_and_keys_of_the_span_stay(known: str) -> None:
    given = f"{GOOD}\n- see {known}"

    assert judge(given, span=f"We use {known}.") == Verdict(given)


def test_a_bearer_token_is_removed_and_words_are_not() -> None:
    text, found = without_foreign("Bearer abc123def456ghi789, bearer authentication-scheme", "")

    assert (text, found) == (f"Bearer {NOTE}, bearer authentication-scheme", 1)


def test_an_address_may_win_a_scheme_or_lose_a_slash() -> None:
    given = "- http://localhost:8000/v1/, https://github.com/a/b."

    assert without_foreign(given, "see localhost:8000/v1 and github.com/a/b") == (given, 0)


@pytest.mark.parametrize(
    "harmless",
    [
        "src/components/dashboard/widgets/charts/LineChart2.tsx",
        "test_that_a_very_long_name_is_not_taken_for_a_secret_key",
        "550e8400-e29b-41d4-a716-446655440000",
        "sk-short",
    ],
)
def test_paths_and_names_are_no_secrets(harmless: str) -> None:
    assert without_foreign(harmless, "") == (harmless, 0)


def test_the_end_of_a_sentence_survives_what_it_ended_with() -> None:
    assert without_foreign("See https://evil.example/x.", "") == (f"See {NOTE}.", 1)


def test_too_many_inventions_spoil_a_summary() -> None:
    """BUGS 30"""
    invented = [f"- https://evil.example/{number}" for number in range(6)]

    assert judge("\n".join([GOOD, *invented[:5]])).ok
    assert judge("\n".join([GOOD, *invented])).reason == "foreign"


def test_keys_are_removed_wherever_they_stand() -> None:
    key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"

    assert without_keys(f"TOKEN={key} and ghp_short") == f"TOKEN={NOTE} and ghp_short"
    assert without_keys("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----!") == (
        f"{NOTE}!"
    )
