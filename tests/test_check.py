"""`check`, `list`, `prune`, `readme`: every state, with its message and exit status."""

import json

import pytest

from evidence import check, cli


def run(tree, *arguments: str, capsys) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), *arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out + captured.err


def codes(tree) -> list[str]:
    return [f.code for f in check.run(tree.load(), pages=False).findings if f.code != "readme"]


@pytest.fixture
def fresh(tree):
    tree.program()
    tree.record()
    return tree


def message(tree, code: str) -> str:
    found = [f for f in check.run(tree.load(), pages=False).findings if f.code == code]
    assert len(found) == 1, found
    return found[0].explain()


def test_fresh_evidence_has_no_finding(fresh):
    assert codes(fresh) == []


def test_stale(fresh):
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("hello", "goodbye"), encoding="utf-8")
    text = message(fresh, "stale")
    assert text.startswith(
        "kernels/001-add/add.cu:1: stale: 001-add/add: code of add.cu changed after its evidence "
        "was recorded ("
    )
    assert text.endswith(") — run: evidence record 001-add/add")


def test_stale_flags_name_the_line(fresh):
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("-O3", "-O2"), encoding="utf-8")
    assert message(fresh, "stale") == (
        "kernels/001-add/add.cu:4: stale: 001-add/add: Build: line changed after its evidence was "
        "recorded (nvcc -O3 -std=c++17 -arch=native -o add add.cu → "
        "nvcc -O2 -std=c++17 -arch=native -o add add.cu) — run: evidence record 001-add/add"
    )


def test_a_comment_leaves_it_fresh(fresh):
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text("// more\n" + source.read_text(), encoding="utf-8")
    assert codes(fresh) == []


def test_missing(tree):
    tree.program()
    assert message(tree, "missing") == (
        "kernels/001-add/add.cu:5: missing: 001-add/add has no evidence on h200 — "
        "run: evidence record 001-add/add"
    )


def test_failed(tree):
    tree.program()
    tree.record(outcome={"passed": False, "reasons": ["run 2 ended with exit status 1"]})
    assert message(tree, "failed") == (
        "kernels/001-add/add.cu:1: failed: 001-add/add failed when recorded: "
        "run 2 ended with exit status 1 — mend the program, then run: evidence record 001-add/add"
    )


def test_partial_sanitizer(tree):
    tree.program()
    tree.record(sanitizers={})
    found = [f.message for f in check.run(tree.load(), pages=False).findings if f.code == "partial"]
    assert found == [
        f"001-add/add: its evidence is partial: {tool} was never run"
        for tool in ("initcheck", "memcheck", "racecheck", "synccheck")
    ]


def test_partial_runs(tree):
    tree.program()
    tree.record(stdout=[["a"]] * 2)
    assert "its evidence is partial: 2 of 5 runs" in message(tree, "partial")


MUTANT = '[[add.mutant]]\nname = "silent"\nfind = "hello"\nreplace = ""\n'


def test_partial_mutant_never_tried_and_tried_otherwise(fresh):
    fresh.write("kernels/001-add/evidence.toml", MUTANT)
    assert "mutant silent was never tried" in message(fresh, "partial")
    tried = {"find": "hello", "replace": "x", "status": "rejected", "by": "gate", "reason": "",
             "exit_status": 1, "output": []}  # fmt: skip
    fresh.record(mutants={"silent": tried})
    assert "mutant silent was tried with another edit" in message(fresh, "partial")
    fresh.record(mutants={"silent": {**tried, "replace": ""}})
    assert codes(fresh) == []


def test_evidence_toml_says_something_else_of_a_mutant_than_when_recorded(fresh):
    plain = '[[add.mutant]]\nname = "{0}"\nfind = "{0}"\nreplace = ""\nwhy = "w"\n'
    both = plain.format("hello") + plain.format("cstdio")
    said = both + "survives = true\n"
    fresh.write("kernels/001-add/evidence.toml", said)
    tried = {"replace": "", "reason": "", "exit_status": 1, "output": [], "by": "gate"}
    noticed = {**tried, "status": "rejected"}
    silent = {**tried, "status": "survived", "by": "", "exit_status": 0}

    def recorded(second: dict) -> None:
        fresh.record(mutants={"hello": noticed | {"find": "hello"},
                              "cstdio": second | {"find": "cstdio"}})  # fmt: skip

    begins = (
        "kernels/001-add/add.cu:1: failed: 001-add/add passed when recorded, but not by its "
        "evidence.toml now: mutant cstdio "
    )
    ends = " — correct evidence.toml, or run: evidence record 001-add/add"
    recorded(silent)
    assert codes(fresh) == []
    fresh.write("kernels/001-add/evidence.toml", both)
    assert message(fresh, "failed") == f"{begins}survived: nothing noticed it{ends}"
    recorded(noticed)
    assert codes(fresh) == []
    fresh.write("kernels/001-add/evidence.toml", said)
    assert message(fresh, "failed") == (
        f"{begins}is noticed by its gate, although it is said to survive: "
        f"remove survives from evidence.toml{ends}"
    )


def test_partial_profile(fresh):
    fresh.write("kernels/001-add/evidence.toml", '[add.profile]\nmetrics = ["m.sum"]\n')
    assert "it was never profiled" in message(fresh, "partial")


def test_a_mutant_whose_text_is_not_found_once(fresh):
    fresh.write("kernels/001-add/evidence.toml", MUTANT.replace("hello", "std::"))
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text() + "// std::\n", encoding="utf-8")
    assert (
        "mutant silent: its find text 'std::' stands 2 times in the source, not once — "
        "correct find in evidence.toml"
    ) in message(fresh, "mutant-misses")


def test_edited(fresh):
    path = fresh.root / "kernels/001-add/evidence/add.h200.json"
    path.write_text(path.read_text().replace("1.25", "1.26", 1), encoding="utf-8")
    assert message(fresh, "edited").startswith(
        "kernels/001-add/evidence/add.h200.json:1: edited: was edited after it was recorded: body "
    )


def test_the_record_of_another_program(fresh):
    fresh.program("002-sub", "sub")
    fresh.write(
        "kernels/002-sub/evidence/sub.h200.json",
        (fresh.root / "kernels/001-add/evidence/add.h200.json").read_bytes(),
    )
    assert message(fresh, "edited") == (
        "kernels/002-sub/evidence/sub.h200.json:1: edited: is the record of 001-add/add, "
        "not of 002-sub/sub — run: evidence record 002-sub/sub"
    )


def test_drifted_is_reported_and_does_not_fail(tree, capsys):
    tree.program()
    tree.record(drift=[{"address": "case/time", "old": "1 to 2", "new": "3"}])
    assert message(tree, "drifted") == (
        "kernels/001-add/add.cu:1: warning: drifted: 001-add/add: case/time changed when it was "
        "recorded again (1 to 2 → 3) — read the pages that show it, "
        "then run: evidence diff 001-add/add"
    )
    run(tree, "readme", capsys=capsys)
    status, _ = run(tree, "check", "--no-pages", capsys=capsys)
    assert status == 0


def test_unpinned_is_reported_and_does_not_fail(tree):
    tree.program()
    tree.record(toolchain={"nvcc": "13.1.80", "host_compiler": "g++", "python": "", "packages": {}})
    assert "was recorded with nvcc 13.1.80, the pin is 13.0" in message(tree, "unpinned")
    assert "warning" in message(tree, "unpinned")


def test_a_pin_is_a_whole_version_prefix(tree):
    tree.program()
    tree.record(toolchain={"nvcc": "13.01", "host_compiler": "", "python": "", "packages": {}})
    assert "unpinned" in codes(tree)


def test_orphaned_and_pruned(fresh, capsys):
    (fresh.root / "kernels/001-add/add.cu").rename(fresh.root / "kernels/001-add/add.txt")
    fresh.program("002-sub", "sub")
    assert message(fresh, "orphaned") == (
        "kernels/001-add/evidence/add.h200.json:1: orphaned: there is no program 001-add/add — "
        "run: evidence prune"
    )
    assert run(fresh, "prune", "--yes", capsys=capsys) == (
        0,
        "kernels/001-add/evidence/add.h200.json: there is no program 001-add/add\n"
        "removed kernels/001-add/evidence/add.h200.json\n",
    )
    assert "orphaned" not in codes(fresh)


def test_prune_asks_first(fresh, capsys, monkeypatch):
    (fresh.root / "kernels/001-add/add.cu").unlink()
    monkeypatch.setattr("click.confirm", lambda _: False)
    status, text = run(fresh, "prune", capsys=capsys)
    assert (status, text.splitlines()[-1]) == (1, "nothing removed")
    assert (fresh.root / "kernels/001-add/evidence/add.h200.json").exists()


def test_a_source_that_cannot_be_read_does_not_orphan_its_evidence(fresh):
    fresh.write("kernels/001-add/add.cu", "int main() {}\n")
    assert codes(fresh) == ["bad-source"]


def test_what_an_interrupted_write_left_behind(fresh):
    fresh.write("kernels/001-add/evidence/.add.h200.json.x1.tmp", "{")
    assert "left behind by an interrupted write" in message(fresh, "leftover")


def test_a_leak(tree):
    tree.program()
    tree.record(stdout=[["log: /home/maria/out.txt"]] * 5)
    assert "which tells about the machine it was recorded on" in message(tree, "leak")


def test_bad_regions(fresh):
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("    // end snippet\n", ""), encoding="utf-8")
    assert "bad-region" in codes(fresh)


def test_a_check_that_looked_at_nothing_fails(tree, capsys):
    assert run(tree, "check", "--no-pages", capsys=capsys) == (
        1,
        "pyproject.toml:1: nothing-checked: no program was found under kernels, snippets — "
        "add one, or correct roots in [tool.evidence]\n"
        "looked at 0 programs, 0 records: 1 finding to mend\n",
    )


def test_all_findings_at_once_in_three_styles(tree, capsys):
    tree.program()
    tree.write("kernels/002-bad/bad.cu", "int main() {}\n")
    status, text = run(tree, "check", "--no-pages", capsys=capsys)
    assert status == 1
    assert text.splitlines()[-1] == "looked at 1 program, 0 records: 3 findings to mend"
    _, text = run(tree, "check", "--no-pages", "--format", "github", capsys=capsys)
    assert text.splitlines()[1] == (
        "::error file=kernels/001-add/add.cu,line=5,title=missing::001-add/add has no evidence on "
        "h200 — run: evidence record 001-add/add"
    )
    _, text = run(tree, "check", "--no-pages", "--format", "json", capsys=capsys)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [row["code"] for row in rows] == ["readme", "missing", "bad-source"]


def test_list_and_what_needs_recording(fresh, capsys):
    fresh.program("002-sub", "sub")
    assert run(fresh, "list", capsys=capsys) == (
        0,
        "001-add/add  h200    fresh     2026-12-01\n"
        "002-sub/sub  h200    missing   -           002-sub/sub has no evidence on h200\n",
    )
    status, text = run(fresh, "list", "--stale", "--json", capsys=capsys)
    assert status == 0
    assert [(r["program"], r["state"]) for r in json.loads(text)] == [("002-sub/sub", "missing")]


def test_a_second_device_is_judged_too(fresh):
    device = {
        "compute_capability": "7.5", "driver": "1", "label": "t4", "memory_mib": 1,
        "name": "Tesla T4", "sm_count": 40,
    }  # fmt: skip
    fresh.record(device=device)
    source = fresh.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text().replace("hello", "goodbye"), encoding="utf-8")
    states = check.run(fresh.load(), pages=False).states
    assert [(s.device, s.name) for s in states] == [("h200", "stale"), ("t4", "stale")]


def test_readme_is_generated_and_compared(fresh, capsys):
    path = "kernels/001-add/README.md"
    assert run(fresh, "readme", capsys=capsys) == (0, f"wrote {path}\n")
    text = (fresh.root / path).read_text(encoding="utf-8")
    assert "```sh\nnvcc -O3 -std=c++17 -arch=native -o add add.cu\n./add\n```" in text
    assert "What it did on NVIDIA H200 (driver 580.1, nvcc 13.0.88, 2026-12-01):" in text
    assert "  time (ms)   1.25" in text
    assert (
        run(fresh, "readme", capsys=capsys)[1]
        == "every README and every page of sources is as it should be\n"
    )
    (fresh.root / path).write_text(text.replace("1.25", "1.24"), encoding="utf-8")
    findings = check.run(fresh.load(), pages=False).findings
    assert [(f.code, f.path) for f in findings] == [("readme", path)]


def test_usage_errors_end_with_2(tree, capsys):
    tree.program()
    assert run(tree, "list", "nothing", capsys=capsys) == (
        2,
        "evidence: no program is named 'nothing' — run: evidence list\n",
    )
    assert run(tree, "frobnicate", capsys=capsys)[0] == 2


def test_the_help_names_every_command(tree, capsys):
    status, text = run(tree, "--help", capsys=capsys)
    assert status == 0
    for name in cli.COMMANDS:
        assert f"  {name} " in text
