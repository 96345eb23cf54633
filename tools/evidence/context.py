"""What two records differ in besides their values: outcome, tools, driver, versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs.

    Attributes:
        what: Such as `outcome`, `memcheck`, `driver` or `nvcc`.
        old: What it was.
        new: What it is.
        ours: Whether it is what the program did; else it is what it was done with.
    """

    what: str
    old: str
    new: str
    ours: bool


def compare(old: dict[str, Any], new: dict[str, Any]) -> tuple[Difference, ...]:
    """Compare the documents of two records, without their values.

    A step that either left out, or had no tool for, tells nothing about the program.
    """
    return tuple(d for d in _all(old, new) if d.old != d.new)


def _all(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    yield Difference("outcome", _outcome(old), _outcome(new), ours=True)
    for name in ("sanitizers", "mutants"):
        for step in old[name] | new[name]:
            was, now = _status(old[name].get(step)), _status(new[name].get(step))
            what = step if name == "sanitizers" else f"mutant {step}"
            yield Difference(what, was, now, ours=not _left_out(was, now))
    was, now = _status(old["profile"]), _status(new["profile"])
    yield Difference("profile", was, now, ours=not _left_out(was, now))
    for name in ("name", "driver", "compute_capability", "memory_mib", "sm_count"):
        what = "device" if name == "name" else name.replace("_", " ")
        yield Difference(what, str(old["device"][name]), str(new["device"][name]), ours=False)
    was_tools, now_tools = old["toolchain"], new["toolchain"]
    for name in ("nvcc", "host_compiler", "python"):
        was, now = (str(tools.get(name) or _ABSENT) for tools in (was_tools, now_tools))
        yield Difference(name.replace("_", " "), was, now, ours=False)
    packages = [tools.get("packages") or {} for tools in (was_tools, now_tools)]
    for name in sorted(packages[0] | packages[1]):
        was, now = (str(found.get(name, _ABSENT)) for found in packages)
        yield Difference(f"package {name}", was, now, ours=False)
    was, now = (str(data["recorded"].get("isolation", "none")) for data in (old, new))
    yield Difference("isolation", was, now, ours=False)


def _outcome(data: dict[str, Any]) -> str:
    outcome = data["outcome"]
    return "passed" if outcome["passed"] else f"failed: {'; '.join(outcome['reasons'])}"


def _status(step: dict[str, Any] | None) -> str:
    return _ABSENT if step is None else str(step["status"]).replace("-", " ")


def _left_out(*statuses: str) -> bool:
    return any(status in (_ABSENT, "not requested", "not available") for status in statuses)
