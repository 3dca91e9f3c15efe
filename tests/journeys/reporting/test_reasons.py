"""Whatever goes wrong, one sentence says why: in the log as a warning, and on the dashboard."""

import json
from typing import Any

import pytest

from tests.journeys.planner.tight import before_strict_server, varied
from tests.journeys.summaries.troubles import history, outcome, troubled
from tests.support.conversations import Heard, listening
from tests.support.fake_model import Line, Received, answer_json, polite
from tests.support.live import (
    Proxy,
    chat_body,
    chat_request,
    eventually,
    http_client,
    raw_client,
    running_proxy,
)
from tests.support.meeting import meeting
from tests.support.summary_model import Question
from tests.unit.chat.shapes import system, user

pytestmark = pytest.mark.anyio

NOWHERE = "http://127.0.0.1:1/v1"


async def told(proxy: Proxy, heard: Heard) -> dict[str, Any]:
    """Return the log line of the last request; the dashboard's row has the same reason."""
    await eventually(lambda: heard.lines("request"))
    line = heard.lines("request")[-1]
    row = proxy.services.chat_log.history.rows()[-1]
    assert row["reason"] == line.get("reason", "")
    return line


async def test_an_unreachable_upstream_is_named_to_the_operator_and_not_to_the_client() -> None:
    with listening() as heard:
        async with running_proxy(NOWHERE) as proxy, raw_client(proxy) as client:
            await client.send(chat_request())
            answer = await client.answer()
            line = await told(proxy, heard)

    assert answer.error["message"] == "The upstream refused the connection."
    assert line["level"] == "warning"
    assert line["reason"] == f"The upstream refused the connection ({NOWHERE})."


async def test_a_breaker_that_opens_and_closes_is_logged_with_the_upstream() -> None:
    breaker = {"breaker_failures": 2, "breaker_seconds": 0.05}
    with listening() as heard:
        async with running_proxy(NOWHERE, upstream=breaker) as proxy, raw_client(proxy) as client:
            for _ in range(2):
                await client.send(chat_request())
                await client.answer()
            (opened,) = heard.lines(
                "the upstream fails repeatedly: requests to it are refused for a while"
            )
            proxy.services.forwarding.upstream.breakers.of(NOWHERE).succeeded()
            (closed,) = heard.lines("the upstream answers again")

    assert (opened["level"], opened["upstream"], opened["seconds"]) == ("warning", NOWHERE, 0.05)
    assert (closed["level"], closed["upstream"]) == ("info", NOWHERE)


async def test_a_clients_own_mistake_is_told_without_a_warning() -> None:
    with listening() as heard:
        async with meeting(polite) as met:
            await met.client.send(chat_request(b"[]"))
            await met.client.answer()
            line = await told(met.proxy, heard)

    assert (line["level"], line["reason"]) == ("info", "The body must be a JSON object.")


@pytest.mark.parametrize(("status", "level"), [(400, "info"), (401, "warning"), (503, "warning")])
async def test_an_upstreams_refusal_is_told_in_its_own_words(status: int, level: str) -> None:
    async def refuse(_: Received, line: Line) -> None:
        await answer_json(line, {"error": {"message": "Incorrect API key provided."}}, status)

    with listening() as heard:
        async with meeting(refuse) as met:
            answer = await met.ask()
            line = await told(met.proxy, heard)

    assert json.loads(answer.body) == {"error": {"message": "Incorrect API key provided."}}
    assert line["level"] == level
    where = f"The upstream {met.model.url} answered with status {status}"
    assert line["reason"] == f"{where}: Incorrect API key provided."


async def test_a_summary_that_the_model_refuses_is_told_in_its_own_words() -> None:
    async def refuse(question: Question, line: Line) -> None:
        quoted = question.messages[1]["content"]
        message = f"auto tool choice is off here; the input was {quoted}"
        await answer_json(line, {"error": {"message": message}}, 404)

    async with troubled(refuse) as trouble:
        answer = await trouble.ask(history())
        line = await told(trouble.met.proxy, trouble.heard)
        (failed,) = trouble.heard.lines("no summary was written")

    said = failed["said"]
    assert outcome(answer) == "failed-open"
    assert failed["reason"] == "refused"
    assert said.startswith("status 404, auto tool choice is off here; the input was ")
    assert said.endswith("…")
    assert line["level"] == "warning"
    assert line["reason"] == (
        f"No summary was written: the summary model refused the request: {said}"
    )


async def test_a_manual_compaction_answers_with_the_words_of_the_summary_model() -> None:
    async def refuse(_: Question, line: Line) -> None:
        await answer_json(line, {"error": {"message": "The quota is used up."}}, 429)

    async with troubled(refuse) as trouble, http_client(trouble.met.proxy) as client:
        body = {"model": "fake", "messages": history(6)}
        answer = await client.post("/v1/chat/compact", json=body)

    assert answer.status_code == 502
    assert answer.json()["error"]["message"] == (
        "No summary was written: the summary model cannot be reached or answers with errors: "
        "status 429, The quota is used up. Nothing was changed."
    )


async def test_a_request_that_cannot_fit_is_told_with_its_numbers() -> None:
    with listening() as heard:
        async with before_strict_server() as guest:
            await guest.tell([system(varied(9_000, "rules")), user("Go on.")])
        await eventually(lambda: heard.lines("request"))
        line = heard.lines("request")[-1]

    assert line["level"] == "warning"
    assert line["reason"].startswith(
        "No form of the request fits: instructions and tools alone take 9,"
    )


async def test_a_skipped_compaction_names_the_setting_that_helps() -> None:
    async def no_window(received: Received, line: Line) -> None:
        if received.method == "GET":
            await answer_json(line, {"object": "list", "data": []})
        else:
            await polite(received, line)

    with listening() as heard:
        async with meeting(polite) as met:
            met.model.behaviour = no_window
            await met.ask(model="strange")
            line = await told(met.proxy, heard)

    assert line["level"] == "warning"
    assert "CHAT_PROXY_BUDGET_CONTEXT_WINDOW" in line["reason"]


async def test_a_request_that_goes_well_has_no_reason() -> None:
    with listening() as heard:
        async with meeting(polite) as met:
            await met.ask()
            line = await told(met.proxy, heard)

    assert (line["level"], line.get("reason")) == ("info", None)


async def test_paths_with_a_wrong_prefix_are_answered_with_the_right_one() -> None:
    with listening() as heard:
        async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
            without = await client.post("/chat/completions", content=chat_body())
            twice = await client.post("/v1/v1/messages", content=chat_body())
            elsewhere = await client.get("/elsewhere")

    assert (without.status_code, twice.status_code, elsewhere.status_code) == (404, 404, 404)
    assert without.json()["error"] == {
        "message": "Use /v1/chat/completions: the client's base URL must end in /v1.",
        "type": "invalid_request_error",
        "param": None,
        "code": "not_found",
    }
    assert twice.json()["error"]["message"] == (
        "Use /v1/messages: the client's base URL has /v1 twice."
    )
    assert elsewhere.json()["error"]["message"] == "There is nothing at this path."
    (line,) = heard.lines("request refused")
    assert (line["level"], line["path"]) == ("warning", "/chat/completions")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1", "This is the base URL: clients add a path to it, such as /chat/completions."),
        ("/v1/", "This is the base URL: clients add a path to it, such as /chat/completions."),
        ("/", "This is the base URL: clients add a path to it, such as /chat/completions."),
        ("/v1/responses/", "Use /v1/responses, without a slash at its end."),
        ("/messages/", "Use /v1/messages: the client's base URL must end in /v1."),
        (
            "/api/chat",
            "Ollama's own API is not served: use OpenAI's, with a base URL that ends in /v1.",
        ),
        ("/v1/v2", "There is nothing at this path."),
    ],
)
async def test_other_wrong_paths_are_answered_with_what_to_change(path: str, hint: str) -> None:
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        answer = await client.post(path, content=chat_body())

    assert (answer.status_code, answer.json()["error"]["message"]) == (404, hint)


async def test_a_wrong_method_is_answered_with_the_right_one() -> None:
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        chat = await client.get("/v1/chat/completions")
        root = await client.delete("/metrics")

    said = [it.json()["error"]["message"] for it in (chat, root)]
    assert said == [
        "The path does not support the request method; use POST.",
        "The path does not support the request method; use GET.",
    ]


async def test_the_root_names_the_paths_that_there_are() -> None:
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        answer = await client.get("/")

    assert answer.status_code == 200
    assert (answer.json()["service"], answer.json()["dashboard"]) == ("chat-proxy", "/dashboard")


async def test_the_root_names_no_page_that_is_switched_off() -> None:
    off: dict[str, Any] = {"dashboard": {"enabled": False}, "metrics": {"enabled": False}}
    async with running_proxy(NOWHERE, **off) as proxy, http_client(proxy) as client:
        answer = await client.get("/")

    assert set(answer.json()) == {"service", "base_url", "models", "health"}
