"""Upstreams that say "too long", each in its own words: what they say about sizes."""

import re
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

STATUSES: Final = frozenset({200, 400, 413, 422, 500})
"""Where an overflow may be told; 200 is a stream whose first event is an error."""
MAX_BYTES: Final = 64 * 1024
MAX_CHARS: Final = 16 * 1024
SMALLEST_LIMIT: Final = 64
LARGEST_LIMIT: Final = 100_000_000

_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "contextwindowexceedederror",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
    }
)
_OTHER_CODES = frozenset(
    {
        "429",
        "array_above_max_length",
        "insufficient_quota",
        "rate_limit_error",
        "rate_limit_exceeded",
        "requests",
        "resource_exhausted",
        "string_above_max_length",
        "throttlingexception",
        "tokens",
    }
)
_OTHER_WORDS = re.compile(
    r"rate.?limit|tokens per (?:min|hour|day)|too many requests|please wait before"
    r"|string_above_max_length|[0-9] validation errors?\b"
)
_BYTES_WORDS = re.compile(
    r"request entity too large|payload too large|body (?:is )?too large|exceeds the maximum size"
)
_BYTES_CODES = frozenset({"request_too_large"})
_MOST_TOKENS = 10 * LARGEST_LIMIT
_NUMBER = "[0-9][0-9,]{0,19}"


# One form a line, in lower case; an indented line goes on with the one above. `<limit>` is a number
# that is read, `#` one that is not: behind "at least" stands the limit and one more, behind "about"
# a guess. The first form that fits is the one that counts, so those that tell more come first.
# "At least 1, got -1" is missing: -1 is how some clients ask for output without a limit.
_SENTENCES = r"""
max_(?:completion_)?tokens=<output> cannot be greater than max_model_len=<limit>
maximum context length is <limit> tokens\. however, you requested <output> output tokens and your
  prompt contains (?:<prompt> input tokens)?
maximum context length is <limit> tokens\. however, your
  (?:prompt contains|request has|messages resulted in) <prompt> (?:input )?tokens(?: plus <output>)?
'max_tokens' or 'max_completion_tokens' is too large: <output>\.
  this model's maximum context length is <limit> tokens and your request has <prompt> input tokens
maximum context length is <limit> tokens, but the prompt contains <prompt> input tokens
maximum context length is <limit> tokens[.,] however,? you requested # tokens
  \(<prompt> in (?:the|your) (?:messages|prompt)[,;] (?:<tools> in the functions[,;] )?<output>
  (?:in|for) the completion
maximum context length is <limit> tokens\. however, you requested about # tokens
  \([^)]{0,99}[, (]<output> in the output
you passed (?:<prompt> input tokens|# input characters) and requested <output> output tokens\.
  however, the model's context length is only <limit> tokens
prompt \(length <prompt>\) (?:plus the number of requested output tokens \(at least 1\) )?is longer
  than the maximum model length of <limit>
input length \(<prompt>\) exceeds (?:the )?model's maximum context length \(<limit>\)
engine prompt length <prompt> exceeds the max_model_len <limit>
max_(?:completion_)?tokens must be at least 1, got (?P<left>0|-[2-9]|-[1-9][0-9]{1,9})\b
input tokens exceed the configured limit of <input_limit> tokens\. your messages resulted in
  <prompt> tokens
input tokens exceed the configured limit of <input_limit>
request \(<prompt> tokens\) exceeds the available context size \(<limit> tokens\)
loaded with context length of only <limit> tokens
input \(<prompt> tokens\) is longer than the model's context length \(<limit> tokens\)
maximum context length of <limit> tokens\. you requested a total of # tokens: <prompt> tokens from
  the input messages and <output> tokens for the completion
input length \(<prompt> tokens\) exceeds the maximum allowed length \(<limit> tokens\)
prompt is too long: <prompt> tokens > <limit> maximum
input length and `max_tokens` exceed context limit: <prompt> \+ <output> > <limit>
input token count (?:\(<prompt>\) )?exceeds the maximum number of tokens allowed \(?<input_limit>
prompt contains <prompt> tokens[^.]{0,60} too large for model with <limit> maximum
maximum prompt length is <input_limit> but the request contains <prompt> tokens
exceeded model token limit: <limit>
prompt token count of <prompt> exceeds the limit of <input_limit>
input length <prompt> exceeds the maximum allowed input length of <input_limit>
`inputs` tokens \+ `max_new_tokens` must be <= <limit>\. given: <prompt> `inputs` tokens and
  <output> `max_new_tokens`
`inputs` tokens \+ `max_new_tokens` must be <= <limit>
`inputs` must have less than <input_limit> tokens(?:\. given: <prompt>)?
current length is <prompt> while limit is <limit>
maximum context length (?:is|of) <limit> tokens
maximum context length (?:is|of) -?[0-9]
longer than the maximum model length of <limit>
context length is only <limit> tokens
available context size \(<limit> tokens\)
exceed(?:s|ed)? (?:the |this |max |maximum |model's |model |available ){0,4}context
  (?:length|window|limit|size)\b
(?:longer|greater) than the (?:model's )?context length
maximum context limit
context window exceeds limit
context size has been exceeded
(?:prompt|input) (?:is )?too long(?:[:;]| for requested model)
reduce the length of the messages
"""


def _form(sentence: str) -> re.Pattern[str]:
    on_one_line = re.sub(r"\s+", " ", sentence)
    named = re.sub("(?<!P)<([a-z_]+)>", rf"(?P<\1>{_NUMBER})", on_one_line)
    return re.compile(named.replace("#", _NUMBER))


_FORMS = tuple(map(_form, re.split(r"\n(?! )", _SENTENCES.strip())))
# What may stand before a form whose numbers are believed: no quotation mark but a genitive's, or
# those of an error within an error. Behind any other there may be words of the request, and a
# window that one client makes up would be learned for all.
_UNQUOTED = r"(?:[^'\"`{]|(?<=[a-z])'s |(?<= b)['\"](?=\{))*"
_LEAD = re.compile(
    _UNQUOTED + r"(?:\{['\"][^\n]{0,120}?['\"]message['\"]: ?['\"]" + _UNQUOTED + ")?"
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """What an upstream told about a request that was too long; None where it told nothing sane."""

    limit: int | None = None
    """The whole window: prompt and answer."""
    input_limit: int | None = None
    """The longest prompt, where the answer is counted apart."""
    prompt_tokens: int | None = None
    """The prompt's real size, never a bound or a guess."""
    output_tokens: int | None = None
    """What the request wanted for the answer."""
    is_bytes: bool = False
    """Whether the body was too large on the wire, whatever its tokens."""
    output_alone: bool = False
    """Whether the request is known to be accepted once it wants less output."""
    output_left: int | None = None
    """What the prompt left for the answer, none or less; or what the request itself wanted."""
    words: str = field(default="", compare=False)
    """The sentence that the numbers stand in, in lower case: it may be the client's own."""


def overflow_in(status: int, body: bytes) -> Overflow | None:
    """Read an upstream's error; None if it is about anything else than the request's size.

    The body of a stream's first event is given as the JSON in it, with the stream's status. The
    numbers are what the upstream says: whoever sends `max_tokens: 0` hears the same from vLLM as
    one whose prompt fills the window.
    """
    if status not in STATUSES:
        return None
    errors = _errors_in(status, body[:MAX_BYTES])
    codes = {code for error in errors for code in _codes_of(error)}
    texts = [_words_of(error) for error in errors]
    if codes & _OTHER_CODES or any(map(_OTHER_WORDS.search, texts)):
        return None
    told = [*map(_told_by_fields, errors), *map(_told_by_words, texts)]
    if any(numbers is not None for numbers in told) or codes & _OVERFLOW_CODES:
        words = next((match[0] for match in map(_form_in, texts) if match), "")
        return replace(_overflow(ChainMap(*(numbers or {} for numbers in told))), words=words)
    if status == 413 or codes & _BYTES_CODES or any(map(_BYTES_WORDS.search, texts)):
        return Overflow(is_bytes=True)
    return None


def is_sane(limit: object) -> bool:
    """Tell whether a number can be a window: one vLLM build says that it has 3 tokens."""
    return type(limit) is int and SMALLEST_LIMIT <= limit <= LARGEST_LIMIT


def _errors_in(status: int, body: bytes) -> list[dict[str, Any]]:
    """Return the error, and the provider's own where a router passes it on within."""
    try:
        error = _error_in(orjson.loads(body))
    except orjson.JSONDecodeError:
        error = None
    if error is None:
        return [] if status == 200 else [{"message": body.decode(errors="replace")}]
    metadata = error.get("metadata")
    raw = metadata.get("raw") if type(metadata) is dict else None
    return [error, *(_errors_in(400, raw.encode(errors="replace")) if type(raw) is str else ())]


def _error_in(document: Any) -> dict[str, Any] | None:
    """Unwrap the fields of an error; None if the document is not one in a known shape."""
    if type(document) is list and document:
        document = document[0]
    if type(document) is dict and type(document.get("response")) is dict:
        document = document["response"]
    if type(document) is not dict:
        return None
    error = document.get("error") or document.get("detail")
    if type(error) is str:
        return {**document, "message": error}
    if type(error) is dict:
        return error
    return document if "error" in (document.get("object"), document.get("type")) else None


def _codes_of(error: Mapping[str, Any]) -> set[str]:
    names = (error.get(key) for key in ("code", "type", "status"))
    return {str(name).lower() for name in names if type(name) in (str, int)}


def _words_of(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return message[:MAX_CHARS].lower() if type(message) is str else ""


def _told_by_fields(error: Mapping[str, Any]) -> dict[str, int] | None:
    """Return llama.cpp's numbers, which stand in fields of their own."""
    limit, prompt = error.get("n_ctx"), error.get("n_prompt_tokens")
    return {"limit": limit, "prompt": prompt} if type(limit) is type(prompt) is int else None


def _form_in(text: str) -> re.Match[str] | None:
    """Return the first form that a text has."""
    return next(filter(None, (form.search(text) for form in _FORMS)), None)


def _told_by_words(text: str) -> dict[str, int] | None:
    """Return the numbers of the first form in a text, none if they may be anyone's words."""
    match = _form_in(text)
    if match is None:
        return None
    if not _LEAD.fullmatch(text, 0, match.start()):
        return {}
    return {name: int(it.replace(",", "")) for name, it in match.groupdict().items() if it}


def _overflow(told: Mapping[str, int]) -> Overflow:
    limit, input_limit = told.get("limit"), told.get("input_limit")
    limit = limit if is_sane(limit) else None
    prompt, output = told.get("prompt"), told.get("output")
    if prompt is not None:
        prompt += told.get("tools", 0)
    return Overflow(
        limit,
        input_limit if is_sane(input_limit) else None,
        _counted(prompt),
        _counted(output),
        output_alone=_is_output_alone(limit, prompt, output),
        output_left=told.get("left"),
    )


def _counted(tokens: int | None) -> int | None:
    """Return a number of tokens that a request can have."""
    return tokens if tokens is not None and 0 <= tokens <= _MOST_TOKENS else None


def _is_output_alone(limit: int | None, prompt: int | None, output: int | None) -> bool:
    """Tell whether the prompt fits; output as long as the window is refused with any prompt."""
    if limit is None or not output:
        return False
    return output >= limit if prompt is None else prompt < limit
