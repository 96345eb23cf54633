"""Expressions: what may stand in one, what it comes to, and what a claim is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import expressions, intervals, quantities, units
from evidence.addresses import AbsentError
from evidence.errors import ExpressionError
from evidence.quantities import Bound, Quantity
from evidence.values import Value

ALLOWED = "use numbers, names, + - * / **, comparisons, and, min, max, abs"


def exact(number: float, unit: str = "") -> Quantity:
    return Quantity(number, number, number, unit, samples=5)


def band(low: float, median: float, high: float, unit: str = "") -> Quantity:
    return Quantity(median, low, high, unit, exact=False, samples=5)


def vector(unit: str = "", **elements: Quantity) -> tuple[Quantity, ...]:
    return tuple(replace(q, key=key.removeprefix("n")) for key, q in elements.items())


NAMES: dict[str, Bound] = {
    "n": exact(4096),
    "zero": exact(0),
    "half": exact(0.5),
    "bytes": exact(64, "B"),
    "more": exact(128, "bytes"),
    "naive": band(0.655, 0.66, 0.671, "ms"),
    "online": band(1.25, 1.26, 1.27, "ms"),
    "close": band(0.66, 0.68, 0.7, "ms"),
    "wide": band(-1, 1, 3),
    "below": band(-3, -2, -1),
    "fast": exact(2, "GB/s"),
    "span": exact(3, "s"),
    "us": exact(5, "us"),
    "share": exact(98.5, "%"),
    "other": exact(49.25, "%"),
    "ratio": exact(12, "x"),
    "nan": exact(math.nan),
    "inf": exact(math.inf),
    "gates": vector(n256=exact(0.06), n1024=exact(0.08), n4096=exact(0.07)),
    "times": vector(n256=band(1, 2, 3, "ms"), n1024=band(4, 5, 6, "ms"), n4096=band(7, 8, 9, "ms")),
    "twos": vector(n256=exact(1), n512=exact(2), n4096=exact(3)),
    "pair": vector(n256=exact(1), n1024=exact(2)),
    "none": (),
}


def number(text: str) -> Quantity:
    return expressions.evaluate(expressions.parse(text), NAMES)


def refused(text: str) -> str:
    """The message of an expression that cannot be read or evaluated."""
    with pytest.raises(ExpressionError) as caught:
        number(text)
    return str(caught.value)


def judged(text: str, margin: float = 0.0) -> expressions.Verdict:
    return expressions.judge(expressions.parse(text), NAMES, margin=margin)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-n", -4096),
        ("+n", 4096),
        ("n / 2 - 48", 2000),
        ("n ** 2", 16777216),
        ("0.1 + 0.2", 0.3),
        ("n / 3 * 3", 4096),
        ("1.5e3", 1500),
        (".5 + 1.", 1.5),
        ("abs(0 - n)", 4096),
        ("min(n, 5, 7)", 5),
        ("max(5, n)", 4096),
        ("max(gates)", 0.08),
        ("min(gates)", 0.06),
        ("max(gates) - min(gates)", 0.02),
        ("max(n)", 4096),
        ("max(gates * 2 + 1)", 1.16),
        ("max(max(gates, 0.07) / 0.07)", 0.08 / 0.07),
        ("  n  ", 4096),
        ("n\n  + 1", 4097),
        ("1e-99999", 0),
    ],
)
def test_a_number(text: str, result: float):
    found = number(text)
    assert (found.low, found.median, found.high) == (result, result, result)
    assert found.exact


@pytest.mark.parametrize(
    ("text", "low", "median", "high"),
    [
        ("wide + below", -4, -1, 2),
        ("wide - below", 0, 3, 6),
        ("wide - wide", -4, 0, 4),
        ("wide * below", -9, -2, 3),
        ("wide / below", -3, -0.5, 1),
        ("wide ** 2", 0, 1, 9),
        ("below ** 2", 1, 4, 9),
        ("below ** 3", -27, -8, -1),
        ("-wide", -3, -1, 1),
        ("abs(wide)", 0, 1, 3),
        ("abs(below)", 1, 2, 3),
        ("min(wide, 0)", -1, 0, 0),
        ("max(wide, 0)", 0, 1, 3),
        ("min(wide, below)", -3, -2, -1),
    ],
)
def test_a_band_holds_every_result(text: str, low: float, median: float, high: float):
    found = number(text)
    assert (found.low, found.median, found.high) == (low, median, high)
    assert not found.exact


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("naive + online", "ms"),
        ("naive * 2", "ms"),
        ("2 * naive", "ms"),
        ("naive / 2", "ms"),
        ("-naive", "ms"),
        ("abs(naive)", "ms"),
        ("max(naive, online)", "ms"),
        ("min(naive, 1)", "ms"),
        ("min(1, naive)", "ms"),
        ("naive / online", ""),
        ("bytes / more", ""),
        ("bytes + more", "B"),
        ("naive * ratio", "ms"),
        ("ratio * naive", "ms"),
        ("n * bytes", "B"),
        ("n / span", "1/s"),
        ("1 / span", "1/s"),
        ("fast * span", "GB"),
        ("bytes / span", "B/s"),
        ("bytes * span", "B·s"),
        ("span ** 2", "s^2"),
        ("span ** 1", "s"),
        ("span ** 2 / span", "s"),
        ("bytes / span / span", "B/s^2"),
        ("fast / bytes", "GB/B/s"),
        ("span * us", "s·µs"),
        ("ratio + n", "x"),
        ("ratio * 2", "x"),
        ("ratio * n", ""),
        ("share * 2", "%"),
        ("share / 2", "%"),
        ("share + other", "%"),
        ("share / other", ""),
        ("share * span", "s"),
        ("span / share", "s"),
        ("share * other", ""),
        ("share ** 2", ""),
        ("max(share, 50)", "%"),
    ],
)
def test_a_unit(text: str, unit: str):
    assert number(text).unit == unit


def test_percent_counts_in_hundredths_wherever_it_meets_a_plain_number():
    assert number("share * span").median == 2.955
    assert number("span / other").median == pytest.approx(3 / 0.4925)
    assert number("share / other").median == 2
    assert number("share * other").median == 0.985 * 0.4925
    assert number("half + share").median == 1.485
    assert number("share ** 2").median == 0.985**2
    assert number("share - other").median == 49.25
    assert judged("half < share").comparisons[0].right.median == 0.985
    # A literal is read in the unit of what it is compared with.
    assert judged("share > 98").outcome == "holds"
    assert judged("0.99 > share").outcome == "fails"
    assert judged("share > 98").comparisons[0].right.unit == "%"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("naive + us", "column 9 of `naive + us`: adds `ms` and `us`"),
        ("naive - bytes", "column 9 of `naive - bytes`: subtracts `ms` and `B`"),
        ("naive + 1", "column 9 of `naive + 1`: adds `ms` and a plain number"),
        ("1 - share", "column 5 of `1 - share`: subtracts a plain number and `%`"),
        ("n + bytes", "column 5 of `n + bytes`: adds a plain number and `B`"),
        ("max(naive, us)", "column 1 of `max(naive, us)`: compares `ms` and `us`"),
        ("max(1, naive, us)", "column 1 of `max(1, naive, us)`: compares `ms` and `us`"),
        ("share + bytes", "column 9 of `share + bytes`: adds `%` and `B`"),
    ],
)
def test_different_units_do_not_mix(text: str, message: str):
    assert refused(text) == f"{message} — bring both to one unit"


def test_different_units_are_not_compared():
    for text in ("naive < us", "1 < naive < us"):
        with pytest.raises(ExpressionError) as caught:
            judged(text)
        assert str(caught.value) == (
            f"column {text.index('us') + 1} of `{text}`: compares `ms` and `us` — "
            "bring both to one unit"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n / zero", "column 5 of `n / zero`: divides by zero"),
        ("n / 0", "column 5 of `n / 0`: divides by zero"),
        (
            "n / wide",
            "column 5 of `n / wide`: divides by a number that may be zero, -1 to 3",
        ),
        (
            "n / (naive - close)",
            "column 6 of `n / (naive - close)`: divides by a number that may be zero, "
            "-0.045 to 0.011",
        ),
    ],
)
def test_nothing_is_divided_by_what_may_be_zero(text: str, message: str):
    assert refused(text) == f"{message} — compare products instead"


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("n or n", 3, "`or` is not allowed"),
        ("not n", 1, "`not` is not allowed"),
        ("n if n else n", 3, "`if` is not allowed"),
        ("lambda: n", 1, "`lambda` is not allowed"),
        ("n in gates", 3, "`in` is not allowed"),
        ("True", 1, "`True` is not allowed"),
        ("None", 1, "`None` is not allowed"),
        ("await n", 1, "`await` is not allowed"),
        ("n.real", 2, "`.real` is not allowed"),
        ("(1).real", 4, "`.real` is not allowed"),
        ("gates[0]", 6, "`[` is not allowed"),
        ("[n]", 1, "`[` is not allowed"),
        ("{n}", 1, "`{` is not allowed"),
        ("'n'", 1, "`'` is not allowed"),
        ('f"{n}"', 2, '`"` is not allowed'),
        ("n % 2", 3, "`%` is not allowed"),
        ("n @ n", 3, "`@` is not allowed"),
        ("n & n", 3, "`&` is not allowed"),
        ("~n", 1, "`~` is not allowed"),
        ("n; n", 2, "`;` is not allowed"),
        ("(x := 1)", 4, "`:` is not allowed"),
        ("n \\ n", 3, "`\\` is not allowed"),
        ("n # n", 3, "`#` is not allowed"),
        ("n << 2", 1, "this operator is not allowed"),
        ("n ≤ 2", 3, "`≤` is not allowed"),
        ("größe", 3, "`ö` is not allowed"),
        ("2n", 1, "`2n` is not allowed"),
        ("1_000", 1, "`1_000` is not allowed"),
        ("0x10", 1, "`0x10` is not allowed"),
        ("1j", 1, "`1j` is not allowed"),
        ("1.2.3", 1, "`1.2.3` is not allowed"),
        ("1and n", 1, "`1and` is not allowed"),
        ("n // 2", 1, "this operator is not allowed"),
        ("n, n", 1, "`n, n` is not allowed"),
        ("()", 1, "`()` is not allowed"),
        ("max(*gates)", 5, "`*gates` is not allowed"),
        ("max()", 1, "max is called with the wrong arguments"),
        ("abs(n, n)", 1, "abs is called with the wrong arguments"),
        ("print(n)", 1, "only min, max and abs can be called"),
        ("__import__(n)", 1, "only min, max and abs can be called"),
        ("n(1)", 1, "only min, max and abs can be called"),
        ("max(n)(n)", 1, "only min, max and abs can be called"),
        ("n and n < 1", 1, "`and` joins comparisons, and this is a number"),
        ("n < 1 and n", 11, "`and` joins comparisons, and this is a number"),
    ],
)
def test_nothing_else_is_allowed(text: str, column: int, what: str):
    assert refused(text) == f"column {column} of `{text.strip()}`: {what} — {ALLOWED}"


@pytest.mark.parametrize(
    "text",
    ["n +", "(n", "n)", "n n", "012", "n <", "< n", "n < > 2", "n and", "max(n", "n,,n", "*"],
)
def test_half_an_expression_is_refused(text: str):
    assert refused(text) == f"`{text}` cannot be read as an expression — {ALLOWED}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"the expression is empty — {ALLOWED}"),
        (" \n", f"the expression is empty — {ALLOWED}"),
        ("n + " * 300 + "n", f"the expression is longer than 1000 characters — {ALLOWED}"),
        ("n = 2", "column 3 of `n = 2`: `=` is not allowed — write == to compare"),
        ("max(n, key=n)", "column 11 of `max(n, key=n)`: `=` is not allowed — write == to compare"),
        ("min + 1", "column 1 of `min + 1`: `min` is a function — write min(…)"),
        (
            "n ** n",
            "column 6 of `n ** n`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "n ** -1",
            "column 6 of `n ** -1`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "2 ** 3 ** 2",
            "column 6 of `2 ** 3 ** 2`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "n ** 0",
            "column 6 of `n ** 0`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "n ** 10",
            "column 6 of `n ** 10`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "n ** 2.0",
            "column 6 of `n ** 2.0`: an exponent is a whole number from 1 to 9 — write it out",
        ),
        (
            "(n < 1) + 1",
            "column 2 of `(n < 1) + 1`: a comparison stands inside a number — compare outermost",
        ),
        (
            "1 + (n < 1)",
            "column 6 of `1 + (n < 1)`: a comparison stands inside a number — compare outermost",
        ),
        (
            "1 < (n < 1)",
            "column 6 of `1 < (n < 1)`: a comparison stands inside a number — compare outermost",
        ),
        (
            "max(n < 1, n)",
            "column 5 of `max(n < 1, n)`: a comparison stands inside a number — compare outermost",
        ),
        (
            "(n < 1) < 1",
            "column 2 of `(n < 1) < 1`: a comparison stands inside a number — compare outermost",
        ),
        ("1e999", "column 1 of `1e999`: the number is too large — use a smaller one"),
        (
            "((((n**9)**9)**9)**9)**9",
            "column 2 of `((((n**9)**9)**9)**9)**9`: the number is too large — use smaller numbers",
        ),
        (
            "naiv + 1",
            "column 1 of `naiv + 1`: `naiv` is no name of this page; close: naive, nan, pair — "
            "give it an address in values:",
        ),
        (
            "qqqq",
            "column 1 of `qqqq`: `qqqq` is no name of this page — give it an address in values:",
        ),
        ("none", "column 1 of `none`: `none` stands for no value — mend its address"),
        (
            "gates",
            "column 1 of `gates`: this is a vector of 3 (256, 1024, 4096) — choose one with min(…) "
            "or max(…), or by its full address",
        ),
        (
            "max(gates * twos)",
            "column 13 of `max(gates * twos)`: vectors over different things: 256, 1024, 4096 "
            "and 256, 512, 4096 — use wildcards that match the same",
        ),
        (
            "max(gates / pair)",
            "column 13 of `max(gates / pair)`: vectors over different things: 256, 1024, 4096 "
            "and 256, 1024 — use wildcards that match the same",
        ),
        (
            "n < 1",
            "column 1 of `n < 1`: this is a comparison, not a number — put it into a claim",
        ),
    ],
)
def test_every_other_mistake_says_where_and_what_to_do(text: str, message: str):
    assert refused(text) == message


def test_a_result_that_no_float_can_hold_is_refused():
    text = "(n ** 9) ** 9 * n ** 9"
    assert refused(text) == f"column 1 of `{text}`: the number is too large — use smaller numbers"
    with pytest.raises(ExpressionError) as caught:
        judged(f"{text} > 1")
    assert caught.value.message == f"column 26 of `{text} > 1`: the number is too large"


@pytest.mark.parametrize("text", ["(" * 150 + "n" + ")" * 150, "-" * 900 + "n", "(" * 400])
def test_deep_nests_are_refused_and_do_not_break_the_reader(text: str):
    with pytest.raises(ExpressionError):
        number(text + " +")
    if text.endswith("n"):
        assert "nested too deeply" in refused(text)


def test_the_names_of_an_expression_in_order():
    parsed = expressions.parse("b / a + max(c, b) < 2 and d > 1")
    assert (parsed.names, parsed.compares) == (("b", "a", "c", "d"), True)
    assert expressions.parse("a").compares is False


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("n == 4096", "holds"),
        ("n != 4096", "fails"),
        ("n < 4096", "fails"),
        ("n <= 4096", "holds"),
        ("n > 4096", "fails"),
        ("n >= 4096", "holds"),
        ("n != 4097", "holds"),
        ("half + half / 5 == 0.6", "holds"),
        # bands apart
        ("naive < online", "holds"),
        ("online > naive", "holds"),
        ("naive <= online", "holds"),
        ("naive != online", "holds"),
        ("online != naive", "holds"),
        ("online < naive", "fails"),
        ("naive == online", "fails"),
        # bands overlap, medians 0.66 and 0.68
        ("naive < close", "holds within noise"),
        ("close > naive", "holds within noise"),
        ("naive <= close", "holds within noise"),
        ("close >= naive", "holds within noise"),
        ("naive != close", "holds within noise"),
        ("close < naive", "fails"),
        ("close <= naive", "fails"),
        ("naive == close", "fails"),
        # against a number: inside of the band, at its ends, outside
        ("naive < 0.671", "holds within noise"),
        ("naive <= 0.671", "holds"),
        ("naive < 0.672", "holds"),
        ("naive > 0.655", "holds within noise"),
        ("naive >= 0.655", "holds"),
        ("naive == 0.66", "holds within noise"),
        ("naive != 0.66", "fails"),
        ("naive - naive == 0", "holds within noise"),
        # chains and conjunctions are as good as their worst part
        ("0.6 < naive < 0.7", "holds"),
        ("0.6 < naive < online < 1", "fails"),
        ("naive < online and naive < close", "holds within noise"),
        ("naive < close and naive < online", "holds within noise"),
        ("naive < close and n == 1", "fails"),
        ("n == 1 and naive < close", "fails"),
        ("(n > 1 and n > 2) and n > 3", "holds"),
        # vectors: every element
        ("gates < 0.1", "holds"),
        ("gates < 0.08", "fails"),
        ("0.05 < gates < 0.081", "holds"),
        ("times > 1.5", "holds within noise"),
        ("times > 0.5", "holds"),
        ("max(gates) < 0.1", "holds"),
        ("times < times + times", "holds within noise"),
        # what is not a finite number
        ("nan == nan", "fails"),
        ("nan != nan", "fails"),
        ("nan < 1", "fails"),
        ("inf > 1", "fails"),
        ("n < inf", "fails"),
        ("n > inf", "fails"),
        ("inf * 0 < 1", "fails"),
        ("n / inf < 1", "fails"),
        ("max(n, nan) > 1", "fails"),
    ],
)
def test_a_claim(text: str, outcome: str):
    verdict = judged(text)
    assert verdict.outcome == outcome
    assert verdict.holds == (outcome != "fails")


def test_a_verdict_keeps_both_sides_of_every_comparison():
    verdict = judged("0 < times / online and n == 4096")
    assert verdict.looked_at == 7 - 3
    shown = [(c.key, c.left_text, c.sign, c.right_text, c.outcome) for c in verdict.comparisons]
    assert shown == [
        ("256", "0", "<", "times / online", "holds"),
        ("1024", "0", "<", "times / online", "holds"),
        ("4096", "0", "<", "times / online", "holds"),
        ("", "n", "==", "4096", "holds"),
    ]
    right = verdict.comparisons[1].right
    assert (right.low, right.median, right.high) == pytest.approx((4 / 1.27, 5 / 1.26, 6 / 1.25))
    assert (right.unit, right.samples, right.key, right.exact) == ("", 5, "1024", False)


def test_elements_keep_the_names_of_their_vector():
    names = {**NAMES, "odd": replace(exact(1), key="9")}
    verdict = expressions.judge(expressions.parse("odd * gates < max(gates) + 1"), names)
    assert [(c.key, c.left.key, c.right.key) for c in verdict.comparisons] == [
        ("256", "256", ""),
        ("1024", "1024", ""),
        ("4096", "4096", ""),
    ]


def test_a_vector_of_one_is_a_vector():
    names: dict[str, Bound] = {"one": vector(n256=exact(2))}
    with pytest.raises(ExpressionError) as caught:
        expressions.evaluate(expressions.parse("one * 2"), names)
    assert caught.value.message == "column 1 of `one * 2`: this is a vector of 1 (256)"


@pytest.mark.parametrize(
    "text",
    ["'a'", "1j", "True", "None", "...", "a.b", "a[0]", "lambda: 1", "[a for a in b]", "f'{a}'",
     "~a", "not a", "a or b", "a < b or c < d", "a if b else c", "a in b", "a is b", "{1: 2}", "{1}", "a % b", "a @ b",
     "a << b", "a | b", "(yield)", "print(a)", "min(a, key=b)", "min(*a)", "(a := b)"],
)  # fmt: skip
def test_the_tree_is_checked_whatever_the_characters_were(text: str):
    import ast

    tree = ast.parse(text, mode="eval").body
    with pytest.raises(ExpressionError):
        expressions._Checker(text).check(tree, 0, claim=True)


@pytest.mark.parametrize(
    ("text", "margin", "outcome"),
    [
        ("n < 4200", 0.02, "holds"),
        ("n < 4200", 0.03, "fails"),
        ("n > 4000", 0.02, "holds"),
        ("n > 4000", 0.03, "fails"),
        ("n >= 4000", 0.024, "holds"),
        ("-n < -4000", 0.02, "holds"),
        ("-n < -4000", 0.03, "fails"),
        ("naive < online", 0.4, "holds"),
        ("naive < online", 0.47, "holds within noise"),
        ("naive < online", 0.5, "fails"),
        ("gates < 0.1", 0.2, "fails"),
        ("gates < 0.1", 0.19, "holds"),
    ],
)
def test_a_margin_is_a_share_of_the_right_side(text: str, margin: float, outcome: str):
    assert judged(text, margin).outcome == outcome


@pytest.mark.parametrize(
    ("text", "margin", "message"),
    [
        ("n", 0, "column 1 of `n`: nothing is compared — write a comparison"),
        (
            "1 < 2",
            0,
            "column 1 of `1 < 2`: nothing recorded is compared — compare a recorded value",
        ),
        (
            "1 < 2 < n",
            0,
            "column 5 of `1 < 2 < n`: only literals are compared — compare a recorded value",
        ),
        ("none < 1", 0, "column 1 of `none < 1`: `none` stands for no value — mend its address"),
        (
            "gates < twos",
            0,
            "column 9 of `gates < twos`: vectors over different things: 256, 1024, 4096 and "
            "256, 512, 4096 — use wildcards that match the same",
        ),
        (
            "n == 4096",
            0.1,
            "column 6 of `n == 4096`: a margin has no meaning for == — use < or >",
        ),
        (
            "n < 1",
            1.5,
            "column 5 of `n < 1`: a margin of 1.5 is not between 0 and 1 — use 0.05",
        ),
    ],
)
def test_a_claim_that_looks_at_nothing_is_an_error(text: str, margin: float, message: str):
    with pytest.raises(ExpressionError) as caught:
        judged(text, margin)
    assert str(caught.value) == message


def test_a_verdict_of_nothing_cannot_be_made():
    with pytest.raises(ExpressionError, match="the claim looked at nothing"):
        expressions.Verdict(())


def made(address: str, *texts: str, unit: str = "", is_exact: bool = True) -> Value:
    return Value(address, unit, tuple(map(float, texts)), texts, is_exact)


VALUES = {
    v.address: v
    for v in (
        made("case-256/on/time", "1.50", "1.25", "1.75", unit="ms", is_exact=False),
        made("case-1024/on/time", "2.0", unit="ms"),
        made("runs", "5"),
    )
}


def test_a_name_is_bound_to_one_value_or_to_a_vector():
    assert expressions.bind("case-256/on/time", VALUES) == Quantity(
        1.5, 1.25, 1.75, "ms", exact=False, resolution=0.01, samples=3, text="1.50"
    )
    assert expressions.bind("case-*/on/time", VALUES) == (
        replace(quantities.of(VALUES["case-256/on/time"]), key="256"),
        replace(quantities.of(VALUES["case-1024/on/time"]), key="1024"),
    )
    # One match of a wildcard is a vector of one, not a number.
    assert isinstance(expressions.bind("run*", VALUES), tuple)
    with pytest.raises(AbsentError):
        expressions.bind("sanitize/x/errors", VALUES, {"sanitize/x": "not there"})


def test_what_a_value_says_survives_what_does_not_change_it():
    names = {"a": expressions.bind("case-256/on/time", VALUES)}
    assert expressions.evaluate(expressions.parse("(+a)"), names) == names["a"]
    assert expressions.evaluate(expressions.parse("max(a, 1)"), names) == names["a"]


def test_the_resolution_of_a_result():
    a = quantities.of(made("a", "2.00"))
    b = quantities.of(made("b", "4.0"))
    names = {"a": a, "b": b, "n": exact(3)}

    def size(text: str) -> float:
        return expressions.evaluate(expressions.parse(text), names).resolution

    assert size("a + b") == size("b - a") == pytest.approx(0.11)
    assert size("a * b") == pytest.approx(2 * 0.1 + 4 * 0.01)
    assert size("a / b") == pytest.approx((0.01 + 0.5 * 0.1) / 4)
    assert size("a ** 3") == pytest.approx(3 * 4 * 0.01)
    assert size("-a") == size("abs(a)") == size("max(a, n - 3)") == pytest.approx(0.01)
    assert size("n * n / n") == 0


def test_the_least_number_of_runs_counts():
    names = {"a": replace(exact(1), samples=5), "b": replace(exact(1), samples=3)}
    assert expressions.evaluate(expressions.parse("a + b * 2"), names).samples == 3
    assert expressions.evaluate(expressions.parse("2 * 3"), names).samples == 0


# Properties ---------------------------------------------------------------

BANDS = st.tuples(*[st.integers(-50, 50)] * 3).map(sorted)
TREES = st.recursive(
    st.sampled_from(["a", "b", "c", "2", "0.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"{t} ** 2" if t[0] != "-" and t.isalnum() else t),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(TREES, BANDS, BANDS, BANDS, st.lists(st.fractions(0, 1), min_size=3, max_size=3))
def test_a_band_holds_the_result_of_any_numbers_from_the_bands(
    tree: str, a: list[int], b: list[int], c: list[int], shares: list[Fraction]
):
    names = {name: band(*ends) for name, ends in zip("abc", (a, b, c), strict=True)}
    try:
        found = expressions.evaluate(expressions.parse(tree), names)
    except ExpressionError as error:
        assert "zero" in error.message or "too large" in error.message  # noqa: PT017
        return
    point = {
        name: ends[0] + share * (ends[2] - ends[0])
        for name, ends, share in zip("abc", (a, b, c), shares, strict=True)
    }
    result = eval(tree.replace("0.5", "Fraction(1, 2)"), {"Fraction": Fraction, **point})
    low, high = Fraction(found.low), Fraction(found.high)
    slack = Fraction(1, 10**12) * (1 + max(abs(low), abs(high)))
    assert low - slack <= result <= high + slack
    assert found.low <= found.median <= found.high


@settings(deadline=None)
@given(BANDS, BANDS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_a_verdict_is_true_of_its_bands(a: list[int], b: list[int], sign: str):
    outcome = expressions.judge(
        expressions.parse(f"a {sign} b"), {"a": band(*a), "b": band(*b)}
    ).outcome

    def holds(x: int, y: int) -> bool:
        return bool(eval(f"{x} {sign} {y}"))

    points = [(x, y) for x in range(a[0], a[2] + 1) for y in range(b[0], b[2] + 1)]
    if all(holds(x, y) for x, y in points):
        assert outcome == "holds"
    elif holds(a[1], b[1]):
        assert outcome == "holds within noise"
    else:
        assert outcome == "fails"


class Trap:
    """Complains as soon as anything is done with it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


WORDS = st.sampled_from(
    ["n", "gates", "times", "max", "abs", "__import__", "os", "(", ")", "<", "==", "+", "-", "*",
     "/", "**", ",", " and ", " or ", "1", "2.5", "1e9", ".", "[", "]", "'", "lambda", ":", "\n"]
)  # fmt: skip


@settings(deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=12).map("".join)))
def test_any_text_is_a_number_a_claim_or_refused(text: str):
    try:
        parsed = expressions.parse(text)
    except ExpressionError as error:
        assert error.fix  # noqa: PT017
        return
    assert set(parsed.names) <= set(
        "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    )
    names = {**dict.fromkeys(parsed.names, exact(3)), **NAMES}
    run = expressions.judge if parsed.compares else expressions.evaluate
    try:
        run(parsed, names)
    except ExpressionError as error:
        assert error.fix  # noqa: PT017


@settings(deadline=None)
@given(st.text(alphabet="()[]{}.,:;'\"_abn01+-*/<>=!&|^~@%# \\", max_size=25))
def test_only_the_allowed_nodes_ever_come_out_of_the_parser(text: str):
    import ast

    try:
        tree = expressions.parse(text).tree
    except ExpressionError:
        return
    allowed = (
        ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Name, ast.Constant, ast.Load,
        ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd, ast.And, ast.cmpop,
    )  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id in ("min", "max", "abs")
        else:
            assert isinstance(node, allowed), node
        if isinstance(node, ast.Constant):
            assert type(node.value) in (int, float)


UNITS = st.sampled_from(["", "x", "ms", "s", "us", "B", "bytes", "GB/s", "1/s", "B/s^2", "B·s"])


@settings(deadline=None)
@given(UNITS, UNITS)
def test_units_of_products_and_quotients_undo_each_other(a: str, b: str):
    assert units.same(units.product(units.product(a, b), b, -1), a)
    assert units.same(units.product(a, b), units.product(b, a))
    assert units.factors(units.product(a, a, -1)) == ()
    assert units.factors(units.compose(units.factors(a))) == units.factors(a)


def test_intervals_know_their_source():
    q = band(1.25, 1.5, 1.75, "ms")
    assert intervals.to_quantity(intervals.of_quantity(q)) == q
