"""What a run of the small model shows."""

import json
from typing import Any

import pytest

from tools.engine.client.asking import Answer
from tools.engine.findings import Finding
from tools.engine.report import Section
from tools.small_model.chat import Chat, Turn
from tools.small_model.exchanges import Exchange
from tools.small_model.figures import (
    LongChat,
    Metrics,
    contact_findings,
    newest_texts,
    wait_findings,
)
from tools.small_model.report import page, prompt_lines, turn_lines
from tools.small_model.reworded import REWORDED, REWORDED_FACTS
from tools.small_model.story import FACTS, USER

METRICS = """\
# HELP chat_proxy_summaries_fail_total Summaries that could not be written, by reason.
# TYPE chat_proxy_summaries_fail_total counter
chat_proxy_summaries_fail_total{reason="length"} 2.0
chat_proxy_summaries_fail_total{reason="timeout"} 1.0
chat_proxy_summaries_fail_total{reason="sections"} 0.0
# HELP chat_proxy_summaries_total Summaries: written, failed.
# TYPE chat_proxy_summaries_total counter
chat_proxy_summaries_total{result="written"} 4.0
chat_proxy_summaries_total{result="failed"} 3.0
"""
TRUNCATED = """\
# TYPE chat_proxy_silent_truncation_total counter
chat_proxy_silent_truncation_total{result="relayed"} 1.0
"""
HEADERS = {"x-chat-proxy-tokens-after": "98", "x-chat-proxy-compaction": "reused"}


def exchange(*texts: str, arrived: float = 0.0, tokens: int = 100, **more: Any) -> Exchange:
    messages = [{"role": "user", "content": text} for text in texts]
    usage = json.dumps({"usage": {"prompt_tokens": tokens, "completion_tokens": 5}}).encode()
    return Exchange({"messages": messages}, None, arrived, answer=usage, **more)


def turn(*texts: str, wait: float = 0.1, fitted: bool = True, **more: Any) -> Turn:
    status = more.pop("code", 200)
    answer = Answer(status, "Yes.", 100, headers=HEADERS)
    at_server = exchange(*texts, arrived=50.0 + wait, ended=52.0 + wait, **more)
    return Turn(50.0, 52.0 + wait, answer, [at_server], fitted)


def long_chat(*turns: Turn, metrics: str = METRICS, **more: Any) -> dict[str, Finding]:
    history = [{"role": "user", "content": text} for text in (*USER, "(answer)")]
    chat = Chat(history, list(turns))
    known = more.get("known", "2048 (discovery)")
    seen = [it for each in turns for it in each.exchanges]
    run = LongChat(chat, seen, Metrics(metrics), 2_048, 160, known, 400, 6_144)
    return {finding.what: finding for finding in run.findings()}


def test_a_run_that_is_as_wanted_says_so() -> None:
    found = long_chat(turn(*USER), turn(*USER, tokens=1_900), turn(*USER, tokens=800))

    assert all(finding.holds for finding in found.values())
    assert found["3 turns, by the server's count"].figure == "6,144 tokens, 3.0 windows"
    assert found["the user's facts that are in the last prompt"].figure == "14 of 14"
    assert found["last prompt"].figure == "800 of 2048 tokens"
    assert found["… largest prompt"].figure == "1900 of 2048 tokens"
    assert found["… times that history was folded"].figure == "1"
    assert found["… labels, in order"].figure == "reused 3"
    assert found["… summaries written"].figure == "4"
    assert found["… not written, by reason"].figure == "length 2, timeout 1"


def test_a_fact_that_is_lost_is_named() -> None:
    [name, *_] = FACTS
    kept = [text for text in USER if not name.is_in([text])]

    found = long_chat(turn(*USER), turn(*kept))

    lost = found["the user's facts that are in the last prompt"]
    assert (lost.figure, lost.holds) == ("13 of 14 (lost: name)", False)
    assert found["… prompts that lacked a fact which the user had stated"].figure == "1"


def test_other_facts_are_counted_and_nothing_is_wanted_of_them() -> None:
    chat = Chat([{"role": "user", "content": "a"}], [turn(*REWORDED[1:])])
    run = LongChat(chat, [], Metrics(METRICS), 2_048, 160, "", 400, 6_144, REWORDED_FACTS)

    refused, added, kept = run.reworded_findings()

    assert (refused.figure, added.figure) == ("0", "0.10 s")
    assert (kept.figure, kept.wanted) == ("13 of 14 (lost: Marta Ekholm)", "")


def test_a_fact_is_not_missed_before_it_was_stated() -> None:
    found = long_chat(turn(USER[0]), turn(USER[0], USER[1]))

    assert found["… prompts that lacked a fact which the user had stated"].figure == "0"


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"code": 400}, "… requests refused"),
        ({"status": 400}, "… prompts that the server refused"),
        ({"wait": 1.5}, "longest time that the proxy added to a request whose prompt fitted"),
    ],
)
def test_a_turn_that_is_not_as_wanted_fails_its_figure(changed: Any, what: str) -> None:
    found = long_chat(turn(*USER), turn(*USER, **changed))

    assert [name for name, finding in found.items() if not finding.holds] == [what]


def test_a_window_that_was_lowered_and_a_truncation_that_was_seen_fail() -> None:
    found = long_chat(turn(*USER), metrics=METRICS + TRUNCATED, known="1024 (learned)")

    assert [name for name, finding in found.items() if not finding.holds] == [
        "window that the proxy knows at the end",
        "… answers taken for silent truncation",
    ]


def test_a_long_wait_of_what_does_not_fit_is_only_told() -> None:
    fits, whole, others, behind = wait_findings([turn("a"), turn("b", wait=30, fitted=False)], [])

    assert (fits.figure, fits.holds) == ("0.10 s", True)
    assert whole.figure == "2.1 s, 2.1 s"
    assert (others.figure, others.holds) == ("30.00 s (1)", True)
    assert behind.figure == "0.0 s"


def test_first_contacts_tell_their_waits_and_facts() -> None:
    turns = [turn(*USER, wait=30), turn(USER[0], wait=0.2)]

    found = {finding.what: finding for finding in contact_findings(turns, [], Metrics(METRICS))}

    assert found["2 chats that come with this history: refused"].holds
    assert found["… seconds that the proxy added, in order"].figure == "30.0, 0.2"
    assert found["… the user's facts in the prompts"].figure == "14, 1"
    assert found["questions for a summary, in order"].figure == "none"


def test_the_newest_messages_are_what_dropping_the_oldest_leaves() -> None:
    history = [{"content": "a" * 50}, {"content": "b" * 30}, {"content": "c" * 20}]

    assert newest_texts(history, 0.5) == ["b" * 30, "c" * 20]
    assert newest_texts(history, 0.49) == ["c" * 20]
    assert newest_texts(history, 1) == ["a" * 50, "b" * 30, "c" * 20]


def test_what_the_proxy_added_is_the_time_that_the_server_did_not_have() -> None:
    again = turn("a", wait=0.5)
    replayed = Turn(50.0, 55.0, again.answer, again.exchanges * 2, fitted=True)

    assert again.added == pytest.approx(0.5)
    assert replayed.added == pytest.approx(1.0)


def test_each_request_is_a_line_with_its_label_and_times() -> None:
    refused = Turn(1.0, 3.5, Answer(503), [], fitted=False)

    assert list(turn_lines([turn("a"), refused])) == [
        "    1 reused        100 tokens, fits; server 2.0 s, proxy 0.10 s",
        "    2 503             0 tokens, does not fit; server 0.0 s, proxy 2.50 s",
    ]


def test_a_prompt_is_shown_as_the_model_gets_it() -> None:
    assert list(prompt_lines(exchange("Hello", "there"))) == ["[user]", "Hello", "[user]", "there"]


def test_metrics_are_read_by_label_and_added_up() -> None:
    metrics = Metrics(METRICS)

    assert metrics.by_label("summaries_fail", "reason") == {"length": 2, "timeout": 1}
    assert metrics.total("summaries") == 7
    assert metrics.total("unknown") == 0


def test_the_page_has_the_introduction_and_a_table_for_each_section() -> None:
    lines = page(
        "# A title", [Section("Turn by turn", [Finding("refused", "0", "0")])]
    ).splitlines()

    assert lines[0] == "# A title"
    assert "## Turn by turn" in lines
    assert lines[-1] == "| refused | 0 | 0 | ok |"
