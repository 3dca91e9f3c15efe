"""Context windows of well-known models, for upstreams that report none.

Patterns have the names whose window is the same wherever the model is served under its public
name. windows.json has hosted models by their vendors' names (`make windows`) and comes first.
Registry, discovery and windows learned from an overflow take precedence. A name that implies no
window gives None, never a guess.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from chat_proxy.tokens.model_names import is_local_tag, plain_name


class Known(NamedTuple):
    """A window, and the limit of the prompt if that is smaller."""

    window: int
    input_limit: int | None = None


_K: Final = 1_024
_DATE: Final = re.compile(r"-(20\d{6}|20\d\d-\d\d-\d\d|latest)$")
_DECIMAL_128K: Final = Known(128_000)
_GPT_5: Final = Known(400_000, input_limit=272_000)
_CLAUDE: Final = Known(200_000)
_128K: Final = Known(128 * _K)
_256K: Final = Known(256 * _K)
_1M: Final = Known(1_024 * _K)

# The first pattern that matches the bare name is used, so narrower ones come before wider ones.
_TABLE: Final = tuple(
    (re.compile(pattern), known)
    for pattern, known in (
        (r"gpt-4[.]1", Known(1_047_576)),
        (r"(chatgpt-|gpt-)4o(?!.*(audio|realtime|transcribe|tts))", _DECIMAL_128K),
        (r"gpt-4[.]5|gpt-4-turbo|gpt-4-(1106|0125)-preview", _DECIMAL_128K),
        (r"gpt-4-32k", Known(32_768)),
        (r"gpt-4(-0314|-0613)?$", Known(8_192)),
        (r"gpt-3[.]?5-turbo(?!-(instruct|0301|0613))", Known(16_385)),
        (r"gpt-5([.][1-3])?-chat", _DECIMAL_128K),
        (r"gpt-5(-(mini|nano|codex|pro)|[.][123](-codex|-pro)?)?(-\d{4}-\d\d-\d\d)?$", _GPT_5),
        (r"o1-(preview|mini)", _DECIMAL_128K),
        (r"o[134](?![a-z\d])", Known(200_000)),
        (r"gpt-oss-(20|120)b", _128K),
        (r"claude-(2[.]1|3|opus|sonnet|haiku)", _CLAUDE),
        (r"gemini-1[.]5-pro", Known(2_097_152)),
        (r"gemini-(1[.]5-flash|2[.][05]-(flash|pro)|3)(?!.*(image|tts|live|audio))", _1M),
        (r"qwen3-coder-(480b|30b|next)", _256K),
        (r"qwen3-\d+(\.\d+)?b-?(a\d+b)?-(instruct|thinking)-2507", _256K),
        (r"qwen3-next-80b", _256K),
        (r"qwen3-vl-\d+b", _256K),
        (r"qwen3-(0[.]6|1[.]7|4|8|14|32)b|qwen3-(30b-a3b|235b-a22b)", Known(32_768)),
        (r"qwen3[.][56]-\d+b", _256K),
        (r"qwen2[.]5-\d+b-instruct-1m", Known(1_010_000)),
        (r"qwen2[.]5-(coder-)?(0[.]5|1[.]5|3|7|14|32|72)b", Known(32_768)),
        (r"qwen2[.]5-vl-\d+b", Known(128_000)),
        (r"qwen2-vl-\d+b", Known(32_768)),
        (r"(meta-)?llama-3[.][123]-\d+b", _128K),
        (r"(meta-)?llama-3-(8|70)b(-instruct)?$", Known(8_192)),
        (r"(meta-)?llama-2-\d+b", Known(4_096)),
        (r"(meta-)?llama-4-maverick", _1M),
        (r"(meta-)?llama-4-scout", Known(10 * 1_024 * _K)),
        (r"deepseek-(v3([.][12])?|r1)(-0324|-0528|-terminus|-exp)?$", _128K),
        (r"deepseek-(chat|reasoner)$", Known(128_000)),
        (r"mistral-7b-instruct-v0[.][23]|mixtral-8x7b", Known(32_768)),
        (r"mixtral-8x22b", Known(65_536)),
        (r"(open-)?mistral-nemo", _128K),
        (r"mistral-small-(3[.][12]-)?24b-instruct-2503|mistral-small-3[.][12]", _128K),
        (r"mistral-small-24b-instruct-2501", Known(32_768)),
        (r"devstral-small-25|mistral-large-(instruct-)?24(07|11)", _128K),
        (r"gemma-3-1b", Known(32_768)),
        (r"gemma-3-(4|12|27)b", _128K),
        (r"gemma-3n", Known(32_768)),
        (r"gemma-2-\d+b", Known(8_192)),
        (r"phi-4-mini|phi-3[.]5-(mini|moe|vision)|phi-3-(mini|small|medium)-128k", _128K),
        (r"phi-4$", Known(16_384)),
        (r"phi-3-(mini|medium)-4k", Known(4_096)),
        (r"glm-4[.]6(?!v)", Known(200_000)),
        (r"glm-4[.]5(?!v)", _128K),
        (r"kimi-k2-instruct-0905|kimi-k2-thinking", _256K),
        (r"kimi-k2-instruct$", _128K),
        (r"command-r(-plus)?-08-2024", _128K),
    )
)


def known_window(model_name: str) -> int | None:
    """Return the window that the public name implies, for prompt and reply together."""
    known = _find(model_name)
    return known.window if known else None


def known_input_limit(model_name: str) -> int | None:
    """Return the limit of the prompt alone, if it is smaller than the window."""
    known = _find(model_name)
    return known.input_limit if known else None


@lru_cache(maxsize=1_024)
def _find(model_name: str) -> Known | None:
    name = plain_name(model_name)
    if is_local_tag(name):
        return None
    undated = without_date(name)
    for spelling in (name, undated, undated.replace(".", "-")):
        if hosted := _hosted().get(spelling):
            return Known(hosted)
    return by_pattern(name)


def by_pattern(name: str) -> Known | None:
    """Return what the first pattern for a bare name knows."""
    return next((known for pattern, known in _TABLE if pattern.match(name)), None)


def without_date(name: str) -> str:
    """Return a bare name without its release: `claude-opus-4-6` of `claude-opus-4-6-20260205`."""
    return _DATE.sub("", name)


@cache
def _hosted() -> dict[str, int]:
    """Return the windows of hosted models by bare name."""
    file = Path(__file__).with_name("windows.json")
    windows: dict[str, int] = orjson.loads(file.read_bytes())["windows"]
    return windows
