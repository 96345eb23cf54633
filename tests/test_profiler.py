"""Nsight Compute: values per launch, and no value where it gave none."""

from pathlib import Path

import pytest

from evidence import profiler
from evidence.model import Profile
from evidence.profiler import Metric, Profiled
from evidence.runner import RunResult

DRAM, TIME = "dram__bytes_read.sum", "gpu__time_duration.sum"
ASKED = Profile(metrics=(DRAM, TIME), kernels=("stream",))

# ncu 2025.3.1 on an H200, --csv --page raw --print-units base, most columns left out.
LOG = f"""\
==WARNING== Note: Running with unmodified GPU clocks.
==PROF== Connected to process 1161 (/tmp/x/ok)
==PROF== Disconnected from process 1161
"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","{DRAM}","{TIME}","launch__grid_size"
"","","","","","","byte","ns",""
"0","1161","void addT<32, float>(T2 *)","(32, 1, 1)","(1, 1, 1)","9.0","3,072","2,112","1"
"3","1161","foo::stream(const float4 *, float4 *, int)","(256, 1, 1)","(264, 1, 1)","9.0","67,119,872","43,360.5","264"
"4","1161","foo::stream(const float4 *, float4 *, int)","(256, 1, 1)","(132, 2, 1)","9.0","67,120,384","68,832","132"
"5","1161","foo::stream(const float4 *, float4 *, int)","(256, 1, 1)","(132, 2, 1)","9.0","67,127,296","70,240","132"
"""


def run(exit_status=0, **changes) -> RunResult:
    values = {"signal": None, "timed_out": False, "seconds": 4.2, **changes}
    return RunResult(exit_status, **values)


def reason(log: str, result: RunResult | None = None, profile: Profile = ASKED) -> tuple[str, str]:
    found = profiler.judge(profile, log, result or run())
    assert found.launches == {}
    return found.status, found.reason


def test_values_per_kernel_grid_and_launch():
    assert profiler.parse(LOG, (DRAM, TIME)) == {
        "addT<32, float>": {
            "grid-1x1x1": {DRAM: Metric("byte", (3072,)), TIME: Metric("ns", (2112,))}
        },
        "foo::stream": {
            "grid-264x1x1": {DRAM: Metric("byte", (67119872,)), TIME: Metric("ns", (43360.5,))},
            "grid-132x2x1": {
                DRAM: Metric("byte", (67120384, 67127296)),
                TIME: Metric("ns", (68832, 70240)),
            },
        },
    }


def test_the_command():
    assert profiler.command(Path("/opt/ncu"), ASKED, ("./ok", "--once")) == (
        "/opt/ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--metrics", f"{DRAM},{TIME}", "--kernel-name", "regex:^(stream)$",
        "--log-file", "profile.csv", "./ok", "--once",
    )  # fmt: skip


def test_names_in_the_filter_are_no_regular_expression():
    words = profiler.options(Profile(metrics=(DRAM,), kernels=("a.b", "c")))
    assert words[-1] == r"regex:^(a\.b|c)$"


def test_the_document():
    found = profiler.judge(Profile((DRAM,), ("--once",)), LOG, run())
    document = found.document(Profile((DRAM,), ("--once",)), ("./ok", "--once"), "2025.3.1")
    assert document["launches"]["addT<32, float>"] == {
        "grid-1x1x1": {DRAM: {"unit": "byte", "values": [3072]}}
    }
    del document["launches"]
    assert document == {
        "args": ["--once"],
        "command": ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control",
                    "none", "--metrics", DRAM, "./ok", "--once"],
        "reason": "", "status": "recorded", "tool": "2025.3.1",
    }  # fmt: skip


def test_the_document_of_what_was_not_asked_for():
    assert Profiled("not-requested").document(None) == {
        "args": [], "command": [], "launches": {}, "reason": "", "status": "not-requested", "tool": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
        "Failed to initialize the profiler: LibraryNotLoaded",
        "Profiling is not supported on this device",
    ],
)
def test_a_machine_without_counters(text):
    assert reason(f"==ERROR== {text}\n", run(1)) == ("not-available", text)


@pytest.mark.parametrize(
    ("log", "result", "why"),
    [
        (LOG.replace(DRAM, "dram__bytes.sum"), run(), f"this device has no metric {DRAM}"),
        (LOG.replace("67,119,872", "n/a"), run(), f"{DRAM} of foo::stream is 'n/a', which is no number"),
        (LOG.replace("67,119,872", "nan"), run(), f"{DRAM} of foo::stream is 'nan', which is no number"),
        (LOG.replace("(264, 1, 1)", "?"), run(), "the profiler reported the grid '?'"),
        (LOG.replace("stream", "other"), run(), "kernel stream was not launched"),
        ("==WARNING== No kernels were profiled.\n", run(), "no kernel named stream was launched"),
        ("", run(), "the profiler reported no launch"),
        ("==ERROR== The application returned an error code (1).\n", run(1), "The application returned an error code (1)."),
        ("", run(None, signal="SIGSEGV"), "under ncu the program died by SIGSEGV"),
        ("", run(None, timed_out=True), "it was not done after 4 s"),
        (LOG, run(problems=("left a process running",)), "under ncu the program left a process running"),
    ],
)  # fmt: skip
def test_half_a_profile_is_none(log, result, why):
    assert reason(log, result) == ("failed", why)


def test_processes_are_put_side_by_side():
    one = profiler.judge(ASKED, LOG, run())
    both = profiler.joined([one, one])
    assert both.status == "recorded"
    assert both.launches["foo::stream"]["grid-132x2x1"][TIME].values == (68832, 70240, 68832, 70240)


def test_one_process_that_failed_fails_the_whole():
    one = profiler.judge(ASKED, LOG, run())
    bad = Profiled("failed", "why")
    assert profiler.joined([one, bad]) == bad
