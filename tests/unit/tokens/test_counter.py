import random
import string
import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from chat_proxy.tokens.counter import RequestCount, count_request
from chat_proxy.tokens.overheads import CountingRules, rules_for
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter

OPEN = rules_for("Qwen/Qwen3-8B", "vllm")
OPENAI = rules_for("gpt-4o", "openai")
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGM4ISeHBzGMSmN"
    "DAMVhZZGAa6KgAAAAAElFTkSuQmCC"
)


def messages(*fields: dict[str, Any]) -> list[Message]:
    return [Message(one) for one in fields]


def tokens_alone(message: Message, counter: TiktokenCounter, rules: CountingRules) -> int:
    return sum(count_request([message], None, counter, rules).messages)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def calls(*names: str, **more: Any) -> dict[str, Any]:
    wanted = [
        {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]
    return {"role": "assistant", "content": None, "tool_calls": wanted, **more}


def test_the_cookbooks_messages_count_as_the_api_counted_them(
    o200k: TiktokenCounter, cl100k: TiktokenCounter
) -> None:
    """FACTS §4: 124 for gpt-4o, 129 for gpt-4."""
    system = "system"
    given = messages(
        {
            "role": system,
            "content": "You are a helpful, pattern-following assistant that translates corporate "
            "jargon into plain English.",
        },
        {
            "role": system,
            "name": "example_user",
            "content": "New synergies will help drive top-line growth.",
        },
        {
            "role": system,
            "name": "example_assistant",
            "content": "Things working well together will increase revenue.",
        },
        {
            "role": system,
            "name": "example_user",
            "content": "Let's circle back when we have more bandwidth to touch base on "
            "opportunities for increased leverage.",
        },
        {
            "role": system,
            "name": "example_assistant",
            "content": "Let's talk later when we're less busy about how to do better.",
        },
        user(
            "This late pivot means we don't have time to boil the ocean for the client deliverable."
        ),
    )

    assert count_request(given, None, o200k, OPENAI).total == 124
    assert count_request(given, None, cl100k, OPENAI).total == 129


def test_every_kind_has_its_own_sum_and_all_add_up(o200k: TiktokenCounter) -> None:
    """BUGS 19, 20: reasoning is counted, and apart."""
    given = messages(
        {"role": "system", "content": "Be brief."},
        user(
            [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
        ),
        calls("read", "list", reasoning_content="Let me think about this."),
        {"role": "tool", "tool_call_id": "call_read", "content": "the whole file"},
        {"role": "tool", "tool_call_id": "call_list", "content": [{"type": "text", "text": "a b"}]},
        user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]),
        user([{"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}}]),
        user([{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}]),
        {"role": "user", "name": "ann", "content": "Thanks."},
    )
    tools = [{"type": "function", "function": {"name": "read"}}]

    count = count_request(given, tools, o200k, OPEN)

    tokens = o200k.count
    assert count.text == tokens("Be brief.") + tokens("Look:") + tokens("ann") + tokens("Thanks.")
    assert count.reasoning == tokens("Let me think about this.")
    named = tokens("read") + tokens("list") + 2 * tokens("{}")
    assert count.tool_calls == named + tokens("call_read") + tokens("call_list")
    assert count.tool_results == tokens("the whole file") + tokens("a b")
    assert count.tools > 120
    assert (count.images, count.documents, count.audio, count.video) == (1_600, 3_000, 1_000, 8_000)
    assert count.overhead == 9 * 5 + 3 + 2 * 8 + 1
    assert count.total == count.words + count.media + count.overhead
    assert sum(count.messages) == count.total - count.tools - 3
    assert list(count.messages) == [tokens_alone(one, o200k, OPEN) for one in given]
    assert not count.is_guess


def test_an_inline_image_is_counted_by_its_extent_and_a_remote_one_by_default(
    o200k: TiktokenCounter,
) -> None:
    rules = rules_for("Qwen/Qwen2.5-VL-3B-Instruct", image_tokens=777)

    def seen(url: str) -> int:
        part = {"type": "image_url", "image_url": {"url": url}}
        return count_request(messages(user([part])), None, o200k, rules).images

    assert seen(PIXEL) == 4 + 2
    assert seen("https://example.com/a.png") == 777


def test_five_megabytes_of_base64_stay_off_the_text(o200k: TiktokenCounter) -> None:
    """BUGS 16: an image is not 700,000 tokens of text."""
    letters = "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=5_000_000))
    url = f"data:image/png;base64,{letters}"
    given = messages(
        user([{"type": "image_url", "image_url": {"url": url}}]),
        user([{"type": "input_audio", "input_audio": {"data": letters, "format": "wav"}}]),
        user([{"type": "file", "file": {"file_data": url}}]),
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "image", "data": letters}]},
    )

    count = count_request(given, None, o200k, OPENAI)

    assert count.words <= 5
    assert count.media == 2 * 1_600 + 1_000 + 1_600


def test_an_unloaded_counter_gives_a_guess_that_says_so() -> None:
    unloaded = TiktokenCounter("o200k_base")

    count = count_request(messages(user("hello there")), None, unloaded, OPEN)

    assert count.is_guess
    assert count.text > 0


CONTENTS = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.lists(
        st.one_of(
            st.text(max_size=9),
            st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}),
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["image_url", "file", "input_audio", "odd"]),
                    "image_url": st.one_of(st.text(max_size=9), st.none(), st.just({"url": PIXEL})),
                }
            ),
        ),
        max_size=3,
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=12,
)
MESSAGES = st.dictionaries(
    st.sampled_from(["role", "content", "name", "reasoning", "tool_calls", "tool_call_id", "x"]),
    VALUES,
    max_size=5,
) | st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool", "assistant", "function"]), "content": CONTENTS}
)


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=6), VALUES, VALUES, VALUES)
def test_any_json_is_counted_and_each_message_as_if_alone(
    fields: list[dict[str, Any]], tools: Any, choice: Any, form: Any
) -> None:
    """The short way for plain messages comes to the same as the pieces of every message."""
    given = messages(*fields)
    for rules in (OPEN, OPENAI):
        count = count_request(
            given, tools, _LOADED, rules, tool_choice=choice, response_format=form
        )
        pieces = sum(_LOADED.count(text) for one in given for _, text in one.pieces())
        assert count.words - count.tools == pieces
        assert [tokens_alone(one, _LOADED, rules) for one in given] == list(count.messages)
        assert count.total >= 0


_LOADED = TiktokenCounter("o200k_base")
_LOADED.load()


def history() -> bytes:
    """Return 400 messages, 531 KB, about 124 k tokens."""
    chance = random.Random(3)
    words = ["the", "a", "of", "to", "and", "in", "it", "is", "that", "was", "on", "for", "they"]
    words += ["model", "window", "token", "request", "stream", "answer", "client", "history"]
    lines = [" ".join(chance.choices(words, k=chance.randint(4, 14))) + ".\n" for _ in range(900)]
    lines += [f'    "{word}": {number},\n' for number, word in enumerate(words)]
    texts = ["".join(chance.choices(lines, k=chance.randint(5, 57))) for _ in range(400)]
    roles = ("user", "assistant")
    return orjson.dumps(
        {
            "messages": [
                {"role": roles[n % 2], "content": f"{n}: {text}"} for n, text in enumerate(texts)
            ]
        }
    )


@pytest.mark.usefixtures("untraced")
def test_counting_a_known_history_again_costs_no_more_than_parsing_it(
    o200k: TiktokenCounter,
) -> None:
    """FACTS §2: freshly parsed strings, so every hash is made anew."""
    body = history()
    parsing, counting = [], []
    for _ in range(60):
        start = time.thread_time()
        fields = orjson.loads(body)["messages"]
        parsing.append(time.thread_time() - start)
        given = messages(*fields)
        start = time.thread_time()
        count = count_request(given, None, o200k, OPEN)
        counting.append(time.thread_time() - start)

    ratio = min(counting) / min(parsing)
    print(f"{len(body)} bytes, {count.total} tokens: counting / parsing = {ratio:.2f}")  # noqa: T201
    # 0.9 to 1.13 by the processor: about as much as parsing, and never a multiple of it.
    assert ratio <= 1.25


def test_a_count_is_zero_before_anything_is_counted() -> None:
    assert RequestCount().total == 0
    assert CountingRules().vocabulary == ""


def test_what_templates_add_is_counted_apart(o200k: TiktokenCounter) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    steps = messages(
        user("Read it."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": 'one\ntwo\n"three"\n'},
    )
    led = [*messages({"role": "system", "content": "Be brief."}), *steps]
    rules = CountingRules(unled_tokens=21)
    quoting = CountingRules(unled_tokens=21, quotes_results=True)

    count = count_request(steps, None, o200k, rules)
    quoted = count_request(steps, None, o200k, quoting)
    with_instructions = count_request(led, None, o200k, rules)

    assert (count.is_led, with_instructions.is_led) == (False, True)
    assert count.overhead == 3 * 5 + 8 + 3 + 21
    assert with_instructions.overhead == 4 * 5 + 8 + 3
    assert count.call_overhead == 8 + 5
    assert count.result_escapes == 3
    assert quoted.tool_results == count.tool_results + 3
    assert quoted.total == count.total + 3
