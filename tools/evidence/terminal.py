"""What a program printed, as lines that can be stored: no colours, no control signs."""

from __future__ import annotations

import re
from typing import Any

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Also the second set of control signs, and those that reorder a line for the eye.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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
    number = ord(match.group())
    return f"\\u{number:04x}" if number > 0xFF else f"\\x{number:02x}"  # noqa: PLR2004


def control(value: Any) -> str:
    """Return the code of a control sign in any text of a JSON value; "" if there is none."""
    if isinstance(value, str):
        found = _CONTROL.search(value)
        return _escape(found) if found else ""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return ""
    return next((code for item in items if (code := control(item))), "")
