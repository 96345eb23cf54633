"""Helpers that programs repeat: every copy is the same, or `check` says which is not."""

from __future__ import annotations

import pytest

from conftest import CUDA, PYPROJECT
from evidence import check, copies
from evidence.errors import ConfigError

MACRO = """\
#define CUDA_CHECK(call) \\
    do {                 \\
        check(call);     \\
    } while (0)
"""
FUNCTION = """\
static Spread spreadOf(std::vector<float> v)
{
    if (v.empty()) {
        return {};
    }
    return {v.front(), v.back()};
}
"""
STRUCT = "struct Spread\n{\n    float low;\n    float high;\n};\n"
TEMPLATE = (
    "template <typename Run>\nstatic float timeOf(Run run)\n{\n    run();\n    return 0.0f;\n}\n"
)
NAMES = ["CUDA_CHECK", "spreadOf", "Spread", "timeOf"]


@pytest.fixture
def copied(tree):
    tree.write("pyproject.toml", f"{PYPROJECT}verbatim = {NAMES}\n".replace("'", '"'))
    return tree


def write(tree, *helpers: str) -> None:
    """Write one program for each text of helpers."""
    for number, text in enumerate(helpers):
        stem = f"p{number}"
        tree.program("001-add", stem, CUDA.format(stem=stem).replace("int main", f"{text}int main"))


def found(tree) -> list[str]:
    return [finding.explain() for finding in copies.findings(tree.load())]


@pytest.mark.parametrize("helper", [MACRO, FUNCTION, STRUCT, TEMPLATE])
def test_equal_copies_are_no_finding(copied, helper):
    write(copied, helper, helper, "", helper)
    assert found(copied) == []


@pytest.mark.parametrize(
    ("helper", "edit", "line", "expected"),
    [
        (MACRO, ("check(call); ", "check((call));"), 10,
         "CUDA_CHECK is not as 2 programs have it (check(call);     \\ → check((call));    \\)"),
        (FUNCTION, ("v.front()", "v.at(0)"), 13,
         "spreadOf is not as 2 programs have it (return {v.front(), v.back()}; → "
         "return {v.at(0), v.back()};)"),
        (STRUCT, ("    float high;\n", "    float high;\n    float median;\n"), 12,
         "Spread is not as 2 programs have it (}; → float median;)"),
        (TEMPLATE, ("run();", "run(); run();"), 11,
         "timeOf is not as 2 programs have it (run(); → run(); run();)"),
        (TEMPLATE, ("    return", "    // a comment\n    return"), 12,
         "timeOf is not as 2 programs have it (return 0.0f; → // a comment)"),
    ],
)  # fmt: skip
def test_the_copy_that_differs_is_named_with_its_line(copied, helper, edit, line, expected):
    assert edit[0] in helper
    write(copied, helper, helper.replace(*edit), helper)
    name = expected.split(" ")[0]
    assert found(copied) == [
        f"kernels/001-add/p1.cu:{line}: copy-differs: {expected} — copy it from "
        "kernels/001-add/p0.cu:8, or take it out of verbatim in [tool.evidence]"
    ], name


def test_of_two_the_first_is_right(copied):
    write(copied, FUNCTION, FUNCTION.replace("back", "rbegin"))
    assert [text.split(":")[0] for text in found(copied)] == ["kernels/001-add/p1.cu"]
    assert "is not as one program has it" in found(copied)[0]


def test_calls_and_declarations_are_no_copies(copied):
    use = "static Spread spreadOf(std::vector<float> v);\nstatic int x = timeOf(1);\n"
    write(copied, FUNCTION, use)
    assert found(copied) == []


def test_names_that_are_not_listed_may_differ(copied):
    write(copied, "static int f(int a)\n{\n    return a;\n}\n", "static int f(int b)\n{\n}\n")
    assert found(copied) == []


def test_check_reports_them(copied):
    write(copied, MACRO, MACRO.replace("do {   ", "do   { "))
    codes = [f.code for f in check.run(copied.load(), pages=False).findings]
    assert codes.count("copy-differs") == 1


def test_a_name_must_be_an_identifier(tree):
    tree.write("pyproject.toml", f'{PYPROJECT}verbatim = ["a+b"]\n')
    with pytest.raises(ConfigError, match=r"verbatim has 'a\+b', which is no identifier"):
        tree.load()
