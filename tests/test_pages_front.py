"""A page's front matter: what it names, and where each thing stands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.pages.front import Front, Name, split


def problems(text: str) -> list[str]:
    return [f"{p.line}: {p.message} — {p.fix}" for p in split(text)[0].problems]


def test_a_page_without_front_matter() -> None:
    assert split("# Title\n\ntext") == (Front(), "# Title\n\ntext")


def test_programs_and_names_with_their_lines() -> None:
    text = (
        "---\n"
        "title: Attention\n"
        "programs:\n"
        "  - 097-attention\n"
        "values:\n"
        "  t_online: 097-attention:case-n-256/online/time\n"
        "  stack: compile/attentionOnline/stack\n"
        "---\n"
        "\n"
        "# Attention\n"
    )
    assert split(text) == (
        Front(
            programs=(("097-attention", 4),),
            values=(
                Name("t_online", "097-attention:case-n-256/online/time", 6),
                Name("stack", "compile/attentionOnline/stack", 7),
            ),
            first_line=10,
        ),
        "# Attention\n",
    )


@pytest.mark.parametrize(
    "text",
    [
        "---\r\nprograms: 97\r\n---\r\n\r\ntext\r\n",
        "\ufeff---\nprograms: [97]\n---\n\ntext\n",
        "---  \nprograms:\n- 97\n...\n\ntext\n",
    ],
)
def test_ways_to_write_it(text: str) -> None:
    found, body = split(text)
    assert [name for name, _ in found.programs] == ["97"]
    assert (body, found.problems) == ("text\n", ())


@pytest.mark.parametrize(
    "text",
    ["---\n---\ntext", "---\ntext without an end", "text\n---\na: b\n---\n", "--- a\nb: c\n---\n"],
)
def test_what_is_no_front_matter(text: str) -> None:
    assert split(text)[0] == Front()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "3: the front matter is no YAML: expected the node content, but found "
         "'<stream end>' — mend this line"),
        ("- a", "1: the front matter is no list of `name: value` lines — mend it"),
        ("values: t", "2: `values:` gives names to addresses — write "
         "`name: program:section/label` under it"),
        ("values:\n  t:", "3: `t` has no address — write one after the colon"),
        ("values:\n  2t: a/b", "3: `2t` cannot be a name in an expression — use letters, digits "
         "and underscores, no word of the expressions"),
        ("values:\n  min: a/b", "3: `min` cannot be a name in an expression — use letters, digits "
         "and underscores, no word of the expressions"),
        ("values:\n  off: a/b", "3: `off` is no text in YAML — choose another name"),
        ("values:\n  null: a/b", "3: `null` is no text in YAML — choose another name"),
        ("values:\n  t: a/b\n  t: a/c", "4: name `t` is given twice — rename one of them"),
        ("programs:\n  - {a: b}", "3: `programs:` is a list of program names — write "
         "`- 097-attention`"),
        ("generated: [evidence readme]", "2: `generated:` says what writes this page — name it, or "
         "remove the line"),
        ("generated: ''", "2: `generated:` says what writes this page — name it, or remove the line"),
        ("generated: 3", "2: `generated:` says what writes this page — name it, or remove the line"),
        ("value:\n  t: a/b", "2: the front matter's `value` means nothing here — did you mean "
         "`values`?"),
    ],
)  # fmt: skip
def test_a_problem_names_its_line_and_its_remedy(text: str, expected: str) -> None:
    assert problems(f"---\n{text}\n---\n") == [expected]


@pytest.mark.parametrize("key", ["title", "tags", "hide", "day", "needs"])
def test_what_other_tools_read_is_left_alone(key: str) -> None:
    assert problems(f"---\n{key}: x\n---\n") == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(["---\n", "a: b\n", "values:\n", "  t: a/b\n", "\n", "x"])))
def test_text_is_kept_and_its_first_line_known(pieces: list[str]) -> None:
    text = "".join(pieces)
    found, body = split(text)
    assert text.endswith(body)
    assert text.split("\n")[found.first_line - 1 :] == body.split("\n")
