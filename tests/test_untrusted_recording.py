"""Recording a stranger's programs: the whole way, from the command to the page."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import markdown
import pytest

import evidence
import fake_cuda
from evidence import (
    accept,
    bundle,
    machine,
    notebookrun,
    notebooks,
    recorder,
    sandbox,
    sinks,
    staging,
    store,
    toolchain,
    untrusted,
)
from evidence.errors import ToolchainError
from evidence.pages.extension import EvidenceExtension
from evidence.trial import Request
from recording import ORIGIN, Heard, path_of, record, stored
from test_recorder import CLI


def _why_not() -> str:
    try:
        sandbox.find()
    except ToolchainError as error:
        return error.message
    return ""


WHY_NOT = _why_not()
needs_sandbox = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


@pytest.fixture
def here(kit) -> machine.Machine:
    """The fake GPU's machine, everything on it in a sandbox."""
    probed = machine.probe(fake_cuda.Gpu(), kit.environ)
    return untrusted.prepare(probed)


def bundled(target: Path) -> dict:
    """Return the record of a bundle that holds one."""
    return json.loads(bundle.read(target)[0].data)


def command(tree, kit, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    return subprocess.run(
        [sys.executable, "-c", CLI.format(paths=paths), "--project", str(tree.root), *words],
        env={**kit.environ, "PYTHONWARNINGS": "error", **environ}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


# What is recorded.


@needs_sandbox
def test_a_record_says_which_isolation_was_in_force(tree, kit, here, tmp_path):
    tree.program(
        text=fake_cuda.source(
            "#pragma kernel addKernel 40 128", "#pragma launch addKernel 1 bytes=5",
            "echo 'Result'", "echo '  sum   12.5'",
        )
    )  # fmt: skip
    tree.write("kernels/001-add/evidence.toml", '[add.profile]\nmetrics = ["bytes"]\n')
    target = tmp_path / "out.zip"
    report, _ = record(tree, kit, machine=here, target=target)
    assert report.succeeded
    inside = bundled(target)
    assert inside["recorded"]["isolation"] == f"bubblewrap {here.sandbox.version}"
    record(tree, kit)
    outside = stored(tree)
    assert outside["recorded"]["isolation"] == "none"
    # Nothing else of the record, and not its key, depends on it.
    for data in (inside, outside):
        del data["body"], data["recorded"]["isolation"], data["build"]["seconds"]
        for run in (*data["runs"], *data["sanitizers"].values()):
            del run["seconds"]
    assert inside == outside
    assert inside["profile"]["status"] == "recorded"


@needs_sandbox
def test_python_programs_and_mutants(tree, kit, here, tmp_path):
    tree.write(
        "kernels/002-py/p.py", "# Run: python3 p.py\nimport q, os\nprint(q.X, os.getuid())\n"
    )
    tree.write("kernels/002-py/q.py", "X = 5\n")
    text = fake_cuda.source("test 12 = 12 || exit 1", "echo ok")
    tree.program(text=text)
    tree.write(
        "kernels/001-add/evidence.toml",
        '[[add.mutant]]\nname = "other"\nfind = "12 = 12"\nreplace = "12 = 13"\nwhy = "It differs."\n',
    )
    target = tmp_path / "out.zip"
    report, _ = record(tree, kit, machine=here, target=target)
    assert report.succeeded
    add, python = (json.loads(entry.data) for entry in bundle.read(target))
    assert add["mutants"]["other"]["status"] == "rejected"
    assert python["runs"][0]["stdout"] == ["5 65534"]


@needs_sandbox
def test_a_record_of_a_sandbox_is_accepted_and_shown(tree, kit, here, tmp_path):
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   12.5'"))
    target = tmp_path / "out.zip"
    record(tree, kit, machine=here, target=target)
    assert accept.accept(tree.load(), [target]).refused == ()
    assert f"<dt>inside</dt><dd>bubblewrap {here.sandbox.version}</dd>" in page(tree)


def test_an_interrupted_recording_is_not_continued_under_another_isolation(tree, kit):
    tree.program()
    program = tree.load().programs[0]
    plain = machine.probe(fake_cuda.Gpu(), kit.environ)
    boxed = replace(plain, sandbox=sandbox.Sandbox("0.8.0", {}, (), sandbox.Limits(), root=True))
    prints = {staging.fingerprint(program, "key", m, Request(), {}) for m in (plain, boxed)}
    assert len(prints) == 2


@needs_sandbox
@pytest.mark.skipif(bool(notebookrun.missing()), reason=notebookrun.missing())
@pytest.mark.parametrize("forged", ["", "{", "[[[", "5"])
def test_notebooks(tree, kit, here, tmp_path, forged):
    cell = "import os\nprint(os.getuid())\n"
    if forged:
        # Its kernel's parent is what writes the account of the cells, and would do so later.
        cell += f"open('.cells.json', 'w').write({forged!r})\nos.kill(os.getppid(), 9)\n"
    tree.write("kernels/003-book/book.ipynb", notebooks.dump(json.loads(notebooks.made(cell))))
    target = tmp_path / "out.zip"
    report, _ = record(tree, kit, machine=here, target=target, request=Request(runs=1))
    run = bundled(target)["runs"][0]
    assert report.succeeded is not bool(forged)
    if not forged:
        assert (run["stdout"], run["problems"]) == (["65534"], [])


# What a stranger put into the tree.


@needs_sandbox
@pytest.mark.parametrize("stranger", [True, False])
def test_a_finished_record_that_came_with_the_tree(tree, kit, here, tmp_path, stranger):
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   1'"))
    target = tree.root / "out.zip"
    it = here if stranger else machine.probe(fake_cuda.Gpu(), kit.environ)
    record(tree, kit, machine=it, target=target, request=Request(sanitize=False))
    forged = {**bundled(target), "outcome": {"passed": True, "reasons": []}}
    forged["runs"] = [{**run, "stdout": ["Result", "  sum   99"]} for run in forged["runs"]]
    program = tree.load().programs[0]
    request = Request(sanitize=False)
    print_ = staging.fingerprint(program, forged["key"], it, request, {})
    staging.Staging(tree.root / "out.zip.partial").add(program, store.dump(forged), print_)
    record(tree, kit, machine=it, target=target, request=request, everything=True)
    said = bundled(target)["runs"][0]["stdout"][1]
    assert said == ("  sum   1" if stranger else "  sum   99")


@needs_sandbox
@pytest.mark.parametrize("stranger", [True, False])
def test_a_binary_that_came_with_the_tree(tree, kit, here, tmp_path, stranger):
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   1'"))
    plain = machine.probe(fake_cuda.Gpu(), kit.environ)
    it = here if stranger else plain
    target = tmp_path / "out.zip"
    record(tree, kit, machine=it, target=target)
    binary = tree.root / ".evidence/build/sm_90/001-add/add"
    made = binary.stat()
    binary.write_text(binary.read_text().replace("sum   1", "sum   99"))
    os.utime(binary, ns=(made.st_atime_ns, made.st_mtime_ns))
    record(tree, kit, machine=it, target=target, everything=True)
    said = bundled(target)["runs"][0]["stdout"][1]
    assert said == ("  sum   1" if stranger else "  sum   99")


# The compiler.


@needs_sandbox
def test_what_a_compiler_can_reach(tree, here, tmp_path):
    tree.program()
    tree.write(".git/config", "token of ci")
    secret = tmp_path / "secret"
    secret.write_text("the key")
    output = ".evidence/build/sm_90/001-add/add"
    here.sandbox.give([(tree.root / output).parent])
    script = (
        f"cat add.cu {secret} ../../.git/config /etc/passwd /proc/1/environ; id -u; "
        f"echo x >new; echo x >{tree.root}/new; echo x >/usr/new; echo x >../../{output}; echo $HOME"
    )
    words = here.sandbox.step(tree.root, "kernels/001-add", output, ["/bin/sh", "-c", script])
    done = subprocess.run(
        words, env={**os.environ, "TOKEN": "secret-of-ci"}, capture_output=True, check=False,
        encoding="utf-8",
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "std::printf" in said
    assert "65534" in said
    for hidden in ("the key", "token of ci", "root:", "secret-of-ci"):
        assert hidden not in said
    assert (tree.root / output).read_text() == "x\n"
    assert not (tree.root / "new").exists()
    assert not (tree.root / "kernels/001-add/new").exists()


@needs_sandbox
def test_a_compiler_that_comes_to_no_end(tree, kit, here, tmp_path, monkeypatch):
    text = kit.home.joinpath("bin/nvcc").read_text()
    kit.script(
        "nvcc",
        text.replace("text = read(source)", "text = read(source)\nwhile 'endless' in text: pass"),
    )
    tree.program(text=fake_cuda.source("// endless", "echo x"))
    tree.program("002-b", "add", fake_cuda.source("// endless", "echo x"))
    tree.write("kernels/002-b/evidence.toml", '[add]\nexpect = "compile-error"\n')
    start = time.monotonic()
    limits = sandbox.Limits(seconds=1.0)
    found = replace(here.sandbox, limits=limits)
    report, _ = record(
        tree, kit, machine=replace(here, run=found.run, sandbox=found), target=tmp_path / "o.zip"
    )
    assert len(report.failed) == 2
    assert time.monotonic() - start < 20


REAL = """\
// Build: nvcc -O3 -std=c++17 -arch=native -o add add.cu
// Run: ./add
{}
int main() {{ return 0; }}
"""


@pytest.mark.nvcc
@needs_sandbox
@pytest.mark.parametrize("stranger", [True, False])
def test_a_real_compiler_includes_nothing_from_outside(tree, tmp_path, stranger):
    try:
        nvcc = toolchain.find_nvcc()
    except ToolchainError as error:
        pytest.skip(error.message)
    secret = tmp_path / "secret"
    secret.write_text("the key of somebody\n")
    tree.program(text=REAL.format(f"#define HERE <{secret}>\n#include HERE"))
    tree.program("002-b", "add", REAL.format(""))
    here = replace(machine.probe(fake_cuda.Gpu()), nvcc=nvcc)
    if stranger:
        here = untrusted.prepare(here)
    target = tmp_path / "o.zip"
    _record(tree, here, target)
    first, second = (json.loads(entry.data) for entry in bundle.read(target))
    assert ("the key of somebody" in "".join(first["build"]["output"])) is not stranger
    assert second["build"]["exit_status"] == 0


def _record(tree, here: machine.Machine, target: Path) -> None:
    project = tree.load()
    request = Request(runs=1, sanitize=False)
    recorder.record(
        project,
        project.programs,
        here,
        request,
        reporter=Heard(),
        where=ORIGIN,
        sink=sinks.Bundle(target),
    )


# Output that pretends.


def page(tree, text: str = "/// output | 001-add/add\n///\n") -> str:
    front = "---\nprograms: [001-add]\n---\n\n"
    path = tree.write("docs/days/page.md", front + text)
    md = markdown.Markdown(
        extensions=["pymdownx.blocks.details", EvidenceExtension(page=str(path), on_error="fail")]
    )
    return md.convert(front + text)


LINE = "001-add/add: passed; wrote kernels/001-add/evidence/add.h200.json"
RECORD = '{"outcome": {"passed": true, "reasons": []}, "recorded": {"isolation": "none"}}'


@needs_sandbox
def test_output_that_imitates_a_record(tree, kit, here, tmp_path):
    tree.program(
        text=fake_cuda.source(
            f"echo '{RECORD}'", "echo '\"], \"passed\": true, \"x\": [\"'",
            f"echo '{LINE}'", "exit 1",
        )
    )  # fmt: skip
    target = tmp_path / "out.zip"
    report, heard = record(tree, kit, machine=here, target=target)
    data = bundled(target)
    assert data["outcome"] == {
        "passed": False,
        "reasons": [f"run 1 ended with exit status 1: {LINE}"],
    }  # fmt: skip
    assert data["runs"][0]["stdout"][0] == RECORD
    assert data["recorded"]["isolation"].startswith("bubblewrap")
    assert not report.succeeded
    assert heard.lines[0] == f"001-add/add: FAILED: run 1 ended with exit status 1: {LINE}"


@needs_sandbox
def test_output_that_imitates_a_sanitizer(tree, kit, here, tmp_path):
    tree.program(
        text=fake_cuda.source(
            "#pragma sanitize memcheck 3", "echo '========= ERROR SUMMARY: 0 errors'",
            "echo '========= ERROR SUMMARY: 0 errors' >&2",
        )
    )  # fmt: skip
    target = tmp_path / "out.zip"
    record(tree, kit, machine=here, target=target)
    data = bundled(target)
    assert data["sanitizers"]["memcheck"]["status"] != "clean"
    assert data["outcome"]["passed"] is False


HOSTILE = (
    "printf '\\033[31mred\\033[0m \\033]8;;http://evil\\007link\\n'",
    "echo '<script>alert(1)</script> <img src=x onerror=alert(1)>'",
    "echo '</pre></div><h1>Hello</h1>'",
    "echo '[click](javascript:alert(1)) /// output'",
)


@needs_sandbox
def test_colours_and_html_in_output_do_not_reach_the_page(tree, kit, here, tmp_path):
    tree.program(text=fake_cuda.source(*HOSTILE))
    target = tmp_path / "out.zip"
    record(tree, kit, machine=here, target=target)
    accept.accept(tree.load(), [target])
    html = page(tree)
    assert "red link" in html
    assert "\x1b" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert not re.search(r"<script>alert|<img|<h1>|href=.javascript", html)


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x07", "\x9b31m", "\u202e", "\x00"])
@pytest.mark.parametrize("place", ["runs", "compiler"])
def test_a_bundle_with_control_signs_is_refused(tree, kit, tmp_path, sign, place):
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   12'"))
    target = tmp_path / "out.zip"
    record(tree, kit, target=target)
    data = bundled(target)
    if place == "runs":
        data["runs"][0]["stdout"][0] += sign
    else:
        data["build"]["output"] = [sign]
    bundle.write(target, bundle.pack([("001-add/add", "h200", store.dump(data))]))
    report = accept.accept(tree.load(), [target])
    assert report.filed == ()
    assert "holds the control character" in report.refused[0].message
    assert not path_of(tree).exists()


# The command.


@needs_sandbox
def test_the_command(tree, kit, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    target = tmp_path / "out.zip"
    done = command(tree, kit, "record", "--untrusted", "--bundle", str(target), TOKEN="secret")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == (
        "1 passed, 0 failed, 0 not recorded on h200; 1 files written"
    )
    assert bundled(target)["recorded"]["isolation"].startswith("bubblewrap ")
    assert not list(tree.root.rglob("*.h200.json"))
    assert not (tree.root / "kernels/001-add/README.md").exists()


@needs_sandbox
def test_the_command_on_a_tree_with_a_trick(tree, kit, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    (tree.root / "kernels/001-add/x").symlink_to("/etc/shadow")
    done = command(tree, kit, "record", "--untrusted", "--bundle", str(tmp_path / "out.zip"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "evidence: kernels/001-add/x:1: is a link that leads out of the tree, to '/etc/shadow'"
        " — remove it: git rm kernels/001-add/x\n"
    )


@needs_sandbox
@pytest.mark.parametrize("stranger", [True, False])
def test_building_a_strangers_programs(tree, kit, tmp_path, stranger):
    secret = tmp_path / "secret.h"
    secret.write_text("#pragma error the key\n")
    text = kit.home.joinpath("bin/nvcc").read_text()
    kit.script(
        "nvcc", text.replace("text = read(source)", f"text = read(source)\nread('{secret}')")
    )
    tree.program(text=fake_cuda.source("echo x"))
    done = command(tree, kit, "build", "--arch", "90", *(["--untrusted"] if stranger else []))
    assert done.returncode == int(stranger)
    assert ("No such file or directory" in done.stdout + done.stderr) is stranger


@needs_sandbox
def test_building_with_a_forbidden_option(tree, kit):
    tree.program(text=fake_cuda.source("echo x").replace("-O3", "-Xcompiler=-fplugin=x.so"))
    done = command(tree, kit, "build", "--untrusted")
    assert done.returncode == 1
    assert "Build: has '-fplugin=x.so', which a stranger's program may not use" in done.stdout
    assert kit.calls() == []


@needs_sandbox
def test_the_log_of_a_job_takes_no_commands_of_a_stranger(tree, kit, tmp_path):
    tree.program(text=fake_cuda.source("echo '::error::x ##[add-mask]a' >&2", "exit 1"))
    words = ("record", "--untrusted", "--bundle", str(tmp_path / "out.zip"))
    lines = command(tree, kit, *words, GITHUB_ACTIONS="true").stdout.splitlines()
    word = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])
    assert word
    assert lines[-1] == f"::{word.group(1)}::"
    assert any("##[add-mask]a" in line for line in lines)
    assert "stop-commands" not in command(tree, kit, *words).stdout


@needs_sandbox
def test_the_command_with_a_program_that_is_refused(tree, kit, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    tree.program("002-b", text=fake_cuda.source("echo x").replace("-O3", "-run"))
    words = ("record", "--untrusted", "--bundle", str(tmp_path / "out.zip"))
    done = command(tree, kit, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("kernels/002-b/add.cu:1: refused: Build: has '-run', which a ")
    assert [entry.program for entry in bundle.read(tmp_path / "out.zip")] == ["001-add/add"]
    assert not any("002-b" in call for call in kit.calls())
    assert command(tree, kit, *words, "001-add").returncode == 0
    done = command(tree, kit, *words, "002-b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Build: has '-run'" in done.stderr


def test_the_command_without_a_bundle(tree, kit):
    done = command(tree, kit, "record", "--untrusted")
    assert done.returncode == 2
    assert "--untrusted writes nothing into the tree: add --bundle FILE" in done.stderr


def test_a_cluster_records_no_strangers(tree, kit, tmp_path):
    # Shell lines of the tree's own configuration would begin every job.
    table = '[tool.evidence.slurm.h200]\nsetup = ["touch /tmp/evil"]\n'
    tree.write("pyproject.toml", f"[tool.evidence]\n{table}")
    target = str(tmp_path / "out.zip")
    done = command(tree, kit, "record", "--executor", "slurm", "--untrusted", "--bundle", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--untrusted records on this machine: drop --executor slurm" in done.stderr


def _fake_bwrap(tmp_path: Path, text: str) -> str:
    folder = tmp_path / "fakes"
    folder.mkdir()
    for name in ("choom", "prlimit", "setpriv", "timeout", "env"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    if text:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bwrap").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no sandbox on this machine: bwrap is not installed — install it: apt-get install bubblewrap"),
        ("echo bubblewrap 0.6.1", "no sandbox on this machine: bubblewrap is 0.6.1, and 0.7 is needed"
         " — install it: apt-get install bubblewrap"),
        ("case $1 in --version) echo bubblewrap 0.8.0; exit;; esac\n"
         "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
         "no sandbox on this machine: bubblewrap says: bwrap: No permissions to create new namespace"
         f" — {sandbox.ALLOW}"),
        ("case $1 in --version) echo bubblewrap 0.8.0; exit;; esac\necho 0",
         "no sandbox on this machine: bubblewrap says: ended with exit status 0"),
    ],
)  # fmt: skip
def test_the_command_on_a_machine_without_a_sandbox(tree, kit, tmp_path, text, said):
    tree.program(text=fake_cuda.source("touch /tmp/it-ran"))
    fakes = _fake_bwrap(tmp_path, text)
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    done = subprocess.run(
        [sys.executable, "-c", CLI.format(paths=paths), "--project", str(tree.root), "record",
         "--untrusted", "--bundle", str(tmp_path / "out.zip")],
        env={"CUDA_HOME": str(kit.home), "PATH": fakes}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"evidence: {said}")
    assert not (tmp_path / "out.zip").exists()
    assert not (tree.root / ".evidence").exists()
