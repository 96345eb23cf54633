"""Exercises: what a pair of starter and solution must be, and how an answer is judged."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

import fake_cuda
from evidence import check, exercises, grading
from evidence.commands import grade as command
from evidence.errors import EvidenceError, SourceError, ToolchainError

HEAD = """\
// SPDX-License-Identifier: MIT
// Day 12: {what}.
//
// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu
// Run: ./{stem}
#pragma kernel answerKernel 12 0
"""
REST = """\
#pragma sh test "$answer" = 42 || { echo "FAILED: the answer is $answer" >&2; exit 1; }
#pragma sh echo "all 1 cases passed their gates"
"""
SETTINGS = """\
[starter]
expect = { exit = 1, text = "FAILED: the answer is 0" }
grade = ["answer"]
"""


def source(answer: str, stem: str = "starter", rest: str = REST, what: str = "an exercise") -> str:
    head = HEAD.format(stem=stem, what=what)
    return f"{head}// snippet: exercise\n{answer}\n// end snippet\n{rest}"


@pytest.fixture
def day(tree):
    tree.write("snippets/012-shared/evidence.toml", SETTINGS)
    tree.write("snippets/012-shared/starter.cu", source("#pragma sh answer=0"))
    tree.write("snippets/012-shared/solution.cu", source("#pragma sh answer=42", "solution"))
    return tree


class NoGpu:
    def query(self):
        raise ToolchainError("there is no NVIDIA GPU on this machine")


def judge(day, tmp_path, answer: str, *, gpu=None, tools=True, rest=REST, kit=True):
    file = tmp_path / "my.cu"
    file.write_text(source(answer, rest=rest, what="mine"))
    environ = {"PATH": "/nowhere", "CUDA_HOME": str(tmp_path / "nothing")}
    if kit:
        environ = fake_cuda.install(tmp_path / "kit", tools=tools).environ
    return grading.grade(day.load(), "12", file, gpu or fake_cuda.Gpu(), environ)


def said(grade) -> list[tuple[str, str, str]]:
    return [(row.what, row.state, row.said) for row in grade.rows]


def codes(tree) -> list[str]:
    found = check.run(tree.load(), pages=False).findings
    return [f"{f.path}: {f.message} — {f.fix}" for f in found if f.code == "exercise"]


# What a pair must be.


def test_a_sound_pair_is_no_finding(day):
    assert codes(day) == []


def test_a_starter_needs_a_solution(day):
    (day.root / "snippets/012-shared/solution.cu").unlink()
    assert codes(day) == [
        "snippets/012-shared/starter.cu: has no solution beside it — write solution.cu"
    ]


def test_a_solution_needs_a_starter(day):
    (day.root / "snippets/012-shared/starter.cu").unlink()
    (day.root / "snippets/012-shared/evidence.toml").unlink()
    assert codes(day) == [
        "snippets/012-shared/solution.cu: has no starter beside it — write starter.cu"
    ]


def test_the_pair_may_differ_in_the_region_alone(day):
    text = source("#pragma sh answer=42", "solution", rest=REST.replace("42", "43"))
    day.write("snippets/012-shared/solution.cu", text)
    assert codes(day) == [
        "snippets/012-shared/solution.cu: differs from starter.cu outside of its region "
        "`exercise` — make the rest the same as in snippets/012-shared/starter.cu"
    ]


def test_comments_outside_of_the_region_may_differ(day):
    text = source("#pragma sh answer=42", "solution", what="solved, with a word on why")
    day.write("snippets/012-shared/solution.cu", text)
    assert codes(day) == []


def test_a_solution_must_solve(day):
    text = source("#pragma sh answer=0 // done", "solution")
    day.write("snippets/012-shared/solution.cu", text)
    assert codes(day) == [
        "snippets/012-shared/solution.cu: solves nothing: its region is the starter's — "
        "write the answer"
    ]


def test_a_starter_must_be_said_to_fail(day):
    day.write("snippets/012-shared/evidence.toml", "")
    assert codes(day) == [
        "snippets/012-shared/starter.cu: is not said to fail, so its gate would pass an exercise "
        'that nobody did — write expect = { exit = 1, text = "…" } for it in evidence.toml'
    ]


def test_the_solution_must_hold_what_is_asked_of_answers(day):
    day.write("snippets/012-shared/evidence.toml", SETTINGS.replace('"answer"', '"__shfl_sync"'))
    assert codes(day) == [
        "snippets/012-shared/solution.cu: does without __shfl_sync, which grade in evidence.toml "
        "says a right answer must contain — correct one of them"
    ]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.replace("// snippet: exercise\n", "").replace("// end snippet\n", ""),
         "has no region `exercise`"),
        (lambda t: t.replace("// end snippet\n", ""), "has no end of its region `exercise`"),
        (lambda t: t + "// snippet: exercise\nint x;\n// end snippet\n",
         "has two regions `exercise`"),
    ],
)  # fmt: skip
def test_a_file_without_the_region_is_refused(edit, message):
    with pytest.raises(SourceError) as caught:
        exercises.cut(edit(source("int answer;")), "my.cu", "cuda")
    assert caught.value.message == message
    assert caught.value.fix == (
        "keep the lines `// snippet: exercise` and `// end snippet` around your code"
    )


def test_regions_inside_the_exercise_belong_to_it():
    inner = "// snippet: inner\nint x;\n// end snippet\nint y;"
    parts = exercises.cut(source(inner), "my.cu", "cuda")
    assert parts.answer == f"{inner}\n"
    assert parts.before + parts.answer + parts.after == source(inner)


@pytest.mark.parametrize(
    ("answer", "lacks"),
    [
        ("i += gridDim.x * blockDim.x;", []),
        ("float gridDim = 1;", []),
        ("// gridDim", ["gridDim"]),
        ('puts("gridDims");', ["gridDim"]),
        ("myGridDim = gridDim2;", ["gridDim"]),
        ("", ["gridDim"]),
    ],
)
def test_which_pieces_an_answer_lacks(answer, lacks):
    assert exercises.lacking(answer, ("gridDim",), "cuda") == lacks


# How an answer is judged.


def test_a_right_answer_passes_gate_and_sanitizers(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=42")
    assert grade.state == "good"
    assert said(grade) == [
        ("answer", "good", "there"),
        ("compiles", "good", "for sm_90 with nvcc 13.0.88, no warning"),
        ("kernel answerKernel", "good",
         "12 registers, 0 bytes of stack frame, 64 bytes of shared memory"),
        ("gate", "good", "passed on NVIDIA H200"),
        *[(tool, "good", "no error") for tool in ("memcheck", "racecheck", "initcheck", "synccheck")],
    ]  # fmt: skip
    assert grade.printed == ("all 1 cases passed their gates",)


def test_a_wrong_answer_is_rejected_by_the_gate(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=41")
    assert grade.state == "bad"
    assert said(grade)[-1] == (
        "gate", "bad", "ended with exit status 1: FAILED: the answer is 41"
    )  # fmt: skip


def test_an_answer_that_only_a_sanitizer_rejects(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=42\n#pragma sanitize racecheck 3")
    assert grade.state == "bad"
    assert ("racecheck", "bad", "3 errors; Invalid __global__ write of size 4 bytes") in said(grade)


def test_a_gate_that_was_taken_out_is_put_back(day, tmp_path):
    rest = '#pragma sh echo "all 1 cases passed their gates"\n'
    grade = judge(day, tmp_path, "#pragma sh answer=41", rest=rest)
    assert grade.state == "bad"
    assert ("the rest", "good", "is taken from the starter; yours differs from it there") in said(
        grade
    )


def test_an_untouched_starter_is_not_even_compiled(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=0 // a comment of mine", kit=False)
    assert said(grade) == [("answer", "bad", "what stands in `exercise` is the starter's")]


def test_a_missing_piece_is_named(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh result=42 // answer", kit=False)
    assert said(grade) == [("answer", "bad", "missing")]


def test_compiler_errors_stand_at_the_lines_of_the_readers_file(day, tmp_path):
    answer = "#pragma sh answer=42\n\n#pragma error expected a semicolon"
    grade = judge(day, tmp_path, answer)
    assert grade.state == "bad"
    assert said(grade)[-1] == ("compiles", "bad", f"{tmp_path}/my.cu:10: expected a semicolon")


def test_compiler_errors_behind_the_answer_stand_at_the_starters_lines(day, tmp_path):
    text = source("#pragma sh answer=0", rest=REST + "#pragma error here\n")
    day.write("snippets/012-shared/starter.cu", text)
    grade = judge(day, tmp_path, "#pragma sh answer=42\n\n\n\n")
    line = text.split("\n").index("#pragma error here") + 1
    assert said(grade)[-1] == ("compiles", "bad", f"snippets/012-shared/starter.cu:{line}: here")


def test_without_a_gpu_it_is_compiled_and_the_gate_stays_open(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=41", gpu=NoGpu())
    assert grade.state == "open"
    assert said(grade)[1:] == [
        ("compiles", "good", "for sm_90 with nvcc 13.0.88, no warning"),
        ("kernel answerKernel", "good",
         "12 registers, 0 bytes of stack frame, 64 bytes of shared memory"),
        ("gate", "open", "not run: there is no NVIDIA GPU on this machine"),
    ]  # fmt: skip


def test_without_a_sanitizer_it_is_said(day, tmp_path):
    grade = judge(day, tmp_path, "#pragma sh answer=42", tools=False)
    assert grade.state == "open"
    assert ("memcheck", "open", "not tried: compute-sanitizer is not on this machine") in said(
        grade
    )


def test_days_with_an_exercise_are_listed(day):
    day.program("001-add")
    with pytest.raises(EvidenceError) as caught:
        exercises.starter_of(day.load(), "1")
    assert str(caught.value) == (
        "1 has no exercise that can be graded; there is one for 012-shared — "
        "see: evidence grade --help"
    )


def test_nothing_is_left_in_the_project(day, tmp_path):
    before = sorted(p for p in day.root.rglob("*"))
    judge(day, tmp_path, "#pragma sh answer=42")
    assert sorted(p for p in day.root.rglob("*")) == before


# The command.


def run(day, monkeypatch, tmp_path, answer: str, *options: str, gpu=None):
    file = tmp_path / "my.cu"
    file.write_text(source(answer))
    kit = fake_cuda.install(tmp_path / "kit")
    for name, value in kit.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(command, "LocalGpu", lambda: gpu or fake_cuda.Gpu())
    done = CliRunner().invoke(
        command.command, ["12", str(file), *options], obj=day.root, standalone_mode=False
    )
    assert done.exception is None, done.exception
    return done.return_value, done.output


def test_the_command_says_how_it_stands(day, monkeypatch, tmp_path):
    status, text = run(day, monkeypatch, tmp_path, "#pragma sh answer=41", "--show")
    assert status == 1
    assert text.splitlines()[-3:] == [
        "NOT   gate                 ended with exit status 1: FAILED: the answer is 41",
        "  | FAILED: the answer is 41",
        f"{tmp_path}/my.cu, judged by snippets/012-shared/starter.cu: does not pass",
    ]
    status, text = run(day, monkeypatch, tmp_path, "#pragma sh answer=42")
    assert status == 0
    assert text.endswith(": passes\n")


def test_the_command_does_not_pass_what_was_not_run(day, monkeypatch, tmp_path):
    status, text = run(day, monkeypatch, tmp_path, "#pragma sh answer=42", gpu=NoGpu())
    assert status == 3
    assert text.endswith(
        "nothing is wrong as far as could be judged here; the gate has not spoken\n"
    )


def test_the_command_as_json(day, monkeypatch, tmp_path):
    status, text = run(day, monkeypatch, tmp_path, "#pragma sh answer=42", "--json")
    document = json.loads(text)
    assert status == 0
    assert document["exercise"] == "012-shared/starter"
    assert document["state"] == "good"
    assert {row["what"] for row in document["rows"]} >= {"gate", "memcheck"}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc on this machine")
def test_with_the_real_compiler(day, tmp_path):
    real = """\
// Day 12: an exercise.
//
// Build: nvcc -O3 -std=c++17 -arch=native -o starter starter.cu
// Run: ./starter
__global__ void twice(float *x)
{
    // snippet: exercise
%s
    // end snippet
}
int main() { return 1; }
"""
    day.write("snippets/012-shared/evidence.toml", "[starter]\nexpect = { exit = 1 }\n")
    day.write("snippets/012-shared/starter.cu", real % "    x[0] = 0.0f;")
    file = tmp_path / "my.cu"
    file.write_text(real % "    x[threadIdx.x] *= 2.0f;")
    grade = grading.grade(day.load(), "12", file, NoGpu())
    assert [row.state for row in grade.rows] == ["good", "good", "open"]
    assert grade.rows[1].what == "kernel twice"
    assert "registers" in grade.rows[1].said
    file.write_text(real % "    x[threadIdx.x] *= two;")
    grade = grading.grade(day.load(), "12", file, NoGpu())
    assert said(grade) == [("compiles", "bad", f'{file}:8: identifier "two" is undefined')]
