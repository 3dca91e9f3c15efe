# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""OpenAI Agents SDK; run by the client's own interpreter: `python openai_agents.py SCENARIO`."""

import asyncio
import base64
import os
import sys
from pathlib import Path

from agents import Agent, Runner, function_tool

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from agents import AsyncOpenAI, OpenAIChatCompletionsModel, set_tracing_disabled

set_tracing_disabled(True)
model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=PROXY, api_key=KEY))
# end of configuration


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


@function_tool
def read_page(number: int) -> str:
    """Read a page."""
    return page(number)


agent = Agent("reader", instructions="Read the pages.", tools=[read_page], model=model)


def show(asked):
    print(Runner.run_sync(agent, asked, max_turns=200).final_output)


async def listen(until):
    answer = Runner.run_streamed(agent, TASK)
    async for event in answer.stream_events():
        if event.type == "raw_response_event" and until(event.data):
            os._exit(0)  # as a program that is ended while it listens
    print(answer.final_output)


def hello():
    show(TASK)


def streaming():
    asyncio.run(listen(lambda _: False))


def tools():
    show(TASK)


def image():
    data = base64.b64encode(Path("picture.png").read_bytes()).decode()
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    show([{"role": "user", "content": [{"type": "input_text", "text": TASK}, picture]}])


def overflow():
    history = []
    for number in range(1, 31):
        history.append({"role": "user", "content": page(number)})
        history.append({"role": "assistant", "content": "Noted."})
    show([*history, {"role": "user", "content": TASK}])


def abort():
    asyncio.run(listen(lambda event: event.type == "response.output_text.delta"))


globals()[sys.argv[1]]()
