"""Colouring source code, as Pygments does and in a tenth of its time.

Pygments' lexer for CUDA tries dozens of expressions at every word; a site of
a hundred programs spends more time in it than in anything else. Here one
expression finds comments, strings, numbers and words, and Pygments is asked
once for each word what it is. Tests compare the two on every program there is.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING

from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, is_token_subtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.lexer import Lexer
    from pygments.token import _TokenType

    from evidence.model import Language

# Pygments' short class names, of what is not shown in the colour of the text;
# the first that fits. Names of functions, operators and signs are text.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.PreprocFile, "s"),
    (Comment.Preproc, "cp"),
    (Comment, "c"),
    (String.Escape, "se"),
    (String, "s"),
    (Number, "m"),
    (Keyword.Constant, ""),
    (Keyword, "k"),
    (Name.Builtin, "nb"),
    (Name.Decorator, "nd"),
    (Name.Label, "nl"),
)
_CUDA = re.compile(
    r"""
    (?P<c>//(?:[^\n\\]|\\\n|\\.)*|/\*.*?(?:\*/|\Z))
  | ^[ \t]*(?P<cp>\#(?:[^\n\\/"]|\\\n|\\.|/(?![/*])|"[^"\n]*"?)*)
  | (?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<s>(?:\b(?:u8|[uUL]))?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'))
  | (?P<m>(?<![\w.])\.?[0-9](?:'?[\w.]|(?<=[eEpP])[+-](?=[0-9]))*)
  | (?P<word>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ESCAPE = re.compile(
    r"""\\(?:[\\abfnrtv"'?]|x[0-9a-fA-F]{2,4}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3})"""
)
_FILE = re.compile(r"""(?<=include)[ \t]*(?P<file><[^>\n]+>|"[^"\n]+")""")

Piece = tuple[str, str]
"""A class name and a text."""


@lru_cache(maxsize=512)
def lines(text: str, language: Language) -> tuple[str, ...]:
    """Return a text's lines as HTML, with Pygments' short class names.

    A token that runs over several lines is closed and opened again at each
    line's end.
    """
    pieces = cuda(text) if language == "cuda" else by_pygments(text, language)
    return tuple(_rows(pieces))


def cuda(text: str) -> Iterator[Piece]:
    """Yield the pieces of a CUDA source."""
    position = 0
    for match in _CUDA.finditer(text):
        kind = match.lastgroup
        if kind == "word":
            kind = word(match[0])
            if not kind:
                continue
        start = match.start("cp") if kind == "cp" else match.start()
        if start > position:
            yield "", text[position:start]
        position = match.end()
        if kind == "s":
            yield from _split(text[start:position], _ESCAPE, 0, "s", "se")
        elif kind == "cp":
            yield from _split(text[start:position], _FILE, "file", "cp", "s")
        else:
            yield "s" if kind in ("raw", "mark") else str(kind), text[start:position]
    yield "", text[position:]


def _split(
    text: str, pattern: re.Pattern[str], group: int | str, outer: str, inner: str
) -> Iterator[Piece]:
    """Yield a piece in which some parts have a class of their own."""
    position = 0
    for match in pattern.finditer(text):
        yield outer, text[position : match.start(group)]
        yield inner, match[group]
        position = match.end()
    yield outer, text[position:]


@cache
def word(text: str) -> str:
    """Return the class of a word of CUDA C++."""
    return next((class_of(kind) for kind, piece in _lexer("cuda").get_tokens(text) if piece), "")


def by_pygments(text: str, language: Language) -> Iterator[Piece]:
    """Yield the pieces of a source as Pygments' lexer finds them."""
    for kind, piece in _lexer(language).get_tokens(text):
        yield class_of(kind), piece


@cache
def class_of(kind: _TokenType) -> str:
    """Return the short class name of a kind of token; empty for the text's own colour."""
    return next((name for parent, name in _CLASSES if is_token_subtype(kind, parent)), "")


def _rows(pieces: Iterator[Piece]) -> list[str]:
    """Return lines; pieces of one class that follow each other become one element."""
    rows: list[list[str]] = [[]]
    open_class, pending = "", ""
    for name, piece in pieces:
        if name == open_class or (not piece.strip(" ") and not pending.endswith("\n")):
            pending += piece
            continue
        _put(rows, open_class, pending)
        open_class, pending = name, piece
    _put(rows, open_class, pending)
    return ["".join(row) for row in rows]


def _put(rows: list[list[str]], name: str, text: str) -> None:
    """Add a piece of text to the last row, and begin new rows at its line ends."""
    for number, piece in enumerate(text.split("\n")):
        if number:
            rows.append([])
        if piece:
            html = escape(piece, quote=False)
            rows[-1].append(f'<span class="{name}">{html}</span>' if name else html)


@cache
def _lexer(language: Language) -> Lexer:
    kind = CudaLexer if language == "cuda" else PythonLexer
    lexer: Lexer = kind(stripnl=False, ensurenl=False)
    return lexer
