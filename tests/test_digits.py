"""Digits: never more than the spread supports, never fewer than one."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evidence import digits, expressions, quantities
from evidence.errors import ExpressionError
from evidence.quantities import Quantity
from evidence.values import Value

GAP = "\u00a0"
THIN = "\u202f"


def measured(*texts: str, unit: str = "") -> Quantity:
    return quantities.of(Value("s/a", unit, tuple(map(float, texts)), texts, False))


def exact(text: str, unit: str = "") -> Quantity:
    return quantities.of(Value("s/a", unit, (float(text),) * 5, (text,) * 5, True))


def calculated(text: str, **names: Quantity) -> Quantity:
    return expressions.evaluate(expressions.parse(text), names)


def refused(q: Quantity, fmt: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        digits.show(q, fmt)
    return str(caught.value)


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        # half the band is 0.008: the last digit that counts is the third decimal
        (("0.6550", "0.6602", "0.6710"), "0.660"),
        # half the band is 0.05: hundredths
        (("1.20", "1.25", "1.30"), "1.25"),
        # half the band is 0.4: tenths
        (("12.0", "12.34", "12.8"), "12.3"),
        # half the band is 20: tens
        (("1210", "1234", "1250"), "1230"),
        (("12010", "12045", "12050"), "12" + THIN + "040"),
        # half the band is 0.1, though not as floats: tenths
        (("0.10", "0.25", "0.30"), "0.2"),
        # half the band is 4: whole numbers, half to even on the decimal
        (("10.5", "12.5", "18.5"), "12"),
        (("11.5", "13.5", "19.5"), "14"),
        # the spread is finer than what was printed: what was printed
        (("1.25", "1.25", "1.26"), "1.25"),
        (("1234", "1235", "1235"), "1235"),
        # the same in every run, or run once: as printed
        (("1.250", "1.250"), "1.250"),
        (("1.250",), "1.250"),
        (("65536",), "65" + THIN + "536"),
        (("5e3", "5e3"), "5e3"),
        # the spread is wider than the number: one digit
        (("0.01", "0.07", "9.50"), "0.07"),
        (("-5", "1", "900"), "1"),
        (("1.200e-05", "1.234e-05", "1.260e-05"), "1.23e-05"),
        (("-0.6550", "-0.6602", "-0.6710"), "-0.660"),
        (("-0.001", "0.000", "0.001"), "0.000"),
    ],
)
def test_a_measured_number_has_the_digits_that_half_its_band_supports(
    texts: tuple[str, ...], shown: str
):
    assert digits.show(measured(*texts)) == shown


@pytest.mark.parametrize(
    "text", ["0", "12", "1234", "0.067", "1.2e-05", "1e10", "100.0", "-3", ".5", "1.", "+4", "nan"]
)
def test_an_exact_number_is_shown_in_full_as_printed(text: str):
    assert digits.show(exact(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("9999", "9999"),
        ("12345", f"12{THIN}345"),
        ("-1234567", f"-1{THIN}234{THIN}567"),
        ("123456.78901", f"123{THIN}456.78901"),
        ("0.1234567", "0.1234567"),
    ],
)
def test_whole_parts_of_five_digits_are_grouped(text: str, shown: str):
    assert digits.show(exact(text)) == shown


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("", "12"),
        ("ms", f"12{GAP}ms"),
        ("us", f"12{GAP}µs"),
        ("%", f"12{GAP}%"),
        ("x", "12\N{MULTIPLICATION SIGN}"),
        ("byte", f"12{GAP}B"),
        ("bytes", f"12{GAP}bytes"),
        ("GB/s", f"12{GAP}GB/s"),
        ("1/ms", "12/ms"),
    ],
)
def test_a_unit_follows(unit: str, shown: str):
    assert digits.show(exact("12", unit)) == shown


@pytest.mark.parametrize(
    ("fmt", "shown"),
    [
        (".3f", "0.660"),
        (".2f", "0.66"),
        (".0f", "1"),
        (".3g", "0.660"),
        (".1g", "0.7"),
        (".2e", "6.60e-01"),
        (".0e", "7e-01"),
    ],
)
def test_a_format_may_ask_for_less(fmt: str, shown: str):
    assert digits.show(measured("0.6550", "0.6602", "0.6710", unit="ms"), fmt) == f"{shown}{GAP}ms"


@pytest.mark.parametrize(
    ("fmt", "shown"),
    [(".3g", "1230"), (".2g", "1200"), (".2e", "1.23e+03"), (".1g", "1000")],
)
def test_significant_digits_of_large_numbers(fmt: str, shown: str):
    assert digits.show(measured("1210", "1234", "1250"), fmt) == shown


def test_a_format_counts_digits_after_rounding():
    assert digits.show(exact("9.96"), ".2g") == "10"
    assert digits.show(exact("0.0996"), ".2g") == "0.10"
    assert digits.show(exact("9.96"), ".1e") == "1.0e+01"


def test_rounding_is_half_to_even_on_the_decimal_that_was_printed():
    assert digits.show(exact("2.675"), ".2f") == "2.68"
    assert digits.show(exact("2.665"), ".2f") == "2.66"
    assert digits.show(exact("0.125"), ".2f") == "0.12"


def test_small_rounded_negative_numbers_lose_their_sign():
    assert digits.show(exact("-0.004"), ".2f") == "0.00"


def test_a_plain_number_can_be_shown_as_a_percentage():
    ratio = calculated("a / b", a=exact("1306"), b=exact("2500"))
    assert digits.show(ratio, ".1%") == f"52.2{GAP}%"
    assert digits.show(ratio, ".0%") == f"52{GAP}%"
    assert digits.show(exact("0.522", "x"), ".1%") == f"52.2{GAP}%"


@pytest.mark.parametrize(
    ("number", "fmt", "message"),
    [
        (
            measured("0.6550", "0.6602", "0.6710", unit="ms"),
            ".4f",
            "`.4f` asks for more digits than the number has: its band, 0.6550 to 0.6710\u00a0ms, "
            "supports 3 decimals — use .3f",
        ),
        (
            measured("0.6550", "0.6602", "0.6710", unit="ms"),
            ".4g",
            "`.4g` asks for more digits than the number has: its band, 0.6550 to 0.6710\u00a0ms, "
            "supports 3 decimals — use .3g",
        ),
        (
            measured("0.6550", "0.6602", "0.6710"),
            ".3e",
            "`.3e` asks for more digits than the number has: its band, 0.6550 to 0.6710, "
            "supports 3 decimals — use .2e",
        ),
        (
            measured("0.6550", "0.6602", "0.6710"),
            ".2%",
            "`.2%` asks for more digits than the number has: its band, 0.6550 to 0.6710, "
            "supports 3 decimals — use .1%",
        ),
        (
            measured("1210", "1234", "1250"),
            ".0f",
            "`.0f` asks for more digits than the number has: its band, 1210 to 1250, supports "
            "multiples of 10 — use .3g",
        ),
        (
            measured("12.0", "12.34", "12.8"),
            ".2f",
            "`.2f` asks for more digits than the number has: its band, 12.0 to 12.8, "
            "supports 1 decimal — use .1f",
        ),
        (
            exact("0.067"),
            ".4f",
            "`.4f` asks for more digits than the number has: it is printed as 0.067 — use .3f",
        ),
        (
            exact("4096"),
            ".1f",
            "`.1f` asks for more digits than the number has: it is printed as 4096 — use .0f",
        ),
        (
            measured("1.25", "1.25"),
            ".3f",
            "`.3f` asks for more digits than the number has: it is printed as 1.25 — use .2f",
        ),
        (
            calculated("a / b", a=exact("0.67"), b=exact("0.33")),
            ".3f",
            "`.3f` asks for more digits than the number has: the numbers it is made of support "
            "2 decimals — use .2f",
        ),
        (
            calculated("a / 3", a=exact("64")),
            ".15f",
            "`.15f` asks for more digits than the number has: a floating-point number has "
            "15 digits — use .13f",
        ),
        (
            exact("12"),
            "d",
            "`d` is no format for a number — use one like .2f, .3g, .2e, .1% or .1f MB",
        ),
        (
            exact("12", "ms"),
            ".1%",
            "`.1%` makes a percentage of a plain number, and this is in `ms` — use one like .2f",
        ),
    ],
)
def test_a_format_that_asks_for_too_much_names_what_is_supported(
    number: Quantity, fmt: str, message: str
):
    assert refused(number, fmt) == message
    best = message.rsplit(" ", 1)[1]
    if "more digits" in message:
        digits.show(number, best)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a / 2", "32"),
        ("a / 3", "21.3333"),
        ("a / 128", "0.5"),
        ("a * a * a * a", f"16{THIN}777{THIN}216"),
        ("a / 3 * 3", "64"),
        ("1 / a", "0.015625"),
        ("a ** 9 * 1000", "1.80144e+19"),
        ("1 / a ** 4", "5.96046e-08"),
    ],
)
def test_a_result_of_whole_exact_numbers(text: str, shown: str):
    assert digits.show(calculated(text, a=exact("64"))) == shown


def test_a_result_that_ends_has_all_digits_that_are_asked_for():
    assert digits.show(calculated("a / 128", a=exact("64")), ".20f") == f"0.5{'0' * 19}"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.25", 0.01),
        ("-1.2e-05", 1e-6),
        ("1e3", 1e3),
        ("12", 1.0),
        ("nan", 0),
        ("-inf", 0),
        (".5", 0.1),
        ("1.", 1.0),
        ("0e" + "9" * 5000, 0),
    ],
)
def test_the_last_printed_digit_has_a_size(text: str, size: float):
    assert quantities.resolution(text, exact=False) == size
    assert quantities.resolution(text, exact=True) == (0 if text == "12" else size)


def test_a_result_of_rounded_numbers_has_no_digits_that_rounding_removed():
    assert digits.show(calculated("a / b", a=exact("0.67"), b=exact("0.33"))) == "2.03"
    assert digits.show(calculated("a * 3", a=exact("1.5"))) == "4.5"
    assert digits.show(calculated("a / 3", a=exact("1.5"))) == "0.50"
    assert digits.show(calculated("a / 7", a=measured("1000"))) == "142.9"


def test_a_result_of_measured_numbers_has_the_digits_of_its_own_band():
    naive = measured("0.6550", "0.6602", "0.6710", unit="ms")
    online = measured("1.2500", "1.2642", "1.2700", unit="ms")
    # from 1.2500 / 0.6710 = 1.863 to 1.2700 / 0.6550 = 1.939: half is 0.038
    assert digits.show(calculated("b / a", a=naive, b=online)) == "1.91"
    # from 0.5790 to 0.6150: half is 0.018
    assert digits.show(calculated("b - a", a=naive, b=online)) == f"0.60{GAP}ms"
    assert digits.show(calculated("n / a", a=naive, n=exact("4096"))) == "6200/ms"


def test_the_band_is_shown_with_one_digit_more_and_no_more_than_were_printed():
    assert digits.spread(measured("0.65501", "0.66020", "0.67100")) == "0.6550 to 0.6710"
    assert digits.spread(measured("1.25", "1.26", unit="ms")) == f"1.25 to 1.26{GAP}ms"
    assert digits.spread(measured("1200", "1300")) == "1200 to 1300"
    assert digits.spread(measured("1.25", "1.25")) == digits.spread(exact("7")) == ""
    assert digits.spread(measured("nan", "1")) == ""


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_what_is_not_finite_is_shown_as_printed(text: str):
    assert digits.show(exact(text, "ms")) == f"{text}{GAP}ms"


def test_a_number_whose_band_is_not_finite_has_no_more_digits_than_were_printed():
    assert digits.show(measured("inf", "1", unit="ms")) == f"1{GAP}ms"
    assert refused(measured("inf", "1"), ".2f") == (
        "`.2f` asks for more digits than the number has: it is printed as 1 — use .0f"
    )
    assert digits.spread(measured("inf", "1")) == ""


def test_zero_is_one_digit_however_wide_its_band_is():
    assert digits.show(measured("-900", "0", "900")) == "0"
    assert digits.show(measured("-900", "0", "900"), ".0f") == "0"
    assert refused(measured("-900", "0", "900"), ".1f").endswith("use .0f")


def test_a_result_of_something_infinite_is_no_number():
    assert digits.show(calculated("a + 1", a=exact("inf"))) == "nan"


NUMBERS = st.decimals(
    min_value=Decimal("-1e9"), max_value=Decimal("1e9"), allow_nan=False, places=4
).map(lambda d: f"{d:f}")


def place_of(shown: str) -> int:
    """The place of the last digit that is written."""
    mantissa, _, exponent = shown.replace(THIN, "").partition("e")
    return int(exponent or 0) - len(mantissa.partition(".")[2])


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=2, max_size=6))
def test_no_digit_below_the_uncertainty_is_shown(texts: list[str]):
    q = measured(*texts)
    half = (Decimal(repr(q.high)) - Decimal(repr(q.low))) / 2
    assume(half > 0)
    shown = digits.show(q)
    written = Decimal(shown.replace(THIN, ""))
    # Undo the zeros that fill up a number rounded to tens and more.
    place = place_of(shown) if place_of(shown) < 0 else digits.supported(q)
    assert place is not None
    one_digit = place == (math.floor(math.log10(abs(q.median))) if q.median else 0)
    assert Decimal(10) ** place > half / 10 or one_digit
    assert abs(written - Decimal(repr(q.median))) <= Decimal(10) ** place / 2


@settings(deadline=None)
@given(
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.integers(0, 12),
    st.sampled_from(["f", "g", "e", "%"]),
)
def test_a_format_is_refused_or_shows_supported_digits_alone(
    texts: list[str], count: int, kind: str
):
    q = measured(*texts)
    floor = digits.supported(q)
    assert floor is not None
    shown = shown_or_refused(q, f".{count}{kind}")
    number = shown.removesuffix(f"{GAP}%")
    if place_of(number) < 0:
        assert place_of(number) - 2 * (shown != number) >= floor


def shown_or_refused(q: Quantity, fmt: str | None) -> str:
    """What is shown, or what the refusal says to ask for instead."""
    try:
        return digits.show(q, fmt)
    except ExpressionError as error:
        best = str(error.fix)
    return digits.show(q, best.removeprefix("use "))


@settings(deadline=None)
@given(st.floats(allow_nan=True), st.floats(0, 1e300), st.sampled_from([None, ".2f", ".3g", ".1e"]))
def test_any_number_is_shown_or_refused(median: float, width: float, fmt: str | None):
    q = Quantity(median, median - width, median + width, "ms", width == 0)
    assert shown_or_refused(q, fmt)


@pytest.mark.parametrize(
    ("q", "fmt", "shown"),
    [
        (exact("686000000", "B"), "MB", "686 MB"),
        (exact("686123456", "B"), "MB", "686.123 MB"),
        (exact("686123456", "bytes"), ".1f MB", "686.1 MB"),
        (exact("49152", "B"), "KiB", "48 KiB"),
        (exact("3", "GiB"), "MiB", "3072 MiB"),
        (measured("0.6550", "0.6602", "0.6710", unit="ms"), "us", "660 µs"),
        (measured("0.6550", "0.6602", "0.6710", unit="ms"), ".2g us", "660 µs"),
        (measured("4012.1", "4100.7", "4160.0", unit="GB/s"), "TB/s", "4.10 TB/s"),
        (measured("4012.1", "4100.7", "4160.0", unit="GB/s"), ".1f TB/s", "4.1 TB/s"),
        (measured("51.20", "51.20", unit="TFLOP/s"), "GFLOP/s", f"51{THIN}200 GFLOP/s"),
        (exact("2", "h"), "min", "120 min"),
        # the number's own unit is no other
        (measured("1.25", "1.25", "1.26", unit="ms"), "ms", "1.25 ms"),
        (exact("12", "cycles"), "clk", "12 clk"),
    ],
)
def test_a_unit_of_another_size(q, fmt, shown):
    assert digits.show(q, fmt).replace(GAP, " ") == shown


def test_a_unit_of_another_size_gives_no_more_digits():
    q = measured("0.6550", "0.6602", "0.6710", unit="ms")
    assert refused(q, ".1f us").replace(GAP, " ") == (
        "`.1f` asks for more digits than the number has: its band, 655.0 to 671.0 µs, supports "
        "0 decimals — use .0f"
    )


@pytest.mark.parametrize(
    ("q", "fmt", "kind"),
    [
        (exact("3", "B"), "ms", "B"),
        (exact("3"), "MB", "no unit"),
        (exact("3", "GB/s"), "GB", "GB/s"),
        (exact("3", "B"), ".1f bits", "B"),
    ],
)
def test_a_unit_of_another_kind_is_refused(q, fmt, kind):
    unit = fmt.split()[-1]
    assert refused(q, fmt) == (
        f"`{unit}` is no unit for a number in `{kind}` — use one that differs from it in size "
        "alone, as MB from B"
    )
