"""Several GPUs of one host: which are used, side by side, one program on each at a time."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import fake_cuda
import fake_driver
from evidence import device, gpus, health, lanes, locking, machine, recorder
from evidence.device import Device, LocalGpu
from evidence.errors import MachineError, SourceError, ToolchainError
from evidence.trial import Request
from recording import record, stored
from test_device import fake_nvml
from test_shards import command as run_command

H200 = fake_cuda.H200
FOUR = [replace(H200, uuid=f"GPU-{letter * 8}-{os.getpid()}") for letter in "abcd"]
T4 = Device("Tesla T4", "7.5", "550.1", 15360, 40, f"GPU-t4-{os.getpid()}")


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


# -- which --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "visible", "numbers"),
    [
        ("all", "", [0, 1, 2, 3]),
        ("all", "2,3", [2, 3]),
        ("0,1", "", [0, 1]),
        (" 3 , 1 ", "", [3, 1]),
        ("3", "2,3", [3]),
        ("GPU-cccccccc", "", [2]),
        ("GPU-bbbbbbbb", "GPU-bbbbbbbb,GPU-cccccccc", [1]),
    ],
)
def test_gpus_that_are_asked_for(wanted, visible, numbers):
    assert gpus.choose(FOUR, wanted, visible) == tuple(FOUR[n] for n in numbers)


SEE = " — see nvidia-smi --list-gpus, and give numbers: --gpus 0,1"


@pytest.mark.parametrize(
    ("devices", "wanted", "visible", "message"),
    [
        (FOUR, "4", "", f"--gpus names GPU 4, and there are GPUs 0 to 3{SEE}"),
        (FOUR[:1], "0,1", "", f"--gpus names GPU 1, and there is only GPU 0{SEE}"),
        (FOUR, "x", "", f"--gpus names GPU x, and there are GPUs 0 to 3{SEE}"),
        (FOUR, "GPU-", "", f"--gpus names GPU GPU-, and there are GPUs 0 to 3{SEE}"),
        (FOUR, ",", "", f"--gpus ',' names no GPU{SEE}"),
        (FOUR, "1,1", "", f"--gpus 1,1 names GPU 1 twice{SEE}"),
        (FOUR, "all", "7", f"CUDA_VISIBLE_DEVICES names GPU 7, and there are GPUs 0 to 3{SEE}"),
        ([], "all", "", f"there is no GPU here{SEE}"),
        (FOUR, "0", "2,3",
         "--gpus 0: GPU 0 is hidden by CUDA_VISIBLE_DEVICES=2,3"
         " — unset CUDA_VISIBLE_DEVICES, or give --gpus 2,3"),
        ([*FOUR, T4], "all", "",
         "a recording takes GPUs of one kind: name of GPU 0 is NVIDIA H200, of GPU 4 Tesla T4"
         " — one after the other: evidence record --gpus 0"),
        ([H200, replace(FOUR[0], memory_mib=1)], "all", "",
         "a recording takes GPUs of one kind: memory_mib of GPU 0 is 143771, of GPU 1 1"
         " — one after the other: evidence record --gpus 0"),
    ],
)  # fmt: skip
def test_gpus_that_cannot_be_used(devices, wanted, visible, message):
    with pytest.raises(ToolchainError) as caught:
        gpus.choose(devices, wanted, visible)
    assert str(caught.value) == message


def test_each_machine_sees_its_own_gpu(kit):
    here = machine.probe(fake_cuda.Gpu(), kit.environ)
    for made, card in zip(gpus.machines(here, FOUR), FOUR, strict=True):
        assert made.device == card
        assert made.environment == {
            "CUDA_VISIBLE_DEVICES": card.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }  # fmt: skip
        assert (made.nvcc, made.sanitizer) == (here.nvcc, here.sanitizer)


def test_all_gpus_are_asked_for_through_nvml(monkeypatch):
    nvml = fake_nvml()
    nvml.nvmlDeviceGetCount = lambda: 3
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(device, "sm_count", lambda uuid: 40)
    found = LocalGpu({"CUDA_VISIBLE_DEVICES": "1"}).every()
    assert [card.name for card in found] == [f"Tesla T4 index {n}" for n in (0, 1, 2)]


def test_all_gpus_are_asked_for_through_nvidia_smi(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(device, "sm_count", lambda uuid: 0)
    lines = "Tesla T4, 7.5, 550.1, 15360, GPU-1\nTesla T4, 7.5, 550.1, 15360, GPU-2\n"
    monkeypatch.setattr(device, "ask_smi", lambda wanted="": lines)
    assert [card.uuid for card in LocalGpu({}).every()] == ["GPU-1", "GPU-2"]
    monkeypatch.setattr(device, "ask_smi", lambda wanted="": "")
    assert LocalGpu({}).every() == []


# -- side by side -------------------------------------------------------------------


@dataclass(frozen=True)
class Host(fake_cuda.Gpu):
    """A host with several GPUs."""

    def every(self):
        return FOUR


def machines(kit, count: int) -> list[machine.Machine]:
    return gpus.machines(machine.probe(fake_cuda.Gpu(), kit.environ), FOUR[:count])


def side_by_side(tree, kit, count: int, **options):
    first, *beside = machines(kit, count)
    return record(tree, kit, machine=first, beside=beside, **options)


def logging(tree, log: Path, count: int) -> None:
    for number in range(count):
        text = fake_cuda.source(
            f"echo begin $CUDA_VISIBLE_DEVICES {number} >>{log}", "sleep 0.2", "echo x",
            f"echo end $CUDA_VISIBLE_DEVICES {number} >>{log}", stem="p",
        )  # fmt: skip
        tree.program(f"{number:03}-x", "p", text)


def test_one_program_on_each_gpu_at_a_time(tree, kit, tmp_path):
    log = tmp_path / "log"
    logging(tree, log, 6)
    # Sanitizers and all: what runs under a tool is on the same GPU.
    report, heard = side_by_side(tree, kit, 3, request=Request(runs=1))
    assert report.succeeded
    assert sorted(report.recorded) == [f"{n:03}-x/p" for n in range(6)]
    busy: dict[str, str] = {}
    most, seen = 0, {}
    for line in log.read_text().splitlines():
        what, uuid, number = line.split()
        if what == "begin":
            assert uuid not in busy, "two programs on one GPU"
            busy[uuid] = number
            most = max(most, len(busy))
        else:
            assert busy.pop(uuid) == number
        assert seen.setdefault(number, uuid) == uuid, "one program on two GPUs"
    assert most == 3
    assert set(seen.values()) == {card.uuid for card in FOUR[:3]}
    for number in range(6):
        assert stored(tree, f"{number:03}-x/p")["device"] == H200.document({})
    assert heard.steps[-1].startswith("00")


def test_the_longest_goes_first(tree, kit):
    for number in range(4):
        tree.program(f"{number:03}-x", "p", fake_cuda.source("echo x", stem="p"))
    short = Request(runs=1, sanitize=False)
    record(tree, kit, "000-x", "001-x", request=short)
    _, heard = side_by_side(tree, kit, 2, request=short, everything=True)
    begun = [step for step in heard.steps if step.endswith("beginning")]
    assert sorted(begun[:2]) == ["002-x/p: beginning", "003-x/p: beginning"]


def test_a_program_that_cannot_be_recorded_does_not_stop_the_others(tree, kit, monkeypatch):
    for number in range(4):
        tree.program(f"{number:03}-x", "p", fake_cuda.source("echo x", stem="p"))
    real = recorder._Session._make

    def make(session, program, *rest):
        if program.folder == "001-x":
            raise SourceError("is odd", path=program.relative)
        return real(session, program, *rest)

    monkeypatch.setattr(recorder._Session, "_make", make)
    report, _ = side_by_side(tree, kit, 2, request=Request(runs=1, sanitize=False))
    assert len(report.recorded) == 3
    assert [finding.message for finding in report.findings] == ["is odd"]


def test_an_error_of_our_own_stops_all_and_is_raised_here(kit, tree):
    for number in range(4):
        tree.program(f"{number:03}-x", "p", fake_cuda.source("echo x", stem="p"))
    made: list[str] = []
    before = threading.active_count()

    def make(program, here):
        made.append(program.name)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(lanes.each(tree.load().programs, machines(kit, 2), make))
    assert len(made) <= 2
    assert threading.active_count() == before


def test_all_gpus_are_held(tree, kit):
    tree.program(text=fake_cuda.source("echo x"))
    with locking.reserved([FOUR[1]]), pytest.raises(ToolchainError) as caught:
        side_by_side(tree, kit, 2)
    assert "is held by another recording" in caught.value.message


def test_ctrl_c_ends_the_programs_on_every_gpu(tree, kit, tmp_path, monkeypatch):
    log = tmp_path / "log"
    for number in range(2):
        text = fake_cuda.source(f"echo $$ >>{log}", "sleep 300", stem="p")
        tree.program(f"{number:03}-x", "p", text)

    class Stopped(BaseException):
        pass

    def begun() -> list[int]:
        return [int(line) for line in log.read_text().split()] if log.exists() else []

    def interrupted(*words):
        while len(begun()) < 2:
            time.sleep(0.01)
        raise Stopped

    before = time.monotonic()
    monkeypatch.setattr(lanes.queue, "SimpleQueue", lambda: Queue(interrupted))
    with pytest.raises(Stopped):
        side_by_side(tree, kit, 2, request=Request(runs=1, sanitize=False))
    assert time.monotonic() - before < 30
    for pid in begun():
        assert (
            not Path(f"/proc/{pid}/environ").exists()
            or not Path(f"/proc/{pid}/environ").read_bytes()
        )


class Queue:
    """A queue in which the waiting thread is interrupted."""

    def __init__(self, get) -> None:
        self.get = get

    def put(self, item) -> None:
        pass


def test_the_command(tree, kit, monkeypatch):
    monkeypatch.setattr("test_shards.CLI", CLI)
    for number in range(3):
        tree.program(f"{number:03}-x", "p", fake_cuda.source("echo x", stem="p"))
    done = run_command(tree, kit, "record", "--gpus", "all", "--runs", "1", "--no-sanitize")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == (
        "3 passed, 0 failed, 0 not recorded on h200; 3 files written"
    )
    done = run_command(tree, kit, "record", "--gpus", "9")
    assert (done.returncode, done.stderr) == (
        2, f"evidence: --gpus names GPU 9, and there are GPUs 0 to 3{SEE}\n",
    )  # fmt: skip


CLI = """\
import sys
sys.path[:0] = {paths!r}
import fake_cuda, test_gpus
from evidence import cli
from evidence.commands import record
record.LocalGpu = test_gpus.Host
cli.main(sys.argv[1:])
"""


# -- one that stops working ---------------------------------------------------------


@pytest.fixture
def lost(tmp_path, monkeypatch) -> Path:
    return fake_driver.install(tmp_path / "driver", monkeypatch)


def test_a_gpu_that_works(kit, lost):
    for here in machines(kit, 2):
        assert health.ask(here) == ""


def test_a_gpu_that_does_not(kit, lost):
    one, two = machines(kit, 2)
    lost.write_text(f"{one.device.uuid} 719\n")
    assert health.ask(one) == "cuDevicePrimaryCtxRetain: CUDA_ERROR_LAUNCH_FAILED (719)"
    assert health.ask(two) == ""
    lost.write_text(f"{one.device.uuid} 999\n")
    assert health.ask(one) == "cuInit: CUDA_ERROR_UNKNOWN (999)"


def test_a_machine_without_a_driver_has_nothing_to_ask(kit):
    done = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
    if "libcuda.so.1" in done.stdout:
        pytest.skip("there is a driver here")
    assert health.ask(machines(kit, 1)[0]) == ""


def test_one_of_several_that_is_lost(tree, kit, lost, tmp_path):
    """The others finish what they have begun; what ran on it is not recorded."""
    log = tmp_path / "log"
    for number in range(6):
        name, code = FOUR[0].uuid, 719
        text = fake_cuda.source(
            f"echo {number} $CUDA_VISIBLE_DEVICES >>{log}",
            f"if [ $CUDA_VISIBLE_DEVICES = {name} ]; then echo {name} {code} >{lost}; exit 1; fi",
            "sleep 0.5", "echo x", stem="p",
        )  # fmt: skip
        tree.program(f"{number:03}-x", "p", text)
    request = Request(runs=1, sanitize=False)
    with pytest.raises(MachineError) as caught:
        side_by_side(tree, kit, 2, request=request)
    begun = dict(line.split() for line in log.read_text().splitlines())
    (victim,) = (number for number, uuid in begun.items() if uuid == FOUR[0].uuid)
    assert caught.value.message.startswith(
        f"NVIDIA H200 stopped working while 00{victim}-x/p was recorded: "
    )
    there = [n for n in range(6) if (tree.root / f"kernels/{n:03}-x/evidence/p.h200.json").exists()]
    assert there == sorted(int(n) for n, uuid in begun.items() if uuid == FOUR[1].uuid)
    assert len(there) == 1
    # On the other GPU alone, the rest is done.
    one = machines(kit, 2)[1]
    report, heard = record(tree, kit, machine=one, request=request)
    assert report.succeeded
    assert len(report.recorded) == 6
    assert sum("run 1 of 1" in step for step in heard.steps) == 5
