"""How many chats are told in detail."""

from chat_proxy.proxy.reporting.chat_log import DETAILS_PER_SECOND, MAX_DETAILS, ChatLog
from chat_proxy.store.memory import MemoryStore


def test_details_are_told_of_a_burst_and_then_of_so_many_a_second() -> None:
    now = [0.0]
    chat_log = ChatLog(MemoryStore(), enabled=True, show_text=False, clock=lambda: now[0])

    at_once = sum(chat_log.takes_detail() for _ in range(10 * MAX_DETAILS))
    now[0] += 1
    later = sum(chat_log.takes_detail() for _ in range(10 * MAX_DETAILS))
    now[0] += 3_600
    after_a_pause = sum(chat_log.takes_detail() for _ in range(10 * MAX_DETAILS))

    assert (at_once, later, after_a_pause) == (MAX_DETAILS, DETAILS_PER_SECOND, MAX_DETAILS)
