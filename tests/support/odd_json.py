"""JSON as odd but valid clients write it: blanks, escapes, numbers of any length."""

from hypothesis import strategies as st

blanks = st.text(alphabet=" \n\r\t", max_size=3)
escapes = st.sampled_from(
    ["\\ud83d", "\\udc00", "\\u00e9", "\\/", "\\b", "\\u0000", "😀", "漢", "\\n"]
)
texts = st.lists(st.one_of(escapes, st.text("abc {}[],:'", max_size=8)), max_size=5)
strings = texts.map(lambda pieces: '"' + "".join(pieces) + '"')
numbers = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.sampled_from(["-0", "1.10", "1E+2", "0.1e-7", "123456789.123456789123456789", "1e308"]),
)
plain_values = st.one_of(strings, numbers, st.sampled_from(["true", "false", "null"]))


def with_blanks(pieces: list[str], blank: str, open_close: str) -> str:
    return open_close[0] + blank + f"{blank},{blank}".join(pieces) + blank + open_close[1]


def lists_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda v, b: with_blanks(v, b, "[]"), st.lists(values, max_size=4), blanks)


def objects_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(strings, values), max_size=4)
    return st.builds(
        lambda kv, b: with_blanks([f"{k}{b}:{b}{v}" for k, v in kv], b, "{}"), pairs, blanks
    )


values = st.recursive(plain_values, lambda v: st.one_of(lists_of(v), objects_of(v)), max_leaves=12)


@st.composite
def bodies(draw: st.DrawFn, key: str, items: st.SearchStrategy[str] = values) -> tuple[bytes, bool]:
    """A request whose list has this name, and whether it wants a stream."""
    streams = draw(st.booleans())
    pairs = [("model", '"fake"'), (key, draw(lists_of(items)))]
    if streams:
        pairs.append(("stream", "true"))
    pairs += [(f"x_unknown_{n}", draw(values)) for n in range(draw(st.integers(0, 3)))]
    blank = draw(blanks)
    written = [f'"{key}"{blank}:{blank}{value}' for key, value in draw(st.permutations(pairs))]
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + with_blanks(written, blank, "{}").encode(), streams


def items_of(types: tuple[str, ...], roles: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Objects that look like items, messages or blocks, with anything in them."""
    names: tuple[str, ...] = (
        "content",
        "text",
        "call_id",
        "id",
        "output",
        "input",
        "arguments",
        "action",
        "name",
    )
    names += ("tool_use_id", "summary", "source", "thinking", "signature", "cache_control")

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        head = st.sampled_from([f'"type": "{name}"' for name in types])
        head |= st.sampled_from([f'"role":"{name}"' for name in roles])
        more = st.lists(
            st.tuples(st.sampled_from(names), st.one_of(inner, lists_of(inner), plain_values)),
            max_size=4,
        )
        return st.builds(
            lambda first, pairs: "{" + ", ".join([first, *(f'"{k}" :{v}' for k, v in pairs)]) + "}",
            head,
            more,
        )

    return st.recursive(plain_values, grown, max_leaves=8).flatmap(
        lambda inner: grown(st.just(inner))
    )


RESPONSES_ITEMS = items_of(
    (
        *("message", "function_call", "function_call_output", "custom_tool_call", "reasoning"),
        *("custom_tool_call_output", "local_shell_call", "shell_call", "shell_call_output"),
        # No compaction: one that the proxy did not seal is refused.
        *("computer_call_output", "web_search_call", "input_text", "input_image"),
    ),
    ("user", "assistant", "developer"),
)
MESSAGES_ITEMS = items_of(
    ("text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking", "document"),
    ("user", "assistant", "system"),
)
