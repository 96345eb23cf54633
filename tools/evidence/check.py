"""`evidence check`: everything that is stale or false, collected in one go.

Reads only: no GPU, no compiler, nothing written. It counts what it looked at,
because a check that looked at nothing must not pass.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence import copies, exercises, lexing, notebooks, readme, regions, scrub, sources, states
from evidence.errors import SourceError
from evidence.findings import Finding, ordered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evidence.model import Program
    from evidence.project import Project
    from evidence.states import State


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found and how much it looked at.

    Attributes:
        findings: All findings, by place.
        states: The state of every program on every device it has evidence of.
        looked_at: Counts by kind: programs, records, pages, bindings, claims.
    """

    findings: tuple[Finding, ...]
    states: tuple[State, ...]
    looked_at: dict[str, int]


def run(project: Project, *, pages: bool = True) -> Report:
    """Check a whole project.

    Args:
        project: The project.
        pages: Whether to check the pages' bindings and claims too.
    """
    findings = list(project.problems)
    judged: list[State] = []
    for program in project.programs:
        found = _regions(project, program)
        findings += found
        findings += _mutants(project, program)
        findings += _untidy(program)
        for device in devices_of(program, project.config.device):
            state = states.judge(project, program, device)
            judged.append(state)
            findings += state.findings
            findings += _leaks(project, state)
    findings += orphans(project)
    primary = {s.program.name: s.record for s in judged if s.device == project.config.device}
    findings += readme.findings(project, primary)
    findings += sources.findings(project)
    findings += exercises.findings(project)
    findings += copies.findings(project)
    looked_at = {
        "programs": len(project.programs),
        "records": sum(state.record is not None for state in judged),
    }
    if pages:
        # Imported late: the pages' side needs more modules than the rest.
        from evidence.pages import bindings  # noqa: PLC0415

        report = bindings.check(project, {(s.program.name, s.device): s for s in judged})
        findings += report.findings
        looked_at |= report.looked_at
    findings += _nothing(project, looked_at)
    return Report(tuple(ordered(findings)), tuple(judged), looked_at)


def devices_of(program: Program, primary: str) -> list[str]:
    """Return the devices to judge a program on, the primary one first."""
    folder = f"{os.path.dirname(program.path)}/evidence"  # noqa: PTH120
    prefix = f"{program.stem}."
    others = {
        name[len(prefix) : -len(".json")]
        for name in _names(folder)
        if name.startswith(prefix) and name.endswith(".json")
    }
    return [primary, *sorted(others - {primary})]


def _names(folder: Path | str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only, several times faster
    except OSError:
        return []


def _regions(project: Project, program: Program) -> list[Finding]:
    text = project.texts[program.name]
    try:
        regions.read(text, program.relative, program.language)
    except SourceError as error:
        if program.language == "notebook":
            error = notebooks.placed(error, text, program.path)
        return [Finding.of(error, "bad-region")]
    return []


def _untidy(program: Program) -> Iterator[Finding]:
    """Yield a finding for a notebook that holds more than what its author wrote."""
    if program.language != "notebook":
        return
    text = lexing.to_lf(program.path.read_bytes()).decode("utf-8")
    found = list(notebooks.untidy(text, program.relative))
    for line, sentence in found[:1]:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield Finding(
            "untidy", program.relative, line, f"is not as notebooks are kept: {sentence}{more}",
            f"{notebooks.TIDY} {program.relative}",
        )  # fmt: skip


def _mutants(project: Project, program: Program) -> Iterator[Finding]:
    text = project.texts[program.name]
    for mutant in program.plan.mutants:
        count = text.count(mutant.find)
        if count != 1:
            shown = mutant.find.strip().splitlines()[0]
            yield Finding(
                "mutant-misses",
                program.relative,
                1,
                f"mutant {mutant.name}: its find text {shown!r} stands {count} times in the "
                "source, not once",
                "correct find in evidence.toml",
            )


def _leaks(project: Project, state: State) -> Iterator[Finding]:
    record = state.record
    if record is None or record.path is None:
        return
    # One finding a file: every run prints the same, and one recording mends all.
    for leak in list(scrub.leaks(record.path.read_text(encoding="utf-8")))[:1]:
        yield Finding(
            "leak",
            project.relative(record.path),
            leak.line,
            f"holds {leak.text!r}, which tells about the machine it was recorded on",
            f"run: evidence record {state.program.name}",
        )


def orphans(project: Project) -> list[Finding]:
    """Return a finding for every evidence file that belongs to no program."""
    stems = {program.name for program in project.programs}
    # A source that cannot be read keeps its evidence: it is mended, not gone.
    broken = {problem.path.rsplit(".", 1)[0] for problem in project.problems}
    found = []
    for folder in project.folders:
        for name in _names(folder / "evidence"):
            stem = name.split(".")[0]
            shown = project.relative(folder / "evidence" / name)
            if name.startswith(".") or name.endswith(".tmp"):
                found.append(_leftover(shown))
            elif f"{folder.name}/{stem}" not in stems and (
                project.relative(folder / stem) not in broken
            ):
                found.append(
                    Finding(
                        "orphaned",
                        shown,
                        1,
                        f"there is no program {folder.name}/{stem}",
                        "run: evidence prune",
                    )
                )
    return found


def _leftover(shown: str) -> Finding:
    return Finding(
        "leftover",
        shown,
        1,
        "was left behind by an interrupted write; it is no evidence",
        "run: evidence prune",
        severity="warning",
    )


def _nothing(project: Project, looked_at: dict[str, int]) -> Iterator[Finding]:
    """Fail a check that looked at nothing."""
    if looked_at["programs"] == 0 and not project.problems:
        roots = ", ".join(project.config.roots)
        yield Finding(
            "nothing-checked",
            "pyproject.toml",
            1,
            f"no program was found under {roots}",
            "add one, or correct roots in [tool.evidence]",
        )
