"""Recording through Slurm: a real cluster of one node, and a fake toolkit on it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evidence
import fake_cuda
import slurm_cluster
from evidence import project, slurm, slurmconfig, slurmjob, snapshot, store
from evidence.errors import ConfigError, EvidenceError, ToolchainError
from recording import path_of, stored

TABLE = """\
[tool.evidence.slurm.h200]
gres = "gpu:h200:1"
minutes = 5
jobs = 2
[tool.evidence.slurm.t4]
gres = "gpu:t4:1"
minutes = 5
"""

# On the node there is no GPU either: the job's name says which one it asked for.
SITE = """\
import os, sys
sys.path[:0] = {paths!r}
if os.environ.get("SLURM_JOB_NAME", "").startswith("evidence-"):
    import evidence.device, fake_cuda
    from evidence.device import Device
    t4 = Device("Tesla T4", "7.5", "580.1", 15360, 40, "GPU-t4-of-test")
    label = os.environ["SLURM_JOB_NAME"].removeprefix("evidence-")
    evidence.device.LocalGpu = lambda: fake_cuda.Gpu(t4 if label == "t4" else fake_cuda.H200)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    one = slurm_cluster.Cluster(tmp_path_factory.mktemp("slurm"))
    why = one.start()
    if why:
        one.stop()
        pytest.skip(why)
    yield one
    one.stop()


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


def configure(tree, more: str = TABLE) -> None:
    path = tree.root / "pyproject.toml"
    path.write_text(path.read_text() + more)


def start(tree, kit, cluster, *words: str) -> subprocess.Popen[str]:
    site = kit.home / "site"
    site.mkdir(exist_ok=True)
    tools = str(Path(evidence.__file__).parent.parent)
    (site / "sitecustomize.py").write_text(SITE.format(paths=[str(Path(__file__).parent), tools]))
    environ = {
        **kit.environ, **cluster.environ, "HOME": str(kit.home), "SLURM_JOB_NAME": "",
        "PYTHONPATH": os.pathsep.join([str(site), tools]),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "evidence", "--project", str(tree.root), "record", "--executor", "slurm", *words],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    out, err = process.communicate(timeout=90)
    return process.returncode, out.splitlines(), err


def programs(tree, *lines: str) -> None:
    for folder in ("001-a", "002-b", "003-c"):
        tree.program(folder, "p", fake_cuda.source(*(lines or ("echo x",)), stem="p"))


def test_shards_of_two_devices_become_evidence(tree, kit, cluster):
    programs(tree)
    configure(tree)
    status, out, err = finish(start(tree, kit, cluster))
    assert (status, err) == (0, ""), "\n".join(out)
    first = [line.partition(": job")[0] for line in out[:3]]
    assert first == ["h200 1/2", "h200 2/2", "t4 1/1"]
    assert out[2].endswith(", 3 programs, about 3.0 min")
    assert sum(line.endswith(" is over") for line in out) == 3
    assert out[-1] == "6 taken, 0 refused"
    for label, name in (("h200", "NVIDIA H200"), ("t4", "Tesla T4")):
        for folder in ("001-a", "002-b", "003-c"):
            path = tree.root / "kernels" / folder / "evidence" / f"p.{label}.json"
            assert store.read(path).data["device"]["name"] == name
    status, out, err = finish(start(tree, kit, cluster))
    assert (status, out) == (0, ["h200: nothing to record", "t4: nothing to record"])


def test_one_bundle_of_all_jobs(tree, kit, cluster, tmp_path):
    programs(tree)
    configure(tree)
    target = tmp_path / "all.bundle"
    status, out, err = finish(
        start(tree, kit, cluster, "--bundle", str(target), "--device", "h200", "--jobs", "3")
    )
    assert (status, err) == (0, "")
    assert out[-1] == f"wrote {target} (3 records)"
    assert not list(tree.root.glob("kernels/*/evidence/*.json"))


def test_a_failing_program_is_a_failed_record_and_no_lost_job(tree, kit, cluster):
    tree.program("001-a", "p", fake_cuda.source("exit 4", stem="p"))
    configure(tree)
    status, _, err = finish(start(tree, kit, cluster, "--device", "h200"))
    assert (status, err) == (1, "warning: 001-a/p failed when it was recorded\n")
    assert stored(tree, "001-a/p")["outcome"]["passed"] is False


def test_a_node_with_another_device_is_said(tree, kit, cluster):
    tree.program("001-a", "p", fake_cuda.source("echo x", stem="p"))
    configure(tree, '[tool.evidence.slurm.h100]\ngres = "gpu:h200:1"\n')
    status, out, err = finish(start(tree, kit, cluster))
    assert (status, out[-1]) == (0, "1 taken, 0 refused")
    job = out[0].split()[3].rstrip(",")
    assert err == (
        f"pyproject.toml:1: warning: other-device: job {job} (h100 1/1) ran on h200 — mend "
        "[tool.evidence.slurm.h100], so that Slurm gives out its GPU\n"
    )
    assert stored(tree, "001-a/p")["device"]["name"] == "NVIDIA H200"


def test_what_is_edited_while_the_job_waits_is_not_recorded(tree, kit, cluster):
    tree.program("001-a", "p", fake_cuda.source("sleep 1", "echo old", stem="p"))
    configure(tree)
    process = start(tree, kit, cluster, "--device", "h200", "--runs", "5")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("h200 1/1: job")
    tree.program("001-a", "p", fake_cuda.source("echo new", stem="p"))
    status, out, err = finish(process)
    assert status == 1
    assert out[-1] == "0 taken, 1 refused"
    assert "001-a/p was recorded from another source" in err


def test_a_job_that_is_cancelled_is_said_and_the_rest_is_taken(tree, kit, cluster):
    tree.program("001-a", "p", fake_cuda.source("sleep 60", stem="p"))
    tree.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    configure(tree)
    process = start(tree, kit, cluster, "--device", "h200")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    slow = {n: line.split()[3].rstrip(",") for n, line in enumerate(lines, 1)}
    deadline = time.monotonic() + 60
    # There is one such GPU: if the slow job has it, the other waits for it.
    while not (stopped := path_of_shard(tree, slow)) and time.monotonic() < deadline:
        time.sleep(0.2)
    cluster.ask("scancel", stopped)
    status, out, err = finish(process)
    assert status == 1
    assert out[-1] == "1 taken, 0 refused"
    assert f"job-lost: job {stopped} (h200" in err
    assert err.strip().endswith("--executor slurm (it goes on where the job stopped)")
    assert path_of(tree, "002-b", "p").is_file()
    assert not path_of(tree, "001-a", "p").is_file()
    tree.program("001-a", "p", fake_cuda.source("echo x", stem="p"))
    status, out, err = finish(start(tree, kit, cluster, "--device", "h200"))
    assert (status, out[-1]) == (0, "1 taken, 0 refused")


def path_of_shard(tree, jobs: dict[int, str]) -> str:
    """Return the number of the job in which the sleeping program has begun."""
    for number, job in jobs.items():
        logs = (tree.root / slurm.FOLDER / f"h200-{number}-of-2" / "jobs").glob("*_log.out")
        if any("001-a/p: beginning" in log.read_text() for log in logs):
            return job
    return ""


def test_giving_up_takes_the_jobs_out_of_the_queue(tree, kit, cluster):
    tree.program("001-a", "p", fake_cuda.source("sleep 60", stem="p"))
    configure(tree)
    process = start(tree, kit, cluster)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(2)
    status, _, err = finish(process)
    assert (status, err.strip()) == (2, "evidence: stopped")
    deadline = time.monotonic() + 20
    while cluster.ask("squeue", "-h") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert cluster.ask("squeue", "-h") == ""


def test_a_job_that_slurm_refuses(tree, kit, cluster):
    programs(tree)
    configure(tree, '[tool.evidence.slurm.h200]\npartition = "nowhere"\n')
    status, out, err = finish(start(tree, kit, cluster))
    assert (status, out) == (2, [])
    # What sbatch itself says comes first.
    assert err.splitlines()[-1] == (
        "evidence: Slurm refused the job for h200: Batch job submission failed: Invalid partition "
        "name specified — mend [tool.evidence.slurm.h200]"
    )


def test_uncommitted_work_is_not_said_to_be_the_commit(tree, kit, cluster):
    programs(tree)
    configure(tree)
    tree.write(".gitignore", ".evidence/\n")
    given = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*given, *words], cwd=tree.root, check=True, capture_output=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tree.root, capture_output=True, text=True, check=True
    )
    tree.program("001-a", "p", fake_cuda.source("echo other", stem="p"))
    status, *_ = finish(start(tree, kit, cluster, "--device", "h200"))
    assert status == 0
    assert stored(tree, "001-a/p")["recorded"]["commit"] != head.stdout.strip()
    assert stored(tree, "002-b/p")["recorded"]["commit"] == head.stdout.strip()


def test_a_queue_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    class Paths:
        stdout = tmp_path / "log"
        result_pickle = tmp_path / "result"

    job = type("SlurmJob", (), {"job_id": "7", "paths": Paths})()
    target = slurmconfig.Target("h200")
    one = slurm.Queued("h200 1/1", target, ("001-a/p",), tmp_path / "b", job)
    monkeypatch.setattr(slurm, "_states", lambda _: None)
    monkeypatch.setattr(slurm, "_POLL", 0.01)
    monkeypatch.setattr(slurm, "_SILENCE", 0.05)
    said: list[str] = []
    collected = slurm.wait([one], said.append)
    assert said == [
        "the queue does not answer; still waiting",
        "h200 1/1: job 7 is not waited for any longer",
    ]
    assert [finding.code for finding in collected.findings] == ["job-lost"]


# -- without a cluster ----------------------------------------------------------------


def test_without_slurm(tree, kit, monkeypatch):
    programs(tree)
    monkeypatch.setenv("PATH", str(kit.home))
    with pytest.raises(ToolchainError) as caught:
        slurm.submit(
            tree.load(),
            [slurmconfig.Target("h200")],
            [],
            everything=False,
            jobs=None,
            options=[],
            say=print,
        )
    assert str(caught.value) == (
        "there is no sbatch and squeue on this machine — run this on a machine that submits "
        "to the cluster, or without --executor slurm"
    )


@pytest.mark.parametrize(
    ("table", "labels", "message"),
    [
        ({}, [], "has no [tool.evidence.slurm.LABEL]: it says how Slurm gives out which device"),
        ({"h200": 3}, [], "[tool.evidence.slurm]: h200: 3 is no table"),
        (
            {"h200": {"part": "x"}}, [],
            "[tool.evidence.slurm]: h200: unknown option 'part' (known: gres, jobs, minutes, "
            "partition, python, sbatch, setup)",
        ),
        ({"h200": {"minutes": "x"}}, [], "[tool.evidence.slurm]: h200: minutes = 'x', but it must be a whole number of minutes"),
        ({"h200": {"jobs": 0}}, [], "[tool.evidence.slurm]: h200: jobs = 0, but it must be at least 1"),
        ({"h200": {}}, ["t4"], "[tool.evidence.slurm] has no t4 (it has: h200)"),
    ],
)  # fmt: skip
def test_a_table_that_is_wrong(table, labels, message, tmp_path):
    with pytest.raises(ConfigError) as caught:
        slurmconfig.targets(table, labels, tmp_path / "pyproject.toml")
    assert caught.value.message == message


def test_what_submitit_is_told():
    table = {
        "h200": {"gres": "gpu:h200:1", "setup": ["module load cuda"], "sbatch": {"account": "x"}}
    }
    (target,) = slurmconfig.targets(table, [], Path("pyproject.toml"))
    assert target.parameters() == {
        "job_name": "evidence-h200", "time": 60, "setup": ["module load cuda"],
        "stderr_to_stdout": True, "additional_parameters": {"account": "x"}, "gres": "gpu:h200:1",
    }  # fmt: skip


def test_a_job_whose_time_is_over_is_queued_as_it_was():
    job = slurmjob.Job("tree", "bundle", ("001-a/p",), ("--runs", "2"))
    again = job.checkpoint()
    assert again.function == job


def test_options_of_a_cluster_without_one(tree, kit, cluster):
    programs(tree)
    process = start(tree, kit, cluster, "--shard", "1/2")
    status, _, err = finish(process)
    assert status == 2
    assert err.endswith("--executor slurm makes the shards itself: give --jobs N\n")


def test_a_copy_follows_the_tree(tree, tmp_path):
    programs(tree)
    copy = tmp_path / "copy"
    found = tree.load()
    snapshot.refresh(found, copy)
    (copy / ".evidence").mkdir()
    left = copy / "kernels" / "001-a" / "p.cu"
    before = left.stat()
    (tree.root / "kernels/002-b/p.cu").unlink()
    (tree.root / "kernels/002-b").rmdir()
    tree.write("kernels/003-c/p.cu", "other\n")
    tree.write("kernels/004-d/d.cu", "new\n")
    snapshot.refresh(project.load(tree.root), copy)
    files = sorted(str(p.relative_to(copy)) for p in copy.rglob("*") if p.is_file())
    assert files == [
        "kernels/001-a/p.cu", "kernels/003-c/p.cu", "kernels/004-d/d.cu", "pyproject.toml",
    ]  # fmt: skip
    assert (copy / "kernels/003-c/p.cu").read_text() == "other\n"
    assert left.stat().st_ino == before.st_ino
    assert (copy / ".evidence").is_dir()


def test_a_copy_that_cannot_be_made(tree, tmp_path):
    programs(tree)
    blocked = tree.root / ".evidence"
    blocked.write_text("in the way")
    pytest.importorskip("submitit")
    with pytest.raises(EvidenceError) as caught:
        slurm._submit(
            __import__("submitit"),
            tree.load(),
            slurmconfig.Target("h200"),
            ("001-a/p",),
            (1, 1),
            [],
        )
    assert "the job's copy of the tree cannot be made: " in str(caught.value)
