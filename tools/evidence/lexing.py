"""What counts as code: a source's tokens without comments and layout.

The key is taken over this text, so that mending a comment, moving a region's
marker or re-indenting never costs a GPU run while any other change does. One
regular expression per language does the work (a general lexer would be ten
times slower, and `check` reads a thousand programs in about a second); tests
compare it with Pygments' lexer token by token.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from evidence import notebooks

if TYPE_CHECKING:
    from evidence.model import Language

# Raw strings, ordinary strings and characters come before comments, so that
# `"//"` is a string; a digit separator (1'000) is part of its number.
_CUDA = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
  | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<comment>//(?:[^\n\\]|\\\n|\\.)*|/\*.*?(?:\*/|\Z))
  | (?P<word>[A-Za-z_0-9.](?:'?[A-Za-z_0-9.]|(?<=[eEpP])[+-](?=\d))*)
  | (?P<splice>\\\n)
  | (?P<newline>\n)
  | (?P<space>[^\S\n]+)
  | (?P<sign><<<|>>>|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||
      [-+*/%&|^]=|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_PYTHON = re.compile(
    r"""
    (?P<triple>[A-Za-z]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"))
  | (?P<string>[A-Za-z]{0,2}(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
  | (?P<comment>\#[^\n]*)
  | (?P<word>[^\W]+)
  | (?P<newline>\n)
  | (?P<space>[^\S\n]+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)

# `%magic` and `!command`, where a logical line of a notebook begins or after its `=`; what
# follows is another language.
_MAGIC = re.compile(r"[%!](?:\\\n|[^\n])*")

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def to_lf(data: bytes) -> bytes:
    """Return the bytes with LF line ends and without a byte order mark."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data.removeprefix(b"\xef\xbb\xbf")


@functools.lru_cache(maxsize=256)  # a server asks for the same sources again and again
def code_text(text: str, language: Language) -> str:
    """Return the pieces of a source, joined so that only pieces matter.

    Args:
        text: LF-normalised source text.
        language: `cuda` (C++ rules), `python` or `notebook` (as a script).

    Returns:
        For `cuda`: pieces joined by one space, one line per preprocessor
        directive. For `python`: the same, one line per logical line, each
        with its indentation, because that is code there. For `notebook`: the
        same with magics as they stand, and a line between cells.
    """
    if language == "notebook":
        return _notebook(text)
    return _cuda(text) if language == "cuda" else _python(text)


def _cuda(text: str) -> str:
    out: list[str] = []
    directive = False  # inside a `#…` line, whose end is significant
    fresh = True  # nothing but white space since the line began
    gap = False  # white space or a comment since the last piece
    append = out.append
    for match in _CUDA.finditer(text):
        kind = match.lastgroup
        if kind in ("space", "splice"):
            gap = True
        elif kind == "newline":
            if directive:
                append("\n")
                directive = False
            fresh = gap = True
        elif kind == "comment":
            gap = True
        else:
            piece = match.group()
            if fresh and piece in ("#", "%:"):
                # A directive starts on a line of its own.
                append("\n")
                directive = True
            elif directive and piece == "(" and not gap:
                # `#define f(x)` and `#define f (x)` differ.
                append("\a")
            append(piece)
            fresh = gap = False
    return " ".join(out)


def _notebook(text: str) -> str:
    parts = notebooks.CELL.split(text)
    return "\n%%\n".join(_cell(part) for part in parts[2::2])


def _cell(text: str) -> str:
    code = text.strip("\n")
    if code.lstrip().startswith("%%"):
        # Whatever its magic makes of it: no rule says what a comment is there.
        return "\n".join(line.rstrip() for line in code.split("\n"))
    return _python(code, magics=True)


def _python(text: str, *, magics: bool = False) -> str:
    # Joined tokens, but a line's indentation is code; inside brackets neither
    # line ends nor indentation count.
    lines: list[str] = []
    current: list[str] = []
    indent = ""
    depth = 0
    position = 0
    while position < len(text):
        begins = not current and not (lines and lines[-1].endswith("\\"))
        magic = None
        if magics and depth == 0 and (begins or current[-1:] == ["="]):
            magic = _MAGIC.match(text, position)
        match = magic or _PYTHON.match(text, position)
        assert match is not None  # noqa: S101 - any character is a sign
        position = match.end()
        kind = match.lastgroup
        piece = match.group().rstrip() if magic else match.group()
        if kind == "comment" or (kind in ("space", "newline") and depth > 0):
            continue
        if kind == "space":
            indent = indent if current else piece
        elif kind == "newline":
            lines += [indent + " ".join(current)] * bool(current)
            current, indent = [], ""
        else:
            depth += (piece in _OPENING) - (piece in _CLOSING)
            current.append(piece)
    lines += [indent + " ".join(current)] * bool(current)
    return "\n".join(lines)


def includes(text: str) -> list[tuple[str, int]]:
    """Return the local includes of a CUDA source: `#include "…"` with lines.

    Includes inside comments and strings do not count.
    """
    if '"' not in text or "include" not in text:
        return []
    found = []
    matches = list(_INCLUDE.finditer(text))
    if matches:
        hidden = [
            m.span()
            for m in _CUDA.finditer(text)
            if m.lastgroup in ("comment", "raw") or (m.lastgroup == "mark")
        ]
        for match in matches:
            place = match.start(1)
            if not any(start <= place < end for start, end in hidden):
                found.append((match.group(1), text.count("\n", 0, place) + 1))
    return found
