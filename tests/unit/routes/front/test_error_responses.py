"""What a stream ends with when it cannot end well."""

from chat_proxy.errors import ServerShuttingDown
from chat_proxy.routes.front.error_responses import last_event
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.usage import StreamTap
from tests.support.fake_model import DONE


def test_a_stream_that_said_all_it_had_gets_no_last_event() -> None:
    """FAULTS E1: the server stops between `[DONE]` and the end of the connection."""
    tap = StreamTap()
    tap.feed(DONE)

    assert last_event(ServerShuttingDown(), tap, CHAT_COMPLETIONS, "id") == b""


def test_a_last_event_begins_on_a_line_of_its_own() -> None:
    """FAULTS B8."""
    tap = StreamTap()
    tap.feed(b'data: {"half')

    assert last_event(ServerShuttingDown(), tap, CHAT_COMPLETIONS, "id").startswith(b"\n\ndata: {")
