"""What counts beside the texts themselves, by the model and the server that renders the prompt."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from chat_proxy.tokens.images.tokens import DEFAULT_IMAGE_TOKENS, image_family_of, is_image_family
from chat_proxy.tokens.model_names import plain_name
from chat_proxy.tokens.tiktoken_counter import ENCODINGS

ToolsStyle = Literal["json", "typescript"]
UpstreamKind = Literal["openai", "vllm", "sglang", "llama.cpp", "ollama", "unknown"]

DEFAULT_ENCODING: Final = "o200k_base"

_OLD_OPENAI = re.compile(r"gpt-4(?![.o\d])|gpt-3[.]?5|text-embedding-")
_NEW_OPENAI = re.compile(r"(chatgpt|gpt)-[4-9]|o[1-9](?![a-z\d])|computer-use-|codex-mini")
_GPT_OSS = re.compile(r"gpt-oss")
# Those who tune a model put their own name before its. Mistral's SentencePiece vocabularies are
# meant as well as Tekken: neither has a token of two digits.
_SINGLE_DIGITS = re.compile(
    r"(?<![a-z\d])(qwen|qwq|qvq"
    r"|mistral|mixtral|ministral|magistral|devstral|codestral|mathstral|pixtral|voxtral)"
)
_OPEN_SERVERS: Final = frozenset(("vllm", "sglang", "llama.cpp", "ollama"))


@dataclass(frozen=True, slots=True)
class CountingRules:
    """How a model's prompts are counted; the defaults are those of open-weight templates."""

    encoding: str = DEFAULT_ENCODING
    single_digits: bool = False
    """Whether each digit is a token of its own, where the encoding takes up to three as one."""
    message_tokens: int = 5
    """Around each message, its role included."""
    reply_tokens: int = 3
    """Where the answer begins."""
    tool_call_tokens: int = 8
    """Around each call of a tool."""
    tools_style: ToolsStyle = "json"
    image_family: str | None = None
    image_tokens: int = DEFAULT_IMAGE_TOKENS
    """An image of unknown extent or family."""
    document_tokens: int = 3_000
    audio_tokens: int = 1_000
    video_tokens: int = 8_000
    text_factor: float = 1.1
    """What texts are multiplied by until the upstream's own counts are known."""

    @property
    def renders_schema(self) -> bool:
        """Whether a response format's schema is part of the prompt, as with OpenAI."""
        return self.tools_style == "typescript"


def rules_for(
    model_name: str,
    upstream_kind: UpstreamKind = "unknown",
    *,
    encoding: str | None = None,
    image_family: str | None = None,
    default_encoding: str = DEFAULT_ENCODING,
    image_tokens: int = DEFAULT_IMAGE_TOKENS,
) -> CountingRules:
    """Choose the rules: the registry's words first, then what the name tells, then the defaults.

    A name counts as OpenAI's own unless an open server answers to it: operators give their models
    well-known names. A registry's word that is not known here is left aside; an encoding that it
    tells is taken as it is.
    """
    name = plain_name(model_name)
    told = encoding if encoding in ENCODINGS else None
    family = image_family if image_family and is_image_family(image_family) else None
    own = _family_rules(name, upstream_kind)
    return CountingRules(
        encoding=told or _encoding_of(name, upstream_kind) or default_encoding,
        single_digits=told is None and bool(_SINGLE_DIGITS.search(name)),
        message_tokens=own.message_tokens,
        tools_style=own.tools_style,
        image_family=family or image_family_of(model_name),
        image_tokens=image_tokens,
        text_factor=own.text_factor,
    )


_OPENAI_RULES: Final = CountingRules(message_tokens=4, tools_style="typescript", text_factor=1.0)
_OPEN_RULES: Final = CountingRules()


@lru_cache(maxsize=1_024)
def _family_rules(name: str, kind: UpstreamKind) -> CountingRules:
    if _GPT_OSS.match(name) or kind == "openai" or _is_openai(name, kind):
        return _OPENAI_RULES
    return _OPEN_RULES


@lru_cache(maxsize=1_024)
def _encoding_of(name: str, kind: UpstreamKind) -> str | None:
    if _GPT_OSS.match(name):
        return "o200k_base"
    if not _is_openai(name, kind):
        return None
    return "cl100k_base" if _OLD_OPENAI.match(name) else "o200k_base"


def _is_openai(name: str, kind: UpstreamKind) -> bool:
    return kind not in _OPEN_SERVERS and bool(_OLD_OPENAI.match(name) or _NEW_OPENAI.match(name))
