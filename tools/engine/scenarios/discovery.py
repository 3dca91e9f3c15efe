"""The proxy finds out the engine's window by itself."""

from tools.engine.client.asking import asking_through_the_proxy
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.findings import Finding
from tools.engine.serving import WINDOW, Engine


async def discovery(engine: Engine) -> list[Finding]:
    """Ask the proxy which window it knows, before any chat."""
    question = {"model": engine.model, "messages": [SYSTEM, *Talk(1).question()]}
    async with asking_through_the_proxy(engine) as asker:
        listed = (await asker.client.get("/v1/models")).json()["data"][0]
        window = (await asker.client.post("/v1/chat/explain", json=question)).json()["window"]
    found = f"{window['tokens']} ({window['source']})"
    return [
        Finding(
            "`max_model_len` in `/v1/models` through the proxy",
            str(listed["max_model_len"]),
            str(WINDOW),
            listed["max_model_len"] == WINDOW,
        ),
        Finding(
            "window that `/v1/chat/explain` tells",
            found,
            f"{WINDOW} (discovery)",
            found == f"{WINDOW} (discovery)",
        ),
    ]
