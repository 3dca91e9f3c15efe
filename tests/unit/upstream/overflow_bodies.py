"""Errors as upstreams word them: what is an overflow, what it tells, and what only looks like one.

The sentences are those of the servers themselves, as recorded or as their sources have them.
"""

import json
from typing import Any, NamedTuple

from chat_proxy.upstream.overflow import Overflow

VLLM_IS = "This model's maximum context length is"


class Case(NamedTuple):
    name: str
    status: int
    body: bytes
    expected: Overflow = Overflow()


def dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def error(message: str, **fields: Any) -> bytes:
    """A body in OpenAI's shape."""
    return dumped({"error": {"message": message, "type": "invalid_request_error", **fields}})


def vllm(message: str, param: str | None = None) -> bytes:
    return error(message, type="BadRequestError", param=param, code=400)


def flat(message: str) -> bytes:
    """A body as vLLM up to 0.10 and SGLang send it."""
    fields = {"type": "BadRequestError", "param": None, "code": 400}
    return dumped({"object": "error", "message": message, **fields})


def told(
    limit: int | None = None,
    prompt: int | None = None,
    output: int | None = None,
    *,
    input_limit: int | None = None,
    alone: bool = False,
) -> Overflow:
    return Overflow(limit, input_limit, prompt, output, output_alone=alone)


TOO_MANY_BYTES = Overflow(is_bytes=True)

VLLM = [
    Case(
        "0.32, prompt as long as the window",
        400,
        vllm("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens"),
        Overflow(output_left=0),
    ),
    Case(
        "0.32 on the Responses wire, prompt as long as the window",
        400,
        vllm("max_output_tokens must be at least 1, got 0. (parameter=max_output_tokens, value=0)"),
        Overflow(output_left=0),
    ),
    Case(
        "0.32 on the Responses wire, more output than window",
        400,
        vllm(
            "max_output_tokens=5000 cannot be greater than max_model_len=2048. Please request"
            " fewer output tokens. (parameter=max_output_tokens, value=5000)",
            "max_output_tokens",
        ),
        told(2048, None, 5000, alone=True),
    ),
    Case(
        "before 0.18, prompt longer than the window",
        400,
        vllm("max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)"),
        Overflow(output_left=-7584),
    ),
    Case(
        "0.32, prompt longer by one",
        400,
        vllm(
            f"{VLLM_IS} 2048 tokens. However, your prompt contains at least 2049 input tokens,"
            " which exceeds this limit even without any output tokens. Please reduce the length of"
            " the input prompt. (parameter=input_tokens, value=2049)",
            "input_tokens",
        ),
        told(2048),
    ),
    Case(
        "0.32, far too long",
        400,
        vllm(
            f"{VLLM_IS} 2048 tokens. However, your prompt contains 20000050 characters (more than"
            " 137216 characters, which is the upper bound for 2048 input tokens). Please reduce the"
            " length of the input prompt. (parameter=input_text, value=20000050)",
            "input_text",
        ),
        told(2048),
    ),
    Case(
        "0.32, an image",
        400,
        vllm("Input length (4932) exceeds model's maximum context length (4096)."),
        told(4096, 4932),
    ),
    Case(
        "0.32, more output than window",
        400,
        vllm(
            "max_tokens=5000 cannot be greater than max_model_len=2048. Please request fewer output"
            " tokens. (parameter=max_tokens, value=5000)",
            "max_tokens",
        ),
        told(2048, None, 5000, alone=True),
    ),
    Case(
        "0.32, more output than window, new field",
        400,
        vllm(
            "max_completion_tokens=5000 cannot be greater than max_model_len=2048. Please request"
        ),
        told(2048, None, 5000, alone=True),
    ),
    Case(
        "0.32, more output than window, on Responses",
        400,
        vllm("max_output_tokens=5000 cannot be greater than max_model_len=2048. Please request"),
        told(2048, None, 5000, alone=True),
    ),
    Case(
        "0.18, a bound",
        400,
        vllm(
            f"{VLLM_IS} 8192 tokens. However, you requested 1000 output tokens and your prompt"
            " contains at least 7193 input tokens, for a total of at least 8193 tokens. Please"
            " reduce the length of the input prompt or the number of requested output tokens."
            " (parameter=input_tokens, value=7193)",
            "input_tokens",
        ),
        told(8192, None, 1000),
    ),
    Case(
        "0.18, no output asked",
        400,
        vllm(
            f"{VLLM_IS} 262144 tokens. However, you requested 0 output tokens and your prompt"
            " contains at least 262145 input tokens, for a total of at least 262145 tokens."
        ),
        told(262144, None, 0),
    ),
    Case(
        "0.18, a count",
        400,
        vllm(
            f"{VLLM_IS} 8192 tokens. However, you requested 1000 output tokens and your prompt"
            " contains 7200 input tokens, for a total of 8200 tokens."
        ),
        told(8192, 7200, 1000, alone=True),
    ),
    Case(
        "0.18, huge text with output",
        400,
        vllm(
            f"{VLLM_IS} 8192 tokens. However, you requested 1000 output tokens and your prompt"
            " contains 9000000 characters (more than 400000 characters, which is the upper bound"
        ),
        told(8192, None, 1000),
    ),
    Case(
        "0.16",
        400,
        vllm(
            "You passed 9000 input tokens and requested 1000 output tokens. However, the model's"
            " context length is only 8192 tokens, resulting in a maximum input length of 7192"
            " tokens. Please reduce the length of the input prompt. (parameter=input_tokens,"
            " value=9000)"
        ),
        told(8192, 9000, 1000),
    ),
    Case(
        "0.16, characters",
        400,
        vllm(
            "You passed 900000 input characters and requested 1000 output tokens. However, the"
            " model's context length is only 8192 tokens, resulting in a maximum input length"
        ),
        told(8192, None, 1000),
    ),
    Case(
        "0.9",
        400,
        vllm(
            f"{VLLM_IS} 8192 tokens. However, your request has 9000 input tokens. Please reduce the"
            " length of the input messages."
        ),
        told(8192, 9000),
    ),
    Case(
        "0.9, output",
        400,
        vllm(
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum"
            " context length is 8192 tokens and your request has 5000 input tokens (4096 > 8192 -"
            " 5000)."
        ),
        told(8192, 5000, 4096, alone=True),
    ),
    Case(
        "0.15, the nonsense of one build",
        400,
        vllm(
            f"{VLLM_IS} 3 tokens. However, your request has 8 input tokens. Please reduce the"
            " length of the input messages. (parameter=input_tokens, value=8)"
        ),
        told(None, 8),
    ),
    Case(
        "0.15, its repair",
        400,
        vllm(
            f"{VLLM_IS} 2048 tokens. However, your request has 8 input tokens plus 2045"
            " 'max_tokens'. Please reduce one or the other."
        ),
        told(2048, 8, 2045, alone=True),
    ),
    Case(
        "0.8, flat",
        400,
        flat(
            f"{VLLM_IS} 16384 tokens. However, you requested 122946 tokens (112946 in the messages,"
            " 10000 in the completion). Please reduce the length of the messages or completion."
        ),
        told(16384, 112946, 10000),
    ),
    Case(
        "0.8, flat, output",
        400,
        flat(
            f"{VLLM_IS} 8192 tokens. However, you requested 8204 tokens (12 in the messages, 8192"
            " in the completion). Please reduce the length of the messages or completion."
        ),
        told(8192, 12, 8192, alone=True),
    ),
    Case(
        "engine",
        400,
        vllm(
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make"
            " sure that `max_model_len` is no smaller than the number of text tokens."
        ),
        told(4096, 5000),
    ),
    Case(
        "engine, no room for output",
        400,
        vllm(
            "The decoder prompt (length 4096) plus the number of requested output tokens (at least"
            " 1) is longer than the maximum model length of 4096."
        ),
        told(4096, 4096),
    ),
    Case(
        "responses",
        400,
        vllm("The engine prompt length 5000 exceeds the max_model_len 4096. Please reduce prompt."),
        told(4096, 5000),
    ),
    Case(
        "rust front end",
        400,
        error(
            "this model's maximum context length is 4096 tokens, but the prompt contains 5000 input"
            " tokens",
            code="invalid_request_error",
        ),
        told(4096, 5000),
    ),
]

OPENAI = [
    Case(
        "messages",
        400,
        error(
            f"{VLLM_IS} 128000 tokens. However, your messages resulted in 173172 tokens. Please"
            " reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        told(128000, 173172),
    ),
    Case(
        "functions",
        400,
        error(
            f"{VLLM_IS} 4097 tokens. However, you requested 4268 tokens (4012 in the messages, 100"
            " in the functions, 156 in the completion). Please reduce",
            code="context_length_exceeded",
        ),
        told(4097, 4112, 156),
    ),
    Case(
        "gpt-5",
        400,
        error(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in"
            " 289650 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        told(None, 289650, input_limit=272000),
    ),
    Case(
        "responses, first event of a stream",
        200,
        dumped(
            {
                "type": "error",
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model. Please adjust your"
                " input and try again.",
                "param": "input",
            }
        ),
    ),
    Case(
        "responses, failed",
        200,
        dumped(
            {
                "type": "response.failed",
                "response": {"error": {"code": "context_length_exceeded", "message": "Too long."}},
            }
        ),
    ),
    Case("code alone", 400, error("No.", code="context_length_exceeded")),
    Case("code without words", 400, dumped({"error": {"code": "context_length_exceeded"}})),
    Case(
        "thousands with commas",
        400,
        error(f"{VLLM_IS} 128,000 tokens. However, your messages resulted in 173,172 tokens."),
        told(128000, 173172),
    ),
]

OTHERS = [
    Case(
        "oMLX",
        400,
        error("Prompt too long: 9000 tokens exceeds max context window of 4096 tokens"),
        told(4096, 9000),
    ),
    Case(
        "LocalAI",
        500,
        error("request (9000 tokens) exceeds the available context size (4096)"),
        told(4096, 9000),
    ),
    Case(
        "llama.cpp",
        400,
        dumped(
            {
                "error": {
                    "code": 400,
                    "message": "request (9000 tokens) exceeds the available context size (4096"
                    " tokens), try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9000,
                    "n_ctx": 4096,
                }
            }
        ),
        told(4096, 9000),
    ),
    Case(
        "llama.cpp, words alone",
        500,
        error("request (9000 tokens) exceeds the available context size (4096 tokens), try"),
        told(4096, 9000),
    ),
    Case(
        "llama.cpp, fields alone",
        400,
        dumped({"error": {"message": "no", "n_prompt_tokens": 9000, "n_ctx": 4096}}),
        told(4096, 9000),
    ),
    Case(
        "llama.cpp, older",
        400,
        error("the request exceeds the available context size. try increasing the context size"),
    ),
    Case("llama.cpp, shared cache full", 500, error("Context size has been exceeded.", code=500)),
    Case(
        "LM Studio",
        400,
        dumped(
            {
                "error": "Trying to keep the first 12000 tokens when context the overflows."
                " However, the model is loaded with context length of only 4096 tokens, which is"
                " not enough."
            }
        ),
        told(4096),
    ),
    Case(
        "SGLang",
        400,
        flat("The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        told(8192, 9000),
    ),
    Case(
        "SGLang, in a stream",
        200,
        error("The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        told(8192, 9000),
    ),
    Case(
        "SGLang, total",
        400,
        flat(
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You"
            " requested a total of 9096 tokens: 5000 tokens from the input messages and 4096 tokens"
            " for the completion. Please reduce the number of tokens in the input messages or the"
            " completion to fit within the limit."
        ),
        told(8192, 5000, 4096, alone=True),
    ),
    Case(
        "SGLang, scheduler",
        400,
        flat(
            "Input length (9000 tokens) exceeds the maximum allowed length (8186 tokens). Use a"
            " shorter input or enable --allow-auto-truncate."
        ),
        told(8186, 9000),
    ),
    Case(
        "Ollama",
        400,
        error(
            "the prompt is longer than the context length currently available to the model; try a"
            " shorter prompt",
            param=None,
            code=None,
        ),
    ),
    Case(
        "Ollama, embeddings",
        400,
        dumped({"error": "the input length exceeds the context length"}),
    ),
    Case(
        "Ollama, cloud",
        400,
        dumped({"error": "prompt too long; exceeded max context length by 1234 tokens"}),
    ),
    Case(
        "LiteLLM",
        400,
        error(
            "litellm.ContextWindowExceededError: litellm.BadRequestError:"
            " ContextWindowExceededError: Hosted_vllmException - This model's maximum context"
            " length is 8192 tokens. However, your request has 9000 input tokens. Please reduce the"
            " length of the input messages.\nReceived Model Group=qwen\nAvailable Model Group"
            " Fallbacks=None",
            type=None,
            code="400",
        ),
        told(8192, 9000),
    ),
    Case(
        "LiteLLM, the error within as a dict",
        400,
        error(
            "litellm.BadRequestError: OpenAIException - Error code: 400 - {'object': 'error',"
            " 'message': \"This model's maximum context length is 8192 tokens. However, your"
            " request has 9000 input tokens."
        ),
        told(8192, 9000),
    ),
    Case(
        "LiteLLM, the error within as bytes",
        400,
        error(
            'litellm.BadRequestError: Hosted_vllmException - b\'{"object":"error","message":"The'
            " input (9000 tokens) is longer than the model's context length (8192 tokens).\"}'"
        ),
        told(8192, 9000),
    ),
    Case(
        "Anthropic",
        400,
        dumped(
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 213462 tokens > 200000 maximum",
                },
            }
        ),
        told(200000, 213462),
    ),
    Case(
        "Anthropic, output",
        400,
        error(
            "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease"
            " input length or `max_tokens` and try again"
        ),
        told(200000, 195000, 8192, alone=True),
    ),
    Case(
        "Gemini",
        400,
        dumped(
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count (1196265) exceeds the maximum number of"
                        " tokens allowed (1048575).",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ]
        ),
        told(None, 1196265, input_limit=1048575),
    ),
    Case(
        "OpenRouter",
        400,
        error(
            "This endpoint's maximum context length is 1048576 tokens. However, you requested about"
            " 1293741 tokens (1227853 of text input, 353 of tool input, 65535 in the output)."
            " Please reduce the length of either one.",
            code=400,
        ),
        told(1048576, None, 65535),
    ),
    Case(
        "OpenRouter, the provider's error within",
        400,
        error(
            "Provider returned error",
            code=400,
            metadata={
                "raw": flat(
                    f"{VLLM_IS} 8192 tokens. However, your request has 9000 input tokens."
                ).decode()
            },
        ),
        told(8192, 9000),
    ),
    Case(
        "OpenRouter, the provider's words within",
        400,
        error(
            "Provider returned error",
            metadata={"raw": "prompt is too long: 213462 tokens > 200000 maximum"},
        ),
        told(200000, 213462),
    ),
    Case(
        "Mistral",
        400,
        flat(
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768"
            " maximum context length"
        ),
        told(32768, 65673),
    ),
    Case(
        "xAI",
        400,
        dumped(
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains"
                " 537812 tokens.",
            }
        ),
        told(None, 537812, input_limit=131072),
    ),
    Case(
        "Kimi",
        400,
        error("Your request exceeded model token limit: 131072 (requested: 150000)"),
        told(131072),
    ),
    Case(
        "Copilot",
        400,
        error(
            "prompt token count of 128001 exceeds the limit of 128000",
            code="model_max_prompt_tokens_exceeded",
        ),
        told(None, 128001, input_limit=128000),
    ),
    Case(
        "Poolside",
        400,
        error("Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
        told(None, 131393, input_limit=131040),
    ),
    Case(
        "TGI",
        422,
        dumped(
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <="
                " 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`",
                "error_type": "validation",
            }
        ),
        told(4096, 4000, 200, alone=True),
    ),
    Case(
        "TGI, input",
        422,
        dumped({"error": "`inputs` must have less than 1024 tokens. Given: 1500"}),
        told(None, 1500, input_limit=1024),
    ),
    Case("Bedrock", 400, dumped({"message": "Input is too long for requested model."})),
    Case(
        "Groq",
        400,
        error(
            "Please reduce the length of the messages or completion. Current length is 9000 while"
            " limit is 8192"
        ),
        told(8192, 9000),
    ),
    Case("MiniMax, whose number is a code", 400, error("context window exceeds limit (2013)")),
    Case(
        "FastAPI",
        422,
        dumped({"detail": "prompt is too long: 9000 tokens > 8192 maximum"}),
        told(8192, 9000),
    ),
    Case("plain text", 400, b"prompt is too long: 9000 tokens > 8192 maximum", told(8192, 9000)),
    Case(
        "an unknown shape",
        400,
        dumped({"errors": [{"message": "prompt is too long: 9000 tokens > 8192 maximum"}]}),
        told(8192, 9000),
    ),
    Case(
        "tokens behind 413",
        413,
        error("prompt is too long: 9000 tokens > 8192 maximum"),
        told(8192, 9000),
    ),
]

BYTES = [
    Case(
        "nginx",
        413,
        b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center>"
        b"<h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center></body>",
        TOO_MANY_BYTES,
    ),
    Case("nothing said", 413, b"", TOO_MANY_BYTES),
    Case(
        "Anthropic",
        413,
        dumped(
            {
                "type": "error",
                "error": {
                    "type": "request_too_large",
                    "message": "Request exceeds the maximum allowed number of bytes.",
                },
            }
        ),
        TOO_MANY_BYTES,
    ),
    Case("wrapped", 400, error("No.", type="request_too_large"), TOO_MANY_BYTES),
    Case("express", 500, b"PayloadTooLargeError: request entity too large", TOO_MANY_BYTES),
    Case("not JSON to the end", 413, b'{"error": {"message": "too', TOO_MANY_BYTES),
]

LOOK_ALIKES = [
    Case("429", 429, error(f"{VLLM_IS} 8192 tokens.", code="context_length_exceeded")),
    Case(
        "tokens per minute",
        400,
        error(
            "Request too large for gpt-4 in organization org on tokens per min (TPM): Limit 10000,"
            " Requested 12000. The input or output tokens must be reduced.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Case(
        "tokens per minute behind 413",
        413,
        error(
            "Request too large for model `llama` in organization `org` service tier `on_demand` on"
            " tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Case(
        "rate limit in words",
        500,
        error("litellm.RateLimitError: Rate limit reached, prompt is too long: 9 tokens > 8"),
    ),
    Case("rate limit in a stream", 200, error(f"{VLLM_IS} 8192 tokens.", code=429)),
    Case(
        "rate limit of a router's provider",
        400,
        error(
            "Provider returned error: prompt is too long: 9000 tokens > 8192 maximum",
            metadata={"raw": error("slow down", code="rate_limit_exceeded").decode()},
        ),
    ),
    Case(
        "throttled", 400, dumped({"message": "Too many tokens, please wait before trying again."})
    ),
    Case("quota", 400, error("You exceeded your current quota", code="insufficient_quota")),
    Case(
        "a string too long",
        400,
        error(
            "Invalid 'messages[0].content': string too long. Expected a string with maximum length"
            " 1048576, but got a string with length 1048577 instead.",
            code="string_above_max_length",
        ),
    ),
    Case(
        "too many tools",
        400,
        error(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got"
            " an array with length 129 instead.",
            code="array_above_max_length",
        ),
    ),
    Case(
        "output beyond the model's own limit",
        400,
        error(
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens,"
            " whereas you provided 32000.",
            param="max_tokens",
            code="invalid_value",
        ),
    ),
    Case("the client's own -1", 400, vllm("max_tokens must be at least 1, got -1. (parameter=max")),
    Case("too many images", 400, vllm("At most 4 image(s) may be provided in one prompt.")),
    Case("not a multimodal model", 400, vllm("tiny-text is not a multimodal model")),
    Case(
        "a validation error that cites an overflow",
        400,
        vllm(
            "2 validation errors:\n  {'type': 'string_type', 'loc': 'body.messages.0.content',"
            " 'input': \"This model's maximum context length is 100 tokens\"}"
        ),
    ),
    Case("a large image", 400, error("messages.0.content.1: image exceeds 5 MB maximum: 6 MB > 5")),
    Case("bad temperature", 400, vllm("temperature must be non-negative, got -2.0.")),
    Case("roles", 400, vllm("Conversation roles must alternate user/assistant/user/assistant/...")),
    Case(
        "unknown model", 404, vllm("The model `maximum context length is 100 tokens` is not here")
    ),
    Case("unauthorized", 401, error(f"{VLLM_IS} 8192 tokens.")),
    Case("overloaded", 503, error(f"{VLLM_IS} 8192 tokens.")),
    Case("out of memory", 500, error("CUDA out of memory. Tried to allocate 2.00 GiB", code=500)),
    Case("a broken picture", 400, vllm("Failed to load image: cannot identify image file")),
    Case("nothing", 400, b""),
    Case("nothing in JSON", 500, b"null"),
    Case("an empty list", 400, b"[]"),
    Case("an empty error", 400, b'{"error": {}}'),
    Case("a message that is no text", 400, b'{"error": {"message": 5, "code": [1]}}'),
    Case(
        "an answer that speaks of it",
        200,
        dumped({"choices": [{"message": {"content": f"{VLLM_IS} 8192 tokens."}}], "error": None}),
    ),
    Case("an answer of another shape", 200, dumped({"response": f"{VLLM_IS} 8192 tokens."})),
    Case("a stream of words", 200, f"{VLLM_IS} 8192 tokens.".encode()),
]
