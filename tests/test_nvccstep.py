"""One compile step: its report, its depfile, its exit status."""

import hashlib
import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import nvccstep


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "kernels" / "001 add"
    folder.mkdir(parents=True)
    (folder / "a.cu").write_bytes(b"code\r\n")
    (folder / "b.cuh").write_text("header\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def step(root, script: str, *, must_fail=False) -> tuple[int, dict]:
    depfile = os.path.relpath(root / "out" / "a.d", root / "kernels" / "001 add")
    command = [sys.executable, "-c", script, depfile]
    status = nvccstep.run(
        str(root), "kernels/001 add", "a.cu", "out/a", command, must_fail=must_fail
    )
    return status, json.loads((root / "out" / "a.json").read_text())


GOOD = r"""
import sys
print("ptxas info : x")
print("to stderr", file=sys.stderr)
open("../../out/a", "w").write("binary")
open(sys.argv[1], "w").write("./out : a.cu \\\n    /usr/include/stdio.h \\\n    b.cuh\n")
"""


def test_a_step_keeps_what_the_compiler_said(root):
    status, report = step(root, GOOD)
    assert status == 0
    assert report["exit_status"] == 0
    assert report["seconds"] > 0
    assert sorted(report["output"]) == ["ptxas info : x", "to stderr"]


def test_a_step_notes_the_hash_of_every_file_of_the_project(root):
    _, report = step(root, GOOD)
    assert report["files"] == {
        "a.cu": hashlib.sha256(b"code\n").hexdigest(),
        "b.cuh": hashlib.sha256(b"header\n").hexdigest(),
    }


def test_the_depfile_names_only_the_projects_files_as_ninja_sees_them(root):
    step(root, GOOD)
    text = (root / "out" / "a.d").read_text()
    assert text == "out/a: kernels/001\\ add/a.cu kernels/001\\ add/b.cuh\n"


def test_a_step_that_fails_leaves_no_output(root):
    step(root, GOOD)
    status, report = step(root, "print('a.cu(3): error: no'); raise SystemExit(2)")
    assert (status, report["exit_status"]) == (2, 2)
    assert report["output"] == ["a.cu(3): error: no"]
    assert not (root / "out" / "a").exists()


def test_what_must_fail_and_does_leaves_a_sign(root):
    status, report = step(root, "raise SystemExit(2)", must_fail=True)
    assert (status, report["exit_status"]) == (0, 2)
    assert (root / "out" / "a").read_text() == ""


def test_what_must_fail_and_does_not_is_a_failure(root):
    status, report = step(root, GOOD, must_fail=True)
    assert (status, report["exit_status"]) == (1, 0)
    assert not (root / "out" / "a").exists()


def test_a_compiler_that_is_not_there(root):
    status = nvccstep.run(
        str(root), "kernels/001 add", "a.cu", "out/a", ["/no/nvcc"], must_fail=True
    )
    report = json.loads((root / "out" / "a.json").read_text())
    assert (status, report["exit_status"]) == (1, 127)
    assert report["output"] == ["/no/nvcc: No such file or directory"]


def test_a_compiler_that_was_killed_proves_no_error(root):
    status, report = step(root, "import os; os.kill(os.getpid(), 9)", must_fail=True)
    assert (status, report["exit_status"]) == (1, -9)


NAMES = st.text(
    alphabet=st.characters(exclude_characters="\n\r\\\0\t", exclude_categories=("Z", "C")),
    min_size=1,
)


@given(st.lists(NAMES.map(lambda n: f"a {n}"), max_size=5))
def test_a_depfile_is_read_back(inputs):
    assert nvccstep.names(nvccstep.render("out", inputs)) == inputs
