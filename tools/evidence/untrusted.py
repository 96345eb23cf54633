"""What a stranger's tree and its programs may ask for, before anything of them is run.

The sandbox holds what runs; this holds what the recorder itself would do for a
tree: follow its links, read its files, take over what it says was done before,
and give its words to a compiler.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from evidence import config, key, project, sandbox
from evidence.errors import EvidenceError, SourceError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from evidence.config import Config
    from evidence.machine import Machine
    from evidence.model import Inputs, Program
    from evidence.project import Project

WORK = ".evidence"
_GIT = ".git"
_TRUST = "or read the program, and record it without --untrusted"

# Options that take their value as the next word too.
_PAIRED = (
    "-o", "--output-file", "-std", "--std", "-arch", "--gpu-architecture", "-code", "--gpu-code",
    "-gencode", "--generate-code", "-Xcompiler", "--compiler-options", "-Xptxas",
    "--ptxas-options", "-Xlinker", "--linker-options", "-maxrregcount", "--maxrregcount",
    "-diag-suppress", "--diag-suppress", "-O", "--optimize",
)  # fmt: skip
_GLUED = ("-D", "-U", "-I", "-l")
_OPTION = re.compile(
    r"-O[0-3]|(?:-O|--optimize)=[0-3]|-?-std=(?:c|gnu)\+\+\d\d|-g|-G|-w|-?-(?:lineinfo|"
    r"expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|use_fast_math|restrict|"
    r"resource-usage|generate-line-info|debug|device-debug|dopt=on|default-stream=[a-z-]+)|"
    r"-?-(?:ftz|prec-div|prec-sqrt|fmad|rdc|relocatable-device-code)=(?:true|false)|"
    r"-?-maxrregcount=\d+|-?-diag-suppress=[\d,]+|-?-Werror=[a-z,-]+|"
    r"(?:-arch|--gpu-architecture|-code|--gpu-code)=[\w,]+|"
    r"(?:-gencode|--generate-code)=arch=\w+,code=[\w,\[\]]+|"
    r"-[DU][A-Za-z_]\w*(?:=.*)?|-l[A-Za-z0-9_+-]+"
)
_HOST = re.compile(
    r"-O[0-3]|-g|-W(?!l$|p$|a$)[a-z][a-z0-9+=-]*|-pedantic|-pthread|-fopenmp|-ffast-math|"
    r"-funroll-loops|-fno-[a-z-]+|-ffp-contract=\w+|-m(?:arch|tune)=[\w.-]+|"
    r"-m(?:avx|avx2|avx512f|fma|sse4\.[12])"
)
_LINKER = re.compile(r"-E|--?export-dynamic|-s|-S|--(?:no-)?as-needed|--gc-sections")
_PTXAS = re.compile(r"-v|-O[0-3]|-warn-spills|-warn-lmem-usage|-dlcm=\w+|-dscm=\w+")


def prepare(machine: Machine) -> Machine:
    """Return the machine as one that runs everything in a sandbox.

    Raises:
        ToolchainError: There is none here.
    """
    nvcc = machine.nvcc.path if machine.nvcc else None
    box = sandbox.find(p for p in (nvcc, machine.sanitizer, machine.ncu) if p is not None)
    return replace(machine, run=box.run, sandbox=box)


def check_tree(root: Path) -> None:
    """Refuse a tree with a link that leads out of it, or into git's own folder.

    The recorder reads and copies files with its own rights.

    Raises:
        EvidenceError: There is one.
    """
    real = Path(os.path.realpath(root))
    for path in _links(real):
        target = Path(os.path.realpath(path))
        inside = target.is_relative_to(real) and _GIT not in target.relative_to(real).parts
        if not inside or (target.exists() and not (target.is_file() or target.is_dir())):
            shown = path.relative_to(real).as_posix()
            raise EvidenceError(
                f"is a link that leads out of the tree, to {str(path.readlink())!r}", path=shown,
                fix=f"remove it: git rm {shown}",
            )  # fmt: skip


def _links(root: Path) -> Iterator[Path]:
    own = os.path.realpath(sys.prefix)
    for folder, folders, files in os.walk(root):
        # The tool's own environment is nothing that a stranger brought.
        folders[:] = [n for n in folders if n != _GIT and os.path.join(folder, n) != own]  # noqa: PTH118
        if Path(folder) == root:
            folders[:] = [name for name in folders if name != WORK]
            files[:] = [name for name in files if name != WORK]
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                yield path


def load(start: Path | None) -> Project:
    """Return a stranger's project, of which nothing was read before it was looked at.

    Raises:
        EvidenceError: Why nothing of it is run.
    """
    here = Path.cwd() if start is None else start
    if (here / config.FILE).is_symlink():
        check_tree(here)
    settings = config.load(start)
    check_tree(settings.root)
    _check_folders(settings)
    found = project.load(start)
    clean(found.root)
    return admitted(found)


def _check_folders(settings: Config) -> None:
    """Refuse a configuration by which something would be written outside of the tree."""
    real = Path(os.path.realpath(settings.root))
    pages = PurePosixPath(settings.docs, settings.sources)
    folders = {"docs": settings.docs, "sources": str(pages), "reviewed": settings.reviewed}
    for name, folder in folders.items():
        target = Path(os.path.realpath(real / folder))
        if not target.is_relative_to(real) or _GIT in target.relative_to(real).parts:
            raise EvidenceError(
                f"{name} = {getattr(settings, name)!r} leads out of the tree", path=config.FILE,
                fix="name a folder of the project",
            )  # fmt: skip


def admitted(found: Project) -> Project:
    """Return a project with those of its programs that may be compiled and run.

    The others are among its problems, like those of which the source is broken.
    """
    kept: dict[str, Program] = {}
    refused: list[Finding] = []
    for program in found.programs:
        code = "refused"
        try:
            check_program(found, program)
            code = "bad-source"
            check_inputs(program, key.inputs_of(program))
        except EvidenceError as error:
            refused.append(Finding.of(error, code, program.relative))
            continue
        kept[program.name] = program
    index = {
        name: tuple(program for program in programs if program.name in kept)
        for name, programs in found.index.items()
    }
    return replace(
        found, programs=tuple(kept.values()), index=index, problems=(*found.problems, *refused)
    )


def clean(root: Path) -> None:
    """Remove what the tool keeps in a tree: a stranger could have put it there.

    Raises:
        EvidenceError: It cannot be removed.
    """
    path = root / WORK
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
    except OSError as error:
        raise EvidenceError(
            f"cannot be removed: {error.strerror}", path=WORK, fix="remove it, and run again"
        ) from None


def check_program(found: Project, program: Program) -> None:
    """Refuse a program that asks for what is outside of its tree, or for odd options.

    Raises:
        SourceError: What it asks for.
    """
    line = program.run.line
    if ".." in Path(os.path.relpath(program.directory, found.root)).parts:
        raise SourceError("is outside the project", path=program.relative, line=line, fix=_TRUST)
    for name in program.plan.inputs:
        _check_inside(program, name, PurePosixPath(name), line)
    if program.build is not None:
        for word in _refused(found, program):
            raise SourceError(
                f"Build: has {word!r}, which a stranger's program may not use",
                path=program.relative, line=program.build.line, fix=f"remove it, {_TRUST}",
            )  # fmt: skip


def check_inputs(program: Program, inputs: Inputs) -> None:
    """Refuse a program that includes a file of git's own folder.

    Raises:
        SourceError: It does.
    """
    for name in inputs.files:
        if _GIT in PurePosixPath(name).parts:
            raise SourceError(
                f"includes {name!r}, which is git's own", path=program.relative,
                line=program.run.line, fix="remove that line",
            )  # fmt: skip


def _check_inside(program: Program, name: str, path: PurePosixPath, line: int) -> None:
    if path.is_absolute() or ".." in path.parts or _GIT in path.parts:
        raise SourceError(
            f"needs {name!r}, which is outside its folder and so not there when it runs",
            path=program.relative, line=line, fix="move it beside the program",
        )  # fmt: skip


def _refused(found: Project, program: Program) -> Iterator[str]:
    """Yield every word of a Build: line that is not known to be harmless."""
    assert program.build is not None  # noqa: S101
    outputs = 0
    folder = found.relative(program.directory)
    for word in _joined(program.build.words[1:]):
        name, _, value = word.partition("=")
        if name in ("-o", "--output-file"):
            outputs += 1
            if outputs > 1 or value != program.stem:
                yield word
        elif name in ("-Xcompiler", "--compiler-options"):
            yield from (w for w in _split(value) if not _HOST.fullmatch(w))
        elif name in ("-Xlinker", "--linker-options"):
            yield from (w for w in _split(value) if not _LINKER.fullmatch(w))
        elif name in ("-Xptxas", "--ptxas-options"):
            yield from (w for w in _split(value) if not _PTXAS.fullmatch(w))
        elif word.startswith("-I"):
            target = posixpath.normpath(posixpath.join(folder, word[2:]))
            if target.startswith(("/", "..")) or _GIT in target.split("/"):
                yield word
        elif word != program.path.name and not _OPTION.fullmatch(word):
            yield word


def _joined(words: Iterable[str]) -> Iterator[str]:
    """Yield words with an option's value at the option."""
    waiting = ""
    for word in words:
        if waiting:
            sign = "" if waiting in _GLUED else "="
            yield f"{waiting}{sign}{word}"
            waiting = ""
        elif word in _PAIRED or word in _GLUED:
            waiting = word
        else:
            yield word
    if waiting:
        yield waiting


def _split(value: str) -> list[str]:
    return value.split(",") if value else [""]
