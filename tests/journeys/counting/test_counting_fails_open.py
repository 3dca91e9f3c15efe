"""Whatever fails in counting, the request goes through."""

from pathlib import Path
from typing import Any

import pytest

from chat_proxy.tokens import tiktoken_counter
from chat_proxy.tokens.tiktoken_counter import load_encoding
from tests.journeys.counting.conftest import Said
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, polite
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

GUESSED = "a tokenizer cannot be loaded: tokens are guessed"
MESSAGES = [{"role": "user", "content": "some words " * 500}]


@pytest.fixture(params=["missing", "empty", "corrupt"])
def _broken_ranks(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {"empty": b"", "corrupt": b"\x1f\x8b\x08 no ranks"}
    if request.param in contents:
        for name in ("o200k_base", "cl100k_base"):
            (tmp_path / f"{name}.tiktoken.gz").write_bytes(contents[request.param])

    def load_from_there(name: str) -> Any:
        return load_encoding(name, tmp_path)

    monkeypatch.setattr(tiktoken_counter, "load_encoding", load_from_there)


def estimate(headers: dict[str, str]) -> int:
    return int(headers["x-chat-proxy-tokens-before"])


@pytest.mark.usefixtures("_broken_ranks")
async def test_without_ranks_tokens_are_guessed(said: Said) -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "words " * 5000}}]
    async with meeting(polite) as met:
        answers = [await met.ask(messages=MESSAGES) for _ in range(8)]
        with_tools = await met.ask(messages=MESSAGES, tools=tools)

    assert {answer.status for answer in answers} == {200}
    assert len({estimate(answer.headers) for answer in answers}) == 1
    assert 1000 < estimate(answers[0].headers) < 3000
    assert estimate(with_tools.headers) > estimate(answers[0].headers) + 5000
    assert [line["encoding"] for line in said(GUESSED)] == ["o200k_base"]
    assert not said("request could not be prepared")


async def thrice(received: Received, line: Line) -> None:
    usage = {"prompt_tokens": 3000, "completion_tokens": 1}
    await answer_json(line, {**COMPLETION, "usage": usage})


@pytest.mark.parametrize("place", ["{}/no/folder/x.db", "{}/file/x.db", "{}/damaged.db"])
async def test_without_a_store_calibration_works_in_memory(
    place: str, tmp_path: Path, said: Said
) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "damaged.db").write_bytes(b"not a database" * 1000)
    (tmp_path / "no").mkdir(mode=0o500)
    url = f"sqlite:///{place.format(tmp_path)}"
    async with meeting(thrice, store={"url": url}) as met:
        estimates = [estimate((await met.ask(messages=MESSAGES)).headers) for _ in range(10)]

    assert estimates[0] < 1500
    assert abs(estimates[-1] - 3000) < 90
    assert not said("request could not be prepared")


async def test_a_store_that_breaks_on_the_way_costs_nothing_but_memory(
    tmp_path: Path, said: Said
) -> None:
    file = tmp_path / "x.db"
    async with meeting(thrice, store={"url": f"sqlite:///{file}"}) as met:
        await met.ask(messages=MESSAGES)
        file.write_bytes(b"no database any more" * 1000)
        answers = [await met.ask(model=f"m{n}", messages=MESSAGES) for n in range(5)]

    assert {answer.status for answer in answers} == {200}
    assert said("a store operation failed")


async def test_a_mistake_in_counting_is_logged_and_the_request_passes(
    monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("conversation text")

    monkeypatch.setattr("chat_proxy.proxy.sizing.tokenizers.count_within", fail)
    async with meeting(polite) as met:
        answer = await met.ask()

    assert answer.status == 200
    assert answer.headers["x-chat-proxy-compaction"] == "failed-open"
    assert "x-chat-proxy-tokens-before" not in answer.headers
    [line] = said("request could not be prepared")
    assert line["exception"] == "RuntimeError"
    assert "conversation text" not in str(line)
