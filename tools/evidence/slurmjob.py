"""What runs on a node of the cluster: `evidence record` in the job's copy of the tree."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


@dataclass(frozen=True, slots=True)
class Job:
    """One recording on one node. Submitit pickles it, and calls it there.

    Attributes:
        tree: The job's copy of the project.
        bundle: Where the bundle goes.
        names: Programs to record.
        options: Further words for `evidence record`.
    """

    tree: str
    bundle: str
    names: tuple[str, ...]
    options: tuple[str, ...] = ()

    def __call__(self) -> int:
        """Record, and return the exit status."""
        # The copy lies inside the repository and is ignored by it: git would take it
        # for unchanged, whatever it holds. `accept` finds the commit out instead.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(self.tree).parent)}
        words = [sys.executable, "-m", "evidence", "--project", self.tree, "record"]
        words += [*self.names, "--bundle", self.bundle, *self.options]
        return subprocess.run(words, env=environment, check=False).returncode

    def checkpoint(self, *args: Any) -> DelayedSubmission:
        """Return what to queue again when the job is preempted or its time is over.

        The next run of the job goes on with the records that this one finished.
        """
        import submitit  # noqa: PLC0415 - on the node it is there

        return submitit.helpers.DelayedSubmission(self, *args)
