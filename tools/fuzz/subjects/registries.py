"""Registry files: read, or refused with one line."""

import tempfile
from pathlib import Path

from chat_proxy.config.policies import model_policies
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.registry.registry import BadRegistry, read_registry
from chat_proxy.wiring import read_models

_FOLDER = Path(tempfile.gettempdir())


def read_any_registry(data: bytes) -> None:
    """Read a file as the start does: entries, names, overrides, policies."""
    with tempfile.NamedTemporaryFile(dir=_FOLDER, prefix="registry-") as file:
        file.write(data)
        file.flush()
        complaint = _complaint_about(Path(file.name))
        assert len(complaint.splitlines()) <= 1


def _complaint_about(path: Path) -> str:
    try:
        registry = read_registry(path)
        for card in registry.cards:
            assert all(registry.find(name) is card for name in card.names)
        settings = Settings(_env_file=None, registry={"file": path})
        model_policies(settings, read_models(settings))
    except (BadRegistry, BadConfiguration) as error:
        return str(error)
    return ""
