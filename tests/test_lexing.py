"""What counts as code: comments and layout do not, everything else does."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexers import CppLexer
from pygments.token import Comment

from evidence.lexing import code_text, includes, to_lf

SOURCE = """\
#include <cstdio>
#define TWICE(x) ((x) + (x))  // doubled
/* a block
   comment */
int main() {
    const char *s = "// not a comment /* nor this */";
    char c = '"';
    int n = 1'000'000;  // digits
    auto r = R"(raw // "text")";
    return n << 2 >> 1;
}
"""


@pytest.mark.parametrize(
    "same",
    [
        SOURCE.replace("  // doubled", ""),
        SOURCE.replace("/* a block\n   comment */\n", ""),
        SOURCE.replace("    return", "\n\n\treturn"),
        SOURCE.replace("int n = 1", "int   n=1"),
        SOURCE.replace("int main() {", "int main()\n{"),
        SOURCE.replace("  // digits", "  // snippet: x"),
        SOURCE + "\n// the end",
        SOURCE.replace("int n", "int \\\n n"),
    ],
)
def test_comments_and_layout_do_not_count(same: str):
    assert same != SOURCE
    assert code_text(same, "cuda") == code_text(SOURCE, "cuda")


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("// not", "//  not"),
        SOURCE.replace("1'000'000", "1'000'001"),
        SOURCE.replace('raw // "text"', 'raw //  "text"'),
        SOURCE.replace("n << 2", "n < < 2"),
        SOURCE.replace("int n", "intn"),
        SOURCE.replace("TWICE(x)", "TWICE (x)"),
        SOURCE.replace("#include <cstdio>\n", "#include <cstdio>"),
        SOURCE.replace("'\"'", "'/'"),
        SOURCE.replace(">> 1", ">> 1 + 0"),
    ],
)
def test_every_change_of_a_token_counts(other: str):
    assert other != SOURCE
    assert code_text(other, "cuda") != code_text(SOURCE, "cuda")


def test_a_line_comment_goes_on_after_a_backslash():
    assert code_text("int a; // b \\\n int c;\nint d;", "cuda") == "int a ; int d ;"


PYTHON = 'def f(x):\n    if x:\n        return "a # b"  # why\n    return [1,\n        2]\n'


def test_python_keeps_its_lines_and_indentation():
    assert code_text(PYTHON, "python") == (
        'def f ( x ) :\n    if x :\n        return "a # b"\n    return [ 1 , 2 ]'
    )


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (PYTHON.replace("  # why", ""), True),
        (PYTHON.replace("\n        2]", " 2]"), True),
        ("\n# x\n" + PYTHON, True),
        (PYTHON.replace("        return", "     return"), False),
        (PYTHON.replace("a # b", "a #  b"), False),
        (PYTHON.replace("    return [", "return ["), False),
    ],
)
def test_python_changes(change: str, same: bool):
    assert (code_text(change, "python") == code_text(PYTHON, "python")) is same


def test_includes_in_comments_and_strings_do_not_count():
    text = '#include "a.cuh"\n// #include "b.cuh"\n/*\n#include "c.cuh"\n*/\n#  include "d.cuh"\n'
    assert includes(text + '#include <cstdio>\nconst char *s = R"(\n#include "e.cuh"\n)";\n') == [
        ("a.cuh", 1),
        ("d.cuh", 6),
    ]


def test_line_ends_and_byte_order_mark():
    assert to_lf(b"\xef\xbb\xbfa\r\nb\rc\n") == b"a\nb\nc\n"


@settings(max_examples=300)
@given(st.text(alphabet=string.ascii_letters[:6] + "/*\"'\\ \n(){};R#<>1.", max_size=60))
def test_it_never_fails_and_is_idempotent_on_its_result(text: str):
    once = code_text(text, "cuda")
    assert isinstance(once, str)
    assert code_text(text + " ", "cuda") == once or "\\" in text or "'" in text or '"' in text


_WORD = st.sampled_from(["int", "x", "42", "1.5f", '"s//t"', "'c'", "+", "<<", "(", ")", ";", "{"])
_GAP = st.sampled_from([" ", "\n", "\t", " /* c */ ", " // c\n"])


@given(st.lists(st.tuples(_WORD, _GAP), max_size=30))
def test_gaps_of_any_kind_are_alike(pairs: list[tuple[str, str]]):
    plain = " ".join(word for word, _ in pairs)
    varied = "".join(word + gap for word, gap in pairs)
    assert code_text(varied, "cuda") == code_text(plain, "cuda")


@given(st.lists(st.tuples(_WORD, _GAP), max_size=30))
def test_what_remains_is_what_pygments_does_not_call_a_comment(pairs: list[tuple[str, str]]):
    text = "".join(word + gap for word, gap in pairs)
    kept = "".join(
        v for t, v in CppLexer().get_tokens(text) if t not in Comment or t in Comment.Preproc
    )
    assert "".join(code_text(text, "cuda").split()) == "".join(kept.split())
