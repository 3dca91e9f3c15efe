"""Writes docs/clients.md from what a run found, and says what is missing."""

from collections.abc import Iterator, Mapping, Sequence

from tools.compat.lineup import Client
from tools.compat.report.own_limits import own_limits, runs
from tools.compat.report.results import FAILED, NOT_APPLICABLE, Finding, Findings, is_green
from tools.compat.report.snippet import snippet_of
from tools.compat.scenarios import FEWEST_COMPACTIONS, SCENARIOS

NOT_PLAYED = "not run"
FEWEST_GREEN = 8
FEWEST_AGENTS = 2
FEWEST_STEPS_OF_AN_AGENT = 20
NAMES = tuple(scenario.name for scenario in SCENARIOS)
HEAD = """\
# Clients

Written by `make compat`. Every client below, in the version named, was installed from its registry
and driven without a person through a real proxy process. Behind it a scripted model counts its
prompts and refuses what is over its window in vLLM's words. Windows are small on purpose; an
agent's own prompt and tools decide how small they can be. The proxy runs with its defaults, for
coding agents with [`configs/coding-agents.env`](../configs/coding-agents.env): aider sends an image
in a message before the question, which the default for image chats would leave out.
"""
BELOW = """\
Steps and compactions are those of the tools scenario. *Refused* counts the prompts of all scenarios
that the model called too long.
"""


def written(clients: Sequence[Client], results: Mapping[str, Findings]) -> str:
    """Return the whole page."""
    meanings = ["| scenario | what it shows |", "|---|---|"]
    meanings += [f"| {scenario.name} | {scenario.shows} |" for scenario in SCENARIOS]
    rows = [*table(clients, results), "", BELOW, *notes(clients, results)]
    limits = own_limits(clients, results)
    setup = ["## What to set", "", *configurations(clients)]
    return "\n".join([HEAD, *runs(clients, results), *meanings, "", *rows, *limits, *setup])


def table(clients: Sequence[Client], results: Mapping[str, Findings]) -> Iterator[str]:
    """Yield a row for every client."""
    names = " | ".join(NAMES)
    yield f"| client | version | kind | API | window | {names} | steps | compactions | refused |"
    yield "|---|---|---|---|---" + "|---" * len(NAMES) + "|---|---|---|"
    for client in clients:
        findings = results[client.name]
        outcomes = " | ".join(outcome_of(findings, name) for name in NAMES)
        tools = findings.get("tools", Finding(FAILED))
        refused = sum(finding.refused for finding in findings.values())
        yield (
            f"| {client.title} | {client.version} | {client.kind} | {client.api} "
            f"| {client.window:,} | {outcomes} "
            f"| {tools.steps} | {tools.compactions} | {refused} |"
        )


def outcome_of(findings: Findings, scenario: str) -> str:
    """Return how a scenario went, in a word that stands out when it failed."""
    outcome = findings[scenario].outcome if scenario in findings else NOT_PLAYED
    return f"**{outcome}**" if outcome == FAILED else outcome


def notes(clients: Sequence[Client], results: Mapping[str, Findings]) -> Iterator[str]:
    """Yield why something failed or was not tried."""
    told = [
        f"- {client.title}, {scenario}: {finding.outcome}, {one_line(finding.reason)}"
        for client in clients
        for scenario, finding in results[client.name].items()
        if finding.outcome in (FAILED, NOT_APPLICABLE)
    ]
    if told:
        yield from [*told, ""]


def one_line(reason: str) -> str:
    """Return a reason without its line breaks."""
    return " ".join(reason.split())


def configurations(clients: Sequence[Client]) -> Iterator[str]:
    """Yield what was set for each client, as it ran."""
    drivers = {client.driver: client for client in reversed(clients)}
    for client in reversed(drivers.values()):
        language, lines = snippet_of(client.driver_file)
        api = "" if client.api == "chat" else f", {client.api}"
        yield f"**{client.title}** (`{client.pins[0]}`{api})\n\n```{language}\n{lines}\n```\n"


def shortfalls(clients: Sequence[Client], results: Mapping[str, Findings]) -> list[str]:
    """Return what the run was asked to show and did not."""
    green = [client for client in clients if is_green(results.get(client.name, {}), NAMES)]
    agents = [client for client in green if went_far(client, results[client.name])]
    found = []
    if len(green) < FEWEST_GREEN:
        found.append(f"{len(green)} clients are green, {FEWEST_GREEN} are asked for")
    if len(agents) < FEWEST_AGENTS:
        found.append(f"{len(agents)} coding agents went far enough, {FEWEST_AGENTS} are asked for")
    return found


def went_far(client: Client, findings: Findings) -> bool:
    """Whether this is a coding agent that took many steps over several compactions."""
    tools = findings["tools"]
    return (
        client.kind == "coding agent"
        and tools.steps >= FEWEST_STEPS_OF_AN_AGENT
        and tools.compactions >= FEWEST_COMPACTIONS
    )
