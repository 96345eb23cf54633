"""Which Slurm jobs record for which device: `[tool.evidence.slurm.LABEL]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evidence.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FIX = "mend the table; docs/guide/ci.md has one"
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "partition": (str, "the name of a partition"),
    "gres": (str, "generic resources such as gpu:h200:1"),
    "minutes": (int, "a whole number of minutes"),
    "jobs": (int, "a whole number of jobs"),
    "python": (str, "the command that starts Python on the nodes"),
    "setup": (list, "a list of shell lines"),
    "sbatch": (dict, "a table of further sbatch options"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """How to get a device of one kind from Slurm.

    Attributes:
        label: The device's label.
        partition: Where to queue; the cluster's default if empty.
        gres: What asks for one such GPU.
        minutes: Limit of one job.
        jobs: Into how many jobs the programs are split, unless the command says.
        python: Starts Python on the nodes; this interpreter if empty.
        setup: Shell lines that a job begins with.
        sbatch: Further options of sbatch, `account = "…"`.
    """

    label: str
    partition: str = ""
    gres: str = ""
    minutes: int = 60
    jobs: int = 1
    python: str = ""
    setup: tuple[str, ...] = ()
    sbatch: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """Return what submitit's Slurm executor is told."""
        more = dict(self.sbatch)
        told: dict[str, Any] = {
            "job_name": f"evidence-{self.label}",
            "time": self.minutes,
            "setup": list(self.setup),
            "stderr_to_stdout": True,
            # One log for a job: srun would write the programs' output unbuffered elsewhere.
            "additional_parameters": more,
        }
        for name in ("partition", "gres"):
            if value := getattr(self, name):
                told[name] = value
        return told


def targets(table: Mapping[str, Any], labels: Sequence[str], path: Path) -> list[Target]:
    """Read the table of targets.

    Args:
        table: `[tool.evidence.slurm]`: label → options.
        labels: The devices asked for; all of the table if none.
        path: The file that the table stands in, for messages.

    Raises:
        ConfigError: There is no table, an option is wrong, or a label is not in it.
    """
    if not table:
        raise ConfigError(
            "has no [tool.evidence.slurm.LABEL]: it says how Slurm gives out which device",
            path=path, fix="add one; docs/guide/ci.md has one",
        )  # fmt: skip
    wrong: list[str] = []
    for label, options in table.items():
        wrong += [f"{label}: {problem}" for problem in _problems(options)]
    if wrong:
        raise ConfigError("[tool.evidence.slurm]: " + "; ".join(wrong), path=path, fix=_FIX)
    unknown = [label for label in labels if label not in table]
    if unknown:
        raise ConfigError(
            f"[tool.evidence.slurm] has no {unknown[0]} (it has: {', '.join(sorted(table))})",
            path=path, fix=_FIX,
        )  # fmt: skip
    chosen = dict.fromkeys(labels) if labels else table
    return [_target(label, table[label]) for label in sorted(chosen)]


def _problems(options: Any) -> list[str]:
    if not isinstance(options, dict):
        return [f"{options!r} is no table"]
    wrong = []
    for name, value in options.items():
        if name not in _TYPES:
            wrong.append(f"unknown option {name!r} (known: {', '.join(sorted(_TYPES))})")
        elif not isinstance(value, _TYPES[name][0]) or isinstance(value, bool):
            wrong.append(f"{name} = {value!r}, but it must be {_TYPES[name][1]}")
        elif isinstance(value, int) and value < 1:
            wrong.append(f"{name} = {value}, but it must be at least 1")
    return wrong


def _target(label: str, options: Mapping[str, Any]) -> Target:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return Target(label, **values)
