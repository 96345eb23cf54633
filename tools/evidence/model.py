"""The data every module passes on: programs, what to do with them, records.

Plain frozen dataclasses; nothing here opens a file or starts a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

Language = Literal["cuda", "python", "notebook"]

SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit that makes a program wrong in the way a learner would.

    Attributes:
        name: Kebab-case, unique in its program.
        find: Text that occurs exactly once in the program's source.
        replace: What stands there instead.
        why: What the mutant gets wrong, for the page.
        sanitizers: Tools to try if the program's own gate accepts it.
        survives: Whether it is known that nothing notices it where mutants are
            tried; `why` says why.
    """

    name: str
    find: str
    replace: str
    why: str = ""
    sanitizers: tuple[str, ...] = ()
    survives: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What Nsight Compute is asked for.

    Attributes:
        metrics: Metric names as `ncu --metrics` takes them.
        args: Arguments of the profiled run (instead of the Run: line's).
        runs: Separate profiled processes.
        kernels: Kernel names to profile; all when empty.
    """

    metrics: tuple[str, ...]
    args: tuple[str, ...] = ()
    runs: int = 3
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """How a program that is meant to fail must fail.

    Attributes:
        kind: `success`, `compile-error`, `exit` (with `status`),
            `sanitizer` (with `tool`) or `timeout`.
        status: Exit status for `exit`.
        tool: Sanitizer that must report errors for `sanitizer`.
        text: Text that must stand in the compiler's, program's or
            sanitizer's output.
    """

    kind: Literal["success", "compile-error", "exit", "sanitizer", "timeout"] = "success"
    status: int = 0
    tool: str = ""
    text: str = ""

    @property
    def sound_status(self) -> int:
        """Return the exit status of a run in which nothing is wrong."""
        return self.status if self.kind == "exit" else 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What `evidence.toml` beside a program says; all of it has defaults.

    `allow_nan` is for programs that show a NaN on purpose; in all others one
    in the output is a failure. `grade` is for starters: the identifiers that a
    right answer must contain.
    """

    runs: int = 5
    timeout: float = 120.0
    max_output_bytes: int = 1_000_000
    quick: tuple[str, ...] = ()
    sanitizers: tuple[str, ...] = SANITIZERS
    sanitizer_timeout: float = 300.0
    inputs: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    profile: Profile | None = None
    mutants: tuple[Mutant, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
    values: tuple[tuple[str, str], ...] = ()
    allow_nan: bool = False
    grade: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A `Build:` or `Run:` line, split as a shell splits words.

    Attributes:
        words: The words, first the program.
        line: One-based line of the source it stands on.
    """

    words: tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        """Return the words joined as a shell would read them back."""
        import shlex  # noqa: PLC0415

        return shlex.join(self.words)


@dataclass(frozen=True, slots=True)
class Program:
    """One standalone program of the project.

    Attributes:
        name: `directory/stem`, e.g. `097-attention/attention`; unique.
        path: Absolute path of the source.
        relative: Path relative to the project's root, forward slashes.
        language: `cuda`, `python` or `notebook`.
        build: The Build: line (None for Python and notebooks).
        run: The Run: line; what stands for it, for a notebook.
        plan: What `evidence.toml` adds.
    """

    name: str
    path: Path
    relative: str
    language: Language
    build: Command | None
    run: Command
    plan: Plan

    @property
    def directory(self) -> Path:
        """Return the folder that holds the source."""
        return self.path.parent

    @property
    def stem(self) -> str:
        """Return the program's short name, `attention`."""
        return self.path.stem

    @property
    def folder(self) -> str:
        """Return the folder's name, `097-attention`."""
        return self.path.parent.name

    def evidence_path(self, device: str) -> Path:
        """Return where the record of this program on `device` lives."""
        return self.directory / "evidence" / f"{self.stem}.{device}.json"


@dataclass(frozen=True, slots=True)
class FileHash:
    """Hashes of one input file.

    Attributes:
        raw: sha256 of the LF-normalised bytes.
        code: sha256 of its tokens without comments and layout.
    """

    raw: str
    code: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that decides whether evidence still belongs to its program.

    Attributes:
        files: Path relative to the program's folder → hashes; the source and
            every local file it includes, transitively.
        build: The Build: line's words, as written.
        run: The Run: line's words, as written.
        declared: Declared data inputs, path → sha256 of the raw bytes.
        pins: Declared package pins (Python and notebooks).
    """

    files: dict[str, FileHash]
    build: tuple[str, ...]
    run: tuple[str, ...]
    declared: dict[str, str] = field(default_factory=dict)
    pins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One evidence file, read and verified.

    Attributes:
        path: Where it was read from (None for one in a bundle).
        program: The program's name.
        device: The device's label.
        key: The key it was recorded under.
        data: The whole document; its shape is in `evidence.schema.json`.
    """

    path: Path | None
    program: str
    device: str
    key: str
    data: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether the program did everything it was expected to do."""
        return bool(self.data["outcome"]["passed"])
