"""Recording: everything compiled first, then one program at a time, nothing lost."""

import errno
import getpass
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

import evidence
import fake_cuda
from evidence import (
    document,
    filing,
    machine,
    readme,
    recorder,
    sinks,
    states,
    trial,
    values,
)
from evidence.errors import EvidenceError, RecordError, ToolchainError
from evidence.trial import Request
from recording import ORIGIN, path_of, record, stored

KERNEL = "#pragma kernel addKernel 40 128"
SCHEMA = json.loads((Path(evidence.__file__).parent / "evidence.schema.json").read_text())


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


def settings(tree, text: str, folder: str = "001-add") -> None:
    tree.write(f"kernels/{folder}/evidence.toml", text)


def failed(tree, kit, *lines: str) -> list[str]:
    """Record one program of these lines and return why it failed."""
    tree.program(text=fake_cuda.source(*lines))
    report, _ = record(tree, kit)
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert not report.succeeded
    assert data["outcome"]["passed"] is False
    assert report.failed == (("001-add/add", "; ".join(data["outcome"]["reasons"])),)
    return data["outcome"]["reasons"]


def test_a_program_that_passes(tree, kit):
    tree.program(
        text=fake_cuda.source(KERNEL, "echo 'Result'", "echo '  sum   12.5'", "echo note >&2")
    )
    report, heard = record(tree, kit)
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert report.succeeded
    assert report.written == ("kernels/001-add/evidence/add.h200.json",)
    assert heard.lines == [
        "001-add/add: passed; wrote kernels/001-add/evidence/add.h200.json (first record on this device)"
    ]
    assert data["outcome"] == {"passed": True, "reasons": []}
    assert [run["stdout"] for run in data["runs"]] == [["Result", "  sum   12.5"]] * 5
    assert data["runs"][0]["stderr"] == ["note"]
    assert data["run_command"] == ["./add"]
    assert data["device"] == fake_cuda.H200.document({})
    assert data["build"]["kernels"]["addKernel"]["stack"] == 128
    assert data["toolchain"]["nvcc"] == "13.0.88"
    assert data["recorded"] == {
        "commit": ORIGIN.commit, "date": "2026-12-01", "dirty": False, "isolation": "none", "tool": "0.1.0",
    }  # fmt: skip
    assert {tool: found["status"] for tool, found in data["sanitizers"].items()} == dict.fromkeys(
        ("memcheck", "racecheck", "initcheck", "synccheck"), "clean"
    )
    assert data["profile"]["status"] == "not-requested"
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "fresh"


def test_everything_is_compiled_before_anything_runs(tree, kit):
    for number in (1, 2):
        stem = f"p{number}"
        tree.program(f"00{number}-x", stem, fake_cuda.source("echo x", stem=stem))
    _, heard = record(tree, kit, request=Request(runs=1, sanitize=False))
    steps = [step for step in heard.steps if "beginning" not in step]
    assert steps == [
        "compiling 2", *steps[1:3], "recording 2",
        "001-x/p1: run 1 of 1", "002-x/p2: run 1 of 1",
    ]  # fmt: skip
    assert set(steps[1:3]) == {"001-x/p1 sm_90", "002-x/p2 sm_90"}


def test_only_what_needs_it_is_recorded(tree, kit):
    for number in (1, 2):
        tree.program(f"00{number}-x", "p", fake_cuda.source("echo x", stem="p"))
    record(tree, kit)
    tree.program("002-x", "p", fake_cuda.source("echo y", stem="p"))
    report, _ = record(tree, kit)
    assert report.recorded == ("002-x/p",)
    report, _ = record(tree, kit, "001-x")
    assert report.recorded == ("001-x/p",)
    report, _ = record(tree, kit, everything=True)
    assert report.recorded == ("001-x/p", "002-x/p")
    report, heard = record(tree, kit)
    assert (report.recorded, heard.lines) == ((), [])


def test_recording_again_leaves_the_file_byte_for_byte(tree, kit):
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   12'"))
    record(tree, kit)
    before = path_of(tree).read_bytes()
    report, heard = record(tree, kit, "001-add")
    assert path_of(tree).read_bytes() == before
    assert report.written == ()
    assert heard.lines == [
        "001-add/add: passed; kept kernels/001-add/evidence/add.h200.json (nothing changed)"
    ]


def test_an_exact_value_that_changed_is_said(tree, kit):
    tree.program(
        text=fake_cuda.source(
            "echo 'Result'",
            'echo "  sum   $(cat /proc/sys/kernel/random/uuid | tr -dc 1-9 | head -c 6)"',
        )
    )
    record(tree, kit, request=Request(runs=1))
    _, heard = record(tree, kit, "001-add", request=Request(runs=1))
    assert len(heard.lines) == 2
    assert heard.lines[1].startswith("  drift: Result/sum: ")


# -- programs that go wrong -------------------------------------------------


def test_a_program_that_exits_non_zero(tree, kit):
    assert failed(tree, kit, "echo fine", "echo 'row 3 is wrong' >&2", "exit 1") == [
        "run 1 ended with exit status 1: row 3 is wrong"
    ]
    assert len(stored(tree)["runs"]) == 1
    assert stored(tree)["sanitizers"] == {}


def test_a_program_that_hangs(tree, kit):
    settings(tree, "[add]\ntimeout = 0.3\n")
    assert failed(tree, kit, "echo begun", "sleep 300") == ["run 1 was killed after 0 s"]
    assert stored(tree)["runs"][0]["timed_out"] is True


def test_a_program_that_floods_stdout(tree, kit):
    settings(tree, "[add]\nmax_output_bytes = 5000\n")
    assert failed(tree, kit, "yes") == ["run 1 printed more than 5000 bytes on stdout"]


def test_a_program_that_prints_invalid_utf8(tree, kit):
    assert failed(tree, kit, r"printf '\377\n'") == [
        "run 1 printed byte 0xff, which is not UTF-8, on line 1 of stdout"
    ]
    assert stored(tree)["runs"][0]["stdout"] == ["\\xff"]


def test_a_program_that_dies_by_a_signal(tree, kit):
    assert failed(tree, kit, "kill -ABRT $$") == ["run 1 died by SIGABRT"]
    assert stored(tree)["runs"][0]["signal"] == "SIGABRT"


def test_a_program_that_leaves_a_child_with_its_pipe(tree, kit):
    assert failed(tree, kit, "sleep 300 &") == [
        "run 1 left a process running that held its output open"
    ]


def test_a_program_that_prints_nan(tree, kit):
    assert (
        failed(tree, kit, "echo Result", "echo '  sum   nan'")[0]
        == "run 1 printed nan at Result/sum"
    )


def test_a_program_that_prints_nan_on_purpose(tree, kit):
    tree.write("kernels/001-add/evidence.toml", "[add]\nallow_nan = true\n")
    tree.program(text=fake_cuda.source("echo Result", "echo '  sum   nan'"))
    assert record(tree, kit)[0].succeeded


def test_output_whose_numbers_cannot_be_told_apart(tree, kit):
    assert failed(tree, kit, "echo Result", "echo '  sum   1'", "echo '  sum   2'")[0].startswith(
        "its output cannot be read: "
    )


def test_a_program_that_prints_a_path_or_a_user(tree, kit, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "yvonne")
    monkeypatch.setattr(socket, "gethostname", lambda: "box-41")
    tree.program(
        text=fake_cuda.source(
            f"echo {tree.root}/data by yvonne on box-41 in $PWD", "echo $HOME >&2"
        )
    )
    record(tree, kit)
    run = stored(tree)["runs"][0]
    assert run["stdout"] == ["<project>/data by <user> on <host> in <tmp>"]
    assert run["stderr"] == ["<tmp>/home"]


def test_nothing_of_this_machine_is_in_the_file(tree, kit):
    tree.program(text=fake_cuda.source(KERNEL, "echo x"))
    record(tree, kit)
    text = path_of(tree).read_text()
    for name in (str(tree.root), str(kit.home), str(Path.home()), "evidence-run-"):
        assert name not in text


def test_a_program_that_fails_in_its_third_run(tree, kit):
    counter = tree.root / "count"
    lines = (f"echo x >>{counter}", f"test $(wc -l <{counter}) -ne 3")
    assert failed(tree, kit, *lines) == ["run 3 ended with exit status 1"]
    assert [run["exit_status"] for run in stored(tree)["runs"]] == [0, 0, 1]


def test_a_compile_error(tree, kit):
    assert failed(
        tree, kit, '#pragma error identifier "x" is undefined', "#pragma error and more"
    ) == ['it does not compile: add.cu:3: identifier "x" is undefined (and 1 more)']
    data = stored(tree)
    assert data["build"]["exit_status"] == 2
    assert (data["runs"], data["sanitizers"], data["mutants"]) == ([], {}, {})


def test_one_that_fails_does_not_lose_the_others(tree, kit):
    tree.program("001-a", "p", fake_cuda.source("#pragma error no", stem="p"))
    tree.program("002-b", "p", fake_cuda.source("exit 1", stem="p"))
    tree.program("003-c", "p", fake_cuda.source("echo fine", stem="p"))
    report, _ = record(tree, kit)
    assert report.recorded == ("001-a/p", "002-b/p", "003-c/p")
    assert [name for name, _ in report.failed] == ["001-a/p", "002-b/p"]
    assert stored(tree, "003-c/p")["outcome"]["passed"]


def test_a_source_that_cannot_be_read_does_not_stop_the_others(tree, kit):
    path = tree.program("001-a", "p", fake_cuda.source("echo x", stem="p"))
    tree.program("002-b", "p", fake_cuda.source("echo fine", stem="p"))
    path.write_text(path.read_text() + '#include "missing.cuh"\n')
    report, _ = record(tree, kit, everything=True)
    assert report.recorded == ("002-b/p",)
    assert [f.explain() for f in report.findings] == [
        "kernels/001-a/p.cu:4: bad-source: includes 'missing.cuh', which does not exist"
        " — correct the name or add the file"
    ]


# -- sanitizers, profiler, mutants ------------------------------------------


def test_an_error_that_a_sanitizer_finds(tree, kit):
    assert failed(tree, kit, "#pragma sanitize memcheck 3", "#pragma sanitize racecheck 1") == [
        "memcheck found 3 errors", "racecheck found 1 error",
    ]  # fmt: skip
    found = stored(tree)["sanitizers"]["memcheck"]
    assert (found["status"], found["errors"]) == ("errors", 3)
    assert found["command"] == ["compute-sanitizer", "--tool", "memcheck", "./add"]


def test_sanitizers_take_the_quick_argument(tree, kit):
    settings(tree, '[add]\nquick = ["--quick"]\nsanitizers = ["memcheck"]\n')
    tree.program(text=fake_cuda.source('echo "size $1" >&2', run="--full"))
    record(tree, kit)
    data = stored(tree)
    assert data["runs"][0]["stderr"] == ["size --full"]
    assert data["sanitizers"]["memcheck"]["command"][-1] == "--quick"


def test_a_sanitizer_that_proves_nothing_is_no_success(tree, kit):
    kit.script("compute-sanitizer", "#!/bin/sh\necho =========\n")
    settings(tree, '[add]\nsanitizers = ["memcheck"]\n')
    assert failed(tree, kit, "echo x") == ["memcheck gave no summary and ended with exit status 0"]


def test_a_sanitizer_that_takes_too_long_is_no_success(tree, kit):
    settings(
        tree, '[add]\nsanitizers = ["memcheck"]\nsanitizer_timeout = 0.3\nquick = ["--slow"]\n'
    )
    assert failed(tree, kit, 'test -z "$1" || sleep 300') == ["memcheck was not done after 0 s"]


PROFILE = '[add.profile]\nmetrics = ["dram.sum", "l2.sum"]\nargs = ["--once"]\nruns = 2\n'


def test_the_profile(tree, kit):
    settings(tree, PROFILE)
    tree.program(text=fake_cuda.source("#pragma launch addKernel 64 dram.sum=3,072 l2.sum=7"))
    report, _ = record(tree, kit)
    assert report.succeeded
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert data["profile"]["launches"] == {
        "addKernel": {
            "grid-64x1x1": {
                "dram.sum": {"unit": "byte", "values": [3072, 3072]},
                "l2.sum": {"unit": "byte", "values": [7, 7]},
            }
        }
    }
    assert data["profile"]["command"][-2:] == ["./add", "--once"]
    assert (data["profile"]["status"], data["profile"]["tool"]) == ("recorded", "2025.3.1.0")


def test_a_metric_that_this_device_lacks(tree, kit):
    settings(tree, PROFILE)
    assert failed(tree, kit, "#pragma launch addKernel 64 dram.sum=3,072") == [
        "the profile failed: this device has no metric l2.sum"
    ]


def test_tools_that_are_missing_are_recorded_as_missing(tree, tmp_path):
    kit = fake_cuda.install(tmp_path / "bare", tools=False)
    settings(
        tree,
        PROFILE
        + '[[add.mutant]]\nname = "m"\nfind = "echo x"\nreplace = "echo y"\nsanitizers = ["memcheck"]\n',
    )
    tree.program(text=fake_cuda.source("echo x"))
    report, _ = record(tree, kit)
    assert report.succeeded
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    missing = "compute-sanitizer is not on this machine"
    assert {(s["status"], s["reason"]) for s in data["sanitizers"].values()} == {
        ("not-available", missing)
    }
    assert (data["profile"]["status"], data["profile"]["reason"]) == (
        "not-available",
        "ncu is not on this machine",
    )
    assert (data["mutants"]["m"]["status"], data["mutants"]["m"]["reason"]) == (
        "not-available",
        missing,
    )
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "partial"


MUTANTS = """\
[add]
quick = ["--quick"]
sanitizers = ["memcheck"]
timeout = 20
[[add.mutant]]
name = "wrong-sum"
find = "sum=12"
replace = "sum=13"
[[add.mutant]]
name = "race"
find = "sh : no race"
replace = "sanitize racecheck 2"
sanitizers = ["memcheck", "racecheck"]
[[add.mutant]]
name = "crash"
find = ": no crash"
replace = "kill -SEGV $$"
"""
GOOD = ("sum=12", ": no race", ": no crash", "test $sum = 12")


def test_mutants_are_noticed(tree, kit):
    settings(tree, MUTANTS)
    tree.program(text=fake_cuda.source(*GOOD))
    report, _ = record(tree, kit)
    assert report.succeeded
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert {name: (m["status"], m["by"]) for name, m in data["mutants"].items()} == {
        "wrong-sum": ("rejected", "gate"),
        "race": ("rejected", "racecheck"),
        "crash": ("rejected", "signal"),
    }
    assert data["mutants"]["wrong-sum"]["find"] == "sum=12"


def test_mutants_are_compiled_with_everything_else(tree, kit):
    settings(tree, MUTANTS)
    tree.program(text=fake_cuda.source(*GOOD))
    _, heard = record(tree, kit)
    assert heard.steps[0] == "compiling 4"
    assert sum(step.startswith("compiling") for step in heard.steps) == 1
    assert sum("-I." in call for call in kit.calls()) == 3


def test_the_text_of_a_mutants_edit_is_kept_word_for_word(tree, kit):
    settings(tree, '[[add.mutant]]\nname = "m"\nfind = "ls /tmp"\nreplace = "ls /tmp/none"\n')
    tree.program(text=fake_cuda.source("ls /tmp >/dev/null"))
    record(tree, kit)
    mutant = stored(tree)["mutants"]["m"]
    assert (mutant["find"], mutant["replace"], mutant["by"]) == ("ls /tmp", "ls /tmp/none", "gate")
    assert "'<tmp>/none'" in mutant["output"][-1]


def test_a_mutants_includes_are_found(tree, kit):
    settings(tree, MUTANTS)
    tree.write("kernels/001-add/sum.cuh", "#pragma sh # included\n")
    tree.program(text=fake_cuda.source('#include "sum.cuh"', *GOOD))
    report, _ = record(tree, kit)
    assert report.succeeded


def test_a_mutant_that_survives(tree, kit):
    settings(tree, '[[add.mutant]]\nname = "no-op"\nfind = "echo x"\nreplace = "echo y"\n')
    assert failed(tree, kit, "echo x") == ["mutant no-op survived: nothing noticed it"]


SURVIVOR = """\
[add]
quick = ["--quick"]
sanitizers = []
[[add.mutant]]
name = "noticed"
find = "echo sum"
replace = "exit 1"
[[add.mutant]]
name = "too-small"
find = "echo many"
replace = "echo few"
survives = true
why = "With --quick there are never many."
"""


def test_a_mutant_that_survives_as_said(tree, kit):
    settings(tree, SURVIVOR)
    tree.program(text=fake_cuda.source("echo sum", "echo many"))
    report, _ = record(tree, kit)
    assert report.succeeded
    data = stored(tree)
    assert data["mutants"]["too-small"]["status"] == "survived"
    found = values.of_record(data)
    counts = ("total", "rejected", "surviving", "too-small/rejected")
    assert [found[f"mutants/{name}"].text for name in counts] == ["2", "1", "1", "0"]
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "fresh"
    (text,) = [text for _, text in readme.texts(tree.load())]
    assert (
        "Wrong on purpose, `too-small` survives, as said: With --quick there are never many.\n"
    ) in text
    assert "`noticed`" not in text


@pytest.mark.parametrize(
    ("instead", "by"),
    [("exit 1", "its gate"), ("kill -SEGV $$", "a signal")],
)
def test_a_mutant_that_is_noticed_although_it_is_said_to_survive(tree, kit, instead, by):
    settings(tree, SURVIVOR.replace("echo few", instead))
    assert failed(tree, kit, "echo sum", "echo many") == [
        f"mutant too-small is noticed by {by}, although it is said to survive: "
        "remove survives from evidence.toml"
    ]


def test_what_is_kept_of_a_failed_record_still_fails(tree, kit):
    settings(tree, SURVIVOR.replace("survives = true\n", ""))
    reasons = failed(tree, kit, "echo sum", "echo many")
    record(tree, kit, "001-add", request=Request(mutants=False))
    assert stored(tree)["outcome"] == {"passed": False, "reasons": reasons}


def test_a_mutant_that_does_not_compile(tree, kit):
    settings(
        tree,
        '[[add.mutant]]\nname = "typo"\nfind = "#pragma sh echo x"\nreplace = "#pragma error no"\n',
    )
    assert failed(tree, kit, "echo x") == ["mutant typo proves nothing: it does not compile: no"]


def test_a_mutant_whose_text_is_not_there(tree, kit):
    settings(tree, '[[add.mutant]]\nname = "lost"\nfind = "gone"\nreplace = "x"\n')
    assert failed(tree, kit, "echo x") == [
        "mutant lost proves nothing: its find text stands 0 times in the source, not once"
    ]


def test_a_mutant_that_hangs_is_noticed(tree, kit):
    settings(
        tree,
        '[add]\ntimeout = 2\n[[add.mutant]]\nname = "hang"\nfind = "true"\nreplace = "sleep 300"\n',
    )
    tree.program(text=fake_cuda.source("true"))
    record(tree, kit)
    assert stored(tree)["mutants"]["hang"]["by"] == "timeout"


def test_a_mutant_that_hangs_costs_little_time(tree, kit, monkeypatch):
    monkeypatch.setattr(trial, "_MUTANT_LEAST", 0.2)
    settings(
        tree,
        '[add]\ntimeout = 100\n[[add.mutant]]\nname = "hang"\nfind = "true"\nreplace = "sleep 60"\n',
    )
    tree.program(text=fake_cuda.source("true"))
    started = time.monotonic()
    record(tree, kit)
    assert stored(tree)["mutants"]["hang"]["by"] == "timeout"
    assert time.monotonic() - started < 30


def test_a_program_that_fails_with_its_quick_argument_proves_nothing(tree, kit):
    settings(
        tree,
        '[add]\nquick = ["--quick"]\nsanitizers = []\n[[add.mutant]]\nname = "m"\nfind = ": here"\nreplace = "exit 1"\n',
    )
    assert failed(tree, kit, 'test -z "$1" || { echo bad; exit 1; }', ": here") == [
        "mutant m proves nothing: unchanged, with --quick, it ended with exit status 1: bad"
    ]


def test_a_sanitizer_that_complains_anyway_does_not_reject_a_mutant(tree, kit):
    settings(
        tree,
        '[add]\nsanitizers = ["racecheck"]\n[[add.mutant]]\nname = "m"\nfind = "echo x"\nreplace = "echo y"\n'
        'sanitizers = ["racecheck"]\n',
    )
    assert failed(tree, kit, "echo x", "#pragma sanitize racecheck 1") == [
        "racecheck found 1 error"
    ]
    mutant = stored(tree)["mutants"]["m"]
    assert (mutant["status"], mutant["reason"]) == (
        "not-available", "racecheck reports errors without the mutation too",
    )  # fmt: skip


# -- programs that are meant to fail ----------------------------------------


@pytest.mark.parametrize(
    ("expect", "lines"),
    [
        ('"compile-error"', ["#pragma error no match for operator"]),
        ('{ compile-error = true, text = "no match" }', ["#pragma error no match for operator"]),
        ("{ exit = 3 }", ["exit 3"]),
        ('{ exit = 3, text = "too large" }', ["echo '  too large'", "exit 3"]),
        ('{ sanitizer = "memcheck" }', ["#pragma sanitize memcheck 2"]),
        ('{ sanitizer = "memcheck", text = "Invalid __global__ write" }', ["exit 1", "#pragma sanitize memcheck 2"]),
        ('"timeout"', ["sleep 300"]),
    ],
)  # fmt: skip
def test_a_program_that_fails_as_it_must(tree, kit, expect, lines):
    timeout = 0.5 if "timeout" in expect else 60
    settings(tree, f'[add]\ntimeout = {timeout}\nsanitizers = ["memcheck"]\nexpect = {expect}\n')
    tree.program(text=fake_cuda.source(*lines))
    report, _ = record(tree, kit)
    assert report.failed == ()
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert data["outcome"] == {"passed": True, "reasons": []}


@pytest.mark.parametrize(
    ("expect", "lines", "reason"),
    [
        ('"compile-error"', ["echo x"], "it compiles, although it is meant not to"),
        ('{ compile-error = true, text = "no match" }', ["#pragma error typo"], "the compiler does not say 'no match'"),
        ('"compile-error"', ["#pragma error x", "#pragma error 'cicc' died due to signal 9"],
         "the compiler did not come to an end: add.cu(3): error: x"),
        ("{ exit = 3 }", ["echo x"], "run 1 ended with exit status 0: x, although it must be 3"),
        ('{ exit = 3, text = "large" }', ["exit 3"], "no run says 'large'"),
        ('{ sanitizer = "memcheck" }', ["echo x"], "memcheck must find an error, but it is clean"),
        ('{ sanitizer = "memcheck", text = "leak" }', ["#pragma sanitize memcheck 1"], "memcheck does not say 'leak'"),
        ('{ sanitizer = "racecheck" }', ["echo x"], "racecheck was not run, although it must find an error"),
        ('"timeout"', ["echo x"], "run 1 ended with exit status 0: x, although it is meant to run out of time"),
    ],
)  # fmt: skip
def test_a_program_that_does_not_fail_as_it_must(tree, kit, expect, lines, reason):
    settings(tree, f'[add]\ntimeout = 60\nruns = 1\nsanitizers = ["memcheck"]\nexpect = {expect}\n')
    assert failed(tree, kit, *lines) == [reason]


def test_the_expected_error_is_looked_for_even_without_sanitizers(tree, kit):
    settings(tree, '[add]\nexpect = { sanitizer = "memcheck" }\n')
    tree.program(text=fake_cuda.source("#pragma sanitize memcheck 2"))
    report, _ = record(tree, kit, request=Request(sanitize=False))
    assert report.succeeded
    found = {tool: s["status"] for tool, s in stored(tree)["sanitizers"].items()}
    assert found == {"memcheck": "errors"} | dict.fromkeys(
        ("racecheck", "initcheck", "synccheck"), "not-requested"
    )


def test_a_mutant_of_what_is_meant_to_exit_with_a_status(tree, kit):
    settings(
        tree,
        '[add]\nexpect = { exit = 3 }\n[[add.mutant]]\nname = "ok"\nfind = "exit 3"\nreplace = "exit 0"\n'
        '[[add.mutant]]\nname = "same"\nfind = "echo x"\nreplace = "echo y"\n',
    )
    assert failed(tree, kit, "echo x", "exit 3") == ["mutant same survived: nothing noticed it"]
    assert stored(tree)["mutants"]["ok"]["by"] == "gate"


def test_a_mutant_of_what_is_meant_to_be_wrong(tree, kit):
    settings(
        tree,
        '[add]\nexpect = { sanitizer = "memcheck" }\n[[add.mutant]]\nname = "m"\nfind = "echo x"\nreplace = "exit 1"\n',
    )
    assert failed(tree, kit, "echo x", "#pragma sanitize memcheck 2") == [
        "mutant m proves nothing: the program itself is meant to be wrong"
    ]


def test_an_expected_error_needs_the_tool_that_finds_it(tree, tmp_path):
    kit = fake_cuda.install(tmp_path / "bare", tools=False)
    settings(tree, '[add]\nsanitizers = ["memcheck"]\nexpect = { sanitizer = "memcheck" }\n')
    assert failed(tree, kit, "echo x") == [
        "memcheck must find an error, but it is not-available: compute-sanitizer is not on this machine"
    ]


# -- Python programs ---------------------------------------------------------

PYTHON = "# Run: python3 add.py --n 3\nimport sys\nimport helper\nprint('Result')\nprint('  sum  ', helper.total(), len(sys.argv))\n"


def test_a_python_program(tree, kit):
    settings(
        tree,
        '[add]\nrequires = ["click"]\ninputs = ["data.txt"]\n[[add.mutant]]\nname = "m"\nfind = "helper.total()"\nreplace = "1 / 0"\n',
    )
    tree.write("kernels/001-add/add.py", PYTHON)
    tree.write(
        "kernels/001-add/helper.py", "def total():\n    return int(open('data.txt').read())\n"
    )
    tree.write("kernels/001-add/data.txt", "12\n")
    report, _ = record(tree, kit)
    assert report.failed == ()
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert data["build"] is None
    assert data["sanitizers"] == {}
    assert data["runs"][0]["stdout"] == ["Result", "  sum   12 3"]
    assert data["run_command"] == ["python3", "add.py", "--n", "3"]
    assert list(data["toolchain"]["packages"]) == ["click"]
    assert (data["toolchain"]["nvcc"], data["mutants"]["m"]["by"]) == ("", "gate")


def test_a_python_program_needs_no_compiler(tree, tmp_path):
    tree.write("kernels/001-add/add.py", "# Run: python3 add.py\nprint('x')\n")
    bare = fake_cuda.Toolkit(tmp_path / "nothing")
    report, _ = record(tree, bare)
    assert report.succeeded


def test_a_package_that_is_not_the_pinned_one_is_said(tree, kit):
    settings(tree, '[add]\nrequires = ["click==0.0.1"]\n')
    tree.write("kernels/001-add/add.py", "# Run: python3 add.py\n")
    _, heard = record(tree, kit)
    assert heard.lines[0].startswith("001-add/add: package click is ")
    assert heard.lines[0].endswith(", the pin is 0.0.1")


def test_an_input_outside_the_folder(tree, kit):
    settings(tree, '[add]\ninputs = ["../data.bin"]\n')
    tree.write("kernels/data.bin", "x")
    tree.program(text=fake_cuda.source("echo x"))
    report, _ = record(tree, kit)
    assert [f.explain() for f in report.findings] == [
        "kernels/001-add/add.cu:2: not-recorded: needs '../data.bin', which is outside its folder"
        " and so not there when it runs — move it beside the program"
    ]


# -- what the key vouches for -------------------------------------------------


def test_a_binary_of_other_sources_is_not_run(tree, kit):
    path = tree.program(text=fake_cuda.source("echo old"))
    record(tree, kit)
    moment = path.stat().st_mtime
    path.write_text(fake_cuda.source("echo new"))
    # As `cp --preserve` or a checkout may do: new text, old time.
    os.utime(path, (moment - 100, moment - 100))
    record(tree, kit)
    assert stored(tree)["runs"][0]["stdout"] == ["new"]


def test_a_source_that_changes_while_it_is_compiled(tree, kit):
    path = tree.program(text=fake_cuda.source("echo x"))
    real = (kit.home / "bin" / "nvcc").read_text()
    kit.script(
        "nvcc", real.replace("raise SystemExit(status)", "open(source, 'a').write('// edited\\n')")
    )
    report, _ = record(tree, kit)
    assert report.failed == (("001-add/add", "add.cu changed while it was being compiled"),)
    assert path.read_text().endswith("// edited\n// edited\n")  # tried twice


def test_a_source_that_changes_once_is_compiled_once_more(tree, kit):
    path = tree.program(text=fake_cuda.source("echo old"))
    real = (kit.home / "bin" / "nvcc").read_text()
    edit = "open(source, 'w').write(text.replace('echo old', 'echo new'))"
    kit.script("nvcc", real.replace("raise SystemExit(status)", edit))
    record(tree, kit)
    assert "echo new" in path.read_text()
    assert stored(tree)["runs"][0]["stdout"] == ["new"]
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "fresh"


def test_a_source_edited_after_it_was_compiled_leaves_a_stale_record(tree, kit):
    path = tree.program(text=fake_cuda.source("echo old"))
    edit = f"sed -i s/old/new/ {path}"
    path.write_text(fake_cuda.source("echo old", edit))
    record(tree, kit)
    assert stored(tree)["runs"][0]["stdout"] == ["old"]
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "stale"


def test_an_input_that_changes_while_the_program_runs(tree, kit):
    settings(tree, '[add]\ninputs = ["data.txt"]\nruns = 1\nsanitizers = []\n')
    data = tree.write("kernels/001-add/data.txt", "12\n")
    tree.program(text=fake_cuda.source(f"echo 13 >{data}"))
    report, _ = record(tree, kit)
    assert [f.message for f in report.findings] == [
        "data of data.txt changed while it was being recorded"
    ]
    assert not path_of(tree).exists()


def test_a_file_that_the_key_does_not_cover(tree, kit):
    tree.program(text=fake_cuda.source("echo x"))
    tree.write("kernels/001-add/hidden.cuh", "")
    real = (kit.home / "bin" / "nvcc").read_text()
    kit.script(
        "nvcc",
        real.replace("text = read(source)", "text = read(source); seen.append('hidden.cuh')"),
    )
    report, _ = record(tree, kit)
    assert report.failed == (
        ("001-add/add", "it includes hidden.cuh, which its key does not cover"),
    )


# -- interrupted and resumed ---------------------------------------------------


def stop_after(monkeypatch, count: int, error: BaseException) -> None:
    """Have the recorder fail when it is about to do its n-th program."""
    real = recorder._Session._make
    made = []

    def make(session, program, *rest):
        if len(made) == count:
            raise error
        made.append(program.name)
        return real(session, program, *rest)

    monkeypatch.setattr(recorder._Session, "_make", make)


def three(tree) -> None:
    for number in (1, 2, 3):
        tree.program(f"00{number}-x", "p", fake_cuda.source("echo x", stem="p"))


def test_a_rerun_continues_where_an_interrupted_one_stopped(tree, kit, tmp_path, monkeypatch):
    three(tree)
    target = tmp_path / "out.zip"
    with monkeypatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(tree, kit, target=target)
    assert not target.exists()
    assert len(list(sinks.partial_of(target).iterdir())) == 2
    report, heard = record(tree, kit, target=target)
    assert heard.lines[2] == "continuing an interrupted recording: 2 of 3 done"
    assert [s for s in heard.steps if "run 1" in s] == ["003-x/p: run 1 of 5"]
    assert report.recorded == ("001-x/p", "002-x/p", "003-x/p")
    assert target.is_file()
    assert not sinks.partial_of(target).exists()


@pytest.mark.parametrize("change", ["source", "plan", "request", "compiler"])
def test_what_was_made_for_another_request_is_made_anew(tree, kit, monkeypatch, change):
    three(tree)
    with monkeypatch.context() as patch:
        stop_after(patch, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(tree, kit, everything=True)
    request = Request()
    if change == "source":
        tree.program("001-x", "p", fake_cuda.source("echo y", stem="p"))
    elif change == "plan":
        settings(tree, "[p]\nruns = 2\n", "001-x")
    elif change == "request":
        request = Request(runs=1)
    else:
        fake_cuda.install(kit.home, version="13.0.99")
    _, heard = record(tree, kit, everything=True, request=request)
    assert [s for s in heard.steps if "001-x/p: run 1" in s]


def test_force_takes_nothing_over(tree, kit, monkeypatch):
    three(tree)
    with monkeypatch.context() as patch:
        stop_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(tree, kit, everything=True)
    _, heard = record(tree, kit, everything=True, restart=True)
    assert len([s for s in heard.steps if "run 1" in s]) == 3


def test_what_failed_before_the_interruption_is_tried_again(tree, kit, monkeypatch):
    flag = tree.root / "mended"
    for number in (1, 2):
        tree.program(f"00{number}-x", "p", fake_cuda.source(f"test -e {flag}", stem="p"))
    with monkeypatch.context() as patch:
        stop_after(patch, 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            record(tree, kit)
    flag.touch()
    report, _ = record(tree, kit)
    assert report.succeeded
    assert report.recorded == ("001-x/p", "002-x/p")


def test_a_full_disk_keeps_what_was_stored(tree, kit, monkeypatch):
    tree.program(text=fake_cuda.source("echo old"))
    record(tree, kit)
    before = path_of(tree).read_bytes()
    tree.program(text=fake_cuda.source("echo new"))

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordError) as caught:
            record(tree, kit)
    assert (
        caught.value.message
        == "cannot be written: No space left on device; what stood there is unchanged"
    )
    assert path_of(tree).read_bytes() == before
    report, _ = record(tree, kit)
    assert report.succeeded
    assert stored(tree)["runs"][0]["stdout"] == ["new"]


# -- leaving steps out ----------------------------------------------------------


def test_steps_left_out_keep_what_is_stored(tree, kit):
    settings(tree, MUTANTS + PROFILE.replace("metrics", "metrics"))
    tree.program(text=fake_cuda.source(*GOOD, "#pragma launch k 1 dram.sum=1 l2.sum=2"))
    record(tree, kit)
    before = path_of(tree).read_bytes()
    request = Request(sanitize=False, profile=False, mutants=False)
    _, heard = record(tree, kit, "001-add", request=request)
    assert path_of(tree).read_bytes() == before
    assert heard.steps[0] == "compiling 1"


def test_steps_left_out_keep_nothing_of_another_source(tree, kit):
    settings(tree, '[add]\nsanitizers = ["memcheck"]\n')
    tree.program(text=fake_cuda.source("echo x"))
    record(tree, kit)
    tree.program(text=fake_cuda.source("echo y"))
    record(tree, kit, request=Request(sanitize=False))
    assert stored(tree)["sanitizers"]["memcheck"]["status"] == "not-requested"


def test_steps_left_out_of_a_first_record_are_marked(tree, kit):
    settings(tree, MUTANTS + PROFILE)
    tree.program(text=fake_cuda.source(*GOOD))
    record(tree, kit, request=Request(sanitize=False, profile=False, mutants=False, runs=2))
    data = stored(tree)
    jsonschema.validate(data, SCHEMA)
    assert data["sanitizers"]["memcheck"]["status"] == "not-requested"
    assert data["profile"]["status"] == "not-requested"
    assert (data["mutants"], len(data["runs"])) == ({}, 2)
    assert states.judge(tree.load(), tree.load().programs[0], "h200").name == "partial"


def test_a_stored_record_that_cannot_be_believed_is_replaced(tree, kit):
    tree.program(text=fake_cuda.source("echo x"))
    record(tree, kit)
    path_of(tree).write_text(path_of(tree).read_text().replace('"x"', '"y"'))
    _, heard = record(tree, kit)
    assert (
        "wrote kernels/001-add/evidence/add.h200.json (the stored one was edited" in heard.lines[0]
    )
    assert stored(tree)["runs"][0]["stdout"] == ["x"]


# -- the machine ------------------------------------------------------------------


def test_cuda_programs_need_a_compiler(tree, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    with pytest.raises(ToolchainError) as caught:
        record(tree, fake_cuda.Toolkit(tmp_path / "nothing"))
    assert caught.value.message.startswith("no CUDA compiler: ")


def test_programs_see_one_gpu_counted_as_the_driver_counts(kit, monkeypatch):
    environ = {**kit.environ, "CUDA_VISIBLE_DEVICES": "2,3"}
    here = machine.probe(fake_cuda.Gpu(), environ)
    assert here.environment == {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert machine.probe(fake_cuda.Gpu(), kit.environ).environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_the_commit(tmp_path):
    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    assert document.origin(tmp_path).commit == ""
    git("init", "-q")
    (tmp_path / "a").write_text("x")
    git("add", "a")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x")
    found = document.origin(tmp_path)
    assert (len(found.commit), found.dirty) == (40, True)
    given = document.origin(tmp_path, "a" * 40)
    assert (given.commit, given.dirty) == ("a" * 40, False)


def test_only_a_programs_own_files_make_its_commit_doubtful(tree, kit, monkeypatch):
    def git(*words):
        given = ["-c", "user.name=x", "-c", "user.email=x@x"]
        subprocess.run(["git", *given, *words], cwd=tree.root, check=True, capture_output=True)

    tree.program("001-add", "one", fake_cuda.source("echo x", stem="one"))
    tree.program("001-add", "two", fake_cuda.source("echo x", stem="two"))
    tree.write(".gitignore", "two.cu\n")  # what git ignores is in no commit either
    git("init", "-q")
    git("add", "kernels/001-add/one.cu", ".gitignore")
    git("commit", "-q", "-m", "one of them")
    monkeypatch.setattr("recording.ORIGIN", document.origin(tree.root))
    record(tree, kit)
    assert not stored(tree, "001-add/one")["recorded"]["dirty"]
    assert stored(tree, "001-add/two")["recorded"]["dirty"]


def test_a_commit_that_is_none(tmp_path):
    with pytest.raises(EvidenceError) as caught:
        document.origin(tmp_path, "main")
    assert str(caught.value) == (
        "--commit 'main' is not a whole commit — give the 40 digits of: git rev-parse HEAD"
    )


# -- the command --------------------------------------------------------------------

CLI = """\
import sys
sys.path[:0] = {paths!r}
import fake_cuda
from evidence import cli
from evidence.commands import record
record.LocalGpu = fake_cuda.Gpu
cli.main(sys.argv[1:])
"""


def command(tree, kit, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    return subprocess.run(
        [sys.executable, "-c", CLI.format(paths=paths), "--project", str(tree.root), "record", *words],
        env={**kit.environ, "PYTHONWARNINGS": "error"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command(tree, kit):
    tree.program(text=fake_cuda.source("echo x"))
    done = command(tree, kit, "--commit", "a" * 40, "--runs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "compiling: 1",
        "[1/1] 001-add/add sm_90",
        "recording: 1",
        "[0/1] 001-add/add: beginning",
        "001-add/add: passed; wrote kernels/001-add/evidence/add.h200.json (first record on this device)",
        "wrote kernels/001-add/README.md",
        "1 passed, 0 failed, 0 not recorded on h200; 1 files written",
    ]
    done = command(tree, kit, "--runs", "2")
    assert done.stdout.splitlines()[-1].startswith("1 passed")  # 2 of 5 runs are partial evidence
    command(tree, kit)
    done = command(tree, kit)
    assert done.stdout == "nothing to record: all 1 programs are fresh on h200\n"
    assert done.returncode == 0


def test_the_command_when_a_program_fails(tree, kit):
    tree.program(text=fake_cuda.source("exit 4"))
    done = command(tree, kit)
    assert done.returncode == 1
    assert done.stderr == "failed: 001-add/add: run 1 ended with exit status 4\n"
    assert (
        done.stdout.splitlines()[-1]
        == "0 passed, 1 failed, 0 not recorded on h200; 1 files written"
    )


def test_the_command_with_a_broken_source_beside(tree, kit):
    tree.program(text=fake_cuda.source("echo x"))
    tree.write("kernels/002-b/b.cu", "no header\n")
    done = command(tree, kit)
    assert done.returncode == 1
    assert done.stderr.startswith("kernels/002-b/b.cu:1: bad-source: the header has no Build: line")
    assert stored(tree)["outcome"]["passed"]


def test_flags_that_contradict_each_other(tree, kit):
    done = command(tree, kit, "001-add", "--all")
    assert done.returncode == 2
    assert "NAMES and --all contradict each other: drop one of them" in done.stderr


def test_another_compiler_than_the_pin_is_warned_about(tree, tmp_path):
    kit = fake_cuda.install(tmp_path / "cuda", version="12.9.1")
    tree.program(text=fake_cuda.source("echo x"))
    done = command(tree, kit)
    assert done.returncode == 0
    assert done.stderr == (
        "warning: this is nvcc 12.9.1, the pin is 13.0: these records will be unpinned\n"
    )
    assert stored(tree)["toolchain"]["nvcc"] == "12.9.1"
    # Only a compiler of the pin can mend that.
    assert command(tree, kit).stdout == "nothing to record: all 1 programs are fresh on h200\n"
    command(tree, fake_cuda.install(tmp_path / "cuda"))
    assert stored(tree)["toolchain"]["nvcc"] == "13.0.88"


def test_filing_says_what_it_did():
    assert filing.Filed("a.json", True, ("its inputs changed", "x")).explain() == (
        "wrote a.json (its inputs changed; x)"
    )
