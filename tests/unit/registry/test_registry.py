import json
from pathlib import Path

import pytest

from chat_proxy.config.environment import setting_names
from chat_proxy.config.server_sections import UpstreamSettings
from chat_proxy.config.settings import PREFIX
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import BadRegistry, ModelRegistry, read_registry

EXAMPLE = Path(__file__).parents[3] / "configs" / "model_registry.example.json"

FULL_ENTRY = {
    "name": "gpt-4o",
    "aliases": ["4o", "omni"],
    "base_url": "https://models.example/v1",
    "api_key_env": "OPENAI_API_KEY",
    "context_window": 128_000,
    "max_output_tokens": 16_384,
    "vision": True,
    "encoding": "o200k_base",
    "image_family": "gpt-4o",
    "overrides": {"vision_keep_last_n_turns": 2},
}


def registry_of(folder: Path, *entries: object) -> ModelRegistry:
    return read_registry(written(folder, json.dumps(entries)))


def written(folder: Path, text: str) -> Path:
    path = folder / "models.json"
    path.write_text(text, encoding="utf-8")
    return path


def complaint_about(path: Path) -> str:
    with pytest.raises(BadRegistry) as caught:
        read_registry(path)
    return str(caught.value)


def test_a_missing_file_is_an_empty_registry(tmp_path: Path) -> None:
    registry = read_registry(tmp_path / "nothing.json")

    assert registry.cards == ()
    assert not registry.has_own_upstreams


def test_an_empty_list_is_an_empty_registry(tmp_path: Path) -> None:
    assert registry_of(tmp_path).cards == ()


def test_every_field_of_an_entry_is_on_its_card(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, FULL_ENTRY)

    assert registry.cards == (
        ModelCard(
            name="gpt-4o",
            aliases=("4o", "omni"),
            base_url="https://models.example/v1",
            api_key_env="OPENAI_API_KEY",
            context_window=128_000,
            max_output_tokens=16_384,
            vision=True,
            encoding="o200k_base",
            image_family="gpt-4o",
            overrides={"vision_keep_last_n_turns": 2},
        ),
    )


def test_an_entry_needs_no_more_than_a_name(tmp_path: Path) -> None:
    assert registry_of(tmp_path, {"name": "a"}).cards == (ModelCard("a"),)


def test_null_is_unknown(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {"name": "a", "context_window": None, "vision": None})

    assert registry.cards == (ModelCard("a"),)


@pytest.mark.parametrize("name", ["gpt-4o", "4o", "omni"])
def test_a_model_is_found_by_its_name_and_by_each_alias(tmp_path: Path, name: str) -> None:
    registry = registry_of(tmp_path, {"name": "other"}, FULL_ENTRY)

    assert registry.find(name).name == "gpt-4o"


def test_an_unknown_model_has_a_card_with_just_its_name(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, FULL_ENTRY)

    assert registry.find("GPT-4o") == ModelCard("GPT-4o")


def test_a_registry_tells_whether_a_model_has_its_own_upstream(tmp_path: Path) -> None:
    assert registry_of(tmp_path, {"name": "a"}, FULL_ENTRY).has_own_upstreams
    assert not registry_of(tmp_path, {"name": "a"}).has_own_upstreams


def test_comments_are_ignored(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {"name": "a", "comment": ["why"], "_note": 1, "_": None})

    assert registry.cards == (ModelCard("a"),)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(b'\xef\xbb\xbf[{"name": "a"}]')

    assert read_registry(path).cards == (ModelCard("a"),)


@pytest.mark.parametrize(
    "base_url",
    [
        "http://host:8000",
        "http://host:8000/",
        "http://host:8000/v1",
        "http://host:8000/v1/",
        "https://host:443/api/v3//",
        "http://host:80",
        "https://HOST/openai",
        "http://[::1]:8000",
    ],
)
def test_base_urls_are_completed_as_in_the_settings(tmp_path: Path, base_url: str) -> None:
    registry = registry_of(tmp_path, {"name": "a", "base_url": base_url})

    assert registry.find("a").base_url == UpstreamSettings(base_url=base_url).base_url


def test_a_base_url_without_a_path_gets_v1(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {"name": "a", "base_url": "http://host:8000/"})

    assert registry.find("a").base_url == "http://host:8000/v1"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("aliases", "b", "valid list"),
        ("aliases", None, "valid list"),
        ("base_url", 8000, "string"),
        ("base_url", "host:8000", "'http' or 'https'"),
        ("base_url", "ftp://host", "'http' or 'https'"),
        ("base_url", "http://", "empty host"),
        ("base_url", "http://someone:secret@host/v1", "no user name, password"),
        ("base_url", "http://host/v1?key=secret", "query or fragment"),
        ("api_key_env", "sk-secret", "name of an environment variable"),
        ("api_key_env", "", "name of an environment variable"),
        ("context_window", 0, "greater than 0"),
        ("context_window", -1, "greater than 0"),
        ("context_window", "8192", "valid integer"),
        ("context_window", 8192.5, "valid integer"),
        ("context_window", True, "valid integer"),
        ("max_output_tokens", 0, "greater than 0"),
        ("vision", "yes", "valid boolean"),
        ("vision", 1, "valid boolean"),
        ("encoding", "", "must not be empty"),
        ("image_family", 3, "valid string"),
        ("overrides", ["mode"], "valid dictionary"),
    ],
)
def test_a_wrong_field_is_named_in_one_line_without_its_value(
    tmp_path: Path, field: str, value: object, reason: str
) -> None:
    path = written(tmp_path, json.dumps([{"name": "first"}, {"name": "second", field: value}]))

    complaint = complaint_about(path)

    assert complaint.startswith(f"{path}: entry 2 ('second'): {field}: ")
    assert reason in complaint
    assert "\n" not in complaint
    assert "secret" not in complaint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON: Expecting value"),
        ("[{]", "is not JSON: Expecting property name"),
        ("[" * 100_000, "is not JSON: "),
        ("[1" + "0" * 5_000 + "]", "is not JSON: "),
        ("{}", "must be a list of entries"),
        ("null", "must be a list of entries"),
        ("[3]", "entry 1: must be an object with a name"),
        ("[{}]", "entry 1: name: is missing"),
        ('[{"name": null}]', "entry 1: name: Input should be a valid string"),
        ('[{"name": "  "}]', "entry 1 ('  '): name: must not be empty"),
        ('[{"name": "a", "aliases": ["b", 2]}]', "entry 1 ('a'): aliases.1: "),
        ('[{"name": "a\\nb", "vision": 2}]', "entry 1 ('a\\nb'): vision: "),
        ('[{"name": "a", "x\\ny": 2}]', "entry 1 ('a'): 'x\\ny': there is no such field"),
    ],
)
def test_a_broken_file_is_one_line_that_says_where(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)

    complaint = complaint_about(path)

    assert complaint.startswith(f"{path}: {reason}")
    assert "\n" not in complaint


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(b'[{"name": "\xff"}]')

    assert complaint_about(path) == f"{path}: is not UTF-8"


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    assert complaint_about(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_an_unknown_field_comes_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = written(tmp_path, '[{"name": "a", "contextwindow": 8192}]')

    assert complaint_about(path).endswith(
        "'contextwindow': there is no such field; did you mean 'context_window'?"
    )


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([{"name": "a"}, {"name": "a"}], "entry 2 ('a'): name: 'a' is taken by entry 1 ('a')"),
        (
            [{"name": "a"}, {"name": "b", "aliases": ["a"]}],
            "entry 2 ('b'): aliases: 'a' is taken by entry 1 ('a')",
        ),
        (
            [{"name": "a", "aliases": ["b"]}, {"name": "b"}],
            "entry 2 ('b'): name: 'b' is taken by entry 1 ('a')",
        ),
        (
            [{"name": "a", "aliases": ["c"]}, {"name": "b", "aliases": ["c"]}],
            "entry 2 ('b'): aliases: 'c' is taken by entry 1 ('a')",
        ),
        (
            [{"name": "a", "aliases": ["a"]}],
            "entry 1 ('a'): aliases: 'a' is taken by entry 1 ('a')",
        ),
    ],
)
def test_a_name_belongs_to_one_model(tmp_path: Path, entries: object, reason: str) -> None:
    path = written(tmp_path, json.dumps(entries))

    assert complaint_about(path) == f"{path}: {reason}"


def test_the_example_is_a_good_registry() -> None:
    registry = read_registry(EXAMPLE)

    assert registry.find("gpt-4o").context_window == 128_000
    assert registry.find("Qwen/Qwen2.5-VL-7B-Instruct-AWQ").context_window == 16_384
    assert registry.find("Qwen/Qwen2.5-VL-7B-Instruct-AWQ").vision
    assert registry.has_own_upstreams


def test_the_example_overrides_only_settings_that_exist() -> None:
    known = {name.removeprefix(PREFIX).lower() for name in setting_names()}

    overridden = {name for card in read_registry(EXAMPLE).cards for name in card.overrides}

    assert overridden
    assert overridden <= known
