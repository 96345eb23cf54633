"""The course: its days, what each of them builds on, and what is planned.

A day is a page whose front matter has `day:`. One page's front matter has
`plan:`, the titles of all days by module: numbers are addresses that other
pages and programs refer to before the day itself is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from evidence.errors import EvidenceError
from evidence.findings import Finding
from evidence.pages.front import line_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evidence.pages.front import Front
    from evidence.pages.library import Library
    from evidence.pages.pagetext import PageText

_NUMBER = re.compile(r"\d{1,3}")


@dataclass(frozen=True, slots=True)
class Day:
    """A day that has its page.

    Attributes:
        number: Its number, for good.
        title: Without the number.
        module: The number of its module.
        needs: The days it builds on, in order.
        page: Its page, relative to the docs.
    """

    number: int
    title: str
    module: int
    needs: tuple[int, ...]
    page: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module with the titles that are planned for its days."""

    number: int
    title: str
    planned: Mapping[int, str]


@dataclass(slots=True)
class Course:
    """The course as its pages tell it.

    Attributes:
        modules: In order; none if no page has a plan.
        days: The days that have a page, by number.
        page: The page with the plan, relative to the docs.
        findings: What is wrong with it.
    """

    modules: tuple[Module, ...] = ()
    days: dict[int, Day] = field(default_factory=dict)
    page: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def planned(self) -> dict[int, str]:
        """Return the planned titles of all days by number."""
        return {number: title for m in self.modules for number, title in m.planned.items()}

    def on(self, page: str) -> Day | None:
        """Return the day that a page is, if it is one.

        Args:
            page: Its path, relative to the docs.
        """
        return next((day for day in self.days.values() if day.page == page), None)

    def module_of(self, number: int) -> list[int]:
        """Return the numbers of a module's days, planned or there, in order."""
        planned = next((m.planned for m in self.modules if m.number == number), {})
        there = {day.number for day in self.days.values() if day.module == number}
        return sorted(there | planned.keys())

    def title(self, number: int) -> str:
        """Return a day's title; empty if nobody knows it."""
        day = self.days.get(number)
        return self.planned.get(number, "") if day is None else day.title


def read(library: Library) -> Course:
    """Read the course from the front matter of a project's pages."""
    course = Course()
    docs = f"{library.project.config.docs}/"
    pages = []
    for path in library.written():
        try:
            page = library.page(path)
        except EvidenceError:
            continue  # the page's own findings say so
        pages.append(page)
        if "plan" in page.front.others:
            course.page = page.path.removeprefix(docs)
            _plan(course, page)
    for page in pages:
        if "day" in page.front.others:
            _day(course, page, page.path.removeprefix(docs))
        elif course.modules and re.match(r"days/\d", page.path.removeprefix(docs)):
            _add(course, page, 1, "is no day: its front matter has no `day:`", "add `day: NUMBER`")
    there = {day.page: day for day in course.days.values()}
    for page in pages:
        day = there.get(page.path.removeprefix(docs))
        if day is not None and course.modules:
            _compare(course, page, day)
    return course


def _add(course: Course, page: PageText, line: int, message: str, fix: str) -> None:
    course.findings.append(Finding("bad-day", page.path, line, message, fix))


def _plan(course: Course, page: PageText) -> None:
    key, node = page.front.others["plan"]
    modules: list[Module] = []
    known: set[int] = set()
    fix = "write `Title of the module:` and under it `NUMBER: title` for each of its days"
    for title, days in _pairs(node):
        planned = {}
        for number, text in _pairs(days):
            day = _number(number)
            if day is None or not isinstance(text, yaml.ScalarNode) or not text.value:
                _add(course, page, line_of(number), "this is no line of the plan", fix)
            elif day in known:
                _add(course, page, line_of(number), f"day {day} is planned twice", "remove one")
            else:
                known.add(day)
                planned[day] = text.value
        modules.append(Module(len(modules) + 1, str(title.value), planned))
    course.modules = tuple(modules)
    if not known:
        _add(course, page, line_of(key), "`plan:` plans no day", fix)


def _pairs(node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _number(node: yaml.Node | None) -> int | None:
    if isinstance(node, yaml.ScalarNode) and _NUMBER.fullmatch(node.value):
        return int(node.value)
    return None


def _value(front: Front, name: str) -> yaml.Node | None:
    return front.others[name][1] if name in front.others else None


def _day(course: Course, page: PageText, shown: str) -> None:
    node = _value(page.front, "day")
    number = _number(node)
    if node is None or number is None:
        line = line_of(page.front.others["day"][0])
        _add(course, page, line, "`day:` is no number", "write `day: 97`")
        return
    first = course.days.get(number)
    if first is not None:
        _add(course, page, line_of(node), f"{first.page} is day {number} too", "renumber one")
        return
    if not re.match(rf"(?:.*/)?0*{number}-", shown):
        message = f"this is day {number}, and its file's name begins with another number"
        _add(course, page, line_of(node), message, f"rename it to `{number:03d}-….md`")
    title = _value(page.front, "title")
    text = str(title.value) if isinstance(title, yaml.ScalarNode) else ""
    plain = text.removeprefix(f"{number} · ")
    if plain == text:
        line = line_of(title) if title is not None else line_of(node)
        message = f"the title of day {number} does not begin with its number"
        _add(course, page, line, message, f'write `title: "{number} · …"`')
    module = _number(_value(page.front, "module")) or 0
    needs = tuple(need for need, _ in needs_of(page))
    course.days[number] = Day(number, plain, module, needs, shown)


def needs_of(page: PageText) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the days that a page builds on, with their lines."""
    node = _value(page.front, "needs")
    for entry in node.value if isinstance(node, yaml.SequenceNode) else ():
        number = _number(entry)
        if number is not None:
            yield number, line_of(entry)


def _compare(course: Course, page: PageText, day: Day) -> None:
    """Compare a day with the plan, and with the days that it builds on."""
    line = line_of(page.front.others["day"][0])
    planned = course.planned.get(day.number)
    if planned is None:
        message = f"day {day.number} is not in the plan"
        _add(course, page, line, message, f"add it to `plan:` of {course.page}")
        return
    module = next(m for m in course.modules if day.number in m.planned)
    if day.module != module.number:
        where = line_of(page.front.others["module"][0]) if day.module else line
        _add(
            course, page, where,
            f"day {day.number} is said to be of module {day.module or 'none'}, and planned in "
            f"module {module.number}, {module.title}",
            f"write `module: {module.number}`",
        )  # fmt: skip
    if day.title != planned:
        finding = Finding(
            "bad-day", page.path, line, f"day {day.number} has another title than in the plan",
            f"change one of them; the plan is in {course.page}", planned, day.title,
        )  # fmt: skip
        course.findings.append(finding)
    for need, where in needs_of(page):
        if need >= day.number:
            message = f"day {day.number} builds on day {need}, which does not come before it"
            _add(course, page, where, message, "correct `needs:`")
        elif need not in course.days:
            _add(
                course, page, where,
                f"day {day.number} builds on day {need}, which has no page",
                "explain on this page what it needs of it, and take it out of `needs:`",
            )  # fmt: skip
