"""Two programs side by side: which lines and words differ, what became of the values."""
# ruff: noqa: RUF001

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import markdown
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.pages import bindings, comparison, grounds, linediff
from evidence.pages.extension import EvidenceExtension
from evidence.pages.library import Library
from evidence.pages.linediff import Row, folded, rows, words

if TYPE_CHECKING:
    from conftest import Tree

SOURCE = """\
// Day {day}: a program.
//
// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu
// Run: ./{stem}
#include <cstdio>

int main() {{
    // snippet: sum
{lines}
    // end snippet
    return 0;
}}
"""
OLD = """\
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) {
        sum += x[i];
    }
    std::printf("%g\\n", sum);"""
NEW = """\
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        sum = fmaf(x[i], y[i], sum);
    }"""


def run(time: float, bytes_: int, extra: float) -> list[list[str]]:
    return [
        [
            "case n = 256",
            f"  time     {time * scale:.2f} ms",
            f"  bytes    {bytes_} B",
            f"  other    {extra * scale:.2f} ms",
            "case n = 512",
            f"  time     {2 * time * scale:.2f} ms",
            "GPU",
            "  zero     0 B",
        ]
        for scale in (0.95, 1.0, 1.05)
    ]


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    """Two programs: in the second, time is halved, bytes are the same, `other` overlaps."""
    tree.write("pyproject.toml", '[tool.evidence]\nreviewed = ""\n')
    for day, stem, lines in ((1, "old", OLD), (2, "new", NEW)):
        folder = f"00{day}-{stem}"
        tree.program(folder, stem, SOURCE.format(day=day, stem=stem, lines=lines))
        tree.write(f"kernels/{folder}/evidence.toml", f"[{stem}]\nruns = 3\n")
    tree.record("001-old/old", stdout=run(10.0, 1024, 3.0))
    tree.record("002-new/new", stdout=run(5.0, 1024, 3.1))
    return tree


FRONT = "---\nprograms: [001-old, 002-new]\n---\n\n"
FIRST = FRONT.count("\n") + 1


def diff(*values: str, old: str = "old.cu:sum", new: str = "new.cu:sum") -> str:
    listed = "".join(f"        {value}\n" for value in values)
    return (
        f"/// diff\n    old: {old}\n    new: {new}\n"
        + (f"    values:\n{listed}" if listed else "")
        + "///"
    )


def found(tree: Tree, text: str) -> list[str]:
    tree.write("docs/page.md", FRONT + text)
    tree.write("docs/rest.md", "/// code | old.cu:sum\n///\n\n/// code | new.cu:sum\n///\n")
    said = [f.explain() for f in bindings.findings(tree.load())]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in said]


def convert(tree: Tree, text: str, on_error: str = "fail") -> str:
    path = tree.write("docs/page.md", FRONT + text)
    extension = EvidenceExtension(page=str(path), on_error=on_error)
    others = ["admonition", "tables", "pymdownx.superfences", "pymdownx.tabbed", "pymdownx.blocks.details",
              "pymdownx.details", "md_in_html", "def_list"]  # fmt: skip
    html = markdown.Markdown(extensions=[*others, extension]).convert(FRONT + text)
    return html.replace("\N{NO-BREAK SPACE}", " ")


def cells(html: str) -> list[list[str]]:
    """Return the cells of all rows, without tags; marked words in brackets."""
    html = re.sub(r"<mark>(.*?)</mark>", r"[\1]", html)
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", html)
    return [
        [re.sub(r"<[^>]+>", "", cell).replace("&lt;", "<") for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in found
    ]  # fmt: skip


def test_code_side_by_side(recorded: Tree) -> None:
    assert cells(convert(recorded, diff())) == [
        ["old.cu sum", "new.cu sum"],
        ["9", "float sum = 0.0f;", "9", "float sum = 0.0f;"],
        ["", "", "10", "+#pragma unroll"],
        ["10", "for (int i = 0; i < 8; ++i) {", "11", "for (int i = 0; i < 8; ++i) {"],
        ["11", "−    sum [+]= x[i];", "12", "+    sum = [fmaf(]x[i][, y[i], sum)];"],
        ["12", "}", "13", "}"],
        ["13", '−std::printf("%g\\n", sum);', "", ""],
    ]  # fmt: skip


def test_rows_say_what_they_are(recorded: Tree) -> None:
    html = convert(recorded, diff())
    assert html.count('<tr class="ev-same">') == 3
    assert html.count('<td class="ev-old">') == 2
    assert html.count('<td class="ev-new">') == 2
    assert html.count('<td class="ev-none"></td>') == 4


def test_numbers_of_lines_lead_to_the_whole_source(recorded: Tree) -> None:
    recorded.write("docs/full.md", "/// code | old.cu\n///\n")
    html = convert(recorded, diff())
    assert re.search(
        r'<td class="ev-at"><a href="full.md#[^"]*11" tabindex="-1">11</a></td><td class="ev-old">',
        html,
    )
    assert '<td class="ev-at">12</td><td class="ev-new">' in html


def test_long_runs_of_the_same_lines_are_left_out(recorded: Tree) -> None:
    html = convert(recorded, diff(old="old.cu", new="new.cu"))
    rows_ = cells(html)
    assert rows_[0] == ["old.cu", "new.cu"]
    assert rows_[1][1] == "−// Day [1]: a program."
    assert rows_[3][1] == "−// Build: nvcc -O3 -std=c++17 -arch=native -o [old] [old].cu"
    long = SOURCE.replace("{lines}", "\n".join(f"    int a{n};" for n in range(30)) + "\n{lines}")
    for day, stem, lines in ((1, "old", OLD), (2, "new", NEW)):
        recorded.program(f"00{day}-{stem}", stem, long.format(day=day, stem=stem, lines=lines))
    assert cells(convert(recorded, diff()))[1] == ["28 lines the same"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("time: case-n-256/time", [["time", "10.0 ms", "5.0 ms", "changed, 0.50×"]]),
        ("bytes: case-n-256/bytes", [["bytes", "1024 B", "1024 B", "the same"]]),
        ("other: case-n-256/other", [["other", "3.0 ms", "3.1 ms", "within noise"]]),
        (
            "time: case-n-*/time",
            [["time, 256", "10.0 ms", "5.0 ms", "changed, 0.50×"], ["time, 512", "20 ms", "10.0 ms", "changed, 0.50×"]],
        ),
        ("two: case-n-256/bytes -> GPU/zero", [["two", "1024 B", "0 B", "changed"]]),
        ("two: GPU/zero -> case-n-256/bytes", [["two", "0 B", "1024 B", "changed"]]),
        ("two: case-n-512/time -> case-n-256/time", [["two", "20 ms", "5.0 ms", "changed, 0.25×"]]),
        ("stack: compile/addKernel/stack", [["stack", "128 B", "128 B", "the same"]]),
    ],
)  # fmt: skip
def test_what_became_of_values(recorded: Tree, value: str, expected: list[list[str]]) -> None:
    assert found(recorded, diff(value)) == []
    made = cells(convert(recorded, diff(value)).partition('<table class="ev-table">')[2])
    assert made == [["", "old.cu", "new.cu", "new against old"], *expected]


def test_values_lead_into_the_output_of_either_program(recorded: Tree) -> None:
    recorded.write("docs/outputs.md", "/// output | 1\n///\n\n/// output | 2\n///\n")
    html = convert(recorded, diff("time: case-n-256/time"))
    assert 'href="outputs.md#ev~001-old~old~case-n-256~time"' in html
    assert 'href="outputs.md#ev~002-new~new~case-n-256~time"' in html
    path = recorded.root / "docs/outputs.md"
    shown = markdown.Markdown(extensions=[EvidenceExtension(page=str(path))]).convert(
        path.read_text()
    )
    assert shown.count('id="ev~001-old~old~case-n-256~time"') == 1
    assert shown.count('id="ev~002-new~new~case-n-256~time"') == 1


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("/// diff\n    new: new.cu\n///", 0, "bad-diff: a diff has no `old:` — add `    old: file.cu:region`"),
        ("/// diff\n    old: old.cu\n    new:\n///", 0, "bad-diff: a diff has no `new:` — add `    new: file.cu:region`"),
        (diff(new="old.cu:sum"), 2, "bad-diff: both sides are the same code — name two"),
        (diff("a: case-n-256/time", old="old.cu", new="old.cu:sum"), 4, "bad-diff: one program has no values to compare — remove `values:`, or compare two programs"),
        (diff(old="old.cu:summe"), 1, "unknown-region: kernels/001-old/old.cu has no region `summe`; close: sum — correct the name, or mark the region in the source"),
        (diff(new="knew.cu"), 2, "unknown-program: no program is named 'knew.cu'; close: new.cu — run: evidence list"),
        (diff("case-n-256/time"), 4, "bad-diff: `case-n-256/time` under `values:` is not read — write each in a line of its own, indented deeper, `label: name`"),
        (diff("a: case-n-256/time", "a: case-n-256/bytes"), 5, "bad-diff: `a` is given twice — rename one of them"),
        (diff("a: case-n-256/tim"), 4, "bad-diff: `a`: of 001-old/old, `case-n-256/tim` is no address; close: case-n-256/time, case-n-512/time, case-n-256/other — list them with: evidence values"),
        (diff("a: case-n-256/time -> x"), 4, "bad-diff: `a`: of 002-new/new, `x` is no address — list them with: evidence values"),
        (diff("a: case-n-256/time -> case-n-256/bytes"), 4, "bad-diff: `a` is in `ms` before and in `B` after — compare one unit at a time"),
        (diff("a: case-n-*/time -> case-n-256/*"), 4, "bad-diff: `case-n-*/time -> case-n-256/*` stands for nothing that both programs have: 256, 512 and bytes, other, time — use a wildcard that matches the same in both"),
        ("/// diff | old.cu\n    old: old.cu\n    new: new.cu\n///", 0, "page-syntax: `/// diff` takes no argument, but has `old.cu` — put what is compared in options `    old:` and `    new:`"),
        ("/// diff\n    old: old.cu\n    new: new.cu\nText.\n///", 0, "page-syntax: `/// diff` takes no content — end it with a line `///` before the text"),
    ],
)  # fmt: skip
def test_what_is_wrong(recorded: Tree, text: str, line: int, expected: str) -> None:
    assert found(recorded, text) == [f"docs/page.md:{FIRST + line}: {expected}"]


def test_values_stand_on_evidence_that_can_be_shown(recorded: Tree) -> None:
    (recorded.root / "kernels/002-new/evidence/new.h200.json").unlink()
    said = found(recorded, diff("time: case-n-256/time"))
    assert said[0] == (
        f"docs/page.md:{FIRST + 4}: bad-diff: 002-new/new has no evidence on h200 — run: evidence record "
        "002-new/new"
    )
    assert found(recorded, diff()) == []


def test_values_stand_on_evidence_of_the_code_as_it_is(recorded: Tree) -> None:
    source = recorded.root / "kernels/002-new/new.cu"
    source.write_text(
        source.read_text(encoding="utf-8").replace("return 0;", "return 0 + 0;"), encoding="utf-8"
    )
    (said,) = found(recorded, diff("time: case-n-256/time"))
    assert said.startswith(
        f"docs/page.md:{FIRST + 4}: stale: stands on evidence that cannot be shown: "
    )


def test_what_fails_can_be_shown_instead(recorded: Tree) -> None:
    html = convert(recorded, diff(new="old.cu:sum"), on_error="show")
    assert '<div class="ev-error">both sides are the same code</div>' in html


def test_a_region_of_a_diff_is_used(recorded: Tree) -> None:
    recorded.write("docs/page.md", FRONT + diff())
    assert [f.code for f in bindings.findings(recorded.load())] == []
    recorded.write("docs/page.md", FRONT + diff(old="old.cu"))
    assert [f.code for f in bindings.findings(recorded.load())] == ["region-unused"]


def test_what_a_section_with_a_diff_stands_on(recorded: Tree) -> None:
    path = recorded.write("docs/page.md", FRONT + diff("time: case-n-256/time"))
    (shown,) = bindings.Pages(Library(recorded.load())).bound(path).shown
    assert [ground.key for ground in grounds.of(shown)] == [
        ("regions", "001-old/old.cu:sum"),
        ("regions", "002-new/new.cu:sum"),
        ("values", "001-old/old:case-n-256/time"),
        ("values", "002-new/new:case-n-256/time"),
    ]


@pytest.mark.parametrize(
    "around",
    ["- item\n\n    {}", "1. item\n\n    {}", "!!! note\n\n    {}", "??? note\n\n    {}", '=== "Tab"\n\n    {}', "> {}",
     "//// details | Title\n{}\n////", '<div markdown="1">\n\n{}\n\n</div>', "- a\n\n    - b\n\n        {}"],
)  # fmt: skip
def test_a_diff_is_the_same_wherever_it_stands(recorded: Tree, around: str) -> None:
    text = diff("time: case-n-256/time")
    alone = re.search(r'<figure class="ev-diff">.*</figure>', convert(recorded, text), re.DOTALL)
    indent = (
        "> " if around.startswith(">") else " " * len(around.partition("{}")[0].rpartition("\n")[2])
    )
    there = convert(recorded, around.format(text.replace("\n", f"\n{indent}")))
    assert alone is not None
    assert alone[0] in there


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [], []),
        (["a"], ["a"], [Row("same", 0, 0)]),
        (["a"], [], [Row("removed", 0, None)]),
        ([], ["a"], [Row("added", None, 0)]),
        (["a b c d"], ["a b x d"], [Row("changed", 0, 0, ((4, 5),), ((4, 5),))]),
        (["a b c 1"], ["a b c 3", "a b c 4"], [Row("changed", 0, 0, ((6, 7),), ((6, 7),)), Row("added", None, 1)]),
        (["a b c d"], ["x y z"], [Row("removed", 0, None), Row("added", None, 0)]),
        (
            ["x(1);", "y(22, 23);"],
            ["q;", "y(22, 24);"],
            [Row("removed", 0, None), Row("added", None, 0), Row("changed", 1, 1, ((6, 8),), ((6, 8),))],
        ),
        (["f(a);", "f(b);"], ["f(a);", "f(c);", "f(b);"], [Row("same", 0, 0), Row("added", None, 1), Row("same", 1, 2)]),
    ],
)  # fmt: skip
def test_rows(old: list[str], new: list[str], expected: list[Row]) -> None:
    assert rows(old, new) == expected


TEXTS = st.lists(st.sampled_from(["a", "b b", "a b c", "a b d", "", "  a"]), max_size=12)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_every_line_stands_once_and_in_order(old: list[str], new: list[str]) -> None:
    found = rows(old, new)
    assert [row.old for row in found if row.old is not None] == list(range(len(old)))
    assert [row.new for row in found if row.new is not None] == list(range(len(new)))
    for row in found:
        if row.kind == "same":
            assert old[row.old or 0] == new[row.new or 0]
        if row.kind == "changed":
            assert old[row.old or 0] != new[row.new or 0]
            assert row.old_words or row.new_words


@settings(deadline=None)
@given(st.text("ab (.)", max_size=20), st.text("ab (.)", max_size=20))
def test_what_is_not_marked_is_the_same_in_both_lines(old: str, new: str) -> None:
    def rest(text: str, ranges: linediff.Ranges) -> str:
        return "".join(c for i, c in enumerate(text) if not any(a <= i < b for a, b in ranges))

    gone, come = words(old, new)
    assert rest(old, gone) == rest(new, come)


@pytest.mark.parametrize(
    ("html", "ranges", "expected"),
    [
        ("abc", (), "abc"),
        ("abc", ((0, 1),), "<mark>a</mark>bc"),
        ("abc", ((1, 3),), "a<mark>bc</mark>"),
        ("a&lt;c", ((1, 2),), "a<mark>&lt;</mark>c"),
        ('<span class="k">int</span> x', ((0, 3),), '<span class="k"><mark>int</mark></span> x'),
        ('<span class="k">int</span> x', ((1, 5),), '<span class="k">i<mark>nt</mark></span><mark> x</mark>'),
        ("abcd", ((0, 1), (2, 4)), "<mark>a</mark>b<mark>cd</mark>"),
    ],
)  # fmt: skip
def test_marks_stand_inside_of_elements(html: str, ranges: linediff.Ranges, expected: str) -> None:
    assert comparison.marked(html, ranges) == expected


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("s" * 4, [4]),
        ("c" + "s" * 4, [0, 1, 2, 3, 1]),
        ("s" * 5 + "c" + "s" * 3, [2, 2, 3, 4, 5, 6, 7, 8]),
        ("c" + "s" * 7 + "c", [0, 1, 2, 3, 1, 5, 6, 7, 8]),
        ("c" + "s" * 6 + "c", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_folding(kinds: str, expected: list[int]) -> None:
    found = [Row("same" if k == "s" else "removed", i, i) for i, k in enumerate(kinds)]
    assert [entry if isinstance(entry, int) else entry.old for entry in folded(found)] == expected
