"""Tool results: shortened, made a line and noted within their bounds, whatever is in them."""

from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.line import LONGEST_LINE, RESULT_NOTE, line_of
from chat_proxy.compaction.ageing.short import short_arguments, short_result
from chat_proxy.compaction.ageing.unwrap import unwrapped
from chat_proxy.compaction.summary.fold_text import FoldContent, fold_text, spoken_in
from chat_proxy.compaction.truncate_text import byte_count
from chat_proxy.tokens.token_counter import rough_tokens

MAX_BYTES = 300
ROOM = 600


def age_any_result(data: bytes) -> None:
    """Age a result of any text, and fold it with a message of the user that says the same."""
    text = data.decode("utf-8", "surrogateescape")
    tool, _, rest = text.partition("\n")
    call = ResultCall(tool[:60], rest[:200])
    line = line_of(text, call)
    if line != text:
        assert line.startswith(RESULT_NOTE)
        assert byte_count(line) <= LONGEST_LINE
        assert len(line.splitlines()) == 1
    assert len(line) <= len(text)
    short = short_result(text, MAX_BYTES, call.tool)
    assert byte_count(short) <= MAX_BYTES
    assert short_result(short, MAX_BYTES, call.tool) == short
    assert bool(unwrapped(text)) == bool(text)
    short_arguments(text, MAX_BYTES)
    _fold(text, call)


def _fold(text: str, call: ResultCall) -> None:
    user = Message({"role": "user", "content": text})
    result = Message({"role": "tool", "tool_call_id": "a", "content": text})
    content = FoldContent([(0, user), (1, result)], {1: call}, text)
    folded = fold_text(content, ROOM, rough_tokens)
    assert rough_tokens(folded) <= ROOM
    assert folded == fold_text(content, ROOM, rough_tokens)
    folded.encode()
    assert folded.count("</earlier-conversation>") <= 1
    assert len(spoken_in(folded)) <= 1
