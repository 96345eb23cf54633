"""Reading a run with another's help gives what reading it afresh gives, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import output
from evidence.alike import read_alike

FIRST = [
    "GPU: NVIDIA H200",
    "case n = 256",
    "  path      max err  time (ms)",
    "  naive     1.2e-06       9.81",
    "  online    1.1e-06      12.40  ",
    "",
    "  ratio     1.26x   (online over naive)",
    "  share     98.5 %",
    "all 2 cases passed",
]


def both(lines: list[str]):
    return read_alike(output.read(FIRST), FIRST, lines), output.read(lines)


def changed(number: int, line: str) -> list[str]:
    return [*FIRST[:number], line, *FIRST[number + 1 :]]


@pytest.mark.parametrize(
    "lines",
    [
        FIRST,
        changed(3, "  naive     1.2e-06      10.02"),
        changed(3, "  naive     nan           9.81"),
        changed(4, "  online    1.1e-06       2.40"),
        changed(6, "  ratio     0.99x   (online over naive)"),
        changed(7, "  share     100 %"),
    ],
)
def test_other_numbers_in_the_same_places(lines: list[str]):
    quick, afresh = both(lines)
    assert repr(quick) == repr(afresh)  # nan differs from itself


@pytest.mark.parametrize(
    "lines",
    [
        FIRST[:-1],
        changed(0, "GPU: NVIDIA H100"),
        changed(1, "case n = 512"),
        changed(2, "  path      max err  time (us)"),
        changed(3, "  tiled     1.2e-06       9.81"),
        changed(3, "  naive     1.2e-06       none"),
        changed(3, "  naive     1.2e-06 9.81"),
        changed(3, "naive     1.2e-06       9.81"),
        changed(6, "  ratio     1.26%   (online over naive)"),
        changed(6, "  ratio     1.26x   (naive over online)"),
        changed(8, "all 3 cases passed"),
    ],
)
def test_anything_else_is_read_afresh(lines: list[str]):
    assert both(lines)[0] is None


def test_a_run_with_problems_helps_nobody():
    twice = [*FIRST[:7], FIRST[6], *FIRST[7:]]
    first = output.read(twice)
    assert first.problems
    assert read_alike(first, twice, twice) is None


_CELLS = st.sampled_from(
    ["1.5", "12", "nan", "98.5 %", "3x", "word", "(note)", "2 ms", "-", "1e-3"]
)
_LINE = st.lists(_CELLS, min_size=1, max_size=4).map(lambda cells: "  row  " + "  ".join(cells))


@given(st.lists(_LINE, min_size=1, max_size=6), st.data())
def test_it_never_differs_from_reading_afresh(lines: list[str], data: st.DataObject):
    before = ["Section", *lines]
    after = list(before)
    for number in range(1, len(after)):
        if data.draw(st.booleans()):
            after[number] = data.draw(_LINE)
    quick = read_alike(output.read(before), before, after)
    assert quick is None or repr(quick) == repr(output.read(after))
