"""The address of a client is logged only if the operator wants it."""

import pytest

from tests.support.conversations import listening
from tests.support.fake_model import polite
from tests.support.live import eventually
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("wanted", "logged"), [(True, "127.0.0.1"), (False, None)])
async def test_the_clients_address_is_logged_if_it_is_wanted(
    wanted: bool, logged: str | None
) -> None:
    with listening() as heard:
        async with meeting(polite, log={"client_address": wanted}) as met:
            await met.ask()
            await eventually(lambda: heard.lines("request"))

    (line,) = heard.lines("request")
    assert line.get("client") == logged
    assert line["model"] == "fake"
