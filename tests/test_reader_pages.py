"""What helps a reader on a page: links between days, terms, a day's lines, predict boxes."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import markdown
import pytest

from evidence.errors import EvidenceError
from evidence.pages import bindings
from evidence.pages.extension import EvidenceExtension
from evidence.pages.library import Library

if TYPE_CHECKING:
    from conftest import Tree

PLAN = """\
---
plan:
  First steps:
    1: One
    2: Two
    3: Three
---

# The course
"""
GLOSSARY = """\
# Glossary

## Bank conflict

Lanes that ask for *different* addresses in one `bank`
wait for each other. Day 15.

## L2

The last cache before [DRAM](#dram), of [! 50 MiB | a data sheet, [here](https://x.example/) ]
at most.

## Bound

It takes [= time ]. That is long.

## Empty

## Text without a stop

A word
"""


def day(number: int, title: str, text: str, needs: str = "") -> str:
    front = f'title: "{number} · {title}"\nday: {number}\nmodule: 1\n{needs}'
    return f"---\n{front}---\n\n# {title}\n\n{text}"


@pytest.fixture
def course(tree: Tree) -> Tree:
    tree.write("docs/course.md", PLAN)
    tree.write("docs/glossary.md", GLOSSARY)
    tree.write("docs/days/001-one.md", day(1, "One", "Text."))
    tree.write("docs/days/003-three.md", day(3, "Three", "Text.", "needs: [1, 2]\n"))
    return tree


def convert(tree: Tree, name: str, text: str | None = None, *, on_error: str = "fail") -> str:
    path = tree.root / "docs" / name
    if text is not None:
        tree.write(f"docs/{name}", text)
    text = path.read_text(encoding="utf-8")
    extension = EvidenceExtension(page=str(path), on_error=on_error)
    others = [
        "admonition",
        "tables",
        "toc",
        "pymdownx.superfences",
        "pymdownx.tabbed",
        "pymdownx.blocks.details",
    ]
    md = markdown.Markdown(extensions=[*others, extension])
    return md.convert(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("As on day 1.", 'As on <a href="days/001-one.md">day 1</a>.'),
        ("Day 3's tile", '<a href="days/003-three.md">Day 3</a>\'s tile'),
        ("day 2's tile", "day 2's tile"),
        ("days 1, 2 and 3 say", '<span>days <a href="days/001-one.md">1</a>, 2 and '
         '<a href="days/003-three.md">3</a></span> say'),
        ("days 2 and 4", "days 2 and 4"),
        ("*day 1*", '<em><a href="days/001-one.md">day 1</a></em>'),
        ("`day 1`", "<code>day 1</code>"),
        ("[to day 1](days/001-one.md)", '<a href="days/001-one.md">to day 1</a>'),
        ("today 1", "today 1"),
    ],
)  # fmt: skip
def test_a_day_that_is_mentioned_is_linked_once_it_is_there(
    course: Tree, text: str, expected: str
) -> None:
    assert convert(course, "page.md", text) == f"<p>{expected}</p>"


def test_a_heading_is_no_place_for_a_link(course: Tree) -> None:
    html = convert(course, "page.md", "## After day 1\n")
    assert html == '<h2 id="after-day-1">After day 1</h2>'


def test_a_day_does_not_link_to_itself(course: Tree) -> None:
    html = convert(course, "days/001-one.md", day(1, "One", "On day 1, unlike day 3."))
    assert '<p>On day 1, unlike <a href="003-three.md">day 3</a>.</p>' in html


def test_terms_of_the_glossary(course: Tree) -> None:
    assert Library(course.load()).terms == {
        "bank-conflict": "Lanes that ask for different addresses in one bank wait for each other.",
        "l2": "The last cache before DRAM, of 50 MiB at most.",
        "text-without-a-stop": "A word",
    }


def test_a_link_to_a_term_carries_its_definition(course: Tree) -> None:
    text = "A [conflict](glossary.md#bank-conflict), [bound](glossary.md#bound), [x](y.md#l2)."
    assert convert(course, "page.md", text) == (
        '<p>A <a class="ev-term" data-term="Lanes that ask for different addresses in one bank '
        'wait for each other." href="glossary.md#bank-conflict">conflict</a>, '
        '<a href="glossary.md#bound">bound</a>, <a href="y.md#l2">x</a>.</p>'
    )


def test_a_link_to_a_term_from_a_folder_below(course: Tree) -> None:
    html = convert(course, "days/001-one.md", day(1, "One", "[L2](../glossary.md#l2)"))
    assert 'class="ev-term"' in html
    # In the glossary itself, `#dram` is a link like any other.
    assert convert(course, "glossary.md", on_error="show").count("ev-term") == 0


def test_a_site_without_a_glossary(tree: Tree) -> None:
    assert convert(tree, "page.md", "[x](glossary.md#x)") == '<p><a href="glossary.md#x">x</a></p>'


def test_what_stands_around_the_text_of_a_day(course: Tree) -> None:
    assert convert(course, "days/003-three.md") == (
        '<h1 id="three">Three</h1>\n'
        '<p class="ev-day">Day 3 · <a href="../course.md#module-1">module 1, First steps</a> · '
        'builds on days <a href="001-one.md" title="One">1</a>, '
        '<span class="ev-planned" title="planned: Two">2</span></p>\n'
        "<p>Text.</p>"
        '<p class="ev-done"><button type="button" class="ev-button" data-read="3" '
        'aria-pressed="false">I have read day 3</button></p>'
    )


def test_a_day_without_title_and_prerequisites(course: Tree) -> None:
    page = '---\ntitle: "1 · One"\nday: 1\nmodule: 1\n---\n\nText.'
    html = convert(course, "days/001-one.md", page)
    assert html.startswith(
        '<p class="ev-day">Day 1 · <a href="../course.md#module-1">module 1, First steps</a></p>'
        "<p>Text.</p><p"
    )


def test_other_pages_are_left_as_they_are(course: Tree) -> None:
    assert convert(course, "page.md", "# Title\n\nText.") == (
        '<h1 id="title">Title</h1>\n<p>Text.</p>'
    )


FRONT = """\
---
programs: [001-add]
values:
  time: case-n-256/time
  bytes: case-n-256/bytes
  share: case-n-256/share
  nothing: case-n-256/nothing
---

# Title

"""
RUNS = [
    [
        "case n = 256",
        f"  time    {time:.2f} ms",
        "  bytes   1024 B",
        "  share   0.25",
        "  nothing   nan",
    ]
    for time in (1.00, 1.10, 1.30)
]


@pytest.fixture
def recorded(tree: Tree) -> Tree:
    tree.program()
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\n")
    tree.record(stdout=RUNS)
    return tree


def question(answer: str, more: str = "", text: str = "How long?") -> str:
    return f"/// predict\n    answer: {answer}\n{more}{text}\n///\n"


def test_a_question(recorded: Tree) -> None:
    html = convert(recorded, "page.md", FRONT + question("time", text="*How* long?"))
    number = re.search(r'<span class="ev-value".*?</span>', html)
    assert number is not None
    assert number[0].endswith(">1.1\N{NO-BREAK SPACE}ms</span>")
    assert html.replace(number[0], "NUMBER") == (
        '<h1 id="title">Title</h1>\n'
        '<div class="ev-predict" data-guess="41ed8a9b6dc4" data-high="1.3" data-low="1" '
        'data-unit="ms" data-value="1.1">\n'
        '<p class="ev-predict-title">Predict</p>\n'
        '<div class="ev-asked">\n<p><em>How</em> long?</p>\n</div>\n'
        '<div class="ev-more"><form class="ev-guess"><label>Your guess '
        '<input type="text" inputmode="decimal" autocomplete="off" size="8" required> ms</label> '
        '<button type="submit">Commit</button></form><div class="ev-told" role="status"></div>'
        '<details class="ev-answer"><summary>Answer</summary><p>Measured: NUMBER</p></details>'
        "</div>\n</div>"
    )


@pytest.mark.parametrize(
    ("answer", "more", "data", "unit", "shown"),
    [
        ("bytes", "", ("1024", "1024", "1024"), "B", "1024 B"),
        ("bytes / bytes * 7", "", ("7", "7", "7"), "", "7"),
        ("bytes / bytes * 7", "    unit: times\n", ("7", "7", "7"), "times", "7 times"),
        ("share | .0%", "", ("25", "25", "25"), "%", "25 %"),
        # A number that shows its own unit needs no second one.
        ("time | .0f", "    unit: milliseconds\n", ("1", "1.1", "1.3"), "milliseconds", "1 ms"),
    ],
)
def test_what_the_guess_is_held_against(
    recorded: Tree, answer: str, more: str, data: tuple[str, str, str], unit: str, shown: str
) -> None:
    html = convert(recorded, "page.md", FRONT + question(answer, more))
    found = dict(re.findall(r'data-(low|value|high|unit)="([^"]*)"', html))
    assert (found["low"], found["value"], found["high"]) == data
    assert found["unit"] == unit
    label = re.search(r"required>(.*?)</label>", html)
    assert label is not None
    assert label[1] == (f" {unit}" if unit else "")
    answer_text = re.search(r"<p>Measured: (.*?)</p>", html)
    assert answer_text is not None
    plain = unescape(re.sub(r"<[^>]*>", "", answer_text[1])).replace("\N{NO-BREAK SPACE}", " ")
    assert plain == shown


def test_a_guess_is_kept_for_one_question_of_one_page(recorded: Tree) -> None:
    names = set()
    for page, answer in (("a.md", "time"), ("b.md", "time"), ("a.md", "bytes")):
        html = convert(recorded, page, FRONT + question(answer))
        names |= set(re.findall(r'data-guess="([0-9a-f]{12})"', html))
    assert len(names) == 3


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("/// predict\nHow long?\n///", "14: page-syntax: `/// predict` has no expression — add an "
         "option `    answer: a / b` under its first line"),
        ("/// predict\n    answer: time\n///", "14: page-syntax: `/// predict` has no question — ask "
         "for a number"),
        ("/// predict | x\n    answer: time\nHow?\n///", "14: page-syntax: `/// predict` takes no "
         "argument, but has `x` — put the expression in an option `    answer: a / b`, the question in "
         "the block"),
        ("/// predict\n    answer: tme\nHow?\n///", "15: unknown-name: `tme` is no name of this page; "
         "close: time, bytes — give it an address under `values:`, `tme: program:section/label`"),
        ("/// predict\n    answer: time | .9f\nHow?\n///", "15: bad-format: `.9f` asks for more digits "
         "than the number has: its band, 1.00 to 1.30 ms, supports 1 decimal — use .1f"),
        ("/// predict\n    answer: time +\nHow?\n///", "15: bad-expression: `time +` cannot be read as "
         "an expression — use numbers, names, + - * / **, comparisons, and, min, max, abs"),
        ("/// predict\n    answer: bytes / (time - time)\nHow?\n///", "15: bad-expression: column 10 of "
         "`bytes / (time - time)`: divides by a number that may be zero, -0.3 to 0.3 — compare products "
         "instead"),
        ("/// predict\n    answer: nothing\nHow?\n///", "15: bad-expression: `nothing` is no finite "
         "number — ask for one"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_question(recorded: Tree, block: str, expected: str) -> None:
    recorded.write("docs/page.md", f"{FRONT}Text.\n\n{block}\n")
    found = bindings.findings(recorded.load())
    wrong = [f.explain() for f in found if f.path == "docs/page.md" and f.severity == "error"]
    assert [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrong] == [
        f"docs/page.md:{expected}"
    ]
    with pytest.raises(EvidenceError):
        convert(recorded, "page.md")
    shown = convert(recorded, "page.md", on_error="show")
    assert "A build would fail on this page" in shown


def test_a_question_uses_its_names_and_makes_its_section_stand_on_them(recorded: Tree) -> None:
    recorded.write("docs/page.md", FRONT + question("time + 0 * time") + "\n[= bytes ] [= share ]")
    pages = bindings.Pages(Library(recorded.load()))
    bound = pages.bound(recorded.root / "docs/page.md")
    assert [f.explain() for f in bound.findings if f.code != "name-unused"] == []
    assert "time" not in [f.message.split("`")[1] for f in bound.findings]
    assert [[ground.label for ground in s.grounds.values()] for s in bound.sections] == [
        ["number `time + 0 * time`", "number `bytes`", "number `share`"]
    ]


@pytest.mark.parametrize(
    "around",
    ['!!! note "Title"\n\n{4}', "- item\n\n{4}", "- item\n\n    - item\n\n{8}", "{>}",
     "/// details | More\n{more}\n///", '=== "Tab"\n\n{4}'],
)  # fmt: skip
def test_a_question_is_the_same_wherever_it_stands(recorded: Tree, around: str) -> None:
    lines = question("time").strip().split("\n")
    alone = convert(recorded, "page.md", FRONT + "\n".join(lines))
    alone = alone[alone.index('<div class="ev-predict"') :]
    text = around.replace("{4}", "\n".join(f"    {line}" for line in lines))
    text = text.replace("{8}", "\n".join(f"        {line}" for line in lines))
    text = text.replace("{>}", "\n".join(f"> {line}" for line in lines))
    if "{more}" in text:
        text = text.replace("///", "////").replace("{more}", "\n".join(lines))
    html = convert(recorded, "page.md", FRONT + text)
    assert re.sub(r"\s+", " ", alone) in re.sub(r"\s+", " ", html)
