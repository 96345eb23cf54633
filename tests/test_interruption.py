"""Recordings that are interrupted: what is done is not done again, nothing goes on running.

kill -9 at every single step is in test_faults; here a child kills itself at the n-th
moment at which it opens, renames, removes or makes a file, or starts a process.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import evidence
import fake_cuda
from evidence import processes, runner, sinks, store
from evidence.trial import Request
from recording import path_of, record, stored

PROGRAMS = ("001-a", "002-b")

CHILD = """\
import os, signal, sys
sys.path[:0] = {paths!r}
from pathlib import Path
import conftest, fake_cuda, jsonschema, recording
from evidence import accept, machine
from evidence.trial import Request

tree, kit = conftest.Tree(Path({root!r})), fake_cuda.Toolkit(Path({home!r}))
limit, what, target = int(sys.argv[1]), sys.argv[2], Path({target!r})
EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.chmod", "os.rmdir", "subprocess.Popen", "shutil.rmtree")
count = 0

def hook(event, args):
    global count
    opened = event == "open" and isinstance(args[0], str) and not args[0].endswith((".py", ".pyc", ".so"))
    if opened and args[0].startswith(("/proc", "/sys")):
        return
    if opened or event in EVENTS:
        count += 1
        if count == limit:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
if what == "accept":
    report = accept.accept(tree.load(), [target])
    assert not report.refused, report
else:
    request = Request(runs=1, sanitize=False)
    bundle = target if what == "bundle" else None
    recording.record(tree, kit, request=request, everything=True, target=bundle)
print(count)
"""


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda", tools=False)


def write_programs(tree, word: str) -> None:
    for folder in PROGRAMS:
        tree.program(folder, "p", fake_cuda.source(f"echo {word}", stem="p"))


class Victim:
    """Runs the child again and again from the same beginning."""

    def __init__(self, tree, kit, target: Path) -> None:
        self.tree, self.target = tree, target
        paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
        self.script = CHILD.format(
            paths=paths, root=str(tree.root), home=str(kit.home), target=str(target)
        )
        self.environ = {**os.environ, **kit.environ}
        self.old = {folder: path_of(tree, folder, "p").read_bytes() for folder in PROGRAMS}

    def run(self, what: str, limit: int = 0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", self.script, str(limit), what], env=self.environ,
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip

    def reset(self) -> None:
        # What the last child left would move the points of the next one.
        processes.kill_orphans(Path(tempfile.gettempdir()), runner.PREFIX)
        for folder, data in self.old.items():
            path_of(self.tree, folder, "p").write_bytes(data)
            for left in path_of(self.tree, folder, "p").parent.glob(".*"):
                left.unlink()
        subprocess.run(
            ["rm", "-rf", self.tree.root / sinks.STAGING, sinks.partial_of(self.target)],
            check=True,
        )

    def words(self) -> list[str]:
        """Return what each stored record's program printed; reading verifies it."""
        return [stored(self.tree, f"{folder}/p")["runs"][0]["stdout"][0] for folder in PROGRAMS]


@pytest.fixture
def victim(tree, kit, tmp_path) -> Victim:
    write_programs(tree, "old")
    record(tree, kit)
    write_programs(tree, "new")
    return Victim(tree, kit, tmp_path / "out.zip")


def test_a_rerun_after_a_kill_does_not_do_again_what_was_done(victim, tree, kit):
    total = int(victim.run("record").stdout)
    victim.reset()
    limits = iter(range(total - 2, 0, -2))
    while True:
        victim.run("record", next(limits))
        staged = list((tree.root / sinks.STAGING).glob("*.json"))
        if victim.words() == ["new", "old"] and len(staged) == 1:
            break
        victim.reset()
    request = Request(runs=1, sanitize=False)
    _, heard = record(tree, kit, request=request, everything=True)
    assert [step for step in heard.steps if "run 1" in step] == ["002-b/p: run 1 of 1"]
    assert victim.words() == ["new", "new"]


def test_a_killed_recorder_leaves_no_program_running(tree, kit, tmp_path):
    """A terminal's Ctrl-C ends the recorder; its program must end too."""
    flag = tmp_path / "pid"
    tree.program(text=fake_cuda.source(f"echo $$ >{flag}", "sleep 300"))
    script = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]!r}\nfrom pathlib import Path\n"
        "import conftest, fake_cuda, recording\n"
        f"recording.record(conftest.Tree(Path({str(tree.root)!r})), fake_cuda.Toolkit(Path({str(kit.home)!r})))\n"
    )  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, **kit.environ},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (flag.is_file() and flag.read_text().strip()):
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    child.wait(timeout=20)
    pid = int(flag.read_text())
    end = time.monotonic() + 20
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not runs(pid)


def runs(pid: int) -> bool:
    """Return whether a process is there and is no zombie, of which the environment is empty."""
    try:
        return bool(Path(f"/proc/{pid}/environ").read_bytes())
    except OSError:
        return False


@pytest.fixture
def tiny_disk(tree):
    """The folder of one program's evidence, on a disk of 8 KiB."""
    folder = path_of(tree, "001-a", "p").parent
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be made here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(tree, kit, tiny_disk):
    write_programs(tree, "x")
    filler = tiny_disk / "filler"
    filler.write_bytes(b"0" * 8192)
    with pytest.raises(store.RecordError) as caught:
        record(tree, kit)
    assert caught.value.message == (
        "cannot be written: No space left on device; what stood there is unchanged"
    )
    assert sorted(path.name for path in tiny_disk.iterdir()) == ["filler"]
    filler.unlink()
    report, heard = record(tree, kit)
    assert report.succeeded
    assert heard.lines[1] == "continuing an interrupted recording: 1 of 2 done"
    assert stored(tree, "001-a/p")["outcome"]["passed"]
