"""The latest chats and their sums."""

from typing import Any

import orjson
import pytest

from chat_proxy.telemetry.chat_history import DETAIL_BYTES, DETAILS, ROWS, ChatHistory
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.telemetry.totals import MODELS, OTHERS, Totals
from tests.journeys.dashboard.records import finished


def test_a_chat_becomes_a_row_without_its_tenants_key() -> None:
    history = ChatHistory(clock=lambda: 12.0)

    history.add(finished(tenant="a" * 64, stages=("summary",), prepared_seconds=0.25))

    (row,) = history.rows()
    assert (row["id"], row["at"], row["tenant"]) == (f"{history.worker}-0", 12.0, "a" * 12)
    assert (row["stages"], row["tokens"], row["proxy_ms"]) == (["summary"], [100, 100], 250.0)


def test_a_row_is_json_whatever_the_model_is_called() -> None:
    history = ChatHistory()

    history.add(finished(model="\ud800<b>" + "x" * 500))

    (row,) = history.rows()
    assert orjson.loads(orjson.dumps(row))["model"] == "?<b>" + "x" * 124


@pytest.mark.parametrize("wire", ["responses", "messages"])
def test_chats_of_every_wire_become_rows(wire: str) -> None:
    history = ChatHistory()

    history.add(finished(route=f"/v1/{wire}"))
    history.add(finished())

    assert [row["wire"] for row in history.rows()] == [wire, "chat"]


@pytest.mark.parametrize("route", ["/v1/embeddings", "/v1/messages/count_tokens"])
def test_other_requests_are_only_counted(route: str) -> None:
    history = ChatHistory()

    history.add(RequestRecord("id", route, "POST"))

    assert (history.rows(), history.totals.others, history.count) == ([], 1, 0)


def test_only_the_latest_rows_are_kept_and_their_numbers_go_on() -> None:
    history = ChatHistory()

    for _ in range(ROWS + 7):
        history.add(finished())

    numbers = [row["number"] for row in history.rows()]
    assert numbers == list(range(7, ROWS + 7))
    assert [row["number"] for row in history.rows(ROWS + 5)] == [ROWS + 5, ROWS + 6]
    assert history.rows(ROWS + 7) == []


def test_details_are_bounded_in_number_and_size() -> None:
    history = ChatHistory()

    for _ in range(DETAILS + 1):
        history.add(finished(detail=b"{}"))
    history.add(finished(detail=b"x" * (DETAIL_BYTES + 1)))

    assert (history.detail(0), history.detail(1)) == (None, b"{}")
    assert history.detail(DETAILS + 1) is None
    assert not history.rows(DETAILS + 1)[0]["has_detail"]


def totals_of(**fields: object) -> Totals:
    totals = Totals()
    totals.add(finished(**fields))
    return totals


def test_tokens_that_were_not_sent_are_saved() -> None:
    totals = totals_of(tokens_after=40, stages=("summary",), compaction="built", is_break=True)

    assert (totals.saved, totals.tokens_before) == (60, 100)
    assert (totals.changed, totals.compactions, totals.built) == (1, 1, 1)


def test_nothing_is_saved_in_observe_mode() -> None:
    """BUGS 39: what was not done is not reported as done."""
    totals = totals_of(tokens_after=40, stages=("summary",), compaction="reused", mode="observe")

    assert (totals.saved, totals.would_save, totals.observed) == (0, 60, 1)
    assert (totals.changed, totals.reused) == (0, 0)


def test_a_chat_that_failed_has_saved_nothing() -> None:
    """BUGS 39."""
    totals = totals_of(tokens_after=40, status=400)

    assert (totals.saved, totals.failed) == (0, 1)


def test_a_chat_that_the_proxy_answered_itself_has_saved_nothing() -> None:
    """BUGS 39: `/compact` sends nothing, so there is nothing that it did not send."""
    record = finished(tokens_after=40, compaction="built", upstream_seconds=None)
    history = ChatHistory()

    history.add(record)

    assert history.totals.saved == 0
    assert history.totals.by_model()[0]["saved"] == 0


def test_a_chat_that_grew_has_not_lost_anything_either() -> None:
    assert totals_of(tokens_after=140).saved == 0
    assert totals_of(tokens_after=None).saved == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tokens_before": None, "tokens_after": None}, "unmeasured"),
        ({"window": 0}, "without_window"),
        ({"compaction": "failed-open"}, "failed_open"),
        ({"failed_stages": ("strip_media",)}, "failed_open"),
        ({"replays": 1}, "replays"),
    ],
)
def test_what_was_left_undone_is_counted(fields: dict[str, object], name: str) -> None:
    """BUGS 39."""
    assert getattr(totals_of(**fields), name) == 1


def test_a_chat_that_was_refused_was_not_left_unguarded() -> None:
    refused = totals_of(tokens_before=None, tokens_after=None, status=401, upstream_seconds=None)

    assert (refused.failed, refused.unmeasured) == (1, 0)


def test_the_sums_of_several_processes_are_added() -> None:
    one, other = totals_of(tokens_after=40).document(), totals_of(tokens_after=70).document()
    other.pop("others")

    both = Totals.sum_of([one, other])

    assert (both.chats, both.saved, both.others) == (2, 90, 0)


def models_of(*records: RequestRecord) -> list[dict[str, Any]]:
    history = ChatHistory()
    for record in records:
        history.add(record)
    return history.totals.by_model()


def test_a_models_estimates_are_compared_with_its_own_counts() -> None:
    (model,) = models_of(
        finished(tokens_after=110, prompt_tokens=100),
        finished(tokens_after=90, prompt_tokens=100),
        finished(tokens_after=90, prompt_tokens=0),
        finished(tokens_after=50, prompt_tokens=100, mode="observe", tokens_before=100),
        finished(tokens_after=500, prompt_tokens=100, status=500),
    )

    assert (model["chats"], model["estimates"]) == (5, 3)
    assert model["error"] == pytest.approx(0.2 / 3)
    assert model["bias"] == pytest.approx(0)
    assert (model["window"], model["window_source"]) == (1_000, "setting")


def test_a_model_that_nobody_knows_has_no_window_and_no_error() -> None:
    (model,) = models_of(finished(window=0, tokens_before=None, tokens_after=None))

    assert (model["window"], model["error"], model["bias"], model["saved"]) == (0, None, None, 0)


def test_only_so_many_models_have_a_line_of_their_own() -> None:
    found = models_of(*(finished(model=f"m{number}") for number in range(MODELS + 3)))

    models = {model["model"]: model["chats"] for model in found}

    assert len(models) == MODELS + 1
    assert models[OTHERS] == 3


def test_each_wire_of_a_model_has_its_own_line() -> None:
    found = models_of(
        finished(tokens_after=40, stages=("summary",)),
        finished(route="/v1/messages", tokens_after=90),
        finished(),
    )

    lines = [(it["model"], it["wire"], it["chats"], it["changed"], it["saved"]) for it in found]
    assert lines == [("demo", "chat", 2, 1, 60), ("demo", "messages", 1, 0, 10)]


def test_the_models_and_stages_of_several_processes_are_added() -> None:
    one = totals_of(tokens_after=40, prompt_tokens=50, stages=("summary",), compaction="built")
    other = totals_of(tokens_after=70, prompt_tokens=70, window=0)

    both = Totals.sum_of([other.document(), one.document()])

    (model,) = both.by_model()
    assert (model["chats"], model["saved"], model["estimates"], model["window"]) == (2, 90, 2, 1000)
    assert model["error"] == pytest.approx(0.1)
    assert both.stages == {"summary": 1}


def test_the_totals_are_those_of_all_chats_not_of_the_kept_ones() -> None:
    history = ChatHistory()
    for _ in range(ROWS + 5):
        history.add(finished(tokens_after=40))

    assert history.totals.saved == history.totals.by_model()[0]["saved"] == 60 * (ROWS + 5)


def test_a_command_is_neither_unmeasured_nor_without_a_window() -> None:
    totals = totals_of(command="/compact", window=0, upstream_seconds=None, compaction="built")

    assert (totals.commands, totals.unmeasured, totals.without_window) == (1, 0, 0)


def test_a_chat_that_was_not_sent_is_not_called_without_a_window() -> None:
    assert totals_of(window=0, upstream_seconds=None, status=502).without_window == 0


def test_waits_for_summaries_are_counted() -> None:
    totals = totals_of(summary_wait_seconds=1.5)

    assert (totals.waits, totals.waited_ms) == (1, 1_500)
