"""Compiling programs: parallel and incremental, through ninja.

One program that fails never stops the others. Each failure becomes a finding
with the line of the source that the compiler names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import ninjafile, ptxas
from evidence.errors import ToolchainError
from evidence.findings import Finding
from evidence.toolchain import build_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from evidence.ninjafile import Target
    from evidence.project import Project
    from evidence.sandbox import Sandbox
    from evidence.toolchain import Nvcc

    Progress = Callable[[int, int, str], None]

CANNOT_RUN = 127  # the step's exit status if there is no compiler to run

_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")

# `x.cu(12): error: …` (nvcc's front end) and `x.cu:12:5: error: …` (host compiler).
_MESSAGE = re.compile(
    r"(?P<path>[^\s:(][^:(]*?)(?:\((?P<a>\d+)\)|:(?P<b>\d+)(?::\d+)?): "
    r"(?:catastrophic |fatal |internal )?(?:error|warning)(?: #[\w-]+)?: (?P<text>.*)"
)
# The compiler's temporary files are named anew each time.
_TEMPORARY = re.compile(r"(?:/[^\s:]*/)?tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_")
_GENERAL = re.compile(r"\b(?:error|fatal|undefined reference|cannot find)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a target.

    Attributes:
        target: What was compiled.
        command: The compiler's words, as run.
        exit_status: The compiler's; None if it did not run to its end.
        output: Everything it printed.
        seconds: Its time when it last ran.
        files: Path relative to the program's folder → sha256 of the file as
            it was then, for the source and the project's files it includes.
    """

    target: Target
    command: tuple[str, ...]
    exit_status: int | None
    output: tuple[str, ...] = ()
    seconds: float = 0.0
    files: dict[str, str] | None = None

    @property
    def succeeded(self) -> bool:
        """Return whether the compiler accepted the source."""
        return self.exit_status == 0

    def document(self) -> dict[str, Any]:
        """Return the build as it stands in a record."""
        report, other = ptxas.split(self.output)
        return {
            "architecture": self.target.architecture,
            "command": ["nvcc", *self.command[1:]],
            "exit_status": -1 if self.exit_status is None else self.exit_status,
            "kernels": ptxas.kernels(report, self.target.architecture),
            "output": other,
            "seconds": self.seconds,
            "warnings": [line for line in other if re.search(r"\bwarning\b", line)],
        }


def find_ninja() -> Path:
    """Find ninja: the Python package's binary, else PATH.

    Raises:
        ToolchainError: There is none.
    """
    found = shutil.which("ninja", path=str(Path(sys.executable).parent))
    if found is None:
        with contextlib.suppress(ImportError):
            import ninja  # noqa: PLC0415

            found = shutil.which("ninja", path=str(ninja.BIN_DIR))
    found = found or shutil.which("ninja")
    if found is None:
        raise ToolchainError("ninja is not installed", fix="install it: pip install ninja")
    return Path(found)


def graph(project: Project, architectures: Iterable[str]) -> list[Target]:
    """Return every target of the project, mutants too, for architectures."""
    wanted = sorted(set(architectures) | {f"sm_{a}" for a in project.config.architectures})
    found: dict[str, Target] = {}
    for program in project.programs:
        for architecture in wanted:
            for target in ninjafile.targets(program, architecture, mutants=True):
                found.setdefault(target.output, target)
    return list(found.values())


def make(
    project: Project,
    wanted: Sequence[Target],
    nvcc: Nvcc,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    architectures: Iterable[str] = (),
    sandbox: Sandbox | None = None,
) -> bool:
    """Bring targets up to date.

    Args:
        project: The project.
        wanted: What to compile.
        nvcc: The compiler.
        jobs: Compilers at a time; one per core by default.
        progress: Called with done, total and name as targets finish.
        architectures: Those of `wanted` that the configuration lacks.
        sandbox: What the compiler runs in; None for nothing.

    Returns:
        Whether every target came out as it must.

    Raises:
        ToolchainError: ninja is missing or stopped for a reason of its own.
    """
    if not wanted:
        return True
    ninja = find_ninja()
    root = project.root
    everything = graph(project, architectures)
    if sandbox is not None:
        sandbox.give({(root / target.output).parent for target in wanted})
    text = ninjafile.render(everything, nvcc, root, sandbox)
    ninjafile.write_if_changed(root / ninjafile.FILE, text)
    wish = ninjafile.render_wish(target.output for target in wanted)
    ninjafile.write_if_changed(root / ninjafile.WISH, wish)
    workers = str(jobs or os.cpu_count() or 1)
    command = [str(ninja), "-f", ninjafile.WISH, "-k", "0", "-j", workers]
    with _locked(root / f"{ninjafile.BUILD}/lock") as handle:
        status, said = _run(command, root, handle, progress)
    if status == 0:
        return True
    own = [line for line in said if line.startswith("ninja: error")]
    if own or not any(line.startswith("FAILED: ") for line in said):
        reason = own[0] if own else f"ended with exit status {status}"
        raise ToolchainError(
            f"ninja stopped: {reason.removeprefix('ninja: error: ')}",
            path=ninjafile.FILE, fix=f"remove {ninjafile.BUILD} and build again",
        )  # fmt: skip
    return False


def _run(
    command: list[str], root: Path, lock: int, progress: Progress | None
) -> tuple[int, list[str]]:
    said: list[str] = []
    environment = {**build_environment(), "NINJA_STATUS": "[%f/%t] "}
    # The child holds the lock too: if this process is killed, the next build
    # waits until ninja is done.
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", pass_fds=(lock,),
    ) as process:  # fmt: skip
        assert process.stdout is not None  # noqa: S101
        for line in process.stdout:
            match = _STATUS.match(line)
            if match is None:
                said.append(line.rstrip("\n"))
            elif progress is not None:
                progress(int(match.group(1)), int(match.group(2)), match.group(3))
    return process.returncode, said


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    import fcntl  # noqa: PLC0415 - POSIX only

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream.fileno()


def result(root: Path, target: Target, nvcc: Nvcc) -> Compiled:
    """Read what became of a target."""
    command = ninjafile.command(target, nvcc)
    try:
        text = (root / f"{target.output}.json").read_text(encoding="utf-8")
        report = json.loads(text)
    except (OSError, ValueError):
        return Compiled(target, command, None)
    return Compiled(
        target,
        command,
        report["exit_status"],
        tuple(_TEMPORARY.sub("", line) for line in report["output"]),
        report["seconds"],
        report["files"],
    )


def forget(root: Path, targets: Iterable[Target]) -> None:
    """Have targets compiled anew, whatever their files' times say."""
    for target in targets:
        for suffix in ("", ".json"):
            (root / f"{target.output}{suffix}").unlink(missing_ok=True)


def findings(project: Project, done: Iterable[Compiled]) -> list[Finding]:
    """Return a finding for every target that did not come out as it must."""
    wrong: dict[Finding, list[str]] = {}
    architectures: dict[str, set[str]] = {}
    for compiled in done:
        program = compiled.target.program
        architectures.setdefault(program.name, set()).add(compiled.target.architecture)
        for finding in _findings(project, compiled):
            wrong.setdefault(finding, []).append(compiled.target.architecture)
    made = []
    for finding, where in wrong.items():
        name = finding.fix.rpartition(" ")[2]
        everywhere = architectures.get(name, set()) <= set(where)
        note = "" if everywhere else f" (only for {', '.join(where)})"
        made.append(
            Finding(finding.code, finding.path, finding.line, finding.message + note, finding.fix)
        )
    return made


def _findings(project: Project, compiled: Compiled) -> Iterator[Finding]:
    target = compiled.target
    program = target.program
    line = program.build.line if program.build else 1
    again = f"mend it, then run: evidence build {program.name}"
    if target.kind == "must-fail":
        if compiled.succeeded:
            message = f"{program.name} compiles, although it is meant not to"
            yield Finding("compiles", program.relative, line, message, again)
        return
    if compiled.succeeded:
        return
    if compiled.exit_status is None:
        message = f"the compiler did not come to an end on {target.name}"
        yield Finding("compile-error", program.relative, line, message, again)
        return
    code = "mutant-broken" if target.mutant else "compile-error"
    prefix = f"mutant {target.mutant} does not compile: " if target.mutant else ""
    found = list(messages(compiled.output))
    for path, number, text in found:
        shown = program.relative
        if not target.mutant:
            folder = program.relative.rpartition("/")[0]
            shown = os.path.normpath(f"{folder}/{path}") if not path.startswith("/") else path
            shown = project.relative(Path(shown))
        yield Finding(code, shown, number, prefix + text, again)
    if not found:
        reason = general_reason(compiled.output) or f"exit status {compiled.exit_status}"
        yield Finding(code, program.relative, line, prefix + reason, again)


def messages(output: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and text of every error or warning in a compiler's output."""
    seen = set()
    for text in output:
        match = _MESSAGE.match(text)
        if match is None:
            continue
        found = (match["path"], int(match["a"] or match["b"]), match["text"])
        if found not in seen:
            seen.add(found)
            yield found


def general_reason(output: Sequence[str]) -> str:
    """Return the line of an output that best says why it failed."""
    for line in output:
        if _GENERAL.search(line):
            return line.strip()
    return next((line.strip() for line in reversed(output) if line.strip()), "")
