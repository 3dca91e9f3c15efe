"""Context windows, base models and server kind from the response of `GET /v1/models`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chat_proxy.tokens.overheads import UpstreamKind

_MAX_WINDOW = 100_000_000

Model = tuple[str, Mapping[str, object]]

_OWNERS: dict[str, UpstreamKind] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "library": "ollama",
    "openai": "openai",
    "system": "openai",
    "openai-internal": "openai",
}


_NESTED = ("meta", "model_info", "details", "top_provider", "limits")
"""Where llama.cpp, LiteLLM, Ollama, OpenRouter and others put a model's properties."""
_WINDOW_FIELDS = (
    "max_model_len",  # vLLM, SGLang
    "n_ctx_slot",  # llama.cpp, of one slot; n_ctx_train is not what it serves
    "n_ctx",  # llama.cpp: of one slot, too
    "loaded_context_length",  # LM Studio
    "max_total_tokens",  # TGI: prompt and answer
    "context_length",  # OpenRouter, Together, Ollama, SGLang's router
    "context_window",  # Groq and other gateways
    "context_len",  # SGLang
    "max_context_length",  # LM Studio, for models that are not loaded; Mistral
    "max_input_tokens",  # LiteLLM, Anthropic: of the prompt, so the window is at least that
    "max_input_length",  # TGI, older
)
_MAX_BASES = 8


def read_bases(document: object) -> dict[str, tuple[str, ...]]:
    """Return the names of the models that each model is made from, the nearest first.

    A served name may say nothing of the model behind it; the `parent` of an adapter and the `root`
    of a model do.
    """
    models = dict(_models(document))
    return {name: bases for name in models if (bases := tuple(_bases(name, models)))}


def _bases(name: str, models: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    seen, known = [name], {name}
    for each in seen:  # grows while it is read
        model = models.get(each, {})
        for base in (model.get("parent"), model.get("root")):
            if isinstance(base, str) and base not in known and len(seen) <= _MAX_BASES:
                known.add(base)
                seen.append(base)
                yield base


def read_windows(document: object) -> dict[str, int]:
    """Return the window of every model that has one, or that adapts a model that has one."""
    models = list(_models(document))
    windows = _own_windows(models)
    names = _names_of(models, windows)
    # Parents first; roots for models whose parent gives no window.
    for fields in (("parent",), ("parent", "root")):
        windows = _inherit_windows(windows, _adapters(models, names, fields))
    return windows


def read_names(document: object) -> frozenset[str]:
    """Return the names of all models, with a window or without."""
    return frozenset(name for name, _ in _models(document))


def read_kind(document: object) -> UpstreamKind:
    """Return the kind of server that wrote the listing, by its `owned_by` field."""
    for _, model in _models(document):
        owner = model.get("owned_by")
        if isinstance(owner, str) and owner in _OWNERS:
            return _OWNERS[owner]
    return "unknown"


def _models(document: object) -> Iterator[Model]:
    models = document.get("data") if isinstance(document, dict) else document
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict) and isinstance(model.get("id"), str):
            yield model["id"], model


def _own_windows(models: list[Model]) -> dict[str, int]:
    windows: dict[str, int] = {}
    for name, model in models:
        window = next(filter(None, map(_tokens, _candidates(model))), None)
        if window:
            # Behind a load balancer one name may have two windows: the smaller one fits both.
            windows[name] = min(window, windows.get(name, window))
    return windows


def _candidates(model: Mapping[str, object]) -> Iterator[object]:
    """Yield what the running server is configured for, then what the model supports."""
    nested = (part for key in _NESTED if isinstance(part := model.get(key), dict))
    places: list[Mapping[str, object]] = [model, *nested]
    for field in _WINDOW_FIELDS:
        for place in places:
            yield place.get(field)


def _tokens(value: object) -> int | None:
    """Return a plausible number of tokens from an integer, float or string, else None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_WINDOW:
        return value
    return None


def _names_of(models: list[Model], windows: Mapping[str, int]) -> dict[str, str]:
    """Return the models by id and by root: adapters may name a base served under another name."""
    roots = ((model.get("root"), name) for name, model in models if name in windows)
    by_root = {root: name for root, name in roots if isinstance(root, str)}
    return by_root | {name: name for name, _ in models}


def _adapters(
    models: list[Model], names: Mapping[str, str], fields: tuple[str, ...]
) -> Mapping[str, list[str]]:
    """Return, for each base, the models that name it in one of the fields, as LoRA cards do."""
    adapters = defaultdict(list)
    for name, model in models:
        for base in map(model.get, fields):
            if isinstance(base, str) and base in names:
                adapters[names[base]].append(name)
    return adapters


def _inherit_windows(
    windows: Mapping[str, int], adapters: Mapping[str, list[str]]
) -> dict[str, int]:
    """Return the windows, extended to adapters of these models, their adapters and so on.

    Working from the bases, a chain of any length needs no recursion and a cycle ends.
    """
    known = dict(windows)
    bases = list(known)
    while bases:
        base = bases.pop()
        for name in adapters.get(base, ()):
            if name not in known:
                known[name] = known[base]
                bases.append(name)
    return known
