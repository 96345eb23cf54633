"""A Slurm cluster of one node, started by the tests from Debian's packages."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")

CONF = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={d}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0
SlurmctldParameters=enable_configless
ReturnToService=2
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:h200:1,gpu:t4:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Two files that are always there stand for the GPUs.
GRES = """\
NodeName={host} Name=gpu Type=h200 File=/dev/null
NodeName={host} Name=gpu Type=t4 File=/dev/zero
"""


@dataclass
class Cluster:
    """A running cluster; `environ` makes its commands find it."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            words, env={**os.environ, **self.environ}, capture_output=True, text=True, check=False,
            timeout=20,
        )  # fmt: skip
        return done.stdout

    def _start(self, *words: str) -> None:
        with (self.folder / f"{Path(words[0]).name}.out").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    words,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **self.environ},
                    start_new_session=True,
                )
            )

    def start(self) -> str:
        """Start the three daemons; return why they did not, if they did not."""
        absent = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
        if absent:
            return (
                f"not installed: {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"
            )
        folder, host = self.folder, socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        user = os.environ.get("USER") or ("root" if os.geteuid() == 0 else str(os.geteuid()))
        values = {
            "host": host, "folder": folder, "user": user, "ctld": _port(), "d": _port(),
            "cpus": os.cpu_count(),
        }  # fmt: skip
        (folder / "slurm.conf").write_text(CONF.format(**values))
        (folder / "gres.conf").write_text(GRES.format(**values))
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self._start(
            _which("munged"), "--foreground", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid",
            f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        if not _until((folder / "munge.socket").exists):
            return f"munged does not start: {self._said('munged')}"
        self._start(_which("slurmctld"), "-D", "-f", f"{folder}/slurm.conf")
        self._start(_which("slurmd"), "-D", "-f", f"{folder}/slurm.conf", "-N", host)
        if not _until(lambda: self.ask("sinfo", "-h", "-o", "%t").strip() == "idle"):
            return (
                f"the node does not become idle: {self._said('slurmctld')} {self._said('slurmd')}"
            )
        return ""

    def _said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text(errors="replace")[-500:]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def _which(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    assert found is not None
    return found


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _until(holds, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.1)
    return False
