"""`chat-proxy launch CLIENT -- …`: start a coding agent against the running proxy."""

import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address

import httpx

from chat_proxy.cli.launch.clients import CLIENTS, Client, Start, Target
from chat_proxy.config.environment import read_settings, read_variables
from chat_proxy.config.settings import PREFIX, Settings
from chat_proxy.errors import BadConfiguration

PROBE_SECONDS = 10
LOOPBACKS = {4: "127.0.0.1", 6: "::1"}
NO_KEY = "chat-proxy"
"""What is sent as a key where none is needed: clients want one."""
MASKED = "***"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def run(options: Namespace) -> int:
    """Run the command: the client takes this process's place."""
    client = CLIENTS[options.client]
    variables = read_variables(env_file=None)
    program = shutil.which(client.program, path=variables.get("PATH"))
    if program is None:
        raise BadConfiguration(
            f"{client.program}: is not installed; npm install --global {client.package}"
        )
    settings = read_settings()
    root = (options.url or address_of(settings)).rstrip("/").removesuffix("/v1")
    key = key_for(client, settings if options.url is None else None, variables)
    model = model_to_use(root, key, options.model)
    start = client.start(Target(root, model))
    added = {**start.variables, **keys_to_set(client, key, variables), **around(root, variables)}
    sys.stderr.write("".join(f"{line}\n" for line in told(client, added, start)))
    sys.stderr.flush()
    passed = {name: value for name, value in variables.items() if not name.startswith(PREFIX)}
    command = [program, *start.arguments, *options.passed_on]
    os.execve(program, command, {**passed, **added})  # nosec B606  # noqa: S606 - the user's own program


def address_of(settings: Settings) -> str:
    """Return where a proxy with these settings is reached from this machine."""
    host = settings.server.host
    with suppress(ValueError):  # a name
        address = ip_address(host)
        host = LOOPBACKS[address.version] if address.is_unspecified else host
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{settings.server.port}"


def key_for(client: Client, settings: Settings | None, variables: Mapping[str, str]) -> str:
    """Return the key to send: one of the proxy's own, else what the client has, else none."""
    if settings is not None and settings.auth.keys:
        return settings.auth.keys[0].get_secret_value()
    names = (client.key, *client.other_keys)
    return next((variables[name] for name in names if variables.get(name)), "")


def keys_to_set(client: Client, key: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the key; one that the client would use anyway is not repeated."""
    names = (client.key, *client.other_keys)
    if key and key in (variables.get(name) for name in names):
        return {}
    others = {name: "" for name in client.other_keys if variables.get(name)}
    return {client.key: key or NO_KEY, **others}


def around(root: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what keeps a client from asking a web proxy for this address."""
    names = {name.lower() for name in variables}
    if not names.intersection(_PROXIES):
        return {}
    host = httpx.URL(root).host
    return {
        name: ",".join(filter(None, (variables.get(name), host)))
        for name in ("NO_PROXY", "no_proxy")
    }


def model_to_use(root: str, key: str, wanted: str | None) -> str:
    """Return the model that is asked for, or the first that the proxy's upstream has.

    Raise BadConfiguration if the proxy does not answer, or if there is no model.
    """
    try:
        with httpx.Client(base_url=root, trust_env=False, timeout=PROBE_SECONDS) as client:
            is_up = client.get("/healthz").status_code == 200
            headers = {"authorization": f"Bearer {key or NO_KEY}"}
            answer = client.get("/v1/models", headers=headers) if is_up and not wanted else None
    except (httpx.HTTPError, httpx.InvalidURL):
        is_up = False
        answer = None
    if not is_up:
        raise BadConfiguration(f"{root}: no proxy answers; start it by `chat-proxy serve`")
    return wanted or first_model(answer)


def first_model(answer: httpx.Response | None) -> str:
    """Return the first model of a listing."""
    try:
        names = [card["id"] for card in answer.json()["data"]] if answer is not None else []
    except (ValueError, KeyError, TypeError):
        names = []
    if not names or not isinstance(names[0], str):
        status = "" if answer is None else f" (status {answer.status_code})"
        raise BadConfiguration(f"the proxy lists no model{status}; name one by --model")
    return names[0]


def told(client: Client, added: Mapping[str, str], start: Start) -> Iterator[str]:
    """Yield what is set, as a shell would write it; keys are masked."""
    yield f"chat-proxy: {client.program} is started with"
    for name, value in added.items():
        is_key = value and name in (client.key, *client.other_keys)
        yield f"  {name}={MASKED if is_key else shlex.quote(value)}"
    if start.arguments:
        yield f"  {shlex.join((client.program, *start.arguments))} …"
