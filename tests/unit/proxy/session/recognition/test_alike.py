"""A history that its client has changed finds the checkpoint of what it said before."""

from copy import deepcopy
from pathlib import Path

import pytest

from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.recognition import anchors
from chat_proxy.proxy.session.recognition.anchors import MAX_TARGETS, Anchors
from chat_proxy.proxy.session.recognition.checkpoints import KIND, Checkpoints
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Rows
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from tests.unit.chat.shapes import Fields, call, result, says, system, user
from tests.unit.proxy.session.recognition.histories import history

pytestmark = pytest.mark.anyio

ALICE = Scope("alice", b"policy")
CLEARED = "[Old tool result content cleared]"
AGED = Treatments(lines=frozenset({Place(2), Place(10)}))
TEXT = "The summary"


def run(steps: int = 5) -> list[Fields]:
    """Return steps of four messages each: a question, a call, its result and an answer."""
    return [
        message
        for number in range(steps)
        for message in (
            user(f"Question {number}: " + "what is in it? " * 20),
            says(None, tool_calls=[call(f"c{number}", f'{{"path": "{number}.py"}}')]),
            result(f"c{number}", f"output {number} " * 30),
            says(f"Answer {number}: " + "this is in it. " * 20),
        )
    ]


def own(until: int = 16, folded: int = 8) -> Checkpoint:
    return Checkpoint(until, AGED, 1_000, folded, TEXT, TEXT, folded)


async def found(
    checkpoints: Checkpoints, messages: list[Fields], scope: Scope = ALICE
) -> Checkpoint | None:
    return await checkpoints.find(scope, history(*messages), len(messages))


async def kept(checkpoints: Checkpoints, checkpoint: Checkpoint | None = None) -> None:
    await checkpoints.keep(ALICE, history(*run()), checkpoint or own())


def pruned() -> list[Fields]:
    """Return the run after its client has replaced old results by placeholders."""
    messages = run()
    messages[2]["content"] = messages[6]["content"] = CLEARED
    return messages


class CountingStore(MemoryStore):
    """A store that counts what it is asked, by kind."""

    def __init__(self) -> None:
        super().__init__(b"secret")
        self.asked: list[tuple[str, int]] = []

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        self.asked.append((kind, len(keys)))
        return await super().get_many(kind, keys)


async def test_a_pruned_history_finds_its_checkpoint() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)

    assert await found(checkpoints, pruned()) == own()


async def test_it_is_found_by_another_process() -> None:
    store = MemoryStore(b"secret")
    await kept(Checkpoints(store))

    assert await found(Checkpoints(store), pruned()) == own()


async def test_it_survives_a_restart(tmp_path: Path) -> None:
    """BUGS 37."""
    before = SqliteStore(tmp_path / "store.db")
    await before.open()
    await kept(Checkpoints(before))
    await before.close()
    after = SqliteStore(tmp_path / "store.db")
    await after.open()

    assert await found(Checkpoints(after), pruned()) == own()
    await after.close()


@pytest.mark.parametrize("scope", [Scope("bob", b"policy"), Scope("alice", b"another policy")])
async def test_a_changed_history_finds_nothing_of_another_tenant_or_policy(scope: Scope) -> None:
    """BUGS 36, even if the digests had the same key."""
    store = MemoryStore(b"secret")
    await kept(Checkpoints(store))

    assert await found(Checkpoints(store), run(), scope) is None
    assert await found(Checkpoints(store), pruned(), scope) is None


async def test_kinds_do_not_mix() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await checkpoints.keep(ALICE, history(*run()), own(), "prepared")

    assert await found(checkpoints, pruned()) is None
    given = history(*pruned())
    assert await checkpoints.find(ALICE, given, 20, "prepared") == own()


async def test_what_is_recognised_once_is_exact_from_then_on() -> None:
    store = CountingStore()
    checkpoints = Checkpoints(store)
    await kept(checkpoints)
    await found(checkpoints, pruned())
    store.asked.clear()

    assert await found(checkpoints, [*pruned(), user("more"), says("done")]) == own()
    assert [kind for kind, _ in store.asked] == [KIND]


async def test_an_append_only_history_does_not_ask_for_anchors() -> None:
    store = CountingStore()
    await kept(Checkpoints(store))
    store.asked.clear()

    assert await found(Checkpoints(store), run()) == own()
    assert [kind for kind, _ in store.asked] == [KIND]


async def test_a_history_that_is_not_known_asks_for_all_anchors_at_once() -> None:
    store = CountingStore()

    assert await found(Checkpoints(store), run()) is None
    assert store.asked == [(KIND, 15), (anchors.KIND, 14)]


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_instructions_may_change_in_words_and_number(count: int) -> None:
    """Indexes in a checkpoint are those of the request's own list."""
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    before = history(system("At 12:00"), system("Memories"), *run())
    await checkpoints.keep(ALICE, before, own().shifted(2))

    for messages in (run(), pruned()):
        given = [*(system(f"At {minute}") for minute in range(count)), *messages]
        assert await found(checkpoints, given) == own().shifted(count)


@pytest.mark.parametrize("dropped", [1, 4, 6])
async def test_a_window_finds_what_is_left_of_the_checkpoint(dropped: int) -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)

    checkpoint = await found(checkpoints, [system(), *run()[dropped:]])

    assert checkpoint is not None
    assert (checkpoint.until, checkpoint.folded_until) == (17 - dropped, 9 - dropped)
    assert (checkpoint.text, checkpoint.missing) == (TEXT, dropped)
    assert checkpoint.treatments == AGED.shifted(1 - dropped)


async def test_a_window_that_slides_on_finds_it_each_time() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)

    missing = [await found(checkpoints, run()[dropped:]) for dropped in range(8)]

    assert [it.missing if it else None for it in missing] == list(range(8))


async def test_a_window_without_any_folded_message_has_no_use_for_the_fold() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints, own(folded=4))

    assert await found(checkpoints, run()[3:]) is not None
    assert await found(checkpoints, run()[4:]) is None


async def test_what_a_window_keeps_is_found_by_the_next_one() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)
    window = run()[2:]
    first = await found(checkpoints, window)
    assert first is not None
    await checkpoints.keep(ALICE, history(*window), first)

    again = await found(checkpoints, window)

    assert again is not None
    assert (again.until, again.missing) == (14, 2)


async def test_the_longest_alike_prefix_wins() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    for until in (8, 16, 12):
        await kept(checkpoints, own(until))

    assert await found(checkpoints, pruned()) == own(16)
    assert await found(checkpoints, pruned()[:15]) == own(12)


async def test_a_lookup_anew_prefers_a_longer_alike_one_to_an_exact_one() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints, own(4, 4))
    await kept(checkpoints, own(16))
    messages = run()
    messages[10]["content"] = CLEARED
    given = history(*messages)

    assert await checkpoints.find(ALICE, given, 20) == own(4, 4)
    assert await checkpoints.find(ALICE, given, 20, anew=True) == own(16)


async def test_nothing_behind_the_last_seam_is_found() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)

    assert await checkpoints.find(ALICE, history(*pruned()), 15) is None
    assert await checkpoints.find(ALICE, history(*pruned()), 16) == own()


async def test_of_those_with_the_same_last_words_the_right_one_is_found() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    for number in range(MAX_TARGETS):
        messages = run()
        messages[0]["content"] = f"Another question {number}"
        await checkpoints.keep(ALICE, history(*messages), Checkpoint(16, AGED, 1, 8, str(number)))

    for number in range(MAX_TARGETS):
        messages = pruned()
        messages[0]["content"] = f"Another question {number}"
        checkpoint = await found(checkpoints, messages)
        assert checkpoint is not None
        assert checkpoint.text == str(number)


async def test_old_ones_with_the_same_last_words_are_forgotten() -> None:
    store = MemoryStore(b"secret")
    addressed = Anchors(store)
    for number in range(MAX_TARGETS + 3):
        await addressed.add(ALICE, KIND, b"words", bytes([number]) * 32, 60)

    newest = [(7, bytes([number]) * 32) for number in range(MAX_TARGETS + 2, 2, -1)]
    assert await addressed.find(ALICE, KIND, {7: b"words"}) == newest
    assert await Anchors(store).find(ALICE, KIND, {7: b"words"}) == newest


async def test_a_row_that_cannot_be_read_is_a_miss() -> None:
    store = MemoryStore(b"secret")
    await kept(Checkpoints(store))
    its = history(*run())
    address = ALICE.address(store, KIND, its.link_at(16), its.root_at(16))
    await store.put(KIND, address, b"{}", 60)

    assert await found(Checkpoints(store), pruned()) is None


async def test_an_anchor_s_row_that_is_cut_is_read_as_far_as_it_goes() -> None:
    store = MemoryStore(b"secret")
    address = ALICE.address(store, f"{anchors.KIND}:{KIND}", b"words")
    await store.put(anchors.KIND, address, b"1" * 32 + b"2" * 9, 60)

    assert await Anchors(store).find(ALICE, KIND, {7: b"words"}) == [(7, b"1" * 32)]


async def test_what_the_client_has_is_not_changed() -> None:
    checkpoints = Checkpoints(MemoryStore(b"secret"))
    await kept(checkpoints)
    messages = pruned()
    before = deepcopy(messages)

    await found(checkpoints, messages)

    assert messages == before
