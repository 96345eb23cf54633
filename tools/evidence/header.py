"""The header comment of a program: its `Build:` and `Run:` lines.

The recorder runs these very commands, so they are parsed as a shell splits
words and then held to a few rules; no shell ever sees them.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from evidence.errors import SourceError
from evidence.model import Command

if TYPE_CHECKING:
    from evidence.model import Language

# A header ends where code begins; nobody writes one longer than this.
_HEADER_LINES = 200
_LINE = re.compile(r"^\s*(?://+|/?\*+|#+)?\s*(Build|Run):[ \t]*(.*?)\s*(?:\*/)?\s*$")
# What runs a notebook: the command of nbclient, which also the recorder runs it with.
EXECUTE = ("jupyter", "execute")

_QUOTES = re.compile(r"[\"'\\#]|[^\x20-\x7e\t]")
_SHELL = re.compile(r"[;&|<>`$(){}*?!~\n]")
# Options that would make the compiler write, read or load outside its task.
_FORBIDDEN = ("-fplugin", "--compiler-bindir", "-ccbin", "--options-file", "-optf", "@")


def parse(text: str, relative: str, language: Language) -> tuple[Command | None, Command]:
    """Read the Build: and Run: lines of a program's header.

    Args:
        text: The whole source.
        relative: The source's path for messages, forward slashes.
        language: `cuda` needs both lines, `python` only Run:, `notebook` none.

    Returns:
        The build command (None but for CUDA) and the run command; for a
        notebook the one that runs all its cells.

    Raises:
        SourceError: A line is missing, doubled or breaks a rule.
    """
    if language == "notebook":
        return None, Command((*EXECUTE, PurePosixPath(relative).name), 1)
    found: dict[str, Command] = {}
    for number, line in _candidates(text):
        match = _LINE.match(line)
        if match is None:
            continue
        name, rest = match.group(1), match.group(2)
        if name in found:
            raise SourceError(
                f"a second {name}: line, the first is line {found[name].line}",
                path=relative,
                line=number,
                fix=f"keep one {name}: line in the header",
            )
        found[name] = Command(_words(name, rest, relative, number), number)
    stem = PurePosixPath(relative).name
    if language == "python":
        run = _need(found, "Run", relative, f"# Run: python3 {stem}")
        _check_python(run, relative)
        return None, run
    build = _need(
        found, "Build", relative, f"// Build: nvcc -O3 -arch=native -o {stem[:-3]} {stem}"
    )
    run = _need(found, "Run", relative, f"// Run: ./{stem[:-3]}")
    _check_build(build, relative)
    _check_run(run, relative)
    return build, run


def _candidates(text: str) -> list[tuple[int, str]]:
    """Return the header's lines that hold `Build:` or `Run:`, with their numbers.

    Plain searches in the whole text: every source of a project is read at each start.
    """
    found: dict[int, str] = {}
    for word in ("Build:", "Run:"):
        place = text.find(word)
        while place >= 0:
            number = text.count("\n", 0, place) + 1
            if number > _HEADER_LINES:
                break
            end = text.find("\n", place)
            end = len(text) if end < 0 else end
            found[number] = text[text.rfind("\n", 0, place) + 1 : end]
            place = text.find(word, end)
    return sorted(found.items())


def _need(found: dict[str, Command], name: str, relative: str, example: str) -> Command:
    if name not in found:
        raise SourceError(
            f"the header has no {name}: line",
            path=relative,
            line=1,
            fix=f"add one, e.g. {example}",
        )
    return found[name]


def _words(name: str, rest: str, relative: str, number: int) -> tuple[str, ...]:
    try:
        # Without quotes, escapes and comments a shell splits at white space.
        words = tuple(shlex.split(rest) if _QUOTES.search(rest) else rest.split())
    except ValueError as error:
        raise SourceError(
            f"{name}: line cannot be split into words: {error}",
            path=relative,
            line=number,
            fix="close the quotation mark",
        ) from None
    if not words:
        raise SourceError(
            f"the {name}: line is empty",
            path=relative,
            line=number,
            fix=f"write the command after {name}:",
        )
    for word in words:
        sign = _SHELL.search(word)
        if sign:
            raise SourceError(
                f"{name}: line has {sign.group()!r} in {word!r}; no shell reads this line",
                path=relative,
                line=number,
                fix="write a plain command and its arguments",
            )
    return words


def _check_build(build: Command, relative: str) -> None:
    def bad(message: str, fix: str) -> SourceError:
        return SourceError(message, path=relative, line=build.line, fix=fix)

    source = PurePosixPath(relative).name
    stem = PurePosixPath(relative).stem
    if build.words[0] != "nvcc":
        raise bad(f"Build: starts with {build.words[0]!r}, not nvcc", "write Build: nvcc …")
    for word in build.words[1:]:
        if word.startswith(_FORBIDDEN):
            raise bad(f"Build: has {word!r}, which may not stand there", "remove it")
    sources = [w for w in build.words[1:] if w.endswith((".cu", ".c", ".cpp", ".cc", ".cxx"))]
    if sources != [source]:
        named = " ".join(sources) or "no source"
        raise bad(f"Build: names {named}, but this file is {source}", f"name {source} in it")
    output = output_of(build)
    if output != stem:
        raise bad(
            f"Build: writes {output or 'a.out'}, but it must write {stem}", f"write -o {stem}"
        )


def output_of(build: Command) -> str | None:
    """Return what `-o` of a build command names, or None."""
    words = build.words
    for place, word in enumerate(words):
        if word in ("-o", "--output-file") and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(("-o=", "--output-file=")):
            return word.split("=", 1)[1]
    return None


def _check_run(run: Command, relative: str) -> None:
    stem = PurePosixPath(relative).stem
    if run.words[0] != f"./{stem}":
        raise SourceError(
            f"Run: starts {run.words[0]!r}, but Build: writes {stem}",
            path=relative,
            line=run.line,
            fix=f"write Run: ./{stem}",
        )


def _check_python(run: Command, relative: str) -> None:
    source = PurePosixPath(relative).name
    if run.words[0] not in ("python", "python3") or run.words[1:2] != (source,):
        raise SourceError(
            f"Run: is {run.text!r}, but it must run this file",
            path=relative,
            line=run.line,
            fix=f"write Run: python3 {source}",
        )
