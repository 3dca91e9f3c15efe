"""The name of a model in metrics."""

from chat_proxy.registry.registry import ModelRegistry
from chat_proxy.telemetry.metrics import OTHER_MODEL
from chat_proxy.upstream.discovery import Windows


def model_label(registry: ModelRegistry, windows: Windows, base_url: str, model: str) -> str:
    """Return the metrics' name of a model; only configured and listed ones have their own."""
    name = registry.name_of(model)
    if name is None and windows.lists(base_url, model):
        name = model
    return name or OTHER_MODEL
