"""Runs one study after another: what fails is said at the end, and stops no other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fluoroscope.cells import Engine
from fluoroscope.errors import FluoroscopeError
from fluoroscope.studies.run import Findings, run, write_findings
from fluoroscope.studies.study import STUDIES, Size, Sources, Study


@dataclass(frozen=True, eq=False)
class Ended:
    """How a study ended."""

    study: str
    findings: Findings | None
    failed: str | None = None
    """Why there are no findings, in a sentence."""

    @property
    def left_out(self) -> int:
        """Cells that could not be run, each with its reason in the table."""
        return sum(bool(row.failed) for row in self.findings.rows) if self.findings else 0


def cheapest_first(size: Size, data: Sources = None) -> list[Study]:
    """Every study, by its number of cells: whoever stops early has most of them."""
    return sorted((STUDIES.get(name) for name in STUDIES), key=lambda study: len(study.grid(size, data)))


def run_every(
    studies: Sequence[Study],
    size: Size,
    seed: int,
    data: Sources,
    out: Path,
    on_progress: Callable[[float, int, str], None] = lambda done, cells, what: None,
    engine: Engine | None = None,
) -> list[Ended]:
    """Findings, table and figure of each, written as soon as it is done; `out` keeps finished cells for all.

    Only what a user can do something about counts as a study's failure, and so does a lack of memory; an error of ours
    is one too, and is named by its kind.
    """
    counts = [len(study.grid(size, data)) for study in studies]
    total, ended = sum(counts), []
    for number, study in enumerate(studies):
        before = sum(counts[:number])

        def tell(done: float, cells: int, what: str, study: Study = study, before: int = before) -> None:
            on_progress(before + done, total, f"{study.name}: {what}")

        tell(0.0, counts[number], "")
        try:
            findings = run(study, size, seed, data, out, tell, engine)
            write_findings(findings, out)
        except FluoroscopeError as problem:
            ended.append(Ended(study.name, None, str(problem)))
        except Exception as problem:
            first = str(problem).strip().partition("\n")[0]
            ended.append(Ended(study.name, None, f"{type(problem).__name__}: {first}"))
        else:
            ended.append(Ended(study.name, findings))
    return ended
