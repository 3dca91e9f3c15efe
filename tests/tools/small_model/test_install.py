"""The packages that a run needs."""

from pathlib import Path

import pytest

from tools.small_model.install import NotInstalled, install

ABSENT = {"there-is-no-package-of-this-name": "0.0.1"}


def test_packages_that_cannot_be_had_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(NotInstalled, match=r"cannot install there-is-no-package.*: ERROR"):
        install(tmp_path / "venv", ABSENT)

    assert not (tmp_path / "venv" / "installed").exists()


def test_packages_that_are_installed_are_not_installed_again(tmp_path: Path) -> None:
    (tmp_path / "installed").write_text("there-is-no-package-of-this-name==0.0.1")

    install(tmp_path, ABSENT)

    assert [path.name for path in tmp_path.iterdir()] == ["installed"]
