"""Judging a record by the facts in it, as the recorder judged the program itself.

What a bundle says of its outcome is its recorder's word. The facts are there too: how
every run ended and what it printed, what the compiler, the sanitizers and the profiler
said, what became of the mutants. By these, and by the plan in the tree, it is judged
anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evidence import mutants, ninjafile, outcome, sanitizer
from evidence.build import Compiled
from evidence.model import SANITIZERS
from evidence.profiler import Metric, Profiled
from evidence.runner import RunResult
from evidence.sanitizer import Sanitized
from evidence.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evidence.model import Program

    Data = Mapping[str, Any]

_NO_END = -1  # stands in a record for a compiler that did not come to its end


def judged(program: Program, data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a record with the outcome that its facts have.

    Args:
        program: The program, with the tree's plan.
        data: The record's document.

    Returns:
        The document, and how its own outcome differs, as a sentence; "" if it does not.
    """
    reasons = reasons_of(program, data)
    found = {"passed": not reasons, "reasons": reasons}
    if found == data["outcome"]:
        return data, ""
    told = data["outcome"]
    said = "it passed" if told["passed"] else "it failed"
    if told["reasons"]:
        said += f" ({'; '.join(told['reasons'])})"
    return {**data, "outcome": found}, f"{said}; judged here: {'; '.join(reasons) or 'it passed'}"


def reasons_of(program: Program, data: Data) -> list[str]:
    """Return why a program failed by what its record holds; nothing if it passed."""
    reasons = []
    if program.build is not None:
        compiled = compiled_of(program, data)
        reasons = (
            ["it was not compiled"] if compiled is None else outcome.of_build(program, compiled)
        )
    if reasons or program.plan.expect.kind == "compile-error":
        return reasons
    if not data["runs"]:
        # Why something that compiles was not run, only its recorder knows.
        return list(data["outcome"]["reasons"]) or ["it was never run"]
    return outcome.of_trial(program, trial_of(data))


def compiled_of(program: Program, data: Data) -> Compiled | None:
    """Read back what the compiler did, as far as it is recorded; None if it was not called."""
    build = data["build"]
    if build is None:
        return None
    status = build["exit_status"]
    return Compiled(
        ninjafile.targets(program, build["architecture"])[0],
        tuple(build["command"]),
        None if status == _NO_END else status,
        tuple(build["output"]),
        build["seconds"],
    )


def trial_of(data: Data) -> Trial:
    """Read back what happened with a program on the GPU."""
    return Trial(
        runs=tuple(_run(run) for run in data["runs"]),
        sanitizers={tool: _sanitized(found) for tool, found in data["sanitizers"].items()},
        profile=_profiled(data["profile"]),
        profiled_words=tuple(data["profile"]["command"]),
        mutants={name: mutants.read(found) for name, found in data["mutants"].items()},
    )


def _run(run: Data) -> RunResult:
    return RunResult(
        run["exit_status"],
        run["signal"],
        run["timed_out"],
        run["seconds"],
        tuple(run["stdout"]),
        tuple(run["stderr"]),
        tuple(run["problems"]),
        tuple(run["cells"]) if "cells" in run else None,
    )


def _sanitized(found: Data) -> Sanitized:
    return Sanitized(
        found["status"],
        found["errors"],
        found["reason"],
        tuple(found["command"]),
        found["seconds"],
        tuple(found["output"]),
    )


def _profiled(profile: Data) -> Profiled:
    launches = {
        kernel: {
            grid: {
                name: Metric(metric["unit"], tuple(metric["values"]))
                for name, metric in metrics.items()
            }
            for grid, metrics in grids.items()
        }
        for kernel, grids in profile["launches"].items()
    }
    return Profiled(profile["status"], profile["reason"], launches)


def contradictions(program: Program, data: Data) -> Iterator[str]:
    """Yield what a record says of a step although the step's own facts say otherwise."""
    yield from _otherwise_called(program, data)
    for tool, found in data["sanitizers"].items():
        if found["status"] not in ("clean", "errors"):
            continue
        count = sanitizer.counted(found["output"])
        good = count == found["errors"] and (found["status"] == "clean") == (count == 0)
        if not good:
            counts = "counts nothing" if count is None else f"counts {count}"
            told = f"{found['status']} ({found['errors']})"
            yield f"{tool} is said to come to {told}, but its output {counts}"
    status = program.plan.expect.sound_status
    for name, found in data["mutants"].items():
        sound, by = found["exit_status"] == status, found["by"]
        if found["status"] == "survived" and not sound:
            yield f"mutant {name} is said to survive, but {_ended(found)}"
        elif found["status"] == "rejected" and by in SANITIZERS:
            if not sanitizer.counted(found["output"]):
                yield f"mutant {name} is said to be rejected by {by}, which counts no error"
        elif found["status"] == "rejected" and sound:
            yield f"mutant {name} is said to be rejected, but {_ended(found)}, as the program must"


def _otherwise_called(program: Program, data: Data) -> Iterator[str]:
    if data["run_command"] != list(program.run.words):
        yield f"it was run as {' '.join(data['run_command'])!r}, not as {program.run.text!r}"
    if program.build is not None and data["build"] is not None:
        yield from _otherwise_built(program.build.words, data["build"])


def _otherwise_built(words: Sequence[str], build: Data) -> Iterator[str]:
    """Say which word of the Build: line was another one; the recorder adds its own behind."""
    output = ("-o", "--output-file")
    before = ""
    for place, word in enumerate(words):
        found = "".join(build["command"][place : place + 1])
        same = found in (word, word.replace("native", build["architecture"]))
        if not same and before not in output and word.partition("=")[0] not in output:
            yield f"it was compiled with {found!r}, not with {word!r}"
            return
        before = word


def _ended(found: Data) -> str:
    status = found["exit_status"]
    return "did not end by itself" if status is None else f"ended with exit status {status}"
