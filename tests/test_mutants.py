"""Mutants: an edit made exactly once, and what counts as noticing it."""

import pytest

from evidence import mutants
from evidence.errors import SourceError
from evidence.model import Mutant
from evidence.mutants import Verdict
from evidence.runner import RunResult

EDIT = Mutant("no-rescale", "sum * rescale", "sum")


def run(exit_status=0, **changes) -> RunResult:
    values = {
        "signal": None,
        "timed_out": False,
        "seconds": 1.0,
        "stdout": ("gate 0.1",),
        **changes,
    }
    return RunResult(exit_status, **values)


def test_the_edit_is_made():
    assert mutants.apply("sum = sum * rescale + w;", EDIT, "a.cu") == "sum = sum + w;"


@pytest.mark.parametrize(("text", "count"), [("nothing", 0), ("sum * rescale; sum * rescale", 2)])
def test_an_edit_that_does_not_fit_exactly_once(text, count):
    with pytest.raises(SourceError) as caught:
        mutants.apply(text, EDIT, "kernels/097-attention/attention.cu")
    assert str(caught.value) == (
        "kernels/097-attention/attention.cu:1: mutant no-rescale: its find text stands "
        f"{count} times in the source, not once — correct find in evidence.toml"
    )


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (run(1), Verdict("rejected", "gate", 1, ("gate 0.1",))),
        (run(None, signal="SIGSEGV"), Verdict("rejected", "signal", None, ("gate 0.1",), "SIGSEGV")),
        (run(None, timed_out=True), Verdict("rejected", "timeout", None, ("gate 0.1",))),
        (run(None, problems=("printed more than 9 bytes on stdout",)),
         Verdict("rejected", "output", None, ("gate 0.1",), "printed more than 9 bytes on stdout")),
        (run(0), Verdict("survived", "", 0, ("gate 0.1",))),
    ],
)  # fmt: skip
def test_what_counts_as_noticing(result, verdict):
    assert mutants.judge_run(result) == verdict


def test_a_program_that_is_meant_to_exit_with_a_status_must_end_otherwise():
    assert mutants.judge_run(run(3), expected_exit=3).status == "survived"
    assert mutants.judge_run(run(0), expected_exit=3).by == "gate"


def test_only_the_last_lines_are_kept():
    lines = tuple(f"line {n}" for n in range(100))
    assert mutants.judge_run(run(1, stdout=lines)).output == lines[-12:]


def test_the_document():
    assert Verdict("rejected", "gate", 1, ("x",)).document(EDIT) == {
        "by": "gate", "exit_status": 1, "find": "sum * rescale", "output": ["x"], "reason": "",
        "replace": "sum", "status": "rejected",
    }  # fmt: skip
