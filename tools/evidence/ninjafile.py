"""The build graph: one ninja edge per program and architecture.

The file always describes the whole project, whatever is asked for, so that
ninja's logs stay true for every program; what to build is said on ninja's
command line.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evidence import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evidence.model import Program
    from evidence.sandbox import Sandbox
    from evidence.toolchain import Nvcc

Kind = Literal["program", "must-fail", "mutant"]

BUILD = ".evidence/build"
FILE = f"{BUILD}/build.ninja"
WISH = f"{BUILD}/wish.ninja"
# Added to every program's own line: the report, and warnings as errors.
REPORT = ("-Xptxas=-v",)
STRICT = ("-Werror", "all-warnings", "-Xcompiler=-Werror")

_ARCH = ("-arch", "--gpu-architecture")
_OUTPUT = ("-o", "--output-file")
_ONE = re.compile(r"(?:sm|compute)_(\d+[a-z]?)")
_STEP = Path(__file__).with_name("nvccstep.py")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to compile.

    Attributes:
        program: The program.
        architecture: Such as `sm_90`.
        kind: What must come of it.
        mutant: The mutant's name, for a mutant.
    """

    program: Program
    architecture: str
    kind: Kind = "program"
    mutant: str = ""

    @property
    def output(self) -> str:
        """Return what is written, relative to the project's root."""
        base = f"{BUILD}/{self.architecture}/{self.program.folder}/{self.program.stem}"
        return f"{base}.mutants/{self.mutant}/{self.program.stem}" if self.mutant else base

    @property
    def source(self) -> str:
        """Return what is compiled, relative to the project's root."""
        return f"{self.output}.cu" if self.mutant else self.program.relative

    @property
    def name(self) -> str:
        """Return the target's name for people."""
        mutant = f" mutant {self.mutant}" if self.mutant else ""
        return f"{self.program.name}{mutant} {self.architecture}"


def targets(program: Program, architecture: str, *, mutants: bool = False) -> list[Target]:
    """Return what there is to compile of a program for an architecture."""
    if program.build is None:
        return []
    arch = own_architecture(program.build.words) or architecture
    kind: Kind = "must-fail" if program.plan.expect.kind == "compile-error" else "program"
    made = [Target(program, arch, kind)]
    if mutants and kind == "program":
        made += [Target(program, arch, "mutant", m.name) for m in program.plan.mutants]
    return made


def own_architecture(words: tuple[str, ...]) -> str | None:
    """Return the one architecture that a Build: line insists on, if it does.

    None for `native`, and for lines that name several or none: those are
    compiled as they stand, whatever architecture is asked for.
    """
    value = ""
    for place, word in enumerate(words):
        name, sign, rest = word.partition("=")
        if name in _ARCH:
            value = rest if sign else "".join(words[place + 1 : place + 2])
    match = _ONE.fullmatch(value)
    return f"sm_{match.group(1)}" if match else None


def command(target: Target, nvcc: Nvcc) -> tuple[str, ...]:
    """Return the compiler's words for a target, its own line's words first.

    Paths are relative to the program's folder, where the compiler runs, so
    that its messages and `__FILE__` are as short as an author sees them.
    """
    program = target.program
    assert program.build is not None  # noqa: S101
    up = "../" * program.relative.count("/")
    output = up + target.output
    source = program.path.name
    words = [str(nvcc.path)]
    previous = ""
    for word in program.build.words[1:]:
        name, sign, value = word.partition("=")
        if previous in _OUTPUT:
            words.append(output)
        elif sign and name in _OUTPUT:
            words.append(f"{name}={output}")
        elif previous in _ARCH and word == "native":
            words.append(target.architecture)
        elif name in _ARCH and value == "native":
            words.append(f"{name}={target.architecture}")
        elif word == source and target.mutant:
            words.append(up + target.source)
        else:
            words.append(word)
        previous = word
    if target.mutant:
        words.append("-I.")  # the copy lies elsewhere, what it includes does not
    words += nvcc.link
    if target.kind == "program":
        # A mutant may leave a variable unused, and what must not compile must
        # fail by itself: only programs are held to no warnings.
        words += [*REPORT, *STRICT]
    return (*words, "-MD", "-MF", f"{output}.d")


def render(
    everything: Iterable[Target], nvcc: Nvcc, root: Path, sandbox: Sandbox | None = None
) -> str:
    """Return the text of the ninja file for all targets."""
    step = shlex.join([sys.executable, "-IS", str(_STEP)])
    lines = [
        "# Written by `evidence build`; every change here is lost.",
        "ninja_required_version = 1.8",
        f"builddir = {BUILD}",
        f"root = {_value(shlex.quote(str(root)))}",
        f"step = {_value(step)}",
        # Another compiler makes other programs, another tool another report:
        # their versions are in the command.
        f"version = {_value(f'{nvcc.version} {nvcc.host} {__version__}')}",
        "rule nvcc",
        "  command = $step $mode $root $words # $version",
        "  description = $what",
        "  depfile = $out.d",
        "  deps = gcc",
    ]
    for target in everything:
        folder = target.program.relative.rpartition("/")[0]
        up = "../" * target.program.relative.count("/")
        source = up + target.source if target.mutant else target.program.path.name
        compiler = command(target, nvcc)
        if sandbox is not None:
            compiler = sandbox.step(root, folder, target.output, compiler)
        words = [folder, source, target.output, "--", *compiler]
        lines += [
            f"build {_path(target.output)}: nvcc {_path(target.source)}",
            f"  mode = {target.kind}",
            f"  words = {_value(shlex.join(words))}",
            f"  what = {_value(target.name)}",
        ]
    return "\n".join(lines) + "\n"


def render_wish(outputs: Iterable[str]) -> str:
    """Return the text of a ninja file that builds some of the targets."""
    # A command line has no room for the outputs of thousands of programs.
    paths = " ".join(_path(output) for output in outputs)
    return f"include {FILE}\nbuild wish: phony {paths}\ndefault wish\n"


def _value(text: str) -> str:
    return text.replace("$", "$$")


def _path(text: str) -> str:
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def write_if_changed(path: Path, text: str) -> bool:
    """Write a file unless it holds this very text; ninja looks at times."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)
    return True
