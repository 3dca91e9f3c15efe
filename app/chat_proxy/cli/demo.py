"""`chat-proxy demo`: the proxy in front of the demo model, with nothing else installed."""

import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

import uvicorn

from chat_proxy.cli.serve import listen, serve
from chat_proxy.config.environment import read_settings
from chat_proxy.config.settings import Settings
from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.model.template import IMAGE_TOKENS
from chat_proxy.demo.real.model import NAME, WINDOW, running_real_model
from chat_proxy.demo.story.tell import MODEL, Stage, run_story
from chat_proxy.errors import BadConfiguration

CLOSED = -1
THREAD_END_SECONDS = 2.0
BYTES_PER_WINDOW_TOKEN = 1
WINDOWS = {False: 4_096, True: WINDOW}
"""The window of the demo model, and of the real one."""

WHAT_TO_TRY = """\
chat-proxy demo: a {window}-token {kind} model behind the proxy at
{url}

Try, in another terminal:

  curl {url}/chat/completions \\
    -H 'content-type: application/json' \\
    -d '{{"model": "{model}", "stream": true,
         "messages": [{{"role": "user", "content": "Hello!"}}]}}'

  python -c 'from openai import OpenAI
client = OpenAI(base_url="{url}", api_key="anything")
for chunk in client.chat.completions.create(
    model="{model}", stream=True,
    messages=[{{"role": "user", "content": "Hello!"}}]
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)'

  curl {root}/metrics

or open {root}/dashboard

Ctrl-C stops it.
"""


def run(options: Namespace) -> int:
    """Run the command."""
    window = WINDOWS[options.real] if options.window is None else options.window
    if window < 1:
        raise BadConfiguration(f"--window {window}: must be at least 1")
    settings = read_settings(env_file=None)
    return run_demo(settings, window, story=options.story, is_real=options.real)


def run_demo(
    settings: Settings, window: int, *, story: bool | None = None, is_real: bool = False
) -> int:
    """Serve the demo model, or a real one, and the proxy in front of it until Ctrl-C.

    The story is shown meanwhile if `story` is true, or if it is None and stdout is a terminal.
    """
    with running_real_model(window) if is_real else running_model(DemoModel(window)) as model_url:
        listener = listen(settings.server.host, settings.server.port)
        host, port = listener.getsockname()[:2]
        root = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        stage = stage_of(settings, root, window, NAME if is_real else MODEL)
        kind = "real" if is_real else "demo"
        sys.stdout.write(
            WHAT_TO_TRY.format(
                window=window, kind=kind, model=stage.model, url=f"{root}/v1", root=root
            )
        )
        sys.stdout.flush()
        chosen = for_demo(settings, model_url)
        if not (sys.stdout.isatty() if story is None else story):
            return serve(chosen, {}, listener, is_announced=False)
        story_thread = start_story(stage, listener)
        try:
            return serve(for_story(chosen, window), {}, listener, is_announced=False)
        finally:
            listener.close()
            story_thread.join(THREAD_END_SECONDS)


def for_demo(settings: Settings, model_url: str) -> Settings:
    """Return the settings with the demo model as the only upstream, and nothing stored."""
    upstream = settings.upstream.model_copy(update={"base_url": model_url, "api_key": None})
    registry = settings.registry.model_copy(update={"file": Path("/nonexistent/registry.json")})
    store = settings.store.model_copy(update={"url": "memory:"})
    archive = settings.archive.model_copy(update={"files": False})
    sections = {"upstream": upstream, "registry": registry, "store": store, "archive": archive}
    if "image_token_estimate" not in settings.media.model_fields_set:
        # As an operator would set it who knows the model: no count has to be corrected later.
        media = settings.media.model_copy(update={"image_token_estimate": IMAGE_TOKENS})
        return settings.model_copy(update={**sections, "media": media})
    return settings.model_copy(update=sections)


def for_story(settings: Settings, window: int) -> Settings:
    """Return settings in which tool results fit a small window, and no log disturbs the table."""
    tools, log = settings.tools, settings.log
    if "max_bytes" not in tools.model_fields_set:
        max_bytes = max(1, min(tools.max_bytes, window * BYTES_PER_WINDOW_TOKEN))
        tools = tools.model_copy(update={"max_bytes": max_bytes})
    if "level" not in log.model_fields_set and sys.stderr.isatty():
        log = log.model_copy(update={"level": "error"})
    return settings.model_copy(update={"tools": tools, "log": log})


def stage_of(settings: Settings, root: str, window: int, model: str = MODEL) -> Stage:
    """Return the address, the key, the window and the model that the story uses."""
    keys = settings.auth.keys
    api_key = keys[0].get_secret_value() if keys else "anything"
    return Stage(root, api_key, window, settings.dashboard.enabled, model)


def start_story(stage: Stage, listener: socket) -> threading.Thread:
    """Run the story in its own thread, as long as the server listens."""

    def is_up() -> bool:
        return listener.fileno() != CLOSED

    thread = threading.Thread(target=run_story, args=(stage, sys.stdout, is_up), daemon=True)
    thread.start()
    return thread


@contextmanager
def running_model(model: DemoModel) -> Iterator[str]:
    """Serve the model on a free port in its own thread, until the block ends; give its base URL.

    The thread is ended: an event loop of uvloop that outlives the interpreter crashes the process.
    """
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(model, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), name="model", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(THREAD_END_SECONDS)
