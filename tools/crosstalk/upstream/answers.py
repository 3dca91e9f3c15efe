"""Answers of the upstream as bytes; every one of them is full of its request's canary."""

import json

from tools.crosstalk.upstream.line import Asked

BIG_BYTES = 200_000
MODELS = b'{"object": "list", "data": [{"id": "fake", "object": "model", "max_model_len": 100000}]}'


def head(asked: Asked, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """Return the first lines of an answer, with the canary in a header."""
    kind = b"text/event-stream" if asked.is_stream else b"application/json"
    lines = [b"HTTP/1.1 " + status, b"content-type: " + kind, b"x-said: " + asked.canary]
    return b"\r\n".join([*lines, *headers, b"", b""])


def body(asked: Asked) -> bytes:
    """Return a body as a model server would write it."""
    if not asked.canary:
        return MODELS
    canary = asked.canary.decode()
    if asked.is_stream:
        return b"".join([*events(asked), b"data: [DONE]\n\n"])
    if not asked.is_chat:
        return json.dumps({"object": "list", "data": [], "said": canary}).encode()
    message = {"role": "assistant", "content": f"You said {canary}."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": f"chatcmpl-{canary}", "object": "chat.completion", "created": 1}
    return json.dumps({**answer, "model": "fake", "choices": [choice]}).encode()


def events(asked: Asked) -> list[bytes]:
    """Return the events of a stream, without its end."""
    canary = asked.canary.decode()
    begin = {"id": f"chatcmpl-{canary}", "object": "chat.completion.chunk", "created": 1}
    deltas = [{"role": "assistant", "content": ""}, {"content": f"You said {canary}."}, {}]
    return [
        b"data: %s\n\n" % json.dumps({**begin, "model": "fake", "choices": [choice]}).encode()
        for delta in deltas
        for choice in [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]
    ]


def length(content: bytes) -> bytes:
    """Return the header that frames this content."""
    return b"content-length: %d" % len(content)


def whole(asked: Asked, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """Return a whole answer with a length."""
    content = body(asked)
    return head(asked, length(content), *headers, status=status) + content


def chunk(content: bytes) -> bytes:
    """Return one chunk."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def chunked(asked: Asked, *headers: bytes) -> bytes:
    """Return an answer in chunks, without the last one."""
    content = body(asked)
    middle = len(content) // 2
    begin = head(asked, b"transfer-encoding: chunked", *headers)
    return begin + chunk(content[:middle]) + chunk(content[middle:])


def error(asked: Asked, status: bytes, message: str) -> bytes:
    """Return an error as OpenAI writes it."""
    said = {"message": f"{message} {asked.canary.decode()}", "type": "invalid_request_error"}
    content = json.dumps({"error": said}).encode()
    plain = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nx-said: %b\r\n%b\r\n\r\n%b"
    return plain % (status, asked.canary, length(content), content)


def big(asked: Asked) -> bytes:
    """Return a whole answer that fills buffers."""
    content = b'{"said": "' + asked.canary * (BIG_BYTES // len(asked.canary)) + b'"}'
    return head(asked, length(content)) + content
