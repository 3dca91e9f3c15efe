import json
from pathlib import Path

import pytest

from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import BadRegistry, ModelRegistry, read_registry


def curated(name: str, *arguments: object, **fields: object) -> dict[str, object]:
    backend = {"port": 24001, "model_path": "/models", "extra_args": list(arguments)}
    return {"name": name, "backend": "vllm", "backend_config": backend} | fields


def registry_of(folder: Path, *entries: object) -> ModelRegistry:
    path = folder / "models.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return read_registry(path)


def complaint_about(folder: Path, *entries: object) -> str:
    with pytest.raises(BadRegistry) as caught:
        registry_of(folder, *entries)
    return str(caught.value).removeprefix(f"{folder / 'models.json'}: ")


def test_the_window_is_what_the_server_is_started_with(tmp_path: Path) -> None:
    entry = curated("a", "--dtype", "auto", "--max-model-len", "8192", "--enforce-eager")

    assert registry_of(tmp_path, entry).cards == (ModelCard("a", context_window=8192),)


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        (["--max-model-len=8192"], 8192),
        (["--max_model_len", "8192"], 8192),
        (["--max-model-len", 8192], 8192),
        (["--max-model-len", "32k"], 32_000),
        (["--max-model-len", "32K"], 32_768),
        (["--max-model-len=25.6k"], 25_600),
        (["--max-model-len", "1m"], 1_000_000),
        (["--max-model-len", "1M"], 1_048_576),
        (["--max-model-len", "4096", "--max-model-len", "8192"], 8192),
        (["--context-length", "8192"], 8192),
        (["--num-ctx", "4096"], 4096),
        (["--max-model-len", "auto"], None),
        (["--max-model-len", "-1"], None),
        (["--max-num-seqs", "8192"], None),
        ([], None),
    ],
)
def test_the_window_is_read_as_the_server_reads_it(
    tmp_path: Path, arguments: list[object], window: int | None
) -> None:
    registry = registry_of(tmp_path, curated("a", *arguments))

    assert registry.find("a").context_window == window


@pytest.mark.parametrize("backend", [None, {}, {"port": 8000}, {"extra_args": None}])
def test_a_backend_without_arguments_says_nothing(tmp_path: Path, backend: object) -> None:
    registry = registry_of(tmp_path, {"name": "a", "backend_config": backend})

    assert registry.cards == (ModelCard("a"),)


@pytest.mark.parametrize(
    ("capabilities", "vision"),
    [
        (["text", "vision"], True),
        (["Text", "Image"], True),
        (["text"], False),
        ({"text": True, "vision": True}, True),
        ({"text": True, "vision": False}, False),
        ({"vision": {"enabled": True, "target_long_edge": 448}}, True),
        ({"vision": {"target_long_edge": 448}}, None),
        ({"text": True}, None),
        ([], None),
        ({}, None),
        (None, None),
    ],
)
def test_sight_is_a_capability(tmp_path: Path, capabilities: object, vision: bool | None) -> None:
    registry = registry_of(tmp_path, curated("a", capabilities=capabilities))

    assert registry.find("a").vision is vision


def test_an_entry_has_further_names(tmp_path: Path) -> None:
    entry = curated(
        "a",
        served_model_id="org/a",
        display_name="Model A",
        model_aliases=["a-latest", "a", "org/a"],
        aliases=["mine"],
    )

    registry = registry_of(tmp_path, entry)

    assert registry.find("a").aliases == ("mine", "org/a", "a-latest", "Model A")
    assert registry.find("Model A") is registry.find("org/a")


@pytest.mark.parametrize("empty", [None, "", " ", "None", 3], ids=repr)
def test_a_name_that_says_nothing_is_no_name(tmp_path: Path, empty: object) -> None:
    entry = curated("a", served_model_id=empty, display_name=empty, model_aliases=[empty])

    assert registry_of(tmp_path, entry).cards == (ModelCard("a"),)


def test_the_first_of_two_builds_keeps_the_name_that_they_share(tmp_path: Path) -> None:
    registry = registry_of(
        tmp_path,
        curated("a-q4", "--max-model-len", "4096", served_model_id="a"),
        curated("a-q8", "--max-model-len", "8192", served_model_id="a"),
    )

    assert registry.find("a").name == "a-q4"
    assert registry.find("a-q8").aliases == ()


def test_a_name_counts_more_than_a_further_name(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, curated("a-q4", model_aliases=["a"]), {"name": "a"})

    assert registry.find("a") == ModelCard("a")


def test_two_curated_entries_cannot_have_one_name(tmp_path: Path) -> None:
    complaint = complaint_about(tmp_path, curated("a"), curated("a"))

    assert complaint == "entry 2 ('a'): name: 'a' is taken by entry 1 ('a')"


def test_what_is_ours_counts_more_than_what_is_found(tmp_path: Path) -> None:
    entry = curated(
        "a",
        "--max-model-len=8192",
        capabilities=["text"],
        context_window=4096,
        vision=True,
        base_url="http://gpu:24001",
        overrides={"mode": "off"},
    )

    assert registry_of(tmp_path, entry).find("a") == ModelCard(
        "a",
        base_url="http://gpu:24001/v1",
        context_window=4096,
        vision=True,
        overrides={"mode": "off"},
    )


def test_fields_of_others_are_ignored(tmp_path: Path) -> None:
    entry = curated("a", family="a", quantization="awq", roles=[], license=None, deprecated=False)

    assert registry_of(tmp_path, entry).cards == (ModelCard("a"),)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"backend_config": {}}, "entry 1: name: is missing"),
        (
            {"name": "a", "backend_config": "vllm"},
            "entry 1 ('a'): backend_config: must be an object",
        ),
        (
            {"name": "a", "backend_config": {"extra_args": "--max-model-len 8192"}},
            "entry 1 ('a'): backend_config.extra_args: must be a list of arguments",
        ),
        (
            curated("a", "--max-model-len"),
            "entry 1 ('a'): backend_config.extra_args: '' is not a number of tokens",
        ),
        (
            curated("a", "--max-model-len", "1.5K"),
            "entry 1 ('a'): backend_config.extra_args: '1.5K' is not a number of tokens",
        ),
        (
            curated("a", "--max-model-len", "0"),
            "entry 1 ('a'): context_window: Input should be greater than 0",
        ),
        (
            curated("a", capabilities="vision"),
            "entry 1 ('a'): capabilities: must be a list or an object",
        ),
        (
            curated("a", capabilities={"vision": "yes"}),
            "entry 1 ('a'): capabilities.vision: must be true or false",
        ),
        (
            curated("a", model_aliases="b"),
            "entry 1 ('a'): model_aliases: must be a list of names",
        ),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, entry: object, reason: str) -> None:
    assert complaint_about(tmp_path, entry) == reason
