"""Judging what must hold on a page: claims, and the verdicts of its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evidence.addresses import AbsentError
from evidence.errors import EvidenceError
from evidence.pages import claims, grounds, shown

if TYPE_CHECKING:
    from evidence.expressions import Expression
    from evidence.pages.binder import Binder
    from evidence.pages.directives import Block, Option

_SENTENCE = "correct the sentence, or say `fails_on: {}`"


def look_up(binder: Binder, block: Block) -> shown.Shown:
    """Judge a claim.

    Raises:
        Refused: It cannot be judged.
    """
    option = block.option("expect")
    if option is None or not option.text:
        return shown.Failed("this claim has no expression")  # the scan has said so
    return judged(binder, block, option)


def judged(
    binder: Binder, block: Block, option: Option, about: str = "", fix: str = _SENTENCE
) -> shown.Claim:
    """Judge an expression under a block's options, and report where it does not hold.

    Args:
        binder: Looks up the page.
        block: The block, with `device:`, `fails_on:` and `margin:`.
        option: The one that holds the expression.
        about: What findings begin with.
        fix: What mends it, with a place for the device.

    Raises:
        Refused: It cannot be judged.
    """
    margin = block.option("margin")
    try:
        wanted = claims.terms(block)
    except EvidenceError as error:
        raise binder.refused("bad-expression", block.line, error) from None
    expression = binder.expression(option.text, option.line)
    devices = claims.devices(binder.names, expression, wanted)
    judge = _Judge(binder, expression, wanted, option.line, about, fix)
    verdicts = tuple(judge.on(device) for device in devices)
    sources = binder.sources(expression, devices[0], None)
    spelled = grounds.about(expression, binder.names.place)
    demanded = margin.text if margin else ""
    return shown.Claim(expression.text, demanded, verdicts, sources, spelled)


class _Judge:
    def __init__(
        self,
        binder: Binder,
        expression: Expression,
        wanted: claims.Terms,
        line: int,
        about: str,
        fix: str,
    ) -> None:
        self.binder = binder
        self.expression = expression
        self.wanted = wanted
        self.line = line
        self.about = about
        self.fix = fix

    def on(self, device: str) -> shown.Verdict:
        """Judge on one device."""
        binder, line = self.binder, self.line
        unmeasured = shown.Verdict(device, "not measured", expected=False)
        if binder.recorded(self.expression, device, line) is not None:
            return unmeasured
        try:
            bound = binder.values(self.expression, device)
            verdict = claims.judge(self.expression, bound, device, self.wanted)
        except AbsentError as error:
            binder.error("claim-unmeasured", line, error)
            return unmeasured
        except EvidenceError as error:
            raise binder.refused("bad-expression", line, error) from None
        if not verdict.expected:
            self._disagrees(verdict)
        return verdict

    def _disagrees(self, verdict: shown.Verdict) -> None:
        text, device = self.expression.text, verdict.device
        if verdict.holds == "fails":
            message = f"`{text}` does not hold on {device}: {claims.failing(verdict)}"
            code, fix = "claim-fails", self.fix.format(device)
        else:
            message = f"`{text}` is said to fail on {device}, and it holds there"
            code, fix = "claim-holds", f"take {device} out of `fails_on:`"
        self.binder.add(code, self.line, f"{self.about}{message}", fix)
