"""The workflows: what they may do, and their steps carried out here, one after the other."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

import evidence
import fake_cuda
from evidence import store

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github" / "workflows"
NAMES = ("check", "record", "verify", "publish")
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def read(name: str) -> dict:
    document = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    document["on"] = document.pop(True)  # YAML 1.1 takes `on` for a truth
    return document


def steps(workflow: dict) -> list[tuple[str, dict]]:
    return [(job, step) for job, it in workflow["jobs"].items() for step in it["steps"]]


def test_these_are_all():
    assert sorted(path.stem for path in FOLDER.glob("*.y*ml")) == sorted(NAMES)


def test_actionlint_finds_nothing():
    program = Path(sys.executable).with_name("actionlint")
    if not program.is_file():
        pytest.skip("actionlint is not installed")
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_actionlint_would_find_something(tmp_path):
    program = Path(sys.executable).with_name("actionlint")
    if not program.is_file():
        pytest.skip("actionlint is not installed")
    path = tmp_path / "x.yml"
    path.write_text((FOLDER / "verify.yml").read_text().replace("runs-on", "run-on"))
    done = subprocess.run([program, path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("name", NAMES)
def test_no_script_holds_an_expression(name):
    # What somebody else wrote, a branch's name say, would become part of a script.
    looked_at = 0
    for _, step in steps(read(name)):
        if "run" in step:
            looked_at += 1
            assert not EXPRESSION.search(step["run"]), step
    assert looked_at


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_thin(name):
    for _, step in steps(read(name)):
        assert len(step.get("run", "").strip().splitlines()) <= 2, step


def test_nothing_may_be_written_but_where_it_must():
    allowed = {"record": {"propose"}, "publish": {"deploy"}}
    for name in NAMES:
        workflow = read(name)
        assert workflow["permissions"] == {"contents": "read"}, name
        writing = {
            job for job, it in workflow["jobs"].items()
            if "write" in it.get("permissions", {}).values()
        }  # fmt: skip
        assert writing == allowed.get(name, set())


def test_only_the_job_that_pushes_keeps_the_token():
    checkouts = 0
    for name in NAMES:
        for job, step in steps(read(name)):
            if step.get("uses", "").startswith("actions/checkout@"):
                checkouts += 1
                kept = step.get("with", {}).get("persist-credentials", True)
                assert kept == (job == "propose"), (name, job)
            assert "secrets." not in json.dumps(step)
    assert checkouts >= 8


def test_a_pull_request_reaches_the_gpu_only_by_label_and_in_the_sandbox():
    for name in NAMES:
        workflow = read(name)
        own = [job for job, it in workflow["jobs"].items() if "self-hosted" in str(it["runs-on"])]
        if own:
            # `pull_request` would take the workflow itself from the stranger.
            assert "pull_request" not in workflow["on"], name
        for job in own:
            assert "permissions" not in workflow["jobs"][job]
    workflow = read("record")
    assert workflow["on"]["pull_request_target"] == {"types": ["labeled"]}
    assert "github.event.label.name == 'record'" in workflow["jobs"]["plan"]["if"]
    asked = "${{ github.event_name == 'pull_request_target' && '1' || '' }}"
    assert workflow["env"]["UNTRUSTED"] == asked
    for job, step in steps(workflow):
        # Commands start in the base's tree; what is proposed is only looked at.
        assert "working-directory" not in step
        if step.get("uses", "").startswith("actions/checkout@") and "ref" in step.get("with", {}):
            assert step["with"]["path"] == "change", job


# -- carried out --------------------------------------------------------------------

WRAPPER = """\
#!{python}
import sys
sys.path[:0] = {paths!r}
import fake_cuda
from evidence import cli
from evidence.commands import record, verify
record.LocalGpu = verify.LocalGpu = fake_cuda.Gpu
cli.main(sys.argv[1:])
"""

GH = """\
#!/bin/sh
printf '%s\\n' "$@" >{log}
cat "$(printf '%s\\n' "$@" | sed -n '/--body-file/{{n;p}}')" >{log}.body
"""


@dataclass
class Runner:
    """Does what a runner of the service does: checks out, runs, hands files on."""

    tree: Path
    remote: Path
    environ: dict[str, str]
    event: str = "workflow_dispatch"
    change: Path | None = None
    artifacts: Path = field(default_factory=Path)
    programs: str = ""

    def expressions(self, matrix: dict) -> dict[str, str]:
        asked = self.event == "pull_request_target"
        return {
            "vars.EVIDENCE_DEVICES || 'h200'": "h200",
            "vars.EVIDENCE_DEVICE || 'h200'": "h200",
            "inputs.programs": self.programs,
            "github.event_name == 'pull_request_target' && 'change' || '.'": "change"
            if asked
            else ".",
            "github.event_name == 'pull_request_target' && '1' || ''": "1" if asked else "",
            "github.token": "a-token",
            "github.run_id": "77",
            "github.run_attempt": "1",
            "github.ref_name": "main",
            **{f"matrix.{name}": str(value) for name, value in matrix.items()},
        }

    def value(self, text: str, matrix: dict) -> str:
        known = self.expressions(matrix)
        return EXPRESSION.sub(lambda match: known[match.group(1)], str(text))

    def job(self, workflow: dict, name: str, matrix: dict | None = None) -> tuple[int, str, str]:
        """Carry out a job in a fresh checkout; return its status, output variables and log."""
        matrix = matrix or {}
        work = self.artifacts / f"work-{name}-{matrix.get('number', 0)}"
        shutil.rmtree(work, ignore_errors=True)
        git("clone", "-q", str(self.remote), str(work))
        shutil.copytree(self.tree / ".venv", work / ".venv")
        os.utime(work / ".venv" / ".site")
        outputs = self.artifacts / f"{name}.out"
        outputs.write_text("")
        status, log = 0, ""
        for step in workflow["jobs"][name]["steps"]:
            if status and step.get("if") != "always()":
                continue
            action = step.get("uses", "").partition("@")[0]
            given = {
                k: self.value(v, matrix) for k, v in step.get("with", {}).items() if k != "ref"
            }
            if action == "actions/checkout" and "ref" in step.get("with", {}) and self.change:
                git("clone", "-q", str(self.change), str(work / given["path"]))
            elif action == "actions/upload-artifact":
                source = work / given["path"]
                assert source.is_dir() or status, source
                shutil.copytree(source, self.artifacts / given["name"], dirs_exist_ok=True)
            elif action == "actions/download-artifact":
                pattern = given.get("pattern") or given["name"]
                for found in self.artifacts.glob(pattern):
                    inside = found.name if "pattern" in given else ""
                    shutil.copytree(found, work / given["path"] / inside, dirs_exist_ok=True)
            elif "run" in step:
                told = {**workflow.get("env", {}), **step.get("env", {})}
                environ = {
                    **self.environ, **{k: self.value(v, matrix) for k, v in told.items()},
                    "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(self.artifacts / "summary.md"),
                }  # fmt: skip
                done = subprocess.run(
                    ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=work, env=environ,
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                log += done.stdout + done.stderr
                status = status or done.returncode
        return status, outputs.read_text(), log


def git(*words: str, cwd: Path | None = None) -> str:
    given = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]
    done = subprocess.run([*given, *words], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def runner(tree, tmp_path):
    """A project with two programs, its remote, and a machine with a fake toolkit."""
    kit = fake_cuda.install(tmp_path / "cuda")
    for folder in ("001-a", "002-b"):
        tree.program(folder, "p", fake_cuda.source("echo x", stem="p"))
    for name in ("Makefile", ".gitignore"):
        shutil.copy(ROOT / name, tree.root / name)
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    bin_ = tree.root / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "evidence").write_text(WRAPPER.format(python=sys.executable, paths=paths))
    (bin_ / "evidence").chmod(0o755)
    (bin_ / "python").write_text("#!/bin/sh\n")
    (bin_ / "python").chmod(0o755)
    for name in (".site", ".dev"):
        (tree.root / ".venv" / name).touch()
    kit.script("gh", GH.format(log=tmp_path / "gh"))
    git("init", "-q", cwd=tree.root)
    git("add", "-A", cwd=tree.root)
    git("commit", "-q", "-m", "x", cwd=tree.root)
    remote = tmp_path / "remote.git"
    git("clone", "-q", "--bare", str(tree.root), str(remote))
    environ = {
        **kit.environ, "HOME": str(tmp_path), "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x",
        "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x",
    }  # fmt: skip
    environ["PATH"] = f"{kit.home / 'bin'}{os.pathsep}{environ['PATH']}"
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    return Runner(tree.root, remote, environ, artifacts=artifacts)


def outputs_of(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_from_what_is_missing_to_a_pull_request(runner, tmp_path):
    workflow = read("record")
    status, said, log = runner.job(workflow, "plan")
    assert status == 0, log
    told = outputs_of(said)
    assert told["some"] == "true"
    rows = json.loads(told["matrix"])["include"]
    assert rows == [{"device": "h200", "number": 1, "shard": "1/1", "programs": 2, "seconds": 120}]
    for row in rows:
        status, _, log = runner.job(workflow, "record", row)
        assert status == 0, log
    status, _, log = runner.job(workflow, "accept")
    assert status == 0, log
    body = (runner.artifacts / "summary.md").read_text()
    assert "2 taken, 0 refused" in body
    status, _, log = runner.job(workflow, "propose")
    assert status == 0, log
    asked = (tmp_path / "gh").read_text().splitlines()
    assert asked[:2] == ["pr", "create"]
    assert asked[asked.index("--base") + 1] == "main"
    assert asked[asked.index("--head") + 1] == "evidence/77-1"
    assert (tmp_path / "gh.body").read_text() == body
    files = git("ls-tree", "-r", "--name-only", "evidence/77-1", cwd=runner.remote).splitlines()
    assert [f for f in files if f.endswith(".json")] == [
        "kernels/001-a/evidence/p.h200.json", "kernels/002-b/evidence/p.h200.json",
    ]  # fmt: skip
    commit = git("rev-parse", "main", cwd=runner.remote)
    text = git("show", "evidence/77-1:kernels/001-a/evidence/p.h200.json", cwd=runner.remote)
    record = store.parse(text.encode() + b"\n", "p.h200.json")
    assert record.passed
    assert record.data["recorded"]["commit"] == commit


def test_nothing_to_record_ends_after_the_plan(runner):
    workflow = read("record")
    for name in ("001-a", "002-b"):
        (runner.tree / "kernels" / name / "p.cu").unlink()
    git("add", "-A", cwd=runner.tree)
    git("commit", "-q", "-m", "none", cwd=runner.tree)
    git("push", "-q", str(runner.remote), "HEAD:main", cwd=runner.tree)
    status, said, log = runner.job(workflow, "plan")
    assert status == 0, log
    assert outputs_of(said) == {"matrix": '{"include": []}', "some": "false"}


def test_named_programs_are_recorded_although_they_are_fresh(runner):
    runner.programs = "001-a"
    _, said, _ = runner.job(read("record"), "plan")
    (row,) = json.loads(outputs_of(said)["matrix"])["include"]
    assert row["programs"] == 1


def test_a_name_is_never_a_command(runner, tmp_path):
    runner.programs = (
        f"$(touch {tmp_path}/owned) ; touch {tmp_path}/owned ; `touch {tmp_path}/owned`"
    )
    status, _, log = runner.job(read("record"), "plan")
    assert status != 0
    assert "there is no" in log or "no program" in log
    assert not (tmp_path / "owned").exists()


def test_a_failing_program_is_proposed_as_what_it_is(runner, tmp_path):
    path = runner.tree / "kernels" / "001-a" / "p.cu"
    path.write_text(fake_cuda.source("exit 4", stem="p"))
    git("commit", "-qam", "fails", cwd=runner.tree)
    git("push", "-q", str(runner.remote), "HEAD:main", cwd=runner.tree)
    workflow = read("record")
    row = {"device": "h200", "number": 1, "shard": "1/1"}
    status, _, _ = runner.job(workflow, "record", row)
    assert status != 0  # the job is red, and its bundle goes on
    status, _, log = runner.job(workflow, "accept")
    assert status == 0, log
    assert (
        "warning: 001-a/p failed when it was recorded"
        in (runner.artifacts / "summary.md").read_text()
    )


def test_a_bundle_of_another_tree_is_refused_and_said(runner):
    workflow = read("record")
    row = {"device": "h200", "number": 1, "shard": "1/1"}
    runner.job(workflow, "record", row)
    (runner.tree / "kernels" / "001-a" / "p.cu").write_text(fake_cuda.source("echo y", stem="p"))
    git("commit", "-qam", "other", cwd=runner.tree)
    git("push", "-q", str(runner.remote), "HEAD:main", cwd=runner.tree)
    status, _, _ = runner.job(workflow, "accept")
    assert status != 0
    body = (runner.artifacts / "summary.md").read_text()
    assert "1 taken, 1 refused" in body
    assert "was recorded from another source" in body


def test_a_strangers_change_is_recorded_by_the_tool_that_was_there(runner, tmp_path):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    change = tmp_path / "fork"
    git("clone", "-q", str(runner.remote), str(change))
    # The stranger's Makefile and programs would both like to be run.
    (change / "Makefile").write_text(f"%:\n\ttouch {tmp_path}/owned\n")
    (change / "kernels" / "001-a" / "p.cu").write_text(
        fake_cuda.source(f"touch {tmp_path}/owned || true", "echo tried", stem="p")
    )
    git("commit", "-qam", "mine", cwd=change)
    runner.event, runner.change = "pull_request_target", change
    workflow = read("record")
    status, said, log = runner.job(workflow, "plan")
    assert status == 0, log
    (row,) = json.loads(outputs_of(said)["matrix"])["include"]
    status, _, log = runner.job(workflow, "record", row)
    assert not (tmp_path / "owned").exists()
    assert status == 0, log
    status, _, log = runner.job(workflow, "accept")
    assert status == 0, log
    assert "2 taken, 0 refused" in (runner.artifacts / "summary.md").read_text()
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("link", ["kernels/001-a/evidence", "kernels/001-a/README.md", "docs/x"])
def test_a_strangers_link_is_not_followed_by_any_job(runner, tmp_path, link):
    outside, change = tmp_path / "outside", tmp_path / "fork"
    outside.mkdir()
    workflow = read("record")
    row = {"device": "h200", "number": 1, "shard": "1/1"}
    runner.job(workflow, "record", row)  # a bundle that fits the change's programs
    git("clone", "-q", str(runner.remote), str(change))
    (change / link).parent.mkdir(exist_ok=True)
    (change / link).symlink_to(outside)
    git("add", "-A", cwd=change)
    git("commit", "-q", "-m", "mine", cwd=change)
    runner.event, runner.change = "pull_request_target", change
    for job in ("plan", "accept"):
        status, said, log = runner.job(workflow, job, row if job == "record" else None)
        assert (status, said) == (2, ""), log
        assert "is a link that leads out of the tree" in log
    assert list(outside.iterdir()) == []
    assert not (runner.artifacts / "proposal" / "evidence.patch").read_text()


@pytest.mark.parametrize("given", ["*", "--all", "h200 A_B", "../x", "a;b"])
def test_a_device_that_is_no_label(runner, given):
    runner.environ["DEVICES"] = given
    done = make(runner, "plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no device label: lower-case letters, digits and hyphens" in done.stderr


@pytest.mark.parametrize("given", ["", "h200"])
def test_without_devices_the_projects_own_is_meant(runner, given):
    runner.environ["DEVICES"] = given
    (row,) = json.loads(outputs_of(make(runner, "plan").stdout)["matrix"])["include"]
    assert row["device"] == "h200"


def make(runner: Runner, target: str) -> subprocess.CompletedProcess[str]:
    words = ["make", "--silent", target]
    return subprocess.run(
        words, cwd=runner.tree, env=runner.environ, capture_output=True, text=True, check=False
    )


def test_what_drifted_is_said(runner):
    workflow = read("record")
    runner.job(workflow, "record", {"device": "h200", "number": 1, "shard": "1/1"})
    runner.job(workflow, "accept")
    patch = runner.artifacts / "proposal" / "evidence.patch"
    git("apply", "--index", str(patch), cwd=runner.tree)
    git("commit", "-qam", "evidence", cwd=runner.tree)
    git("push", "-q", str(runner.remote), "HEAD:main", cwd=runner.tree)
    status, _, log = runner.job(read("verify"), "verify")
    assert status == 0, log
    assert (runner.artifacts / "summary.md").read_text().strip()
