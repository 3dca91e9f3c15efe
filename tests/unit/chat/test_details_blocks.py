import html
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.details_blocks import (
    MOST_BLOCKS,
    EmbeddedResult,
    embedded_results,
    with_embedded_results,
)

LETTERS = "ab1\n &<>\"'\\/;=é漢😀\ud83d\ude00"
texts = st.text(LETTERS, max_size=12) | st.sampled_from(
    ['"quoted"', "&lt;", "</details>", '<details type="tool_calls">', "&#10;", '"', "\\u00e9"]
)


def as_attribute(value: str, name: str = "search", more: str = "") -> str:
    """A block with the result as an attribute, written as Open WebUI does."""
    arguments = html.escape(json.dumps('{"query": "x"}'))
    return (
        f'<details type="tool_calls" done="true" id="call_1" name="{html.escape(name)}" '
        f'arguments="{arguments}" result="{html.escape(value)}"{more}>\n'
        "<summary>Tool Executed</summary>\n</details>"
    )


def as_body(value: str, name: str = "search") -> str:
    """A block with the result behind its summary, as later versions write it."""
    return (
        f'<details type="tool_calls" done="true" id="call_1" name="{name}" arguments="">\n'
        f"<summary>Tool Executed</summary>\n{html.escape(value)}\n</details>"
    )


def _texts(content: str) -> list[str]:
    return [result.text for result in embedded_results(content)]


def test_a_json_string_in_an_attribute_is_decoded() -> None:
    answer = '20C & "sunny"'
    content = f"Let me look.\n{as_attribute(json.dumps(answer))}\nIt is warm."

    assert embedded_results(content) == (EmbeddedResult("search", answer),)


def test_a_json_value_in_an_attribute_is_its_own_text() -> None:
    assert _texts(as_attribute('{"c": 21}')) == ['{"c": 21}']


def test_a_result_in_the_body_is_unescaped_without_its_frame() -> None:
    assert _texts(as_body('{"count": 1}\nnext')) == ['{"count": 1}\nnext']


def test_blocks_come_in_their_order_with_their_tools() -> None:
    content = as_attribute("1", "a&b") + "\nand\n" + as_body("2", "c")

    assert embedded_results(content) == (EmbeddedResult("a&b", "1"), EmbeddedResult("c", "2"))


def test_an_attribute_goes_before_the_body() -> None:
    content = as_attribute("1").replace("</summary>\n", "</summary>\nsome words\n")

    assert _texts(content) == ["1"]


def test_a_block_without_a_name_has_an_empty_one() -> None:
    content = '<details type="tool_calls"><summary>x</summary>1</details>'

    assert embedded_results(content) == (EmbeddedResult("", "1"),)


def test_a_tool_that_has_not_answered_has_an_empty_result() -> None:
    content = '<details type="tool_calls" done="false" name="f">\n<summary>x</summary>\n</details>'

    assert embedded_results(content) == (EmbeddedResult("f", ""),)


def test_an_attribute_may_hold_markup_and_stand_without_a_value() -> None:
    content = (
        '<details open type="tool_calls" arguments="<details>\'</details>" result="x>y">'
        '<summary class="s"><b>Done</b></summary></details>'
    )

    assert _texts(content) == ["x>y"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no block, only <details and words",
        'type="tool_calls" without a block',
        '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> x\n</details>',
        '<details name="tool_calls"><summary>x</summary>type="tool_calls"</details>',
        '<details type="tool_calls" result="1"><summary>x</summary>',
        '<details type="tool_calls" result="1"><summary>x</details>',
        '<details type="tool_calls" result="1">no summary</details>',
        '<details type="tool_calls" result="1" <summary>x</summary></details>',
        '<details type="tool_calls" result="1><summary>x</summary></details>',
        "<details type='tool_calls' result='1' x=\"type=\"tool_calls\"\"></details>",
        '<details type="tool_calls" result="1"/><summary>x</summary>',
        '<details-x type="tool_calls" result="1"><summary>x</summary></details>',
        'closed before </details> type="tool_calls" <details',
    ],
)
def test_what_is_not_a_whole_block_is_left_alone(content: str) -> None:
    assert embedded_results(content) == ()
    assert with_embedded_results(content, {0: "other"}) == content


def test_a_block_inside_another_is_left_alone_and_so_is_the_other() -> None:
    inner = as_attribute("1")
    outer = f'<details type="tool_calls" result="2"><summary>x</summary>{inner}{inner}</details>'

    assert _texts(as_body("before") + outer + as_body("after")) == ["before", "after"]
    assert _texts(f"<details><summary>all</summary>{inner}</details>") == []


def test_an_unclosed_tag_in_prose_hides_no_block_behind_it() -> None:
    assert _texts("Use <details> or <details open: " + as_attribute("1")) == ["1"]


def test_only_the_result_changes() -> None:
    block = as_attribute(json.dumps("old"), more=' embeds="&quot;&quot;"')
    content = f'é < & "{block}\n{as_body("b")}'

    outcome = with_embedded_results(content, {0: 'new "text" <b>'})

    escaped = "&quot;new \\&quot;text\\&quot; &lt;b&gt;&quot;"
    assert outcome == content.replace("&quot;old&quot;", escaped)


def test_the_same_text_and_unknown_ordinals_change_nothing() -> None:
    content = as_attribute("it&#39;s")

    assert with_embedded_results(content, {}) == content
    assert with_embedded_results(content, {0: _texts(content)[0], 7: "x"}) == content


@pytest.mark.parametrize(
    ("raw", "text", "expected"),
    [
        ("&#39;", "'", "&#39;"),
        ("it's", "'>", "'&gt;"),
        ("a>b", "'>", "&#x27;>"),
        ("a<b", "<&", "<&amp;"),
        ("x", "<", "&lt;"),
        ("&quot;\\u00e9&quot;", "ü", "&quot;\\u00fc&quot;"),
        ("&quot;é&quot;", "ü", "&quot;ü&quot;"),
        ("&quot;\\u00e9&quot;", "\ud83d\ude00", "&quot;\ud83d\ude00&quot;"),
        ("x", '"quoted"', "&quot;\\&quot;quoted\\&quot;&quot;"),
    ],
)
def test_a_text_is_written_the_way_the_old_one_was(raw: str, text: str, expected: str) -> None:
    block = '<details type="tool_calls" result="{}"><summary>x</summary></details>'

    outcome = with_embedded_results(block.format(raw), {0: text})

    assert outcome == block.format(expected)
    assert _texts(outcome) == [text]


def test_quotes_stay_plain_in_a_body_that_has_plain_ones() -> None:
    block = '<details type="tool_calls"><summary>x</summary>\n{}\n</details>'

    assert with_embedded_results(block.format('say "a"'), {0: 'b "c"'}) == block.format('b "c"')


@pytest.mark.parametrize("body", ["", "\n", "x", "\nx", "x\n", "\nx\n", '"x"', "\n\n\n"])
@pytest.mark.parametrize("text", ["", "\n", "\n\n", "\nx\n", "x", '"x"', '"\n"'])
def test_newlines_at_the_border_of_a_body_survive(body: str, text: str) -> None:
    content = f'<details type="tool_calls"><summary>x</summary>{body}</details>'

    assert _texts(with_embedded_results(content, {0: text})) == [text]


USUAL = ["&quot;", "&#34;", "&#x27;", "&#39;", "&lt;", "&gt;", "&amp;"]
UNUSUAL = [
    "&",
    "&#10;",
    "&#X27;",
    "&lt",
    "&nbsp;",
    "&notit;",
    "&#0;",
    "&amp",
    "&#",
    "&quot",
    "&#xd83d;",
]
PLAIN = ["amp;", "lt;", "#39;", "quot;", "x", ";", "#", "27", "é"]


@given(
    st.lists(st.sampled_from(USUAL + PLAIN), max_size=12)
    | st.lists(st.sampled_from(USUAL + PLAIN + UNUSUAL), max_size=12)
)
def test_entities_are_read_as_the_standard_library_reads_them(pieces: list[str]) -> None:
    """Whether all are usual ones, which are read faster, or not; all at once, never twice."""
    written = f"x{''.join(pieces)}"
    attributes = f'type="tool_calls" name="{written}" result="{written}"'
    content = f"<details {attributes}><summary>x</summary></details>"

    read = html.unescape(written)

    assert embedded_results(content) == (EmbeddedResult(read, read),)


def test_a_long_result_full_of_entities_is_changed_in_no_time() -> None:
    content = as_attribute(json.dumps('<"it\'s" & ">' * 80_000))
    started = time.process_time()

    with_embedded_results(content, {0: "new"})

    assert time.process_time() - started < 1.5


blocks = (
    st.builds(as_attribute, texts)
    | st.builds(as_body, texts)
    | st.builds(lambda text: as_attribute(json.dumps(text)), texts)
)
between = st.text("ab\n <>&\"'é", max_size=5)


@given(st.lists(st.tuples(between, blocks), max_size=4), st.lists(texts, max_size=4), between)
def test_new_results_are_read_back_exactly(
    parts: list[tuple[str, str]], new: list[str], end: str
) -> None:
    content = "".join(before + block for before, block in parts) + end
    old = _texts(content)
    chosen = dict(enumerate(new))

    outcome = with_embedded_results(content, chosen)

    assert len(old) == len(parts)
    assert _texts(outcome) == [chosen.get(index, text) for index, text in enumerate(old)]
    assert with_embedded_results(outcome, dict(enumerate(old))).count("<details") == len(parts)


@given(
    st.lists(
        st.sampled_from(
            [
                *LETTERS,
                "<details",
                "</details>",
                ' type="tool_calls"',
                ">",
                '"',
                ' result="',
                "<summary>",
                "</summary>",
            ]
        ),
        max_size=25,
    )
)
def test_no_text_breaks_the_reading(pieces: list[str]) -> None:
    content = "".join(pieces)
    old = _texts(content)

    outcome = with_embedded_results(content, dict.fromkeys(range(len(old)), "new"))

    assert _texts(outcome) == ["new"] * len(old)


@pytest.mark.parametrize(
    "bomb",
    [
        "<details",
        "<details ",
        "<details a",
        '<details a="',
        '<details type="tool_calls" a="',
        ' a="<details b=" ',
        '"',
        ' a="b"',
        " a",
        "&quot;",
        "<details>",
        "</details>",
        "<summary>",
        "<details></details>",
    ],
)
def test_a_text_made_to_hurt_takes_no_time(bomb: str) -> None:
    megabyte = bomb * (1_000_000 // len(bomb)) + "</details>"
    started = time.process_time()

    embedded_results(f'<details type="tool_calls" result="{megabyte}')

    assert time.process_time() - started < 1.5


def test_many_attributes_take_no_time() -> None:
    megabyte = ' a="<details b=" c' * 60_000
    started = time.process_time()

    embedded_results(f'<details type="tool_calls"{megabyte}><summary></summary></details>')

    assert time.process_time() - started < 1.5


def test_a_text_made_of_nothing_but_blocks_is_left_alone() -> None:
    """20 MB of opening tags were a match for each, kept in a list, and ten seconds of work."""
    block = '<details type="tool_calls"><summary>x</summary>\na result\n</details>'

    assert len(embedded_results(block * MOST_BLOCKS)) == MOST_BLOCKS
    assert embedded_results(block * (MOST_BLOCKS + 1)) == ()
