"""Everything that is done with one compiled program on the GPU, step by step.

Runs, sanitizers, profiler, mutants. A tool that is missing is a result with a
reason, never a silence; a step that was not reached holds its empty form.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from evidence import mutants, notebookrun, profiler, runner, sanitizer
from evidence.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from evidence.machine import Machine
    from evidence.model import Mutant, Program
    from evidence.mutants import Verdict
    from evidence.profiler import Profiled
    from evidence.runner import RunResult
    from evidence.sanitizer import Sanitized

    Say = Callable[[str], None]

# A mutant that hangs must not cost the whole timeout of a slow program's run.
_MUTANT_FACTOR, _MUTANT_LEAST = 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a recording is asked to do.

    Attributes:
        runs: Process runs, instead of the plan's.
        sanitize: Whether to run the sanitizers.
        profile: Whether to profile.
        mutants: Whether to try the mutants.
    """

    runs: int | None = None
    sanitize: bool = True
    profile: bool = True
    mutants: bool = True


@dataclass(frozen=True, slots=True)
class Subject:
    """One program, ready to run.

    Attributes:
        program: The program.
        machine: Where it runs.
        head: Words that start it, without arguments.
        files: Name in the run's folder → file.
    """

    program: Program
    machine: Machine
    head: tuple[str, ...]
    files: Mapping[str, Path]

    @property
    def expected_exit(self) -> int:
        """Return the exit status of a run in which nothing is wrong."""
        return self.program.plan.expect.sound_status

    def words(self, arguments: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return the command: the Run: line's own arguments, or others."""
        own = self.program.run.words[len(self.head) :]
        return (*self.head, *(own if arguments is None else arguments))

    def quick(self) -> tuple[str, ...]:
        """Return the command of reduced size, if the program has one."""
        return self.words(self.program.plan.quick or None)

    def run(
        self, words: Sequence[str], timeout: float, keep: Mapping[str, Path] | None = None
    ) -> RunResult:
        """Run a command in a folder with the program's files."""
        todo = runner.task(
            words, self.files, timeout=timeout, keep=keep,
            max_bytes=self.program.plan.max_output_bytes, environment=self.machine.environment,
        )  # fmt: skip
        do = self.machine.run
        return notebookrun.run(do, todo) if self.program.language == "notebook" else do(todo)

    def instead(self, name: str, path: Path) -> Subject:
        """Return the subject with another file in a place, for a mutant."""
        return Subject(self.program, self.machine, self.head, {**self.files, name: path})


@dataclass(frozen=True, slots=True)
class Trial:
    """What happened with one program."""

    runs: tuple[RunResult, ...] = ()
    sanitizers: Mapping[str, Sanitized] = field(default_factory=dict)
    profile: Profiled = field(default_factory=lambda: profiler.Profiled("not-requested"))
    profiled_words: tuple[str, ...] = ()
    mutants: Mapping[str, Verdict] = field(default_factory=dict)


def subject(program: Program, machine: Machine, main: Path, modules: Iterable[str] = ()) -> Subject:
    """Make a program ready to run.

    Args:
        program: The program.
        machine: Where it runs.
        main: The binary, the Python source or the notebook.
        modules: Other files of a program in Python, relative to its folder.

    Raises:
        SourceError: A file that it needs lies outside its folder.
    """
    files = {program.stem if program.language == "cuda" else program.path.name: main}
    for name in (*program.plan.inputs, *modules):
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise SourceError(
                f"needs {name!r}, which is outside its folder and so not there when it runs",
                path=program.relative, line=program.run.line, fix="move it beside the program",
            )  # fmt: skip
        files.setdefault(name, program.directory / name)
    head = program.run.words[:1]
    if program.language == "python":
        head = (sys.executable, program.run.words[1])
    if program.language == "notebook":
        head = notebookrun.head(program.path.name, program.plan.max_output_bytes)
    return Subject(program, machine, head, files)


def perform(it: Subject, request: Request, tried: Mapping[str, Path | Verdict], say: Say) -> Trial:
    """Do everything with one program that its plan asks for.

    Args:
        it: The program, ready to run.
        request: What to do.
        tried: Mutant's name → what to run instead of the program, or the
            verdict that it cannot be tried.
        say: Told what is about to be done.
    """
    plan = it.program.plan
    runs = _runs(it, request.runs or plan.runs, say)
    if plan.expect.kind == "timeout" or not sound(it, runs[-1]):
        return Trial(runs)
    checked = _sanitize(it, request, say)
    profile, words = (
        _profile(it, say) if request.profile else (profiler.Profiled("not-requested"), ())
    )
    wanted = plan.mutants if request.mutants else ()
    verdicts = _mutants(it, wanted, tried, runs, checked, say)
    return Trial(runs, checked, profile, words, verdicts)


def sound(it: Subject, run: RunResult) -> bool:
    """Return whether a run is one that further steps can build on."""
    if run.problems or run.timed_out:
        return False
    if it.program.plan.expect.kind == "sanitizer":
        # Its error may or may not show without the tool.
        return True
    return run.signal is None and run.exit_status == it.expected_exit


def _runs(it: Subject, count: int, say: Say) -> tuple[RunResult, ...]:
    done: list[RunResult] = []
    for number in range(1, count + 1):
        say(f"run {number} of {count}")
        done.append(it.run(it.words(), it.program.plan.timeout))
        if it.program.plan.expect.kind == "timeout" or not sound(it, done[-1]):
            break
    return tuple(done)


def _tools(it: Subject) -> tuple[str, ...]:
    return it.program.plan.sanitizers if it.program.language == "cuda" else ()


def _sanitize(it: Subject, request: Request, say: Say) -> dict[str, Sanitized]:
    found = {}
    for tool in _tools(it):
        # What a program is there to show is not left out.
        if request.sanitize or tool == it.program.plan.expect.tool:
            say(tool)
            found[tool] = sanitized(it, tool)
        else:
            found[tool] = sanitizer.Sanitized("not-requested")
    return found


def sanitized(it: Subject, tool: str, *, expected_exit: int | None = None) -> Sanitized:
    """Run a subject's reduced size under a sanitizer.

    Args:
        it: The program.
        tool: Such as `memcheck`.
        expected_exit: How it must end; as its plan says by default.
    """
    path = it.machine.sanitizer
    if path is None:
        return sanitizer.unavailable(f"{sanitizer.TOOL} is not on this machine")
    words = it.quick()
    run = it.run(sanitizer.command(path, tool, words), it.program.plan.sanitizer_timeout)
    status = it.expected_exit if expected_exit is None else expected_exit
    return sanitizer.judge(tool, words, run, status)


def _profile(it: Subject, say: Say) -> tuple[Profiled, tuple[str, ...]]:
    profile = it.program.plan.profile
    if profile is None:
        return profiler.Profiled("not-requested"), ()
    words = it.words(profile.args or None)
    path = it.machine.ncu
    if path is None:
        return profiler.Profiled("not-available", f"{profiler.TOOL} is not on this machine"), ()
    done: list[Profiled] = []
    # Replaying every launch once per pass of counters takes its time.
    timeout = max(it.program.plan.sanitizer_timeout, it.program.plan.timeout)
    for number in range(1, profile.runs + 1):
        say(f"profile {number} of {profile.runs}")
        with tempfile.TemporaryDirectory(prefix=runner.folder_prefix()) as folder:
            log = Path(folder) / profiler.LOG
            run = it.run(profiler.command(path, profile, words), timeout, {profiler.LOG: log})
            text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        done.append(profiler.judge(profile, text, run, it.expected_exit))
        if done[-1].status != "recorded":
            break
    return profiler.joined(done), words


def _mutants(
    it: Subject, wanted: Iterable[Mutant], tried: Mapping[str, Path | Verdict],
    runs: Sequence[RunResult], checked: Mapping[str, Sanitized], say: Say,
) -> dict[str, Verdict]:  # fmt: skip
    verdicts: dict[str, Verdict] = {}
    seconds = statistics.median(run.seconds for run in runs)
    timeout = min(it.program.plan.timeout, max(_MUTANT_FACTOR * seconds, _MUTANT_LEAST))
    control = ""
    if it.program.plan.expect.kind == "sanitizer":
        control = "the program itself is meant to be wrong"
    for number, mutant in enumerate(wanted):
        if number == 0 and it.program.plan.quick and not control:
            say("control run for the mutants")
            unchanged = it.run(it.quick(), timeout)
            if not sound(it, unchanged):
                control = (
                    f"unchanged, with {' '.join(it.program.plan.quick)}, it {ended(unchanged)}"
                )
        say(f"mutant {mutant.name}")
        instead = tried[mutant.name]
        if not isinstance(instead, Path):
            verdicts[mutant.name] = instead
        elif control:
            # What fails anyway proves nothing about what it notices.
            verdicts[mutant.name] = mutants.Verdict("broken", reason=control)
        else:
            main = next(iter(it.files))
            verdicts[mutant.name] = _try(it.instead(main, instead), mutant, timeout, checked)
    return verdicts


def _try(it: Subject, mutant: Mutant, timeout: float, checked: Mapping[str, Sanitized]) -> Verdict:
    verdict = mutants.judge_run(it.run(it.quick(), timeout), it.expected_exit)
    if verdict.status == "rejected":
        return verdict
    missing = ""
    for tool in mutant.sanitizers:
        known = checked.get(tool)
        if known is not None and known.status not in ("clean", "not-requested"):
            missing = known.reason or f"{tool} reports errors without the mutation too"
            continue
        found = sanitized(it, tool)
        if found.status == "errors":
            return mutants.Verdict("rejected", tool, verdict.exit_status, found.output[-12:])
        if found.status == "timeout":
            return mutants.Verdict("rejected", "timeout", None, found.output[-12:], found.reason)
        if found.status != "clean":
            missing = found.reason
    if missing:
        return mutants.Verdict("not-available", "", verdict.exit_status, verdict.output, missing)
    return verdict


def ended(run: RunResult) -> str:
    """Return how a run failed, with the last thing it said."""
    if run.problems:
        return "; ".join(run.problems)
    last = (run.stderr or run.stdout)[-1:]
    return run.ended() + (f": {last[0].strip()}" if last and last[0].strip() else "")
