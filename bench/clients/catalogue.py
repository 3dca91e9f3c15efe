"""All behaviours that are measured, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.clients.behaviours import course, front, newest, tools
from bench.clients.histories import Client, Kind, Messages, prefixes

Place = Literal["nothing", "front", "middle", "end"]
Rewrite = Callable[[Messages, int], Messages]
Course = Callable[[Client], list[Messages]]

MOST_SIDE_QUERIES = 0.15
MOST_SIDE_QUERIES_SLIDING = 0.2
MOST_COST = 1.3
APPEND_ONLY = "appends only"


def unchanged(messages: Messages, number: int) -> Messages:  # noqa: ARG001
    """Return the messages."""
    return messages


def straight(client: Client) -> list[Messages]:
    """Return the true history at each request of a client that only goes on."""
    return prefixes(client.messages)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a client does to its history before it sends it.

    `changes`: where in the prompt its requests differ from what it sent before. `is_local`: the
    same can be done to a prompt of which a part is folded.
    """

    title: str
    kind: Kind
    changes: Place
    rewrite: Rewrite = unchanged
    course: Course = straight
    most_side_queries: float = MOST_SIDE_QUERIES
    is_local: bool = True

    @property
    def name(self) -> str:
        """The behaviour's name in tables."""
        return f"{self.kind}: {self.title}"

    def sends(self, client: Client) -> list[Messages]:
        """Return the messages of each request."""
        return [self.rewrite(true, at) for at, true in enumerate(self.course(client))]


def _sliding(size: int) -> Behaviour:
    title = f"keeps its last {size} messages"
    rewrite = course.sliding_window(size)
    return Behaviour(title, "chat", "middle", rewrite, most_side_queries=MOST_SIDE_QUERIES_SLIDING)


def _by_number(title: str, rewrite: Rewrite) -> Behaviour:
    """Return a chat's behaviour that counts the messages of the whole history."""
    return Behaviour(title, "chat", "middle", rewrite, is_local=False)


BEHAVIOURS = (
    Behaviour(APPEND_ONLY, "chat", "nothing"),
    Behaviour(APPEND_ONLY, "agent", "nothing"),
    Behaviour("clock with seconds in the system prompt", "chat", "front", front.clock_with_seconds),
    Behaviour("clock with minutes in the system prompt", "chat", "front", front.clock_with_minutes),
    Behaviour("memories in a second system message", "chat", "front", front.memories),
    _sliding(60),
    _sliding(40),
    Behaviour(
        "clock with seconds in the system prompt", "agent", "front", front.clock_with_seconds
    ),
    Behaviour(
        "clock with minutes in the system prompt", "agent", "front", front.clock_with_minutes
    ),
    Behaviour("random id in the system prompt", "agent", "front", front.random_id),
    Behaviour("a second system prompt for plan mode", "agent", "front", front.plan_and_act),
    Behaviour("git status in the first user message", "agent", "front", front.git_status),
    Behaviour(
        "git status in the first user message, untagged",
        "agent",
        "front",
        front.git_status_without_tag,
    ),
    Behaviour(
        "environment details in the first user message", "agent", "front", front.environment_first
    ),
    Behaviour("new call ids at each request", "agent", "nothing", tools.new_ids),
    Behaviour("order of arguments changes", "agent", "front", tools.argument_order),
    Behaviour(
        "arguments of older turns re-serialised", "agent", "middle", tools.older_arguments_compact
    ),
    Behaviour("a note for outdated reads (Cline)", "agent", "middle", tools.outdated_reads),
    Behaviour("prunes old outputs (opencode)", "agent", "middle", tools.prunes_old_outputs),
    Behaviour(
        "environment details in the newest user message",
        "agent",
        "middle",
        newest.environment_newest,
    ),
    Behaviour("environment details, gone later (Cline)", "agent", "end", newest.cline),
    Behaviour("environment details, gone later", "chat", "end", newest.environment_newest),
    Behaviour("retrieved text, gone later", "chat", "end", newest.retrieved_text),
    Behaviour("ephemeral last user message", "agent", "end", newest.ephemeral_user_message),
    Behaviour("reminder in the newest result, gone later", "agent", "end", newest.reminder),
    Behaviour("moving cache_control", "agent", "nothing", newest.moving_cache_control),
    Behaviour("reasoning only in the newest step", "agent", "end", newest.newest_reasoning),
    Behaviour("empty content as null, empty, missing", "agent", "nothing", newest.empty_contents),
    Behaviour("drops images after some turns", "chat", "end", newest.images_dropped),
    _by_number("deletes an old message", course.deletes_old_message),
    _by_number("edits an old message", course.edits_old_message),
    Behaviour("regenerates answers", "chat", "end", course=course.regenerates),
    Behaviour("two branches", "chat", "end", course=course.branches),
    Behaviour("eight sub-agents on a shared prefix", "agent", "end", course=course.sub_agents),
)
