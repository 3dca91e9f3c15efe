import json

import pytest

from chat_proxy.compaction.summary.fold import fold
from chat_proxy.proxy.summaries.writing.models import SummaryModel
from chat_proxy.proxy.summaries.writing.request import QueryOptions, ride
from tests.unit.chat.shapes import says, user
from tests.unit.proxy.sessions import proxy_with

pytestmark = pytest.mark.anyio
TOOL = {"type": "function", "function": {"name": "read", "parameters": {}}}
PROMPT = [{"role": "user", "content": "Summarise."}]


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "whole"])
async def test_a_ride_has_the_recall_tool_exactly_if_the_prompt_had_it(*, is_cut: bool) -> None:
    """Tools stand at the front of most prompts: with others nothing would be cached."""
    async with proxy_with(recall={"enabled": True}) as proxy:
        talk = [user("one"), says("two"), user("three"), says("four"), user("five")]
        compaction = await proxy.request(talk, tools=[TOOL])
        client = compaction.conversation
        seen = fold(client, 2, "A summary.") if is_cut else client
        own = SummaryModel("http://x/v1", "fake", [], 8_000, "vllm", ("ride",))

        body = json.loads(ride(compaction, seen, PROMPT, QueryOptions(own, 300)))

    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == (["read", "chat_proxy_recall"] if is_cut else ["read"])
