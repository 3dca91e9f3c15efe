"""Counting rules by model and server: encoding, template overhead, media and tools."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from chat_proxy.tokens.calibration.token_costs import ENCODING as COSTS_ENCODING
from chat_proxy.tokens.calibration.token_costs import VOCABULARIES as MEASURED_VOCABULARIES
from chat_proxy.tokens.calibration.vocabularies import (
    EXACT,
    MEASURED,
    UNKNOWN,
    own_encoding_of,
    splits_digits,
    vocabulary_of,
)
from chat_proxy.tokens.images.tokens import DEFAULT_IMAGE_TOKENS, image_family_of, is_image_family
from chat_proxy.tokens.model_names import base_names, plain_name
from chat_proxy.tokens.tiktoken_counter import ENCODINGS

ToolsStyle = Literal["json", "bare", "indented", "typescript"]
UpstreamKind = Literal["openai", "vllm", "sglang", "llama.cpp", "ollama", "unknown"]

DEFAULT_ENCODING: Final = "o200k_base"
NO_COSTS: Final = ""

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
    unled_tokens: int = 0
    """Tokens of the template's own instructions, for requests that have none."""
    tool_call_tokens: int = 8
    """Tokens around each tool call."""
    tools_style: ToolsStyle = "json"
    quotes_results: bool = False
    """Whether tool results are written as JSON strings."""
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
    costs: str = NO_COSTS
    """The vocabulary whose measured costs of tokens are used; they include those of digits."""
    is_chosen: bool = False
    """Whether the operator chose the encoding; nothing that is found out later replaces it."""

    @property
    def prior(self) -> str:
        """What is assumed of scripts: counts with measured costs are nearly exact."""
        return MEASURED if self.costs else self.vocabulary

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
    used unmodified, without `single_digits` and `costs`.
    """
    name = plain_name(model_name)
    registry_encoding = encoding if encoding in ENCODINGS else None
    registry_family = image_family if image_family and is_image_family(image_family) else None
    family_rules = _family_rules(name, upstream_kind)
    vocabulary = family_rules.vocabulary or vocabulary_of(model_name)
    own_encoding = _encoding_of(name, upstream_kind) or own_encoding_of(vocabulary)
    used_encoding = registry_encoding or own_encoding or default_encoding
    if used_encoding == own_encoding:
        vocabulary = EXACT
    rules = CountingRules(
        encoding=used_encoding,
        single_digits=registry_encoding is None and splits_digits(vocabulary),
        message_tokens=family_rules.message_tokens,
        tools_style=family_rules.tools_style,
        image_family=registry_family or image_family_of(model_name),
        image_tokens=image_tokens,
        vocabulary=vocabulary,
        costs=_costs(vocabulary, used_encoding) if registry_encoding is None else NO_COSTS,
        is_chosen=registry_encoding is not None or default_encoding != DEFAULT_ENCODING,
    )
    return _with_template(replace(rules, **_instructions_of(name)._asdict()))


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
    own = [
        _instructions_of(plain_name(name)) for name in names if vocabulary_of(name) == vocabulary
    ]
    found = replace(
        rules,
        **(own[0]._asdict() if own and not rules.vocabulary else {}),
        vocabulary=vocabulary,
        image_family=family,
        single_digits=digits,
        costs=rules.costs if keeps_digits else _costs(vocabulary, rules.encoding),
    )
    return _with_template(found)


def in_vocabulary(rules: CountingRules, vocabulary: str | None) -> CountingRules:
    """Return the rules with the vocabulary that the engine's tokenizer shows, if it shows one.

    The template stays the one that the name implies: another one may have this vocabulary, too.
    """
    if vocabulary is None or rules.is_chosen:
        return rules
    own_encoding = own_encoding_of(vocabulary)
    if own_encoding is not None:
        vocabulary = EXACT
    encoding = own_encoding or DEFAULT_ENCODING
    return replace(
        rules,
        encoding=encoding,
        single_digits=splits_digits(vocabulary),
        vocabulary=vocabulary,
        costs=_costs(vocabulary, encoding),
    )


def _costs(vocabulary: str, encoding: str) -> str:
    """Return the vocabulary if its costs in tokens of the encoding were measured."""
    is_measured = encoding == COSTS_ENCODING and vocabulary in MEASURED_VOCABULARIES
    return vocabulary if is_measured else NO_COSTS


def _with_template(rules: CountingRules) -> CountingRules:
    """Return the rules with what the templates of the vocabulary's models have in common."""
    template = _TEMPLATES.get(rules.vocabulary)
    if template is None or rules.tools_style == "typescript":
        return rules
    return replace(rules, **template._asdict())


class _Instructions(NamedTuple):
    """What templates write themselves, beside what begins the reply."""

    unled_tokens: int = 0
    reply_tokens: int = 3


_INSTRUCTIONS: Final = (
    (re.compile(r"qwen-?2[.]5(?!.*vl)"), _Instructions(unled_tokens=21)),
    (re.compile(r"qwen-?2(?![.]|.*vl)"), _Instructions(unled_tokens=11)),
    (re.compile(r"smollm-?2"), _Instructions(unled_tokens=20)),
    (re.compile(r"llama-?3[.][1-3]"), _Instructions(reply_tokens=28)),
)


@lru_cache(maxsize=1_024)
def _instructions_of(name: str) -> _Instructions:
    known = (found for pattern, found in _INSTRUCTIONS if pattern.search(name))
    return next(known, _Instructions())


class _Template(NamedTuple):
    """How the templates of a family differ from the others; names as in the rules."""

    message_tokens: int = 5
    tool_call_tokens: int = 8
    tools_style: ToolsStyle = "json"
    quotes_results: bool = False


_LLAMA: Final = _Template(tools_style="indented", quotes_results=True)
_MISTRAL: Final = _Template(2, 20, "bare", quotes_results=True)
_TEMPLATES: Final = {
    "llama3": _LLAMA,
    "llama4": _LLAMA,
    "tekken": _MISTRAL,
    "sentencepiece": _MISTRAL,
    "deepseek": _Template(message_tokens=2),
}
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
