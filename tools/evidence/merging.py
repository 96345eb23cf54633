"""What storing a new record beside an old one changes: nothing, if nothing is new.

Re-recorded code that did nothing else than before leaves its file byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence import store, values

if TYPE_CHECKING:
    from evidence.model import Record


@dataclass(frozen=True, slots=True)
class Drift:
    """One value that changed although no input did."""

    address: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Merge:
    """What storing a new record comes to.

    Attributes:
        text: The file's new text; None if the stored file stays as it is.
        reasons: Why it is rewritten; empty if it is not.
        drift: Values that changed although no input did.
    """

    text: str | None
    reasons: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()


def merge(old: Record | None, new: dict[str, Any], extra: values.Extra = ()) -> Merge:
    """Decide what storing a new record changes.

    A record of the same key replaces the stored one only if it says something
    new: an exact value changed, a measured median left its old band (see
    `left_band`), something passed that failed before (or the other way round),
    a step was added, or another compiler was used. Otherwise the stored file
    stays byte for byte.

    Args:
        old: The stored record of the same program and device, if any.
        new: The new record's document.
        extra: Named regular expressions of the program's plan.
    """
    fresh = dict(new)
    fresh["drift"] = []
    fresh["measured"] = values.measured_addresses(new, extra)
    if old is None:
        return Merge(store.dump(fresh), ("first record on this device",))
    if old.key != new["key"]:
        return Merge(store.dump(fresh), ("its inputs changed",))
    # Once seen to differ, measured for good.
    known = set(old.data["measured"]) | set(fresh["measured"])
    drift, became = _compare(old.data, fresh, known, extra)
    fresh["measured"] = sorted(known | became)
    fresh["drift"] = [{"address": d.address, "old": d.old, "new": d.new} for d in drift]
    reasons = [f"{len(drift)} values changed" if len(drift) > 1 else "a value changed"] * bool(
        drift
    )
    reasons += _steps(old.data, fresh)
    if not reasons:
        return Merge(None)
    return Merge(store.dump(fresh), tuple(reasons), tuple(drift))


def drifted(
    old: dict[str, Any], new: dict[str, Any], extra: values.Extra = ()
) -> tuple[Drift, ...]:
    """Return the values of a new document that are not as an old one's say.

    An exact value that is another, and a median that left its old band.
    """
    known = set(old["measured"]) | set(values.measured_addresses(new, extra))
    return tuple(_compare(old, new, known, extra)[0])


def _compare(
    old: dict[str, Any], new: dict[str, Any], known: set[str], extra: values.Extra
) -> tuple[list[Drift], set[str]]:
    """Return what changed, and the exact addresses that turn out measured."""
    before = _comparable(old, extra)
    after = _comparable({**new, "measured": sorted(known)}, extra)
    drift: list[Drift] = []
    became: set[str] = set()
    for address in sorted(before.keys() | after.keys()):
        was, now = before.get(address), after.get(address)
        if was is None or now is None:
            drift.append(
                Drift(address, was.texts[0] if was else "absent", now.texts[0] if now else "absent")
            )
        elif was.exact and now.exact:
            if was.texts[0] != now.texts[0]:
                drift.append(Drift(address, was.texts[0], now.texts[0]))
                became.add(address)
        elif left_band(was, now.median):
            drift.append(Drift(address, f"{was.min:g} to {was.max:g}", f"{now.median:g}"))
    return drift, became


def _comparable(record: dict[str, Any], extra: values.Extra) -> dict[str, values.Value]:
    """Return the values that drift is about; steps are compared as steps."""
    found = values.of_record(record, extra)
    return {a: v for a, v in found.items() if v.source in ("run", "compile", "profile")}


def left_band(was: values.Value, median: float) -> bool:
    """Whether a new median lies outside what an old measured value allows.

    Five runs of one visit show less than the spread between visits (clocks,
    temperature, neighbours), so the old band is widened on each side by its
    own width, and by at least 2 % of its median.
    """
    slack = max(was.max - was.min, 0.02 * abs(was.median))
    return not was.min - slack <= median <= was.max + slack


def _steps(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    reasons = []
    if old["outcome"] != new["outcome"]:
        reasons.append("its outcome changed")
    for name in ("sanitizers", "mutants"):
        was = {k: v["status"] for k, v in old[name].items()}
        now = {k: v["status"] for k, v in new[name].items()}
        if was != now:
            reasons.append(f"its {name} changed")
    if _edits(old) != _edits(new):
        reasons.append("its mutants' edits changed")
    if old["profile"]["status"] != new["profile"]["status"]:
        reasons.append("its profile changed")
    if len(old["runs"]) < len(new["runs"]):
        reasons.append("it has more runs")
    if old["toolchain"].get("nvcc") != new["toolchain"].get("nvcc"):
        reasons.append("another compiler was used")
    return reasons


def _edits(record: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (m["find"], m["replace"]) for name, m in record["mutants"].items()}
