# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""smolagents; run by the client's own interpreter: `python smolagents.py SCENARIO`."""

import os
import sys
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # this file's own name must not hide the package

from smolagents import ChatMessage, ToolCallingAgent, tool

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from smolagents import OpenAIModel

model = OpenAIModel(MODEL, api_base=PROXY, api_key=KEY)
# end of configuration


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


@tool
def read_page(number: int) -> str:
    """Read a page.

    Args:
        number: Which one.
    """
    return page(number)


def said(role, *content):
    return ChatMessage(role, list(content))


def text(words):
    return {"type": "text", "text": words}


def hello():
    print(model([said("user", text(TASK))]).content)


def streaming():
    print(
        "".join(piece.content or "" for piece in model.generate_stream([said("user", text(TASK))]))
    )


def tools():
    print(ToolCallingAgent([read_page], model, max_steps=200).run(TASK))


def image():
    from PIL import Image

    picture = {"type": "image", "image": Image.open("picture.png")}
    print(model([said("user", text(TASK), picture)]).content)


def overflow():
    history = []
    for number in range(1, 31):
        history += [said("user", text(page(number))), said("assistant", text("Noted."))]
    print(model([*history, said("user", text(TASK))]).content)


def abort():
    for piece in model.generate_stream([said("user", text(TASK))]):
        if piece.content:
            return


globals()[sys.argv[1]]()
