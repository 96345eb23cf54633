"""Finding the programs of a project, by convention.

`kernels/NNN-slug/*.cu`, `*.py` and `*.ipynb`, the same under `snippets/`. A
source is a program if its header has a `Run:` or `Build:` line or it is a `.cu`
or a notebook; a `.py` without either is a module that a program imports.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evidence import config as config_module
from evidence import exercises, header, key
from evidence.errors import EvidenceError, SourceError
from evidence.findings import Finding
from evidence.model import Plan, Program
from evidence.settings import FILE as SETTINGS
from evidence.settings import Settings, default_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from evidence.config import Config
    from evidence.model import Language

_LANGUAGES: dict[str, Language] = {".cu": "cuda", ".py": "python", ".ipynb": "notebook"}
EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True)
class Project:
    """The programs of a project and what is wrong with their sources.

    Attributes:
        config: The project's configuration.
        programs: All programs whose source is sound, by name.
        problems: What keeps other sources from being programs.
        folders: Every folder that was looked at.
        texts: Source text of each program, LF, by program name.
        index: Programs by each name that stands for them; see `names_of`.
    """

    config: Config
    programs: tuple[Program, ...]
    problems: tuple[Finding, ...]
    folders: tuple[Path, ...]
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    index: dict[str, tuple[Program, ...]] = field(default_factory=dict, repr=False)

    @property
    def root(self) -> Path:
        """Return the project's folder."""
        return self.config.root

    def relative(self, path: Path) -> str:
        """Return a path as messages show it."""
        return relative(path, self.root)

    def find(self, names: Iterable[str]) -> tuple[Program, ...]:
        """Return the programs that names stand for; all of them for no name.

        A name is a program's (`097-attention/attention`), a folder's
        (`097-attention`), a day's number (`97`) or a source's path.

        Raises:
            EvidenceError: A name stands for nothing; close names are listed.
        """
        wanted = list(names)
        if not wanted:
            return self.programs
        found: dict[str, Program] = {}
        for name in wanted:
            hits = self.index.get(_plain(name), ())
            if not hits:
                raise self._unknown(name)
            found.update((p.name, p) for p in hits)
        return tuple(found[n] for n in sorted(found))

    def get(self, name: str) -> Program:
        """Return the one program a name stands for.

        A folder or a day alone does not mean its exercise, where it has other programs.

        Raises:
            EvidenceError: It stands for none or for several.
        """
        hits = self.index.get(_plain(name)) or self.find([name])
        if len(hits) > 1:
            hits = tuple(p for p in hits if not exercises.belongs(p)) or hits
        if len(hits) > 1:
            several = ", ".join(p.name for p in hits)
            raise EvidenceError(
                f"{name!r} stands for several programs: {several}", fix="name one of them"
            )
        return hits[0]

    def _unknown(self, name: str) -> EvidenceError:
        for problem in self.problems:
            if name.strip("/") in problem.path:
                return EvidenceError(
                    problem.message, path=problem.path, line=problem.line, fix=problem.fix
                )
        known = sorted({p.name for p in self.programs} | {p.folder for p in self.programs})
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; close: {', '.join(close)}" if close else ""
        return EvidenceError(f"no program is named {name!r}{hint}", fix="run: evidence list")


def relative(path: Path, root: Path) -> str:
    """Return `path` relative to `root` with forward slashes, if it is inside."""
    text = os.fspath(path).removeprefix(os.fspath(root) + os.sep)
    return text.replace("\\", "/")


def _plain(name: str) -> str:
    plain = name.replace("\\", "/").rstrip("/")
    # A day's number may be written with or without its leading zeros.
    return str(int(plain)) if plain.isdigit() else plain


def names_of(program: Program) -> set[str]:
    """Return everything that stands for a program.

    Its name (`097-attention/attention`), its folder's name and path, its day's
    number (`97`) and its source's path.
    """
    names = {program.name, program.folder, program.relative}
    names.add(program.relative.rpartition("/")[0])
    number = program.folder.partition("-")[0]
    return names | ({str(int(number))} if number.isdigit() else set())


def _index(programs: Iterable[Program]) -> dict[str, tuple[Program, ...]]:
    index: dict[str, tuple[Program, ...]] = {}
    for program in programs:
        for name in names_of(program):
            index[name] = (*index.get(name, ()), program)
    return index


def load(start: Path | None = None) -> Project:
    """Read a project: its configuration, its programs and their plans.

    Args:
        start: A folder in the project; the current one by default.

    Raises:
        ConfigError: There is no project, or its configuration is wrong.
    """
    return read(config_module.load(start))


def read(config: Config) -> Project:
    """Read the programs of a configured project."""
    programs: dict[str, Program] = {}
    problems: list[Finding] = []
    texts: dict[str, str] = {}
    folders = tuple(_folders(config))
    for folder in folders:
        _read_folder(folder, config, programs, texts, problems)
    ordered = tuple(programs[name] for name in sorted(programs))
    return Project(config, ordered, tuple(problems), folders, texts, _index(ordered))


def _folders(config: Config) -> Iterator[Path]:
    for root in config.roots:
        top = config.root / root
        if top.is_dir():
            with os.scandir(top) as entries:
                names = sorted(e.name for e in entries if e.is_dir() and e.name[0] not in "._")
            for name in names:
                yield top / name


def _read_folder(
    folder: Path,
    config: Config,
    programs: dict[str, Program],
    texts: dict[str, str],
    problems: list[Finding],
) -> None:
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if e.is_file())
    settings = None
    if SETTINGS in names:
        path = folder / SETTINGS
        try:
            _, text = key.read_text(path, relative(path, config.root))
            settings = Settings(text, relative(path, config.root), config)
        except EvidenceError as error:
            problems.append(Finding.of(error, "bad-settings"))
    stems: set[str] = set()
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        language = _LANGUAGES.get(dot + suffix)
        if language is None:
            continue
        try:
            made = _read_program(folder / name, language, settings, config)
        except EvidenceError as error:
            stems.add(stem)
            code = "bad-settings" if error.path and error.path.endswith(SETTINGS) else "bad-source"
            problems.append(Finding.of(error, code))
            continue
        if made is None:
            continue
        stems.add(stem)
        program, text = made
        _add(program, text, programs, texts, problems)
    if settings is not None:
        problems.extend(_strangers(settings, stems))


def _add(
    program: Program,
    text: str,
    programs: dict[str, Program],
    texts: dict[str, str],
    problems: list[Finding],
) -> None:
    other = programs.get(program.name)
    if other is None:
        programs[program.name] = program
        texts[program.name] = text
        return
    problems.append(
        Finding(
            "name-taken",
            program.relative,
            1,
            f"two programs are named {program.name}: {other.relative} and {program.relative}",
            "rename one of the files",
        )
    )


def _read_program(
    path: Path, language: Language, settings: Settings | None, config: Config
) -> tuple[Program, str] | None:
    shown = relative(path, config.root)
    _, text = key.read_text(path, shown)
    if language == "python" and not _has_run_line(text):
        return None
    build, run = header.parse(text, shown, language)
    plan: Plan = settings.plan(path.stem, language) if settings else default_plan(config, language)
    name = f"{path.parent.name}/{path.stem}"
    return Program(name, path, shown, language, build, run, plan), text


def _has_run_line(text: str) -> bool:
    try:
        header.parse(text, "x.py", "python")
    except SourceError as error:
        return "no Run: line" not in error.message
    return True


def _strangers(settings: Settings, stems: set[str]) -> Iterator[Finding]:
    for name in sorted(settings.stems - stems):
        yield Finding(
            "bad-settings",
            settings.relative,
            settings.line_of(name),
            f"[{name}] is about no program in this folder",
            "rename the table after a program's file, or remove it",
        )
