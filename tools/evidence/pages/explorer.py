"""Links that open a program in Compiler Explorer, with the flags it is built with.

The whole state travels in the link, deflated and in base64, so nothing is
asked of anybody until a reader follows it. Format:
https://github.com/compiler-explorer/compiler-explorer/blob/main/docs/API.md
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evidence.model import Program

_BASE = "https://godbolt.org/clientstate/"
# The server in front of the site refuses longer addresses.
_LONGEST = 7800
_NVCC = {"13.0": "nvcc130u2"}
_NEWEST = "nvcc130u2"
# Level 1 packs a third worse than level 9 at most, in a tenth of the time.
_HOPELESS = 1.5
# Strings, characters and numbers hold slashes and quotes that begin no comment.
_COMMENT = re.compile(
    r"""
    (?P<kept>(?:\b(?:u8|[uUL])?R)"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
      | "(?:[^"\\\n]|\\.)*"
      | (?<![0-9A-Za-z_])[0-9](?:'?[0-9A-Za-z_.])*
      | '(?:[^'\\\n]|\\.)+')
  | (?://(?:[^\n\\]|\\\n|\\.)*|/\*.*?(?:\*/|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)
# What says where output goes, or which GPU is in the machine, means nothing there.
_WITH_WORD = ("-o", "--output-file")
_NATIVE = re.compile(r"-arch=native|--gpu-architecture=native")


@dataclass(frozen=True, slots=True)
class Link:
    """Where a link leads, and what of the source it carries."""

    address: str
    holds: str


@lru_cache(maxsize=2048)
def link(program: Program, text: str, pin: str, architecture: int) -> Link | None:
    """Return the link for a CUDA program, or None if it is too long for one.

    A source that is too long for a link is cut behind its last kernel, which
    leaves a whole translation unit; if need be, comments go too.

    Args:
        program: The program.
        text: Its source.
        pin: Version of nvcc that evidence is recorded with, `13.0`.
        architecture: What `-arch=native` becomes, `90`.
    """
    if program.build is None:
        return None
    options = flags(program, architecture)
    compiler = _NVCC.get(pin, _NEWEST)
    kernels = up_to_last_kernel(text)
    for source, holds in (
        (text, "the whole source"),
        (kernels, "the source up to its last kernel"),
        (without_comments(kernels), "the source up to its last kernel, without comments"),
    ):
        packed = _state(source, compiler, options) if source else None
        if packed is not None and len(_BASE) + len(packed) <= _LONGEST:
            return Link(_BASE + packed, holds)
    return None


def up_to_last_kernel(text: str) -> str:
    """Return a source up to the end of its last kernel; nothing if it has none."""
    start = text.rfind("__global__")
    end = text.find("\n}", start)
    return text[: end + 3].rstrip("\n") + "\n" if start >= 0 and end >= 0 else ""


def flags(program: Program, architecture: int) -> str:
    """Return the flags of a Build: line without compiler, source and output."""
    words = list(program.build.words[1:]) if program.build else []
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word in _WITH_WORD:
            skip = not skip
        elif word != program.path.name:
            kept.append(_NATIVE.sub(f"-arch=sm_{architecture}", word))
    return " ".join(kept)


def without_comments(text: str) -> str:
    """Return a C++ or CUDA source without comments and the lines they leave empty."""
    kept = _COMMENT.sub(lambda m: m["kept"] or "\n" * m[0].count("\n"), text)
    lines = [line.rstrip() for line in kept.split("\n")]
    return "".join(f"{line}\n" for line in lines if line)


def _state(source: str, compiler: str, options: str) -> str | None:
    """Return what a link carries, or None if it is much too long for one."""
    session = {
        "id": 1,
        "language": "cuda",
        "source": source,
        "compilers": [{"id": compiler, "options": options}],
    }
    document = json.dumps({"sessions": [session]}, separators=(",", ":")).encode("utf-8")
    if len(zlib.compress(document, 1)) > _HOPELESS * _LONGEST:
        return None
    packed = base64.b64encode(zlib.compress(document, 9)).decode("ascii")
    return packed.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
