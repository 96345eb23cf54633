"""The course: days and their prerequisites, the plan, the navigation, the map."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from evidence import cli
from evidence.pages import bindings, coursemap, navigation
from evidence.pages.library import Library
from evidence.pages.mentions import mentioned

if TYPE_CHECKING:
    from conftest import Tree

PLAN = """\
---
title: The course
plan:
  First steps:
    1: One
    2: "Two: too"
    3: Three
  Later:
    4: Four
---

# The course
"""
NAV = """\
site_name: test
nav:
  - Front page: index.md
  - The days:   # evidence nav
      - 1 · First steps:
          - days/001-one.md
          - days/003-three.md
  - Glossary: glossary.md
"""


def day(number: int, title: str, *, module: object = 1, more: str = "", text: str = "") -> str:
    front = f'title: "{number} · {title}"\nday: {number}\nmodule: {module}\n{more}'
    return f"---\n{front}---\n\n# {title}\n\n{text}\n"


@pytest.fixture
def course(tree: Tree) -> Tree:
    tree.write("docs/course.md", PLAN)
    tree.write("docs/days/001-one.md", day(1, "One"))
    tree.write("docs/days/003-three.md", day(3, "Three", more="needs: [1]\n"))
    tree.write("mkdocs.yml", NAV)
    return tree


def findings(tree: Tree, *codes: str) -> list[str]:
    wanted = codes or ("bad-day", "unknown-day", "day-planned", "nav")
    found = bindings.findings(tree.load())
    return [f.explain() for f in found if f.code in wanted]


def test_a_course_that_is_in_order(course: Tree) -> None:
    assert findings(course) == []
    read = Library(course.load()).course
    assert {n: (d.title, d.module, d.needs, d.page) for n, d in read.days.items()} == {
        1: ("One", 1, (), "days/001-one.md"),
        3: ("Three", 1, (1,), "days/003-three.md"),
    }
    assert [(m.number, m.title, dict(m.planned)) for m in read.modules] == [
        (1, "First steps", {1: "One", 2: "Two: too", 3: "Three"}),
        (2, "Later", {4: "Four"}),
    ]
    assert (read.page, read.title(2), read.title(9)) == ("course.md", "Two: too", "")


def test_pages_without_days_are_no_course(tree: Tree) -> None:
    tree.write("docs/days/001.md", "# One\n\nAs on day 77.\n")
    assert findings(tree) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("004-four", day(4, "Four", module=1), "4: bad-day: day 4 is said to be of module 1, and "
         "planned in module 2, Later — write `module: 2`"),
        ("004-four", day(4, "Four", module="x"), "3: bad-day: day 4 is said to be of module none, "
         "and planned in module 2, Later — write `module: 2`"),
        ("004-four", day(4, "For", module=2), "3: bad-day: day 4 has another title than in the plan "
         "(Four → For) — change one of them; the plan is in course.md"),
        ("004-four", "---\ntitle: Four\nday: 4\nmodule: 2\n---\n", "2: bad-day: the title of day 4 "
         'does not begin with its number — write `title: "4 · …"`'),
        ("004-four", "---\nday: 4\nmodule: 2\n---\n", "2: bad-day: the title of day 4 does not begin "
         'with its number — write `title: "4 · …"`'),
        ("005-four", day(4, "Four", module=2), "3: bad-day: this is day 4, and its file's name begins "
         "with another number — rename it to `004-….md`"),
        ("005-five", day(5, "Five"), "3: bad-day: day 5 is not in the plan — add it to `plan:` of "
         "course.md"),
        ("01-again", day(1, "One"), "3: bad-day: days/001-one.md is day 1 too — renumber one"),
        ("004-four", "---\ntitle: x\nday: four\n---\n", "3: bad-day: `day:` is no number — write "
         "`day: 97`"),
        ("004-four", "# Four\n", "1: bad-day: is no day: its front matter has no `day:` — add "
         "`day: NUMBER`"),
        ("002-two", day(2, "Two: too", more="needs: [1, 3]\n"), "5: bad-day: day 2 builds on day 3, "
         "which does not come before it — correct `needs:`"),
        ("002-two", day(2, "Two: too", more="needs:\n  - 1\n  - 2\n"), "7: bad-day: day 2 builds on "
         "day 2, which does not come before it — correct `needs:`"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_day(course: Tree, name: str, text: str, expected: str) -> None:
    course.write(f"docs/days/{name}.md", text)
    found = findings(course, "bad-day")
    assert f"docs/days/{name}.md:{expected}" in found
    places = [line.split(": ")[0] for line in found]
    assert all(place.startswith(f"docs/days/{name}.md") for place in places), found


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("plan:\n  First: {}\n", "2: bad-day: `plan:` plans no day — write `Title of the module:` "
         "and under it `NUMBER: title` for each of its days"),
        ("plan:\n  First:\n    1: One\n    x: Two\n", "5: bad-day: this is no line of the plan — "
         "write `Title of the module:` and under it `NUMBER: title` for each of its days"),
        ("plan:\n  First:\n    1: One\n    3: Three\n    1: One\n", "6: bad-day: day 1 is planned "
         "twice — remove one"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_plan(course: Tree, plan: str, expected: str) -> None:
    course.write("docs/course.md", f"---\n{plan}---\n")
    assert f"docs/course.md:{expected}" in findings(course, "bad-day")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("day 16's tile", [16]),
        ("Day 72.", [72]),
        ("(days 15, 16 and 24)", [15, 16, 24]),
        ("days 1 to 3, then day 9", [1, 3, 9]),
        ("days 4, 5, and 6", [4, 5, 6]),
        ("today 5", []),
        ("day 1.5", []),
        ("a day of 24 hours", []),
        ("Monday 12", []),
    ],
)
def test_how_a_day_is_mentioned(text: str, numbers: list[int]) -> None:
    found = list(mentioned(text))
    assert [number for number, _ in found] == numbers
    assert [text[at : at + len(str(number))] for number, at in found] == list(map(str, numbers))


PLANNED = "links appear with the pages, so there is nothing to do"


def test_planned_days_without_a_page_are_one_warning_in_all(course: Tree) -> None:
    text = "As on day 2 and day 4, and\nagain on day 2. `day 4`\n\n```\nday 9\n```\n"
    course.write("docs/days/003-three.md", day(3, "Three", more="needs: [1]\n", text=text))
    source = "// Day 1: a program.\n//\n// Build: nvcc -o add add.cu\n// Run: ./add\n"
    course.program(text=f"{source}int main() {{}}  // day 2's\n// and day 4's, day 2's\n")
    assert findings(course) == [
        "docs/course.md:1: warning: day-planned: 2 pages and programs refer to days 2, 4, which have "
        f"no page yet — {PLANNED}",
    ]


def test_a_day_builds_on_days_that_are_there(course: Tree) -> None:
    course.write("docs/days/003-three.md", day(3, "Three", more="needs: [1, 2]\n"))
    assert [text for text in findings(course) if "bad-day" in text] == [
        "docs/days/003-three.md:5: bad-day: day 3 builds on day 2, which has no page — explain on "
        "this page what it needs of it, and take it out of `needs:`"
    ]


def test_the_map_draws_what_no_other_day_leads_to(course: Tree) -> None:
    course.write("docs/days/002-two.md", day(2, "Two: too", more="needs: [1]\n"))
    course.write("docs/days/003-three.md", day(3, "Three", more="needs: [1, 2]\n"))
    course.write("docs/days/004-four.md", day(4, "Four", module=2, more="needs: [1, 2, 3]\n"))
    read = Library(course.load()).course
    assert [coursemap.direct(read, n) for n in (1, 2, 3, 4)] == [(), (1,), (2,), (3,)]
    course.write("docs/days/004-four.md", day(4, "Four", module=2, more="needs: [2, 1]\n"))
    assert coursemap.direct(Library(course.load()).course, 4) == (2,)


def test_a_day_that_nobody_plans_cannot_be_referred_to(course: Tree) -> None:
    course.write("docs/days/003-three.md", day(3, "Three", text="As on day 12\nand day 4."))
    assert findings(course) == [
        "docs/course.md:1: warning: day-planned: one page or program refers to day 4, which has no "
        f"page yet — {PLANNED}",
        "docs/days/003-three.md:9: unknown-day: there is no day 12, and none is planned — correct "
        "the number",
    ]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("      - 1 · First steps:\n          - days/003-three.md\n", "lacks days/001-one.md"),
        ("", "lacks days/001-one.md, days/003-three.md"),
        ("      - 1 · First steps:\n          - One: days/001-one.md\n          - days/003-three.md\n"
         "          - days/002-two.md\n", "lists days/002-two.md, which is no day"),
        ("      - 1 · First steps:\n          - days/003-three.md\n          - days/001-one.md\n",
         "lists the days in another order"),
    ],
)  # fmt: skip
def test_the_navigation_lists_exactly_the_days_there_are(
    course: Tree, days: str, expected: str
) -> None:
    start, end = NAV.index("      - 1"), NAV.index("  - Glossary")
    course.write("mkdocs.yml", NAV[:start] + days + NAV[end:])
    message = f"mkdocs.yml:4: nav: the navigation {expected} — run: evidence nav"
    assert findings(course) == [message]
    result = CliRunner().invoke(cli.group, ["--project", str(course.root), "nav"])
    assert result.output == "wrote mkdocs.yml\n"
    assert (course.root / "mkdocs.yml").read_text(encoding="utf-8") == NAV
    assert findings(course) == []
    again = CliRunner().invoke(cli.group, ["--project", str(course.root), "nav"])
    assert again.output == "nothing to change in mkdocs.yml\n"


def test_a_navigation_without_a_place_for_the_days(course: Tree) -> None:
    course.write("mkdocs.yml", "nav:\n  - index.md\n")
    assert findings(course) == [
        "mkdocs.yml:1: nav: nav has no place for the days — mark one with a comment, "
        "`- The days: # evidence nav`"
    ]


def test_a_project_without_a_site_needs_no_navigation(course: Tree) -> None:
    (course.root / "mkdocs.yml").unlink()
    assert findings(course) == []
    with pytest.raises(Exception, match="cannot be read"):
        navigation.write(course.load(), Library(course.load()).course)


def test_titles_that_yaml_would_misread_are_quoted(course: Tree) -> None:
    course.write("docs/course.md", PLAN.replace("First steps", '"First: steps"'))
    CliRunner().invoke(cli.group, ["--project", str(course.root), "nav"])
    assert '      - "1 · First: steps":\n' in (course.root / "mkdocs.yml").read_text("utf-8")


def link(page: str, anchor: str) -> str:
    return f"{page}#{anchor}" if anchor else page


def test_the_map(course: Tree) -> None:
    html = coursemap.drawing(Library(course.load()).course, link)
    assert html == (
        '<div class="ev-map" data-search-exclude="" style="--columns:3;--narrow:9">'
        '<p class="ev-map-count">2 of 4 days are here. The others are planned.'
        '<span class="ev-progress"></span></p>'
        '<ol class="ev-map-grid" role="list">'
        '<li><span class="ev-map-module">1 · First steps</span><ol role="list">'
        '<li><a class="ev-map-cell" href="days/001-one.md" data-day="1">1'
        '<span class="ev-map-title">One </span></a></li>'
        '<li class="ev-planned"><span class="ev-map-cell">2'
        '<span class="ev-map-title">Two: too (planned)</span></span></li>'
        '<li><a class="ev-map-cell" href="days/003-three.md" data-day="3">3'
        '<span class="ev-map-title">Three <span class="ev-map-needs">builds on 1</span></span></a>'
        '<svg class="ev-map-lines ev-map-wide" viewBox="0 0 3 2" preserveAspectRatio="none" '
        'aria-hidden="true"><path d="M0.5 0.5Q1.5 -0.3 2.5 0.5"/></svg>'
        '<svg class="ev-map-lines ev-map-narrow" viewBox="0 0 9 4" preserveAspectRatio="none" '
        'aria-hidden="true"><path d="M0.5 1.5Q1.5 0.7 2.5 1.5"/></svg></li></ol></li>'
        '<li><span class="ev-map-module">2 · Later</span><ol role="list">'
        '<li class="ev-planned"><span class="ev-map-cell">4'
        '<span class="ev-map-title">Four (planned)</span></span></li></ol></li></ol></div>'
    )


def test_a_map_of_a_finished_course_plans_nothing(course: Tree) -> None:
    course.write("docs/days/002-two.md", day(2, "Two: too"))
    course.write("docs/days/004-four.md", day(4, "Four", module=2, more="needs: [1, 3]\n"))
    html = coursemap.drawing(Library(course.load()).course, link)
    assert "4 of 4 days are here.<" in html
    # Down a row: from the middle of one cell to the middle of the other.
    assert '<path d="M2.5 0.5C2.5 1 0.5 1 0.5 1.5"/>' in html  # day 1 comes through day 3


def test_a_module_that_is_longer_than_a_narrow_row_goes_on_in_the_next(course: Tree) -> None:
    plan = "\n".join(f"    {n}: Day" for n in range(1, 12))
    course.write("docs/course.md", f"---\nplan:\n  Long:\n{plan}\n  More:\n    12: Day\n---\n")
    course.write("docs/days/012-day.md", day(12, "Day", module=2, more="needs: [10]\n"))
    html = coursemap.drawing(Library(course.load()).course, link)
    # Label, nine days, two days, label, one day.
    assert 'ev-map-narrow" viewBox="0 0 9 5"' in html
    assert "M0.5 2.5C0.5 3.5 0.5 3.5 0.5 4.5" in html
    assert 'ev-map-wide" viewBox="0 0 11 2"' in html


def test_all_titles(course: Tree) -> None:
    html = coursemap.titles(Library(course.load()).course, link)
    assert html == (
        '<div class="ev-titles"><h2 id="module-1">1 · First steps</h2>'
        '<ol class="ev-days" role="list">'
        '<li id="day-1"><span class="ev-day-no">1</span> '
        '<span><a href="days/001-one.md">One</a></span></li>'
        '<li id="day-2" class="ev-planned"><span class="ev-day-no">2</span> '
        "<span>Two: too</span></li>"
        '<li id="day-3"><span class="ev-day-no">3</span> '
        '<span><a href="days/003-three.md">Three</a><span class="ev-needs">builds on '
        '<a href="days/001-one.md" title="One">1</a></span></span></li></ol>'
        '<h2 id="module-2">2 · Later</h2><ol class="ev-days" role="list">'
        '<li id="day-4" class="ev-planned"><span class="ev-day-no">4</span> '
        "<span>Four</span></li></ol></div>"
    )


def test_titles_are_text_not_markup(course: Tree) -> None:
    course.write("docs/course.md", PLAN.replace('"Two: too"', '"a < b & c"'))
    read = Library(course.load()).course
    for html in (coursemap.drawing(read, link), coursemap.titles(read, link)):
        assert "a &lt; b &amp; c" in html
        assert not re.search(r"a < b", html)
