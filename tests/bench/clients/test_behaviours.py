import json
from itertools import pairwise

import pytest

from bench.clients.behaviours import course, front, newest, tools
from bench.clients.catalogue import BEHAVIOURS, Behaviour, Rewrite
from bench.clients.histories import Client, Kind, Messages, client_of, prefixes
from bench.conversation.prompt import Json, broken_pairs, text_of

CLIENTS: dict[Kind, Client] = {"chat": client_of("chat", 1), "agent": client_of("agent", 1)}
CHAT = prefixes(CLIENTS["chat"].messages)
AGENT = prefixes(CLIENTS["agent"].messages)
NUMBER = 45
FRONT = (
    front.clock_with_seconds,
    front.clock_with_minutes,
    front.random_id,
    front.git_status,
    front.git_status_without_tag,
    front.environment_first,
)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda it: it.name)
def test_a_behaviour_sends_the_same_again_and_leaves_the_history_alone(
    behaviour: Behaviour,
) -> None:
    client = client_of(behaviour.kind, 1)

    first, second = behaviour.sends(client), behaviour.sends(client)

    assert first == second
    assert client.messages == CLIENTS[behaviour.kind].messages


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda it: it.name)
def test_no_behaviour_parts_calls_from_results(behaviour: Behaviour) -> None:
    sends = behaviour.sends(CLIENTS[behaviour.kind])

    assert not any(broken_pairs(messages) for messages in sends)


def test_names_are_unique() -> None:
    assert len({it.name for it in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.parametrize("rewrite", FRONT)
def test_a_front_changes_one_message_differently_at_each_request(rewrite: Rewrite) -> None:
    one, other = rewrite(AGENT[NUMBER], NUMBER), rewrite(AGENT[NUMBER], NUMBER + 2)

    (changed,) = _changed(AGENT[NUMBER], one)
    assert changed in (0, 1)
    assert one[changed] != other[changed]
    assert one[changed]["content"].startswith(AGENT[NUMBER][changed]["content"])


def test_a_clock_with_minutes_stands_still_within_a_minute() -> None:
    times = {front.clock_with_minutes(CHAT[0], number)[0]["content"] for number in range(60)}

    assert 40 < len(times) < 60


def test_memories_are_a_second_system_message() -> None:
    sent = front.memories(CHAT[5], 5)

    assert [message["role"] for message in sent[:3]] == ["system", "system", "user"]
    assert [sent[0], *sent[2:]] == CHAT[5]
    assert sent[1] != front.memories(CHAT[5], 6)[1]


def test_plan_mode_has_another_system_prompt_for_some_requests() -> None:
    prompts = [front.plan_and_act(AGENT[0], number)[0]["content"] for number in range(20)]

    assert len(set(prompts)) == 2
    assert prompts[:5] == prompts[10:15] != prompts[5:10]


def test_new_ids_change_nothing_else() -> None:
    one, other = tools.new_ids(AGENT[NUMBER], 1), tools.new_ids(AGENT[NUMBER], 2)

    assert not _ids(one) & _ids(other)
    assert _without_ids(one) == _without_ids(other) == _without_ids(AGENT[NUMBER])


def test_another_order_of_arguments_means_the_same() -> None:
    one, other = (tools.argument_order(AGENT[NUMBER], number) for number in (1, 2))

    assert one != other
    assert _parsed(one) == _parsed(other) == _parsed(AGENT[NUMBER])


def test_only_arguments_of_older_turns_are_written_anew() -> None:
    sent = tools.older_arguments_compact(AGENT[NUMBER], NUMBER)

    last = max(at for at, it in enumerate(sent) if it["role"] == "user")
    changed = _changed(AGENT[NUMBER], sent)
    assert changed
    assert max(changed) < last
    assert _parsed(sent) == _parsed(AGENT[NUMBER])


def test_a_read_is_removed_when_its_file_is_read_again() -> None:
    sent = tools.outdated_reads(AGENT[-1], len(AGENT) - 1)

    paths = _read_paths(sent)
    kept = [paths[it["tool_call_id"]] for it in _results(sent) if it["tool_call_id"] in paths]
    whole = [
        paths[it["tool_call_id"]]
        for it in _results(sent)
        if it["tool_call_id"] in paths and it["content"] != tools.REMOVED_READ
    ]
    assert sorted(whole) == sorted(set(kept))
    assert len(whole) < len(kept)


def test_pruned_outputs_stay_pruned_and_the_newest_are_whole() -> None:
    pruned = [
        {at for at, it in enumerate(tools.prunes_old_outputs(true, n)) if _is_cleared(it)}
        for n, true in enumerate(AGENT)
    ]

    assert all(before <= after for before, after in pairwise(pruned))
    assert 1 < len(set(map(frozenset, pruned))) <= len(AGENT) // tools.PRUNES_EVERY + 1
    assert len(AGENT[-1]) - 1 not in pruned[-1]


@pytest.mark.parametrize(
    ("rewrite", "role"),
    [
        (newest.environment_newest, "user"),
        (newest.reminder, "tool"),
        (newest.newest_reasoning, "assistant"),
    ],
)
def test_only_the_newest_message_of_a_role_is_changed(rewrite: Rewrite, role: str) -> None:
    sent = rewrite(AGENT[NUMBER], NUMBER)

    last = max(at for at, it in enumerate(sent) if it["role"] == role)
    assert _changed(AGENT[NUMBER], sent) == [last]


def test_retrieved_text_stands_before_the_newest_question() -> None:
    sent = newest.retrieved_text(CHAT[7], 7)

    assert _changed(CHAT[7], sent) == [len(sent) - 1]
    assert sent[-1]["content"].endswith(f"</context>\n\n{CHAT[7][-1]['content']}")


def test_an_ephemeral_message_is_the_last_and_never_comes_again() -> None:
    one, other = (newest.ephemeral_user_message(AGENT[n], n) for n in (NUMBER, NUMBER + 1))

    assert one[:-1] == AGENT[NUMBER]
    assert one[-1]["role"] == "user"
    assert one[-1] not in other


def test_cline_writes_results_as_user_messages() -> None:
    sent = newest.cline(AGENT[NUMBER], NUMBER)

    assert {message["role"] for message in sent} == {"system", "user", "assistant"}
    assert ["<environment_details>" in text_of(it) for it in sent].count(True) == 1
    assert "</environment_details>" in text_of(sent[-1])


def test_cache_control_moves_and_the_texts_stay() -> None:
    sent = newest.moving_cache_control(AGENT[NUMBER], NUMBER)

    marked = [at for at, it in enumerate(sent) if isinstance(it.get("content"), list)]
    assert {0, len(sent) - 1} <= set(marked) <= {0, len(sent) - 2, len(sent) - 1}
    assert list(map(text_of, sent)) == list(map(text_of, AGENT[NUMBER]))


def test_empty_content_takes_all_three_forms() -> None:
    sent = newest.empty_contents(AGENT[NUMBER], NUMBER)

    forms = {str(it.get("content", "missing")) for it in sent if not it.get("content")}
    assert forms == {"None", "", "missing"}
    assert list(map(text_of, sent)) == list(map(text_of, AGENT[NUMBER]))


def test_an_image_is_shown_for_some_turns_and_then_gone() -> None:
    shown = [
        [at for at, it in enumerate(newest.images_dropped(true, n)) if _has_image(it)]
        for n, true in enumerate(CHAT)
    ]

    assert shown[:7] == [[1], [1], [1], [], [], [11], [11]]
    sent = newest.images_dropped(CHAT[6], 6)
    assert [text_of(it).rstrip() for it in sent] == [text_of(it) for it in CHAT[6]]


@pytest.mark.parametrize("size", [40, 60])
def test_a_sliding_window_keeps_the_instructions_and_the_newest(size: int) -> None:
    sent = course.sliding_window(size)(CHAT[-1], len(CHAT) - 1)

    assert sent[0] == CHAT[-1][0]
    assert sent[1:] == CHAT[-1][-len(sent) + 1 :]
    assert sent[1]["role"] == "user"
    assert size - 1 <= len(sent) - 1 <= size


def test_a_deleted_answer_is_gone_from_then_on() -> None:
    assert course.deletes_old_message(CHAT[19], 19) == CHAT[19]
    for number in (20, 39):
        sent = course.deletes_old_message(CHAT[number], number)
        assert [it for it in CHAT[number] if it not in sent] == [CHAT[number][2 + 2 * 14]]


def test_an_edited_question_is_another_from_then_on() -> None:
    assert course.edits_old_message(CHAT[19], 19) == CHAT[19]
    for number in (20, 39):
        sent = course.edits_old_message(CHAT[number], number)
        assert _changed(CHAT[number], sent) == [1 + 2 * 14]


def test_a_regenerated_answer_replaces_one_that_was_sent() -> None:
    sends = course.regenerates(CLIENTS["chat"])

    assert sends[:6] == CHAT[:6]
    assert sends[6][:-2] == CHAT[5] == sends[7]
    assert sends[6][-2] != CHAT[6][-2]
    assert sends[6][-1] == CHAT[6][-1]
    assert sends[8] == CHAT[6]


def test_branches_share_a_trunk_and_the_first_is_gone_on_with() -> None:
    sends = course.branches(CLIENTS["chat"])

    assert sends[:45] == CHAT[:45]
    assert sends[45][:61] == CHAT[30][:61]
    assert sends[45][61:] != CHAT[30][61:]
    assert sends[60:] == CHAT[45:]


def test_sub_agents_share_instructions_and_task_and_nothing_else() -> None:
    sends = course.sub_agents(CLIENTS["agent"])

    first, second = sends[8:16], sends[16:24]
    assert sends[:8] == [AGENT[0]] * 8
    assert len({json.dumps(it[2:]) for it in first}) == 8
    assert [it[: len(old)] for old, it in zip(first, second, strict=True)] == first


def _changed(true: Messages, sent: Messages) -> list[int]:
    return [at for at, (a, b) in enumerate(zip(true, sent, strict=True)) if a != b]


def _ids(messages: Messages) -> set[str]:
    return {call["id"] for it in messages for call in it.get("tool_calls") or []}


def _without_ids(messages: Messages) -> list[Json]:
    return [
        {
            **{name: value for name, value in it.items() if name != "tool_call_id"},
            "tool_calls": [call["function"] for call in it.get("tool_calls") or []],
        }
        for it in messages
    ]


def _parsed(messages: Messages) -> list[Json]:
    return [
        {
            **it,
            "tool_calls": [
                (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in it.get("tool_calls") or []
            ],
        }
        for it in messages
    ]


def _read_paths(messages: Messages) -> dict[str, str]:
    return {
        call["id"]: json.loads(call["function"]["arguments"])["path"]
        for it in messages
        for call in it.get("tool_calls") or []
        if call["function"]["name"] == "read_file"
    }


def _results(messages: Messages) -> list[Json]:
    return [it for it in messages if it["role"] == "tool"]


def _is_cleared(message: Json) -> bool:
    return bool(message.get("content") == tools.CLEARED)


def _has_image(message: Json) -> bool:
    return isinstance(message.get("content"), list)
