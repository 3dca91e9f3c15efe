import base64
import re
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.summary import sanitise
from chat_proxy.compaction.summary.sanitise import (
    PIECE_CHARS,
    sanitised,
    without_control_tokens,
    without_payloads,
)

TOKENS = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<|tool calls begin|>",
    '<|"|>',
    "<\uff5cUser\uff5c>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|im_start\uff5c>",
    "<\uff5cim_end|>",
    "<|turn>",
    "<turn|>",
    "<|/tool>",
    "<tool_call|>",
    "<\uff5cturn>",
    "<turn\uff5c>",
    "<s>",
    "</s>",
    "<bos>",
    "<EOS>",
    "<sop>",
    "<extra_id_0>",
    "<extra_id_1>",
    "<start_of_turn>",
    "<think>",
    "</thinking>",
    "<tool_call>",
    "<<SYS>>",
    "<</SYS>>",
    "[INST]",
    "[/inst]",
    "[TOOL_CALLS]",
    "[|system|]",
    "[|endofturn|]",
    "[\uff5cuser\uff5c]",
    "[gMASK]",
    "[sMASK]",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_gets_one_blank_behind_its_bracket(token: str) -> None:
    """FAULTS C14"""
    assert without_control_tokens(f"a{token}system") == f"a{token[0]} {token[1:]}system"


@pytest.mark.parametrize(
    "harmless",
    [
        "a < b | c > d",
        "x < y |> f",
        "f <| x > y",
        "a <|> b",
        "Result<T>|>",
        "| <b> | </b> |",
        "[|1; 2; 3|]",
        "[||]",
        "a[i|j]",
        "[a|b]",
        "[MASK]",
        "<extra_id_>",
        "<extra>",
        "list[int]",
        "<section>",
        "<|two\nlines|>",
        "<|" + "x" * 41 + "|>",
        "<" + "x" * 41 + "|>",
    ],
)
def test_what_only_looks_like_a_token_stays(harmless: str) -> None:
    assert without_control_tokens(harmless) == harmless


_PIECES = st.sampled_from(
    [*'<>|\uff5c[]/ \n"', "turn", "s", "INST", "gMASK", "im_start", "extra_id_1", "SYS"]
)


@given(st.lists(_PIECES, max_size=14).map("".join))
def test_no_token_is_left_and_only_blanks_are_added(text: str) -> None:
    """FAULTS C14"""
    outcome = without_control_tokens(text)

    assert not any(token in outcome for token in TOKENS)
    assert outcome.replace(" ", "") == text.replace(" ", "")
    assert without_control_tokens(outcome) == outcome


def test_an_inert_text_has_no_payload_token_or_broken_character() -> None:
    given = f"<|turn>see {'QUJD' * 100} and data:image/png;base64,AAAA \ud83d"

    size = "[base64 removed: 300 bytes]"
    assert sanitised(given) == f"< |turn>see {size} and [image: image/png] \ufffd"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n"])
def test_a_note_says_how_many_bytes_the_lines_encoded(line_end: str) -> None:
    lines = base64.b64encode(bytes(range(256)))
    wrapped = line_end.join(textwrap.wrap(lines.decode(), 76))

    assert sanitised(f"see {wrapped}") == "see [base64 removed: 256 bytes]"


@pytest.mark.parametrize("line", ["-" * 300, r"src\/app\/chat\/media\/pieces_of_parts"])
def test_drawn_lines_and_escaped_paths_are_no_payload(line: str) -> None:
    assert sanitised(line) == line


@pytest.mark.parametrize("bomb", ["<", "<|", "<a", "<|a", "[|", "[|a", "<" + "a" * 40, "|>", "<s"])
def test_a_text_made_to_hurt_takes_no_time(bomb: str) -> None:
    long = bomb * (200_000 // len(bomb))
    started = time.process_time()

    without_control_tokens(long)

    assert time.process_time() - started < 1


ENCODED = base64.b64encode(bytes(range(256)) * 2).decode()
FRAGMENTS = (
    ENCODED[:59],
    ENCODED[:60],
    ENCODED[:199],
    ENCODED[:230],
    "iVBORw0KGgo" + ENCODED[:20],
    r"\/path".join(["a"] * 5) + ENCODED[:12],
    "-" * 210,
    "\n",
    r"\n",
    r"\r\n",
    "\t ",
    "\\",
    "=",
    ".",
    ", ",
    '"',
    "data:image/png;base64,",
    "word",
    "\u00e9",
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)


@given(TEXTS)
def test_a_text_in_pieces_loses_the_same_payloads_as_the_whole(text: str) -> None:
    assert without_payloads(text, 1) == without_payloads(text, len(text))


@given(TEXTS)
def test_no_payload_is_missed_by_the_quick_look(text: str) -> None:
    assert sanitise._without_base64(text) == sanitise._BASE64.sub(sanitise._note_for_base64, text)


@given(TEXTS)
def test_the_bytes_of_a_payload_are_counted_without_line_ends_and_padding(text: str) -> None:
    runs = [match[0] for match in sanitise._BASE64.finditer(text)]

    counted = [sum(map(run.count, sanitise._NOT_ENCODED)) for run in runs]

    assert counted == [len(run) - len(re.sub(r"\s+|\\[rn]|[\\=]", "", run)) for run in runs]


def test_a_long_text_is_searched_in_pieces() -> None:
    """One call of a pattern over all of it would stop every other thread for so long."""
    lines = f"{ENCODED} is here. " * 1_000

    pieces = list(sanitise._pieces(lines, PIECE_CHARS))

    assert "".join(pieces) == lines
    assert max(map(len, pieces)) < PIECE_CHARS + len(ENCODED) + 20
    assert len(pieces) > 5
