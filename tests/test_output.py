"""Reading printed output: addresses, units, spans, and what is refused."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import output
from evidence.output import Parsed, Unread


def read(text: str, extra: tuple[tuple[str, str], ...] = ()) -> output.Output:
    return output.read(dedent(text).strip("\n").split("\n"), extra)


def numbers(text: str) -> dict[str, tuple[str, str]]:
    """Address → (text, unit); nothing else may be left over."""
    found = read(text)
    assert found.problems == ()
    assert found.unread == ()
    return {p.address: (p.text, p.unit) for p in found.values.values()}


DAY_97 = """
    GPU: NVIDIA H200, compute capability 9.0

    kernels
      kernel            registers  local (B)  shared (B)  blocks/SM  occupancy (%)
      scoresQKt                38          0        2112          8          100.0
      attentionOnline          40        128       32896          6           75.0

    case flat, n = 4096
      max |reference|      1.2345
      gate                 atol = 1e-5 * max|ref|
      floor, naive         335544320 B   (5 n^2 floats)
      path       max abs err   gate frac   time (ms)
      naive        1.234e-05      0.0671      0.6602
      online       2.345e-05      0.0712      1.2642
      time ratio      0.522x
      reached             98.5 %

    all 9 cases passed their gates
"""


def test_a_whole_output_is_read():
    found = read(DAY_97)
    assert {p.address: (p.text, p.unit) for p in found.values.values()} == {
        "kernels/scoresQKt/registers": ("38", ""),
        "kernels/scoresQKt/local": ("0", "B"),
        "kernels/scoresQKt/shared": ("2112", "B"),
        "kernels/scoresQKt/blocks-SM": ("8", ""),
        "kernels/scoresQKt/occupancy": ("100.0", "%"),
        "kernels/attentionOnline/registers": ("40", ""),
        "kernels/attentionOnline/local": ("128", "B"),
        "kernels/attentionOnline/shared": ("32896", "B"),
        "kernels/attentionOnline/blocks-SM": ("6", ""),
        "kernels/attentionOnline/occupancy": ("75.0", "%"),
        "case-flat-n-4096/max-reference": ("1.2345", ""),
        "case-flat-n-4096/floor-naive": ("335544320", "B"),
        "case-flat-n-4096/naive/max-abs-err": ("1.234e-05", ""),
        "case-flat-n-4096/naive/gate-frac": ("0.0671", ""),
        "case-flat-n-4096/naive/time": ("0.6602", "ms"),
        "case-flat-n-4096/online/max-abs-err": ("2.345e-05", ""),
        "case-flat-n-4096/online/gate-frac": ("0.0712", ""),
        "case-flat-n-4096/online/time": ("1.2642", "ms"),
        "case-flat-n-4096/time-ratio": ("0.522", "x"),
        "case-flat-n-4096/reached": ("98.5", "%"),
    }
    assert found.unread == (
        Unread(0, "GPU: NVIDIA H200, compute capability 9.0"),
        Unread(9, "gate  atol = 1e-5 * max|ref|"),
        Unread(17, "all 9 cases passed their gates"),
    )
    assert found.problems == ()


def test_a_number_knows_its_place():
    found = read("case\n  path   err   time (ms)\n  naive  1e-5    -0.50 \n")
    assert found.values["case/naive/err"] == Parsed("case/naive/err", "1e-5", 1e-5, "", 2, 9, 13)
    assert found.values["case/naive/time"] == Parsed(
        "case/naive/time", "-0.50", -0.5, "ms", 2, 17, 22
    )


@pytest.mark.parametrize(
    ("cell", "text", "unit"),
    [
        ("12", "12", ""),
        ("-3", "-3", ""),
        ("+3", "+3", ""),
        ("1.5", "1.5", ""),
        (".5", ".5", ""),
        ("1.", "1.", ""),
        ("1.2e-05", "1.2e-05", ""),
        ("1E+10", "1E+10", ""),
        ("nan", "nan", ""),
        ("-nan", "-nan", ""),
        ("inf", "inf", ""),
        ("-inf", "-inf", ""),
        ("12x", "12", "x"),
        ("0.522x", "0.522", "x"),
        ("12 x", "12", "x"),
        ("98.5%", "98.5", "%"),
        ("98.5 %", "98.5", "%"),
        ("4.25 TB/s", "4.25", "TB/s"),
        ("0.53 µs", "0.53", "µs"),
        ("6 blocks/SM", "6", "blocks/SM"),
        ("12 B   (5 n^2 floats)", "12", "B"),
        ("12 B (5 n^2 floats)", "12", "B"),
        ("12   (five of them)", "12", ""),
        ("12   (a note   in two parts)", "12", ""),
    ],
)
def test_a_fact(cell: str, text: str, unit: str):
    assert numbers(f"case\n  label   {cell}\n") == {"case/label": (text, unit)}


@pytest.mark.parametrize(
    "cell",
    [
        "1,024",
        "12/40",
        "4 of 5",
        "16x16",
        "64 x 64",
        "1.5.2",
        "1.5-0.3",
        "0x10",
        "1e5e5",
        "12ms",
        "about 12",
        "12 13",
        "v2",
        "12 B   13",
        "12 B,",
        "~5",
        "> 5",
        "1.234e-05 0.0671",
    ],
)
def test_what_is_no_number_is_unread(cell: str):
    found = read(f"case\n  label   {cell}\n")
    assert found.values == {}
    assert [entry.line for entry in found.unread] == [1]


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("case", "case"),
        ("case:", "case"),
        ("copy (GB/s):", "copy"),
        ("case: peaked scores", "case"),
        ("case n = 256: peaked: scores", "case-n-256"),
        ("Case_A (peaked)", "Case_A-peaked"),
        ("copy 2.5 GiB+1 (GB/s)", "copy-2.5-GiB+1"),
        ("-- totals --", "totals"),
    ],
)
def test_a_title_opens_a_section(line: str, section: str):
    assert list(read(f"{line}\n  a   1\n").values) == [f"{section}/a"]


@pytest.mark.parametrize(
    ("label", "segment", "unit"),
    [
        ("time (ms)", "time", "ms"),
        ("time (ms):", "time", "ms"),
        ("max |reference|", "max-reference", ""),
        ("max err (n = 256)", "max-err-n-256", ""),
        ("p50 (1/s)", "p50", "1/s"),
        ("count (2)", "count-2", ""),
        ("Größe", "Gr-e", ""),
        ("256", "256", ""),
    ],
)
def test_a_label_gives_a_segment_and_a_unit(label: str, segment: str, unit: str):
    assert numbers(f"s\n  {label}   5\n") == {f"s/{segment}": ("5", unit)}


def test_a_table_with_right_aligned_columns():
    assert numbers(
        """
        sizes
               n  floats (count)   size (MiB)
             256           65536         0.25
           65536      4294967296        16384
        """
    ) == {
        "sizes/256/floats": ("65536", "count"),
        "sizes/256/size": ("0.25", "MiB"),
        "sizes/65536/floats": ("4294967296", "count"),
        "sizes/65536/size": ("16384", "MiB"),
    }


def test_units_in_cells_of_a_table():
    assert numbers("t\n  path   share   rate\n  a   98.5 %   2x\n") == {
        "t/a/share": ("98.5", "%"),
        "t/a/rate": ("2", "x"),
    }


def test_a_row_that_is_named_after_its_unit():
    assert numbers("t\n  what   naive   online\n  time (ms)   1   2\n  regs   3   4\n") == {
        "t/time/naive": ("1", "ms"),
        "t/time/online": ("2", "ms"),
        "t/regs/naive": ("3", ""),
        "t/regs/online": ("4", ""),
    }


def test_a_table_of_two_columns_needs_a_unit_or_numbers_as_rows():
    assert numbers("t\n  path   time (ms)\n  a   1\n") == {"t/a/time": ("1", "ms")}
    assert numbers("t\n  n   bytes\n  256   1024\n") == {"t/256/bytes": ("1024", "")}


def test_a_fact_of_words_above_a_fact_is_no_header():
    assert numbers("t\n  name   NVIDIA\n  SMs   132\n") == {"t/SMs": ("132", "")}
    assert numbers("t\n  status   ok   (all finite)\n  time   2 ms   (median)\n") == {
        "t/time": ("2", "ms")
    }


def test_cells_without_a_number_have_no_address():
    found = read("t\n  path   regs   note\n  a   1   fast\n  b   -   2x2\n")
    assert list(found.values) == ["t/a/regs"]
    assert found.unread == (Unread(3, "2x2"),)


@pytest.mark.parametrize("end", ["", "next", "  fact   7"])
def test_a_table_ends(end: str):
    found = read(f"t\n  path   a   b\n  x   1   2\n{end}\n  y   3   4\n")
    assert "t/y/a" not in found.values
    assert "next/y/a" not in found.values


def test_a_fact_may_follow_a_table_at_once():
    assert numbers("t\n  p   a   b\n  x   1   2\n  worst   0.5\n  share   3 %   (of rows)\n") == {
        "t/x/a": ("1", ""),
        "t/x/b": ("2", ""),
        "t/worst": ("0.5", ""),
        "t/share": ("3", "%"),
    }


def test_a_fact_with_a_note_is_no_row():
    assert numbers("t\n  p   a   b\n  x   1   2\n  worst   0.5   (of x)\n") == {
        "t/x/a": ("1", ""),
        "t/x/b": ("2", ""),
        "t/worst": ("0.5", ""),
    }


def test_a_note_makes_no_header():
    found = read("t\n  gate   formula   (rtol)\n  a   1   2\n")
    assert (list(found.values), found.unread) == ([], (Unread(2, "a  1  2"),))
    found = read("t\n  p   v2   more\n  time   2   (median)\n")
    assert (list(found.values), found.unread) == (["t/time"], (Unread(1, "p  v2  more"),))


def test_words_in_parentheses_stay_in_a_row_and_units_do_not():
    assert numbers("t\n  p   a   b\n  online (fused)   1   2\n  time (s)   3   4\n") == {
        "t/online-fused/a": ("1", ""),
        "t/online-fused/b": ("2", ""),
        "t/time/a": ("3", "s"),
        "t/time/b": ("4", "s"),
    }


def test_a_number_under_a_nameless_column_or_in_a_nameless_row_is_unread():
    found = read("t\n  p   --   b\n  x   1   2\n  |   3   4\n")
    assert list(found.values) == ["t/x/b"]
    assert found.unread == (Unread(2, "1"), Unread(3, "3"), Unread(3, "4"))


TOUCHING = (
    "cells where the line above has 4, and a number touches its neighbour: print two spaces "
    "between cells, and a blank line between a table and a fact",
)


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("naive 1.5  0.66  2", 3),
        ("naive  1.5 0.66  2", 3),
        ("naive 1.5 0.66  2", 2),
        ("naive12345.678  2", 2),
        ("naive  1.5 0.66 2", 2),
        ("naive  1.5e-05 -0.66  2", 3),
    ],
)
def test_cells_that_touch_are_a_problem(row: str, cells: int):
    table = "t\n  path   err   gate   time (ms)\n"
    for above, line in ((f"{table}  x   1   2   3\n", 4), (table, 3)):
        found = read(f"{above}  {row}\n  y   4   5   6\n")
        assert found.problems == (f"line {line}: {cells} {TOUCHING[0]}",)
        assert all(not address.startswith("t/naive") for address in found.values)
        assert found.unread[0].line == line - 1


def test_a_second_header_inside_a_table_is_a_problem():
    found = read("t\n  path   err   time\n  a   1   2\n  kernel   regs   bytes\n  b   3   4\n")
    assert found.problems == (
        "line 4: a row of words inside a table, which may be the header of another: leave a "
        "blank line before a header",
    )


def test_a_row_without_results_is_no_second_header():
    assert read("t\n  path   err   time\n  a   -   n/a\n  b   3   4\n").problems == ()
    assert read("t\n  p   err   time\n  a   1   2\n  b   -   n/a\n  c   3   4\n").problems == ()


def test_the_same_address_twice_is_a_problem_and_has_no_value():
    found = read("t\n  a   1\n  a   2\n  b   3\n")
    assert found.problems == ("line 3: t/a is printed twice, first in line 2",)
    assert found.refused == {"t/a": "is printed twice, first in line 2"}
    assert list(found.values) == ["t/b"]


def test_sections_of_one_title_are_told_apart_by_what_stands_before_the_colon():
    assert read("case: 1\n  a   1\ncase: 2\n  a   2\n").problems == (
        "line 4: case/a is printed twice, first in line 2",
    )
    assert numbers("case 1\n  a   1\ncase 2\n  a   2\n").keys() == {"case-1/a", "case-2/a"}


def test_a_unit_that_contradicts_its_label_is_a_problem():
    found = read("t\n  time (ms)   12 us\n  size (B)   4 bytes\n")
    assert found.problems == ("line 2: t/time is in us, but its label says ms",)
    assert list(found.values) == ["t/size"]


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("  a   1\n", "a   1"),
        ("s\n a   1\n", "a   1"),
        ("s\n\ta   1\n", "a   1"),
        ("====\n  a   1\n", "a   1"),
        ("s\n  |   1\n", "|  1"),
        ("s\n  a   1   2\n", "a  1  2"),
        ("s\n  12\n", "12"),
        ("n = 12: ok\n", "n = 12: ok"),
        ("s: n = 12\n  ok\n", "n = 12"),
    ],
)
def test_a_digit_is_never_passed_over(text: str, unread: str):
    found = output.read(text.split("\n"))
    assert found.values == {}
    assert [entry.text for entry in found.unread] == [unread]


def test_lines_without_digits_are_passed_over():
    assert numbers("all gates passed\n\n  fine\ns\n  a   ok\n   \n") == {}


def test_a_regular_expression_of_the_plan():
    found = read(
        "s\n  it took about 12.5 ms in all\n  a   1\n", (("took", r"took about (\S+ \S+)"),)
    )
    assert found.values["text/took"] == Parsed("text/took", "12.5", 12.5, "ms", 1, 16, 20)
    assert found.unread == ()


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (
            "nothing (.)",
            "text/x: its regular expression matches nothing; it must match once",
        ),
        (
            r"n=(\d)",
            "text/x: its regular expression matches 2 times, in lines 1, 2; it must match once",
        ),
        (r"a(.)", "line 1: text/x captures ' ', which is no number"),
        (r"a(q)?", "line 1: text/x captures None, which is no number"),
    ],
)
def test_a_regular_expression_that_does_not_name_one_number(pattern: str, problem: str):
    found = output.read(["a n=1", "n=2"], (("x", pattern),))
    assert found.problems == (problem,)
    assert found.values == {}


def test_carriage_returns_and_trailing_blanks_do_not_matter():
    assert list(output.read(["s\r", "  a   1  \r", "\r"]).values) == ["s/a"]


CELLS = st.sampled_from(
    ["a", "b c", "time (ms)", "1", "-2.5", "1e-3", "3x", "4 %", "nan", "inf", "-", "(note 1)", "ok"]
)
LINES = st.builds(
    lambda indent, cells, gap: " " * indent + (" " * gap).join(cells),
    st.sampled_from([0, 0, 1, 2, 4]),
    st.lists(CELLS, max_size=5),
    st.integers(1, 4),
)


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), LINES), max_size=12))
def test_any_text_is_read_and_every_number_is_where_its_span_says(lines: list[str]):
    found = output.read(lines)
    for address, parsed in found.values.items():
        assert address == parsed.address
        assert lines[parsed.line][parsed.start : parsed.end] == parsed.text
        assert repr(float(parsed.text)) == repr(parsed.number)
        assert all(output.slug(segment) == segment for segment in address.split("/"))


@settings(deadline=None)
@given(st.lists(LINES, max_size=12))
def test_no_line_with_digits_is_lost(lines: list[str]):
    found = output.read(lines)
    seen = {p.line for p in found.values.values()} | {entry.line for entry in found.unread}
    twice = {int(text.split(":")[0].removeprefix("line ")) - 1 for text in found.problems}
    twice |= {int(text.split()[-1]) - 1 for text in found.refused.values() if "twice" in text}
    titles = {n for n, line in enumerate(lines) if line[:1].strip()}
    for n, line in enumerate(lines):
        if any("0" <= c <= "9" for c in line) and n not in seen | twice | titles:
            # What is left are labels and notes: no cell of the line is a number.
            cells = [part.strip() for part in line.split("  ") if part.strip()]
            assert not any(output._VALUE.fullmatch(cell) for cell in cells[1:]), line


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,8}", fullmatch=True),
            st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda row: row[0],
    )
)
def test_a_printed_table_reads_back(rows: list[tuple[str, list[float]]]):
    lines = ["s", "  path  first  second (ms)  third"]
    lines += ["  " + "  ".join([name, *(f"{x:>12.4e}" for x in cells)]) for name, cells in rows]
    found = output.read(lines)
    assert found.problems == ()
    assert found.values.keys() == {
        f"s/{name}/{column}" for name, _ in rows for column in ("first", "second", "third")
    }
    for name, cells in rows:
        assert found.values[f"s/{name}/second"].text == f"{cells[1]:.4e}"
