"""What a run found, and how it is kept between two runs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

OK = "ok"
FAILED = "failed"
NOT_APPLICABLE = "n/a"


@dataclass(frozen=True)
class Finding:
    """How one scenario went with one client."""

    outcome: str
    reason: str = ""
    steps: int = 0
    compactions: int = 0
    refused: int = 0
    requests: int = 0
    seconds: float = 0
    own_compactions: int = 0
    """How often the client asked the model for a compaction of its own."""
    folded: int = 0
    """How many of these requests had a summary of the proxy in them."""
    side_queries: int = 0
    double: int = 0
    """How many side-queries of the proxy were made for such a request."""
    run: str = ""
    """The day, and the commit of the proxy that it was played with."""


Findings = Mapping[str, Finding]


def is_green(findings: Findings, scenarios: Iterable[str]) -> bool:
    """Whether every scenario was tried, none failed and something was done."""
    outcomes = {finding.outcome for finding in findings.values()}
    return set(scenarios) <= set(findings) and OK in outcomes and FAILED not in outcomes


def keep(file: Path, results: Mapping[str, Findings]) -> None:
    """Write the results down."""
    told = {
        name: {scenario: asdict(finding) for scenario, finding in findings.items()}
        for name, findings in results.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told, indent=1), encoding="utf-8")


def kept(file: Path, names: Iterable[str]) -> dict[str, dict[str, Finding]]:
    """Read the results of these clients, as far as there are any."""
    if not file.exists():
        return {}
    told = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: {scenario: Finding(**fields) for scenario, fields in told[name].items()}
        for name in names
        if name in told
    }
