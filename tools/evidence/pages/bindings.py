"""Everything that is wrong with the pages: what `evidence check` asks of them.

Knows neither Markdown nor MkDocs, and looks up every directive the same way
as the build does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import notebooks
from evidence.errors import EvidenceError
from evidence.findings import Finding, ordered
from evidence.pages import binder, mentions, navigation, reread
from evidence.pages.inline import Inline
from evidence.pages.library import Library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from evidence.pages.banners import Watching
    from evidence.pages.shown import Bound
    from evidence.pages.trace import KeptBound, Trace
    from evidence.project import Project
    from evidence.states import State

COUNTED = ("pages", "paragraphs", "regions", "outputs", "numbers", "claims", "plots", "diffs")


@dataclass(slots=True)
class Report:
    """What was found on the pages, and how much was looked at.

    Attributes:
        findings: By place.
        looked_at: Counts of pages, paragraphs of prose, shown regions and outputs,
            bound numbers, claims, plots and diffs.
    """

    findings: list[Finding] = field(default_factory=list)
    looked_at: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))


def findings(project: Project) -> list[Finding]:
    """Return everything that is wrong with a project's pages."""
    return check(project).findings


def check(project: Project, judged: Mapping[tuple[str, str], State] | None = None) -> Report:
    """Check every page of a project.

    Args:
        project: The project.
        judged: States that are known already, by program's name and device.
    """
    return Pages(Library(project, judged)).check()


class Pages:
    """All pages of a project, each looked up once.

    Args:
        library: Where to look.
        edits: Who has watched the author edit; None in a build.
        kept: Pages that an earlier build has looked up; None in a build.

    Attributes:
        traces: What was asked for each page while it was rendered, by its
            file; None if nobody wants to know.
    """

    def __init__(
        self, library: Library, edits: Watching | None = None, kept: KeptBound | None = None
    ) -> None:
        self.library = library
        self.edits = edits
        self._kept = kept
        self.traces: dict[Path, Trace] | None = None
        self._bound: dict[Path, Bound] = {}

    def bound(self, path: Path) -> Bound:
        """Return a page, as its file holds it, with everything looked up.

        Raises:
            EvidenceError: The file cannot be read.
        """
        if path not in self._bound:
            page = self.library.page(path)
            self._bound[path] = (
                binder.bind(self.library, page) if self._kept is None else self._kept.of(self, page)
            )
        return self._bound[path]

    def check(self) -> Report:
        """Check every page."""
        report = Report()
        used: set[tuple[str, str]] = set()
        sections: dict[str, set[str] | None] = {}
        for path in self.library.pages():
            report.looked_at["pages"] += 1
            if path in self.library.listings:
                report.looked_at["regions"] += self.library.listings[path]
                continue
            try:
                bound = self.bound(path)
            except EvidenceError as error:
                report.findings.append(Finding.of(error, "bad-page"))
                sections[self.library.project.relative(path)] = None
                continue
            sections[bound.page.path] = {section.name for section in bound.sections}
            report.findings += bound.findings
            used |= bound.used
            _count(bound, report.looked_at)
        if self.library.reviews.kept:
            report.looked_at["sections"] = sum(len(names or ()) for names in sections.values())
            report.findings += reread.orphans(self.library.reviews, sections)
        if report.looked_at["pages"]:
            report.findings += _unused_regions(self.library, used)
            report.findings += self.library.course.findings
            report.findings += mentions.references(self.library, self.library.course)
            report.findings += navigation.findings(self.library.project, self.library.course)
            report.findings += _nothing(self.library.project, report)
        report.findings = ordered(report.findings)
        return report


def _count(bound: Bound, looked_at: dict[str, int]) -> None:
    kinds = {"code": "regions", "output": "outputs", "notebook": "outputs", "claim": "claims",
             "plot": "plots", "diff": "diffs", "predict": "numbers"}  # fmt: skip
    looked_at["paragraphs"] += len(bound.page.scan.prose)
    for item in bound.page.scan.items:
        if isinstance(item, Inline):
            looked_at["numbers"] += item.kind == "value"
        elif item.kind == "ruling":
            looked_at["claims"] += item.option("expect") is not None
        elif item.kind in kinds:
            looked_at[kinds[item.kind]] += 1


def _unused_regions(library: Library, used: set[tuple[str, str]]) -> Iterator[Finding]:
    for program in library.project.programs:
        try:
            regions = library.regions(program)
        except EvidenceError:
            continue  # reported with the program
        for name, region in regions.items():
            if (program.name, name) not in used:
                line = region.first_line
                if program.language == "notebook":
                    found = notebooks.place(library.text(program), line, program.path)
                    line = found[2] if found is not None else line
                yield Finding(
                    "region-unused",
                    program.relative,
                    line,
                    f"no page shows region `{name}`",
                    f"show it, `/// code | {program.path.name}:{name}`, or remove its markers",
                )


def _nothing(project: Project, report: Report) -> Iterator[Finding]:
    """Fail a check of pages none of which binds anything."""
    if project.programs and not any(report.looked_at[name] for name in COUNTED[2:]):
        yield Finding(
            "nothing-bound",
            project.config.docs,
            1,
            f"none of {report.looked_at['pages']} pages shows a program or its evidence",
            "bind a page to a program, or correct docs in [tool.evidence]",
        )
