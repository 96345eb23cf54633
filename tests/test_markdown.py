"""Markdown out of what strangers' programs print: text, and nothing else."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evidence import markdown

# As GitHub reads it, but for links that it makes of plain text.
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Cells(HTMLParser):
    """The cells of tables, and which tags stand in them."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not attrs or attrs == [("style", "text-align:right")], attrs
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n") if data.strip() == "" else data


def read(text: str) -> Cells:
    cells = Cells()
    cells.feed(READER.render(text))
    return cells


def one_line(value: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(value.split()))


def shown(cell: str) -> str:
    return re.sub(r"[\u00a0\u2009\u202f ]+", " ", cell).strip()


NASTY = [
    "a | b", "\\", "\\|", "x\\", "`", "``x", "<script>alert(1)</script>", "<!-- -->", "&lt;",
    "[x](javascript:y)", "![x](y)", "*a* _b_ ~~c~~", "@octocat", "#12", "GH-12", "www.example.org",
    "https://example.org", "a\nb", "a\r\n\r\n# b", "\t", "", " ", "\x00\x1b[2J", "| --- |", "$x$",
    "</td></tr></table>", ":smile:", "\u202eabc", "> x", "&#64;octocat", "gh-7",
]  # fmt: skip
TEXT = st.text(
    st.one_of(st.sampled_from("|\\`<>&*_[]()#@~!\n -=:./"), st.characters(codec="utf-8"))
)


@given(TEXT, TEXT)
@example("a | b", "\\")
def test_a_cell_is_a_cell_whatever_is_in_it(one, two):
    cells = read(markdown.table(("what", "it"), [[markdown.text(one), markdown.code(two)]]))
    assert cells.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert len(cells.rows) == 2
    assert [shown(cell) for cell in cells.rows[1]] == [shown(one_line(one)), shown(one_line(two))]


@pytest.mark.parametrize("value", NASTY)
def test_what_could_be_markup_is_code(value):
    text = markdown.text(value)
    if shown(one_line(value)):
        assert text.startswith(("<code>", "`")), text
    assert not re.search(
        r"[|\\<>\[\]*_~@#]|://|www\.|(?i:gh-\d)", re.sub(r"</?code>|&#\d+;|`.*`", "", text)
    )
    cells = read(markdown.table(("a",), [[text]]))
    assert shown(cells.rows[1][0]) == shown(one_line(value))


@pytest.mark.parametrize(
    "value", ["1.00 ms (1.00 to 1.10 ms)", "65\u202f536 B", "failed: run 1 ended", "13.0.88", "-"]
)
def test_plain_text_stays_as_it_is(value):
    assert markdown.text(value) == value


def test_code():
    assert markdown.code("case-n-256/naive/time") == "`case-n-256/naive/time`"
    assert markdown.code("a`b") == "<code>a&#96;b</code>"


def test_a_table():
    assert (
        markdown.table(("a", "b"), [["1", "2"]], right=1)
        == "| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n"
    )
    assert markdown.table(("a",), []) == ""
