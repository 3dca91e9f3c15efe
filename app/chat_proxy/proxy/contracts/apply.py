"""Apply a contract to a request's compaction, and report what was done for it."""

from dataclasses import replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.recall.policy import NO_RECALL
from chat_proxy.proxy.compacting.open_session import budget_or_assumed
from chat_proxy.proxy.contracts.seals import seal_body
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.session import SUMMARY
from chat_proxy.store.base import Store
from chat_proxy.wires.body import wire_of
from chat_proxy.wires.contracts.contract import NOTHING_DONE, Contract, ContractOutcome


def under_contract(compaction: CompactionRequest, contract: Contract | None) -> CompactionRequest:
    """Return a request that is compacted as its contract says.

    The client is promised that this very answer reports the compaction, so it waits for a summary
    from the trigger on. A sealed prompt replaces its messages: ids of these would name others.
    """
    if contract is None:
        return compaction
    if contract.clears:
        compaction = compaction._replace(
            clear_results=contract.clear_results, clear_thinking=contract.clear_thinking
        )
    if not (contract.compacts or contract.compacts_now):
        return compaction
    policy = compaction.route.policy
    summary = replace(policy.summary, waits_at_trigger=True)
    policy = replace(policy, summary=summary, recall=NO_RECALL)
    route = replace(compaction.route, policy=policy)
    measured = compaction.measured
    if contract.trigger is not None:
        budget = budget_or_assumed(compaction).with_trigger(contract.trigger)
        measured = measured._replace(budget=budget)
    return compaction._replace(
        measured=measured, route=route, instruction=contract.instructions.strip()
    )


def nothing_done(contract: Contract) -> ContractOutcome:
    """Return the outcome of a contract for which nothing had to be done."""
    return replace(NOTHING_DONE, is_asked=contract.compacts or contract.clears)


async def outcome_of(
    contract: Contract | None,
    compaction: CompactionRequest,
    result: CompactionResult,
    body: bytes,
    store: Store,
) -> ContractOutcome:
    """Return what the answer reports of what its client asked for; `body` is what is sent."""
    if contract is None:
        return NOTHING_DONE
    done = nothing_done(contract)
    if contract.compacts and SUMMARY in result.stages:
        done = await sealed_outcome(compaction, result, body, store)
    results, result_tokens, turns, thinking_tokens = result.cleared
    return replace(
        done,
        cleared_results=results,
        cleared_result_tokens=result_tokens,
        cleared_thinking_turns=turns,
        cleared_thinking_tokens=thinking_tokens,
        is_asked=nothing_done(contract).is_asked,
    )


async def sealed_outcome(
    compaction: CompactionRequest, result: CompactionResult, body: bytes, store: Store
) -> ContractOutcome:
    """Return the outcome of a compaction: its prompt, sealed, and its figures.

    A prompt that is too long to be sealed is no compaction: the client keeps its own history.
    """
    folded = folded_text_in(result)
    text = folded or plain_text(result.conversation)
    wire, scope = wire_of(compaction.request), compaction.scope
    sealed = await seal_body(body, wire, scope, store, text)
    if not sealed:
        return NOTHING_DONE
    size = result.token_count.sizes[_fold_index(result)] if folded else 0
    return ContractOutcome(sealed, text, compaction.measured.tokens, size)


def folded_text_in(result: CompactionResult) -> str:
    """Return the folded text of a compacted conversation; empty if it has none."""
    if SUMMARY not in result.stages:
        return ""
    content = result.conversation.fields[_fold_index(result)].get("content")
    return content if type(content) is str else ""


def plain_text(conversation: Conversation) -> str:
    """Return what a conversation says that is too short to be folded."""
    messages = conversation.messages[conversation.instructions :]
    return "\n\n".join(
        f"{message.role}: {text}" for message in messages for _, text in message.pieces() if text
    )


def _fold_index(result: CompactionResult) -> int:
    """Return where a folded text stands: right behind the instructions."""
    return result.conversation.instructions
