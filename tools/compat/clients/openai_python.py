# mypy: ignore-errors
# ruff: noqa: E402, TID251
"""openai for Python; run by the client's own interpreter: `python openai_python.py SCENARIO`."""

import base64
import json
import os
import sys
from pathlib import Path

PROXY, KEY, MODEL, TASK = (os.environ[name] for name in ("PROXY", "KEY", "MODEL", "TASK"))

# configuration
from openai import OpenAI

client = OpenAI(base_url=PROXY, api_key=KEY)
# end of configuration

READ_PAGE = {
    "type": "function",
    "function": {
        "name": "read_page",
        "description": "Read a page.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
    },
}


def ask(messages, **more):
    return client.chat.completions.create(model=MODEL, messages=messages, **more)


def user(content):
    return {"role": "user", "content": content}


def page(number):
    return Path(f"page-{number:02d}.txt").read_text(encoding="utf-8")


def hello():
    print(ask([user(TASK)]).choices[0].message.content)


def streaming():
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in ask([user(TASK)], **options):
        print(chunk.choices[0].delta.content or "" if chunk.choices else chunk.usage, end="")


def tools():
    messages = [{"role": "system", "content": "Read the pages."}, user(TASK)]
    while calls := (reply := ask(messages, tools=[READ_PAGE]).choices[0].message).tool_calls:
        messages.append(reply.model_dump(exclude_none=True))
        for call in calls:
            text = page(json.loads(call.function.arguments)["number"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    print(reply.content)


def image():
    data = base64.b64encode(Path("picture.png").read_bytes()).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    print(ask([user([{"type": "text", "text": TASK}, picture])]).choices[0].message.content)


def overflow():
    history = []
    for number in range(1, 31):
        history += [user(page(number)), {"role": "assistant", "content": "Noted."}]
    print(ask([*history, user(TASK)]).choices[0].message.content)


def abort():
    for chunk in ask([user(TASK)], stream=True):
        if chunk.choices and chunk.choices[0].delta.content:
            return


globals()[sys.argv[1]]()
