"""Whether a program did what it was expected to do, and if not, why not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evidence import build, mutants, output, values
from evidence.trial import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evidence.build import Compiled
    from evidence.model import Program
    from evidence.trial import Trial

_KILLED = "died due to signal"  # nvcc about one of its own parts


def of_build(program: Program, compiled: Compiled) -> list[str]:
    """Return why a program did not compile as it must; nothing if it did."""
    if compiled.target.kind == "must-fail":
        return list(_must_fail(program, compiled))
    if compiled.succeeded:
        return []
    if compiled.exit_status is None:
        return ["the compiler did not come to an end"]
    said = [f"{path}:{line}: {text}" for path, line, text in build.messages(compiled.output)]
    reason = said[0] if said else build.general_reason(compiled.output)
    more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
    return [f"it does not compile: {reason}{more}"]


def _must_fail(program: Program, compiled: Compiled) -> Iterator[str]:
    text = program.plan.expect.text
    if compiled.exit_status is None or not 0 <= compiled.exit_status < build.CANNOT_RUN:
        yield "the compiler did not come to an end"
    elif compiled.succeeded:
        yield "it compiles, although it is meant not to"
    elif any(_KILLED in line for line in compiled.output):
        yield f"the compiler did not come to an end: {build.general_reason(compiled.output)}"
    elif text and not any(text in line for line in compiled.output):
        yield f"the compiler does not say {text!r}"


def of_trial(program: Program, trial: Trial) -> list[str]:
    """Return why a program that ran did not do what it must; nothing if it did."""
    return [
        *_runs(program, trial),
        *_numbers(program, trial),
        *_text(program, trial),
        *_sanitizers(program, trial),
        *_profile(trial),
        *_mutants(program, trial),
    ]


def _runs(program: Program, trial: Trial) -> Iterator[str]:
    expect = program.plan.expect
    for number, run in enumerate(trial.runs, 1):
        if run.problems:
            yield f"run {number} {'; '.join(run.problems)}"
        elif expect.kind == "timeout":
            if not run.timed_out:
                yield f"run {number} {ended(run)}, although it is meant to run out of time"
        elif run.timed_out:
            yield f"run {number} {run.ended()}"
        elif expect.kind == "sanitizer":
            continue
        elif expect.kind == "exit":
            if run.exit_status != expect.status:
                yield f"run {number} {ended(run)}, although it must be {expect.status}"
        elif run.exit_status != 0:
            yield f"run {number} {ended(run)}"


def _numbers(program: Program, trial: Trial) -> Iterator[str]:
    runs = [{"stdout": list(run.stdout)} for run in trial.runs]
    problems = values.read({"runs": runs}, program.plan.values).problems
    if problems:  # one row in the wrong place makes dozens
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        yield f"its output cannot be read: {problems[0]}{more}"
    if program.plan.allow_nan:
        return
    for number, run in enumerate(trial.runs, 1):
        for address, value in output.read(run.stdout, program.plan.values).values.items():
            if isinstance(value.number, float) and math.isnan(value.number):
                yield f"run {number} printed nan at {address}"


def _text(program: Program, trial: Trial) -> Iterator[str]:
    text = program.plan.expect.text
    kind = program.plan.expect.kind
    if not text or kind not in ("exit", "timeout", "success"):
        return
    silent = [
        number
        for number, run in enumerate(trial.runs, 1)
        if not any(text in line for line in (*run.stdout, *run.stderr))
    ]
    if silent and len(silent) == len(trial.runs):
        yield f"no run says {text!r}"
    elif silent:
        yield f"run {', '.join(map(str, silent))} does not say {text!r}"


def _sanitizers(program: Program, trial: Trial) -> Iterator[str]:
    expect = program.plan.expect
    if expect.kind == "sanitizer" and expect.tool not in trial.sanitizers:
        yield f"{expect.tool} was not run, although it must find an error"
    for tool, found in trial.sanitizers.items():
        if expect.kind == "sanitizer" and tool == expect.tool:
            if found.status != "errors":
                state = f"{found.status}: {found.reason}" if found.reason else found.status
                yield f"{tool} must find an error, but it is {state}"
            elif expect.text and not any(expect.text in line for line in found.output):
                yield f"{tool} does not say {expect.text!r}"
        elif found.status == "errors":
            yield f"{tool} found {_count(found.errors, 'error')}"
        elif found.status in ("failed", "timeout"):
            yield found.reason


def _profile(trial: Trial) -> Iterator[str]:
    if trial.profile.status == "failed":
        yield f"the profile failed: {trial.profile.reason}"


def _mutants(program: Program, trial: Trial) -> Iterator[str]:
    planned = {mutant.name: mutant for mutant in program.plan.mutants}
    for name, verdict in trial.mutants.items():
        mutant = planned.get(name)
        reason = mutants.objection(name, verdict, survives=mutant is not None and mutant.survives)
        if reason:
            yield reason


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
