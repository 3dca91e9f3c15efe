"""One question for each parameter of the Responses API about context: does a server do it?

Every probe drives the SDK against a server with an engine behind it, and looks at what the engine
was shown and what the SDK understood. So it asks the proxy and its neighbours the same.
"""

from typing import Any

from openai import APIStatusError, AuthenticationError

from tests.support.wires.responses_engines import (
    TRIGGER,
    Desk,
    Fields,
    dumped,
    management,
    talk,
)
from tools.contracts.probe import Probe

NEXT: Fields = {"role": "user", "content": "And then?"}
WHOLE, STREAMED = (False,), (True,)


def kinds(answer: Any) -> list[str]:
    return [item.type for item in answer.output]


def times_shown(desk: Desk) -> int:
    """How much of the conversation the engine was shown last."""
    return desk.engine.bodies[-1].count(b"Question") + desk.engine.bodies[-1].count(b"Answer")


def calls(desk: Desk) -> int:
    return len(desk.engine.bodies) + len(desk.engine.summaries)


async def compacted(desk: Desk, threshold: int | None = 1_500) -> Any:
    """Return an answer that has a compaction item in front."""
    answer = await desk.ask(input=talk(8), context_management=management(threshold))
    return answer if kinds(answer)[0] == "compaction" else None


async def keeps_its_threshold(desk: Desk) -> bool:
    whole = await desk.ask(input=talk(8), context_management=management(900_000))
    before = times_shown(desk)
    answer = await desk.ask(input=talk(8), context_management=management(1_500))
    is_smaller = times_shown(desk) < before
    return kinds(whole) == ["message"] and kinds(answer) == ["compaction", "message"] and is_smaller


async def takes_small_thresholds(desk: Desk) -> bool:
    answer = await desk.ask(input=talk(8), context_management=management(1_000))
    return kinds(answer) == ["compaction", "message"]


async def announces_compacting(desk: Desk) -> bool:
    await compacted(desk)
    found = [event.type for event in desk.events]
    return found.count("response.compaction.compacting") == 1


async def compacts_once(desk: Desk) -> bool:
    """A client that ignores the item sends the same history again."""
    await compacted(desk)
    before = calls(desk)
    again = await compacted(desk)
    return again is not None and calls(desk) - before == 1


async def unfolds(desk: Desk, older: list[Any]) -> bool:
    answer = await compacted(desk)
    before = calls(desk)
    again = await desk.ask(input=[*older, *dumped(answer.output), NEXT])
    is_short = b"Question 0" in desk.engine.bodies[-1] and times_shown(desk) < 16
    return kinds(again) == ["message"] and calls(desk) - before == 1 and is_short


async def unfolds_behind_all(desk: Desk) -> bool:
    return await unfolds(desk, talk(8))


async def unfolds_alone(desk: Desk) -> bool:
    return await unfolds(desk, [])


async def compacts_now(desk: Desk) -> bool:
    answer = await desk.ask(input=[*talk(8), TRIGGER])
    return kinds(answer) == ["compaction"] and not desk.engine.bodies


async def goes_on_after_trigger(desk: Desk) -> bool:
    answer = await desk.ask(input=[*talk(8), TRIGGER])
    again = await desk.ask(input=[*dumped(answer.output), NEXT])
    return kinds(answer) == ["compaction"] and kinds(again) == ["message"]


async def refuses(desk: Desk, item: Fields, key: str = "sk-one") -> bool:
    """Whether an item is refused by the server itself: the engine is asked nothing."""
    before = calls(desk)
    try:
        await desk.ask(key, input=[item, NEXT])
    except AuthenticationError:
        raise  # the key is refused, not the item
    except APIStatusError as error:
        return error.status_code == 400 and calls(desk) == before
    return False


async def refuses_forged(desk: Desk) -> bool:
    return await refuses(desk, {"type": "compaction", "encrypted_content": "cpx1_AAAA"})


async def refuses_changed(desk: Desk) -> bool:
    item = dumped((await compacted(desk)).output)[0]
    sealed = item["encrypted_content"]
    letter = "A" if sealed[40] != "A" else "B"
    return await refuses(desk, {**item, "encrypted_content": sealed[:40] + letter + sealed[41:]})


async def refuses_another_key(desk: Desk) -> bool:
    item = dumped((await compacted(desk)).output)[0]
    return await refuses(desk, item, "sk-two")


async def has_an_endpoint(desk: Desk) -> bool:
    found = await desk.sdk().responses.compact(model="fake", input=talk(8))
    said = [item.type for item in found.output]
    return found.object == "response.compaction" and said == ["message"] * 9 + ["compaction"]


async def goes_on_from_the_endpoint(desk: Desk) -> bool:
    found = await desk.sdk().responses.compact(model="fake", input=talk(8))
    again = await desk.ask(input=[*dumped(found.output), NEXT])
    is_short = len(desk.engine.bodies[-1]) < len(str(talk(8))) / 2
    return kinds(again) == ["message"] and is_short


async def counts_usage(desk: Desk) -> bool:
    answer = await desk.ask(input=[*talk(8), TRIGGER])
    return kinds(answer) == ["compaction"] and answer.usage.input_tokens > 3_000


PROBES = (
    Probe("`context_management`: `compact_threshold` of 1,500, item first", keeps_its_threshold),
    Probe("`compact_threshold` of 1,000", takes_small_thresholds),
    Probe("event `response.compaction.compacting`", announces_compacting, ways=STREAMED),
    Probe("the same history is compacted once", compacts_once, "not said"),
    Probe("the item sent back behind all others is used", unfolds_behind_all),
    Probe("the items before it may be missing", unfolds_alone),
    Probe("`compaction_trigger`: one item, nothing else", compacts_now),
    Probe("a conversation goes on behind it", goes_on_after_trigger),
    Probe("`usage` of a compaction", counts_usage),
    Probe("a forged item is refused", refuses_forged),
    Probe("an item with one letter changed is refused", refuses_changed),
    Probe("an item of another API key is refused", refuses_another_key, "not said"),
    Probe("`/v1/responses/compact`: user messages, item", has_an_endpoint, ways=WHOLE),
    Probe("its output is the next input", goes_on_from_the_endpoint),
)
