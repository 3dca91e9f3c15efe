"""Answers of real engines, byte for byte as vLLM 0.32 and llama.cpp 2026.10 gave them.

Each was cut at its maximum of four tokens, and most of its prompt came from the engine's cache.
"""

from pathlib import Path

import orjson
import pytest

from chat_proxy.upstream.overflow import overflow_in
from chat_proxy.wires.answers import AnswerForm, Completion
from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.responses.answers import ResponsesAnswers
from chat_proxy.wires.usage import Usage

FOLDER = Path(__file__).parent / "engines"
FORMS: dict[str, AnswerForm] = {"responses": ResponsesAnswers(), "messages": MessagesAnswers()}
USAGES = {"vllm": Usage(130, 4, 128), "llama": Usage(151, 4, 150)}
TEXTS = {"vllm": " 남은.authentication 남은.authentication", "llama": "The quick brown fox"}
ENGINES = pytest.mark.parametrize("engine", ["vllm", "llama"])
WIRES = pytest.mark.parametrize("wire", ["responses", "messages"])
MAX_TOKENS = 4


def recorded(engine: str, wire: str, ending: str) -> bytes:
    return (FOLDER / f"{engine}-{wire}{ending}").read_bytes()


def completions(engine: str, wire: str) -> list[Completion]:
    """Return what is understood of the whole answer and of the stream."""
    form = FORMS[wire]
    whole = form.completion_in_document(orjson.loads(recorded(engine, wire, ".json")))
    return [whole, form.completion_in_events(recorded(engine, wire, ".sse"))]


@ENGINES
@WIRES
def test_usage_and_text_of_a_real_answer_are_read(engine: str, wire: str) -> None:
    for completion in completions(engine, wire):
        assert completion.text == TEXTS[engine]
        assert completion.usage == USAGES[engine]


@ENGINES
@WIRES
def test_the_cached_share_of_a_real_answer_is_known(engine: str, wire: str) -> None:
    for completion in completions(engine, wire):
        assert completion.cached_tokens == USAGES[engine].cached_tokens


@ENGINES
@WIRES
def test_a_real_answer_that_was_cut_is_known_to_be(engine: str, wire: str) -> None:
    for completion in completions(engine, wire):
        assert completion.limited_to(MAX_TOKENS).finish_reason == "length"


def test_a_response_that_does_not_say_why_it_ended_is_whole_below_its_maximum() -> None:
    for completion in completions("llama", "responses"):
        assert completion.limited_to(MAX_TOKENS + 1).finish_reason is None


def test_a_stated_reason_holds_whatever_was_counted() -> None:
    answer = {"status": "completed", "incomplete_details": None, "usage": {"output_tokens": 9}}

    completion = ResponsesAnswers().completion_in_document(answer)

    assert completion.limited_to(1).finish_reason == "stop"


@ENGINES
@WIRES
def test_a_real_stream_is_observed_to_its_end(engine: str, wire: str) -> None:
    stream = recorded(engine, wire, ".sse")
    for size in (1, 7, len(stream)):
        tap = FORMS[wire].tap()
        passed = b"".join(tap.feed(stream[at : at + size]) for at in range(0, len(stream), size))

        assert passed == stream
        assert tap.done
        assert not tap.failed
        assert tap.usage == USAGES[engine]


@ENGINES
@WIRES
def test_a_real_refusal_tells_the_window(engine: str, wire: str) -> None:
    overflow = overflow_in(400, recorded(engine, wire, "-refused.json"))

    assert overflow is not None
    assert overflow.limit == 2_048
    assert overflow.prompt_tokens == {"vllm": None, "llama": 4_831}[engine]


def test_a_stream_without_its_first_event_tells_no_prompt() -> None:
    """llama.cpp leaves out `message_start` if its first token is a part of a letter."""
    stream = recorded("llama", "messages", "-no-start.sse")
    tap = MessagesAnswers().tap()

    assert tap.feed(stream) == stream
    assert tap.done
    assert tap.usage == Usage(0, 2, 0)
    assert MessagesAnswers().completion_in_events(stream).finish_reason == "length"
