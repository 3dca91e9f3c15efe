"""The failures of docs/troubleshooting.md: what each is called, what helps, how it comes about."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.troubleshooting import situations
from tests.troubleshooting.seen import Seen


@dataclass(frozen=True)
class Situation:
    """A failure: its name, what to do about it, and how it comes about."""

    title: str
    remedy: str
    show: Callable[[], Awaitable[Seen]]


SITUATIONS = (
    Situation(
        "The upstream is down",
        "Start the model server, or correct `CHAT_PROXY_UPSTREAM_BASE_URL`; `chat-proxy "
        "check-config` asks it.",
        situations.upstream_down,
    ),
    Situation(
        "The upstream does not accept the key",
        "Send the upstream's key from the client, or set `CHAT_PROXY_UPSTREAM_API_KEY`, "
        "which replaces it.",
        situations.wrong_key,
    ),
    Situation(
        "The upstream's URL is wrong",
        "`CHAT_PROXY_UPSTREAM_BASE_URL` is the address with its version, usually `…/v1`, "
        "and nothing behind it.",
        situations.wrong_url,
    ),
    Situation(
        "The client's base URL lacks `/v1`",
        "Set the client's base URL to `http://…:8100/v1`. Anthropic's clients want it "
        "without `/v1`.",
        situations.no_prefix,
    ),
    Situation(
        "The port is taken",
        "Another program, perhaps another proxy, listens there: stop it, or set "
        "`CHAT_PROXY_SERVER_PORT`.",
        situations.port_taken,
    ),
    Situation(
        "The data folder cannot be used",
        "Chats go on, but nothing is remembered after a restart: free the disk, or "
        "correct `CHAT_PROXY_STORE_URL`.",
        situations.no_disk,
    ),
    Situation(
        "The upstream does not know the model",
        "Use a name that `GET /v1/models` lists.",
        situations.unknown_model,
    ),
    Situation(
        "Instructions and tools are larger than the window",
        "Start the model with a larger window, or switch tools off in the client; no "
        "proxy can leave them out.",
        situations.large_tools,
    ),
    Situation(
        "The summary model refuses",
        "The chat goes on without a summary; it is tried again after 1, 5 and 15 minutes."
        " The words are the model server's own.",
        situations.summary_refused,
    ),
    Situation(
        "The breaker is open",
        "After repeated failures requests fail at once, for 30 seconds at first. It "
        "closes as soon as the upstream answers.",
        situations.breaker_open,
    ),
    Situation(
        "A value in `.env` is wrong", "Correct the line that is named.", situations.bad_env_file
    ),
    Situation(
        "A setting does not exist",
        "Correct the name; a setting that is not known is never ignored.",
        situations.unknown_setting,
    ),
    Situation(
        "Redis is away",
        "Chats go on in the memory of each process, and Redis is used again as soon as it answers. "
        "`CHAT_PROXY_STORE_REQUIRED=true` refuses to start instead.",
        situations.redis_away,
    ),
    Situation(
        "The client sends no key",
        "Configure one of `CHAT_PROXY_AUTH_KEYS` as the client's API key.",
        situations.no_client_key,
    ),
    Situation(
        "An image is too large",
        "Send a smaller image, or raise `CHAT_PROXY_LIMITS_MAX_BODY_BYTES` (32 MiB; 1 MiB"
        " in this example).",
        situations.large_image,
    ),
)
