"""Values of a record: samples laid over each other, exact or measured, and why not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import addresses, store, values
from evidence.commands.values import command
from evidence.errors import EvidenceError, ExpressionError
from evidence.values import Span, Value


def record(*runs: str, **fields: Any) -> dict[str, Any]:
    return {"runs": [{"stdout": run.split("\n")} for run in runs], "measured": [], **fields}


def printed(*runs: str, **fields: Any) -> dict[str, Value]:
    found = values.of_record(record(*runs, **fields))
    return {address: value for address, value in found.items() if value.source == "run"}


def test_a_number_that_is_the_same_in_every_run_is_exact():
    assert printed("s\n  bytes   64 B", "s\n  bytes   64 B") == {
        "s/bytes": Value(
            "s/bytes",
            "B",
            (64.0, 64.0),
            ("64", "64"),
            True,
            (Span(0, 1, 10, 12), Span(1, 1, 10, 12)),
        )
    }


def test_a_number_that_differs_is_measured_and_keeps_its_samples():
    value = printed("s\n  err   0.30", "s\n  err   0.1", "s\n\n  err   0.2", "s\n  err   0.4")[
        "s/err"
    ]
    assert not value.exact
    assert value.samples == (0.3, 0.1, 0.2, 0.4)
    assert (value.min, value.median, value.max) == (0.1, 0.2, 0.4)
    assert (value.median_run, value.text) == (2, "0.2")
    assert value.spans[value.median_run] == Span(2, 2, 8, 11)


def test_exact_means_the_same_text_not_the_same_number():
    assert not printed("s\n  a   1.0", "s\n  a   1")["s/a"].exact


@pytest.mark.parametrize(
    "line",
    [
        "a   5 ms",
        "a   5 us",
        "a (s)   5",
        "a   5 GB/s",
        "a   5 TFLOPS",
        "a   5 MHz",
        "a   5 cycles",
        "a   5 us/step",
        "a   5 B/cycle",
        "a   5 W",
        "time ratio   5",
        "speedup   5x",
        "speed-up   5x",
        "Rate   5",
        "share of bandwidth   5 %",
        "throughput   5",
        "slowdown   5",
    ],
)
def test_time_and_rate_are_measured_however_equal_the_runs_are(line: str):
    (value,) = printed(f"s\n  {line}", f"s\n  {line}").values()
    assert not value.exact


@pytest.mark.parametrize(
    "line",
    [
        "a   5",
        "a   5 B",
        "a   5 blocks/SM",
        "a   5 FLOP/B",
        "a   5 %",
        "a   5x",
        "traffic ratio   5x",
        "iterate   5",
        "runtime checks   5",
        "timestep   5",
        "slowdownhill   5",
        "sometimes   5",
        "a   5 SM",
    ],
)
def test_anything_else_that_never_differed_is_exact(line: str):
    (value,) = printed(f"s\n  {line}", f"s\n  {line}").values()
    assert value.exact


def test_columns_and_rows_name_times_too_and_sections_do_not():
    table = "s\n  path   time ratio   bytes\n  a   2   3"
    assert {a: v.exact for a, v in printed(table).items()} == {
        "s/a/time-ratio": False,
        "s/a/bytes": True,
    }
    assert not printed("s\n  what   a   b\n  time ratio   2   3")["s/time-ratio/a"].exact
    assert printed("timing\n  repeats   21")["timing/repeats"].exact


def test_once_measured_always_measured():
    text = "s\n  a   5\n  b   5"
    found = values.of_record(record(text, text, measured=["s/a", "runs/count"]))
    assert (found["s/a"].exact, found["s/b"].exact) == (False, True)
    assert not found["runs/count"].exact


def test_what_a_recorder_stores_as_measured():
    one, two = "s\n  a   1\n  b   5\n  t   3 ms", "s\n  a   2\n  b   5\n  t   3 ms"
    assert values.measured_addresses(record(one, two, measured=["s/old"])) == ["s/a", "s/old"]
    assert values.measured_addresses(record(one, one)) == []


def test_nan_spreads_over_the_band_and_says_where_it_is():
    value = printed("s\n  a   1", "s\n  a   nan", "s\n  a   2")["s/a"]
    assert all(math.isnan(x) for x in (value.min, value.median, value.max))
    assert (value.median_run, value.text) == (1, "nan")


@pytest.mark.parametrize(
    ("runs", "problem"),
    [
        (("s\n  a   1", "s\n"), "s/a is no number in run 2 of 2"),
        (("s\n", "s\n  a   1", "s\n  a   -"), "s/a is no number in runs 1, 3 of 3"),
        (("s\n  a   1 ms", "s\n  a   1 us"), "s/a is in ms in run 1 and in us in run 2"),
        (("s\n  a   1", "s\n  a   1 %"), "s/a is in no unit in run 1 and in % in run 2"),
        (("s\n  a   1,000", "s\n  a   999"), "s/a is no number in run 1 of 2"),
    ],
)
def test_runs_that_do_not_match_are_a_problem_and_give_no_value(
    runs: tuple[str, ...], problem: str
):
    found = values.read(record(*runs))
    assert found.problems == (problem,)
    assert "s/a" not in found.values
    with pytest.raises(addresses.AbsentError) as caught:
        addresses.resolve("s/a", found.values, found.absent)
    assert caught.value.message == f"`s/a` has no value: it {problem.removeprefix('s/a ')}"


def test_problems_of_reading_name_their_runs():
    good, bad = "s\n  a   1", "s\n  a   1\n  a   1"
    assert values.read(record(bad, bad)).problems == (
        "line 3: s/a is printed twice, first in line 2",
    )
    assert values.read(record(good, bad, bad)).problems == (
        "run 2, 3: line 3: s/a is printed twice, first in line 2",
    )


def test_an_ambiguous_address_has_no_value_and_is_reported_once():
    good, bad = "s\n  a   1", "s\n  a   1\n  a   1"
    found = values.read(record(good, bad))
    assert found.problems == ("run 2: line 3: s/a is printed twice, first in line 2",)
    assert found.absent == {"s/a": "it is printed twice, first in line 2"}
    assert "s/a" not in found.values


def test_the_plans_regular_expressions_are_values():
    found = values.of_record(record("took 5 ms", "took 6 ms"), (("took", "took (.*)"),))
    assert found["text/took"].samples == (5.0, 6.0)


FULL = {
    "build": {
        "kernels": {
            "attentionOnline": {
                "registers": 40,
                "stack": 128,
                "spill_stores": 8,
                "spill_loads": 4,
                "shared": 32896,
                "constant": 0,
            },
            "tile<float, 4>(int)": {"registers": 20},
        },
        "warnings": ["one"],
    },
    "device": {"sm_count": 132, "memory_mib": 143771},
    "mutants": {
        "no-rescale": {"status": "rejected"},
        "no-barrier": {"status": "survived"},
        "zero": {"status": "not-available"},
    },
    "profile": {
        "status": "recorded",
        "launches": {
            "attentionOnline": {
                "grid-64x1x1": {"dram__bytes_read.sum": {"unit": "byte", "values": [3.5, 3.0, 4]}}
            }
        },
    },
    "sanitizers": {
        "memcheck": {"status": "clean", "errors": 0},
        "initcheck": {"status": "errors", "errors": 3},
        "racecheck": {"status": "timeout", "errors": 0, "reason": "after 300 s"},
        "synccheck": {"status": "not-available", "errors": 0, "reason": ""},
    },
}


def test_every_step_of_a_recording_has_addresses():
    found = values.of_record(record("s", "s", **FULL))
    assert {a: (v.texts, v.unit, v.exact, v.source) for a, v in found.items()} == {
        "compile/attentionOnline/registers": (("40",), "", True, "compile"),
        "compile/attentionOnline/stack": (("128",), "B", True, "compile"),
        "compile/attentionOnline/spill-stores": (("8",), "B", True, "compile"),
        "compile/attentionOnline/spill-loads": (("4",), "B", True, "compile"),
        "compile/attentionOnline/shared": (("32896",), "B", True, "compile"),
        "compile/attentionOnline/constant": (("0",), "B", True, "compile"),
        "compile/tile-float-4-int/registers": (("20",), "", True, "compile"),
        "compile/warnings": (("1",), "", True, "compile"),
        "sanitize/memcheck/errors": (("0",), "", True, "sanitize"),
        "sanitize/initcheck/errors": (("3",), "", True, "sanitize"),
        "profile/attentionOnline/grid-64x1x1/dram__bytes_read.sum": (
            ("3.5", "3", "4"),
            "byte",
            False,
            "profile",
        ),
        "mutants/total": (("3",), "", True, "mutants"),
        "mutants/rejected": (("1",), "", True, "mutants"),
        "mutants/surviving": (("1",), "", True, "mutants"),
        "mutants/no-rescale/rejected": (("1",), "", True, "mutants"),
        "mutants/no-barrier/rejected": (("0",), "", True, "mutants"),
        "mutants/zero/rejected": (("0",), "", True, "mutants"),
        "device/sm-count": (("132",), "", True, "device"),
        "device/memory": (("143771",), "MiB", True, "device"),
        "runs/count": (("2",), "", True, "runs"),
    }
    assert all(v.spans == () for v in found.values())


def test_a_step_that_was_not_reached_has_no_addresses():
    empty = {"build": None, "runs": [], "mutants": {}, "sanitizers": {}, "device": {}}
    assert {a: v.text for a, v in values.of_record(empty).items()} == {
        "mutants/total": "0",
        "mutants/rejected": "0",
        "mutants/surviving": "0",
        "runs/count": "0",
    }


def test_a_counter_that_does_not_differ_is_measured_all_the_same():
    launches = {"k": {"grid-1x1x1": {"m.sum": {"unit": "", "values": [7, 7]}}}}
    found = values.of_record(record(profile={"status": "recorded", "launches": launches}))
    assert not found["profile/k/grid-1x1x1/m.sum"].exact


def test_a_printed_number_cannot_pass_for_a_recorded_one():
    for line in ("  count   9", "  count   9\n  count   8"):
        found = values.read(record(f"runs\n{line}"))
        assert found.problems[-1] == "runs/count is printed, and belongs to the recorder"
        assert found.values["runs/count"].text == "1"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "sanitize/racecheck/errors",
            "`sanitize/racecheck/errors` has no value: racecheck: timeout (after 300 s)",
        ),
        (
            "sanitize/synccheck/errors",
            "`sanitize/synccheck/errors` has no value: synccheck: not available",
        ),
        ("profile/k/*/m", "`profile/k/*/m` has no value: the profiler: failed (no counters)"),
    ],
)
def test_a_value_that_was_not_measured_says_why(address: str, message: str):
    profile = {"status": "failed", "reason": "no counters", "launches": {}}
    found = values.read(record(**{**FULL, "profile": profile}))
    with pytest.raises(addresses.AbsentError) as caught:
        addresses.resolve(address, found.values, found.absent)
    assert caught.value.message == message
    assert caught.value.fix == "run: evidence record"


CASES = printed(
    *[
        "case-1024\n  p   time   b\n  on   1   2\ncase-256\n  p   time   b\n  on   3   4\n  off   5   6"
    ]
    * 2
)


def test_a_wildcard_stands_for_any_part_of_one_segment():
    def found(pattern: str) -> list[str]:
        return [v.address for v in addresses.resolve(pattern, CASES)]

    assert found("case-*/on/time") == ["case-256/on/time", "case-1024/on/time"]
    assert found("case-256/*/time") == ["case-256/off/time", "case-256/on/time"]
    assert found("case-256/o*f/*") == ["case-256/off/b", "case-256/off/time"]
    assert found("case-256/on/b") == ["case-256/on/b"]
    assert addresses.captured("case-*/o*/b", "case-256/on/b") == "256, n"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "case-256/on/tim",
            "`case-256/on/tim` is no address; close: case-256/on/time, case-256/off/time, "
            "case-256/on/b",
        ),
        (
            "case-*/om/time",
            "`case-*/om/time` matches no address; close: case-256/on/time, case-256/off/time, "
            "case-1024/on/time",
        ),
        ("*/time", "`*/time` matches no address"),
        ("zzz", "`zzz` is no address"),
    ],
)
def test_an_unknown_address_is_an_error_with_close_ones(pattern: str, message: str):
    with pytest.raises(ExpressionError) as caught:
        addresses.resolve(pattern, CASES)
    assert caught.value.message == message
    assert caught.value.fix == "list them with: evidence values"


def test_a_dot_in_an_address_is_a_dot():
    found = dict.fromkeys(("m/a.sum", "m/axsum"), CASES["case-256/on/b"])
    assert len(addresses.resolve("m/a.*", found)) == 1


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=7))
def test_the_median_is_always_a_number_that_some_run_printed(samples: list[float]):
    value = Value("a", "", tuple(samples), tuple(map(repr, samples)), False)
    if any(map(math.isnan, samples)):
        assert value.text == "nan"
    else:
        assert value.min <= value.median <= value.max
        assert value.samples[value.median_run] == value.median
        assert value.text == repr(value.median) or value.median == 0


def run(tree: Any, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, list(words), obj=tree.root, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout, result.stderr


RUNS = [
    ["device: 1", "s", "  time   1.25 ms", "  n   65536"],
    ["device: 1", "s", "  time   1.31 ms", "  n   65536"],
]


def test_values_lists_every_address(tree: Any):
    tree.program()
    tree.record(stdout=RUNS)
    status, text, errors = run(tree, "001-add", "s")
    assert (status, errors) == (0, "")
    assert text == (
        "s/time  1.25\u00a0ms  measured, 1.25 to 1.31\u00a0ms, 2 samples\n"
        "s/n      65\u202f536  exact\n"
    )
    status, text, _ = run(tree, "1", "compile/*/stack")
    assert text == "compile/addKernel/stack  128\u00a0B  exact\n"
    listed = [
        line.split()[0].split("/")[2] for line in run(tree, "1", "*/addKernel/*")[1].splitlines()
    ]
    assert listed == ["registers", "stack", "spill-stores", "spill-loads", "shared", "constant"]
    assert len(run(tree, "1")[1].splitlines()) == 19


def test_values_lists_what_is_unread(tree: Any):
    tree.program()
    tree.record(stdout=RUNS)
    assert run(tree, "001-add/add", "--unread") == (0, "line 1: device: 1\n", "")


def test_values_as_json(tree: Any):
    tree.program()
    tree.record(stdout=RUNS)
    _, text, _ = run(tree, "001-add", "s/*", "--json")
    document = json.loads(text)["001-add/add"]
    assert document["device"] == "h200"
    assert document["unread"] == [{"line": 1, "text": "device: 1"}]
    assert document["problems"] == []
    assert document["absent"] == {"profile": "the profiler: not requested"}
    assert document["values"] == [
        {
            "address": "s/time",
            "unit": "ms",
            "exact": False,
            "median": "1.25",
            "min": "1.25",
            "max": "1.31",
            "texts": ["1.25", "1.31"],
            "source": "run",
            "spans": [[0, 2, 9, 13], [1, 2, 9, 13]],
        },
        {
            "address": "s/n",
            "unit": "",
            "exact": True,
            "median": "65536",
            "min": "65536",
            "max": "65536",
            "texts": ["65536", "65536"],
            "source": "run",
            "spans": [[0, 3, 6, 11], [1, 3, 6, 11]],
        },
    ]


def test_values_of_several_programs_of_a_folder(tree: Any):
    tree.program(stem="one")
    tree.program(stem="two")
    tree.record("001-add/one")
    tree.record("001-add/two")
    assert run(tree, "001-add", "runs")[1] == (
        "001-add/one\nruns/count  5  exact\n\n001-add/two\nruns/count  5  exact\n\n"
    )


def test_values_reports_problems_and_fails(tree: Any):
    tree.program()
    tree.record(stdout=[["s", "  a   1"], ["s", "  a   -"]])
    assert run(tree, "1", "runs") == (
        1,
        "runs/count  2  exact\n",
        "kernels/001-add/add.cu: s/a is no number in run 2 of 2\n",
    )


def test_values_uses_the_plans_regular_expressions(tree: Any):
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add.values]\ntook = 'took (\\d+)'\n")
    tree.record(stdout=[["took 5"], ["took 5"]])
    assert run(tree, "1", "text")[1] == "text/took  5  exact\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("001-add", "--device", "t4"),
            "kernels/001-add/evidence/add.t4.json:1: 001-add/add has no evidence on t4, only on "
            "h200 — run: evidence record 001-add/add",
        ),
        (
            ("001-add", "s/tim"),
            "`s/tim` is no address; close: s/time — list them with: evidence values",
        ),
    ],
)
def test_values_that_are_not_there(tree: Any, words: tuple[str, ...], message: str):
    tree.program()
    tree.record(stdout=RUNS)
    with pytest.raises(EvidenceError) as caught:
        run(tree, *words)
    assert str(caught.value) == message


def test_values_without_evidence(tree: Any):
    tree.program()
    with pytest.raises(EvidenceError) as caught:
        run(tree, "001-add")
    assert str(caught.value) == (
        "kernels/001-add/evidence/add.h200.json:1: 001-add/add has no evidence on h200 — "
        "run: evidence record 001-add/add"
    )


def test_a_pattern_that_no_program_of_a_folder_has(tree: Any):
    for stem in ("one", "two"):
        tree.program(stem=stem)
        tree.record(f"001-add/{stem}")
    with pytest.raises(EvidenceError) as caught:
        run(tree, "001-add", "x/y")
    assert str(caught.value) == "`x/y` matches no address of 001-add — run: evidence values 001-add"


def test_an_edited_record_gives_no_values(tree: Any):
    tree.program()
    path = tree.record(stdout=RUNS)
    path.write_text(path.read_text("utf-8").replace("1.25", "1.24"), "utf-8")
    with pytest.raises(EvidenceError, match="was edited after it was recorded"):
        run(tree, "001-add")


def test_reading_a_record_does_not_change_it(tree: Any):
    tree.program()
    path = tree.record(stdout=RUNS)
    data = store.read(path).data
    before = json.dumps(data)
    values.read(data)
    assert json.dumps(data) == before
