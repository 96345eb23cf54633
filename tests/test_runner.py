"""One process run: nothing reaches the program, nothing it leaves behind stays."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from evidence import pipes, processes, runner
from evidence.errors import ToolchainError


def run(tmp_path: Path, *lines: str, **options) -> runner.RunResult:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    program.chmod(0o755)
    arguments = options.pop("arguments", ())
    return runner.run(runner.task(("./p", *arguments), {"p": program}, **options))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def dies(pid: int) -> bool:
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def test_a_run_that_passes(tmp_path):
    done = run(tmp_path, "echo 'GPU: fake'", "echo '  sum   12'", "echo note >&2")
    assert (done.exit_status, done.signal, done.timed_out, done.problems) == (0, None, False, ())
    assert done.stdout == ("GPU: fake", "  sum   12")
    assert done.stderr == ("note",)
    assert 0 < done.seconds < 5


def test_the_document_of_a_run(tmp_path):
    done = run(tmp_path, "echo out", "exit 3")
    assert done.document() == {
        "exit_status": 3, "signal": None, "timed_out": False, "seconds": round(done.seconds, 3),
        "stdout": ["out"], "stderr": [], "problems": [],
    }  # fmt: skip
    assert done.ended() == "ended with exit status 3"


def test_arguments_reach_the_program_as_words(tmp_path):
    done = run(
        tmp_path, 'echo "$0"', 'for word in "$@"; do echo "$word"; done', arguments=("a b", "*")
    )
    assert done.stdout == ("./p", "a b", "*")


def test_only_allowed_variables_reach_the_program(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    done = run(tmp_path, "env", environment={"CUDA_VISIBLE_DEVICES": "0"})
    names = {line.partition("=")[0] for line in done.stdout}
    shell = {"PWD", "OLDPWD", "_", "SHLVL"}
    assert names - shell <= {*runner.ALLOWED, *runner.FIXED, "HOME", "TMPDIR"}
    assert {"LC_ALL=C.UTF-8", "TZ=UTC", "NO_COLOR=1", "TERM=dumb"} <= set(done.stdout)
    assert "CUDA_VISIBLE_DEVICES=0" in done.stdout
    assert "HOME=<tmp>/home" in done.stdout


def test_the_folder_is_fresh_and_gone_afterwards(tmp_path):
    data = tmp_path / "data.bin"
    data.write_bytes(b"\x00\x01")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\npwd\nls -R\ntouch left-behind\n")
    program.chmod(0o755)
    task = runner.task(("./p",), {"p": program, "inputs/data.bin": data})
    first, second = runner.run(task), runner.run(task)
    assert first.stdout == ("<tmp>", ".:", "inputs", "p", "", "./inputs:", "data.bin")
    assert second.stdout == first.stdout
    assert not list(Path(tempfile.gettempdir()).glob(f"{runner.PREFIX}*/work/left-behind"))


def test_a_file_that_the_run_made_can_be_kept(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho made >log\n")
    program.chmod(0o755)
    kept = tmp_path / "kept"
    runner.run(runner.task(("./p",), {"p": program}, keep={"log": kept, "never": tmp_path / "no"}))
    assert kept.read_text() == "made\n"
    assert not (tmp_path / "no").exists()


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path):
    done = run(tmp_path, "sleep 300 &", "echo $!", "sleep 300", timeout=2)
    assert done.timed_out
    assert (done.exit_status, done.signal) == (None, None)
    assert done.ended() == "was killed after 2 s"
    assert done.problems == ()
    assert dies(int(done.stdout[0]))


def test_a_program_that_closes_its_pipes_and_hangs(tmp_path):
    done = run(tmp_path, "exec >&- 2>&-", "sleep 300", timeout=0.3)
    assert done.timed_out
    assert done.seconds < 5


def test_a_program_that_floods_stdout(tmp_path):
    done = run(tmp_path, "yes 0123456789", max_bytes=100_000, timeout=60)
    assert done.problems == ("printed more than 100000 bytes on stdout",)
    assert (done.exit_status, done.signal, done.timed_out) == (None, None, False)
    assert done.seconds < 30
    assert set(done.stdout) == {"0123456789"}
    assert len(done.stdout) < 2_000


def test_a_program_that_floods_stderr(tmp_path):
    done = run(tmp_path, "echo first", "yes >&2", max_bytes=1000, timeout=60)
    assert done.problems == ("printed more than 1000 bytes on stderr",)
    assert done.stdout == ("first",)


def test_both_pipes_are_read_at_once(tmp_path):
    # More on each than a pipe holds: reading one after the other would never end.
    lines = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789{}; i=$((i+1)); done"
    done = run(tmp_path, lines.format(" >&2"), lines.format(""), timeout=30)
    assert (len(done.stdout), len(done.stderr)) == (3000, 3000)
    assert done.exit_status == 0


def test_a_program_that_dies_by_a_signal(tmp_path):
    done = run(tmp_path, "echo before", "kill -SEGV $$")
    assert (done.exit_status, done.signal) == (None, "SIGSEGV")
    assert done.ended() == "died by SIGSEGV"
    assert done.stdout == ("before",)


def test_a_signal_without_a_name():
    assert processes.signal_name(42) == "signal 42"
    assert processes.signal_name(signal.SIGABRT) == "SIGABRT"


def test_invalid_utf8_is_escaped_and_a_problem(tmp_path):
    done = run(tmp_path, "echo fine", r"printf 'bad \377 byte\n'")
    assert done.stdout == ("fine", r"bad \xff byte")
    assert done.problems == ("printed byte 0xff, which is not UTF-8, on line 2 of stdout",)


def test_a_child_that_holds_the_pipe_is_found_and_killed(tmp_path):
    done = run(tmp_path, "sleep 300 &", "echo $!", timeout=60)
    assert done.problems == ("left a process running that held its output open",)
    assert done.exit_status == 0
    assert done.seconds < 5
    assert dies(int(done.stdout[0]))


def test_a_child_in_a_session_of_its_own_is_found_and_killed(tmp_path):
    done = run(tmp_path, "setsid sleep 300 &", "echo $!", "sleep 0.2", timeout=60)
    assert done.problems == ("left a process running that held its output open",)
    assert dies(int(done.stdout[0]))


def test_a_child_that_let_go_of_the_pipe_is_found_too(tmp_path):
    done = run(tmp_path, "setsid sleep 300 >/dev/null 2>&1 &", "echo $!", "sleep 0.2", timeout=60)
    assert done.problems == ("left a process running",)
    assert dies(int(done.stdout[0]))


def test_a_program_that_cannot_be_started(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(ToolchainError) as caught:
        runner.run(runner.task(("./p",), {"p": program}))
    assert caught.value.message == "cannot run p: No such file or directory"


def test_an_interrupted_run_leaves_no_process(tmp_path, monkeypatch):
    seen = []

    def interrupted(reader, selector):
        seen.append(reader.process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipes.Reader, "_pump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "sleep 300")
    assert dies(seen[0])


def test_no_core_is_dumped(tmp_path):
    done = run(tmp_path, "sleep 0.2", "ulimit -c")
    assert done.stdout == ("0",)


def test_a_path_printed_by_the_program_is_not_this_machines(tmp_path):
    done = run(tmp_path, 'echo "cannot open $PWD/data.bin"', 'echo "$TMPDIR/x" >&2')
    assert done.stdout == ("cannot open <tmp>/data.bin",)
    assert done.stderr == ("<tmp>/home/x",)


def test_the_environment_of_this_process_is_not_touched(tmp_path):
    before = dict(os.environ)
    run(tmp_path, "true")
    assert dict(os.environ) == before


def sleeper(folder: Path) -> subprocess.Popen:
    environment = {"HOME": f"{folder}/home", "PATH": os.environ["PATH"]}
    return subprocess.Popen(["sleep", "300"], env=environment)


def test_what_a_killed_recorder_left_running_is_ended(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    orphaned = tmp_path / f"run-{gone.pid}-abc"
    other = tmp_path / f"run-{os.getpid()}-abc"
    unnamed = tmp_path / "run-abc"
    for folder in (orphaned, other, unnamed):
        folder.mkdir()
    children = [sleeper(folder) for folder in (orphaned, other, unnamed)]
    assert processes.kill_orphans(tmp_path, "run-") == 1
    assert children[0].wait(timeout=5) == -signal.SIGKILL
    assert [child.poll() for child in children[1:]] == [None, None]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, unnamed.name])
    for child in children[1:]:
        child.kill()
        child.wait()


def test_a_runs_folder_is_named_after_this_process(tmp_path, monkeypatch):
    names = []
    real = runner.tempfile.mkdtemp

    def mkdtemp(prefix):
        names.append(prefix)
        return real(prefix=prefix)

    monkeypatch.setattr(runner.tempfile, "mkdtemp", mkdtemp)
    run(tmp_path, "true")
    assert names == [f"evidence-run-{os.getpid()}-"]
