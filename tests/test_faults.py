"""Faults, injected for real: after each nothing is lost, nothing false is recorded,
one message says what is wrong, and a rerun finishes the work.
"""

import contextlib
import datetime as dt
import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

import fake_cuda
import fake_driver
import killing
from evidence import locking, readme, sinks, store
from evidence.errors import EvidenceError, MachineError
from recording import path_of, record, stored
from test_shards import command

PROGRAMS = ("001-a/p", "002-b/p")
# Fewer could not be every step of writing two records and their READMEs.
LEAST = 20


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda", tools=False)


# -- kill -9 at every step ------------------------------------------------------------


def write_programs(tree, word: str) -> None:
    for name in PROGRAMS:
        folder, _, stem = name.partition("/")
        tree.program(folder, stem, fake_cuda.source(f"echo {word}", stem=stem))
        tree.write(f"kernels/{folder}/evidence.toml", "[p]\nruns = 1\nsanitizers = []\n")


@pytest.fixture
def killed(tree, kit, tmp_path):
    """A function that kills a command at every step and judges what it finds."""
    write_programs(tree, "old")
    record(tree, kit)
    write_programs(tree, "new")
    readme.write_all(tree.load())
    before = tmp_path / "before"

    def run(*words: str, target: Path | None = None) -> list[dict]:
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(tree.root, before)
        gpu = f"{fake_cuda.H200.uuid}-killed"
        found = killing.every_step(
            killing.library(tmp_path), {**os.environ, **kit.environ}, root=tree.root,
            before=before, words=words, programs=PROGRAMS, target=target or "", gpu=gpu,
        )  # fmt: skip
        locking.path_of(fake_cuda.H200).with_name(f"evidence-{gpu}.lock").unlink(missing_ok=True)
        assert len(found) > LEAST, len(found)
        for state in found:
            assert state["again"] == 0, state
            assert state["left"] == [], state
        return found

    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_record_killed_at_every_step(killed):
    found = killed("record")
    assert {tuple(state["records"]) for state in found} == {
        ("old", "old"), ("new", "old"), ("new", "new"),
    }  # fmt: skip
    for state in found:
        assert state["then"]["records"] == ["new", "new"], state


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_record_into_a_bundle_killed_at_every_step(killed, tree, kit, tmp_path):
    target = tmp_path / "out" / "out.bundle"
    # Compiled already: the steps of that are those of `record`.
    record(tree, kit, target=tmp_path / "elsewhere")
    found = killed("record", "--bundle", str(target), target=target)
    for state in found:
        assert state["records"] == state["then"]["records"] == ["old", "old"], state
        assert state["bundle"] in (None, 2), state
        assert state["then"]["bundle"] == 2, state
    assert {state["bundle"] for state in found} == {None, 2}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_accept_killed_at_every_step(killed, tree, kit, tmp_path):
    target = tmp_path / "out" / "out.bundle"
    record(tree, kit, target=target)
    found = killed("accept", str(target), target=target)
    assert {tuple(state["records"]) for state in found} == {
        ("old", "old"), ("new", "old"), ("new", "new"),
    }  # fmt: skip
    for state in found:
        assert state["then"] == {"records": ["new", "new"], "bundle": 2}, state


# -- a disk that is full, a folder that cannot be written to --------------------------


@pytest.fixture
def disk(tmp_path):
    """A function that puts a disk of 64 KiB where a folder is; another that fills it."""
    made: list[Path] = []

    def mount(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a small disk cannot be made here: {done.stderr.strip()}")
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"0" * 4096)
    return filler


def read_only(folder: Path, *, so: bool = True) -> None:
    words = ["mount", "-o", f"remount,{'ro' if so else 'rw'}", str(folder)]
    subprocess.run(words, check=True)


def place(tree, tmp_path: Path, where: str) -> Path:
    folders = {
        "evidence": tree.root / "kernels/002-b/evidence",
        "staging": tree.root / sinks.STAGING,
        "build": tree.root / ".evidence/build",
        "bundle": tmp_path / "out",
        "runs": tmp_path / "runs",
    }
    return folders[where]


@pytest.mark.parametrize("fault", ["full", "read-only"])
@pytest.mark.parametrize("where", ["evidence", "staging", "build", "bundle", "runs"])
def test_a_disk_that_takes_no_more(tree, kit, tmp_path, disk, monkeypatch, where, fault):
    write_programs(tree, "x")
    folder = disk(place(tree, tmp_path, where))
    if where == "runs":
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
    target = folder / "out.bundle" if where == "bundle" else None
    filler = fill(folder) if fault == "full" else None
    if filler is None:
        read_only(folder)
    with pytest.raises(EvidenceError) as caught:
        record(tree, kit, target=target)
    text = "No space left on device" if fault == "full" else "Read-only file system"
    assert text in caught.value.message
    assert caught.value.path is not None
    assert "run the same command" in (caught.value.fix or "")
    assert "\n" not in str(caught.value)
    # Nothing false: what is there was done before, and is whole.
    for name in PROGRAMS:
        path = path_of(tree, *name.split("/"))
        assert not path.exists() or store.read(path).passed
    assert list(folder.rglob("*.tmp")) == []
    if filler is None:
        read_only(folder, so=False)
    else:
        filler.unlink()
    report, _ = record(tree, kit, target=target)
    assert report.succeeded
    assert len(report.recorded) >= 1
    for name in PROGRAMS if target is None else ():
        assert stored(tree, name)["outcome"]["passed"]


def test_a_disk_that_is_full_between_two_runs(tree, tmp_path, monkeypatch):
    kit = fake_cuda.install(tmp_path / "cuda")
    tree.program(text=fake_cuda.source("echo x", "#pragma launch k 4 m=7"))
    tree.write("kernels/001-add/evidence.toml", "[add.profile]\nmetrics = ['m']\n")

    def full(*words, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")

    whole = tempfile.TemporaryDirectory
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(MachineError) as caught:
        record(tree, kit)
    monkeypatch.setattr(tempfile, "TemporaryDirectory", whole)
    assert str(caught.value) == (
        "/somewhere:1: cannot be written: No space left on device; nothing was recorded of "
        "001-add/add — make room, then run the same command"
    )
    assert not path_of(tree).exists()
    assert record(tree, kit)[0].succeeded


def test_a_disk_that_is_full_while_a_program_compiles_is_no_compile_error(
    tree, kit, disk, tmp_path
):
    """Even where a compile error is what is wanted."""
    tree.program("001-a", "p", fake_cuda.source("#pragma error no such thing", stem="p"))
    tree.write("kernels/001-a/evidence.toml", '[p]\nexpect = "compile-error"\n')
    path = kit.home / "bin/nvcc"
    script = path.read_text()
    path.write_text(
        script.replace(
            "source = next(",
            "raise SystemExit(print('ld: final link failed: No space left on device') or 1)\nsource = next(",
        )
    )
    with pytest.raises(MachineError) as caught:
        record(tree, kit)
    assert caught.value.message == (
        "cannot be written: No space left on device; 001-a/p could not be compiled, and nothing "
        "was recorded"
    )
    assert not path_of(tree, "001-a", "p").exists()
    path.write_text(script)
    assert record(tree, kit)[0].succeeded


# -- the clock ------------------------------------------------------------------------

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == 0) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec -= 400L * 86400;
    return status;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def set_back(tmp_path) -> dict[str, str]:
    """Variables under which the clock of a process is 400 days behind."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to set a process's clock back")
    source, made = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(made)}


def test_a_clock_that_was_set_back(tree, kit, set_back):
    write_programs(tree, "old")
    assert command(tree, kit, "record").returncode == 0
    before = path_of(tree, "001-a", "p").read_bytes()
    today = stored(tree, "001-a/p")["recorded"]["date"]
    then = dt.date.fromisoformat(today) - dt.timedelta(days=400)
    write_programs(tree, "new")
    # What an editor leaves that is under the same clock: sources older than binaries.
    for name in PROGRAMS:
        path = tree.root / f"kernels/{name}.cu"
        os.utime(path, (time.time() - 400 * 86400,) * 2)
    late = replace(kit, extra=set_back)
    done = command(tree, late, "record")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"evidence: kernels/001-a/evidence/p.h200.json:1: this machine's clock is behind: it says "
        f"{then}, and 001-a/p was recorded on {today}; nothing was recorded — set the clock "
        "(timedatectl set-ntp true), then run the same command\n"
    )
    assert path_of(tree, "001-a", "p").read_bytes() == before
    done = command(tree, kit, "record")
    assert (done.returncode, done.stderr) == (0, "")
    # Not a binary of the sources that were there before.
    assert stored(tree, "001-a/p")["runs"][0]["stdout"] == ["new"]
    assert stored(tree, "001-a/p")["recorded"]["date"] == today


def test_times_of_runs_do_not_depend_on_the_clock(tree, kit, set_back):
    write_programs(tree, "x")
    done = command(tree, replace(kit, extra=set_back), "record")
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < stored(tree, "001-a/p")["runs"][0]["seconds"] < 60


# -- the GPU --------------------------------------------------------------------------


@pytest.fixture
def lost(tmp_path, monkeypatch) -> Path:
    return fake_driver.install(tmp_path / "driver", monkeypatch)


STICKY = "echo 'CUDA error: unspecified launch failure' >&2; exit 1"


@pytest.mark.parametrize("step", ["run 3", "memcheck", "ncu", "mutant"])
def test_a_gpu_that_is_lost_in_the_middle(tree, kit, tmp_path, lost, step):
    """Every later call fails, in whatever step: none of it is told of the program."""
    tools = fake_cuda.install(tmp_path / "cuda")
    count = tmp_path / "count"
    when = {
        "run 3": f"[ $(wc -l <{count}) -ge 11 ]", "memcheck": '[ -n "$SANITIZED" ]',
        "ncu": '[ -n "$PROFILED" ]', "mutant": '[ -n "$MUTATED" ]',
    }[step]  # fmt: skip
    lines = [
        f"echo x >>{count}",
        "MUTATED=",
        f"if {when} && [ ! -f {lost}.mended ]; then echo 0 719 >{lost}; fi",
        f"if [ -f {lost} ]; then {STICKY}; fi",
        "echo x",
    ]
    for folder in ("001-a", "002-b", "003-c"):
        tree.program(folder, "p", fake_cuda.source(*lines, "#pragma launch k 4 m=7", stem="p"))
        tree.write(
            f"kernels/{folder}/evidence.toml",
            "[p]\nruns = 5\nsanitizers = ['memcheck']\n[p.profile]\nmetrics = ['m']\nruns = 1\n"
            "[[p.mutant]]\nname = 'm'\nfind = 'MUTATED='\nreplace = 'MUTATED=1; exit 1'\n"
            if step != "mutant"
            else "[p]\nruns = 1\nsanitizers = []\n"
            "[[p.mutant]]\nname = 'm'\nfind = 'MUTATED='\nreplace = 'MUTATED=1'\n",
        )
    for name, variable in (("compute-sanitizer", "SANITIZED"), ("ncu", "PROFILED")):
        script = tools.home / "bin" / name
        script.write_text(script.read_text().replace('"$@"', f'{variable}=1 "$@"', 1))
    with pytest.raises(MachineError) as caught:
        record(tree, tools)
    number = 2 if step == "run 3" else 1
    name = f"00{number}-{'ab'[number - 1]}/p"
    assert caught.value.message == (
        f"NVIDIA H200 stopped working while {name} was recorded: cuDevicePrimaryCtxRetain: "
        "CUDA_ERROR_LAUNCH_FAILED (719); nothing was recorded of this program, what was done "
        "before is kept"
    )
    assert caught.value.fix == (
        "see nvidia-smi, reset the GPU or restart the machine, then run the same command"
    )
    there = [p.parts[-3] for p in sorted(tree.root.glob("kernels/*/evidence/*.json"))]
    assert there == ["001-a"][: number - 1]
    # Reset: the rest is done, what was done is not done again.
    lost.unlink()
    Path(f"{lost}.mended").touch()
    if step == "mutant":
        # Noticed by itself once the GPU is there.
        for folder in ("001-a", "002-b", "003-c"):
            path = tree.root / f"kernels/{folder}/evidence.toml"
            path.write_text(path.read_text().replace("'MUTATED=1'", "'exit 1'"))
    report, _ = record(tree, tools)
    assert report.succeeded, report
    assert len(report.recorded) == 4 - number
    for folder in ("001-a", "002-b", "003-c"):
        assert stored(tree, f"{folder}/p")["outcome"]["passed"]


# -- tools and compilers --------------------------------------------------------------

NO_SANITIZER = """\
#!/bin/sh
echo "========= COMPUTE-SANITIZER"
echo "========= Error: Target application terminated before first instrumented API call"
echo "========= Error: Device not supported. Please refer to the documentation"
exit 1
"""
NO_COUNTERS = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3.1.0"; exit; fi
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0."
exit 1
"""


def test_a_driver_without_sanitizer_and_counters(tree, tmp_path):
    kit = fake_cuda.install(tmp_path / "cuda")
    good = {name: (kit.home / "bin" / name).read_text() for name in ("compute-sanitizer", "ncu")}
    kit.script("compute-sanitizer", NO_SANITIZER)
    kit.script("ncu", NO_COUNTERS)
    tree.program(text=fake_cuda.source("echo x", "#pragma launch k 4 m=7"))
    tree.write("kernels/001-add/evidence.toml", "[add.profile]\nmetrics = ['m']\n")
    done = command(tree, kit, "record")
    assert done.returncode == 0
    data = stored(tree)
    assert {found["status"] for found in data["sanitizers"].values()} == {"not-available"}
    assert data["profile"]["status"] == "not-available"
    # Told as what it is, and not as clean.
    done = command(tree, kit, "list", "--stale", "--json")
    (row,) = json.loads(done.stdout)
    assert (row["state"], row["note"]) == (
        "partial",
        "001-add/add: its evidence is partial: memcheck was not available (Device not supported. "
        "Please refer to the documentation)",
    )
    assert command(tree, kit, "record").returncode == 0
    for name, text in good.items():
        kit.script(name, text)
    assert command(tree, kit, "record").returncode == 0
    assert json.loads(command(tree, kit, "list", "--stale", "--json").stdout) == []
    assert {found["status"] for found in stored(tree)["sanitizers"].values()} == {"clean"}


def test_shards_of_two_compilers(tree, tmp_path):
    """Half of the machines have another nvcc; then half of the shards are missing."""
    write_programs(tree, "x")
    files = [str(tmp_path / f"{number}.bundle") for number in (1, 2)]
    for number, version in ((1, "13.0.88"), (2, "13.1.2")):
        kit = fake_cuda.install(tmp_path / f"cuda{number}", version=version, tools=False)
        shard = ("--shard", f"{number}/2", "--bundle", files[number - 1])
        done = command(tree, kit, "record", *shard)
        assert done.returncode == 0
        wrong = "warning: this is nvcc 13.1.2, the pin is 13.0: these records will be unpinned\n"
        assert done.stderr == (wrong if number == 2 else "")
    # Only the second is there: what the first held is named and still to do.
    done = command(tree, kit, "accept", files[1])
    assert (done.returncode, done.stderr.split(": ")[1]) == (1, "missing-shard")
    states = json.loads(command(tree, kit, "list", "--stale", "--json").stdout)
    assert [(row["program"], row["state"]) for row in states] == [
        ("001-a/p", "missing"), ("002-b/p", "unpinned"),
    ]  # fmt: skip
    pinned = fake_cuda.install(tmp_path / "cuda1", tools=False)
    assert command(tree, pinned, "record").returncode == 0
    assert json.loads(command(tree, kit, "list", "--stale", "--json").stdout) == []
    # What comes late changes nothing any more.
    before = path_of(tree, "001-a", "p").read_bytes()
    assert command(tree, kit, "accept", files[0]).returncode == 0
    assert path_of(tree, "001-a", "p").read_bytes() == before
