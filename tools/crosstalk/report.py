"""How far a run is, and its table."""

from tools.crosstalk.ledger import Order
from tools.crosstalk.run import Run
from tools.crosstalk.upstream.server import ACTS

ENDS = ("own", "error", "cut", "another's", "hung")
COLUMNS = ("misbehaviour", "requests", *ENDS, "unasked before", "unasked after", "delivered")


def progress_of(run: Run) -> str:
    """Return one line: how far it is, and what is wrong so far."""
    findings = run.findings
    return (
        f"{run.seconds:.0f} of {run.options.seconds:g} s, {findings.requests} requests, "
        f"{run.crowd} clients, {run.upstream.lines} connections, "
        f"{_total(run, Order.AFTER)} delivered after the write, "
        f"{len(findings.complaints)} complaints"
    )


def report(run: Run) -> str:
    """Return the table of all misbehaviours, and what is wrong."""
    table = [COLUMNS, *(_row(run, act) for act in sorted(ACTS))]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
    return "\n".join([*lines, "", *_summary(run), *run.findings.complaints])


def _row(run: Run, act: str) -> tuple[str, ...]:
    ends, unasked = run.findings.ends, run.upstream.open_lines.unasked
    after = unasked[act, Order.AFTER] + unasked[act, Order.MEANWHILE]
    counts = (
        run.findings.sent_of[act],
        *(ends[act, end] for end in ENDS),
        unasked[act, Order.BEFORE],
        after,
        sum(count for (of, _), count in run.findings.delivered.items() if of == act),
    )
    return (act, *(str(count) for count in counts))


def _summary(run: Run) -> list[str]:
    unasked = run.upstream.open_lines.unasked
    before = sum(count for (_, order), count in unasked.items() if order is Order.BEFORE)
    wrong = _total(run, Order.BEFORE) + _total(run, Order.NEVER)
    crowd = f"{run.options.fewest_clients}-{run.options.most_clients} clients"
    return [
        f"seed {run.options.seed}, {crowd}, {len(ACTS)} misbehaviours",
        f"{run.findings.requests} requests over {run.upstream.lines} connections",
        f"sent unasked before the next request had arrived: {before}",
        f"delivered to another, sent after its request had arrived: {_total(run, Order.AFTER)}",
        f"delivered to another, sent after the look for it: {_total(run, Order.MEANWHILE)}",
        f"foreign: {wrong}",
    ]


def _total(run: Run, order: Order) -> int:
    return sum(count for (_, of), count in run.findings.delivered.items() if of is order)
