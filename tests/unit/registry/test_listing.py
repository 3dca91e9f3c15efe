import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.registry.listing import read_bases, read_windows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
ODD = st.sampled_from([None, True, 3, [], ["a"], {}, {"a": 1}])
NAMES = st.sampled_from(["a", "b", "c", ""]) | ODD
NUMBERS = st.sampled_from([0, -1, 8192, 10**8, 10**8 + 1, "8192", "²", "9" * 5_000, 1e400]) | ODD
MODELS = st.fixed_dictionaries(
    {"id": NAMES, "parent": NAMES},
    optional={
        "root": NAMES,
        "max_model_len": NUMBERS,
        "context_length": NUMBERS,
        "meta": st.fixed_dictionaries({"n_ctx": NUMBERS}) | ODD,
    },
)


def answer(*models: object) -> dict[str, object]:
    return {"object": "list", "data": list(models)}


def lora(name: str, parent: object, root: object = "/adapters") -> dict[str, object]:
    return {"id": name, "root": root, "parent": parent, "max_model_len": None}


def test_vllm_and_sglang_tell_the_window_they_were_started_with() -> None:
    given_answer = answer(
        {"id": "tiny", "owned_by": "vllm", "root": "/tiny", "parent": None, "max_model_len": 2048}
    )

    assert read_windows(given_answer) == {"tiny": 2048}


def test_llama_cpp_tells_what_it_serves_and_not_what_the_model_was_trained_for() -> None:
    given_answer = answer({"id": "gguf", "meta": {"n_ctx": 8192, "n_ctx_train": 131_072}})

    assert read_windows(given_answer) == {"gguf": 8192}


def test_what_a_model_was_trained_for_is_no_window() -> None:
    assert read_windows(answer({"id": "gguf", "meta": {"n_ctx_train": 131_072}})) == {}


@pytest.mark.parametrize(
    "field",
    [
        "context_length",
        "context_window",
        "max_context_length",
        "max_input_tokens",
        "n_ctx",
        "max_total_tokens",
    ],
)
def test_gateways_have_names_of_their_own_for_the_window(field: str) -> None:
    assert read_windows(answer({"id": "a", field: 131_072})) == {"a": 131_072}


@pytest.mark.parametrize(
    "model",
    [
        {"id": "a", "model_info": {"max_input_tokens": 8192, "max_output_tokens": 1024}},
        {"id": "a", "meta": {"n_ctx_slot": 8192, "n_ctx": 32_768}},
        {"id": "a", "details": {"context_length": 8192}},
        {"id": "a", "context_length": 8192, "top_provider": {"context_length": 4096}},
        {"id": "a", "max_total_tokens": 8192, "max_input_tokens": 8000},
        {"id": "a", "max_model_len": None, "max_input_tokens": "8192"},
    ],
    ids=["LiteLLM", "llama.cpp, one slot", "Ollama", "OpenRouter", "TGI", "a gateway to vLLM"],
)
def test_each_server_has_its_own_place_for_the_window(model: dict[str, object]) -> None:
    assert read_windows(answer(model)) == {"a": 8192}


def test_the_model_behind_a_served_name_is_told() -> None:
    given_answer = answer(
        {"id": "local", "root": "Qwen/Qwen2-VL-7B-Instruct", "parent": None},
        {"id": "sql", "root": "/adapters/sql", "parent": "local"},
        {"id": "plain", "root": "plain"},
        {"id": "a", "parent": "b"},
        {"id": "b", "parent": "a"},
    )

    assert read_bases(given_answer) == {
        "local": ("Qwen/Qwen2-VL-7B-Instruct",),
        "sql": ("local", "/adapters/sql", "Qwen/Qwen2-VL-7B-Instruct"),
        "a": ("b",),
        "b": ("a",),
    }


def test_a_long_chain_of_bases_ends() -> None:
    chain = answer(*({"id": f"m{n}", "parent": f"m{n + 1}"} for n in range(100)))

    assert len(read_bases(chain)["m0"]) <= 9


def test_the_loaded_window_counts_more_than_the_largest_possible() -> None:
    model = {"id": "a", "max_context_length": 131_072, "loaded_context_length": 4096}

    assert read_windows(answer(model)) == {"a": 4096}


def test_a_bare_list_of_models_is_read_too() -> None:
    assert read_windows([{"id": "a", "context_length": 8192}]) == {"a": 8192}


def test_of_two_windows_of_one_name_the_smaller_counts() -> None:
    models = [{"id": "a", "max_model_len": window} for window in (8192, 4096, 16_384)]

    assert read_windows(answer(*models)) == {"a": 4096}


def test_an_adapter_has_the_window_of_its_parent() -> None:
    given_answer = answer(lora("sql", "base"), {"id": "base", "max_model_len": 8192})

    assert read_windows(given_answer) == {"sql": 8192, "base": 8192}


def test_an_adapter_with_a_window_of_its_own_keeps_it() -> None:
    given_answer = answer(
        {"id": "base", "max_model_len": 8192},
        {"id": "sql", "parent": "base", "max_model_len": 4096},
    )

    assert read_windows(given_answer) == {"base": 8192, "sql": 4096}


def test_an_adapter_without_a_parent_has_the_window_of_its_root() -> None:
    given_answer = answer({"id": "base", "max_model_len": 8192}, lora("sql", None, root="base"))

    assert read_windows(given_answer)["sql"] == 8192


def test_the_parent_counts_more_than_the_root() -> None:
    given_answer = answer(
        lora("sql", "parent", root="root"),
        {"id": "root", "max_model_len": 4096},
        {"id": "parent", "max_model_len": 8192},
    )

    assert read_windows(given_answer)["sql"] == 8192


def test_an_adapter_finds_its_parent_under_the_name_it_had_before_it_was_served() -> None:
    given_answer = answer(
        {"id": "chat", "root": "org/base", "parent": None, "max_model_len": 8192},
        lora("sql", "org/base"),
    )

    assert read_windows(given_answer)["sql"] == 8192


def test_a_long_chain_of_adapters_ends_at_its_base() -> None:
    chain = [lora(f"step-{number}", f"step-{number - 1}") for number in range(1, 20_000)]

    windows = read_windows(answer(*chain, {"id": "step-0", "max_model_len": 8192}))

    assert windows["step-19999"] == 8192


def test_adapters_in_a_circle_have_no_window() -> None:
    assert read_windows(answer(lora("a", "b"), lora("b", "a"), lora("c", "c"))) == {}


def test_a_circle_of_parents_is_left_by_a_root() -> None:
    given_answer = answer(
        lora("a", "b", root="base"), lora("b", "a"), {"id": "base", "max_model_len": 8192}
    )

    assert read_windows(given_answer) == {"a": 8192, "b": 8192, "base": 8192}


@pytest.mark.parametrize("written", [8192, 8192.0, "8192"], ids=repr)
def test_a_number_counts_however_it_is_written(written: object) -> None:
    assert read_windows(answer({"id": "a", "max_model_len": written})) == {"a": 8192}


@pytest.mark.parametrize(
    "nonsense",
    [
        0,
        -1,
        100_000_001,
        True,
        8192.5,
        float("inf"),
        float("nan"),
        "8k",
        "+8192",
        "",
        "²",
        "٣٢",
        "9" * 5_000,
        [8192],
        {"tokens": 8192},
    ],
)
def test_nonsense_is_no_window(nonsense: object) -> None:
    assert read_windows(answer({"id": "a", "max_model_len": nonsense})) == {}


def test_nonsense_in_one_field_leaves_the_next_one_its_say() -> None:
    model = {"id": "a", "max_model_len": 0, "meta": {"n_ctx": 0}, "context_length": 8192}

    assert read_windows(answer(model)) == {"a": 8192}


@pytest.mark.parametrize(
    "document",
    [None, 3, "data", [], {}, {"data": None}, {"data": {"id": "a"}}, {"error": {"code": 401}}],
)
def test_an_answer_without_models_has_no_windows(document: object) -> None:
    assert read_windows(document) == {}


@given(JSON)
def test_no_document_is_too_strange(document: object) -> None:
    assert isinstance(read_windows(document), dict)


@given(st.lists(MODELS, max_size=8))
def test_every_window_belongs_to_a_model_and_is_believable(models: list[dict[str, object]]) -> None:
    before = json.dumps(models)

    windows = read_windows({"data": models})

    assert set(windows) <= {name for model in models if isinstance(name := model.get("id"), str)}
    assert all(type(window) is int and 0 < window <= 100_000_000 for window in windows.values())
    assert json.dumps(models) == before


@given(st.lists(MODELS, max_size=8))
def test_the_order_of_the_parents_does_not_matter(models: list[dict[str, object]]) -> None:
    assert set(read_windows(models)) == set(read_windows(models[::-1]))
