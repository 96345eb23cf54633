"""Nsight Compute: metrics of every kernel launch of a run."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from evidence import ptxas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from evidence.model import Profile
    from evidence.runner import RunResult

Status = Literal["recorded", "not-available", "not-requested", "failed"]
# kernel → grid → metric → unit and one value per launch
Launches = dict[str, dict[str, dict[str, "Metric"]]]

TOOL = "ncu"
LOG = "profile.csv"  # in the run's folder: the program's own output stays apart
INSTALL = "install NVIDIA Nsight Compute (ncu)"

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_GRID = re.compile(r"\((\d+), (\d+), (\d+)\)")
_MESSAGE = re.compile(r"^==ERROR== (.*)")
_NO_ACCESS = re.compile(
    r"ERR_NVGPUCTRPERM|LibraryNotLoaded|failed to initialize the profiler|"
    r"not supported|driver resource was unavailable|incompatible",
    re.IGNORECASE,
)
_NO_KERNELS = "No kernels were profiled"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one kernel and grid: its unit and one value per launch."""

    unit: str
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class Profiled:
    """What one profiled process, or several together, came to."""

    status: Status
    reason: str = ""
    launches: Launches = field(default_factory=dict)

    def document(
        self, profile: Profile | None, words: Sequence[str] = (), tool: str = ""
    ) -> dict[str, Any]:
        """Return the result as it stands in a record."""
        shown = {
            kernel: {
                grid: {
                    name: {"unit": metric.unit, "values": list(metric.values)}
                    for name, metric in metrics.items()
                }
                for grid, metrics in grids.items()
            }
            for kernel, grids in self.launches.items()
        }
        ran = bool(words) and profile is not None
        return {
            "args": list(profile.args) if profile else [],
            "command": [TOOL, *options(profile), *words] if ran and profile else [],
            "launches": shown,
            "reason": self.reason,
            "status": self.status,
            "tool": tool,
        }


def options(profile: Profile) -> tuple[str, ...]:
    """Return the profiler's options; clocks are left alone, as in the timed runs."""
    words = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    words += ["--metrics", ",".join(profile.metrics)]
    if profile.kernels:
        names = "|".join(re.escape(name) for name in profile.kernels)
        words += ["--kernel-name", f"regex:^({names})$"]
    return tuple(words)


def command(ncu: Path, profile: Profile, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that profile a program and log into `LOG`."""
    return (str(ncu), *options(profile), "--log-file", LOG, *words)


def judge(profile: Profile, log: str, run: RunResult, expected_exit: int = 0) -> Profiled:
    """Read what one profiled process came to.

    Args:
        profile: What was asked for.
        log: The text of the profiler's log file.
        run: The run.
        expected_exit: How the program ends when nothing is wrong.
    """
    errors = [m.group(1) for line in log.splitlines() if (m := _MESSAGE.match(line))]
    own = [line for line in run.stdout if line.startswith("==ERROR==")]
    for text in (*errors, *own):
        if _NO_ACCESS.search(text):
            return Profiled("not-available", text.removeprefix("==ERROR== "))
    try:
        _check_run(run, errors, expected_exit)
        return Profiled("recorded", "", _launches(profile, log))
    except ValueError as error:
        return Profiled("failed", str(error))


def _check_run(run: RunResult, errors: Sequence[str], expected_exit: int) -> None:
    if run.timed_out:
        raise ValueError(f"it was not done after {run.seconds:.0f} s")
    if run.problems:
        raise ValueError(f"under {TOOL} the program {run.problems[0]}")
    if run.exit_status != expected_exit:
        raise ValueError(errors[0] if errors else f"under {TOOL} the program {run.ended()}")


def _launches(profile: Profile, log: str) -> Launches:
    if _NO_KERNELS in log:
        asked = f" named {' or '.join(profile.kernels)}" if profile.kernels else ""
        raise ValueError(f"no kernel{asked} was launched")
    launches = parse(log, profile.metrics)
    missing = [k for k in profile.kernels if k not in {_base(name) for name in launches}]
    if missing:
        raise ValueError(f"kernel {missing[0]} was not launched")
    return launches


def _base(name: str) -> str:
    # What the profiler's own filter matches: no namespace, no template arguments.
    return name.partition("<")[0].rpartition("::")[2]


def parse(log: str, metrics: Iterable[str]) -> Launches:
    """Read the raw page of `ncu --csv`.

    Args:
        log: The log: messages, a header row, a row of units, a row per launch.
        metrics: The metrics to keep; the page holds hundreds besides.

    Raises:
        ValueError: A metric is missing, or a value is no number.
    """
    rows = list(csv.reader(line for line in log.splitlines() if line.startswith('"')))
    if len(rows) < 3:  # noqa: PLR2004 - header, units and one launch
        raise ValueError("the profiler reported no launch")
    header, units, *body = rows
    columns = {name: place for place, name in enumerate(header)}
    missing = [name for name in metrics if name not in columns]
    if missing:
        # The profiler itself passes over a metric that it does not know.
        raise ValueError(f"this device has no metric {', '.join(missing)}")
    found: Launches = {}
    for row in body:
        kernel = ptxas.base_name(row[columns["Kernel Name"]])
        grid = grid_name(row[columns["Grid Size"]])
        table = found.setdefault(kernel, {}).setdefault(grid, {})
        for name in metrics:
            value = _number(row[columns[name]], name, kernel)
            before = table[name].values if name in table else ()
            table[name] = Metric(units[columns[name]], (*before, value))
    return found


def grid_name(text: str) -> str:
    """Return `grid-64x1x1` for `(64, 1, 1)`.

    Raises:
        ValueError: It is no grid.
    """
    match = _GRID.fullmatch(text)
    if match is None:
        raise ValueError(f"the profiler reported the grid {text!r}")
    return "grid-" + "x".join(match.groups())


def _number(text: str, metric: str, kernel: str) -> int | float:
    plain = text.replace(",", "")  # written 3,170,816 whatever the locale
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"{metric} of {kernel} is {text!r}, which is no number")
    return int(plain) if plain.lstrip("-").isdigit() else float(plain)


def joined(several: Sequence[Profiled]) -> Profiled:
    """Put the results of several processes together, values side by side.

    A process that failed fails the whole: half a profile is none.
    """
    for one in several:
        if one.status != "recorded":
            return one
    found: Launches = {}
    for one in several:
        for kernel, grids in one.launches.items():
            for grid, metrics in grids.items():
                _add(found.setdefault(kernel, {}).setdefault(grid, {}), metrics)
    return Profiled("recorded", "", found)


def _add(table: dict[str, Metric], metrics: Mapping[str, Metric]) -> None:
    for name, metric in metrics.items():
        before = table[name].values if name in table else ()
        table[name] = Metric(metric.unit, (*before, *metric.values))
