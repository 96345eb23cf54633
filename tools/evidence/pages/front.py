"""The front matter of a page: which programs it is about, and names for values."""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from evidence.pages.inline import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

# As MkDocs finds it, or the two would disagree about where the text begins.
_BLOCK = re.compile(r"-{3}[ \t]*\n(.*?\n)(?:\.{3}|-{3})[ \t]*\n", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = ("programs", "values", "generated")
# Words that mean something else in an expression.
_RESERVED = ("and", "or", "not", "min", "max", "abs")


@dataclass(frozen=True, slots=True)
class Name:
    """A short name that a page gives to an address.

    Attributes:
        name: The short name.
        address: The address, with its program if the page names it.
        line: One-based line of the page.
    """

    name: str
    address: str
    line: int


@dataclass(frozen=True, slots=True)
class Front:
    """What a page says about itself before its text.

    Attributes:
        programs: Names of programs, with their lines.
        values: Short names, in order.
        first_line: One-based line on which the text after it begins.
        problems: What is wrong with it.
        generated: What writes the page, if no person does.
        others: Keys and values that mean nothing here, as they were read.
    """

    programs: tuple[tuple[str, int], ...] = ()
    values: tuple[Name, ...] = ()
    first_line: int = 1
    problems: tuple[Problem, ...] = ()
    generated: str = ""
    others: Mapping[str, tuple[yaml.Node, yaml.Node]] = field(
        default_factory=dict, compare=False, repr=False
    )


def split(text: str) -> tuple[Front, str]:
    """Split a page into its front matter and its text.

    Args:
        text: The page, LF or CRLF.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    match = _BLOCK.match(text)
    if match is None:
        return Front(), text
    body = text[match.end() :].lstrip("\n")
    first_line = text.count("\n", 0, len(text) - len(body)) + 1
    reader = _Reader()
    reader.read(match[1])
    return reader.front(first_line), body


class _Reader:
    def __init__(self) -> None:
        self.programs: list[tuple[str, int]] = []
        self.values: list[Name] = []
        self.problems: list[Problem] = []
        self.generated = ""
        self.others: dict[str, tuple[yaml.Node, yaml.Node]] = {}

    def front(self, first_line: int) -> Front:
        programs, values = tuple(self.programs), tuple(self.values)
        problems = tuple(self.problems)
        return Front(programs, values, first_line, problems, self.generated, self.others)

    def read(self, text: str) -> None:
        try:
            node = _compose(text)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 2 if error.problem_mark else 1
            self._problem(line, f"the front matter is no YAML: {error.problem}", "mend this line")
            return
        if not isinstance(node, yaml.MappingNode):
            self._problem(1, "the front matter is no list of `name: value` lines", "mend it")
            return
        for key, value in node.value:
            if key.value == "programs":
                self._programs(value)
            elif key.value == "values":
                self._values(value)
            elif key.value == "generated":
                self._generated(value)
            elif _close(key.value):
                self._problem(
                    line_of(key),
                    f"the front matter's `{key.value}` means nothing here",
                    f"did you mean `{_close(key.value)}`?",
                )
            else:
                self.others[str(key.value)] = (key, value)

    def _problem(self, line: int, message: str, fix: str) -> None:
        self.problems.append(Problem(line, message, fix))

    def _generated(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.ScalarNode) and node.value and node.tag.endswith(":str"):
            self.generated = node.value
        else:
            self._problem(
                line_of(node),
                "`generated:` says what writes this page",
                "name it, or remove the line",
            )

    def _programs(self, node: yaml.Node) -> None:
        entries = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for entry in entries:
            if isinstance(entry, yaml.ScalarNode) and entry.value:
                self.programs.append((entry.value, line_of(entry)))
            else:
                self._problem(
                    line_of(entry),
                    "`programs:` is a list of program names",
                    "write `- 097-attention`",
                )

    def _values(self, node: yaml.Node) -> None:
        if not isinstance(node, yaml.MappingNode):
            self._problem(
                line_of(node),
                "`values:` gives names to addresses",
                "write `name: program:section/label` under it",
            )
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if not isinstance(value, yaml.ScalarNode) or not value.value:
                self._problem(line_of(key), f"`{name}` has no address", "write one after the colon")
            elif _NAME.fullmatch(name) and not key.tag.endswith(":str"):
                # `off` and the like: hosts read a truth value, and no name.
                self._problem(line_of(key), f"`{name}` is no text in YAML", "choose another name")
            elif not _NAME.fullmatch(name) or name in _RESERVED:
                self._problem(
                    line_of(key),
                    f"`{name}` cannot be a name in an expression",
                    "use letters, digits and underscores, no word of the expressions",
                )
            elif name in seen:
                self._problem(line_of(key), f"name `{name}` is given twice", "rename one of them")
            else:
                self.values.append(Name(name, value.value.strip(), line_of(key)))
            seen.add(name)


def _compose(text: str) -> yaml.Node | None:
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.compose(text, Loader=fast)
    except yaml.MarkedYAMLError:
        # The slow loader's messages are the same on every machine.
        return yaml.compose(text, Loader=yaml.SafeLoader)


def line_of(node: yaml.Node) -> int:
    """Return the page's line on which a node of its front matter stands."""
    return int(node.start_mark.line) + 2  # the dashes are line 1


@functools.cache
def _close(key: str) -> str:
    if key in _KEYS:
        return ""
    return next(iter(difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.8)), "")
