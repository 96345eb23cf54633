"""A stranger's program: what it tries, and that it does not come through.

Every attack is carried out for real, in the sandbox that `--untrusted` uses.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evidence import runner, sandbox, seccomp
from evidence.errors import ToolchainError
from evidence.sandbox import Limits

if TYPE_CHECKING:
    from collections.abc import Callable


def _why_not() -> str:
    try:
        sandbox.find()
    except ToolchainError as error:
        return error.message
    return ""


WHY_NOT = _why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
MIB = 2**20


def box(**limits) -> sandbox.Sandbox:
    return sandbox.find(limits=Limits(**limits))


def run(tmp_path: Path, *lines: str, inside=None, **options) -> runner.RunResult:
    """Run a shell script; in the sandbox unless told otherwise."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    program.chmod(0o700)
    todo = runner.task(("./p",), {"p": program}, **options)
    return runner.run(todo, box() if inside is None else inside or None)


def python(tmp_path: Path, *lines: str, inside=None, **options) -> runner.RunResult:
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines) + "\n")
    todo = runner.task((sys.executable, "p.py"), {"p.py": program}, **options)
    return runner.run(todo, box() if inside is None else inside or None)


# What a program may reach.


def test_what_a_program_needs_is_there(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("hello")
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\ncat data/d.txt; pwd; id -u; echo x >new; cat new; echo note >&2\n"
    )
    program.chmod(0o700)
    todo = runner.task(("./p", "a b"), {"p": program, "data/d.txt": data})
    done = runner.run(todo, box())
    assert (done.exit_status, done.signal, done.timed_out, done.problems) == (0, None, False, ())
    assert done.stdout == ("hello<tmp>", "65534", "x")
    assert done.stderr == ("note",)


def test_how_a_program_ends(tmp_path):
    assert run(tmp_path, "exit 3").exit_status == 3
    assert run(tmp_path, "exit 255").exit_status == 255
    died = run(tmp_path, "kill -SEGV $$")
    assert (died.exit_status, died.signal) == (None, "SIGSEGV")
    slow = run(tmp_path, "sleep 60", timeout=0.5)
    assert (slow.timed_out, slow.exit_status) == (True, None)


def test_python_and_its_packages_are_there(tmp_path):
    done = python(tmp_path, "import click, os", "print(os.getuid())")
    assert (done.stdout, done.stderr) == (("65534",), ())


@pytest.mark.parametrize("inside", [None, False])
def test_reading_files_outside(tmp_path, inside):
    secret = tmp_path / "id_ed25519"
    secret.write_text("the key")
    done = run(tmp_path, f"cat {secret} /etc/passwd; ls {Path.home()}", inside=inside)
    found = "the key" in "".join(done.stdout)
    assert found is (inside is False)
    assert any("root:" in line for line in done.stdout) is (inside is False)
    assert any(secret.name in line and "No such file" in line for line in done.stderr) is (
        not found
    )


@pytest.mark.parametrize("inside", [None, False])
def test_reading_the_environment_of_other_processes(tmp_path, inside):
    with subprocess.Popen(["sleep", "60"], env={"TOKEN": "secret-of-ci"}) as other:
        lines = (f"tr '\\0' ' ' </proc/{other.pid}/environ", "cat /proc/[0-9]*/environ")
        done = run(tmp_path, *lines, inside=inside)
        other.kill()
    assert ("secret-of-ci" in "".join(done.stdout)) is (inside is False)


def test_the_environment_holds_nothing_of_the_recorder(tmp_path):
    # The real environment of a process, not what was changed in it since it began.
    code = (
        "from evidence import runner, sandbox; from pathlib import Path; import sys\n"
        "todo = runner.task(('./p',), {'p': Path(sys.argv[1])})\n"
        "print('\\n'.join(runner.run(todo, sandbox.find()).stdout))"
    )
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ncat /proc/1/environ /proc/self/environ\nexport -p\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, program], env={**os.environ, "TOKEN": "secret-of-ci"},
        capture_output=True, check=True, encoding="utf-8",
    )  # fmt: skip
    assert "TMPDIR" in done.stdout
    assert "secret-of-ci" not in done.stdout


@pytest.mark.parametrize("inside", [None, False])
def test_writing_into_the_tree(tmp_path, inside):
    tree = tmp_path / "tree"
    tree.mkdir()
    tree.chmod(0o777)
    run(tmp_path, f"echo x >{tree}/new; touch /usr/lib/evil-of-test", inside=inside)
    assert (tree / "new").exists() is (inside is False)
    if inside is False:
        Path("/usr/lib/evil-of-test").unlink(missing_ok=True)
    assert not Path("/usr/lib/evil-of-test").exists()


@pytest.mark.parametrize("inside", [None, False])
@pytest.mark.parametrize("kind", ["tcp", "abstract"])
def test_network_access(tmp_path, inside, kind):
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    with socket.socket(family) as server:
        server.bind(("127.0.0.1", 0) if kind == "tcp" else f"\0evidence-test-{os.getpid()}")
        server.listen()
        done = python(
            tmp_path,
            "import socket",
            f"s = socket.socket({int(family)})",
            f"s.connect({server.getsockname()!r})",
            "print('connected')",
            inside=inside,
        )
    assert (done.stdout == ("connected",)) is (inside is False)
    assert ("Connection refused" in done.stderr[-1] if done.stderr else False) is (inside is None)


def test_no_name_is_resolved_and_no_host_is_reached(tmp_path):
    done = python(
        tmp_path,
        "import socket",
        "try: socket.create_connection(('192.0.2.1', 80), 5)",
        "except OSError as error: print(error)",
        "print([name for _, name in socket.if_nameindex()])",
    )
    assert done.stdout == ("[Errno 101] Network is unreachable", "['lo']")


# What a program may use up.


@pytest.mark.parametrize("inside", [True, False])
def test_a_fork_bomb(tmp_path, inside):
    done = python(
        tmp_path,
        "import os, time",
        "made = 0",
        "try:",
        "    for _ in range(200):",
        "        if os.fork() == 0:",
        "            time.sleep(60)",
        "            os._exit(0)",
        "        made += 1",
        "except OSError as error:",
        "    print(error.strerror)",
        "print(made, flush=True)",
        "os.kill(os.getpid(), 9)" if inside else "os.killpg(0, 9)",
        inside=box(processes=100) if inside else False,
    )
    assert done.stdout[-1] == "200" if not inside else int(done.stdout[-1]) < 100
    assert (done.stdout[0] == "Resource temporarily unavailable") is inside


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("place", ["here", "/dev/shm/evidence-of-test", "/tmp/evidence-of-test"])
def test_filling_the_disk(tmp_path, inside, place):
    lines = (f"head -c {24 * MIB} /dev/zero >{place} && echo filled", f"rm -f {place}")
    limits = box(space=8 * MIB, shared=8 * MIB) if inside else False
    done = run(tmp_path, *lines, inside=limits)
    assert (done.stdout == ("filled",)) is not inside
    assert any("No space left on device" in line for line in done.stderr) is inside


def test_no_other_place_can_be_filled(tmp_path):
    done = run(
        tmp_path, "find / -xdev -writable -type d 2>/dev/null; find /dev /tmp -writable -type d"
    )
    assert set(done.stdout) == {"/dev/shm", "/tmp", "<tmp>"}


@pytest.mark.parametrize("inside", [True, False])
def test_a_namespace_of_its_own_would_have_folders_without_a_size(tmp_path, inside):
    mount = f"mount -t tmpfs none /mnt && head -c {24 * MIB} /dev/zero >/mnt/x && echo filled"
    done = run(
        tmp_path, f"unshare --user --map-root-user --mount sh -c '{mount}'",
        inside=box(space=8 * MIB) if inside else False,
    )  # fmt: skip
    assert (done.stdout == ("filled",)) is not inside
    assert (done.stderr == ("unshare: unshare failed: Operation not permitted",)) is inside


@pytest.mark.parametrize("call", ["clone", "clone3", "keyctl", "io_uring_setup", "x32"])
def test_calls_that_no_program_gets(tmp_path, call):
    number = {"clone": 56, "clone3": 435, "keyctl": 250, "io_uring_setup": 425, "x32": 1 << 30}
    if platform.machine() == "aarch64":
        number |= {"clone": 220, "keyctl": 219}
    lines = (
        "import ctypes",
        "c = ctypes.CDLL(None, use_errno=True)",
        f"if c.syscall({number[call]}, 0x10000000, 0, 0, 0, 0) == 0: c._exit(9)",
        "print(ctypes.get_errno())",
    )
    expected = str(errno.ENOSYS if call in ("clone3", "x32") else errno.EPERM)
    assert python(tmp_path, *lines).stdout == (expected,)
    assert python(tmp_path, *lines, inside=False).stdout != (expected,) or call == "x32"


def test_a_processor_without_a_filter():
    with pytest.raises(ToolchainError) as caught:
        seccomp.program("riscv64")
    assert str(caught.value) == (
        "no sandbox on this machine: it is riscv64, known are x86_64, aarch64"
        " — record on another machine"
    )


def test_one_large_file(tmp_path):
    done = run(
        tmp_path, f"head -c {24 * MIB} /dev/zero >x && echo filled", inside=box(file=8 * MIB)
    )
    assert done.stdout == ()


HOG = ("import time", f"x = bytearray({200 * MIB})", "print(len(x), flush=True)", "time.sleep(1)")


@pytest.mark.parametrize("inside", [True, False])
def test_the_memory_of_one_process(tmp_path, inside):
    done = python(tmp_path, *HOG, inside=box(memory=128 * MIB) if inside else False)
    assert (done.stdout == (str(200 * MIB),)) is not inside
    assert (done.stderr[-1:] == ("MemoryError",)) is inside


@pytest.mark.parametrize("silent", [False, True])
def test_the_memory_of_many_processes(tmp_path, silent):
    lines = (
        "import os, time",
        *(("os.close(1)", "os.close(2)") if silent else ()),
        "for _ in range(4):",
        "    if os.fork() == 0: break",
        f"x = bytearray({60 * MIB})",
        "time.sleep(20)",
    )
    done = python(tmp_path, *lines, inside=box(memory=160 * MIB))
    assert done.problems == ("used more than 160 MiB of memory",)
    assert done.seconds < 10
    within = python(tmp_path, *lines[:-1], inside=box(memory=1024 * MIB))
    assert (within.exit_status, within.problems) == (0, ())


def test_no_plan_gives_itself_more_time_and_output(tmp_path):
    found = box(seconds=0.5, output=1000)
    slow = run(tmp_path, "sleep 60", inside=found, timeout=9999)
    assert slow.timed_out
    flood = run(tmp_path, "yes", inside=found, max_bytes=10**9)
    assert flood.problems == ("printed more than 1000 bytes on stdout",)


ESCAPE = "setsid env -i sleep 4{} </dev/null >/dev/null 2>&1 &"


@pytest.mark.parametrize("inside", [None, False])
@pytest.mark.parametrize("waits", [False, True])
def test_escaping_the_timeout_with_setsid(tmp_path, inside, waits):
    seconds = f"{os.getpid()}{int(waits)}"
    lines = (ESCAPE.format(seconds), "sleep 0.2", *(("sleep 60",) if waits else ()))
    done = run(tmp_path, *lines, inside=inside, timeout=1.0)
    assert done.timed_out is waits
    left = _sleeping(f"4{seconds}")
    # Without a mark in its environment the recorder cannot tell that it is the program's.
    assert bool(left) is (inside is False)
    for pid in left:
        os.kill(pid, 9)


def _sleeping(argument: str) -> list[int]:
    time.sleep(0.2)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", argument.encode()]:
            found.append(int(entry.name))
    return found


def test_a_recorder_that_is_killed_leaves_nothing(tmp_path):
    seconds = f"5{os.getpid()}"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nsetsid env -i sleep {seconds} &\nexec sleep {seconds}\n")
    program.chmod(0o755)
    code = (
        "from evidence import runner, sandbox; from pathlib import Path; import sys\n"
        "runner.run(runner.task(('./p',), {'p': Path(sys.argv[1])}), sandbox.find())"
    )
    with subprocess.Popen([sys.executable, "-c", code, program]) as recorder:
        end = time.monotonic() + 20
        while len(_sleeping(seconds)) < 2 and time.monotonic() < end:
            pass
        assert len(_sleeping(seconds)) == 2
        recorder.kill()
    assert _sleeping(seconds) == []


@pytest.mark.parametrize("inside", [None, False])
def test_a_kept_file_that_is_made_a_link(tmp_path, inside):
    secret, kept = tmp_path / "secret", tmp_path / "kept"
    secret.write_text("the key")
    done = run(
        tmp_path, f"rm -f log; ln -s {secret} log; echo mine >log.2; mv log.2 log; true",
        f"ln -sf {secret} log", inside=inside, keep={"log": kept},
    )  # fmt: skip
    assert (kept.exists() and kept.read_text() == "the key") is (inside is False)
    assert bool(done.stderr) is (inside is None)


def test_a_kept_file_comes_back(tmp_path):
    kept = tmp_path / "kept"
    run(tmp_path, "echo metric >log", keep={"log": kept})
    assert kept.read_text() == "metric\n"


# Who starts it.


def as_user(tmp_path: Path, work: Callable[[], list[str]]) -> list[str]:
    """Return what a function returns in a process of an ordinary user."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            os.setgroups([])
            os.setgid(1000)
            os.setuid(1000)
            os.chdir("/")
            os.environ["TOKEN"] = "secret-of-ci"
            made = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            made = [repr(error)]
        os.write(write, json.dumps(made).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        lines: list[str] = json.loads(stream.read())
    os.waitpid(child, 0)
    if "amespace" in lines[0]:
        pytest.skip(f"users make no namespaces here: {lines[0]}")
    return lines


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about becoming another user")
WRITABLE = "find / -path /proc -prune -o -type d -writable -print 2>/dev/null"


@needs_root
def test_an_ordinary_user_has_the_same_sandbox(tmp_path):
    program = tmp_path / "p"
    program.write_text(
        f"#!/bin/sh\nid -u; touch /usr/x 2>&1; ls /; {WRITABLE}; cat /proc/1/environ /etc/passwd 2>&1\n"
    )
    program.chmod(0o755)
    todo = runner.task(("./p",), {"p": program})
    lines = as_user(tmp_path, lambda: list(runner.run(todo, sandbox.find()).stdout))
    assert lines[:2] == ["65534", "touch: cannot touch '/usr/x': Read-only file system"]
    assert not {"home", "var", "run"} & set(lines)
    folders = {line for line in lines[2:] if line.startswith(("/", "<tmp>"))}
    folders = {folder for folder in folders if not folder.startswith("/tmp/")}
    assert folders == {"/dev/pts", "/dev/shm", "/tmp", "<tmp>"}  # the first holds no files
    assert "secret-of-ci" not in "".join(lines)
    assert lines[-1].endswith("cat: /etc/passwd: No such file or directory")


@needs_root
def test_a_compiler_that_an_ordinary_user_starts(tmp_path):
    root = tmp_path / "project"
    folder, out = root / "kernels/001-add", root / ".evidence/build"
    for path in (folder, out, root / ".git"):
        path.mkdir(parents=True)
    for path in (root, *root.rglob("*")):
        os.chown(path, 1000, 1000)
    script = f"id -u; cat /proc/1/environ /proc/self/environ; echo; {WRITABLE}; echo done"

    def compiled() -> list[str]:
        words = sandbox.find().step(
            root, "kernels/001-add", ".evidence/build/add", ("/bin/sh", "-c", script)
        )
        return subprocess.check_output(words, encoding="utf-8").splitlines()

    lines = as_user(tmp_path, compiled)
    assert (lines[0], lines[-1]) == ("65534", "done")
    assert "secret-of-ci" not in "".join(lines)
    folders = {line for line in lines[2:] if line.startswith("/")}
    assert {str(out), "/tmp", "/dev/shm"} <= folders
    assert not {str(root), str(folder), str(root / ".git"), "/", "/dev"} & folders
