"""Writes the table of clients that compact by themselves, and when everything was played."""

from collections.abc import Iterator, Mapping, Sequence

from tools.compat.lineup import Client
from tools.compat.report.results import FAILED, OK, Findings
from tools.compat.scenarios import OWN_LIMIT_SCENARIOS

HEAD = """\
## Clients that compact by themselves

Coding agents summarise their conversation themselves when it reaches a limit of their own. Here
that limit is at 70 % and at 85 % of the model's window, on both sides of the point where the proxy
would act. The agent takes 60 tool steps; every fourth page is three times as long, so that a step
can leap over both limits. A request by which the agent asks for its own summary has to reach the
model unfolded, and the proxy must not ask for a summary because of it.
"""
COLUMNS = (
    "| client | window | own limit | outcome | steps | own | folded | new | side-queries | double |"
)
BELOW = """\
*Own* counts the agent's requests for a summary of its own, *folded* those of them with a summary of
the proxy in them, *new* the proxy's compactions, *side-queries* the summaries that the proxy asked
for, in advance too, and *double* those that it asked for because of the agent's own request. The
scripted model counts them by the request's id. An agent that measures its conversation by the
`usage` of the answers may never reach its limit, because the proxy keeps the prompt below it.
"""


def own_limits(clients: Sequence[Client], results: Mapping[str, Findings]) -> Iterator[str]:
    """Yield the section about the clients that were played with a limit of their own."""
    rows = [
        row for client in clients if client.own_limit for row in _rows(client, results[client.name])
    ]
    if rows:
        yield from (HEAD, COLUMNS, f"|{'---|' * 10}", *rows, "", BELOW)
        yield from (
            f"- {client.title}: its limit is set by {client.own_limit.set_by}"
            for client in clients
            if client.own_limit
        )
        yield ""


def _rows(client: Client, findings: Findings) -> Iterator[str]:
    for scenario in OWN_LIMIT_SCENARIOS:
        found = findings.get(scenario.name)
        if found is None or client.own_limit is None:
            continue
        outcome = f"**{found.outcome}**" if found.outcome == FAILED else found.outcome
        yield (
            f"| {client.title} {client.version} | {client.own_limit.window:,} "
            f"| {scenario.own_limit} % | {outcome} | {found.steps} | {found.own_compactions} "
            f"| {found.folded} | {found.compactions} | {found.side_queries} | {found.double} |"
        )


def runs(clients: Sequence[Client], results: Mapping[str, Findings]) -> Iterator[str]:
    """Yield on which day and with which commit the clients were played."""
    played: dict[str, list[str]] = {}
    for client in clients:
        of_client: dict[str, list[str]] = {}
        for name, found in results[client.name].items():
            if found.outcome in (OK, FAILED):
                of_client.setdefault(found.run or "an unknown day", []).append(name)
        for run, names in of_client.items():
            some = "" if len(of_client) == 1 else f": {', '.join(names)}"
            played.setdefault(run, []).append(f"{name_of(client)}{some}")
    if len(played) == 1:
        yield f"All was played on {next(iter(played))}.\n"
        return
    for run, names in played.items():
        yield f"- played on {run}: {'; '.join(names)}"
    yield ""


def name_of(client: Client) -> str:
    """Return a client's title, with what tells its rows apart."""
    return f"{client.title} ({client.api}, {client.window:,})"
