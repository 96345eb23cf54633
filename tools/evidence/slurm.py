"""Recording on a cluster: one Slurm job for each shard of each device, through submitit."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import bundle, costs, selecting, shards, snapshot
from evidence.config import FILE
from evidence.errors import EvidenceError, ToolchainError
from evidence.findings import Finding
from evidence.slurmjob import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evidence.project import Project
    from evidence.slurmconfig import Target

FOLDER = ".evidence/slurm"
_POLL = 1.0  # seconds between two looks at the queue
# A job's result may reach a shared file system after the job has left the queue.
_GRACE = 10.0
# A queue that does not answer for so long is given up; its jobs may still go on.
_SILENCE = 600.0


@dataclass(slots=True)
class Queued:
    """A job in the queue.

    Attributes:
        title: `h200 1/2`.
        target: The device that it asks for.
        names: Its programs.
        bundle: Where its bundle will be.
        job: Submitit's job.
        state: What the queue last said; empty when the job is over.
        gone: When it was first not in the queue.
        unheard: Since when the queue has said nothing of it.
    """

    title: str
    target: Target
    names: tuple[str, ...]
    bundle: Path
    job: Any
    state: str = "SUBMITTED"
    gone: float = 0.0
    unheard: float = 0.0

    @property
    def log(self) -> Path:
        """Return the file with what the job printed."""
        return Path(self.job.paths.stdout)


@dataclass(frozen=True, slots=True)
class Collected:
    """What the jobs brought.

    Attributes:
        bundles: Bundles, in the order of their jobs.
        findings: A finding for each job that brought none.
    """

    bundles: tuple[Path, ...]
    findings: tuple[Finding, ...]


def submit(
    project: Project,
    targets: Sequence[Target],
    names: Sequence[str],
    *,
    everything: bool,
    jobs: int | None,
    options: Sequence[str],
    say: Callable[[str], None],
) -> list[Queued]:
    """Queue what has to be recorded.

    Args:
        project: The project.
        targets: Devices, and how Slurm gives them out.
        names: Programs; none for those whose evidence lacks.
        everything: Whether to take fresh ones too.
        jobs: Into how many jobs each device's programs go; None for what its table says.
        options: Further words for each `evidence record`.
        say: Told each job.

    Raises:
        ToolchainError: Slurm or submitit is not here, or the queue refused a job.
    """
    submitit = _submitit()
    queued: list[Queued] = []
    try:
        for target in targets:
            programs = selecting.select(project, names, target.label, "", everything=everything)
            cost = {p.name: costs.expected(project, p, target.label) for p in programs}
            if not programs:
                say(f"{target.label}: nothing to record")
                continue
            count = min(jobs or target.jobs, len(programs))
            split = shards.split(cost, count)
            for number, part in enumerate(split, 1):
                queued.append(_submit(submitit, project, target, part, (number, count), options))
                minutes = sum(cost[name] for name in part) / 60
                say(
                    f"{queued[-1].title}: job {queued[-1].job.job_id}, {_programs(part)}, "
                    f"about {minutes:.1f} min"
                )
    except BaseException:
        cancel(queued)
        raise
    return queued


def _programs(names: Sequence[str]) -> str:
    return "1 program" if len(names) == 1 else f"{len(names)} programs"


def _submitit() -> Any:
    try:
        import submitit  # noqa: PLC0415 - only this executor needs it
    except ImportError:
        raise ToolchainError(
            "recording through Slurm needs submitit",
            fix="pip install 'cuda-measured[slurm]' here and on the nodes",
        ) from None
    if shutil.which("sbatch") is None or shutil.which("squeue") is None:
        raise ToolchainError(
            "there is no sbatch and squeue on this machine",
            fix="run this on a machine that submits to the cluster, or without --executor slurm",
        )
    return submitit


def _submit(
    submitit: Any, project: Project, target: Target, names: tuple[str, ...],
    shard: tuple[int, int], options: Sequence[str],
) -> Queued:  # fmt: skip
    number, count = shard
    folder = project.root / FOLDER / f"{target.label}-{number}-of-{count}"
    tree, made = folder / "tree", folder / "evidence.bundle"
    try:
        snapshot.refresh(project, tree)
        made.unlink(missing_ok=True)  # of an earlier job
    except OSError as error:
        raise EvidenceError(
            f"the job's copy of the tree cannot be made: {error.strerror}",
            path=error.filename or tree, fix="make room, then run the same command",
        ) from None  # fmt: skip
    executor = submitit.SlurmExecutor(folder / "jobs", python=target.python or None)
    try:
        executor.update_parameters(**target.parameters())
        job = executor.submit(Job(str(tree), str(made), names, tuple(options)))
    except (
        ValueError,
        submitit.core.utils.FailedJobError,
        submitit.core.utils.FailedSubmissionError,
    ) as error:
        last = (str(error).strip().splitlines() or [""])[-1].removeprefix("sbatch: error: ")
        raise ToolchainError(
            f"Slurm refused the job for {target.label}: {last}",
            fix=f"mend [tool.evidence.slurm.{target.label}]",
        ) from None
    return Queued(f"{target.label} {number}/{count}", target, names, made, job)


def wait(queued: Sequence[Queued], say: Callable[[str], None]) -> Collected:
    """Wait until all jobs are over, and return their bundles.

    Args:
        queued: The jobs.
        say: Told each change of a job's state.

    Raises:
        KeyboardInterrupt: The user gave up; the jobs were cancelled.
    """
    try:
        while _look(queued, say):
            time.sleep(_POLL)
    except BaseException:
        cancel(queued)
        raise
    bundles, findings = [], []
    for one in queued:
        if one.bundle.is_file():
            bundles.append(one.bundle)
        else:
            findings.append(_lost(one))
    return Collected(tuple(bundles), tuple(findings))


def _look(queued: Sequence[Queued], say: Callable[[str], None]) -> bool:
    """Ask the queue about all jobs; return whether any is still to come."""
    waiting = [one for one in queued if one.state]
    states = _states([one.job.job_id for one in waiting])
    now = time.monotonic()
    if states is None:
        _unheard(waiting, now, say)
        return any(one.state for one in queued)
    for one in waiting:
        one.unheard = 0.0
        state = states.get(one.job.job_id, "")
        if state and state != one.state:
            say(f"{one.title}: job {one.job.job_id} is {state.lower()}")
        if state:
            one.state, one.gone = state, 0.0
            continue
        # No accounting database is asked: many clusters have none.
        one.gone = one.gone or now
        if one.job.paths.result_pickle.exists() or now - one.gone > _GRACE:
            one.state = ""
            say(f"{one.title}: job {one.job.job_id} is over")
    return any(one.state for one in queued)


def _unheard(waiting: Sequence[Queued], now: float, say: Callable[[str], None]) -> None:
    """Take note that the queue does not answer; give up when it has not for long."""
    if not waiting[0].unheard:
        say("the queue does not answer; still waiting")
    for one in waiting:
        one.unheard = one.unheard or now
        if now - one.unheard > _SILENCE:
            one.state = ""
            say(f"{one.title}: job {one.job.job_id} is not waited for any longer")


def _states(ids: Sequence[str]) -> dict[str, str] | None:
    """Return the jobs' states by number; None if the queue does not answer."""
    if not ids:
        return {}
    # A job that squeue has forgotten makes it fail if it is asked for by number.
    done = subprocess.run(
        ["squeue", "--noheader", "--me", "--format=%i %T"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        return None
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip()]
    # A job that is completing has written its result.
    return {row[0]: row[1] for row in rows if row[0] in ids and row[1] != "COMPLETING"}


def _lost(one: Queued) -> Finding:
    try:
        lines = one.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    last = f"; its log ends with: {lines[-1][:200]}" if lines else "; it printed nothing"
    return Finding(
        "job-lost", str(one.log), max(len(lines), 1),
        f"job {one.job.job_id} ({one.title}, {_programs(one.names)}) left no bundle{last}",
        f"evidence record {' '.join(one.names[:3])}{' …' if len(one.names) > 3 else ''} "  # noqa: PLR2004
        "--executor slurm (it goes on where the job stopped)",
    )  # fmt: skip


def elsewhere(queued: Sequence[Queued]) -> list[Finding]:
    """Return a warning for each job whose node had another device than was asked for.

    Its records are true and are kept, under the name of the device that they are of.
    """
    found = []
    for one in queued:
        try:
            entries = bundle.read(one.bundle) if one.bundle.is_file() else []
        except EvidenceError:
            continue  # accepting it says why
        others = sorted({entry.device for entry in entries} - {one.target.label})
        if others:
            message = f"job {one.job.job_id} ({one.title}) ran on {', '.join(others)}"
            fix = f"mend [tool.evidence.slurm.{one.target.label}], so that Slurm gives out its GPU"
            found.append(Finding("other-device", FILE, 1, message, fix, severity="warning"))
    return found


def cancel(queued: Sequence[Queued]) -> None:
    """Take jobs out of the queue that are not over."""
    ids = [one.job.job_id for one in queued if one.state]
    if ids:
        subprocess.run(["scancel", *ids], check=False, capture_output=True)
