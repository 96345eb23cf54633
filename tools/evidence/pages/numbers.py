"""Numbers with a unit in plain text: what is one, and what only looks like one.

Units are those of time, cycles, bytes, rates, operations, frequency, shares,
power, energy and temperature, and a ratio's sign or words (`3x`, `3 times as
fast`). No units are: what is counted (`64 blocks`), a size (`n = 4096`,
`16x16`), a width in bits, days and years, and what names a thing (`sm_90`,
`FP32`, `4-byte`, a model of `7B`, `A100-80GB`, the `1980s`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Between number and unit: marks of emphasis, and spaces of all kinds.
_MARKS = r"[*~=]{0,3}"
_SPACE = r"(?:\s|&nbsp;|&thinsp;|&ensp;|&emsp;|&#160;|&#8239;|&#x[aA]0;)"
_GAP = rf"(?:{_MARKS}{_SPACE}{{0,2}}{_MARKS})"

_POWER = r"(?:\^\{?[-+\u2212]?\d+\}?|[⁻⁺]?[⁰¹²³⁴-⁹]+)"
_WHOLE = r"(?:\d{1,3}(?:[,\u202f\u2009\u00a0 ]\d{3})+(?!\d)|\d+)"
_NUMBER = (
    rf"(?:{_WHOLE}(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s?[\u00d7x·]\s?10{_POWER})?{_POWER}?"
    r"|\.\d+|[½¼¾⅓⅔⅛])"
)
# No number: the end of a name, version, power or time of day.
_BEFORE = r"(?<![\w.^√])(?<!\d:)"
_NAME = re.compile(r"[A-Za-z_]\w*-$")  # before the number, as in `A100-80GB`
_LONGEST_NAME = 20

_TIME = (
    r"(?:(?:nano|micro|milli)?seconds?|secs?|[numµμ]s|&micro;s|s"
    r"|minutes?|mins?(?!\s?\()|hours?|hrs?|h)"
)
_CYCLES = r"(?:(?:clock[ -])?cycles?|clocks|clks?)"
_BYTES = r"(?:[kKMGTPE]i?B|B|(?:[Kk]ilo|[Mm]ega|[Gg]iga|[Tt]era|[KkMmGgTt][ei]bi)?[Bb]ytes?)"
_BIT_RATE = r"[kKMGT]i?(?:b|bits?)(?:/s|ps)"
_WORK = r"(?:[kKMGTPE]?(?:FLOPS?|FLOPs|flops?|Flops?|OPS|OPs)|[Oo]ps|IOPS)"
_OTHER = (
    r"(?:[kKMGT]?Hz|(?:kilo|mega|giga)hertz|[mkM]?W|[Ww]atts?|[kM]?Wh|[mkM]?J|[Jj]oules?"
    r"|%|percent(?:age\spoints?)?|per\scent|[‰‱]|°\s?[CF]|degrees?\s(?:C|F|Celsius|Fahrenheit)"
    r"|fps|FPS|GT/s)"
)
_UNIT = rf"(?:{_TIME}|{_CYCLES}|{_BYTES}|{_BIT_RATE}|{_WORK}|{_OTHER})(?:/[A-Za-z]+)*(?!\w)"
_RATE = rf"(?:[A-Za-z]+(?:\s[A-Za-z]+)?)?(?:\s?/\s?|\sper\s)(?:{_TIME}|{_CYCLES}|clock)(?!\w)"
_THAN = (
    r"(?:as|faster|slower|quicker|more|less|fewer|larger|bigger|greater|smaller|longer|shorter"
    r"|higher|lower|better|worse|the|its|their|that|what|speed-?up)\b"
)
_SIGN = r"(?:[\u00d7xX]|&times;)"
# A dimension goes on: `16x16`, `16x n`. With a space before it, it is a product.
_RATIO = (
    rf"(?:{_SIGN}(?![\w\u00d7]|\s?\d|\s(?!a\b)[A-Za-z]\b)|\s{_SIGN}\s{_THAN}"
    rf"|{_GAP}times\s{_THAN}|-?\s?fold\b(?!\scross))"
)
# Where a number may begin; `_MEASURED` is then tried there, which is much faster
# than searching for all of it.
_START = re.compile(r"[.\d½¼¾⅓⅔⅛][.\d]*")
_MEASURED = re.compile(
    rf"{_BEFORE}(?P<number>{_NUMBER})(?:{_GAP}(?P<rate>{_RATE})"
    rf"|(?:{_GAP}|(?P<hyphen>[-\u2010\u2011]))(?P<unit>{_UNIT})|(?P<ratio>{_RATIO}))"
)
_SPOKEN = re.compile(
    r"(?:[Ss]peed-?ups?|[Ss]low-?downs?|[Ff]actors?)\s(?:of|about|nearly)(?:\sabout|\snearly)?\s"
    rf"{_NUMBER}(?![\w%])"
    rf"|\u00d7(?<![\d)\]]\s\u00d7)(?<!\b\w\s\u00d7)(?<![\w)\]]\u00d7){_NUMBER}(?![\w\u00d7])"
    rf"|\((?<=\s\()(?:{_UNIT})\)\s?(?:[:=]|is|was)?\s?{_NUMBER}"
)
# Substrings without one of which a pattern cannot match, for speed.
_SPOKEN_HINTS = ("peed", "lowdown", "low-down", "actor", "\u00d7", " (")

_DECADE = re.compile(
    r"(?:1[5-9]|20)\d0s|(?<=the )\d0s|(?<=early )\d0s|(?<=late )\d0s|(?<=mid-)\d0s"
)
_BILLIONS = re.compile(r"[\d.]+B")
_TYPES_AND_ACCESSES = ("1", "2", "4", "8", "16")  # bytes

_PERFORMANCE = (
    r"(?:the|its)\s(?:time|speed|bandwidth|throughput|latency|rate|performance|run\s?time)\b"
)
_FACTOR = (
    r"(?:twice|thrice|half|double|triple|orders?\sof\smagnitude"
    r"|(?:two|three|four|five|six|seven|eight|nine|ten|twenty|hundred|thousand)\stimes)"
)
_WORDS = re.compile(  # of text in lower case
    rf"{_FACTOR}\s(?:as\s(?:fast|slow|quick)|faster|slower|quicker|{_PERFORMANCE})"
    rf"|(?:doubl|tripl|halv)(?:es|ed|ing)\s{_PERFORMANCE}"
)
_WORDS_HINTS = ("twice", "thrice", "half", "double", "triple", "magnitude", "times", "doubl",
                "tripl", "halv")  # fmt: skip

_HEADER = re.compile(rf"(?:\s[(\[]|,\s|\bin\s|^\s*)(?P<unit>{_UNIT}|{_SIGN})\s?[)\]]?\s*$")
_BARE = re.compile(rf"[\s*~≈<>≤≥±+\u2212-]*(?P<number>{_NUMBER})[\s*]*(?:\Z|[±(\u2013-])")


def find(text: str) -> Iterator[tuple[int, str]]:
    """Yield each number with a unit: its place, and how it is written.

    Args:
        text: Plain text, without code, links' targets and directives.
    """
    position = 0
    while start := _START.search(text, position):
        position = start.end()
        match = _MEASURED.match(text, start.start())
        if match is not None:
            position = match.end()
            if not _names_something(match):
                yield match.start(), " ".join(match[0].split())
    if position and any(hint in text for hint in _SPOKEN_HINTS):
        for match in _SPOKEN.finditer(text):
            yield match.start(), " ".join(match[0].split())


def _names_something(match: re.Match[str]) -> bool:
    number, unit, text = match["number"], match["unit"], match.string
    if _NAME.search(text, max(0, match.start() - _LONGEST_NAME), match.start()):
        return True
    if match["hyphen"]:
        # `4-byte` is a type, `16-byte` the widest access. `3-s` is not English.
        return len(unit) == 1 or (unit.lower() == "byte" and number in _TYPES_AND_ACCESSES)
    if match["ratio"]:
        return number == "0"  # the prefix `0x`
    decade = _DECADE.match(text, match.start())
    return bool(_BILLIONS.fullmatch(match[0]) or (decade and decade.end() == match.end()))


def phrases(text: str) -> Iterator[tuple[int, str]]:
    """Yield what says in words alone how fast something is: `twice as fast`."""
    lower = text.lower()
    if not any(hint in lower for hint in _WORDS_HINTS):
        return
    for match in _WORDS.finditer(lower):
        before = text[match.start() - 1 : match.start()]
        if not before.isalpha():
            yield match.start(), " ".join(match[0].split())


def unit_of(header: str) -> str | None:
    """Return the unit that the header of a table's column gives it, if it does.

    `time (ms)`, `time in ms`, `time, ms` and `GB/s` do; `A, B` does not.
    """
    match = _HEADER.search(header)
    if match is None or (len(match["unit"]) == 1 and match[0].strip()[0] not in "([%"):
        return None
    return match["unit"]


def bare(cell: str) -> str | None:
    """Return the number in a table's cell that holds no unit, if it holds one."""
    match = _BARE.match(cell)
    return match["number"] if match is not None else None
