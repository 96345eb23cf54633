"""check, list, values, diff and page building need nothing that only POSIX has."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What Windows does not have. `os` is stripped of its POSIX-only calls, too.
WITHOUT = """
import os, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"):
    sys.modules[name] = None
for name in ("fork", "killpg", "getuid", "geteuid", "setsid", "wait4", "waitid", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM"):
    if hasattr(signal, name):
        delattr(signal, name)
from evidence.cli import main
main(sys.argv[1:])
"""

PAGE = """\
---
programs: [001-add]
values:
  t: case-n-256/time
---

# Day 1

It took [= t ].

/// code | add.cu:greeting
///

/// output | 001-add
///

/// claim
    expect: t > 0
Time passes.
///
"""


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, "--project", str(root), *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def whole(tree):
    tree.program()
    tree.record()
    tree.write("docs/days/001-add.md", PAGE)
    assert run(tree.root, "readme").returncode == 0
    run(tree.root, "reviewed", "--all")
    return tree


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("list",),
        ("values", "001-add"),
        ("diff", "--help"),
        ("prune",),
        ("doctor", "--json"),
    ],
)
def test_commands_without_posix(whole, arguments):
    done = run(whole.root, *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    if arguments[0] != "doctor":
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_difference_without_posix(whole):
    path = "kernels/001-add/evidence/add.h200.json"
    done = run(whole.root, "diff", str(whole.root / path), str(whole.root / path))
    assert (done.returncode, done.stderr) == (0, "")


def test_record_says_that_it_needs_linux_or_a_gpu_and_leaves_no_traceback(whole):
    done = run(whole.root, "record", "001-add")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("evidence: ")


def test_a_checkout_with_crlf_is_as_fresh_as_one_with_lf(whole):
    for path in whole.root.rglob("*"):
        if path.is_file() and path.suffix in (".cu", ".json", ".md", ".toml"):
            data = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            path.write_bytes(data)
    done = run(whole.root, "check")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith(": nothing fails\n")
