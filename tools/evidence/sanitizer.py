"""compute-sanitizer: one tool over one program, as a result that can be stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from evidence.runner import RunResult

Status = Literal["clean", "errors", "not-available", "timeout", "failed", "not-requested"]

TOOL = "compute-sanitizer"
ERROR_EXIT = 86  # no program of ours ends with it by itself
INSTALL = "install the CUDA toolkit's compute-sanitizer"

_KEPT_LINES = 200
_LINE = "========="
_SUMMARY = re.compile(r"^={9} (?:RACECHECK|ERROR) SUMMARY: (\d+) ")
_ERROR = re.compile(r"^={9} Error: (?!Race reported)(.*)")
# What the tool says of a machine that it cannot work on.
_UNSUPPORTED = re.compile(
    r"device not supported|no supported gpu|unable to (?:initialize|find)|"
    r"insufficient driver|driver version|failed to initialize|cuda_error_not_supported",
    re.IGNORECASE,
)
_NOTHING = "terminated before first instrumented API call"


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What a tool found.

    Attributes:
        status: `clean` only if the tool counted, counted zero and the program
            ended as it must.
        errors: The tool's own count; hazards for racecheck.
        reason: Why it is neither clean nor errors.
        command: What was run.
        seconds: How long.
        output: The tool's own lines, a bounded number of them.
    """

    status: Status
    errors: int = 0
    reason: str = ""
    command: tuple[str, ...] = ()
    seconds: float = 0.0
    output: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the result as it stands in a record."""
        return {
            "command": list(self.command),
            "errors": self.errors,
            "output": list(self.output),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "status": self.status,
        }


def command(sanitizer: Path, tool: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run a program under a tool."""
    options = ("--tool", tool, "--error-exitcode", str(ERROR_EXIT), "--show-backtrace", "device")
    return (str(sanitizer), *options, *words)


def unavailable(reason: str) -> Sanitized:
    """Return the result of a tool that this machine lacks."""
    return Sanitized("not-available", reason=reason)


def judge(tool: str, words: Sequence[str], run: RunResult, expected_exit: int = 0) -> Sanitized:
    """Read what a run under a tool came to.

    Args:
        tool: Such as `memcheck`.
        words: The program's words without the tool's.
        run: The run.
        expected_exit: How the program ends when nothing is wrong.
    """
    own = [line for line in (*run.stdout, *run.stderr) if line.startswith(_LINE)]
    status, errors, reason = _status(tool, own, run, expected_exit)
    return Sanitized(
        status=status,
        errors=errors,
        reason=reason,
        command=(TOOL, "--tool", tool, *words),
        seconds=run.seconds,
        output=tuple(_bounded(own)),
    )


def _status(
    tool: str, own: list[str], run: RunResult, expected_exit: int
) -> tuple[Status, int, str]:
    said = [match.group(1) for line in own if (match := _ERROR.match(line))]
    unsupported = [text for text in said if _UNSUPPORTED.search(text)]
    if unsupported:
        return "not-available", 0, unsupported[0]
    if run.timed_out:
        return "timeout", 0, f"{tool} was not done after {run.seconds:.0f} s"
    count = counted(own)
    if count:
        return "errors", count, ""
    reason = _failure(tool, said, run, expected_exit, counted=count is not None)
    return ("failed", 0, reason) if reason else ("clean", 0, "")


def counted(output: Iterable[str]) -> int | None:
    """Return how many errors a tool's last summary counts; None if it gave none."""
    counts = [int(match.group(1)) for line in output if (match := _SUMMARY.match(line))]
    return counts[-1] if counts else None


def _failure(
    tool: str, said: Sequence[str], run: RunResult, expected_exit: int, *, counted: bool
) -> str:
    """Return why a count of zero, or none, proves nothing; "" if it does."""
    if any(_NOTHING in text for text in said):
        return f"the program made no CUDA call that {tool} could look at"
    if not counted:
        return said[0] if said else f"{tool} gave no summary and {run.ended()}"
    if run.problems:
        return f"under {tool} the program {run.problems[0]}"
    if run.exit_status != expected_exit:
        return f"under {tool} the program {run.ended()}"
    return ""


def _bounded(lines: Iterable[str]) -> list[str]:
    kept = [line.rstrip() for line in lines]
    if len(kept) <= _KEPT_LINES:
        return kept
    # The summary is the last line.
    head, left = kept[: _KEPT_LINES - 1], len(kept) - _KEPT_LINES
    return [*head, f"{_LINE} ({left} lines are left out here)", kept[-1]]
