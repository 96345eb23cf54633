"""What a plot may say, what it becomes, and that the same numbers give the same drawing."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import markdown
import pytest

from evidence.pages import bindings, drawing, drawings, grounds, svg
from evidence.pages.drawing import Curve, Dot, Drawing
from evidence.pages.extension import EvidenceExtension
from evidence.pages.library import Library
from evidence.pages.points import differing
from evidence.pages.shown import Plot

if TYPE_CHECKING:
    from conftest import Tree

ROOT = Path(__file__).parent.parent
TIMES = {256: (1.0, 2.0), 1024: (4.0, 3.0), 16384: (90.0, 30.0)}
RUNS = [
    [
        line
        for n, (naive, online) in TIMES.items()
        for line in (
            f"case n = {n}",
            f"  bytes      {n * 64} B",
            "  zero        0 ms",
            "",
            "  path    time (ms)",
            f"  naive       {naive * scale:.2f}",
            f"  online      {online * scale:.2f}",
            "",
        )
    ]
    + ["GPU", "  ceiling    100.00 ms", "  rate       5.0 GB/s"]
    for scale in (0.9, 1.0, 1.2)
]
FRONT = """\
---
programs: [001-add]
values:
  naive: case-n-*/naive/time
  online: case-n-*/online/time
  naive_256: case-n-256/naive/time
  naive_1024: case-n-1024/naive/time
  naive_16384: case-n-16384/naive/time
  moved: case-n-*/bytes
  zero: case-n-*/zero
  both: case-n-*/*/time
  ceiling: GPU/ceiling
  rate: GPU/rate
---

"""
FIRST = FRONT.count("\n") + 1
USED = "[= max(naive) ] [= max(online) ] [= naive_256 ] [= naive_1024 ] [= naive_16384 ] [= max(moved) ] [= max(zero) ]\n"
USED += "[= max(both) ] [= ceiling ] [= rate ]\n\n/// code | add.cu:greeting\n///\n"


def plot(*lines: str, text: str = "") -> str:
    """Return a plot with options, and a caption."""
    head = "".join(f"    {line}\n" for line in lines)
    return f"/// plot\n{head}{text}\n///"


def series(*entries: str) -> tuple[str, ...]:
    return ("series:", *(f"    {entry}" for entry in entries))


TWO = series("three kernels: naive", "one kernel: online")


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.write("pyproject.toml", '[tool.evidence]\nreviewed = ""\n')
    tree.record(stdout=RUNS)
    return tree


def found(tree: Tree, text: str, front: str = FRONT) -> list[str]:
    tree.write("docs/page.md", f"{front}{text}\n\n{USED}")
    said = [f.explain() for f in bindings.findings(tree.load())]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in said]


def convert(tree: Tree, text: str, on_error: str = "fail") -> str:
    path = tree.write("docs/page.md", FRONT + text)
    extension = EvidenceExtension(page=str(path), on_error=on_error)
    others = ["admonition", "tables", "pymdownx.superfences", "pymdownx.tabbed", "pymdownx.blocks.details",
              "pymdownx.details", "md_in_html", "def_list"]  # fmt: skip
    html = markdown.Markdown(extensions=[*others, extension]).convert(FRONT + text)
    return html.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def table(html: str) -> list[list[str]]:
    """Return the cells of a plot's table, without tags."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in cells]


def words(html: str) -> list[str]:
    """Return the text of the wide drawing, in the order in which it is painted."""
    wide = html.partition('class="ev-drawing ev-wide"')[2].partition("</svg>")[0]
    return re.findall(r"<text [^>]*>([^<]*)</text>", wide)


@pytest.mark.parametrize(
    "text",
    [
        plot(*TWO),
        plot("kind: line", "title: Time over n", "x: n", "y: time", "log: x, y", *TWO, text="A caption."),
        plot("kind: scatter", *TWO),
        plot("kind: bar", *TWO),
        plot("log: y", *series("a: naive"), "ceiling:", "    peak: ceiling"),
        plot(*series("a quotient: online / naive")),
        plot(*series("a quotient: online/naive")),
        plot(*series("an address: case-n-*/naive/time")),
        plot(*series("an address: 001-add:case-n-*/naive/time")),
        plot(*series("a list: naive_256, naive_1024")),
        plot("at: 1, 2", *series("a list: naive_256, ceiling")),
        plot("at: moved", *TWO),
        plot("kind: bar", *series("a list: naive_256, ceiling")),
        plot("kind: bar", *series("single: ceiling")),
        plot(*series("a product: 2 * max(naive_256, naive_1024) / naive")),
        plot(*TWO, "ceiling:", "    peak: max(naive)"),
    ],
)  # fmt: skip
def test_what_is_right(recorded: Tree, text: str) -> None:
    assert found(recorded, text) == []
    assert convert(recorded, f"{text}\n\n{USED}").count("<svg ") == 2


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (plot(), 0, "bad-plot: a plot has no series — add `    series:`, and under it, indented deeper, `label: name`"),
        (plot("series:"), 0, "bad-plot: a plot has no series — add `    series:`, and under it, indented deeper, `label: name`"),
        (plot("series: naive"), 1, "bad-plot: `naive` under `series:` is not read — write each in a line of its own, indented deeper, `label: name`"),
        (plot(*series("naive")), 2, "bad-plot: `naive` under `series:` is not read — write each in a line of its own, indented deeper, `label: name`"),
        (plot(*series("a: naive", "a: online")), 3, "bad-plot: `a` is given twice — rename one of them"),
        (plot(*series(*(f"{i}: naive" for i in "abcdefg"))), 8, "bad-plot: 7 series cannot be told apart — plot 6 at most"),
        (plot("kind: lines", *TWO), 1, "bad-plot: `lines` is no kind of plot — did you mean `line`?"),
        (plot("kind: pie", *TWO), 1, "bad-plot: `pie` is no kind of plot — use line, scatter, bar"),
        (plot("log: z", *TWO), 1, "bad-plot: `z` is no axis — write `log: x`, `log: y` or `log: x, y`"),
        (plot("kind: bar", "log: y", *TWO), 2, "bad-plot: a bar's length means nothing on a log axis — remove `log:`, or use `kind: scatter`"),
        (plot("kind: bar", "at: moved", *TWO), 2, "bad-plot: bars stand under each other, at no place — remove `at:`"),
        (plot("colour: red", *TWO), 1, "page-syntax: `colour: red` is no option of `/// plot` — it takes kind, title, x, y, at, series, ceiling, log"),
        (plot(*series("a: naive", "b: moved")), 3, "bad-plot: `b` is in `B`, and the axis in `ms` — plot one unit at a time"),
        (plot(*series("a: naive"), "ceiling:", "    peak: rate"), 4, "bad-plot: `peak` is in `GB/s`, and the axis in `ms` — plot one unit at a time"),
        (plot(*series("a: naive / online"), "ceiling:", "    peak: rate"), 4, "bad-plot: `peak` is in `GB/s`, and the axis in `1` — plot one unit at a time"),
        (plot(*series("a: naive"), "ceiling:", "    peak: online"), 4, "bad-plot: `online` is 3 values, and a ceiling is one — choose one, `max(…)`"),
        (plot("log: y", *series("a: zero")), 3, "bad-plot: `a` is 0 ms, which has no place on a log axis — drop the y axis from `log:`"),
        (plot("log: x", "at: 0, 1", *series("a: naive_256, naive_1024")), 1, "bad-plot: 0 has no place on a log axis — drop the x axis from `log:`"),
        (plot(*series("a: naive_256")), 2, "bad-plot: `naive_256` has no place on the x axis: it is a single value — use a wildcard that stands for one number, or say `at:`"),
        (plot(*series("a: both")), 2, "bad-plot: `both` has no place on the x axis: its wildcards stand for `256, naive` — use a wildcard that stands for one number, or say `at:`"),
        (plot(*series("a: case-n-1*/naive/time")), 2, "bad-plot: `case-n-1*/naive/time` has no place on the x axis: its wildcards stand for `024` — use a wildcard that stands for one number, or say `at:`"),
        (plot(*series("a: naive_256, ceiling")), 2, "bad-plot: the addresses of this list do not differ in one number alone — say where they lie: `at: 256, 1024`"),
        (plot(*series("a: naive_256, naive")), 2, "bad-plot: a list holds single values, and one of these is a vector — give it a line of its own"),
        (plot("at: 1, 2, 3", *series("a: naive_256, naive_1024")), 3, "bad-plot: 2 values, but 3 places in `at:` — give each its place"),
        (plot("at: both", *series("a: naive")), 3, "bad-plot: `at:` has no place for `256` — use the same wildcard"),
        (plot(*series("a: nave")), 2, "unknown-name: `nave` is no name of this page; close: naive, naive_256, naive_1024 — give it an address under `values:`, `nave: program:section/label`"),
        (plot(*series("a: naive +")), 2, "bad-expression: `naive +` cannot be read as an expression — use numbers, names, + - * / **, comparisons, and, min, max, abs"),
        (plot(*series("a: naive < online")), 2, "bad-expression: column 1 of `naive < online`: this is a comparison, not a number — put it into a claim"),
        (plot(*series("a: naive + moved")), 2, "bad-expression: column 9 of `naive + moved`: adds `ms` and `B` — bring both to one unit"),
        (plot(*series("a: case-n-*/nave/time")), 2, "unknown-address: `case-n-*/nave/time`: `case-n-*/nave/time` matches no address; close: case-n-256/naive/time, case-n-1024/naive/time, case-n-16384/naive/time — list them with: evidence values"),
        (plot(*series("a: 002:case-n-*/time")), 2, "unknown-program: no program is named '002' — run: evidence list"),
        ("/// plot | naive\n///", 0, "page-syntax: `/// plot` takes no argument, but has `naive` — put what is plotted in an option `    series:`, the caption in the block"),
        (plot(*TWO, text="It takes 3 ms."), 4, "unbound-number: `3 ms` is typed, not bound to what was measured — bind it, `[= name ]`, or say where it is from, `[! 3 ms | source ]`"),
    ],
)  # fmt: skip
def test_what_is_wrong(recorded: Tree, text: str, line: int, expected: str) -> None:
    said = found(recorded, text)
    assert f"docs/page.md:{FIRST + line}: {expected}" in said
    assert {entry.split(": ")[1] for entry in said} <= {
        expected.split(": ", maxsplit=1)[0],
        "bad-plot",
    }


def test_a_plot_stands_on_evidence_that_can_be_shown(recorded: Tree) -> None:
    (recorded.root / "kernels/001-add/evidence/add.h200.json").unlink()
    said = found(recorded, plot(*TWO))
    assert said[0] == (
        f"docs/page.md:{FIRST + 2}: missing: stands on evidence that cannot be shown: 001-add/add has no "
        "evidence on h200 — run: evidence record 001-add/add"
    )


def test_a_check_imports_nothing_that_draws(recorded: Tree) -> None:
    found(recorded, plot(*TWO))
    code = (
        "import sys; from pathlib import Path; from evidence import project\n"
        "from evidence.pages import bindings\n"
        f"print(len(bindings.findings(project.load(Path({str(recorded.root)!r})))))\n"
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'matplotlib', 'numpy', 'markdown', 'mkdocs'}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tools",
    )  # fmt: skip
    assert run.stdout == "0\n[]\n"


def test_the_table_holds_every_number_with_its_place(recorded: Tree) -> None:
    text = (
        plot("x: n", "y: time", *TWO, "ceiling:", "    peak: ceiling") + "\n\n/// output | 1\n///"
    )
    html = convert(recorded, text)
    rows = table(html.partition('<details class="ev-data">')[2].partition("</details>")[0])
    assert rows == [
        ["n", "three kernels", "one kernel"],
        ["256", "1.0 ms", "2.0 ms"],
        ["1024", "4.0 ms", "3.0 ms"],
        ["16 384", "90 ms", "30 ms"],
        ["peak", "100.00 ms"],
    ]
    for address in ("case-n-256~naive~time", "case-n-16384~online~time", "GPU~ceiling"):
        assert html.count(f'href="#ev~001-add~add~{address}"') == 1
        assert html.count(f'id="ev~001-add~add~{address}"') == 1


def test_points_lie_from_left_to_right(recorded: Tree) -> None:
    def rows(text: str) -> list[list[str]]:
        return table(convert(recorded, text).partition('<details class="ev-data">')[2])[1:]

    text = plot("at: 2, 1", *series("a: naive_256, naive_1024"))
    assert rows(text) == [["1", "4.0 ms"], ["2", "1.0 ms"]]
    assert "a: 4.0 ms at 1, 1.0 ms at 2." in convert(recorded, text)
    text = plot(*series("a: naive_1024, naive_16384", "b: online"))
    assert rows(text) == [
        ["256", "\N{EN DASH}", "2.0 ms"],
        ["1024", "4.0 ms", "3.0 ms"],
        ["16 384", "90 ms", "30 ms"],
    ]


def test_a_number_is_known_by_its_own_address(recorded: Tree) -> None:
    def about(entry: str) -> list[str]:
        path = recorded.write("docs/page.md", FRONT + plot(*series(entry)))
        (shown,) = bindings.Pages(Library(recorded.load())).bound(path).shown
        assert isinstance(shown, Plot)
        return [number.about for number in shown.parts][:2]

    own = ["001-add/add:case-n-256/naive/time", "001-add/add:case-n-1024/naive/time"]
    assert (
        about("a: naive")
        == about("a: case-n-*/naive/time")
        == about("a: naive_256, naive_1024")
        == own
    )
    pages = bindings.Pages(Library(recorded.load()))
    (shown,) = pages.bound(
        recorded.write("docs/page.md", FRONT + plot(*TWO, "ceiling:", "    a: ceiling"))
    ).shown
    assert [ground.key for ground in grounds.of(shown)] == [
        *(
            ("values", f"001-add/add:case-n-{n}/{path}/time")
            for path in ("naive", "online")
            for n in TIMES
        ),
        ("values", "001-add/add:GPU/ceiling"),
    ]
    assert about("a: 2 * naive") == [
        f"2 * {{001-add/add:case-n-*/naive/time}} at {n}" for n in (256, 1024)
    ]


def test_an_address_that_only_a_plot_spells_out_has_its_place(recorded: Tree) -> None:
    front = "---\nprograms: [001-add]\n---\n\n"
    text = (
        plot(*series("a: case-n-*/naive/time"))
        + "\n\n/// output | 1\n///\n\n/// code | add.cu:greeting\n///"
    )
    path = recorded.write("docs/page.md", front + text)
    html = markdown.Markdown(extensions=[EvidenceExtension(page=str(path))]).convert(front + text)
    assert html.count('id="ev~001-add~add~case-n-1024~naive~time"') == 1
    assert html.count('href="#ev~001-add~add~case-n-1024~naive~time"') == 1


def test_what_cannot_be_seen_is_said(recorded: Tree) -> None:
    html = convert(
        recorded, plot("x: n", "y: time", "log: x, y", *TWO, "ceiling:", "    peak: ceiling")
    )
    assert (
        '<title id="ev~plot~1~wide~title">time (ms) over n: three kernels, one kernel</title>'
        in html
    )
    assert (
        '<desc id="ev~plot~1~wide~about">Line chart with log scale on x and y. '
        "three kernels: 1.0 ms at 256, 90 ms at 16 384. one kernel: 2.0 ms at 256, 30 ms at 16 384. "
        "peak: 100.00 ms, a line across.</desc>"
    ) in html
    assert (
        'role="img" width="640" aria-labelledby="ev~plot~1~wide~title ev~plot~1~wide~about"' in html
    )
    titled = convert(recorded, plot("title: Both <paths>", *TWO))
    assert ">Both &lt;paths&gt;</title>" in titled


def test_names_are_unique_on_a_page(recorded: Tree) -> None:
    html = convert(recorded, f"{plot(*TWO)}\n\n{plot(*TWO)}")
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == 8
    assert len(set(ids)) == 8


def test_axes_are_named_and_log_ones_say_so(recorded: Tree) -> None:
    said = words(convert(recorded, plot("x: n", "y: time", "log: x, y", *TWO)))
    assert {
        "time (ms), log scale",
        "n, log scale",
        "three kernels",
        "one kernel",
        "256",
        "1024",
        "16 384",
    } <= set(said)
    said = words(convert(recorded, plot("x: n", "y: time", *TWO)))
    assert {"time (ms)", "n", "0"} <= set(said)


def test_a_caption_is_markdown_and_its_numbers_are_bound(recorded: Tree) -> None:
    html = convert(recorded, plot(*TWO, text="At most *[= max(naive) ]*."))
    caption = re.search(r"<figcaption>\n?(.*?)</figcaption>", html, re.DOTALL)
    assert caption is not None
    assert (
        re.sub(r"<span[^>]*>|</span>", "", caption[1]).strip() == "<p>At most <em>90 ms</em>.</p>"
    )
    assert "<figcaption>" not in convert(recorded, plot(*TWO))


@pytest.mark.parametrize(
    "around",
    [
        "- item\n\n    {}",
        "1. item\n\n    {}",
        "!!! note\n\n    {}",
        "??? note\n\n    {}",
        '=== "Tab"\n\n    {}',
        "> {}",
        "term\n:   {}",
        "//// details | Title\n{}\n////",
        '<div markdown="1">\n\n{}\n\n</div>',
    ],
)
def test_a_plot_is_the_same_wherever_it_stands(recorded: Tree, around: str) -> None:
    text = plot("x: n", *TWO, text="A caption.")
    alone = convert(recorded, text)
    lines = text.split("\n")
    indent = (
        "> "
        if around.startswith(">")
        else " " * (len(around.split("{}", maxsplit=1)[0].rsplit("\n", maxsplit=1)[-1]))
    )
    if around.startswith("term"):
        indent = "    "
    there = convert(recorded, around.format(("\n" + indent).join(lines)))
    figure = re.search(r'<figure class="ev-plot">.*</figure>', alone, re.DOTALL)
    assert figure is not None
    assert figure[0] in there


def test_what_fails_can_be_shown_instead(recorded: Tree) -> None:
    html = convert(recorded, plot(*series("a: moved", "b: naive")), on_error="show")
    assert '<div class="ev-error">`b` is in `ms`, and the axis in `B`</div>' in html


def made(kind: str = "line", **changes: object) -> Drawing:
    def curve(label: str, scale: float) -> Curve:
        return Curve(label, tuple(
            Dot(n, naive * scale * 0.9, naive * scale, naive * scale * 1.2, str(n), f"{naive * scale} ms")
            for n, (naive, _) in TIMES.items()
        ))  # fmt: skip

    curves = (curve("three kernels", 1.0), curve("one kernel", 1.1))
    return replace(
        Drawing(kind, "n", "time (ms)", (), curves, (("peak, 100 ms", 100.0),), 640), **changes
    )


ALL = [
    made(kind, log=log, width=width)
    for kind, log in (("line", ()), ("line", ("x", "y")), ("scatter", ("x",)), ("bar", ()))
    for width in (640, 304)
]


@pytest.mark.parametrize("wanted", ALL, ids=[f"{d.kind}-{'-'.join(d.log)}-{d.width}" for d in ALL])
def test_a_drawing_is_small_and_is_text(wanted: Drawing) -> None:
    text = drawing.draw(wanted)
    assert drawing.draw(wanted) == text
    assert len(text) < 30_000
    root = ET.fromstring(text.replace("{named}", "").replace("{about}", ""))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "path", "text"}
    assert not re.search(r'<path d="[^"]*" fill="none"/>', text)
    # No name that could clash, no date, no colour and no face of its own.
    assert not re.search(r" id=|xlink|font|#[0-9a-f]{3,6}\b|style=|20\d\d-", text)
    used = set(re.findall(r"var\((--ev-[a-z0-9]+),currentColor\)", text))
    assert used >= {"--ev-c1", "--ev-c2", "--ev-ink", "--ev-soft"}


@pytest.mark.parametrize("wanted", ALL, ids=[f"{d.kind}-{'-'.join(d.log)}-{d.width}" for d in ALL])
def test_nothing_lies_outside_and_no_label_over_another(wanted: Drawing) -> None:
    root = ET.fromstring(drawing.draw(wanted).replace("{named}", "").replace("{about}", ""))
    width, height = (float(part) for part in root.get("viewBox", "").split()[2:])
    boxes = []
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        words = "".join(element.itertext())
        long = len(words) * 6.0
        x, y = float(element.get("x", "0")), float(element.get("y", "0"))
        left = (
            x - {"start": 0, "middle": long / 2, "end": long}[element.get("text-anchor", "start")]
        )
        assert left >= -1, words
        assert left + long <= width + 1, words
        assert 10 <= y <= height, words
        boxes.append((words, left, left + long, y - 9, y + 2))
    for i, (one, a, b, c, d) in enumerate(boxes):
        for other, e, f, g, h in boxes[i + 1 :]:
            assert b <= e or f <= a or d <= g or h <= c, (one, other)


def test_the_same_drawing_comes_out_of_another_process() -> None:
    code = (
        "import sys; sys.path[:0] = ['tools', 'tests']\n"
        "from test_pages_plot import made, drawing\n"
        "import hashlib; print(hashlib.sha256(drawing.draw(made()).encode()).hexdigest())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
                       env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin", "HOME": str(Path.home())}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1] != ""


def test_bands_are_drawn_where_they_can_be_seen() -> None:
    def strokes(scale: float) -> int:
        dots = tuple(Dot(x, 10 - scale, 10.0, 10 + scale, str(x), "10 ms") for x in (1, 2))
        wanted = made(curves=(Curve("a", dots),), roofs=())
        return drawing.draw(wanted).count('stroke-width="1.4"')

    assert strokes(0.01) == 0
    assert strokes(3.0) == 6  # for each dot a line and two caps


def test_a_label_is_cut_into_lines_where_there_is_little_room() -> None:
    dots = made().curves[0].dots
    wanted = made(curves=(Curve("one kernel over all tiles", dots),), roofs=())
    said = re.findall(r">([^<]+)</text>", drawing.draw(replace(wanted, width=304)))
    assert said[-3:] == ["one kernel", "over all", "tiles"]


def test_signs_that_mean_something_elsewhere_are_only_text() -> None:
    dots = made().curves[0].dots
    text = drawing.draw(
        made(curves=(Curve("a < b & $c$ {named} _d_", dots),), roofs=(), y="x^2 $y$")
    )
    assert "a &lt; b &amp;" in text
    assert "$y$" in text


def test_drawings_are_kept_under_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Drawing] = []
    monkeypatch.setattr(
        drawing, "draw", lambda wanted: (drawn.append(wanted), f"<svg>{wanted.width}")[1]
    )
    wanted = made()
    assert drawings.get(wanted, tmp_path) == "<svg>640"
    assert drawings.get(wanted, tmp_path) == "<svg>640"
    assert len(drawn) == 1
    changed = replace(wanted, curves=wanted.curves[::-1])
    assert drawings.get(changed, tmp_path) == "<svg>640"
    assert len(drawn) == 2
    monkeypatch.setattr(drawing, "VERSION", drawing.VERSION + 1)
    drawings.get(wanted, tmp_path)
    assert len(drawn) == 3
    assert drawings.get(wanted, None) == "<svg>640"
    assert len(drawn) == 4
    assert len(list(tmp_path.iterdir())) == 3


def test_a_kept_drawing_that_was_changed_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw", lambda wanted: "<svg>1.25 ms")
    drawings.get(made(), tmp_path)
    (kept,) = tmp_path.iterdir()
    for wrong in ("", "<svg>0.25 ms", kept.read_text(encoding="utf-8").replace("1.25", "0.25")):
        kept.write_text(wrong, encoding="utf-8")
        assert drawings.get(made(), tmp_path) == "<svg>1.25 ms"
    assert kept.read_text(encoding="utf-8").endswith("\n<svg>1.25 ms")


def test_a_folder_that_cannot_be_written_to_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw", lambda wanted: "<svg>")
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert drawings.get(made(), tmp_path / "file" / "folder") == "<svg>"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["a-256/t", "a-1024/t"], ["256", "1024"]),
        (["a-256-x-1/t", "a-1024-x-1/t"], ["256", "1024"]),
        (["a-256-x-1/t", "a-1024-x-2/t"], None),
        (["a-256/t", "b-1024/t"], None),
        (["a/t", "a/t"], None),
        (["a-0.5/t", "a-1/t"], ["0.5", "1"]),
    ],
)
def test_the_number_in_which_addresses_differ(
    addresses: list[str], expected: list[str] | None
) -> None:
    assert differing(addresses) == expected


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.1)."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_colours_of_series_can_be_read_on_both_grounds() -> None:
    sheet = (ROOT / "docs/assets/figures.css").read_text(encoding="utf-8")
    for scheme, behind in (("default", ("#fbf9f4", "#f3efe5")), ("slate", ("#0f141b", "#161d27"))):
        block = sheet.partition(f'[data-md-color-scheme="{scheme}"] {{ --ev-c1')[2].partition("}")[
            0
        ]
        colours = re.findall(r"#[0-9a-f]{6}", block)
        assert len(colours) == len(svg.COLOURS)
        assert min(contrast(c, g) for c in colours for g in behind) >= 4.5
