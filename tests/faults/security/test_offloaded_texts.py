"""F11 and F20: ids and names never lead to a file or a text that they were not issued for."""

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.security.tenants import ALICE, BOB, bearer, raw_get
from tests.support.fake_model import FakeModel, fake_model, polite
from tests.support.live import Proxy, http_client, raw_client, running_proxy
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
ID = re.compile(r"\b[0-9a-f]{32}\b")
LONG = "\n".join(f"line {number} of a long output" for number in range(4_000))
NAMES = (
    "../../../etc/passwd",
    "..%2f..%2fetc",
    "/etc/passwd",
    "a\0b",
    "CON",
    "n" * 300,
    "tool_result/../../x",
    "\u202e/..",
)
PATHS = (
    "/v1/offload/",
    "/v1/offload/../../etc/passwd",
    "/v1/offload/%2e%2e%2fetc%2fpasswd",
    "/v1/offload/..%5c..%5cboot.ini",
    "/v1/offload/" + "%00" * 32,
    "/v1/offload/" + "x" * 300,
    "/v1/offload/CON",
    "/v1/offload/" + "0" * 31 + "g",
    "/v1/offload/" + "0" * 33,
)


async def test_f11_a_path_in_an_id_is_an_id_of_nobody() -> None:
    """F11: byte for byte the answer to one that is well formed."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, raw_client(proxy) as client:
        unknown = await raw_get(client, "/v1/offload/" + "0" * 32, BOB)
        answers = [await raw_get(client, path, BOB) for path in PATHS]

    assert unknown.startswith(b"http/1.1 404")
    assert answers == [unknown] * len(PATHS)


async def test_f11_names_of_tools_and_calls_are_no_names_of_files(tmp_path: Path) -> None:
    """F11: long results of tools with such names are kept under ids of ours, in one folder."""
    archive = tmp_path / "inner" / "archive"
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, archive={"enabled": True, "dir": archive}) as proxy,
    ):
        for name in NAMES:
            await cut_result(proxy, model, name)

    written = list(files_below(tmp_path))
    results = [path for path in written if path.parent == archive / "tool_result"]
    assert len([path for path in results if ID.fullmatch(path.stem)]) == len(NAMES)
    assert all(path.is_relative_to(archive) for path in written)


async def test_f11_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """F11: nothing is written where it leads, and the request is served."""
    archive, elsewhere = tmp_path / "archive", tmp_path / "elsewhere"
    link(archive / "tool_result", elsewhere)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, archive={"enabled": True, "dir": archive}) as proxy,
    ):
        await cut_result(proxy, model, "read")

    assert list(files_below(elsewhere)) == []


async def test_f20_an_id_gives_its_text_to_the_tenant_it_was_issued_to() -> None:
    """F20: ids are per tenant, of 128 bits; one bit further on there is nothing."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        name = await cut_result(proxy, model, "read")
        near = f"{int(name, 16) ^ 1:032x}"
        guesses = [near, *(secrets.token_hex(16) for _ in range(50))]
        own = await fetched(proxy, ALICE, [name, *guesses])
        foreign = await fetched(proxy, BOB, [name, *guesses])

    assert own == [LONG + "read", *[None] * 51]
    assert foreign == [None] * 52


async def test_f20_an_id_that_a_model_names_brings_nothing_into_a_conversation() -> None:
    """F20: the proxy acts on no id in a conversation; a tenant asks for it, by its own key."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        name = await cut_result(proxy, model, "read")
        said = f"[Tool output truncated: omitted 9 chars, offload id {name}] /v1/offload/{name}"
        await send(proxy, BOB, [user(said), {"role": "assistant", "content": said}, user(said)])
        sent = model.requests[-1].body.decode()

    assert sent.count(name) == 6
    assert "line 1999 of a long output" not in sent


async def test_f20_the_same_text_has_another_id_for_another_tenant() -> None:
    """F20: an id tells nobody that somebody else has the same text."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        names = [await cut_result(proxy, model, "read", key) for key in (ALICE, BOB, ALICE)]

    assert names[0] == names[2]
    assert names[0] != names[1]


async def cut_result(
    proxy: Proxy,
    model: FakeModel,
    tool: str,
    key: str = ALICE,
    *,
    headers: dict[str, str] | None = None,
) -> str:
    """Send a result that is too long; return the id by which the upstream is told of it."""
    call: Fields = {"id": tool, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    messages = [
        user("Read it."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": tool, "content": LONG + tool},
    ]
    await send(proxy, key, messages, headers)
    cut = json.loads(model.requests[-1].body)["messages"][-1]["content"]
    (name,) = set(ID.findall(cut))
    return str(name)


async def send(
    proxy: Proxy, key: str, messages: list[Any], headers: dict[str, str] | None = None
) -> None:
    async with http_client(proxy, headers=headers or bearer(key)) as client:
        answer = await client.post(CHAT, json={"model": "fake", "messages": messages})
    assert answer.status_code == 200


async def fetched(proxy: Proxy, key: str, names: list[str]) -> list[str | None]:
    """Return what a tenant gets by ids."""
    async with http_client(proxy, headers=bearer(key)) as client:
        answers = [await client.get(f"/v1/offload/{name}") for name in names]
    return [answer.text if answer.status_code == 200 else None for answer in answers]


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def link(path: Path, target: Path) -> None:
    """Make a link to a new folder."""
    target.mkdir()
    path.parent.mkdir(mode=0o700)
    path.symlink_to(target)
