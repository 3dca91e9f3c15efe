"""Write what was done to a request, and why not more, into its record."""

from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.sizing.measure import Measured
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.record import RequestRecord

UNKNOWN_SHAPE = "Not compacted: the messages are not a list of objects."
UNKNOWN_WINDOW = (
    "Not compacted: the upstream does not report this model's context window; set "
    "CHAT_PROXY_BUDGET_CONTEXT_WINDOW, or context_window in the registry file."
)
CLIENT_COMPACTS = "Sent with as much of its history as fits: the client compacts it itself (%s)."
STORED_HISTORY = "Not compacted: a part of the conversation is stored at the upstream."


def record_size(record: RequestRecord, measured: Measured) -> None:
    """Record the size of a request as the client sent it."""
    record.tokens_before = record.tokens_after = measured.tokens
    record.messages_before = record.messages_after = len(measured.counted.profiles)
    if measured.window is not None:
        record.window = measured.window.tokens
        record.window_source = measured.window.source


def record_result(record: RequestRecord, result: CompactionResult) -> None:
    """Record what was done to a request, and log the notices of its stages."""
    record.compaction = result.label
    record.stages = result.stages
    record.failed_stages = tuple([failure.stage for failure in result.failures])
    record.is_break = result.is_break
    record.messages_after = len(result.conversation)
    record.tokens_after = result.token_count.tokens
    record.checkpoint = result.history_id
    record.unfit = result.unfit or record.unfit
    record.summary_wait_seconds += result.waited_seconds
    if result.reason:
        record.explain(result.reason)
    if result.client:
        record.explain(CLIENT_COMPACTS % result.client, warns=False)
    for notice in result.notices:
        log(notice, request_id=record.request_id, mode=record.mode)
    for failure in result.failures:
        log(
            "a stage failed and was skipped",
            WARNING,
            request_id=record.request_id,
            stage=failure.stage,
            exception=type(failure.error).__name__,
        )
