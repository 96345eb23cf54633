"""What is stored of an output: lines without colours, control signs and broken bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import terminal


def clean(data: bytes) -> tuple[tuple[str, ...], list[str]]:
    problems: list[str] = []
    return terminal.lines("stdout", data, problems), problems


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", ()),
        (b"one\ntwo\n", ("one", "two")),
        (b"no end", ("no end",)),
        (b"\n\n", ("", "")),
        (b"dos\r\nlines\r\n", ("dos", "lines")),
        (b"10%\r50%\r100%\n", ("100%",)),
        (b"\x1b[1;31mred\x1b[0m plain\n", ("red plain",)),
        (b"\x1b]0;title\x07text\x1b]8;;x\x1b\\link\n", ("textlink",)),
        ("µs · 3 λ\n".encode(), ("µs · 3 λ",)),
        (b"a\tb\n", ("a\tb",)),
    ],
)
def test_ordinary_output(data, lines):
    assert clean(data) == (lines, [])


def test_a_byte_that_is_not_utf8():
    assert clean(b"ok\nbad \xff\xfe\n") == (
        ("ok", "bad \\xff\\xfe"),
        ["printed byte 0xff, which is not UTF-8, on line 2 of stdout"],
    )


def test_a_control_sign():
    assert clean(b"ok\na\x00b\x08c\n") == (
        ("ok", "a\\x00b\\x08c"),
        ["printed control character 0x00 on line 2 of stdout"],
    )


@given(st.binary())
def test_whatever_is_printed_can_be_stored(data):
    lines, _ = clean(data)
    for line in lines:
        assert "\n" not in line
        assert "\r" not in line
        assert "\x1b" not in line
        line.encode("utf-8")
