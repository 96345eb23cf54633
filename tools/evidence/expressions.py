"""Expressions over values: arithmetic and comparisons over names, nothing else.

    max_gate < 0.1 and 1 < online_time / naive_time < 3

Numbers, names, `+ - * / **` (to a whole number from 1 to 9), `< <= > >= == !=`
in chains, `and`, and the functions `min`, `max`, `abs`. A name stands for one
value, or through a wildcard for a vector of them: operators then work element
by element, `min(v)` and `max(v)` reduce it, and a comparison must hold for
every element.
"""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from evidence import intervals
from evidence.addresses import AbsentError, resolve
from evidence.errors import ExpressionError
from evidence.evaluation import OPERATORS, SIGNS, Evaluator
from evidence.quantities import Bound, Quantity, bind, of
from evidence.verdicts import Comparison, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "AbsentError",
    "Bound",
    "Comparison",
    "Elements",
    "Expression",
    "Quantity",
    "Verdict",
    "bind",
    "elements",
    "evaluate",
    "judge",
    "of",
    "of_address",
    "parse",
    "resolve",
]

FUNCTIONS = ("abs", "max", "min")
_ALLOWED = "use numbers, names, + - * / **, comparisons, and, min, max, abs"
_LONGEST = 1000
_DEEPEST = 60
_LARGEST_POWER = 9
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?![A-Za-z0-9_.])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\*\*|[<>=!]=|[-+*/<>(),])|(?P<space>[ \t\r\n]+)"
)
_WORDS = frozenset(keyword.kwlist) - {"and"}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read and holds nothing but what is allowed.

    Attributes:
        text: As written, on one line.
        names: The names in it, in the order of their first use.
        compares: Whether it is a claim (comparisons) or a number.
        tree: Its syntax tree, checked.
    """

    text: str
    names: tuple[str, ...]
    compares: bool
    tree: ast.expr


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ExpressionError: It is none, or holds something that is not allowed;
            the message names the column, counted from 1.
    """
    flat = re.sub(r"[\t\r\n]", " ", text).strip()
    if not flat:
        raise ExpressionError("the expression is empty", fix=_ALLOWED)
    if len(flat) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters", fix=_ALLOWED)
    names = tuple(_names(flat))
    try:
        tree = ast.parse(flat, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError):
        # Where Python sees the mistake differs from version to version.
        raise ExpressionError(f"`{flat}` cannot be read as an expression", fix=_ALLOWED) from None
    expression = Expression(flat, names, isinstance(tree, ast.Compare | ast.BoolOp), tree)
    _Checker(flat).check(tree, 0, claim=True)
    return expression


def evaluate(expression: Expression, names: Mapping[str, Bound]) -> Quantity:
    """Return the number that an expression without comparisons stands for.

    Args:
        expression: From `parse`.
        names: A quantity, or for a wildcard a vector of them, for each name.

    Raises:
        ExpressionError: A name is unknown, units do not fit, something may be
            divided by zero, or the result is a comparison or a vector.
    """
    found = elements(expression, names)
    if found.vector:
        _wrong(
            expression.text,
            1,
            f"this is a vector of {len(found.quantities)} "
            f"({', '.join(q.key for q in found.quantities)})",
            "choose one with min(…) or max(…), or by its full address",
        )
    return found.quantities[0]


@dataclass(frozen=True, slots=True)
class Elements:
    """What an expression without comparisons comes to.

    Attributes:
        quantities: One, or the elements of a vector, each with its key.
        vector: Whether it is a vector, if only of one.
    """

    quantities: tuple[Quantity, ...]
    vector: bool


def elements(expression: Expression, names: Mapping[str, Bound]) -> Elements:
    """Return the number, or the vector of them, that an expression stands for.

    Args:
        expression: From `parse`, without comparisons, or from `of_address`.
        names: As for `evaluate`.

    Raises:
        ExpressionError: As for `evaluate`, but for vectors.
    """
    if expression.compares:
        _wrong(expression.text, 1, "this is a comparison, not a number", "put it into a claim")
    result = Evaluator(expression.text, names).number(expression.tree)
    terms = result if isinstance(result, list) else [result]
    try:
        quantities = tuple(intervals.to_quantity(term) for term in terms)
    except ExpressionError as error:
        _wrong(expression.text, 1, error.message, error.fix or "")
    return Elements(quantities, isinstance(result, list))


def of_address(address: str) -> Expression:
    """Return the expression that stands for an address, under the address's own name."""
    tree = ast.Name(address, ast.Load(), lineno=1, col_offset=0)
    return Expression(address, (address,), compares=False, tree=tree)


def judge(expression: Expression, names: Mapping[str, Bound], *, margin: float = 0.0) -> Verdict:
    """Judge a claim over the bands of its values.

    Args:
        expression: From `parse`; one or more comparisons.
        names: A quantity, or for a wildcard a vector of them, for each name.
        margin: Share of the right side by which `<` and `>` have to hold:
            with 0.05, `a < b` has to hold for 0.95 b.

    Raises:
        ExpressionError: As for `evaluate`, or nothing recorded is compared.
    """
    if not expression.compares:
        _wrong(expression.text, 1, "nothing is compared", "write a comparison")
    if not expression.names:
        _wrong(expression.text, 1, "nothing recorded is compared", "compare a recorded value")
    evaluator = Evaluator(expression.text, names)
    return Verdict(tuple(evaluator.comparisons(expression.tree, margin)))


def _names(text: str) -> Iterator[str]:
    """Yield each name once; refuse every character that has no meaning here."""
    seen: set[str] = set()
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            _strange(text, position)
        word = match["name"]
        if word in _WORDS:
            _wrong(text, position + 1, f"`{word}` is not allowed")
        if word and word not in seen and word not in ("and", *FUNCTIONS):
            seen.add(word)
            yield word
        position = match.end()


def _strange(text: str, position: int) -> NoReturn:
    word = re.match(r"[0-9.][A-Za-z0-9_.]*|.", text[position:])
    what = word.group() if word else ""
    fix = "write == to compare" if what == "=" else _ALLOWED
    _wrong(text, position + 1, f"`{what}` is not allowed", fix)


def _wrong(text: str, column: int, what: str, fix: str = _ALLOWED) -> NoReturn:
    raise ExpressionError(f"column {column} of `{text}`: {what}", fix=fix)


@dataclass(frozen=True, slots=True)
class _Checker:
    """Lets through the node types that are named here and no other."""

    text: str

    def check(self, node: ast.expr, depth: int, *, claim: bool = False) -> None:
        if depth > _DEEPEST:
            self._refuse(node, "this is nested too deeply")
        if isinstance(node, ast.BoolOp | ast.Compare):
            self._claim(node, depth, allowed=claim)
        elif isinstance(node, ast.BinOp):
            self._operation(node, depth)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            self.check(node.operand, depth + 1)
        elif isinstance(node, ast.Call):
            self._call(node, depth)
        elif isinstance(node, ast.Name):
            if node.id in FUNCTIONS:
                self._refuse(node, f"`{node.id}` is a function", f"write {node.id}(…)")
        elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
            source = self.text[node.col_offset : node.end_col_offset]
            self._refuse(node, f"`{source}` is not allowed")

    def _claim(self, node: ast.BoolOp | ast.Compare, depth: int, *, allowed: bool) -> None:
        if not allowed:
            self._refuse(node, "a comparison stands inside a number", "compare outermost")
        operators = [node.op] if isinstance(node, ast.BoolOp) else node.ops
        if any(type(operator) not in (ast.And, *SIGNS) for operator in operators):
            self._refuse(node, "this operator is not allowed")
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                if not isinstance(part, ast.BoolOp | ast.Compare):
                    self._refuse(part, "`and` joins comparisons, and this is a number")
                self.check(part, depth + 1, claim=True)
        else:
            for side in (node.left, *node.comparators):
                self.check(side, depth + 1)

    def _operation(self, node: ast.BinOp, depth: int) -> None:
        self.check(node.left, depth + 1)
        if isinstance(node.op, ast.Pow):
            exponent = node.right.value if isinstance(node.right, ast.Constant) else None
            if type(exponent) is not int or not 1 <= exponent <= _LARGEST_POWER:
                self._refuse(
                    node.right, "an exponent is a whole number from 1 to 9", "write it out"
                )
        elif type(node.op) not in OPERATORS:
            self._refuse(node, "this operator is not allowed")
        self.check(node.right, depth + 1)

    def _call(self, node: ast.Call, depth: int) -> None:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            self._refuse(node, "only min, max and abs can be called")
        if node.keywords or not node.args or (node.func.id == "abs" and len(node.args) > 1):
            self._refuse(node, f"{node.func.id} is called with the wrong arguments")
        for argument in node.args:
            self.check(argument, depth + 1)

    def _refuse(self, node: ast.expr, what: str, fix: str = _ALLOWED) -> NoReturn:
        _wrong(self.text, node.col_offset + 1, what, fix)
