"""The project's programs and evidence as pages ask for them, each read once."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from evidence import notebooks, regions, sources, states, values
from evidence.errors import EvidenceError, SourceError
from evidence.pages import course, directives, glossary, ids, scan
from evidence.pages.memory import Memory
from evidence.pages.pagetext import PageText
from evidence.pages.places import Named
from evidence.pages.reviews import Reviews

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from evidence.model import Program
    from evidence.project import Project
    from evidence.regions import Region
    from evidence.states import State
    from evidence.values import Reading


class Library:
    """Everything pages may ask for.

    Args:
        project: The project.
        judged: States that are known already, by program and device.
        memory: What an earlier library has computed, if there was one.

    Attributes:
        reviews: What each section was last read against.
    """

    def __init__(
        self,
        project: Project,
        judged: Mapping[tuple[str, str], State] | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.project = project
        self._memory = memory or Memory()
        self._programs: dict[tuple[str, tuple[str, ...]], Program] = {}
        self._files: dict[str, list[Program]] = {}
        for program in project.programs:
            names = {program.path.name, f"{program.folder}/{program.path.name}", program.relative}
            for name in names:
                self._files.setdefault(name, []).append(program)
        self._states: dict[tuple[str, str], State] = dict(judged or {})
        self._readings: dict[tuple[str, str], Reading] = {}
        self._regions: dict[str, dict[str, Region]] = {}
        self._homes: dict[str, str] | None = None
        self._sources: dict[str, str] = {}
        self._listed: dict[str, str] = {}
        self._devices: dict[str, list[str]] = {}
        self._named = Named(self)
        self._pages: dict[Path, PageText] = {}
        self.reviews = Reviews(project)
        self._course: course.Course | None = None
        self._terms: Mapping[str, str] | None = None
        self._listings: Mapping[Path, int] | None = None

    @property
    def device(self) -> str:
        """Return the label of the device that prose binds to."""
        return self.project.config.device

    @property
    def course(self) -> course.Course:
        """Return the course that the pages make up."""
        if self._course is None:
            self._course = course.read(self)
        return self._course

    @property
    def terms(self) -> Mapping[str, str]:
        """Return the first sentence of each term of the glossary by its anchor."""
        if self._terms is None:
            self._terms = glossary.read(self)
        return self._terms

    def pages(self) -> list[Path]:
        """Return every page's file, by path."""
        docs = self.project.root / self.project.config.docs
        return sorted(path for path in docs.rglob("*.md") if path.is_file())

    @property
    def listings(self) -> Mapping[Path, int]:
        """Return how many programs each page of sources lists, of those that are as due."""
        if self._listings is None:
            self._listings = sources.as_due(self.project)
        return self._listings

    def written(self) -> list[Path]:
        """Return the files of all pages but those that list programs and nothing else."""
        return [path for path in self.pages() if path not in self.listings]

    def page(self, path: Path) -> PageText:
        """Return a page as its file holds it.

        Raises:
            EvidenceError: It cannot be read.
        """
        if path not in self._pages:
            shown = self.project.relative(path)
            try:
                text = path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "reason", None) or getattr(error, "strerror", error)
                raise EvidenceError(
                    f"cannot be read: {reason}", path=shown, line=1, fix="save it as UTF-8"
                ) from None
            self._pages[path] = self._memory.of((shown, text), lambda: PageText(shown, text))
        return self._pages[path]

    def program(self, name: str, near: tuple[str, ...] = ()) -> Program:
        """Return the program that a page names.

        Args:
            name: A program's name, its folder's, a day's number, or its file
                (`attention.cu`, `097-attention/attention.cu`).
            near: Programs that the page is about: a bare file name is looked
                for among them first.

        Raises:
            EvidenceError: No program is meant, or several are.
        """
        key = (name, near)
        if key not in self._programs:
            self._programs[key] = self._find_program(name, near)
        return self._programs[key]

    def _find_program(self, name: str, near: tuple[str, ...]) -> Program:
        by_file = self._by_file(name)
        if not by_file:
            if name.endswith((".cu", ".py", ".ipynb")):
                raise self._no_file(name)
            return self.project.get(name)
        if len(by_file) > 1 and near:
            about = [p for p in self.project.find(near) if p in by_file]
            by_file = about or by_file
        if len(by_file) > 1:
            several = ", ".join(f"{p.folder}/{p.path.name}" for p in by_file)
            raise EvidenceError(
                f"{name!r} stands for several programs: {several}", fix="name the folder too"
            )
        return by_file[0]

    def _no_file(self, name: str) -> EvidenceError:
        known = sorted({p.path.name for p in self.project.programs})
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; close: {', '.join(close)}" if close else ""
        return EvidenceError(f"no program is named {name!r}{hint}", fix="run: evidence list")

    def _by_file(self, name: str) -> list[Program]:
        return self._files.get(name, [])

    def text(self, program: Program) -> str:
        """Return a program's source."""
        return self.project.texts[program.name]

    def region(self, program: Program, name: str) -> Region:
        """Return a region of a program.

        Raises:
            EvidenceError: It has none of this name, or its regions are broken.
        """
        found = self.regions(program)
        if name not in found:
            close = difflib.get_close_matches(name, found, n=3, cutoff=0.5)
            has = f"close: {', '.join(close)}" if close else f"it has: {', '.join(found) or 'none'}"
            raise EvidenceError(
                f"{program.relative} has no region `{name}`; {has}",
                fix="correct the name, or mark the region in the source",
            )
        return found[name]

    def regions(self, program: Program) -> dict[str, Region]:
        """Return all regions of a program by name.

        Raises:
            SourceError: A region is broken.
        """
        if program.name not in self._regions:
            text = self.text(program)
            try:
                found = regions.read(text, program.relative, program.language)
            except SourceError as error:
                if program.language == "notebook":
                    error = notebooks.placed(error, text, program.path)
                raise error from None
            self._regions[program.name] = found
        return self._regions[program.name]

    def state(self, program: Program, device: str) -> State:
        """Return the state of a program's evidence on a device."""
        key = (program.name, device)
        if key not in self._states:
            self._states[key] = states.judge(self.project, program, device)
        return self._states[key]

    def devices(self, program: Program) -> list[str]:
        """Return the devices a program has evidence of, the primary one first."""
        if program.name not in self._devices:
            folder = program.directory / "evidence"
            prefix, suffix = f"{program.stem}.", ".json"
            names = sorted(path.name for path in folder.glob(f"{prefix}*{suffix}"))
            labels = [name[len(prefix) : -len(suffix)] for name in names]
            self._devices[program.name] = sorted(labels, key=lambda label: label != self.device)
        return self._devices[program.name]

    def reading(self, program: Program, device: str) -> Reading:
        """Return the values of a program's evidence on a device; none without a record."""
        key = (program.name, device)
        if key not in self._readings:
            record, extra = self.state(program, device).record, program.plan.values
            self._readings[key] = (
                values.Reading()
                if record is None
                # Nothing else has the same hash over its whole text.
                else self._memory.of(
                    (record.data["body"], extra), lambda: values.read(record.data, extra)
                )
            )
        return self._readings[key]

    def wanted(self, program: Program, device: str) -> frozenset[str]:
        """Return the addresses of a program's values that some page has a name for."""
        return self._named.of(program, self.reading(program, device).values)

    def home(self, program: Program) -> str | None:
        """Return the page that shows a program's output, relative to the docs."""
        self._find_homes()
        return (self._homes or {}).get(program.name)

    def source_home(self, program: Program) -> str | None:
        """Return the page that lists a program's whole source."""
        self._find_homes()
        return self._sources.get(program.name)

    def line_anchor(self, program: Program) -> str:
        """Return what the anchors of a source's lines begin with, where it is listed."""
        home = self.source_home(program)
        first = home is not None and self._listed[home] == program.name
        return ids.LINE if first else f"{ids.source(program)}~"

    def _find_homes(self) -> None:
        if self._homes is not None:
            return
        self._homes = {}
        docs = self.project.root / self.project.config.docs
        for path in self.pages():
            try:
                page = self.page(path)
            except EvidenceError:
                continue  # the page's own findings say so
            self._look_at(path.relative_to(docs).as_posix(), page, self._homes)

    def _look_at(self, shown: str, page: PageText, homes: dict[str, str]) -> None:
        near = tuple(name for name, _ in page.front.programs)
        for item in page.scan.items:
            if not isinstance(item, scan.Block) or item.kind not in directives.LISTING:
                continue
            whole = ":" not in item.argument
            try:
                program = self.program(item.argument.split(":")[0].strip(), near)
            except EvidenceError:
                continue
            if item.kind in ("output", "notebook"):
                homes.setdefault(program.name, shown)
            elif whole:
                self._sources.setdefault(program.name, shown)
                self._listed.setdefault(shown, program.name)
