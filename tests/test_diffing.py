"""Comparing records: what moved, what only wavered, what came and went."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evidence import diffing, summaries, values
from evidence.commands.diff import command
from evidence.errors import EvidenceError

GAP = "\u00a0"
THIN = "\u202f"


def record(*runs: str, measured: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"runs": [{"stdout": run.split("\n")} for run in runs], "measured": list(measured)}


def kinds(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    changes = diffing.compare(old, new)
    return {c.address: c.kind for c in changes if c.address.startswith("s/")}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (("5", "5"), ("5", "5"), "same"),
        (("5", "5"), ("6", "6"), "changed"),
        (("5", "5"), ("5.0", "5.0"), "changed"),
        (("1.0", "1.5"), ("1.2", "1.9"), "inside band"),
        (("1.0", "1.5"), ("1.5", "1.9"), "inside band"),
        (("1.0", "1.5"), ("1.0", "0.1"), "left band"),
        (("1.0", "1.5"), ("1.6", "1.7"), "left band"),
        (("1.0", "1.5"), ("1.2", "1.2"), "inside band"),
        (("5", "5"), ("5", "6"), "inside band"),
        (("5", "5"), ("6", "7"), "left band"),
        (("5 ms", "5 ms"), ("5 ms", "5 ms"), "inside band"),
        (("5 ms", "5 ms"), ("6 ms", "6 ms"), "left band"),
        (("5 ms", "5 ms"), ("5 us", "5 us"), "changed"),
        (("5 B", "5 B"), ("5 bytes", "5 bytes"), "same"),
        (("nan", "nan"), ("nan", "nan"), "same"),
        (("1", "2"), ("1", "nan"), "left band"),
    ],
)
def test_a_value_in_two_records(old: tuple[str, str], new: tuple[str, str], kind: str):
    before = record(*[f"s\n  a   {text}" for text in old])
    after = record(*[f"s\n  a   {text}" for text in new])
    assert kinds(before, after) == {"s/a": kind}


def test_values_come_and_go():
    assert kinds(record("s\n  a   1\n  b   2"), record("s\n  b   2\n  c   3")) == {
        "s/a": "removed",
        "s/b": "same",
        "s/c": "added",
    }


def test_a_value_that_either_record_knows_as_measured_is_compared_by_its_band():
    before = record("s\n  a   5", "s\n  a   5")
    after = record("s\n  a   6", "s\n  a   6", measured=("s/a",))
    assert kinds(before, after) == {"s/a": "left band"}


def test_the_plans_regular_expressions_are_compared():
    extra = (("n", "n=(.)"),)
    changes = diffing.compare(record("n=1"), record("n=2"), extra)
    assert [c.kind for c in changes if c.address == "text/n"] == ["changed"]


OLD = record(
    "s\n  time   1.00 ms\n  size   65536 B\n  gone   7\n  calm   2.00 ms\n  kept   3",
    "s\n  time   1.10 ms\n  size   65536 B\n  gone   7\n  calm   2.20 ms\n  kept   3",
)
NEW = record(
    "s\n  time   0.50 ms\n  size   32768 B\n  calm   2.10 ms\n  kept   3\n  come   8",
    "s\n  time   0.52 ms\n  size   32768 B\n  calm   2.15 ms\n  kept   3\n  come   8",
)


def rendered(style: diffing.Style = "human", *, full: bool = False) -> str:
    return diffing.render(diffing.compare(OLD, NEW), ("old", "new"), style, full=full)


def plain(text: str) -> str:
    return text.replace(GAP, "_").replace(THIN, "'")


SUMMARY = "10 values compared: 1 changed, 1 left band, 1 removed, 1 added, 1 inside band, 5 same\n"


def test_a_difference_for_people():
    assert plain(rendered()) == (
        "           address  old                        new                        new/old\n"
        "changed    s/size   65'536_B                   32'768_B                   0.5\n"
        "left band  s/time   1.00_ms (1.00 to 1.10_ms)  0.50_ms (0.50 to 0.52_ms)  0.5\n"
        "removed    s/gone   7                          -\n"
        "added      s/come   -                          8\n"
        "\n" + SUMMARY
    )


def test_a_difference_in_full():
    lines = plain(rendered(full=True)).splitlines()
    assert [line.split("  ")[0] for line in lines[1:-2]] == (
        ["changed", "left band", "removed", "added", "inside band"] + ["same"] * 5
    )


def test_a_difference_as_markdown():
    assert plain(rendered("markdown")) == (
        "|  | address | old | new | new/old |\n"
        "| --- | --- | --- | --- | ---: |\n"
        "| changed | `s/size` | 65'536_B | 32'768_B | 0.5 |\n"
        "| left band | `s/time` | 1.00_ms (1.00 to 1.10_ms) | 0.50_ms (0.50 to 0.52_ms) | 0.5 |\n"
        "| removed | `s/gone` | 7 | - |  |\n"
        "| added | `s/come` | - | 8 |  |\n"
        "\n" + SUMMARY
    )


def test_no_difference():
    changes = diffing.compare(OLD, OLD)
    for style in ("human", "markdown"):
        text = diffing.render(changes, ("old", "new"), style)
        assert text == "9 values compared: 2 inside band, 7 same\n"
    assert diffing.summary(()) == "no values to compare"


def test_a_change_for_programs():
    change = next(c for c in diffing.compare(OLD, NEW) if c.address == "s/time")
    assert diffing.change_json(change) == {
        "address": "s/time",
        "kind": "left band",
        "factor": 0.5,
        "old": {
            "address": "s/time",
            "unit": "ms",
            "exact": False,
            "median": "1.00",
            "min": "1.00",
            "max": "1.10",
            "texts": ["1.00", "1.10"],
            "source": "run",
            "spans": [[0, 1, 9, 13], [1, 1, 9, 13]],
        },
        "new": {
            "address": "s/time",
            "unit": "ms",
            "exact": False,
            "median": "0.50",
            "min": "0.50",
            "max": "0.52",
            "texts": ["0.50", "0.52"],
            "source": "run",
            "spans": [[0, 1, 9, 13], [1, 1, 9, 13]],
        },
    }


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        ("4", "2", 0.5),
        ("4", "4", None),
        ("0", "2", None),
        ("nan", "2", None),
        ("2", "inf", None),
        ("-2", "2", None),
    ],
)
def test_a_factor_is_given_where_it_says_something(old: str, new: str, factor: float | None):
    (change,) = (
        c
        for c in diffing.compare(record(f"s\n  a   {old}"), record(f"s\n  a   {new}"))
        if c.address == "s/a"
    )
    assert change.factor == factor


def test_nan_is_written_as_text():
    (change,) = (
        c
        for c in diffing.compare(record("s\n  a   nan"), record("s\n  a   1"))
        if c.address == "s/a"
    )
    assert '"min": "nan"' in json.dumps(diffing.change_json(change), allow_nan=False)


# The command --------------------------------------------------------------

SLOW = [["s", "  time   2.0 ms", "  n   5"], ["s", "  time   2.2 ms", "  n   5"]]
FAST = [["s", "  time   1.0 ms", "  n   5"], ["s", "  time   1.1 ms", "  n   5"]]


def run(tree: Any, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(words), obj=tree.root, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, plain(result.stdout)


def git(tree: Any, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "-C", tree.root, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def committed(tree: Any) -> Any:
    """A project with two programs, whose slow records are committed."""
    for stem in ("one", "two"):
        tree.program(stem=stem)
        tree.record(f"001-add/{stem}", stdout=SLOW)
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "slow")
    return tree


def on(label: str) -> dict[str, Any]:
    return {
        "compute_capability": "7.5", "driver": "1", "label": label, "memory_mib": 15360,
        "name": "T4", "sm_count": 40,
    }  # fmt: skip


LEFT = "left band  s/time   2.0_ms (2.0 to 2.2_ms)  1.0_ms (1.0 to 1.1_ms)  0.5\n"


def test_against_the_last_commit(committed: Any):
    committed.record("001-add/one", stdout=FAST)
    status, text = run(committed, "001-add/one")
    assert status == 0
    assert text == (
        "           address  HEAD                    now                     new/old\n"
        + LEFT
        + "\n19 values compared: 1 left band, 18 same\n"
    )
    assert run(committed, "001-add/one", "--exit-code")[0] == 1
    assert run(committed, "001-add/two", "--exit-code")[0] == 0


def test_against_a_revision(committed: Any):
    committed.record("001-add/one", stdout=FAST)
    git(committed, "commit", "-q", "-a", "-m", "fast")
    assert run(committed, "001-add/one") == (0, "19 values compared: 1 inside band, 18 same\n")
    assert LEFT in run(committed, "001-add/one", "--against", "HEAD~1")[1]


def test_several_programs(committed: Any):
    committed.record("001-add/one", stdout=FAST)
    text = run(committed)[1]
    assert text.startswith("001-add/one\n           address  HEAD ")
    assert text.endswith("\n\n001-add/two\n19 values compared: 1 inside band, 18 same\n\n")


def test_the_body_of_a_pull_request(committed: Any):
    committed.program(stem="three")
    committed.record("001-add/three", stdout=FAST)
    toolchain = {
        "nvcc": "13.1.2",
        "host_compiler": "g++ 13.3.0",
        "python": "3.12.3",
        "packages": {},
    }
    committed.record("001-add/one", stdout=FAST, toolchain=toolchain)
    status, text = run(committed, "--format", "markdown", "--exit-code")
    assert status == 1
    assert plain(text) == (
        "1 of 2 records says something new, 1 for the first time.\n\n"
        "Recorded for the first time: `001-add/three`.\n\n"
        "## 001-add/one\n\n"
        "| recording | HEAD | now |\n| --- | --- | --- |\n| nvcc | 13.0.88 | 13.1.2 |\n\n"
        "|  | address | HEAD | now | new/old |\n| --- | --- | --- | --- | ---: |\n"
        "| left band | `s/time` | 2.0_ms (2.0 to 2.2_ms) | 1.0_ms (1.0 to 1.1_ms) | 0.5 |\n"
        "\n19 values compared: 1 left band, 18 same\n\n"
    )
    # What says nothing new is left out, unless it is asked for.
    assert "## 001-add/two" not in text
    assert "## 001-add/two" in run(committed, "--format", "markdown", "--full")[1]


def test_when_both_were_recorded_is_told(committed: Any):
    later = {
        "commit": "f" * 40, "date": "2026-12-09", "dirty": True, "tool": "0.1.0",
        "isolation": "none",
    }  # fmt: skip
    committed.record("001-add/one", stdout=SLOW, recorded=later)
    assert run(committed, "001-add/one", "--format", "markdown")[1].startswith(
        "Recorded 2026-12-01, commit 0123456789ab → 2026-12-09, commit ffffffffffff with changes\n\n"
    )


def test_an_outcome_that_changed_is_news(committed: Any):
    failed = {"passed": False, "reasons": ["run 1 died by SIGSEGV", "memcheck found 2 errors"]}
    committed.record("001-add/one", stdout=SLOW, outcome=failed)
    text = run(committed, "--format", "markdown")[1]
    assert "| outcome | passed | failed: run 1 died by SIGSEGV; memcheck found 2 errors |\n" in text


def test_a_body_is_never_longer_than_github_takes(committed: Any, monkeypatch: Any):
    for stem in ("one", "two"):
        committed.record(f"001-add/{stem}", stdout=FAST)
    whole = run(committed, "--format", "markdown")[1]
    monkeypatch.setattr(summaries, "LONGEST", len(whole) - 1)
    text = run(committed, "--format", "markdown")[1]
    assert text.endswith(
        "\n\n1 more program changed than there is room for here. Run `evidence diff` to see all.\n"
    )
    assert "## 001-add/one" in text
    assert "## 001-add/two" not in text
    assert summaries.LONGEST < 65_536


def test_two_devices(committed: Any):
    committed.record("001-add/one", stdout=FAST, device=on("t4"))
    status, text = run(committed, "001-add/one", "--devices", "h200", "t4")
    assert status == 0
    assert "address          h200                    t4   " in text
    assert "changed    device/sm-count  132                     40    " in text
    assert "s/time" in text


def test_two_files(committed: Any, tmp_path: Path):
    new = committed.record("001-add/one", stdout=FAST, device=on("t4"))
    old = committed.root / "kernels/001-add/evidence/one.h200.json"
    text = run(committed, str(old), str(new))[1]
    assert "address          h200                    t4   " in text
    copy = tmp_path / "old.json"
    copy.write_bytes(old.read_bytes())
    assert run(committed, str(copy), str(old))[1] == "19 values compared: 1 inside band, 18 same\n"


def test_a_difference_as_json(committed: Any):
    committed.record("001-add/one", stdout=FAST)
    (one, two) = json.loads(run(committed, "--format", "json")[1])
    assert (one["program"], two["program"]) == ("001-add/one", "001-add/two")
    assert (one["old"]["label"], one["new"]["label"], one["old"]["device"]) == (
        "HEAD",
        "now",
        "h200",
    )
    assert {c["address"]: c["kind"] for c in one["changes"]}["s/time"] == "left band"
    assert {c["kind"] for c in two["changes"]} == {"same", "inside band"}


def test_records_outside_of_a_project_can_be_compared(committed: Any, tmp_path: Path):
    path = committed.root / "kernels/001-add/evidence/one.h200.json"
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    (alone / "a.json").write_bytes(path.read_bytes())
    name = str(alone / "a.json")
    result = CliRunner().invoke(command, [name, name], obj=alone, standalone_mode=False)
    assert (result.exception, result.stdout[:18]) == (None, "19 values compared")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("001-add/one", "--against", "nowhere"),
            "'nowhere' is no git revision here — name a commit",
        ),
        (
            ("001-add/one", "--against", "--help"),
            "'--help' is no git revision — name a commit",
        ),
        (
            ("001-add/one", "--device", "t4"),
            "kernels/001-add/evidence/one.t4.json:1: 001-add/one has no evidence on t4, only on "
            "h200 — run: evidence record 001-add/one",
        ),
        (
            ("001-add/one", "--devices", "h200", "t4"),
            "kernels/001-add/evidence/one.t4.json:1: 001-add/one has no evidence on t4, only on "
            "h200 — run: evidence record 001-add/one",
        ),
        (("--devices", "h200", "t4"), "there are no two records to compare — run: evidence list"),
        (
            ("--devices", "h200", "t4", "--device", "t4"),
            "--devices goes with neither --against nor --device — drop one",
        ),
        (
            ("x.json",),
            "two evidence files can be compared, the old one first — evidence diff OLD.json NEW.json",
        ),
        (
            ("x.json", "y.json"),
            "x.json:1: cannot be read: No such file or directory — run: evidence record",
        ),
        (("003-no",), "no program is named '003-no' — run: evidence list"),
    ],
)
def test_what_cannot_be_compared(committed: Any, words: tuple[str, ...], message: str):
    with pytest.raises(EvidenceError) as caught:
        run(committed, *words)
    assert str(caught.value) == message


def test_a_record_that_the_revision_lacks(committed: Any):
    committed.program(stem="three")
    committed.record("001-add/three", stdout=FAST)
    with pytest.raises(EvidenceError) as caught:
        run(committed, "001-add/three")
    assert str(caught.value) == (
        "kernels/001-add/evidence/three.h200.json:1: is not in revision HEAD — name another one"
    )
    assert "three" not in run(committed)[1]


def test_records_of_two_programs_are_not_compared(committed: Any):
    folder = committed.root / "kernels/001-add/evidence"
    with pytest.raises(EvidenceError) as caught:
        run(committed, str(folder / "one.h200.json"), str(folder / "two.h200.json"))
    assert str(caught.value) == (
        "these are records of two programs: 001-add/one and 001-add/two — "
        "name two records of one program"
    )


def test_without_git(committed: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EvidenceError) as caught:
        run(committed, "001-add/one")
    assert str(caught.value) == "git is not there — install git, or compare two files"


def test_what_a_program_prints_is_no_markdown():
    odd = values.Value("s/x", "|<b>|", (1.0,), ("1",), exact=True)
    new = values.Value("s/x", "@all", (2.0,), ("2",), exact=True)
    change = diffing.Change("s/x", "changed", odd, new)
    text = diffing.render([change], ("a|b", "<i>"), "markdown")
    head, rule, row = text.splitlines()[:3]
    assert [line.count("|") for line in (head, rule, row)] == [6, 6, 6]
    assert "<b>" not in text
    assert "<i>" not in text
    assert "@" not in text


def test_a_program_with_an_odd_name(committed: Any):
    stem = "o@x"
    committed.program(stem=stem)
    committed.record(f"001-add/{stem}", stdout=SLOW)
    text = run(committed, "--format", "markdown")[1]
    assert text.startswith("0 of 2 records say something new, 1 for the first time.\n\n")
    assert "@" not in text
