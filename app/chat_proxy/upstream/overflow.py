"""Read the sizes out of errors by which upstreams refuse a request as too long."""

import re
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

STATUSES: Final = frozenset({200, 400, 413, 422, 500})
"""The statuses of such errors; 200 is a stream whose first event is an error."""
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
_MAX_TOKENS = 10 * LARGEST_LIMIT
_NUMBER = "[0-9][0-9,]{0,19}"


# One pattern per line, in lower case; an indented line continues the one above. `<limit>` is a
# number that is read, `#` one that is ignored: after "at least" comes the limit plus one, after
# "about" an estimate. The first match is taken, so patterns with more numbers come first.
# "At least 1, got -1" is left out: -1 is how some clients ask for output without a limit.
_SENTENCES = r"""
max_(?:completion_|output_)?tokens=<output> cannot be greater than max_model_len=<limit>
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
max_(?:completion_|output_)?tokens must be at least 1, got (?P<left>0|-[2-9]|-[1-9][0-9]{1,9})\b
input tokens exceed the configured limit of <input_limit> tokens\. your messages resulted in
  <prompt> tokens
input tokens exceed the configured limit of <input_limit>
request \(<prompt> tokens\) exceeds the available context size \(<limit>(?: tokens)?\)
prompt too long: <prompt> tokens exceeds (?:the )?max(?:imum)? context window of <limit>
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
available context size \(<limit>(?: tokens)?\)
exceed(?:s|ed)? (?:the |this |max |maximum |model's |model |available ){0,4}context
  (?:length|window|limit|size)\b
(?:longer|greater) than the (?:model's )?context length
maximum context limit
context window exceeds limit
context size has been exceeded
(?:prompt|input) (?:is )?too long(?:[:;]| for requested model)
reduce the length of the messages
"""


def _pattern(sentence: str) -> re.Pattern[str]:
    on_one_line = re.sub(r"\s+", " ", sentence)
    named = re.sub("(?<!P)<([a-z_]+)>", rf"(?P<\1>{_NUMBER})", on_one_line)
    return re.compile(named.replace("#", _NUMBER))


_PATTERNS = tuple(map(_pattern, re.split(r"\n(?! )", _SENTENCES.strip())))
# Text that may precede a pattern whose numbers are trusted: no quotation marks except an apostrophe
# or those of an error nested in another. After any other quotation mark the text may quote the
# request, and a window that one client makes up would be learned for all clients.
_UNQUOTED = r"(?:[^'\"`{]|(?<=[a-z])'s |(?<= b)['\"](?=\{))*"
_LEAD = re.compile(
    _UNQUOTED + r"(?:\{['\"][^\n]{0,120}?['\"]message['\"]: ?['\"]" + _UNQUOTED + ")?"
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """Sizes in an upstream's error about a request too long; None if missing or absurd."""

    limit: int | None = None
    """The window: prompt and output together."""
    input_limit: int | None = None
    """The longest prompt, if the upstream counts the output separately."""
    prompt_tokens: int | None = None
    """The exact size of the prompt, never a bound or an estimate."""
    output_tokens: int | None = None
    """The output tokens that the request asked for."""
    is_bytes: bool = False
    """Whether the body has too many bytes, whatever its tokens."""
    output_alone: bool = False
    """Whether the request would be accepted if it asked for less output."""
    output_left: int | None = None
    """The output tokens left beside the prompt, zero or less; or what the request asked for."""
    words: str = field(default="", compare=False)
    """The sentence with the numbers, in lower case; it may quote the client."""


def overflow_in(status: int, body: bytes) -> Overflow | None:
    """Return the sizes in an upstream's error; None if it is not about the request's size.

    For a stream, pass the JSON in its first event as the body, with the stream's status. The
    numbers are the upstream's own: vLLM refuses `max_tokens: 0` with the same sentence as a prompt
    that fills the window.
    """
    if status not in STATUSES:
        return None
    errors = _errors_in(status, body[:MAX_BYTES])
    codes = {code for error in errors for code in _codes_of(error)}
    texts = [_words_of(error) for error in errors]
    if codes & _OTHER_CODES or any(map(_OTHER_WORDS.search, texts)):
        return None
    found = [*map(_numbers_in_fields, errors), *map(_numbers_in_text, texts)]
    if any(numbers is not None for numbers in found) or codes & _OVERFLOW_CODES:
        words = next((match[0] for match in map(_pattern_in, texts) if match), "")
        return replace(_overflow(ChainMap(*(numbers or {} for numbers in found))), words=words)
    if status == 413 or codes & _BYTES_CODES or any(map(_BYTES_WORDS.search, texts)):
        return Overflow(is_bytes=True)
    return None


def is_sane(limit: object) -> bool:
    """Return whether a number can be a window: one vLLM build reports a window of 3 tokens."""
    return type(limit) is int and SMALLEST_LIMIT <= limit <= LARGEST_LIMIT


def _errors_in(status: int, body: bytes) -> list[dict[str, Any]]:
    """Return the error, and the provider's own error if a router has nested it."""
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
    """Return the fields of an error; None if the document has no known error shape."""
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


def _numbers_in_fields(error: Mapping[str, Any]) -> dict[str, int] | None:
    """Return llama.cpp's numbers, which have fields of their own."""
    limit, prompt = error.get("n_ctx"), error.get("n_prompt_tokens")
    return {"limit": limit, "prompt": prompt} if type(limit) is type(prompt) is int else None


def _pattern_in(text: str) -> re.Match[str] | None:
    """Return the match of the first pattern found in a text."""
    return next(filter(None, (pattern.search(text) for pattern in _PATTERNS)), None)


def _numbers_in_text(text: str) -> dict[str, int] | None:
    """Return the numbers of the first pattern in a text, empty if they may quote the request."""
    match = _pattern_in(text)
    if match is None:
        return None
    if not _LEAD.fullmatch(text, 0, match.start()):
        return {}
    found = match.groupdict().items()
    return {name: int(digits.replace(",", "")) for name, digits in found if digits}


def _overflow(numbers: Mapping[str, int]) -> Overflow:
    limit, input_limit = numbers.get("limit"), numbers.get("input_limit")
    limit = limit if is_sane(limit) else None
    prompt, output = numbers.get("prompt"), numbers.get("output")
    if prompt is not None:
        prompt += numbers.get("tools", 0)
    return Overflow(
        limit,
        input_limit if is_sane(input_limit) else None,
        _counted(prompt),
        _counted(output),
        output_alone=_is_output_alone(limit, prompt, output),
        output_left=numbers.get("left"),
    )


def _counted(tokens: int | None) -> int | None:
    """Return the number, None if no request can have that many tokens."""
    return tokens if tokens is not None and 0 <= tokens <= _MAX_TOKENS else None


def _is_output_alone(limit: int | None, prompt: int | None, output: int | None) -> bool:
    """Return whether the prompt fits: output as long as the window is refused with any prompt."""
    if limit is None or not output:
        return False
    return output >= limit if prompt is None else prompt < limit
