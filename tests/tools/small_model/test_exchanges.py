"""What passed between the proxy and the server."""

import json
from typing import Any

import pytest

from chat_proxy.compaction.summary.prompt import instruction, repair_instruction, short_instruction
from tools.small_model.exchanges import Exchange, in_a_row, seconds_behind

USAGE = {"prompt_tokens": 71, "completion_tokens": 9}


def asked(*texts: str, purpose: str | None = None, **fields: Any) -> Exchange:
    messages = [{"role": "user", "content": text} for text in texts]
    return Exchange({"messages": messages}, purpose, fields.pop("arrived", 0.0), **fields)


def summary(arrived: float = 0.0, ended: float = 0.0, text: str = "") -> Exchange:
    return asked(text, purpose="summary", arrived=arrived, ended=ended)


def test_only_what_the_proxy_asks_for_itself_is_a_summary() -> None:
    assert summary().is_summary
    assert not asked("Hello").is_summary
    assert not asked("Hello", purpose="image-note").is_summary


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"choices": [], "usage": USAGE}),
        f'data: {{"choices": []}}\n\ndata: {json.dumps({"usage": USAGE})}\n\ndata: [DONE]\n\n',
    ],
)
def test_the_server_s_own_counts_are_read_from_any_answer(answer: str) -> None:
    exchange = asked("Hello", answer=answer.encode())

    assert (exchange.prompt_tokens, exchange.completion_tokens) == (71, 9)


@pytest.mark.parametrize("answer", [b"", b'data: {"choi', b"[1]", b"\xff", b'{"usage": null}'])
def test_an_answer_that_broke_off_has_no_counts(answer: bytes) -> None:
    assert asked("Hello", answer=answer).prompt_tokens == 0


def test_parts_without_text_are_no_texts() -> None:
    exchange = Exchange({"messages": [{"role": "assistant", "content": None}]}, None, 0.0)

    assert exchange.texts == [""]
    assert Exchange({}, None, 0.0).texts == []


@pytest.mark.parametrize(
    ("text", "style"),
    [
        (instruction(previous=False), "sections"),
        (instruction(previous=True, is_talk=True), "sections"),
        (repair_instruction(["Goal"], ()), "sections again"),
        (f"A transcript.\n\n{short_instruction(previous=False)}", "short"),
        (short_instruction(previous=True), "short"),
    ],
)
def test_the_instruction_tells_how_a_summary_is_asked_for(text: str, style: str) -> None:
    assert summary(text=text).style == style


def test_names_are_counted_in_a_row() -> None:
    assert in_a_row(["none", "none", "reused", "none"]) == "none 2, reused 1, none 1"
    assert in_a_row([]) == "none"


@pytest.mark.parametrize(
    ("answer", "status", "end"),
    [
        (b'{"choices": [{"finish_reason": "length"}]}', 200, "length"),
        (b'data: {"choices": [{"finish_reason": "stop"}]}\n\ndata: {"choices": []}', 200, "stop"),
        (b'data: {"choices": [{"finish_reason": null}]}', 200, "left"),
        (b"", 0, "left"),
        (b'{"error": {}}', 400, "400"),
    ],
)
def test_an_answer_s_end_is_the_server_s_reason_or_what_came_instead(
    answer: bytes, status: int, end: str
) -> None:
    assert asked("Hello", answer=answer, status=status).end == end


@pytest.mark.parametrize(
    ("began", "seconds"),
    [(14.0, 4.0), (11.0, 1.0), (99.0, 5.0), (0.0, 5.0)],
    ids=["overtaken", "answered at once", "long after it", "never answered"],
)
def test_a_chat_waits_behind_a_summary_until_either_ends(began: float, seconds: float) -> None:
    chat = asked("Hello", arrived=10.0, began=began, ended=100.0)

    assert seconds_behind(chat, [summary(5.0, 15.0), summary(2.0, 3.0)]) == seconds


def test_without_a_summary_nobody_waits_behind_one() -> None:
    assert seconds_behind(asked("Hello", arrived=1.0, began=9.0), []) == 0.0
