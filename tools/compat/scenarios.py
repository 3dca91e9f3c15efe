"""What every client is asked to do, and how one sees that it went well."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chat_proxy.demo.model.answers import Choice
from tools.compat.lineup import LAST_WORDS, TOOL_STEPS, Client
from tools.compat.model import Script, tool_calls
from tools.compat.own_limit import SHARES
from tools.compat.workplace import PAGES, PROOF, page_path

LEFT = 499
FEWEST_COMPACTIONS = 3
FLOOD_TURNS = 5
PASSWORD = "marmalade"


@dataclass(frozen=True)
class Observed:
    """A run from outside: the client's words, the proxy's log, the model's memory."""

    said: str
    code: int | None
    requests: Sequence[Mapping[str, Any]]
    script: Script
    window: int
    proof: bool = False
    is_restarted: bool = False
    """Whether the proxy came back before the run was over."""

    @property
    def errors(self) -> list[int]:
        """The statuses that a client would call errors; 499 is one that it never saw."""
        statuses = [line["status"] for line in self.requests]
        return [status for status in statuses if status >= 400 and status != LEFT]

    @property
    def compactions(self) -> int:
        """How often the proxy cut the conversation anew."""
        return sum(1 for line in self.requests if line.get("new_compaction"))


Complaints = Callable[[Client, Observed], Iterator[str]]


@dataclass(frozen=True)
class Scenario:
    """One thing to do: what it shows, the task in words, what would be wrong, the script."""

    name: str
    shows: str
    task: str
    complaints: Complaints
    seconds: float = 120
    script: Callable[[Client, Path], Script] = field(default=lambda client, _: script_of(client))
    own_limit: int = 0
    """The client's own limit in percent of the window, if it has one."""


def ended_well(_: Client, seen: Observed) -> Iterator[str]:
    """Yield what went wrong in a run that should have ended with the model's last words."""
    if seen.code != 0:
        yield "did not end in time" if seen.code is None else f"exit code {seen.code}"
    if PASSWORD not in seen.said:
        yield "did not show the answer"
    if seen.errors:
        yield f"saw status {', '.join(map(str, sorted(set(seen.errors))))}"
    yield from seen.script.broken[:1]


def streamed(client: Client, seen: Observed) -> Iterator[str]:
    """Yield the same, and that it did not ask for a stream."""
    yield from ended_well(client, seen)
    if not any(line["stream"] for line in seen.requests):
        yield "did not ask for a stream"


def worked(client: Client, seen: Observed) -> Iterator[str]:
    """Yield the same, and steps not taken or compactions that did not come."""
    yield from ended_well(client, seen)
    if seen.script.taken < len(seen.script.steps):
        yield f"{seen.script.taken} of {len(seen.script.steps)} steps"
    if seen.compactions < FEWEST_COMPACTIONS:
        yield f"{seen.compactions} compactions"
    if client.says not in seen.said.lower():
        yield f"did not say {client.says!r}"
    if client.restarts and not seen.is_restarted:
        yield "the proxy was not restarted on the way"
    if client.kind == "coding agent" and not seen.proof:
        yield "left no file behind"


def saw_an_image(client: Client, seen: Observed) -> Iterator[str]:
    """Yield the same as for any run, and that the model saw no image."""
    yield from ended_well(client, seen)
    if not seen.script.images:
        yield "the model saw no image"


def fitted(client: Client, seen: Observed) -> Iterator[str]:
    """Yield the same as for any run, and that the request was not too long at all."""
    yield from ended_well(client, seen)
    if seen.script.taken < len(seen.script.steps):
        yield f"{seen.script.taken} of {len(seen.script.steps)} steps"
    if max((line.get("tokens_before") or 0 for line in seen.requests), default=0) < seen.window:
        yield "was never over the window"


def was_let_go(_: Client, seen: Observed) -> Iterator[str]:
    """Yield that the model had to go on speaking to nobody."""
    if not seen.script.speaking.is_set():
        yield "never asked"
    elif not seen.script.left.is_set():
        yield "the model was not told"


def kept_apart(client: Client, seen: Observed) -> Iterator[str]:
    """Yield the same as for any run, and that a summary was made for a client's own one."""
    yield from ended_well(client, seen)
    if seen.script.taken < len(seen.script.steps):
        yield f"{seen.script.taken} of {len(seen.script.steps)} steps"
    if not seen.script.own_ids and not seen.compactions:
        yield "nobody compacted"
    if seen.script.folded:
        yield f"{seen.script.folded} of the client's compaction requests were folded"
    if seen.script.double:
        yield f"{seen.script.double} side-queries for the client's own compaction"


def with_own_limit(client: Client, folder: Path) -> Script:
    """Read page after page with a client that compacts by itself."""
    script = reading(client, folder)
    script.own_limit = client.own_limit
    return script


def reading(client: Client, folder: Path) -> Script:
    """Read page after page, one for each step; an agent leaves a file at the end."""
    if not client.tool:
        return script_of(client, *map(edit, range(1, client.steps + 1)))
    steps = [
        tool_calls(number, client.tool.call(number, page_path(folder, number)))
        for number in range(1, client.steps + 1)
    ]
    if client.has_turns:
        said = [Choice(f"Page {number} is read.", tokens=9) for number in range(1, client.steps)]
        turns = zip(steps, [*said, Choice(LAST_WORDS, tokens=9)], strict=True)
        steps = [step for turn in turns for step in turn]
    if client.prove:
        steps.append(tool_calls(client.steps + 1, client.prove.call(0, folder / PROOF)))
    return script_of(client, *steps)


def edit(number: int) -> Choice:
    """A step of an agent that calls no tools: a file in the form of aider's whole-file answers."""
    return Choice(f"{PROOF}\n```\nPage {number} is read.\n```\n", tokens=12)


def flood(client: Client, folder: Path) -> Script:
    """Read too much in two steps, then far too much in one; a library sends a long history."""
    if client.has_turns:
        return script_of(client, *(Choice(LAST_WORDS, tokens=9) for _ in range(FLOOD_TURNS)))
    if client.kind != "coding agent" or not client.tool:
        return script_of(client)
    some = client.pages_at_once
    heaps = (range(1, some + 1), range(some + 1, 2 * some + 1), range(1, PAGES + 1))
    steps = (
        tool_calls(number, *(client.tool.call(page, page_path(folder, page)) for page in heap))
        for number, heap in enumerate(heaps, 1)
    )
    return script_of(client, *steps)


def script_of(client: Client, *steps: Choice) -> Script:
    """Take these steps and end: in words, or by the tool with which the client wants to hear it."""
    words = Choice(LAST_WORDS, tokens=9)
    if not client.farewell:
        return Script(steps, words, words)
    return Script(steps, words, tool_calls(99, client.farewell.call(0, Path())))


SCENARIOS = (
    Scenario("hello", "a whole answer", "Say the word.", ended_well),
    Scenario("streaming", "an answer word by word", "Say the word.", streamed),
    Scenario(
        "tools",
        f"{TOOL_STEPS} or more tool steps (aider: edits), {FEWEST_COMPACTIONS} or more compactions "
        "on the way, no 4xx or 5xx, an end as the model wants it; an agent has written its file. "
        "Codex and Claude Code: 100 steps, and the proxy is restarted in the middle. Codex with a "
        "provider called OpenAI: 60 steps, and it says that its context is compacted. Open WebUI: "
        f"{TOOL_STEPS} turns of a chat, each with a call of a built-in tool, no error on the page",
        "Read every page and then say the word.",
        worked,
        900,
        reading,
    ),
    Scenario(
        "image", "an attached image reaches the model", "What is in the picture?", saw_an_image
    ),
    Scenario(
        "overflow",
        "a request longer than the window is answered: a library (and aider) sends a long "
        "history, an agent reads too much in two steps and then all pages in one",
        "Read all pages at once and then say the word.",
        fitted,
        script=flood,
    ),
    Scenario(
        "abort",
        "the client leaves in mid-answer, by its own means or ended by a signal, and the model is "
        "told",
        "Tell a very long story.",
        was_let_go,
        script=lambda *_: Script((), Choice(), Choice(), endless=True),
    ),
)
OWN_LIMIT_SCENARIOS = tuple(
    Scenario(
        f"own-limit-{share}",
        f"a client's own limit at {share} % of the window",
        "Read every page and then say the word.",
        kept_apart,
        900,
        with_own_limit,
        share,
    )
    for share in SHARES
)
