"""An upstream's own words: the message alone, short, and nothing of the request or of a key."""

import json

import pytest

from chat_proxy.upstream.said import MAX_CHARS, said_in


def error(message: object, **others: object) -> bytes:
    return json.dumps({"error": {"message": message, **others}}).encode()


@pytest.mark.parametrize(
    "body",
    [
        error("No such model."),
        b'{"detail": "No such model."}',
        b'{"message": "No such model.", "object": "error"}',
        b'{"type": "error", "error": {"type": "not_found_error", "message": "No such model."}}',
        b'{"error": "No such model."}',
    ],
)
def test_the_message_is_found_in_the_shapes_of_all_servers(body: bytes) -> None:
    assert said_in(body, b"") == "No such model."


@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"[]", error(["x"]), b"{}"])
def test_a_body_without_a_message_says_nothing(body: bytes) -> None:
    assert said_in(body, b"") == ""


def test_what_stands_in_the_request_is_not_repeated() -> None:
    request = json.dumps({"messages": [{"content": "the vault opens with zebra finch"}]}).encode()

    said = said_in(error("Cannot parse: the vault opens with zebra finch"), request)

    assert said == "Cannot parse: …"


@pytest.mark.parametrize(
    "message",
    [
        "Refused value '" + "secret words " * 4 + "'",
        'Refused value "' + "secret words " * 4 + '"',
        "Refused value {'role': 'user', 'content': 'secret'}",
        "Refused value ['" + "secret', '" * 6 + "']",
        "Incorrect key sk-secretsecret",
        "Incorrect key Bearer secretsecret",
        "Incorrect key secret" + "0123456789" * 4,
        "See https://example.com/secret",
    ],
)
def test_quoted_values_keys_and_addresses_are_left_out(message: str) -> None:
    said = said_in(error(message), b"")

    assert "secret" not in said
    assert said.endswith("…")


def test_short_names_in_quotation_marks_stay() -> None:
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'

    assert said_in(error(message), b"") == f"{message}."


def test_a_long_message_is_cut_and_stands_on_one_line() -> None:
    said = said_in(error("one\ntwo\t\x1b[31m " + "and so on " * 40), b"")

    assert said.startswith("one two ?[31m and so on")
    assert len(said) <= MAX_CHARS
    assert said.endswith("…")
