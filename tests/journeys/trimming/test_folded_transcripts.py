"""Tool results that a front end folded into assistant text: cut and aged inside their blocks."""

import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from tests.journeys.trimming.growing import (
    Asked,
    Client,
    client_of,
    fake,
    is_line,
    lines_in,
    listening,
    output,
)
from tests.unit.chat.shapes import Fields, image, says, system, text, user

pytestmark = pytest.mark.anyio

SMALL = 8_192
LARGE = 1_000_000
ODD = "He said: \"5 < 6 && 'a' > b\" \\ é 漢字 </details> <details>\n"


def block(name: str, words: str, arguments: str = '{"q": "<a> & \\"b\\""}') -> str:
    """Return a block with its result as an attribute."""
    return (
        f'<details type="tool_calls" done="true" id="{name}" name="search" '
        f'arguments="{html.escape(arguments)}" result="{html.escape(json.dumps(words))}" '
        f'files="">\n<summary>Tool Executed</summary>\n</details>'
    )


def block_with_body(name: str, words: str) -> str:
    """Return a block with its result as its body."""
    return (
        f'<details type="tool_calls" done="true" id="{name}" name="search" arguments="">\n'
        f"<summary>Tool Executed</summary>\n{html.escape(json.dumps(words))}\n</details>"
    )


class Blocks(HTMLParser):
    """Reads blocks as a browser does, and so knows nothing of how the proxy finds them."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.attributes: list[dict[str, str | None]] = []
        self.bodies: list[str] = []
        self.outside = ""
        self.depth = 0
        self._in_summary = False
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            self.depth += 1
            self.attributes.append(dict(attrs))
            self.bodies.append("")
        self._in_summary = tag == "summary"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"
        self._in_summary = False

    def handle_data(self, data: str) -> None:
        if not self.depth:
            self.outside += data
        elif not self._in_summary:
            self.bodies[-1] += data

    @property
    def results(self) -> list[str]:
        """The results as the front end shows them."""
        assert self.depth == 0
        return [
            json.loads(attributes.get("result") or body)
            for attributes, body in zip(self.attributes, self.bodies, strict=True)
        ]


def answer_with(*blocks: str) -> Fields:
    return says("Let me see.\n\n" + "\n\n".join(blocks) + "\n\nThat was it.")


def chat(turns: int, words: str = "") -> list[Fields]:
    """Return turns whose results are folded into the answers."""
    messages = [system()]
    for number in range(turns):
        folded = block(str(number), output(340, number) + words)
        messages += [user(f"Search {number}"), answer_with(folded)]
    return messages


def blocks_of(asked: Asked) -> list[Blocks]:
    return [Blocks(m["content"]) for m in asked.messages if m["role"] == "assistant"]


@pytest.mark.parametrize("write", [block, block_with_body])
async def test_a_long_result_is_cut_inside_its_block(write: Callable[[str, str], str]) -> None:
    words = ODD + output(4_000) + ODD
    given = [user("hi"), answer_with(write("1", words), write("2", ODD)), user("more")]

    async with fake() as model, client_of(model, LARGE, tools={"max_bytes": 2_000}) as client:
        asked = await client.ask(given)
        again = await client.ask(given)

    before, after = Blocks(given[1]["content"]), Blocks(asked.messages[1]["content"])
    assert after.outside == before.outside
    cut, whole = after.results
    assert whole == ODD
    assert cut.startswith(ODD)
    assert cut.endswith(ODD)
    assert len(cut.encode()) <= 2_000
    assert re.search(r"\[Tool output truncated: omitted \d+ chars\] \[offload id: [0-9a-f]+\]", cut)
    assert again.upstream == asked.upstream
    for old, new in zip(before.attributes, after.attributes, strict=True):
        assert {**new, "result": ""} == {**old, "result": ""}


async def test_one_line_is_left_of_old_results_inside_their_blocks() -> None:
    given = [*chat(14, ODD), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    before = [Blocks(m["content"]) for m in given if m["role"] == "assistant"]
    after = blocks_of(asked)
    results = [result for each in after for result in each.results]
    boundary = sum(map(is_line, results))
    assert 5 <= boundary <= 11
    assert all(map(is_line, results[:boundary]))
    assert all("] search() → " in line for line in results[:boundary])
    assert results[boundary:] == [result for each in before for result in each.results][boundary:]
    assert [each.outside for each in after] == [each.outside for each in before]
    assert [m for m in asked.messages if m["role"] != "assistant"] == [
        m for m in given if m["role"] != "assistant"
    ]
    assert asked.stages == ["age_tool_output"]


async def test_a_grown_chat_repeats_them_to_the_byte() -> None:
    """BUGS 21, 44."""
    given = [*chat(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        with listening() as log:
            first = await client.ask(given)
            for number in range(3):
                given += [answer_with(block("x", output(150, number))), user("go on")]
                await client.ask(given)
            compactions = await log.compactions(4)

    assert compactions == [first.headers["x-request-id"]]
    assert client.broken() == []


async def passes_untouched(client: Client, content: object) -> bool:
    """Tell whether an assistant's content passes byte for byte, over the trigger."""
    given = [*chat(14)[1:], says(content), user("and?"), *chat(3)[1:], user("next")]
    asked = await client.ask(given)
    assert all(is_line(line) for each in blocks_of_strings(asked) for line in each.results)
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() in asked.prompt


def blocks_of_strings(asked: Asked) -> list[Blocks]:
    contents = (m["content"] for m in asked.messages if m["role"] == "assistant")
    return [Blocks(c) for c in contents if type(c) is str and c.startswith("Let me see.")][:5]


LONG = output(3_000, "odd")
LEFT_ALONE = {
    "unclosed": block("1", LONG).removesuffix("</details>"),
    "unclosed tag": block("1", LONG).partition(">\n<summary>")[0],
    "nested": f'<details type="tool_calls"><summary>a</summary>{block("1", LONG)}</details>',
    "nested in another kind": f'<details type="reasoning">{block("1", LONG)}</details>',
    "another kind": block("1", LONG).replace("tool_calls", "reasoning"),
    "without a summary": block("1", LONG).replace("<summary>Tool Executed</summary>", ""),
    "unquoted": block("1", LONG).replace('id="1"', "id=1"),
    "closed only": f"{LONG}</details>",
    "quoted": f"The form is `{block('1', LONG)[:-10]}`",
}


@pytest.mark.parametrize("form", LEFT_ALONE)
async def test_a_block_that_is_not_well_formed_is_left_alone_byte_for_byte(form: str) -> None:
    """Neither truncated nor aged: cutting through it would show its inside as text."""
    content = f"Look:\n{LEFT_ALONE[form]}"

    async with fake() as model, client_of(model, SMALL, tools={"max_bytes": 2_000}) as client:
        assert await passes_untouched(client, content)


async def test_blocks_in_the_text_of_a_user_are_his_own_words() -> None:
    """BUGS 38."""
    quoted = user("What is this?\n" + block("1", LONG))
    given = [quoted, *chat(16)[1:], user("next")]

    async with fake() as model, client_of(model, SMALL, tools={"max_bytes": 2_000}) as client:
        asked = await client.ask(given)

    assert asked.messages[0] == quoted
    assert is_line(blocks_of(asked)[0].results[0])


async def test_blocks_in_parts_are_cut_too_and_the_other_parts_stay() -> None:
    """BUGS 39: list contents are not skipped."""
    parts = [text("before"), text(block("1", LONG), cache_control={"type": "ephemeral"}), image()]
    given = [user("hi"), says(parts), user("more")]
    tools, vision = {"max_bytes": 2_000}, {"truncate_history": False}

    async with fake() as model, client_of(model, LARGE, tools=tools, vision=vision) as client:
        asked = await client.ask(given)

    before, cut, after = asked.messages[1]["content"]
    assert (before, after) == (parts[0], parts[2])
    assert cut["cache_control"] == {"type": "ephemeral"}
    assert len(Blocks(cut["text"]).results[0].encode()) <= 2_000


async def test_the_expanded_view_of_a_chat_is_another_history() -> None:
    """BUGS 36: what was aged in one view is never looked for in the other."""
    folded = [*chat(14), user("next")]
    expanded = [system()]
    for number in range(14):
        call = {"name": "search", "arguments": "{}"}
        expanded += [
            user(f"Search {number}"),
            says("", tool_calls=[{"id": f"c{number}", "type": "function", "function": call}]),
            {"role": "tool", "tool_call_id": f"c{number}", "content": output(340, number)},
            says("That was it."),
        ]
    expanded.append(user("next"))

    async with fake() as model, client_of(model, SMALL) as client:
        with listening() as log:
            await client.ask(folded)
            await client.ask(expanded)
            compactions = await log.compactions(2)

    assert len(compactions) == 2
    assert len(lines_in(client.asked[1].messages)) >= 5
