"""A checkpoint is applied without a thread only if that blocks nobody."""

from time import thread_time

from chat_proxy.compaction.ageing.apply import nowhere
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.inline_or_thread import INLINE_BYTES
from chat_proxy.proxy.session.session import BYTES_PER_MESSAGE, apply_checkpoint
from tests.unit.chat.shapes import conversation, turn

MOST_SECONDS = 0.03
ROUNDS = 5


def seconds_to_apply(messages: int) -> float:
    given = conversation(*(it for number in range(messages // 3) for it in turn(number)))
    end = len(given) - 30
    checkpoint = Checkpoint(end, Treatments(), 0, folded_until=end, text="So far.")
    start = thread_time()
    apply_checkpoint(given, checkpoint, nowhere)
    return thread_time() - start


def test_what_is_applied_without_a_thread_blocks_nobody() -> None:
    most = INLINE_BYTES // BYTES_PER_MESSAGE

    assert min(seconds_to_apply(most) for _ in range(ROUNDS)) < MOST_SECONDS
