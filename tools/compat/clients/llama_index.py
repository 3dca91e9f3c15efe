# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""LlamaIndex; run by the client's own interpreter: `python llama_index.py SCENARIO`."""

import asyncio
import os
import sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # this file's own name must not hide the package

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    api_base=PROXY,
    api_key=KEY,
    model=MODEL,
    is_chat_model=True,
    is_function_calling_model=True,
)
# end of configuration


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


def read_page(number: int) -> str:
    """Read a page."""
    return page(number)


def show(*messages):
    print(llm.chat(messages).message.content)


def hello():
    show(ChatMessage(TASK))


def streaming():
    print("".join(piece.delta for piece in llm.stream_chat([ChatMessage(TASK)])))


def tools():
    async def work():
        agent = FunctionAgent(tools=[read_page], llm=llm, system_prompt="Read the pages.")
        print(await agent.run(TASK, max_iterations=200))

    asyncio.run(work())


def image():
    picture = ImageBlock(path=Path("picture.png"), image_mimetype="image/png")
    show(ChatMessage(blocks=[TextBlock(text=TASK), picture]))


def overflow():
    history = []
    for number in range(1, 31):
        history += [ChatMessage(page(number)), ChatMessage("Noted.", role="assistant")]
    show(*history, ChatMessage(TASK))


def abort():
    for piece in llm.stream_chat([ChatMessage(TASK)]):
        if piece.delta:
            return


globals()[sys.argv[1]]()
