"""One recording at a time on a GPU: the lock says who holds it, and no crash keeps it."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import evidence
import fake_cuda
from evidence import locking
from evidence.device import Device
from evidence.errors import ToolchainError
from recording import record, stored

HOLDER = """\
import sys, time
sys.path[:0] = {paths!r}
sys.argv = ["/somewhere/evidence", "record", "a b"]
from evidence import locking
from evidence.device import Device
with locking.reserved([Device(*{device!r})]):
    print("held", flush=True)
    time.sleep(100)
"""


def card(uuid: str) -> Device:
    return Device("NVIDIA H200", "9.0", "580.1", 143771, 132, f"{fake_cuda.H200.uuid}-{uuid}")


@contextlib.contextmanager
def holder(device: Device) -> Iterator[int]:
    """Hold a GPU in another process, which is killed at the end; yield its number."""
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    fields = (device.name, "9.0", "580.1", 1, 1, device.uuid)
    script = HOLDER.format(paths=paths, device=fields)
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child.pid
        finally:
            child.kill()


@pytest.fixture
def device():
    made = card("lock")
    yield made
    locking.path_of(made).unlink(missing_ok=True)


def refusal(device: Device) -> str:
    with pytest.raises(ToolchainError) as caught, locking.reserved([device]):
        pass
    return str(caught.value)


def test_a_second_recording_is_told_who_holds_the_gpu(tree, tmp_path, device):
    tree.program(text=fake_cuda.source("echo x"))
    kit = fake_cuda.install(tmp_path / "cuda")
    with holder(device) as pid, pytest.raises(ToolchainError) as caught:
        record(tree, kit, gpu=fake_cuda.Gpu(device))
    since = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
    assert re.fullmatch(
        rf"NVIDIA H200 is held by another recording \(process {pid} on "
        rf"{re.escape(socket.gethostname())} since {since}: evidence record 'a b'\); "
        r"times measured beside it would be false "
        r"— wait until it is done: the same command with --wait",
        str(caught.value),
    ), str(caught.value)


def test_a_holder_that_was_killed_keeps_nobody_waiting(tree, tmp_path, device):
    with holder(device) as pid:
        pass
    assert str(pid) in locking.path_of(device).read_text()
    tree.program(text=fake_cuda.source("echo x"))
    record(tree, fake_cuda.install(tmp_path / "cuda"), gpu=fake_cuda.Gpu(device))
    assert stored(tree)["outcome"]["passed"]
    assert locking.path_of(device).read_text() == ""


def test_waiting_until_the_other_is_done(device):
    said: list[str] = []
    there: list[bool] = []
    got = threading.Event()

    def wait() -> None:
        with locking.reserved([device], wait=True, say=said.append):
            there.append(locking.path_of(device).exists())
            got.set()

    thread = threading.Thread(target=wait)
    with holder(device) as pid:
        thread.start()
        end = time.monotonic() + 20
        while not said and time.monotonic() < end:
            time.sleep(0.01)
        assert said[0].startswith(
            f"waiting for NVIDIA H200, held by another recording (process {pid} on "
        )
        assert not got.wait(0.2)
        # Tidied away meanwhile: the lock that is got must be of the file that is there.
        locking.path_of(device).unlink()
    assert got.wait(20)
    thread.join()
    assert there == [True]


def test_gpus_are_locked_one_by_one(device):
    other = card("other")
    with locking.reserved([device]), locking.reserved([other]):
        assert "is held by" in refusal(device)
    # Of several, all or none: what was already locked is let go of.
    with locking.reserved([other]):
        with pytest.raises(ToolchainError), locking.reserved([device, other]):
            pass
        with locking.reserved([device]):
            pass
    locking.path_of(other).unlink()


def test_what_the_file_says_is_not_believed(device):
    path = locking.path_of(device)
    with locking.reserved([device]):
        about = json.loads(path.read_text())
        assert about["pid"] == os.getpid()
        path.write_text(json.dumps({**about, "command": "\x1b[2Jevil\nline" + "x" * 900}))
        told = refusal(device)
        assert "?[2Jevil?line" in told
        assert len(told) < 500
        path.write_text("no JSON")
        assert refusal(device).startswith("NVIDIA H200 is held by another recording; times")


def test_a_lock_file_that_is_removed_locks_nothing(device):
    with locking.reserved([device]):
        locking.path_of(device).unlink()
        with locking.reserved([device]):
            assert locking.path_of(device).exists()
            assert "is held by" in refusal(device)


def test_the_folder_does_not_depend_on_the_environment(device, monkeypatch, tmp_path):
    before = locking.path_of(device)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert locking.path_of(device) == before


def test_a_lock_that_is_no_file(device, tmp_path):
    path = locking.path_of(device)
    path.symlink_to(tmp_path / "elsewhere")
    assert refusal(device) == (
        f"{path}:1: the lock of the GPU cannot be opened: Too many levels of symbolic links"
        f" — remove it: rm {path}"
    )
    assert not (tmp_path / "elsewhere").exists()


def test_another_user_can_lock_the_same_file(device):
    with locking.reserved([device]):
        pass
    path = locking.path_of(device)
    assert path.stat().st_mode & 0o777 == 0o666
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    path.chmod(0o644)  # made by an older version, or under another umask
    script = (
        f"import os, sys; sys.path[:0] = [{str(Path(evidence.__file__).parent.parent)!r}]\n"
        "from evidence import locking; from evidence.device import Device\n"
        f"d = Device('NVIDIA H200', '9.0', '1', 1, 1, {device.uuid!r})\n"
        "from evidence.errors import ToolchainError\n"
        "os.setuid(65534)\n"
        "try:\n"
        "    with locking.reserved([d]): print('got it')\n"
        "except ToolchainError as error: print(error.message)\n"
    )

    def other() -> str:
        words = [sys.executable, "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert other() == "got it\n"
    with locking.reserved([device]):
        assert other().startswith("NVIDIA H200 is held by another recording (process ")
