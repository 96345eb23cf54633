"""The compiler's report per kernel, read from what `-Xptxas=-v` prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FIELDS = ("registers", "stack", "spill_stores", "spill_loads", "shared", "constant")

_INFO = re.compile(r"\s*(?:ptxas|nvlink) info\s*:\s*(.*)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(
    r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")

# A cast in a template argument: `(int)32` from one demangler is `32` from another.
_CAST = re.compile(r"\((?:unsigned )?(?:bool|char|short|int|long(?: long)?)\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<=[<, ])(-?\d+)(?:u|l|ul|ll|ull)\b")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|_GLOBAL__N__\w+)::")
_PLAIN = re.compile(r"_Z(?:L)?(\d+)(\w+)")


def split(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Part a compiler's output into its ptxas report and everything else."""
    report: list[str] = []
    other: list[str] = []
    for line in lines:
        if _INFO.match(line) or (report and _FRAME.fullmatch(line)):
            report.append(line)
        else:
            other.append(line)
    return report, other


def parse(report: Iterable[str], architecture: str) -> dict[str, dict[str, int]]:
    """Read the report into mangled kernel name → field → number.

    Args:
        report: The lines that `split` calls the report.
        architecture: Of a report on several, the one to keep, `sm_90`.

    Returns:
        The fields of `FIELDS`; bytes, except for registers.
    """
    found: dict[str, dict[str, int]] = {}
    entry = ""
    mine = properties = False
    for line in report:
        if match := _ENTRY.search(line):
            entry = match.group(1)
            mine = match.group(2) == architecture or entry not in found
            if mine:
                found[entry] = dict.fromkeys(FIELDS, 0)
        elif match := _PROPERTIES.search(line):
            # Device functions that are called, not inlined, have some too.
            properties = match.group(1) == entry
        elif not (mine and entry):
            continue
        elif (match := _FRAME.search(line)) and properties:
            numbers = (int(text) for text in match.groups())
            found[entry].update(zip(FIELDS[1:4], numbers, strict=True))
        elif match := _USED.search(line):
            shared = _SHARED.search(line)
            found[entry]["registers"] = int(match.group(1))
            found[entry]["shared"] = int(shared.group(1)) if shared else 0
            found[entry]["constant"] = sum(int(text) for text in _CONSTANT.findall(line))
    return found


def kernels(report: Iterable[str], architecture: str) -> dict[str, dict[str, int]]:
    """Read the report into readable kernel name → field → number."""
    found = parse(report, architecture)
    names = readable(list(found))
    made: dict[str, dict[str, int]] = {}
    for mangled, fields in found.items():
        name = names[mangled]
        # Overloads share a readable name; they must not share an entry.
        made[name if name not in made else mangled] = fields
    return made


def readable(mangled: list[str], demangler: Path | None = None) -> dict[str, str]:
    """Return mangled → readable name, `attentionOnline` or `addTile<32, float>`."""
    found = demangler or shutil.which("cu++filt") or shutil.which("c++filt")
    lines = list(mangled)
    if found and mangled:
        try:
            done = subprocess.run(
                [str(found)], input="\n".join(mangled) + "\n", capture_output=True, check=True,
                encoding="utf-8", errors="replace", timeout=60,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolchainError(f"{found} cannot demangle kernel names: {error}") from None
        answer = done.stdout.splitlines()
        lines = answer if len(answer) == len(mangled) else lines
    return {name: base_name(line) for name, line in zip(mangled, lines, strict=True)}


def base_name(signature: str) -> str:
    """Return a kernel's name out of its signature, template arguments kept.

    `void addTile<(int)32, float>(T2 *)` → `addTile<32, float>`; also reads a
    simple mangled name, for machines without a demangler.
    """
    if match := _PLAIN.fullmatch(signature):
        length = int(match.group(1))
        rest = match.group(2)
        return rest[:length] if not rest[length:].startswith("I") else signature
    text = _ANONYMOUS.sub("", signature.strip())
    text = _CAST.sub("", text.replace("(bool)1", "true").replace("(bool)0", "false"))
    text = _SUFFIX.sub(r"\1", text)
    text = re.sub(r"\s+([*&>,])", r"\1", text)
    name, depth = "", 0
    for place, sign in enumerate(text):
        if sign == "(" and depth == 0 and place:
            break
        depth += {"<": 1, ">": -1}.get(sign, 0)
        if sign == " " and depth == 0:
            name = ""  # what stood before it was the return type
        else:
            name += sign
    return name
