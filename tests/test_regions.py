"""Regions: what is shown between two markers, and every way to get them wrong."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import regions
from evidence.errors import SourceError


def cuda(text: str) -> dict[str, str]:
    return {name: region.text for name, region in regions.read(text, "a.cu", "cuda").items()}


def error(text: str, language: str = "cuda") -> str:
    with pytest.raises(SourceError) as caught:
        regions.read(text, "k/a.cu" if language == "cuda" else "k/a.py", language)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_region_is_the_lines_between_its_markers_with_their_numbers():
    found = regions.read(
        "int a;\n    // snippet: online-state\n    float m;\n\n      float l;\n    // end snippet\nint b;\n",
        "a.cu",
        "cuda",
    )
    assert found == {
        "online-state": regions.Region(
            "online-state", 3, 5, ((3, "float m;"), (4, ""), (5, "  float l;"))
        )
    }
    assert found["online-state"].text == "float m;\n\n  float l;\n"


def test_python_uses_a_hash():
    found = regions.read(
        "def f():\n    # snippet: f\n    return 1\n    # end snippet\n", "a.py", "python"
    )
    assert found["f"].lines == ((3, "return 1"),)


def test_regions_are_listed_in_the_order_they_start():
    text = "// snippet: b\n1;\n// end snippet\n// snippet: a\n2;\n// end snippet\n"
    assert list(cuda(text)) == ["b", "a"]


def test_crlf_reads_as_lf():
    text = "// snippet: a\r\n  x;\r\n\r\n  y;\r\n// end snippet\r\n"
    assert cuda(text) == cuda(text.replace("\r\n", "\n")) == {"a": "x;\n\ny;\n"}


def test_blank_lines_at_the_edges_are_not_shown_and_numbers_stay_true():
    found = regions.read("// snippet: a\n\n  x;\n\n// end snippet\n", "a.cu", "cuda")
    assert found["a"] == regions.Region("a", 3, 3, ((3, "x;"),))


def test_no_marker_of_any_region_is_shown():
    text = (
        "// snippet: outer\n1;\n    // snippet: inner\n    2;\n    // end snippet\n3;\n"
        "// end snippet\n"
    )
    found = regions.read(text, "a.cu", "cuda")
    assert found["outer"].lines == ((2, "1;"), (4, "    2;"), (6, "3;"))
    assert found["inner"].lines == ((4, "2;"),)


def test_an_end_may_name_its_region():
    assert cuda("// snippet: a\n1;\n// end snippet: a\n") == {"a": "1;\n"}


def test_a_source_without_markers_has_no_regions():
    assert cuda("int main() { return 0; }\n") == {}
    assert cuda("// This snippet of code is short.\nint a;\n") == {}


@pytest.mark.parametrize(
    "comment",
    [
        "// snippets are cut at build time",
        "// snippet sizes matter here",
        "// the end of snippet handling",
        "// This code: a snippet",
        "// end of the snippet that the page shows",
        "// snapped: x",
        "// snippets below",
        "// see regions.md about `// snippet: name`",
        "/* snippet: a */",
        "int x; /* // snippet: a */",
    ],
)
def test_prose_is_no_marker(comment: str):
    assert cuda(f"{comment}\nint a;\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        'const char* s = "\\n\\\n// snippet: a\\n";\n',
        'const char* s = "// snippet: a";\n',
        'auto s = R"(\n// snippet: a\n)";\n',
        'auto s = R"x(\n)"\n// snippet: a\n)x";\n',
        'auto s = u8R"(\n// end snippet\n)";\n',
        "/*\n// snippet: a\n*/\n",
        "// a comment that runs on \\\n// snippet: a\nint x;\n",
        "/* never closed\n// snippet: a\n",
        "int n = 1'000; /* it's\n// snippet: a\n*/\n",
    ],
)
def test_strings_and_block_comments_hold_no_markers(text: str):
    assert cuda(text) == {}


@pytest.mark.parametrize(
    "before",
    [
        "char c = '\"';",
        "int n = 1'000'000;",
        "#error don't",
        'const char* s = "/*";',
        "// it's /* not a comment",
        'auto s = R"(")";',
        "char q = '\\''; char d = '\\\\';",
        '#define M(x) \\\n    do { printf("%s", x); } while (0)',
        "/* one\n two */ int a;",
        '// an odd quote "',
        "auto e = '/*';",
        "// İ" + "İ" * 80,
    ],
)
def test_what_stands_before_does_not_hide_a_marker(before: str):
    assert cuda(f"{before}\n// snippet: a\nx;\n// end snippet\n") == {"a": "x;\n"}


def test_a_macro_before_a_string_makes_no_raw_string():
    text = 'auto s = FOOR"(";\n// snippet: a\nx;\n// end snippet\nauto t = ")";\n'
    assert cuda(text) == {"a": "x;\n"}


@pytest.mark.parametrize(
    "text",
    [
        '"""\n# snippet: a\n"""\n',
        "s = r'''\n# snippet: a\n'''\n",
        's = "# snippet: a"\n',
        's = "a \\\n# snippet: a"\n',
        's = """ \\""" \n# snippet: a\n"""\n',
        "s = '''it''s\n# snippet: a\n'''\n",
    ],
)
def test_python_strings_hold_no_markers(text: str):
    assert regions.read(text, "a.py", "python") == {}


@pytest.mark.parametrize(
    "before", ["s = '#'", 's = """a"""', 's = "it\'s"', "# don't", "s = ''", "'''x'''"]
)
def test_what_stands_before_does_not_hide_a_python_marker(before: str):
    found = regions.read(f"{before}\n# snippet: a\nx = 1\n# end snippet\n", "a.py", "python")
    assert found["a"].lines == ((3, "x = 1"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "int a;\n// snippet: one\n1;\n",
            "k/a.cu:2: region `one` is never ended — add `// end snippet` after it",
        ),
        (
            "int a;\n// end snippet\n",
            "k/a.cu:2: `// end snippet` ends no region — remove it, or open the region with "
            "`// snippet: name`",
        ),
        (
            "// snippet: a\n1;\n// end snippet\n// snippet: a\n2;\n// end snippet\n",
            "k/a.cu:4: region `a` is opened twice, first at line 1 — rename one of them",
        ),
        (
            "// snippet: a\n1;\n// snippet: a\n2;\n// end snippet\n// end snippet\n",
            "k/a.cu:3: region `a` is opened twice, first at line 1 — rename one of them",
        ),
        (
            "// snippet: a\n\n   \n// end snippet\n",
            "k/a.cu:1: region `a` is empty — move its markers around some code, or remove them",
        ),
        (
            "// snippet: a\n// snippet: b\n1;\n// end snippet: a\n// end snippet: b\n",
            "k/a.cu:4: the end of region `a` is wrongly nested: `b`, opened at line 2, has not "
            "ended — end `b` first",
        ),
        (
            "// snippet: Online_State\n1;\n// end snippet\n",
            "k/a.cu:1: region name `Online_State` is not kebab-case — use lower-case letters, "
            "digits and hyphens, starting with a letter",
        ),
        (
            "int a; // snippet: a\n1;\n// end snippet\n",
            "k/a.cu:1: a region marker shares its line with code — give the marker a line of "
            "its own",
        ),
        (
            "// snippet: a\n    x;\n\ty;\n// end snippet\n",
            "k/a.cu:3: region `a` is indented with tabs and spaces mixed — indent with spaces "
            "alone",
        ),
        (
            "// snippet: a\n \tx;\n// end snippet\n",
            "k/a.cu:2: region `a` is indented with tabs and spaces mixed — indent with spaces "
            "alone",
        ),
    ],
)
def test_a_broken_region_is_an_error_with_place_and_remedy(text: str, message: str):
    assert error(text) == message


@pytest.mark.parametrize(
    "comment",
    [
        "// snipet: a",
        "//snippet: a",
        "// snippet : a",
        "// snippet:a",
        "//  snippet: a",
        "// Snippet: a",
        "/// snippet: a",
        "// snippet a",
        "// snippets: a",
        "// sinppet: a",
        "// snippet:",
        "// snippet = a",
        "// snippet-a",
        "// snippet: online state",
    ],
)
def test_a_misspelt_start_is_an_error(comment: str):
    assert error(f"int a;\n{comment}\n1;\n// end snippet\n") == (
        f"k/a.cu:2: `{comment}` looks like a region marker and is none — "
        "write `// snippet: name`, or reword the comment"
    )


@pytest.mark.parametrize(
    "comment",
    [
        "// end snipet",
        "// endsnippet",
        "// end-snippet",
        "//end snippet",
        "// End snippet",
        "// end snippets",
        "// end snippet.",
        "// end snippet a",
        "// end snippet:a",
        "// end snippet: a b",
        "// close snippet",
    ],
)
def test_a_misspelt_end_is_an_error(comment: str):
    assert error(f"// snippet: a\n1;\n{comment}\n") == (
        f"k/a.cu:3: `{comment}` looks like a region marker and is none — "
        "write `// end snippet`, or reword the comment"
    )


def test_a_python_error_speaks_of_hashes():
    assert error("# snipet: a\n", "python") == (
        "k/a.py:1: `# snipet: a` looks like a region marker and is none — "
        "write `# snippet: name`, or reword the comment"
    )


def test_a_scan_gives_all_errors_by_line_and_the_sound_regions():
    found, errors = regions.scan(
        "// snippet: a\n\n// end snippet\n// snippet: b\n1;\n// end snippet\n// end snippet\n",
        "a.cu",
        "cuda",
    )
    assert list(found) == ["b"]
    assert [(e.line, e.message) for e in errors] == [
        (1, "region `a` is empty"),
        (7, "`// end snippet` ends no region"),
    ]


def test_a_misspelt_marker_is_not_reported_again_as_a_missing_pair():
    _, errors = regions.scan("// snipet: a\n1;\n// end snippet\n", "a.cu", "cuda")
    assert [e.line for e in errors] == [1]


def test_of_two_regions_of_one_name_the_first_is_kept():
    text = "// snippet: a\n1;\n// end snippet\n// snippet: a\n2;\n// end snippet\n"
    found, errors = regions.scan(text, "a.cu", "cuda")
    assert (found["a"].text, len(errors)) == ("1;\n", 1)


def test_white_space_on_a_blank_line_is_not_shown():
    assert cuda("// snippet: a\n  x;\n      \n  y;\n// end snippet\n") == {"a": "x;\n\ny;\n"}


def test_tabs_alone_are_dedented():
    assert cuda("// snippet: a\n\t\tx;\n\t\t\ty;\n// end snippet\n") == {"a": "x;\n\ty;\n"}


CODE = st.text(alphabet=st.sampled_from("abc;(){}= "), max_size=12).map(str.rstrip)


@settings(deadline=None)
@given(st.lists(CODE, min_size=1, max_size=8), st.integers(0, 9))
def test_dedent_takes_the_common_indent_and_nothing_else(lines: list[str], depth: int):
    body = [" " * depth + line if line.strip() else line for line in lines]
    text = "\n".join(["// snippet: a", *body, "// end snippet", ""])
    found, errors = regions.scan(text, "a.cu", "cuda")
    if not any(line.strip() for line in lines):
        assert [e.message for e in errors] == ["region `a` is empty"]
        return
    shown = found["a"].lines
    full = [line for line in lines if line.strip()]
    common = depth + min(len(line) - len(line.lstrip()) for line in full)
    for number, shown_text in shown:
        original = body[number - 2]
        assert shown_text == (original[common:] if original.strip() else "")
    assert any(not text.startswith(" ") for _, text in shown if text)


MARKERS = ["// snippet: a", "// snippet: b", "// end snippet", "// end snippet: a", "// snipet: c"]
REST = ["x;", "\n", "\n", "  ", "\t", "#", "1'0", "İ", "\\\n"]
QUOTES = ['"', "'", "/*", "*/", 'R"(', ')"', "'''", '"""']
FRAGMENTS = st.sampled_from([*MARKERS, *REST, *QUOTES])


@settings(deadline=None)
@given(st.lists(FRAGMENTS, max_size=30).map("".join), st.sampled_from(["cuda", "python"]))
def test_any_text_is_read_or_refused_with_a_line(text: str, language: str):
    found, errors = regions.scan(text, "a", language)  # type: ignore[arg-type]
    lines = text.count("\n") + 1
    assert all(1 <= (e.line or 0) <= lines and e.fix for e in errors)
    for region in found.values():
        numbers = [n for n, _ in region.lines]
        assert numbers == sorted(numbers)
        assert (numbers[0], numbers[-1]) == (region.first_line, region.last_line)


def whole(text: str) -> list[tuple[int, str]]:
    """Every suspect comment, by cutting the whole text: the slow, obvious way."""
    from evidence import markers

    return [
        (match.start(), match.group())
        for match in markers._TOKENS["cuda"].finditer(text)
        if match.lastgroup == "comment" and markers._SUSPECT.search(match.group())
    ]


@settings(deadline=None)
@given(st.lists(FRAGMENTS, max_size=30).map("".join))
def test_cutting_only_some_lines_finds_what_cutting_all_of_them_does(text: str):
    from evidence import markers

    found = list(markers._comments(text, "cuda", markers._suspects(text)))
    assert found == whole(text)


def test_a_thousand_sources_cost_a_fraction_of_a_second():
    code = "".join(f"    float x{i} = a[{i}] * 3.0f;  // line {i}\n" for i in range(150))
    source = f"#define M \\\n  1\n{code}    // snippet: a\n{code[:400]}\n    // end snippet\n{code}"
    started = time.perf_counter()
    for i in range(1000):
        regions.scan(f"{source}{i}", "a.cu", "cuda")
    assert time.perf_counter() - started < 1.5  # 0.2 s on the machine this was written on
