"""Verifying: recorded anew, compared with what is stored, and nothing written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import fake_cuda
from evidence import cli, sinks, store
from evidence.commands import verify
from recording import path_of, record, stored

SUMMARY = "1 program verified on h200: {} drifted, {} as recorded"


@pytest.fixture
def kit(tmp_path, monkeypatch):
    made = fake_cuda.install(tmp_path / "cuda")
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(verify, "LocalGpu", fake_cuda.Gpu)
    return made


@pytest.fixture
def said(tmp_path) -> Path:
    """What the program prints."""
    path = tmp_path / "said"
    path.write_text("Result\n  sum   12\n  time (ms)   1.00\n")
    return path


@pytest.fixture
def recorded(tree, kit, said):
    tree.program(text=fake_cuda.source("#pragma kernel add 12 0", f"cat {said}"))
    record(tree, kit)
    return tree


def run(tree, *words: str) -> tuple[int, str, str]:
    """Run the command; nothing but what is compiled may be touched."""
    before = snapshot(tree)
    words = ("--project", str(tree.root), "verify", *words)
    runner = CliRunner()
    result = runner.invoke(cli.group, words, standalone_mode=False)
    if result.exception:
        raise result.exception
    assert snapshot(tree) == before
    return result.return_value, result.stdout, result.stderr


def snapshot(tree) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in tree.root.rglob("*")
        if path.is_file() and ".evidence/build" not in str(path)
    }


def test_nothing_changed(recorded):
    status, out, err = run(recorded)
    assert (status, out) == (0, SUMMARY.format(0, 1) + "\n")
    assert "recording: 1" in err  # what is going on does not disturb what came of it


def test_a_time_inside_its_band_is_no_drift(recorded, said):
    said.write_text(said.read_text().replace("1.00", "1.01"))
    assert run(recorded)[0] == 0


def test_values_that_are_not_as_recorded(recorded, said):
    said.write_text("Result\n  sum   13\n  time (ms)   2.00\n  more   1\n")
    status, out, _ = run(recorded)
    assert status == 1
    fix = "if that is meant to be, record it: evidence record 001-add/add"
    where = "kernels/001-add/add.cu:1: "
    assert out.splitlines() == [
        f"{where}drift-exact: 001-add/add on h200: Result/more changed (absent → 1) — {fix}",
        f"{where}drift-exact: 001-add/add on h200: Result/sum changed (12 → 13) — {fix}",
        f"{where}drift-band: 001-add/add on h200: Result/time left its band (1 to 1 → 2) — {fix}",
        SUMMARY.format(1, 0),
    ]
    assert stored(recorded)["runs"][0]["stdout"][1] == "  sum   12"


def test_another_compiler(recorded, tmp_path):
    """A compile report that changed is drift; the compiler's version alone is not."""
    record(recorded, fake_cuda.install(tmp_path / "cuda"), everything=True)
    fake_cuda.install(tmp_path / "cuda", version="13.0.99")
    status, out, _ = run(recorded)
    assert status == 0
    assert out.splitlines()[0] == (
        "kernels/001-add/add.cu:1: warning: drift-toolchain: 001-add/add on h200: verified with "
        "another nvcc (13.0.88 → 13.0.99) — if that is meant to be, record it: evidence record "
        "001-add/add"
    )
    path = tmp_path / "cuda/bin/nvcc"
    path.write_text(
        path.read_text().replace('"ptxas info    : Used %s', '"ptxas info    : Used 1%s')
    )
    # Another one: ninja compiles again.
    path.write_text(path.read_text().replace("13.0.99", "13.1.2"))
    status, out, _ = run(recorded)
    assert status == 1
    assert out.splitlines()[0].startswith(
        "kernels/001-add/add.cu:1: drift-compile: 001-add/add on h200: the compile report changed "
        "at compile/add/registers (12 → 112)"
    )


def test_another_driver(recorded, monkeypatch):
    card = replace(fake_cuda.H200, driver="590.2")
    monkeypatch.setattr(verify, "LocalGpu", lambda: fake_cuda.Gpu(card))
    status, out, _ = run(recorded)
    assert status == 0
    assert (
        "warning: drift-driver: 001-add/add on h200: verified with another driver (580.1 → 590.2)"
        in out
    )


def test_a_program_that_fails_now(recorded, said):
    said.unlink()
    status, out, _ = run(recorded)
    assert status == 1
    assert out.splitlines()[0].startswith(
        "kernels/001-add/add.cu:1: drift-outcome: 001-add/add on h200: its outcome changed "
        "(passed → failed: run 1 ended with exit status 1: cat: "
    )
    assert stored(recorded)["outcome"]["passed"]


def test_a_tool_that_is_missing_here_is_said_and_no_drift(recorded, kit):
    (kit.home / "bin/compute-sanitizer").unlink()
    status, out, _ = run(recorded)
    assert status == 0
    assert (
        "warning: drift-tool: 001-add/add on h200: memcheck cannot be compared (clean → not available)"
        in out
    )
    assert len(out.splitlines()) == 5


def test_a_sanitizer_that_finds_something_now(recorded, kit):
    path = kit.home / "bin/compute-sanitizer"
    path.write_text(path.read_text().replace("count=${count:-0}", "count=3"))
    status, out, _ = run(recorded)
    assert status == 1
    assert (
        "drift-step: 001-add/add on h200: memcheck came to something else (clean → errors)" in out
    )


def test_what_is_left_out_is_not_compared(tree, kit):
    tree.program(
        text=fake_cuda.source("echo 'Result'", "echo '  sum   12'", "#pragma launch k 4 m=7")
    )
    tree.write(
        "kernels/001-add/evidence.toml",
        "[add.profile]\nmetrics = ['m']\n"
        "[[add.mutant]]\nname = 'a'\nfind = \"echo '  sum   12'\"\nreplace = 'exit 1'\n",
    )
    record(tree, kit)
    assert stored(tree)["profile"]["status"] == "recorded"
    options = ("--no-profile", "--no-mutants", "--no-sanitize", "--runs", "1")
    assert run(tree, *options)[:2] == (0, SUMMARY.format(0, 1) + "\n")
    # A profiler that is missing is said.
    (kit.home / "bin/ncu").unlink()
    status, out, _ = run(tree)
    assert status == 0
    assert (
        "warning: drift-tool: 001-add/add on h200: profile cannot be compared (recorded → not available)"
        in out
    )


def test_what_cannot_be_verified(recorded, kit):
    recorded.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    # Never recorded here: only said where it was asked for.
    assert run(recorded)[:2] == (0, SUMMARY.format(0, 1) + "\n")
    status, out, _ = run(recorded, "001-add", "002-b")
    assert status == 1
    assert out.splitlines()[0] == (
        "kernels/002-b/p.cu:2: not-verified: 002-b/p cannot be verified, its evidence on h200 is "
        "missing: 002-b/p has no evidence on h200 — run: evidence record 002-b/p"
    )
    record(recorded, kit)
    recorded.program("002-b", "p", fake_cuda.source("echo y", stem="p"))
    status, out, _ = run(recorded)
    assert status == 0
    assert out.splitlines()[0].startswith(
        "kernels/002-b/p.cu:1: warning: not-verified: 002-b/p cannot be verified, its evidence on "
        "h200 is stale: "
    )
    with pytest.raises(Exception, match="there is no evidence on h200 to verify: 002-b/p cannot"):
        run(recorded, "002-b")


def test_for_programs(recorded, said):
    said.write_text(said.read_text().replace("12", "13"))
    for words in (("--json",), ("--format", "json")):
        status, out, _ = run(recorded, *words)
        assert status == 1
        assert json.loads(out) == {
            "device": "h200", "failed": True, "findings": [],
            "programs": [{
                "program": "001-add/add", "drifted": True,
                "changes": [{
                    "kind": "exact", "what": "Result/sum", "old": "12", "new": "13",
                    "severity": "error",
                }],
            }],
        }  # fmt: skip


def test_for_github(recorded, said):
    said.write_text(said.read_text().replace("12", "13"))
    _, out, _ = run(recorded, "--format", "github")
    assert out.splitlines() == [
        "::error file=kernels/001-add/add.cu,line=1,title=drift-exact::001-add/add on h200: "
        "Result/sum changed (12 → 13) — if that is meant to be, record it: "
        "evidence record 001-add/add",
        SUMMARY.format(1, 0),
    ]


def test_as_the_body_of_an_issue(recorded, said, kit):
    recorded.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    record(recorded, kit)
    recorded.program("002-b", "p", fake_cuda.source("echo y", stem="p"))
    said.unlink()
    _, out, _ = run(recorded, "--format", "markdown")
    lines = out.splitlines()
    assert lines[:5] == [
        "1 program verified on h200: 1 drifted, 0 as recorded",
        "",
        "## 001-add/add",
        "",
        "|  | what | recorded | now |",
    ]
    assert lines[6].startswith(
        "| outcome | `outcome` | passed | <code>failed&#58; run 1 ended with exit status 1&#58; cat"
    )
    assert lines[8] == "|  | where | what |"
    assert lines[10].startswith(
        "| not-verified | <code>kernels&#47;002&#45;b&#47;p&#46;cu&#58;1</code> | "
    )


def test_one_shard(recorded, kit):
    recorded.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    record(recorded, kit)
    first, second = (run(recorded, "--shard", f"{n}/2")[1] for n in (1, 2))
    assert first == second == SUMMARY.format(0, 1) + "\n"


def test_an_interrupted_recording_can_go_on_afterwards(recorded):
    """What it has done already is neither used nor lost."""
    path = recorded.root / sinks.STAGING / "001-add--add.json"
    store.write(path, "{}")
    assert run(recorded)[0] == 0
    assert path.exists()


def test_a_damaged_record_cannot_be_verified(recorded):
    path = path_of(recorded)
    path.write_text(path.read_text().replace("sum   12", "sum   13"))
    with pytest.raises(
        Exception, match="there is no evidence on h200 to verify: 001-add/add cannot"
    ):
        run(recorded)
