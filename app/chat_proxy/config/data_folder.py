"""Where data are kept if no setting says so: in the user's data folder.

The defaults of store and archive name the folder `data`. It stands for `$XDG_DATA_HOME/chat-proxy`,
unless the working directory has data already, as earlier versions kept them.
"""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from chat_proxy.config.settings import Settings

ModelT = TypeVar("ModelT", bound=BaseModel)

DEFAULT = Path("data")
DATABASE = "chat-proxy.db"
CONTENTS = (DATABASE, "dialog", "tool_result")


def with_data_folder(settings: Settings, xdg_data_home: str | None) -> Settings:
    """Return the settings with the user's data folder where store and archive are not set.

    Both still count as not set. Without a home folder, `data` stays in the working directory.
    """
    folder = _users_folder(xdg_data_home)
    if folder is None or _has_data():
        return settings
    store, archive = settings.store, settings.archive
    if "url" not in store.model_fields_set:
        store = _with_default(store, url=f"sqlite:///{folder / DATABASE}")
    if "dir" not in archive.model_fields_set:
        archive = _with_default(archive, dir=folder)
    return _with_default(settings, store=store, archive=archive)


def working_directory_notice(settings: Settings) -> str | None:
    """Return a sentence if data are kept in the working directory although no setting says so."""
    store, archive = settings.store, settings.archive
    in_store = "url" not in store.model_fields_set and store.url.endswith(
        f":///{DEFAULT / DATABASE}"
    )
    in_archive = "dir" not in archive.model_fields_set and archive.dir == DEFAULT
    if not (in_store or in_archive) or not _has_data():
        return None
    return (
        f"{DEFAULT.absolute()} has data of an earlier start, so they are kept there; from another "
        "working directory they are not found: move them, or set CHAT_PROXY_STORE_URL and "
        "CHAT_PROXY_ARCHIVE_DIR"
    )


def _users_folder(xdg_data_home: str | None) -> Path | None:
    """Return the folder, None if it is not known; the standard says to ignore relative paths."""
    if xdg_data_home and Path(xdg_data_home).is_absolute():
        return Path(xdg_data_home) / "chat-proxy"
    try:
        return Path.home() / ".local" / "share" / "chat-proxy"
    except RuntimeError:
        return None


def _has_data() -> bool:
    return any((DEFAULT / name).exists() for name in CONTENTS)


def _with_default(model: ModelT, **values: object) -> ModelT:
    """Return a copy with other values, which count as set only if they did before."""
    return model.model_construct(model.model_fields_set, **{**dict(model), **values})
