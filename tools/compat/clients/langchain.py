# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""LangChain; run by the client's own interpreter: `python langchain.py SCENARIO`."""

import base64
import os
import sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # this file's own name must not hide the package

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url=PROXY, api_key=KEY, model=MODEL)
# end of configuration


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


@tool
def read_page(number: int) -> str:
    """Read a page."""
    return page(number)


def hello():
    print(model.invoke(TASK).text)


def streaming():
    print("".join(piece.text for piece in model.stream(TASK)))


def tools():
    agent = create_agent(model, [read_page], system_prompt="Read the pages.")
    asked = {"messages": [HumanMessage(TASK)]}
    print(agent.invoke(asked, {"recursion_limit": 200})["messages"][-1].text)


def image():
    data = base64.b64encode(Path("picture.png").read_bytes()).decode()
    picture = {"type": "image", "base64": data, "mime_type": "image/png"}
    print(model.invoke([HumanMessage([{"type": "text", "text": TASK}, picture])]).text)


def overflow():
    history = []
    for number in range(1, 31):
        history += [HumanMessage(page(number)), AIMessage("Noted.")]
    print(model.invoke([*history, HumanMessage(TASK)]).text)


def abort():
    for piece in model.stream(TASK):
        if piece.text:
            return


globals()[sys.argv[1]]()
