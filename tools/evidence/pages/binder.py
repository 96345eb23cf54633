"""Looking up everything that one page asks for, and saying what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence import digits, expressions
from evidence.addresses import AbsentError
from evidence.errors import EvidenceError
from evidence.findings import Finding
from evidence.pages import (
    diffs,
    directives,
    grounds,
    judging,
    lint,
    nbblock,
    overviews,
    plots,
    predict,
    reread,
    rulings,
    shown,
)
from evidence.pages.inline import Inline
from evidence.pages.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable

    from evidence import quantities
    from evidence.expressions import Expression
    from evidence.findings import Severity
    from evidence.model import Program
    from evidence.pages.library import Library
    from evidence.pages.pagetext import PageText
    from evidence.pages.scan import Block
    from evidence.pages.shown import Bound, Shown
    from evidence.states import State


def bind(library: Library, page: PageText) -> Bound:
    """Look up everything that a page asks for."""
    return Binder(library, page).run()


class Refused(Exception):  # noqa: N818  # not an error: it carries a finding
    """Ends the look-up of one directive."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


class Binder:
    """Looks up the directives of one page.

    Args:
        library: Where to look.
        page: The page.

    Attributes:
        names: The page's short names.
    """

    def __init__(self, library: Library, page: PageText) -> None:
        self.library = library
        self.page = page
        self.names = Names(library, page.front)
        self.findings: list[Finding] = []
        self.used: set[tuple[str, str]] = set()
        self.judged: dict[tuple[str, str], State] = {}

    def run(self) -> Bound:
        """Look up everything; collect what is wrong."""
        for problem in (*self.page.front.problems, *self.page.scan.problems):
            self.add("page-syntax", problem.line, problem.message, problem.fix)
        root = self.library.project.root
        self.findings += lint.findings(self.page, root / self.page.path, root)
        for name, line in self.page.front.programs:
            try:
                self.library.program(name)
            except EvidenceError as error:
                self.error("unknown-program", line, error)
        items = tuple(self._item(item) for item in self.page.scan.items)
        rulings.complete(self, self.page.scan.items, items)
        for unused in self.names.unused():
            message = f"name `{unused.name}` is used nowhere on the page"
            self.add("name-unused", unused.line, message, "remove it", "warning")
        sections = reread.standing(self.page, items)
        self.findings += reread.findings(self.library.reviews, self.page.path, sections)
        findings = tuple(sorted(set(self.findings), key=lambda f: (f.line, f.code, f.message)))
        stands = (sections, tuple(self.judged.values()))
        return shown.Bound(self.page, items, findings, frozenset(self.used), *stands)

    def add(
        self, code: str, line: int, message: str, fix: str, severity: Severity = "error"
    ) -> Finding:
        """Report a finding on a line of the page."""
        finding = Finding(code, self.page.path, line, message, fix, severity=severity)
        self.findings.append(finding)
        return finding

    def error(self, code: str, line: int, error: EvidenceError) -> Finding:
        """Report an error as a finding on a line of the page."""
        where = f"{error.path}:{error.line or 1}: " if error.path else ""
        return self.add(code, line, f"{where}{error.message}", error.fix or "mend the page")

    def _item(self, item: Block | Inline) -> Shown:
        try:
            if isinstance(item, Inline):
                if item.kind == "sourced":
                    return shown.Sourced(item.text, item.detail)
                return self.number(item.text, item.detail, item.line)
            return self._block(item)
        except Refused as refused:
            return shown.Failed(refused.finding.message)

    def refused(self, code: str, line: int, error: EvidenceError) -> Refused:
        """Return what ends the look-up of a directive, with an error reported."""
        return Refused(self.error(code, line, error))

    def _block(self, block: Block) -> Shown:
        if (elsewhere := _ELSEWHERE.get(block.kind)) is not None:
            return elsewhere(self, block)
        if block.kind == "code":
            return self.code(block.argument, block.line)
        return self._output(block)

    def program(self, name: str, line: int) -> Program:
        """Return the program that a page names."""
        try:
            return self.library.program(name, self.names.programs)
        except EvidenceError as error:
            raise self.refused("unknown-program", line, error) from None

    def code(self, argument: str, line: int) -> shown.Code:
        """Return the region, or the whole program, that a page names."""
        file, colon, name = (part.strip() for part in argument.partition(":"))
        program = self.program(file, line)
        if not colon:
            return shown.Code(program, None)
        try:
            region = self.library.region(program, name)
        except EvidenceError as error:
            raise self.refused("unknown-region", line, error) from None
        self.used.add((program.name, name))
        return shown.Code(program, region)

    def _output(self, block: Block) -> Shown:
        program = self.program(block.argument, block.line)
        devices = dict.fromkeys([self.library.device, *self.library.devices(program)])
        for device in devices:
            self.believe(program, device, block.line)
        first, *others = (self.judged[program.name, device] for device in devices)
        return shown.Output(program, first, tuple(others))

    def believe(self, program: Program, device: str, line: int) -> None:
        """Report once a page what is wrong with the evidence it stands on."""
        if (program.name, device) in self.judged:
            return
        state = self.judged[program.name, device] = self.library.state(program, device)
        for wrong in state.findings:
            message = f"stands on evidence that cannot be shown: {wrong.message}"
            if wrong.severity == "error":
                self.findings.append(
                    Finding(
                        wrong.code, self.page.path, line, message, wrong.fix, wrong.old, wrong.new
                    )
                )

    def expression(self, text: str, line: int) -> Expression:
        """Read an expression whose names the page gives and whose programs are there."""
        try:
            expression = expressions.parse(text)
        except EvidenceError as error:
            raise self.refused("bad-expression", line, error) from None
        unknown = self.names.unknown(expression.names)
        if unknown is not None:
            raise self.refused("unknown-name", line, unknown)
        for name in expression.names:
            try:
                self.names.place(name)
            except EvidenceError as error:
                where = self.names.line(name)
                raise self.refused("unknown-program", where, error) from None
        return expression

    def recorded(self, expression: Expression, device: str, line: int) -> Finding | None:
        """Return what keeps an expression's evidence from being there, if anything does."""
        for name in expression.names:
            program, _ = self.names.place(name)
            self.believe(program, device, line)
            state = self.library.state(program, device)
            if state.record is None:
                return state.findings[0]
        return None

    def values(self, expression: Expression, device: str) -> dict[str, quantities.Bound]:
        """Return what each name stands for; report an address where it is written."""
        bound: dict[str, quantities.Bound] = {}
        for name in expression.names:
            try:
                bound[name] = self.names.bind(name, device)
            except AbsentError:
                raise
            except EvidenceError as error:
                message = f"`{name}`: {error.message}"
                fix = error.fix or "correct the address"
                line = self.names.line(name)
                raise Refused(self.add("unknown-address", line, message, fix)) from None
        return bound

    def bound(self, expression: Expression, line: int) -> dict[str, quantities.Bound]:
        """Return what each name stands for on the primary device, whose evidence must be there."""
        device = self.library.device
        absent = self.recorded(expression, device, line)
        if absent is not None:
            raise Refused(absent)
        try:
            return self.values(expression, device)
        except EvidenceError as error:
            raise self.refused("bad-expression", line, error) from None

    def number(self, text: str, detail: str, line: int) -> shown.Number:
        """Return the number that an expression comes to on the primary device."""
        device = self.library.device
        expression = self.expression(text, line)
        bound = self.bound(expression, line)
        try:
            quantity = expressions.evaluate(expression, bound)
        except EvidenceError as error:
            raise self.refused("bad-expression", line, error) from None
        try:
            written = digits.show(quantity, detail or None)
        except EvidenceError as error:
            raise self.refused("bad-format", line, error) from None
        sources = self.sources(expression, device, quantity)
        about = grounds.about(expression, self.names.place)
        return shown.Number(written, expression.text, sources, about, quantity)

    def sources(
        self, expression: Expression, device: str, result: quantities.Quantity | None
    ) -> tuple[shown.Source, ...]:
        """Return the values behind an expression, for a reader who wants to see them."""
        found: list[shown.Source] = []
        for name in expression.names:
            try:
                found += self.names.sources(name, device, result)
            except EvidenceError:
                continue  # not measured, which the page says elsewhere
        return tuple(found)


_ELSEWHERE: dict[str, Callable[[Binder, Block], Shown]] = {
    "claim": judging.look_up,
    "ruling": rulings.look_up,
    "ledger": rulings.count,
    "plot": plots.bind,
    "diff": diffs.bind,
    "notebook": nbblock.look_up,
    "predict": predict.look_up,
    **dict.fromkeys(directives.OVERVIEWS, overviews.look_up),
}
