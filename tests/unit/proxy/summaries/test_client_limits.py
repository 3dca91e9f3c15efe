"""The sizes at which clients compact their conversations themselves."""

from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.proxy.summaries.client_limits import REMEMBERED_SCOPES, ClientLimits

ALICE = Scope("alice", b"model")
LIMIT = 10_000


def test_a_client_that_never_compacted_itself_is_not_expected_to() -> None:
    assert not ClientLimits().expects_own_compaction(ALICE, 100, LIMIT)


def test_a_client_is_expected_to_compact_at_the_size_of_its_last_time() -> None:
    limits = ClientLimits()
    limits.saw_own_compaction(ALICE, 7_000)

    assert limits.expects_own_compaction(ALICE, 7_300, LIMIT)
    assert not limits.expects_own_compaction(ALICE, 7_400, LIMIT)


def test_near_the_window_a_summary_is_written_in_any_case() -> None:
    limits = ClientLimits()
    limits.saw_own_compaction(ALICE, 20_000)

    assert limits.expects_own_compaction(ALICE, 9_500, LIMIT)
    assert not limits.expects_own_compaction(ALICE, 9_501, LIMIT)


def test_another_tenant_or_model_is_not_expected_to() -> None:
    limits = ClientLimits()
    limits.saw_own_compaction(ALICE, 7_000)

    assert not limits.expects_own_compaction(Scope("bob", b"model"), 100, LIMIT)
    assert not limits.expects_own_compaction(Scope("alice", b"other"), 100, LIMIT)


def test_what_is_remembered_is_bounded() -> None:
    limits = ClientLimits()
    limits.saw_own_compaction(ALICE, 7_000)
    for number in range(REMEMBERED_SCOPES):
        limits.saw_own_compaction(Scope(str(number), b"model"), 7_000)

    assert not limits.expects_own_compaction(ALICE, 100, LIMIT)
