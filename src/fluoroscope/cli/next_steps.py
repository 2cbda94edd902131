"""What to do after an audit, as commands to copy: the first thing first."""

from pathlib import Path

from fluoroscope.findings import NO_DEFENCE, Audit, Level


def next_steps(found: Audit, out: Path, command: str, plan: Path | None = None) -> list[str]:
    """At most four lines, by what was found and what was not.

    Args:
        found: the audit.
        out: its folder.
        command: what was run, without its budget.
        plan: its file, where it has one that can be changed.
    """
    levels = {verdict.level for verdict in found.findings.verdicts}
    steps = [*_unfinished(found, command), *_against_leaks(found, out, plan), *_unclear(levels, plan)]
    return [*steps[:3], _shown(levels, out)]


def _unfinished(found: Audit, command: str) -> list[str]:
    cells = found.findings.cells
    late = sum(cell.status == "left out" for cell in cells)
    failed = sum(cell.status == "failed" for cell in cells)
    steps = []
    if late:
        minutes = 2 * (found.timing.budget_minutes or 30.0) if found.timing else 60.0
        steps.append(
            f"{command} --budget {minutes:g}   # {_cells(late)} did not fit; what is finished is not run again"
        )
    if failed:
        steps.append(
            f"{command}   # {_cells(failed)} failed, for the reasons above: mend them, and only those run again"
        )
    return steps


def _against_leaks(found: Audit, out: Path, plan: Path | None) -> list[str]:
    findings = found.findings
    leaking = [verdict for verdict in findings.verdicts if verdict.level == "leaks"]
    recommended = findings.recommendation.defence
    if not leaking:
        return []
    if recommended not in (None, NO_DEFENCE) and plan is not None:
        again = f"{out}-defended"
        return [
            f"copy the defences of “{recommended}” from [[audit.compare]] to [[defence]] in {plan}, then: fluoroscope "
            f"audit {plan} --out {again} && fluoroscope compare {out} {again}"
        ]
    if recommended is None and plan is not None and any(verdict.threat == "curious-server" for verdict in leaking):
        return [
            f"fluoroscope calibrate {plan} --defence clip-and-noise   # how much noise is enough, and what it costs"
        ]
    return []


def _unclear(levels: set[Level], plan: Path | None) -> list[str]:
    if "unclear" not in levels or plan is None:
        return []
    return [f"raise victims and games in [audit] of {plan}: what is unclear needs more of them"]


def _shown(levels: set[Level], out: Path) -> str:
    if levels == {"holds"}:
        return f"fluoroscope gate {out}   # for a pipeline: exit code 4 as soon as a threat does not hold any more"
    return f"fluoroscope serve {out.parent}   # the page, live and beside other runs"


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
