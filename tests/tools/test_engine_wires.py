"""The clients of the three APIs that `make engine` talks with."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.responses_rules import responses_violations
from tools.engine.client.asking import FAILED, Answer
from tools.engine.client.talk import SYSTEM, TOOLS, Talk, answered
from tools.engine.client.wires import CHAT, FORMS, MESSAGES, OWN, RESPONSES, WireForm
from tools.engine.findings import Finding, none_of
from tools.engine.report import Results, Section
from tools.engine.scenarios.images import shown
from tools.engine.scenarios.kinds import KINDS, LEARNING, Kinds
from tools.engine.scenarios.wires.turns import TURNS, side_by_side, turns
from tools.small_model.exchanges import Exchange
from tools.small_model.story import FACTS

ENGINES = Path(__file__).parent.parent / "unit" / "wires" / "engines"
ALL = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def history() -> list[dict[str, Any]]:
    talk = Talk(1)
    spoken = {
        **answered("Yes."),
        OWN: [{"type": "message", "role": "assistant", "content": "Yes."}],
    }
    return [SYSTEM, *talk.question(), spoken, *talk.step(), answered("Done."), shown("This?", 30)]


def recorded(engine: str, form: WireForm, ending: str) -> Answer:
    body = (ENGINES / f"{engine}-{form.name}{ending}").read_text()
    return Answer.of(200, httpx.Headers(), body, form)


def test_a_history_obeys_the_rules_of_responses() -> None:
    body = {"model": "m", **RESPONSES.body(history(), 16, TOOLS)}

    assert responses_violations(body) == []
    assert body["instructions"] == SYSTEM["content"]


def test_a_history_obeys_the_rules_of_messages() -> None:
    body = {"model": "m", **MESSAGES.body(history(), 16, TOOLS)}

    assert messages_violations(body) == []
    assert body["system"][0]["text"] == SYSTEM["content"]


def test_the_server_s_own_items_go_back_by_responses_only() -> None:
    said = "Yes."

    assert {"type": "message", "role": "assistant", "content": said} in RESPONSES.body(
        history(), 16, ()
    )["input"]
    assert all(OWN not in message for message in CHAT.body(history(), 16, ())["messages"])


@ALL
def test_a_longer_history_begins_with_the_shorter_one(form: WireForm) -> None:
    key = "input" if form is RESPONSES else "messages"
    shorter = form.body(history(), 16, ())[key]
    longer = form.body([*history(), answered("A fox.")], 16, ())[key]

    assert longer[: len(shorter)] == shorter


@pytest.mark.parametrize("ending", [".json", ".sse"])
@pytest.mark.parametrize("form", [RESPONSES, MESSAGES], ids=lambda form: form.name)
def test_real_answers_are_read(form: WireForm, ending: str) -> None:
    vllm, llama = (recorded(engine, form, ending) for engine in ("vllm", "llama"))

    assert (vllm.prompt_tokens, vllm.cached_tokens) == (130, 128)
    assert (llama.text, llama.prompt_tokens, llama.cached_tokens) == (
        *("The quick brown fox", 151, 150),
    )


@ALL
def test_an_error_in_a_stream_is_no_answer(form: WireForm) -> None:
    body = 'data: {"type": "error", "error": {"message": "no"}}\n\n'

    assert Answer.of(200, httpx.Headers(), body, form).status == FAILED


def test_a_rough_count_is_read_too() -> None:
    answer = Answer(200, headers={"x-chat-proxy-tokens-after": "~120"}, prompt_tokens=100)

    assert answer.counting_error == pytest.approx(0.2)


@pytest.mark.parametrize("form", [RESPONSES, MESSAGES], ids=lambda form: form.name)
def test_an_exchange_shows_its_prompt_and_its_end(form: WireForm) -> None:
    answer = (ENGINES / f"vllm-{form.name}.sse").read_bytes()
    exchange = Exchange(form.body(history(), 16, TOOLS), None, 0.0, answer=answer, form=form)

    assert exchange.texts[0] == SYSTEM["content"]
    assert any("app/" in text for text in exchange.texts)
    assert "Done." in exchange.texts
    assert (exchange.end, exchange.prompt_tokens, exchange.completion_tokens) == ("length", 130, 4)


@pytest.mark.parametrize("form", [RESPONSES, MESSAGES], ids=lambda form: form.name)
def test_a_stream_that_the_proxy_left_has_no_end(form: WireForm) -> None:
    answer = (ENGINES / f"vllm-{form.name}.sse").read_bytes()
    begun = answer[: answer.index(b".delta\n" if form is RESPONSES else b"_delta\n") + 400]

    assert Exchange({}, None, 0.0, status=200, answer=begun, form=form).end == "left"


def test_figures_stand_beside_each_other_and_hold_together() -> None:
    [found] = side_by_side([[none_of("errors", 0)], [none_of("errors", 2)]])

    assert found == Finding("errors", "0 · 2", "0", holds=False)


def test_a_run_of_one_section_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Results(path).add(Section("Counting", [none_of("errors", 1)], "2026-11-17"))
    results = Results(path)
    results.add(Section("Pictures", [], "2026-11-18"))

    found = results.sections(["Pictures", "Counting", "never run"])

    assert [section.title for section in found] == ["Pictures", "Counting"]
    assert results.missing(["Pictures", "never run"]) == ["never run"]
    assert found[1] == Section("Counting", [none_of("errors", 1)], "2026-11-17")


def test_every_kind_is_measured_as_often_as_was_asked() -> None:
    kinds = [kind for kind, _, _ in Kinds(each=4).mixed(1)]

    for kind in KINDS:
        assert kinds[LEARNING:].count(kind) >= 4
    assert kinds[: len(KINDS)] != kinds[len(KINDS) : 2 * len(KINDS)]


def test_the_conversation_states_all_facts() -> None:
    added = list(turns())

    texts = [message["content"] for messages in added for message in messages]
    assert len(added) == TURNS
    assert all(fact.is_in([text for text in texts if text]) for fact in FACTS)
