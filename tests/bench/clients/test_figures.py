from pathlib import Path

from bench.clients.catalogue import APPEND_ONLY, BEHAVIOURS, MOST_COST
from bench.clients.costs import Row, row
from bench.clients.histories import Client, client_of, prefixes
from bench.clients.replay import Outcome, unstable
from bench.clients.report.before import load, save
from bench.clients.report.page import failures, most_cost, page, plot, table
from bench.clients.summariser import summarise
from bench.conversation.prompt import Json, Prompt

CHAT = client_of("chat", 1, 0.2)
NAME = f"chat: {APPEND_ONLY}"


def test_a_window_has_room_beside_the_fixed_part() -> None:
    chat, agent = client_of("chat", 1), client_of("agent", 1)

    assert chat.window - _fixed(chat) == 12_000
    assert agent.window - _fixed(agent) == 24_000


def test_histories_have_so_many_requests_and_depend_on_the_seed() -> None:
    assert len(prefixes(client_of("chat", 1).messages)) == 60
    assert len(prefixes(client_of("agent", 1).messages)) == 54
    assert client_of("agent", 1).messages == client_of("agent", 1).messages
    assert client_of("agent", 1).messages != client_of("agent", 2).messages


def test_texts_of_a_history_do_not_repeat() -> None:
    said = [it["content"] for it in client_of("chat", 1).messages]

    assert len(set(said)) == len(said)


def test_a_prompt_that_goes_on_is_stable() -> None:
    sends = prefixes(CHAT.messages)

    assert unstable(sends, [CHAT.request(it) for it in sends]) == 0


def test_a_prompt_that_changes_without_becoming_shorter_is_unstable() -> None:
    sends = prefixes(CHAT.messages)[:3]
    prompts = [CHAT.request(it) for it in sends]
    longer = {**sends[2][1], "content": f"Longer: {sends[2][1]['content']}"}
    prompts[2] = CHAT.request([sends[2][0], longer, *sends[2][2:]])

    assert unstable(sends, prompts) == 1


def test_a_prompt_that_was_compacted_is_not_unstable() -> None:
    sends = prefixes(CHAT.messages)[:3]
    prompts = [CHAT.request(it) for it in sends]
    prompts[2] = CHAT.request([sends[2][0], *sends[2][3:]])

    assert unstable(sends, prompts) == 0


def test_a_changed_history_is_not_asked_to_be_stable() -> None:
    sends = prefixes(CHAT.messages)[:2]
    sends[1] = [{"role": "system", "content": "Other instructions, by far longer."}, *sends[1][1:]]

    assert unstable(sends, [CHAT.request(it) for it in sends]) == 0


def test_costs_are_shares_of_the_append_only_client_at_the_same_points() -> None:
    behaviour = next(it for it in BEHAVIOURS if it.name == "chat: regenerates answers")
    append = Outcome(NAME, [0, 1, 2], [10.0, 20.0, 30.0])
    outcome = Outcome(behaviour.name, [0, 1, 1, 2], [10.0, 40.0, 40.0, 30.0], side_queries=1)

    found = row(behaviour, CHAT, outcome, append)

    assert found.cost == 1.5
    assert found.side_queries == 0.25


def test_a_clock_in_front_is_an_unavoidable_loss() -> None:
    behaviour = next(it for it in BEHAVIOURS if it.name.startswith("chat: clock with seconds"))
    prompts = [CHAT.request(it) for it in prefixes(CHAT.messages)]
    bills = [1_000.0] * len(prompts)
    append = Outcome(NAME, list(range(len(bills))), bills, prompts=prompts)

    found = row(behaviour, CHAT, append, append)

    assert found.cost == 1.0
    assert found.unavoidable is not None
    assert found.unavoidable > 1.5


def test_a_goal_grows_with_what_is_unavoidable_only_where_it_cannot_be_kept() -> None:
    assert most_cost(_row(unavoidable=None)) == MOST_COST
    assert most_cost(_row(unavoidable=1.25)) == MOST_COST
    assert most_cost(_row(unavoidable=2.0)) == 2 * MOST_COST


def test_each_missed_promise_is_a_sentence() -> None:
    assert failures([_row()]) == []
    assert len(failures([_row(side_queries=0.2)])) == 1
    assert len(failures([_row(cost=1.5, unanswered=1, unstable=2, broken_pairs=1)])) == 4


def test_figures_before_are_kept_and_shown(tmp_path: Path) -> None:
    save([_row(side_queries=2.5, cost=9.0)], tmp_path / "before.json")

    before = load(tmp_path / "before.json")

    assert before == {NAME: (2.5, 9.0)}
    assert "| 2.50 | 0.10 | ≤ 0.15 | 9.00 | 1.00 | ≤ 1.30 |" in list(table([_row()], before))[-1]
    assert "9.00" in page([_row()], before, 1)
    assert plot([_row()], before).count("<rect") > plot([_row()], {}).count("<rect")


def test_every_behaviour_has_figures_before() -> None:
    assert set(load()) == {it.name for it in BEHAVIOURS}


def test_a_summary_is_written_from_messages_and_from_a_transcript() -> None:
    ask = "Do not answer or continue the conversation.\n## Goal\n## Done\n## Context"
    messages = CHAT.messages[:5]
    framed = "\n".join(
        f"<<<{it['role']} abc>>>\n{it['content']}\n<<<end abc>>>" for it in messages[1:]
    )

    ridden = summarise(_asking([*messages, {"role": "user", "content": ask}]))
    read = summarise(_asking([{"role": "user", "content": f"{framed}\n{ask}"}]))

    for text in (ridden, read):
        assert text.startswith("## Goal")
        assert messages[2]["content"][:60] in text


def test_a_request_without_sections_is_answered_with_a_list() -> None:
    ask = {"role": "user", "content": "Do not answer or continue the conversation. List facts."}

    text = summarise(_asking([*CHAT.messages[:5], ask]))

    assert all(line.startswith("- ") for line in text.splitlines())


def _asking(messages: list[Json]) -> Prompt:
    return Prompt({"messages": messages, "max_tokens": 2_000})


def _fixed(client: Client) -> int:
    return len(Prompt(client.request(client.messages[:1])).tokens)


def _row(
    side_queries: float = 0.1,
    cost: float = 1.0,
    unavoidable: float | None = None,
    unanswered: int = 0,
    unstable: int = 0,
    broken_pairs: int = 0,
) -> Row:
    return Row(
        NAME, 60, side_queries, cost, unavoidable, 1.5, unanswered, unstable, 0, broken_pairs
    )
