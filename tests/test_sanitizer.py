"""compute-sanitizer's word is only taken where it counted something."""

from pathlib import Path

import pytest

from evidence import sanitizer
from evidence.runner import RunResult

WORDS = ("./race", "--quick")

# Printed by compute-sanitizer 2025.3.1 on an H200.
CLEAN = (
    "========= COMPUTE-SANITIZER",
    "Result",
    "  sum   12.5",
    "========= ERROR SUMMARY: 0 errors",
)
OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at writePast(int *, int)+0x80 in oob.cu:2
=========     by thread (2,0,0) in block (0,0,0)
=========     Access to 0x7f919e800040 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f919e800000 of size 64 bytes
=========
oob.cu:3 cudaDeviceSynchronize(): unspecified launch failure
========= Target application returned an error
========= ERROR SUMMARY: 3 errors""".splitlines()
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at shift(int *)+0x100 in race.cu:2
=========     and Read access at shift(int *)+0x110 in race.cu:2 [1024 hazards]
=========
done
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)""".splitlines()
NO_RACE = (
    "========= COMPUTE-SANITIZER",
    "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
)
NO_CUDA = (
    "========= COMPUTE-SANITIZER",
    "no cuda here",
    "========= Error: Target application terminated before first instrumented API call",
)
UNSUPPORTED = (
    "========= COMPUTE-SANITIZER",
    '========= Error: Device not supported. Please refer to the "Supported Devices" section',
    "========= ERROR SUMMARY: 2 errors",
)


def run(stdout=(), exit_status=0, **changes) -> RunResult:
    values = {"signal": None, "timed_out": False, "seconds": 4.2, **changes}
    return RunResult(exit_status, stdout=tuple(stdout), **values)


def judged(tool, result, expected_exit=0):
    found = sanitizer.judge(tool, WORDS, result, expected_exit)
    return found.status, found.errors, found.reason


def test_clean():
    assert judged("memcheck", run(CLEAN)) == ("clean", 0, "")
    assert judged("racecheck", run(NO_RACE)) == ("clean", 0, "")


def test_errors_are_counted():
    assert judged("memcheck", run(OUT_OF_BOUNDS, 86)) == ("errors", 3, "")
    assert judged("racecheck", run(RACE, 86)) == ("errors", 1, "")


def test_the_document():
    assert sanitizer.judge("racecheck", WORDS, run(RACE, 86)).document() == {
        "command": ["compute-sanitizer", "--tool", "racecheck", "./race", "--quick"],
        "errors": 1,
        "output": [RACE[0], RACE[1], RACE[2], RACE[3], RACE[5]],
        "reason": "",
        "seconds": 4.2,
        "status": "errors",
    }


def test_the_command():
    assert sanitizer.command(Path("/opt/cs"), "memcheck", WORDS) == (
        "/opt/cs", "--tool", "memcheck", "--error-exitcode", "86", "--show-backtrace", "device",
        "./race", "--quick",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (run(NO_CUDA, 255), ("failed", 0, "the program made no CUDA call that memcheck could look at")),
        (run(), ("failed", 0, "memcheck gave no summary and ended with exit status 0")),
        (run((), None, signal="SIGSEGV"), ("failed", 0, "memcheck gave no summary and died by SIGSEGV")),
        (run(CLEAN, 1), ("failed", 0, "under memcheck the program ended with exit status 1")),
        (run(CLEAN, None, problems=("printed more than 9 bytes on stdout",)),
         ("failed", 0, "under memcheck the program printed more than 9 bytes on stdout")),
        (run((), None, timed_out=True, seconds=300.2), ("timeout", 0, "memcheck was not done after 300 s")),
        (run(["========= Error: Unable to launch target application"], 255),
         ("failed", 0, "Unable to launch target application")),
    ],
)  # fmt: skip
def test_what_proves_nothing_is_not_clean(result, verdict):
    assert judged("memcheck", result) == verdict


def test_a_machine_that_the_tool_does_not_support():
    assert judged("memcheck", run(UNSUPPORTED, 86)) == (
        "not-available", 0, 'Device not supported. Please refer to the "Supported Devices" section',
    )  # fmt: skip


def test_a_program_that_is_meant_to_fail_is_clean_when_it_fails_as_meant():
    assert judged("memcheck", run(CLEAN, 3), expected_exit=3) == ("clean", 0, "")
    assert judged("memcheck", run(CLEAN, 0), expected_exit=3)[0] == "failed"


def test_an_endless_list_of_errors_is_cut_before_its_summary():
    lines = [f"========= error {n}" for n in range(1000)] + ["========= ERROR SUMMARY: 1000 errors"]
    found = sanitizer.judge("memcheck", WORDS, run(lines, 86))
    assert found.errors == 1000
    assert len(found.output) == 201
    assert found.output[-2:] == ("========= (801 lines are left out here)", lines[-1])
