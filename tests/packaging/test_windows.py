"""The windows of hosted models: what is taken of the public table."""

from typing import Any

import pytest

from tests.packaging.scripts import script

WINDOWS = script("windows")


def model(window: Any, provider: str = "openai", mode: str = "chat") -> dict[str, Any]:
    return {"max_input_tokens": window, "litellm_provider": provider, "mode": mode}


def taken(**models: dict[str, Any]) -> dict[str, int]:
    return dict(WINDOWS.windows({name.replace("_", "-"): it for name, it in models.items()}))


def test_a_name_that_no_pattern_knows_is_taken() -> None:
    assert taken(new_model=model(300_000)) == {"new-model": 300_000}


def test_the_smallest_of_several_windows_is_taken() -> None:
    table = {"openai/new": model(400_000), "new": model(300_000)}

    assert dict(WINDOWS.windows(table)) == {"new": 300_000}


@pytest.mark.parametrize("window", [128_000, 131_072])
def test_what_a_pattern_knows_is_left_to_it(window: int) -> None:
    assert taken(gpt_4o=model(window)) == {}
    assert taken(gpt_5=model(272_000)) == {}


def test_a_pattern_is_corrected_for_a_model_that_only_its_vendor_has() -> None:
    assert taken(gpt_4o=model(500_000)) == {"gpt-4o": 500_000}
    assert taken(mistral_nemo=model(500_000, "mistral")) == {}


def test_a_dated_name_is_not_repeated() -> None:
    table = {"new": model(300_000), "new-2026-01-01": model(300_000), "new-latest": model(9_000)}

    assert dict(WINDOWS.windows(table)) == {"new": 300_000, "new-latest": 9_000}


@pytest.mark.parametrize(
    "other",
    [
        model(300_000, provider="some_host"),
        model(300_000, mode="embedding"),
        model(None),
        model("300000"),
        model(100),
        model(10**9),
        {},
    ],
)
def test_other_rows_are_left_out(other: dict[str, Any]) -> None:
    assert taken(new_model=other) == {}


def test_models_for_sound_and_names_of_local_servers_are_left_out() -> None:
    table = {"new-audio": model(300_000), "new:8b": model(300_000)}

    assert dict(WINDOWS.windows(table)) == {}
