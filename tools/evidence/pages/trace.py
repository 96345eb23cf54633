"""What a page asked of the project while it was made, and whether it would be told the same now.

A page that was rendered is good for another build if its text is the same and
every question that was asked for it has the same answer. So nothing has to be
said about what a page depends on, and nothing can be forgotten: the page gets
the project only through a `Watched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from evidence.errors import EvidenceError
from evidence.model import Program
from evidence.pages import binder
from evidence.pages.library import Library
from evidence.pages.reviews import Reviews
from evidence.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from evidence.pages.bindings import Pages
    from evidence.pages.pagetext import PageText
    from evidence.pages.shown import Bound

# Objects that only lead to answers, and are no answers themselves.
_DOORS = (Library, Project, Reviews)
_DRAWING = ".svg"


@dataclass(frozen=True, slots=True)
class _Question:
    """What was asked: the names that lead there, and the arguments of a call."""

    way: tuple[str, ...]
    arguments: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class _Raised:
    """An answer that was an error."""

    text: str


class Trace:
    """The questions that were asked, each with its answer."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Any, ...], tuple[_Question, Any]] = {}

    def note(self, question: _Question, answer: Any) -> None:
        """Keep an answer."""
        names = map(_name, question.arguments or ())
        self._asked[(question.way, question.arguments is None, *names)] = (question, answer)

    def holds(self, pages: Pages) -> bool:
        """Whether every question has the same answer there."""
        programs = {program.name: program for program in pages.library.project.programs}
        return all(_same(pages, programs, *asked) for asked in self._asked.values())


class Watched:
    """Stands for an object; what is asked of it is noted.

    Args:
        target: The object.
        trace: Where to note it.
        way: The names that lead to the object from the pages.
    """

    __slots__ = ("_target", "_trace", "_way")

    def __init__(self, target: Any, trace: Trace, way: tuple[str, ...] = ()) -> None:
        self._target = target
        self._trace = trace
        self._way = way

    def __getattr__(self, name: str) -> Any:
        """Return an attribute, or a method that notes what it returns."""
        way, found = (*self._way, name), getattr(self._target, name)
        if isinstance(found, _DOORS):
            return Watched(found, self._trace, way)
        if callable(found):
            return _noting(found, self._trace, way)
        self._trace.note(_Question(way, None), found)
        return found


def watched(pages: Pages, trace: Trace) -> Pages:
    """Return pages that note what is asked of them."""
    return cast("Pages", Watched(pages, trace))


class KeptBound:
    """Pages that are looked up, kept from one build to the next."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Bound, Trace]] = {}

    def of(self, pages: Pages, page: PageText) -> Bound:
        """Return a page, looked up again unless it would come to the same."""
        bound, trace = self._kept.get(page.path, (None, None))
        if bound is not None and trace is not None and bound.page == page and trace.holds(pages):
            return bound
        trace = Trace()
        library = Watched(pages.library, trace, ("library",))
        bound = binder.bind(cast("Library", library), page)
        # The lint reads drawings, which are no part of the project.
        if any(_DRAWING in line.rest for prose in page.scan.prose for line in prose.lines):
            self._kept.pop(page.path, None)
        else:
            self._kept[page.path] = (bound, trace)
        return bound


def _noting(method: Callable[..., Any], trace: Trace, way: tuple[str, ...]) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        try:
            answer = method(*arguments)
        except EvidenceError as error:
            trace.note(_Question(way, arguments), _Raised(str(error)))
            raise
        trace.note(_Question(way, arguments), answer)
        return answer

    return ask


def _name(argument: Any) -> Any:
    # A program holds what cannot be hashed; its name tells it from others.
    return (Program, argument.name) if isinstance(argument, Program) else argument


def _same(pages: Pages, programs: dict[str, Program], question: _Question, answer: Any) -> bool:
    """Whether a question has the same answer in other pages."""
    found: Any = pages
    for name in question.way:
        found = getattr(found, name)
    if question.arguments is not None:
        arguments = [programs.get(a.name) if isinstance(a, Program) else a
                     for a in question.arguments]  # fmt: skip
        if any(was != now for was, now in zip(question.arguments, arguments, strict=True)):
            return False
        try:
            found = found(*arguments)
        except EvidenceError as error:
            found = _Raised(str(error))
    return bool(found is answer or found == answer)
