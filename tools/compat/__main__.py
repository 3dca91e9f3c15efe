"""`make compat`: drive real clients through the proxy and write docs/clients.md."""

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tools.compat.install import NotInstalled, install
from tools.compat.lineup import CLIENTS, INSTALLED, ROOT, Client
from tools.compat.play import stage_for
from tools.compat.report.matrix import NAMES, shortfalls, written
from tools.compat.report.results import FAILED, Finding, Findings, keep, kept
from tools.compat.scenarios import OWN_LIMIT_SCENARIOS, SCENARIOS, Scenario

RESULTS = INSTALLED / "results.json"
PAGE = ROOT / "docs" / "clients.md"


async def findings_of(client: Client, wanted: list[str]) -> dict[str, Finding]:
    """Install a client and play its scenarios; whatever goes wrong stays with this client."""
    tell(f"{client.title} {client.version}: installing")
    try:
        await install(client)
    except NotInstalled as error:
        return {"install": Finding(FAILED, str(error))}
    found = await played(client, SCENARIOS, wanted)
    if client.own_limit:
        itself = client.with_own_limit(client.own_limit)
        found |= await played(itself, OWN_LIMIT_SCENARIOS, wanted)
    return found


async def played(
    client: Client, scenarios: Iterable[Scenario], wanted: list[str]
) -> dict[str, Finding]:
    """Play those of the scenarios that are wanted before one proxy."""
    chosen = [scenario for scenario in scenarios if scenario.name in wanted]
    if not chosen:
        return {}
    found = {}
    run = f"{datetime.now(UTC).date()}, commit {commit()}"
    async with stage_for(client) as stage:
        for scenario in chosen:
            finding = found[scenario.name] = replace(await stage.play(scenario), run=run)
            tell(f"{client.title} {client.version}: {scenario.name} {told(finding)}")
    return found


def commit() -> str:
    """Return the newest commit of the proxy's code, with a mark if it was changed since."""
    changed = git("status", "--porcelain", "--", "app")
    return git("log", "-1", "--format=%h", "--", "app") + (", changed" if changed else "")


def git(*arguments: str) -> str:
    """Return what git says about this repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def is_whole(findings: Findings) -> bool:
    """Whether a client was tried in every scenario, or could not be installed."""
    return set(NAMES) <= set(findings) or "install" in findings


def told(finding: Finding) -> str:
    """Return a finding as a few words."""
    numbers = f"{finding.steps} steps, {finding.compactions} compactions, {finding.seconds:.0f} s"
    if finding.own_compactions:
        numbers += f", {finding.own_compactions} of its own, {finding.folded} folded"
        numbers += f", {finding.double} of {finding.side_queries} side-queries double"
    return f"{finding.outcome} ({finding.reason or numbers})"


def tell(line: str) -> None:
    """Say how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def run(names: list[str], scenarios: list[str]) -> int:
    """Drive the clients one after the other, and write what was found."""
    order = [client.name for client in CLIENTS]
    if len(names) == len(order):
        RESULTS.unlink(missing_ok=True)
    for client in CLIENTS:
        if client.name in names:
            found = await findings_of(client, scenarios)
            before = kept(RESULTS, order)
            keep(RESULTS, {**before, client.name: {**before.get(client.name, {}), **found}})
    results = kept(RESULTS, order)
    if all(is_whole(results.get(name, {})) for name in order):
        PAGE.write_text(written(CLIENTS, results), encoding="utf-8")
        tell(f"wrote {PAGE.relative_to(ROOT)}")
    missing = shortfalls(CLIENTS, results)
    tell("\n".join(missing) or "enough clients are green")
    return 1 if missing else 0


def main() -> None:
    """Read which clients and scenarios are wanted, and run them."""
    every = [client.name for client in CLIENTS]
    scenarios = [scenario.name for scenario in (*SCENARIOS, *OWN_LIMIT_SCENARIOS)]
    parser = argparse.ArgumentParser(prog="make compat", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument("--scenarios", nargs="+", choices=scenarios, default=scenarios)
    chosen = parser.parse_args()
    # Whoever ends this ends the clients with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(asyncio.run(run(chosen.only, chosen.scenarios)))


if __name__ == "__main__":
    main()
