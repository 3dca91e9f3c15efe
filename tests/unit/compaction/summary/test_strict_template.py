from typing import Any

import pytest

from tests.support.strict_template import complaints
from tests.unit.chat.shapes import call, calls, result, says, system, user


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "nobody speaks"),
        ([system()], "nobody speaks"),
        ([user(), system()], "message 1: a late system message"),
        ([{"role": "bard", "content": "x"}, user()], "message 0: an unknown role"),
        ([says(), user()], "message 0: the first to speak is not the user"),
        ([user(), user()], "message 1: two users in a row"),
        ([user(), says(), says()], "message 2: two assistants in a row"),
        ([user(), result("a")], "message 1: a result without its call"),
        ([user(), calls("a"), result("b")], "message 2: a result without its call"),
        ([user(), calls("a", "b"), result("a"), says()], "message 3: calls before it"),
        ([user(), calls("a")], "calls at the end have no result"),
        ([user(), calls("a"), result("a"), user()], "message 3: a user after tool results"),
        ([user(None)], "message 0: no content"),
        ([user(), calls("a"), result("a", None)], "message 2: no content"),
        ([user(), says(tool_calls=[call("a", {})]), result("a")], "message 1: arguments are not"),
    ],
)
def test_a_strict_template_refuses(messages: list[dict[str, Any]], complaint: str) -> None:
    assert any(line.startswith(complaint) for line in complaints(messages))


def test_a_strict_template_takes_ordinary_messages() -> None:
    run = [calls("a", "b"), result("b"), result("a"), calls("c"), result("c"), says()]

    assert complaints([system(), user(), *run, user()]) == []


def test_what_clients_themselves_send_can_be_allowed() -> None:
    late = [user(), says(), system(), user()]
    broken_in = [user(), calls("a"), result("a"), user()]

    assert complaints(late, allow_late_system=True) == []
    assert complaints(broken_in, allow_user_after_tools=True) == []
