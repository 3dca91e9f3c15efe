"""Data lie in the user's data folder by default, and stay where an earlier start has put them."""

from pathlib import Path

import pytest

from chat_proxy.cli.check_config import effective
from chat_proxy.config.data_folder import working_directory_notice
from chat_proxy.config.environment import read_settings
from chat_proxy.config.settings import PREFIX
from tests.support.command import run_command, running_command
from tests.support.fake_model import fake_model, polite


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with another one as home."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME")


def places() -> tuple[str, Path]:
    settings = read_settings(None)
    return settings.store.url, settings.archive.dir


def test_data_lie_below_the_home_folder(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".local" / "share" / "chat-proxy"

    assert places() == (f"sqlite:///{folder}/chat-proxy.db", folder)
    assert working_directory_notice(read_settings(None)) is None


def test_the_standard_s_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")

    assert places() == (
        "sqlite:////srv/data/chat-proxy/chat-proxy.db",
        Path("/srv/data/chat-proxy"),
    )


def test_a_relative_value_is_ignored_as_the_standard_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")

    assert places()[1] == tmp_path / "home" / ".local" / "share" / "chat-proxy"


def test_without_a_home_folder_data_stay_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)

    assert places() == ("sqlite:///data/chat-proxy.db", Path("data"))


@pytest.mark.parametrize("name", ["chat-proxy.db", "dialog", "tool_result"])
def test_data_of_the_working_directory_are_used_on_and_that_is_said(name: str) -> None:
    (Path("data") / name).mkdir(parents=True)

    settings = read_settings(None)
    notice = working_directory_notice(settings)

    assert places() == ("sqlite:///data/chat-proxy.db", Path("data"))
    assert notice is not None
    assert notice.startswith(f"{Path('data').absolute()} has data of an earlier start")


def test_a_folder_data_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (Path("data") / "photos").mkdir(parents=True)

    assert places()[1] == tmp_path / "home" / ".local" / "share" / "chat-proxy"


def test_what_is_set_is_taken_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_PROXY_STORE_URL", "sqlite:///data/chat-proxy.db")
    monkeypatch.setenv("CHAT_PROXY_ARCHIVE_DIR", "data")
    (Path("data") / "dialog").mkdir(parents=True)

    assert places() == ("sqlite:///data/chat-proxy.db", Path("data"))
    assert working_directory_notice(read_settings(None)) is None


def test_one_that_is_set_does_not_move_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_STORE_URL", "memory:")

    assert places() == ("memory:", tmp_path / "home" / ".local" / "share" / "chat-proxy")


def test_a_default_counts_as_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_PROXY_STORE_REQUIRED", "true")
    folder = tmp_path / "home" / ".local" / "share" / "chat-proxy"

    lines = list(effective(read_settings(None), PREFIX))

    assert f"CHAT_PROXY_STORE_URL=sqlite:///{folder}/chat-proxy.db" in lines
    assert f"CHAT_PROXY_ARCHIVE_DIR={folder}" in lines
    assert "CHAT_PROXY_STORE_REQUIRED=true  # set" in lines


@pytest.mark.anyio
async def test_a_start_keeps_its_data_in_the_folder_and_purge_finds_them_from_anywhere(
    tmp_path: Path,
) -> None:
    work, folder = tmp_path / "work", tmp_path / "home" / ".local" / "share" / "chat-proxy"
    async with (
        fake_model(polite) as model,
        running_command(
            "serve", cwd=str(work), STORE_URL="", UPSTREAM_BASE_URL=model.url
        ) as command,
    ):
        await command.url()
        kept = sorted(path.name for path in folder.iterdir())

    ended = await run_command("purge", "--all", cwd=tmp_path, STORE_URL="")

    assert "chat-proxy.db" in kept
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(work.iterdir()) == []
    assert (ended.code, ended.err) == (0, "")
