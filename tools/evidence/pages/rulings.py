"""The ledger: claims that somebody else made, each with a verdict that must hold.

A ruling's expression is what makes the verdict right, so it is judged as a
claim of the page's own. Where nothing can be compared, a program that is meant
to fail decides by failing as it must, or a source that is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.pages import judging, shown
from evidence.pages.directives import Block
from evidence.pages.ruled import Ledger, Ruling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from evidence.model import Program
    from evidence.pages.binder import Binder
    from evidence.pages.inline import Inline
    from evidence.pages.shown import Shown

VERDICTS = ("true", "roughly", "false", "undefined", "undecided")
KINDS = ("arithmetic", "compile fact", "measurement", "undefined", "source")
_BASED = "[! "  # how a source is named in a sentence


def look_up(binder: Binder, block: Block) -> Shown:
    """Look up a ruling, and judge its verdict.

    Raises:
        Refused: Its expression cannot be judged.
    """
    wrong = list(_wrong(block))
    for line, message, fix in wrong:
        binder.add("page-syntax", line, f"`{_title(block)}` {message}", fix)
    if wrong:
        return shown.Failed(f"claim {block.argument} cannot be shown: {wrong[0][1]}")
    programs = _programs(binder, block)
    expect, verdict = block.option("expect"), _text(block, "verdict")
    claim = None
    if expect is not None:
        about = f"claim {block.argument} is `{verdict}` no longer: "
        fix = "read the evidence, then correct the verdict and its sentence"
        claim = judging.judged(binder, block, expect, about, fix)
    elif not (verdict == "undecided" or _text(block, "kind") == "source" or _fail(programs)):
        fix = "add `expect:`, or name under `by:` a program that is meant to fail"
        binder.add("page-syntax", block.line, f"`{_title(block)}` is decided by nothing", fix)
    return Ruling(
        int(block.argument), _text(block, "claim"), _text(block, "kind"), verdict, claim, programs
    )


def count(binder: Binder, block: Block) -> Shown:
    """Look up how many claims the page has to rule on."""
    if block.argument.isdecimal() and int(block.argument) > 0:
        return Ledger(int(block.argument))
    message = f"`{_title(block)}` says no number of claims"
    finding = binder.add("page-syntax", block.line, message, "write `/// ledger | 62`")
    return shown.Failed(finding.message)


def complete(binder: Binder, items: Sequence[Block | Inline], found: Sequence[Shown]) -> None:
    """Report claims that are ruled on twice, or not at all."""
    seen: dict[str, int] = {}
    blocks = [item for item in items if isinstance(item, Block)]
    for block in blocks:
        if block.kind == "ruling" and block.argument.isdecimal():
            number = str(int(block.argument))
            if number in seen:
                message = f"claim {number} is ruled on twice, first on line {seen[number]}"
                binder.add("page-syntax", block.line, message, "keep one, or correct its number")
            seen.setdefault(number, block.line)
    wanted = next((what.count for what in found if isinstance(what, Ledger)), None)
    if wanted is None:
        return
    line = next(block.line for block in blocks if block.kind == "ledger")
    missing = [str(n) for n in range(1, wanted + 1) if str(n) not in seen]
    for name in missing[:1]:
        more = f", nor are {len(missing) - 1} more" if len(missing) > 1 else ""
        message = f"of {wanted} claims, claim {name} is not ruled on{more}"
        binder.add("page-syntax", line, message, f"add a block `/// ruling | {name}`")
    for name, where in seen.items():
        if not 0 < int(name) <= wanted:
            message = f"claim {name} is ruled on, and there are {wanted}"
            binder.add("page-syntax", where, message, f"correct it, or write `/// ledger | {name}`")


def _wrong(block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield line, message and remedy for everything that a ruling's options say wrongly."""
    if not block.argument.isdecimal():
        yield block.line, "has no number", "write the claim's number, `/// ruling | 8`"
    for name, known in (("verdict", VERDICTS), ("kind", KINDS)):
        option = block.option(name)
        text = option.text if option is not None else ""
        if text not in known:
            said = f"has the {name} `{text}`, which means nothing" if text else f"has no {name}"
            line = option.line if option is not None else block.line
            yield line, said, f"choose among {', '.join(known)}"
    if not _text(block, "claim"):
        yield block.line, "has no claim", "write the claim in your words, `    claim: …`"
    if not block.body.strip():
        yield block.line, "has no sentence", "write why the verdict is what it is"
    expect, source = block.option("expect"), _text(block, "kind") == "source"
    if expect is not None and not expect.text:
        yield expect.line, "has an empty `expect:`", "write what must hold, or remove it"
    if expect is not None and _text(block, "verdict") == "undecided":
        fix = "give the verdict that follows, or remove `expect:`"
        yield expect.line, "is undecided, and has an expression", fix
    if source and _BASED not in block.body:
        fix = "name it in the sentence, `[! what it says | source ]`"
        yield block.line, "is decided by a source, and names none", fix


def _programs(binder: Binder, block: Block) -> tuple[Program, ...]:
    """Return the programs that a ruling names, whose evidence has to be believed."""
    option = block.option("by")
    names = [] if option is None else [part.strip() for part in option.text.split(",")]
    line = block.line if option is None else option.line
    programs = tuple(binder.program(name, line) for name in names)
    for program in programs:
        binder.believe(program, binder.library.device, line)
    return programs


def _fail(programs: tuple[Program, ...]) -> bool:
    """Whether a program is among them whose failing, as it must, is the proof."""
    return any(program.plan.expect.kind != "success" for program in programs)


def _text(block: Block, name: str) -> str:
    option = block.option(name)
    return "" if option is None else option.text


def _title(block: Block) -> str:
    return f"/// {block.kind} | {block.argument}"
