"""evidence.toml: every setting read, every mistake named with its line."""

from pathlib import Path

import pytest

from evidence.config import Config
from evidence.errors import ConfigError
from evidence.model import Expectation, Mutant, Profile
from evidence.settings import Settings

WHERE = "kernels/001-add/evidence.toml"
CONFIG = Config(root=Path("/p"))


def plan(text: str):
    return Settings(text, WHERE, CONFIG).plan("add")


def test_defaults():
    made = Settings("", WHERE, CONFIG).plan("add")
    assert (made.runs, made.timeout, made.mutants, made.profile) == (5, 120.0, (), None)
    assert made.expect == Expectation("success")


def test_everything():
    made = plan(
        """
        [add]
        runs = 3
        timeout = 10.5
        quick = ["--quick"]
        sanitizers = ["memcheck"]
        inputs = ["data.bin"]
        expect = { exit = 3, text = "bad launch" }
        [add.profile]
        metrics = ["dram__bytes_read.sum"]
        args = ["--once"]
        kernels = ["addKernel"]
        [add.values]
        clock = 'at ([0-9]+) MHz'
        [[add.mutant]]
        name = "zeros"
        find = "a + b"
        replace = "0"
        why = "returns zeros"
        sanitizers = ["racecheck"]
        """
    )
    assert (made.runs, made.timeout, made.quick) == (3, 10.5, ("--quick",))
    assert (made.sanitizers, made.inputs) == (("memcheck",), ("data.bin",))
    assert made.expect == Expectation("exit", status=3, text="bad launch")
    assert made.profile == Profile(("dram__bytes_read.sum",), ("--once",), 3, ("addKernel",))
    assert made.mutants == (Mutant("zeros", "a + b", "0", "returns zeros", ("racecheck",)),)
    assert made.values == (("clock", "at ([0-9]+) MHz"),)


@pytest.mark.parametrize(
    ("expect", "made"),
    [
        ('"compile-error"', Expectation("compile-error")),
        ('"timeout"', Expectation("timeout")),
        ('{ sanitizer = "memcheck" }', Expectation("sanitizer", tool="memcheck")),
        ('{ compile-error = true, text = "x" }', Expectation("compile-error", text="x")),
    ],
)
def test_expectations(expect: str, made: Expectation):
    assert plan(f"[add]\nexpect = {expect}\n").expect == made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[add\n", ":1: not readable as TOML: "),
        ("[sub]\n[add]\nspeed = 3\n", ":2: [add] unknown setting: speed — "),
        ("[add]\nruns = 0\n", ":1: [add] runs = 0, but it must be a whole number above 0 — "),
        ("[add]\nruns = true\n", ":1: [add] runs = True, but it must be a whole number above 0"),
        (
            "[add]\nquick = '--quick'\n",
            ":1: [add] quick = '--quick', but it must be a list of texts",
        ),
        (
            "[add]\nsanitizers = ['memchek']\n",
            ":1: [add] unknown sanitizer 'memchek' — "
            "choose among memcheck, racecheck, initcheck, synccheck",
        ),
        ("[add.profile]\nruns = 1\n", ":1: [add.profile] asks for no metric — "),
        (
            "[[add.mutant]]\nname = 'A'\nfind = 'x'\n",
            ":1: [add.mutant] name = 'A', but it must match [a-z][a-z0-9-]*",
        ),
        (
            "[[add.mutant]]\nname = 'a'\nfind = 'x'\nreplace = 'x'\n",
            ":1: [add.mutant] mutant a changes nothing — give find and a different replace",
        ),
        (
            "[[add.mutant]]\nname='a'\nfind='x'\n[[add.mutant]]\nname='a'\nfind='y'\n",
            ":1: [add.mutant] two mutants are named a — rename one",
        ),
        (
            "[[add.mutant]]\nname='a'\nfind='x'\nsurvives=true\n[[add.mutant]]\nname='b'\nfind='y'\n",
            ':1: [add.mutant] mutant a is said to survive, but not why — add why = "…"',
        ),
        (
            "[[add.mutant]]\nname='a'\nfind='x'\nsurvives='no'\n",
            ":1: [add.mutant] survives = 'no', but it must be true or false",
        ),
        (
            "[[add.mutant]]\nname='a'\nfind='x'\nsurvives=true\nwhy='w'\n",
            ":1: [add] every mutant is said to survive, so none shows what the gate notices"
            " — add one that it rejects",
        ),
        ("[add]\nexpect = 'crash'\n", ":1: [add] expect = 'crash' does not say one way"),
        ("[add.values]\nv = '('\n", ":1: [add] values.v is no regular expression: "),
        ("[add.values]\nv = 'x'\n", ":1: [add] values.v has 0 groups, but it must have one"),
    ],
)
def test_every_mistake_has_its_message(text: str, expected: str):
    with pytest.raises(ConfigError) as caught:
        plan(text)
    assert str(caught.value).startswith(WHERE + expected)


def test_a_mutant_may_be_said_to_survive():
    text = "[[add.mutant]]\nname='a'\nfind='x'\n[[add.mutant]]\nname='b'\nfind='y'\nwhy='w'\nsurvives=true\n"
    assert [(m.name, m.survives) for m in plan(text).mutants] == [("a", False), ("b", True)]


def test_nan_is_allowed_only_where_it_is_said():
    assert plan("[add]\n").allow_nan is False
    assert plan("[add]\nallow_nan = true\n").allow_nan is True
