"""What a program printed, as lines that can be stored: no colours, no control signs."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def lines(stream: str, data: bytes, problems: list[str]) -> tuple[str, ...]:
    """Return the lines of an output, and add what is wrong with it to `problems`.

    Colours are removed, and a line is what a terminal would leave of it after
    carriage returns. Bytes that are not UTF-8 and other control characters
    are escaped, and each kind is a problem, once.

    Args:
        stream: The stream's name, for the problems.
        data: What was printed.
        problems: Sentences are appended here.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x}"
        place = data.count(b"\n", 0, error.start) + 1
        problems.append(f"printed {byte}, which is not UTF-8, on line {place} of {stream}")
        text = data.decode("utf-8", "backslashreplace")
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    found = text.split("\n")
    if found[-1] == "":
        found.pop()
    found = [line.rsplit("\r", 1)[-1] for line in found]
    for number, line in enumerate(found, 1):
        control = _CONTROL.search(line)
        if control:
            code = f"0x{ord(control.group()):02x}"
            problems.append(f"printed control character {code} on line {number} of {stream}")
            break
    return tuple(_CONTROL.sub(_escape, line) for line in found)


def _escape(match: re.Match[str]) -> str:
    return f"\\x{ord(match.group()):02x}"
