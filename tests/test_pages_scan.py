"""What a page asks for is found where a reader would see it, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.pages import lines
from evidence.pages.inline import Inline
from evidence.pages.scan import Block, Option, scan


def found(text: str) -> list[str]:
    """Return each directive as `line: kind text`."""
    shown = []
    for item in scan(text).items:
        if isinstance(item, Inline):
            detail = f" | {item.detail}" if item.detail else ""
            shown.append(f"{item.line}: {item.kind} {item.text}{detail}")
        else:
            shown.append(f"{item.line}: {item.kind} {item.argument}".rstrip())
    return shown


def problems(text: str) -> list[str]:
    return [f"{p.line}: {p.message} — {p.fix}" for p in scan(text).problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It takes [= t ].", ["1: value t"]),
        ("[= t_online / t_naive | .2f ]", ["1: value t_online / t_naive | .2f"]),
        ("[=\tt\t]", ["1: value t"]),
        ("one\n\nthree [= t ]", ["3: value t"]),
        ("a line [= that\nwraps ] here", ["1: value that wraps"]),
        ("two [= a ], then\nthree [= b ]", ["1: value a", "2: value b"]),
        ("# Heading of [= t ]", ["1: value t"]),
        ("- item [= t ]", ["1: value t"]),
        ("> quote [= t ]", ["1: value t"]),
        ("| a | [= t | .2f ] | b |", ["1: value t | .2f"]),
        ("| a | [= t \\| .2f ] | b |", ["1: value t | .2f"]),
        ("**[= t ]**, *[= u ]*", ["1: value t", "1: value u"]),
        ("![alt [= t ]](image.png)", ["1: value t"]),
        ("[! 48 KiB | CUDA guide ]", ["1: sourced 48 KiB | CUDA guide"]),
        ("[! 48 KiB | [guide](https://x.y) ]", ["1: sourced 48 KiB | [guide](https://x.y)"]),
        ("a `code` [= t ] `code`", ["1: value t"]),
        ("an open ` tick [= t ]", ["1: value t"]),
        ("\\\\[= t ]", ["1: value t"]),
        ("<div>[= t ]</div>", ["1: value t"]),
        # No fence, for a line in it is indented less, quoted deeper, or not quoted.
        ("  ```\n\n[= t ]\n\n  ```", ["3: value t"]),
        ("> ```\n>\n[= t ]\n> ```", ["3: value t"]),
        ("  ```\n\n> [= t ]\n\n  ```", ["3: value t"]),
        (">   ```\n>\n> > [= t ]\n>\n>   ```", ["3: value t"]),
        ("```\n[= t ]", ["2: value t"]),  # never closed
        ("    not code: no blank line above\ntext\n    [= t ]", ["3: value t"]),
    ],
)
def test_a_directive_in_a_sentence(text: str, expected: list[str]) -> None:
    assert found(text) == expected
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "\\[= t ]",
        "`[= t ]`",
        "``a ` [= t ]``",
        "`over\ntwo [= t ] lines`",
        "    [= t ]",
        "text\n\n    [= t ]",
        "    one\n    [= t ]",
        "text\n- no list without a blank line\n\n    [= t ]",
        "```\n```text\n[= t ]\n```",
        "> ```\n> ```text\n> [= t ]\n> ```",
        "> ```\n[= t ]\n> ```",
        "> `a\nb [= t ]`",
        "- `a\n[= t ]`",
        "- item\n\n        [= t ]",
        "```\n[= t ]\n```",
        "~~~ text\n[= t ]\n~~~",
        "> ```\n> [= t ]\n> ```",
        "- item\n\n    ```\n    [= t ]\n    ```",
        "````\n```\n[= t ]\n```\n````",
        "<!-- [= t ] -->",
        "<!--\n\n[= t ]\n\n-->",
        "a <!-- [= t ] --> b",
        "<pre>\n[= t ]\n\n[= t ]\n</pre>",
        "<script>x[= 1 ]</script>",
        "[link](page.md)",
        "[=name](page.md)",
        "[=name][ref]",
        "[=]",
        "[!NOTE]",
        "[![badge](a.svg)](b)",
        "![image](a.png)",
        "a[=1], x [=> y",
        "```\n/// code | a.cu:b\n///\n```",
        "    /// code | a.cu:b\n    ///",
        "/// note | Title\ntext\n///",
        "/// tab | One\n    new: true\ntext\n///",
    ],
)
def test_what_is_no_directive(text: str) -> None:
    assert found(text) == []
    assert problems(text) == []


CODE = "/// code | attention.cu:online-update\n///"


def indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CODE, 1),
        (f"text\n{CODE}\ntext", 2),
        (f"# Heading\n\n{CODE}", 3),
        (f"> quote\n{CODE}", 2),
        (f"> quote\n\n{CODE}", 3),
        (f"- item\n{CODE}", 2),
        (indented(CODE, 3), 1),
        (f'=== "Tab"\n\n{indented(CODE, 4)}', 3),
        (f'=== "Tab"\n{indented(CODE, 4)}', 2),
        (f"!!! note\n\n{indented(CODE, 4)}", 3),
        (f'??? note "Folded"\n\n{indented(CODE, 4)}', 3),
        (f"???+ note\n{indented(CODE, 4)}", 2),
        (f"- item\n\n{indented(CODE, 4)}", 3),
        (f"1. item\n\n{indented(CODE, 4)}", 3),
        (f'=== "Tab"\n\n    text\n- item\n\n{indented(CODE, 4)}', 6),
        (f"- item\n    - inner\n\n{indented(CODE, 8)}", 4),
        (f'- item\n\n    === "Tab"\n\n{indented(CODE, 8)}', 5),
        (f"[^1]: note\n\n{indented(CODE, 4)}", 3),
        ("> quote\n>\n> /// code | attention.cu:online-update\n> ///", 3),
        (f"//// details | Title\n{CODE}\n////", 2),
        ("/// code|attention.cu:online-update\n///", 1),
        ("///   code   |   attention.cu:online-update   \n///", 1),
        (CODE.replace("\n", "\r\n"), 1),
        (f'=== "Tab"\n\n{indented(CODE, 4)}'.replace("    ", "\t"), 3),
    ],
)
def test_a_block_wherever_a_block_may_stand(text: str, line: int) -> None:
    assert found(text) == [f"{line}: code attention.cu:online-update"]
    assert problems(text) == []


def test_the_parts_of_a_claim() -> None:
    text = (
        "- item\n"
        "\n"
        "    /// claim\n"
        "        expect: t_online > t_naive\n"
        "            and t_online < 2\n"
        "        fails_on: t4, v100\n"
        "    Online is slower by [= t_online / t_naive ].\n"
        "\n"
        "    More.\n"
        "    ///\n"
    )
    claim, value = scan(text).items
    assert claim == Block(
        kind="claim",
        argument="",
        options=(
            Option("expect", "t_online > t_naive and t_online < 2", 4, ((5, "and t_online < 2"),)),
            Option("fails_on", "t4, v100", 6),
        ),
        line=3,
        start=text.index("///"),
        end=text.index("\n    Online"),
        head=text[text.index("///") : text.index("\n    Online")],
        body="Online is slower by [= t_online / t_naive ].\n\nMore.",
    )
    assert isinstance(value, Inline)
    assert (value.line, value.text) == (7, "t_online / t_naive")
    assert text[value.start : value.end] == value.head == "[= t_online / t_naive ]"


def test_an_expression_is_taken_as_it_is_written() -> None:
    text = "/// claim\n    expect: 'a' : b # c\nIt holds.\n///"
    [claim] = scan(text).items
    assert isinstance(claim, Block)
    assert claim.options == (Option("expect", "'a' : b # c", 2),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[= t",
            "1: `[= ` is not closed in its paragraph — close it with ` ]`, or write `\\[= ` "
            "for the characters",
        ),
        (
            "one\n[= t\n\n]",
            "2: `[= ` is not closed in its paragraph — close it with ` ]`, or write `\\[= ` "
            "for the characters",
        ),
        ("[= ]", "1: `[= ]` has no expression — write the expression after `[=`"),
        ("[= t | ]", "1: `[= t | ]` has no format — write the format after a bar"),
        ("[! 48 KiB ]", "1: `[! 48 KiB ]` has no source — write the source after a bar"),
        ("[! | guide ]", "1: `[! | guide ]` has no number — write the number after `[!`"),
        (
            "[= t ](page.md)",
            "1: `[= … ]` is followed by `(`, which would make it a link — put a space between, "
            "or write `\\[= ` for the characters",
        ),
        (
            "It takes [=t_online ].",
            "1: `[=` without a space after it is no directive — write `[= name ]`, or `\\[=` "
            "for the characters",
        ),
        (
            "/// code | a.cu:b",
            "1: `/// code` is not closed — end it with a line `///` at the same indentation",
        ),
        (
            "- item\n\n    /// code | a.cu:b\n\ntext\n\n///",
            "3: `/// code` is not closed — end it with a line `///` at the same indentation",
        ),
        (
            "//// code | a.cu:b\n///",
            "1: `//// code` is not closed — end it with a line `////` at the same indentation",
        ),
        (
            "text\n    /// code | a.cu:b\n    ///",
            "2: `/// code` stands inside a paragraph, where no block begins — put a blank line "
            "above, and indent it as far as the text around it",
        ),
        ("/// code\n///", "1: `/// code` lacks its argument — write `/// code | file.cu:region`"),
        ("/// output\n///", "1: `/// output` lacks its argument — write `/// output | program`"),
        (
            "/// code | a.cu:b\ntext\n///",
            "1: `/// code` takes no content — end it with a line `///` before the text",
        ),
        (
            "/// code | a.cu:b\n    lines: 3\n///",
            "2: `lines: 3` is no option of `/// code` — it takes no options",
        ),
        (
            "/// claim\n    expect: a < b\n    expects: b\nIt holds.\n///",
            "3: `expects: b` is no option of `/// claim` — it takes expect, device, fails_on, "
            "margin",
        ),
        (
            "/// claim\n    expect: a < b\n    expect: b\nIt holds.\n///",
            "3: option `expect` is given twice — keep one of them",
        ),
        (
            "/// claim | a < b\n    expect: a < b\nIt holds.\n///",
            "1: `/// claim` takes no argument, but has `a < b` — put the expression in an option "
            "`    expect: a < b`, the sentence in the block",
        ),
        (
            "/// claim\nIt holds.\n///",
            "1: `/// claim` has no expression — add an option `    expect: a < b` under its "
            "first line",
        ),
        (
            "/// claim\n    expect: a < b\n///",
            "1: `/// claim` has no sentence — write what must hold",
        ),
        ("/// cods | a.cu:b\n///", "1: no block is named `cods` — did you mean `code`?"),
    ],
)
def test_a_problem_names_its_line_and_its_remedy(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_a_block_in_a_block_with_as_many_slashes() -> None:
    text = "/// details | Title\n/// code | a.cu:b\n///\n///"
    assert problems(text) == [
        "2: `/// code` is not closed — end it with a line `///` at the same indentation",
        "2: `/// code` stands in a block with as many slashes, whose end comes first — "
        "give the outer block's first and last line one slash more",
    ]


def test_lines_are_counted_from_the_front_matter_on() -> None:
    assert scan("a [= t ]\n\n[= u", first_line=9).items[0].line == 9
    assert scan("a [= t ]\n\n[= u", first_line=9).problems[0].line == 11


PIECES = st.sampled_from(
    ["[=", "[!", " ]", "|", "`", "``", "\\", "```", "~~~", "<!--", "-->", "<pre>", "</pre>", "///",
     "////", "/// code | a.cu:b", "/// claim", "expect: a < b", "    ", "        ", "\t", "> ", "- ",
     "1. ", "!!! note", '=== "T"', "??? x", "[^1]: ", "# ", "word", "\n", "\n\n", "\r\n", "(", "]"]
)  # fmt: skip
PAGES = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=40).map("".join)


@settings(deadline=None)
@given(PAGES)
def test_no_page_is_too_odd(text: str) -> None:
    result = scan(text)
    last = 0
    for item in result.items:
        assert result.text[item.start : item.end] == item.head
        assert item.start >= last, "directives overlap"
        last = item.end
        assert 1 <= item.line <= text.count("\n") + text.count("\r") + 1


@settings(deadline=None)
@given(PAGES)
def test_every_line_is_kept(text: str) -> None:
    normal = lines.normalise(text)
    classified = list(lines.classify(normal))
    assert [line.index for line in classified] == list(range(normal.count("\n") + 1))
    for line in classified:
        assert normal[line.offset :].startswith(line.rest)
