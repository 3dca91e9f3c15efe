# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""pydantic-ai; run by the client's own interpreter: `python pydantic_ai.py SCENARIO`."""

import asyncio
import os
import sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # this file's own name must not hide the package

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.usage import UsageLimits

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=PROXY, api_key=KEY))
# end of configuration

agent = Agent(model, instructions="Read the pages.")


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


@agent.tool_plain
def read_page(number: int) -> str:
    """Read a page."""
    return page(number)


def hello():
    print(agent.run_sync(TASK).output)


def streaming():
    async def listen():
        async with agent.run_stream(TASK) as answer:
            print("".join([piece async for piece in answer.stream_text(delta=True)]))

    asyncio.run(listen())


def tools():
    print(agent.run_sync(TASK, usage_limits=UsageLimits(request_limit=200)).output)


def image():
    picture = BinaryContent(Path("picture.png").read_bytes(), media_type="image/png")
    print(agent.run_sync([TASK, picture]).output)


def overflow():
    history = []
    for number in range(1, 31):
        history.append(ModelRequest([UserPromptPart(page(number))]))
        history.append(ModelResponse([TextPart("Noted.")]))
    print(agent.run_sync(TASK, message_history=history).output)


def abort():
    async def listen():
        async with agent.run_stream(TASK) as answer:
            async for piece in answer.stream_text(delta=True):
                if piece:
                    break
            os._exit(0)  # as a program that is ended while it listens

    asyncio.run(listen())


globals()[sys.argv[1]]()
