"""`chat-proxy demo`: the proxy in front of the demo model, with nothing else installed."""

import sys
import threading
from pathlib import Path
from socket import socket

import uvicorn

from app.demo.model import DemoModel
from app.serving.run import listen, serve
from app.settings import Settings

WHAT_TO_TRY = """\
chat-proxy demo: a {window}-token demo model behind the proxy at {url}

Try, in another terminal:

  curl {url}/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "demo", "messages": [{{"role": "user", "content": "Hello!"}}]}}'

  curl -N {url}/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "demo", "stream": true, "messages": [{{"role": "user", "content": "Hello!"}}]}}'

  python -c 'from openai import OpenAI
client = OpenAI(base_url="{url}", api_key="anything")
for chunk in client.chat.completions.create(
    model="demo", stream=True, messages=[{{"role": "user", "content": "Hello!"}}]
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)'

  curl {root}/metrics

Ctrl-C stops it.
"""


def run_demo(settings: Settings, window: int) -> int:
    """Serve the demo model and the proxy in front of it until Ctrl-C."""
    listener = listen(settings.server.host, settings.server.port)
    host, port = listener.getsockname()[:2]
    root = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    model_url = start_model(DemoModel(window))
    sys.stdout.write(WHAT_TO_TRY.format(window=window, url=f"{root}/v1", root=root))
    sys.stdout.flush()
    return serve(for_demo(settings, model_url), {}, listener)


def for_demo(settings: Settings, model_url: str) -> Settings:
    """Return the settings with the demo model as the one upstream, leaving nothing behind."""
    upstream = settings.upstream.model_copy(update={"base_url": model_url, "api_key": None})
    registry = settings.registry.model_copy(update={"file": Path("/nonexistent/registry.json")})
    store = settings.store.model_copy(update={"url": "memory:"})
    return settings.model_copy(update={"upstream": upstream, "registry": registry, "store": store})


def start_model(model: DemoModel) -> str:
    """Serve the model on a free port from a thread of its own; return its base URL."""
    listener = listen("127.0.0.1", 0)
    threading.Thread(target=_serve_model, args=(model, listener), daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def _serve_model(model: DemoModel, listener: socket) -> None:
    config = uvicorn.Config(model, log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listener])
