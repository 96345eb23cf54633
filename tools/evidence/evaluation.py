"""Evaluating the tree of an expression, element by element over vectors."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from evidence import intervals
from evidence.errors import ExpressionError
from evidence.verdicts import Comparison, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from evidence.intervals import Term
    from evidence.quantities import Bound

    Operand = Term | list[Term]

T = TypeVar("T")

OPERATORS: dict[type[ast.operator], Callable[[Term, Term], Term]] = {
    ast.Add: intervals.add,
    ast.Sub: intervals.subtract,
    ast.Mult: intervals.multiply,
    ast.Div: intervals.divide,
}
SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass(slots=True)
class Evaluator:
    """Walks a tree that `expressions.parse` has let through.

    Attributes:
        text: The expression, for messages.
        names: What its names stand for.
    """

    text: str
    names: Mapping[str, Bound]
    _known: dict[str, Operand] = field(default_factory=dict)

    def number(self, node: ast.expr) -> Operand:
        """Return what a node stands for: a number or a vector."""
        if isinstance(node, ast.Constant):
            return self._at(node, intervals.of_literal, self._source(node))
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.UnaryOp):
            operand = self.number(node.operand)
            return self._each(node, intervals.negative, operand) if _negates(node) else operand
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise AssertionError(ast.dump(node))

    def comparisons(self, node: ast.expr, margin: float) -> Iterator[Comparison]:
        """Yield every comparison of a claim, judged."""
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                yield from self.comparisons(part, margin)
        elif isinstance(node, ast.Compare):
            nodes = [node.left, *node.comparators]
            sides = [self.number(side) for side in nodes]
            for i, sign in enumerate(node.ops):
                texts = (self._source(nodes[i]), self._source(nodes[i + 1]))
                pairs, keys = self._together(nodes[i + 1], sides[i : i + 2])
                for pair, key in zip(pairs, keys, strict=True):
                    symbol = SIGNS[type(sign)]
                    yield self._at(nodes[i + 1], compare, pair, texts, symbol, key, margin)

    def _operation(self, node: ast.BinOp) -> Operand:
        left = self.number(node.left)
        if isinstance(node.op, ast.Pow):
            exponent = int(self._source(node.right))
            return self._each(node, lambda t: intervals.power(t, exponent), left)
        return self._each(node.right, OPERATORS[type(node.op)], left, self.number(node.right))

    def _call(self, node: ast.Call) -> Operand:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        arguments = [self.number(argument) for argument in node.args]
        if name == "abs":
            return self._each(node, intervals.absolute, *arguments)
        pick = min if name == "min" else max
        if len(arguments) == 1 and isinstance(arguments[0], list):
            vector = arguments[0]
            return replace(self._at(node, intervals.extreme, vector, pick), key="")
        return self._each(node, lambda *terms: intervals.extreme(terms, pick), *arguments)

    def _name(self, node: ast.Name) -> Operand:
        if node.id not in self._known:
            self._known[node.id] = self._bound(node)
        return self._known[node.id]

    def _bound(self, node: ast.Name) -> Operand:
        if node.id not in self.names:
            close = difflib.get_close_matches(node.id, self.names, n=3, cutoff=0.5)
            hint = f"; close: {', '.join(close)}" if close else ""
            raise self.wrong(
                node, f"`{node.id}` is no name of this page{hint}", "give it an address in values:"
            )
        bound = self.names[node.id]
        if not isinstance(bound, tuple):
            return intervals.of_quantity(bound)
        if not bound:
            raise self.wrong(node, f"`{node.id}` stands for no value", "mend its address")
        return [intervals.of_quantity(q) for q in bound]

    def _each(self, node: ast.expr, function: Callable[..., Term], *operands: Operand) -> Operand:
        """Apply a function, to every element if an operand is a vector."""
        rows, keys = self._together(node, operands)
        made = [self._at(node, function, *row) for row in rows]
        if not any(isinstance(operand, list) for operand in operands):
            return made[0]
        return [replace(term, key=key) for term, key in zip(made, keys, strict=True)]

    def _together(
        self, node: ast.expr, operands: Sequence[Operand]
    ) -> tuple[list[tuple[Term, ...]], list[str]]:
        """Put the elements of operands side by side, with what each is about.

        Vectors go together only if their wildcards stood for the same things:
        case 256 must never be compared with case 512.
        """
        vectors = [operand for operand in operands if isinstance(operand, list)]
        if not vectors:
            return [tuple(t for t in operands if not isinstance(t, list))], [""]
        keys = [term.key for term in vectors[0]]
        for other in vectors[1:]:
            if [term.key for term in other] != keys:
                theirs = ", ".join(term.key for term in other)
                raise self.wrong(
                    node,
                    f"vectors over different things: {', '.join(keys)} and {theirs}",
                    "use wildcards that match the same",
                )
        rows = [
            tuple(operand[i] if isinstance(operand, list) else operand for operand in operands)
            for i in range(len(keys))
        ]
        return rows, keys

    def _at(self, node: ast.expr, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return function(*arguments)
        except ExpressionError as error:
            raise self.wrong(node, error.message, error.fix or "") from None

    def wrong(self, node: ast.expr, what: str, fix: str) -> ExpressionError:
        """Make the error for a place in the expression."""
        where = f"column {node.col_offset + 1} of `{self.text}`"
        return ExpressionError(f"{where}: {what}", fix=fix)

    def _source(self, node: ast.expr) -> str:
        # The text is ASCII, so that the tree's byte offsets are columns.
        return self.text[node.col_offset : node.end_col_offset]


def _negates(node: ast.UnaryOp) -> bool:
    return isinstance(node.op, ast.USub)
