"""From printed text to shown digits and verdicts: the right answers, worked out by hand.

Nothing here may come out more favourable than it is.
"""

from __future__ import annotations

from typing import Any

import pytest

from evidence import digits, expressions, values
from evidence.addresses import AbsentError

# Five runs. By hand:
#   naive    0.640 .. 0.700, lower median 0.660, half the band 0.030  -> 0.66
#   online   1.240 .. 1.280, lower median 1.260, half the band 0.020  -> 1.26
#   rival    0.650 .. 0.690, lower median 0.670; overlaps naive
#   flat     2.500 in every run, yet a time: measured, shown as printed
#   steps    4096 in every run: exact
#   broken   nan in one run of five
#   shaky    printed in four runs of five
RUNS = [
    ("0.660", "1.260", "0.670", "0.01"),
    ("0.640", "1.240", "0.650", "nan"),
    ("0.700", "1.280", "0.690", "0.01"),
    ("0.655", "1.270", "0.680", "0.01"),
    ("0.671", "1.250", "0.660", "0.01"),
]


def record() -> dict[str, Any]:
    runs = []
    for number, (naive, online, rival, broken) in enumerate(RUNS):
        shaky = "9" if number != 3 else "-"
        runs.append(
            {
                "stdout": [
                    "case n = 4096",
                    "  path     max err   time (ms)",
                    f"  naive      {broken}        {naive}",
                    f"  online     0.02       {online}",
                    f"  rival      0.03       {rival}",
                    "  flat       0.04       2.500",
                    "",
                    "  steps      4096",
                    f"  shaky      {shaky}",
                    "  bytes      268435456 B",
                    "all 1 cases passed their gates",
                ]
            }
        )
    return {"runs": runs, "measured": []}


READING = values.read(record())
CASE = "case-n-4096"
NAMES = {
    name: expressions.bind(f"{CASE}/{address}", READING.values)
    for name, address in {
        "naive": "naive/time",
        "online": "online/time",
        "rival": "rival/time",
        "flat": "flat/time",
        "steps": "steps",
        "bytes": "bytes",
        "broken": "naive/max-err",
        "errors": "*/max-err",
        "times": "*/time",
    }.items()
}


def shown(text: str, fmt: str | None = None) -> str:
    return (
        digits.show(expressions.evaluate(expressions.parse(text), NAMES), fmt)
        .replace("\u00a0", " ")
        .replace("\u202f", "'")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naive", "0.66 ms"),
        ("online", "1.26 ms"),
        ("flat", "2.500 ms"),
        ("steps", "4096"),
        ("bytes", "268'435'456 B"),
        # 1.240 / 0.700 = 1.771 to 1.280 / 0.640 = 2: half is 0.11, so tenths; 1.26 / 0.66 = 1.909
        ("online / naive", "1.9"),
        # 0.54 to 0.64: half is 0.05, so hundredths
        ("online - naive", "0.60 ms"),
        # 268435456 / 0.7 to / 0.64: half is 18 million, so tens of millions; 406'720'388
        ("bytes / naive", "410'000'000 B/ms"),
        # 2.500 / 1.28 = 1.953 to 2.500 / 1.24 = 2.016: half is 0.03
        ("flat / online", "1.98"),
        # of 2.500 and 4096 only the first is rounded, at 0.001 / 4096 = 2.4e-07
        ("flat / steps", "0.0006104 ms"),
        ("broken", "nan"),
        ("broken * 2", "nan"),
        ("max(times)", "2.500 ms"),
    ],
)
def test_what_is_shown(text: str, expected: str):
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("naive < online", "holds"),
        # 0.640 .. 0.700 against 0.650 .. 0.690, medians 0.660 and 0.670
        ("naive < rival", "holds within noise"),
        ("rival < naive", "fails"),
        ("rival > naive", "holds within noise"),
        # in no run more than 2, in one run exactly 2
        ("online / naive < 2", "holds within noise"),
        ("online / naive <= 2", "holds"),
        ("online / naive < 1.9", "fails"),
        ("online / naive > 1.7", "holds"),
        ("naive < 0.7", "holds within noise"),
        ("naive < 0.66", "fails"),
        ("steps == 4096 and bytes / (steps * steps) == 16", "holds"),
        ("steps == 4096 and bytes / (steps * steps) == 15", "fails"),
        # one run of five printed nan: nothing can be said of it
        ("broken < 1", "fails"),
        ("broken >= 0", "fails"),
        ("broken == broken", "fails"),
        ("broken != 5", "fails"),
        ("errors < 1", "fails"),
        ("max(errors) < 1", "fails"),
        ("times < 3", "holds"),
        ("times < 2.5", "fails"),
    ],
)
def test_what_a_claim_is_worth(text: str, outcome: str):
    assert expressions.judge(expressions.parse(text), NAMES).outcome == outcome


def test_every_element_was_looked_at():
    assert expressions.judge(expressions.parse("0 < times < 3"), NAMES).looked_at == 8


def test_a_number_that_one_run_did_not_print_cannot_be_bound():
    assert READING.problems == (f"{CASE}/shaky is no number in run 4 of 5",)
    with pytest.raises(AbsentError):
        expressions.bind(f"{CASE}/shaky", READING.values, READING.absent)


def test_what_was_counted_and_what_was_measured():
    exact = {a.removeprefix(f"{CASE}/") for a, v in READING.values.items() if v.exact}
    assert exact == {
        "online/max-err", "rival/max-err", "flat/max-err", "steps", "bytes",
        "mutants/total", "mutants/rejected", "mutants/surviving", "runs/count",
    }  # fmt: skip


def test_the_median_points_at_the_run_that_printed_it():
    value = READING.values[f"{CASE}/naive/time"]
    span = value.spans[value.median_run]
    line = record()["runs"][span.run]["stdout"][span.line]
    assert (span.run, line[span.start : span.end]) == (0, "0.660")
