import pytest

from chat_proxy.demo.model.messages import Call, Message
from chat_proxy.demo.model.template import count
from chat_proxy.demo.summary.transcript import asks_for_summary
from chat_proxy.demo.summary.write import summarise

PROMPT = """Write a summary with these sections:
## Goal
## Constraints & Preferences
## Progress (Done, In Progress, Blocked)
## Key Decisions
## Next Steps
## Critical Context
## Relevant Files
You must never answer the conversation."""
EMPTY = """## Goal
- (none)
## Constraints & Preferences
- (none)
## Progress
### Done
- (none)
### In Progress
- (none)
### Blocked
- (none)
## Key Decisions
- (none)
## Next Steps
- Answer:
## Critical Context
- (none)
## Relevant Files
- (none)"""
FILLER = Message("assistant", "words " * 2_000)


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str = "", *calls: Call) -> Message:
    return Message("assistant", text, calls=calls)


def result(id_: str, text: str) -> Message:
    return Message("tool", text, answers=id_)


def sections(*messages: Message) -> dict[str, list[str]]:
    """Summarise and return the bullets by their heading."""
    found: dict[str, list[str]] = {}
    for line in summarise((*messages, user(PROMPT))).splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            found[heading] = []
        else:
            found[heading].append(line.removeprefix("- "))
    return found


def test_a_request_with_the_headings_asks_for_a_summary() -> None:
    assert asks_for_summary((user("Hi"), user(PROMPT)))


@pytest.mark.parametrize(
    "messages",
    [
        (user("What is my Goal, my Progress and my Next Steps?"),),
        (user(PROMPT), assistant("Done.")),
        (user(PROMPT), user("Thanks")),
    ],
)
def test_other_messages_do_not(messages: tuple[Message, ...]) -> None:
    assert not asks_for_summary(messages)


def test_all_sections_are_there_in_order_even_when_empty() -> None:
    assert summarise((assistant("Yes."), user(PROMPT))) == EMPTY


def test_the_goal_is_the_first_request() -> None:
    found = sections(Message("system", "Be kind."), user("Fix the build"), user("And the tests"))

    assert found["Goal"] == ["Fix the build"]
    assert found["In Progress"] == ["And the tests"]


def test_constraints_are_the_demands_of_the_user_only() -> None:
    found = sections(
        user("Fix it. Never touch main. You must add tests! Nice weather."),
        assistant("You must restart."),
        FILLER,
    )

    assert found["Constraints & Preferences"] == ["Never touch main.", "You must add tests!"]


def test_progress_is_made_of_tool_calls() -> None:
    found = sections(
        user("Go"),
        assistant("", Call("1", "read", '{"path": "a.py"}'), Call("2", "run", "{}")),
        result("1", "print(1)"),
        result("2", "ValueError: bad"),
        assistant("", Call("3", "wait", "{}")),
    )

    assert found["Done"] == ['read {"path": "a.py"}: print(1)']
    assert found["Blocked"] == ["run {}: ValueError: bad"]
    assert found["In Progress"] == ["wait {}"]


def test_decisions_and_steps_are_the_words_of_the_assistant() -> None:
    found = sections(user("Go"), assistant("I chose SQLite because it is there. Next I will test."))

    assert found["Key Decisions"] == ["I chose SQLite because it is there."]
    assert found["Next Steps"] == ["Next I will test."]


def test_errors_and_measures_are_critical() -> None:
    found = sections(
        user("The limit is 512 MB. Version 3 is fine."),
        result("1", "ok\nTypeError: no\nat 20 °C\n3 m\n95%"),
        FILLER,
    )

    assert found["Critical Context"] == [
        "The limit is 512 MB.",
        "TypeError: no",
        "at 20 °C",
        "3 m",
        "95%",
    ]


def test_files_are_paths_and_names_but_not_addresses() -> None:
    found = sections(
        user("See /etc/hosts, src/app/main.py and notes.md and/or https://a.example/b/c.py."),
        assistant("", Call("1", "read", '{"path": "./x/y"}')),
        assistant("On 2026/11/16 it was lib/a.c"),
        FILLER,
    )

    assert found["Relevant Files"] == [
        "/etc/hosts",
        "src/app/main.py",
        "notes.md",
        "./x/y",
        "lib/a.c",
    ]


def test_an_earlier_summary_is_carried_on() -> None:
    earlier = summarise(
        (
            user("Fix the build. Always be brief."),
            assistant("", Call("1", "run", "{}")),
            result("1", "fine"),
            user(PROMPT),
        )
    )

    found = sections(user(earlier), user("Now the docs, please"), FILLER)

    assert found["Goal"] == ["Fix the build. Always be brief."]
    assert found["Constraints & Preferences"] == ["Always be brief.", "Now the docs, please"]
    assert found["Done"] == ["run {}: fine"]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("{}:", ""),
        ("**{}** (2):", ""),
        ("[{}]", ""),
        ("### {}", ""),
        ("<<<begin message 4 {} 8f3a>>>", "<<<end message 4 8f3a>>>"),
        ("--- {} ---", ""),
        ("<<<{} 8f3a>>>", "<<<end 8f3a>>>"),
        ('<message role="{}" nonce="8f3a">', "</message>"),
        ("<{}-8f3a>", "</{}-8f3a>"),
    ],
)
def test_a_transcript_in_the_request_is_read(opening: str, closing: str) -> None:
    said = [
        ("system", "You must obey."),
        ("user", "Fix app/main.py please"),
        ("assistant", 'I look.\nread_file({"path": "app/main.py"})'),
        ("tool", "OSError: gone"),
    ]
    lines = [f"{opening.format(r)}\n{text}\n{closing.format(r)}" for r, text in said]
    request = "\n".join([PROMPT, *lines])

    summary = summarise((Message("system", "You summarise."), user(request)))

    assert "## Goal\n- Fix app/main.py please\n" in summary
    assert "## Constraints & Preferences\n- Fix app/main.py please\n" in summary
    assert '### Done\n- read_file {"path": "app/main.py"}: done\n' in summary
    assert "## Critical Context\n- OSError: gone\n" in summary
    assert "## Relevant Files\n- app/main.py" in summary


def test_a_transcript_on_the_line_of_its_label_is_read() -> None:
    summary = summarise((user(f"{PROMPT}\nUser: Build it\nAssistant: I will.\nTool (1): fine"),))

    assert "## Goal\n- Build it\n" in summary
    assert "## Next Steps\n- I will.\n" in summary


def test_an_earlier_summary_in_the_request_is_carried_on() -> None:
    earlier = "<summary 8f3a>\n## Goal\n- Ship it\n</summary 8f3a>"

    summary = summarise((user("Now the docs"), user(f"{PROMPT}\n{earlier}\n{PROMPT}")))

    assert "## Goal\n- Ship it\n" in summary


def test_a_request_without_a_transcript_is_its_own_material() -> None:
    summary = summarise((user(f"Tidy up src/a.py.\n{PROMPT}"),))

    assert summary.startswith("## Goal\n- Tidy up src/a.py. Write a summary")
    assert summary.endswith("## Relevant Files\n- src/a.py")


@pytest.mark.parametrize(
    "line",
    [
        "User constraints: keep all of them",
        "- tool output: its own words",
        "(the user's messages stay as they are)",
        "### Rules for tool results",
    ],
)
def test_an_instruction_about_a_role_is_not_its_message(line: str) -> None:
    summary = summarise((user(f"{PROMPT}\n{line}\nAlways.\n[user]\nBuild it"),))

    assert "## Goal\n- Build it\n" in summary
    assert "## Constraints & Preferences\n- (none)\n" in summary


def test_a_summary_is_much_shorter_than_a_long_conversation() -> None:
    steps = [
        message
        for number in range(60)
        for message in (
            user(f"You must always fix /src/part/{number}/file.py within {number} ms. " * 3),
            assistant("I chose this because. Next I will go on.", Call(f"{number}", "run", "{}")),
            result(f"{number}", "ValueError: no\n" * 5),
        )
    ]

    summary = summarise((*steps, user(PROMPT)))

    assert count(summary) < 0.2 * sum(count(message.text) for message in steps)


def test_a_long_line_is_cut_between_words() -> None:
    found = sections(user("https://example.com/" + "a-b" * 40 + " is it, and " + "so on " * 30))

    assert found["Goal"] == ["…"]
