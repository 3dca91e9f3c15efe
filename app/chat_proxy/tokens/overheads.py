"""Counting rules by model and server: encoding, template overhead, media and tools."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from chat_proxy.tokens.calibration.vocabularies import (
    EXACT,
    UNKNOWN,
    splits_digits,
    vocabulary_of,
)
from chat_proxy.tokens.images.tokens import DEFAULT_IMAGE_TOKENS, image_family_of, is_image_family
from chat_proxy.tokens.model_names import base_names, plain_name
from chat_proxy.tokens.tiktoken_counter import ENCODINGS

ToolsStyle = Literal["json", "typescript"]
UpstreamKind = Literal["openai", "vllm", "sglang", "llama.cpp", "ollama", "unknown"]

DEFAULT_ENCODING: Final = "o200k_base"

_OLD_OPENAI = re.compile(r"gpt-4(?![.o\d])|gpt-3[.]?5|text-embedding-")
_NEW_OPENAI = re.compile(r"(chatgpt|gpt)-[4-9]|o[1-9](?![a-z\d])|computer-use-|codex-mini")
_GPT_OSS = re.compile(r"gpt-oss")
_OPEN_SERVERS: Final = frozenset(("vllm", "sglang", "llama.cpp", "ollama"))


@dataclass(frozen=True, slots=True)
class CountingRules:
    """The rules for counting a model's prompts; the defaults fit open-weight templates."""

    encoding: str = DEFAULT_ENCODING
    single_digits: bool = False
    """Whether each digit is a separate token; the encoding itself groups up to three."""
    message_tokens: int = 5
    """Tokens around each message, including its role."""
    reply_tokens: int = 3
    """Tokens that begin the reply."""
    tool_call_tokens: int = 8
    """Tokens around each tool call."""
    tools_style: ToolsStyle = "json"
    image_family: str | None = None
    image_tokens: int = DEFAULT_IMAGE_TOKENS
    """Tokens of an image of unknown size or family."""
    learns_images: bool = False
    """Whether the family was found by the upstream's reports and is tested by further ones."""
    document_tokens: int = 3_000
    audio_tokens: int = 1_000
    video_tokens: int = 8_000
    vocabulary: str = UNKNOWN
    """What scripts cost until the upstream's own counts are known."""

    @property
    def renders_schema(self) -> bool:
        """Whether the schema of a response format is part of the prompt, as with OpenAI."""
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
    """Return the rules: from the registry first, then from the model name, then the defaults.

    A well-known name counts as OpenAI's model unless an open server serves it: operators give their
    own models such names. Unknown registry values are ignored. An encoding from the registry is
    used unmodified, without `single_digits`.
    """
    name = plain_name(model_name)
    registry_encoding = encoding if encoding in ENCODINGS else None
    registry_family = image_family if image_family and is_image_family(image_family) else None
    family_rules = _family_rules(name, upstream_kind)
    vocabulary = family_rules.vocabulary or vocabulary_of(model_name)
    return CountingRules(
        encoding=registry_encoding or _encoding_of(name, upstream_kind) or default_encoding,
        single_digits=registry_encoding is None and splits_digits(vocabulary),
        message_tokens=family_rules.message_tokens,
        tools_style=family_rules.tools_style,
        image_family=registry_family or image_family_of(model_name),
        image_tokens=image_tokens,
        vocabulary=vocabulary,
    )


def refined(
    rules: CountingRules, bases: tuple[str, ...], *, keeps_digits: bool = False
) -> CountingRules:
    """Return the rules with what the names of the model's bases tell, if its own tells nothing.

    `keeps_digits` leaves numbers as the encoding has them.
    """
    names = base_names(bases)
    vocabulary = rules.vocabulary or next(filter(None, map(vocabulary_of, names)), UNKNOWN)
    family = rules.image_family or next(filter(None, map(image_family_of, names)), None)
    if (vocabulary, family) == (rules.vocabulary, rules.image_family):
        return rules
    digits = rules.single_digits or (splits_digits(vocabulary) and not keeps_digits)
    return replace(rules, vocabulary=vocabulary, image_family=family, single_digits=digits)


_OPENAI_RULES: Final = CountingRules(message_tokens=4, tools_style="typescript", vocabulary=EXACT)
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
