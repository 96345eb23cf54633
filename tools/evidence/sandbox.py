"""bubblewrap around programs and compilers whose source is a stranger's.

Inside there is no network, no other process, no home, no tree and no secret:
the system's libraries and the GPU's device files, read-only copies of the
program's own files, and a folder in memory. The user is nobody.

Started by root, bubblewrap uses root's rights and the program loses them;
started by anybody else, it uses a user namespace. What a program may use up is
held by limits of the kernel, by the size of its folder, and by `pipes.Reader`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evidence import runner, seccomp
from evidence.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evidence.runner import Launch, RunResult, Task

NOBODY = 65534
WORK, HOME = "/tmp/work", "/tmp/home"  # noqa: S108 - a folder of the sandbox's own
INSTALL = "install it: apt-get install bubblewrap"
ALLOW = (
    "run as root, or let users make namespaces: "
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 kernel.unprivileged_userns_clone=1"
)

_LEAST = (0, 7)  # the first with --size
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives")
_HARDWARE = ("bus", "class", "dev", "devices")
_MORE = ("/opt/nvidia", "/nix/store", "/run/opengl-driver")
_GIB = 2**30
# What a compiler may know of the recorder's environment.
_COMPILER = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME")
_OUTSIDE = "/usr/sbin:/usr/bin:/sbin:/bin"


def _half() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What a stranger's process may use.

    Attributes:
        seconds: For one process run or one compilation, whatever the plan says.
        output: Bytes on each stream.
        memory: Bytes in memory: of one process by the kernel, of all by the reader.
        processes: Processes and threads of the user.
        space: Bytes in the private folder, which lies in memory.
        shared: Bytes in `/dev/shm`.
        file: Bytes of one file.
    """

    seconds: float = 600.0
    output: int = 4_000_000
    memory: int = field(default_factory=lambda: min(32 * _GIB, _half()))
    processes: int = 1024
    space: int = _GIB
    shared: int = _GIB // 4
    file: int = _GIB // 4


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A bubblewrap that works.

    Attributes:
        version: Its version.
        tools: Name → path of bubblewrap and of what it is used with.
        reads: Folders besides the system's that may be read.
        limits: What may be used up.
        root: Whether root starts it.
    """

    version: str
    tools: Mapping[str, str]
    reads: tuple[str, ...]
    limits: Limits
    root: bool

    @property
    def isolation(self) -> str:
        """Return what a record says about it."""
        return f"bubblewrap {self.version}"

    def run(self, todo: Task) -> RunResult:
        """Run a task inside."""
        return runner.run(todo, self)

    def bounded(self, todo: Task) -> Task:
        """Return a task that asks for no more than the limits give."""
        limits = self.limits
        return replace(
            todo,
            timeout=min(todo.timeout, limits.seconds),
            max_bytes=min(todo.max_bytes, limits.output),
        )

    def launch(self, todo: Task, work: Path, environment: Mapping[str, str]) -> Launch:
        """Return how to start a task whose files lie in a folder."""
        words = [*self._view(), *_variables(environment)]
        for name in dict.fromkeys((*todo.files, *todo.keep)):
            path = work / name
            for parent in reversed(Path(name).parents[:-1]):
                words += ["--perms", "0777", "--dir", f"{WORK}/{parent}"]
            if name in todo.keep:
                path.touch()
                path.chmod(0o666)
            else:
                mode = path.stat().st_mode
                path.chmod(mode | (0o555 if mode & 0o100 else 0o444))
            words += ["--bind" if name in todo.keep else "--ro-bind", str(path), f"{WORK}/{name}"]
        calls = os.memfd_create("calls", 0)
        os.write(calls, seccomp.program())
        os.lseek(calls, 0, os.SEEK_SET)
        words += ["--remount-ro", "/", "--chdir", WORK, "--seccomp", str(calls), "--"]
        return runner.Launch(
            (*words, *self._limited(), *todo.words), {"PATH": _OUTSIDE}, (WORK, HOME),
            memory=self.limits.memory, wrapped=True, handles=(calls,),
        )  # fmt: skip

    def step(self, root: Path, folder: str, output: str, command: Sequence[str]) -> tuple[str, ...]:
        """Return the words that compile inside: the tree can be read, one folder written.

        Args:
            root: The project's folder.
            folder: The compiler's working directory, relative to it.
            output: What is written, relative to it.
            command: The compiler's words.
        """
        target = str((root / output).parent)
        variables = {name: os.environ[name] for name in _COMPILER if name in os.environ}
        words = [self.tools["env"], "-i", f"PATH={_OUTSIDE}"]
        # Killed, not asked: 137 is no compiler's own exit status.
        words += [self.tools["timeout"], "--foreground", "--signal=KILL", f"{self.limits.seconds}"]
        words += [*self._view(), *_variables({**variables, **runner.FIXED})]
        words += [*_bound([str(root)]), *_hidden(root), "--bind", target, target]
        words += ["--remount-ro", "/", "--chdir", str(root / folder), "--", *self._limited()]
        return (*words, *command)

    def give(self, folders: Iterable[Path]) -> None:
        """Make folders that a compiler inside can write into."""
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            if self.root:
                os.chown(folder, NOBODY, NOBODY)

    def _view(self) -> list[str]:
        """Return the words of everything that does not depend on what is run."""
        words = [self.tools["choom"], "-n", "1000", "--", self.tools["bwrap"]]
        words += ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net"]
        words += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
        if self.root:
            words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        else:
            words += ["--unshare-user", "--uid", f"{NOBODY}", "--gid", f"{NOBODY}"]
        words += ["--clearenv", *_system(), "--proc", "/proc", "--dev", "/dev"]
        for device in (*sorted(Path("/dev").glob("nvidia*")), Path("/dev/dxg")):
            words += ["--dev-bind-try", str(device), str(device)]
        words += ["--perms", "1777", "--size", f"{self.limits.shared}", "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--remount-ro", "/dev"]
        words += ["--perms", "1777", "--size", f"{self.limits.space}", "--tmpfs", "/tmp"]  # noqa: S108
        for folder in (WORK, HOME):
            words += ["--perms", "0777", "--dir", folder]
        return [*words, *_bound(self.reads)]

    def _limited(self) -> list[str]:
        """Return the words between bubblewrap and the program."""
        limits = self.limits
        words = [self.tools["prlimit"], f"--nproc={limits.processes}", f"--data={limits.memory}"]
        words += [f"--fsize={limits.file}", "--core=0", "--"]
        if self.root:
            words += [self.tools["setpriv"], f"--reuid={NOBODY}", f"--regid={NOBODY}"]
            words += ["--clear-groups", "--inh-caps=-all", "--no-new-privs", "--"]
        return words


def _system() -> Iterator[str]:
    for path in _SYSTEM:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        else:
            yield from ("--ro-bind-try", path, path)
    more = [f"/etc/{name}" for name in _SETTINGS] + [f"/sys/{name}" for name in _HARDWARE]
    yield from _bound([path for path in (*more, *_MORE) if Path(path).exists()])


def _bound(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        # bubblewrap itself would make the folders above for their owner alone.
        for parent in reversed(Path(path).parents[:-1]):
            yield from ("--perms", "0755", "--dir", str(parent))
        yield from ("--ro-bind", path, path)


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in {**environment, "HOME": HOME, "TMPDIR": HOME}.items():
        yield from ("--setenv", name, value)


def _hidden(root: Path) -> tuple[str, ...]:
    # A checkout's own configuration may hold the token that it was made with.
    git = root / ".git"
    if git.is_dir():
        return ("--tmpfs", str(git), "--remount-ro", str(git))
    return ("--ro-bind", os.devnull, str(git)) if git.exists() else ()


def find(programs: Iterable[Path] = (), limits: Limits | None = None) -> Sandbox:
    """Find bubblewrap and try it.

    Args:
        programs: The compiler and tools of which the folders can be read inside.
        limits: What may be used up, instead of the usual.

    Raises:
        ToolchainError: There is none, or it does not work.
    """
    if not hasattr(os, "geteuid") or not hasattr(os, "memfd_create"):
        raise ToolchainError("no sandbox on this machine: it is no Linux", fix="record on Linux")
    tools = {}
    seccomp.program()  # refuses a processor that it does not know
    for name in ("bwrap", "choom", "prlimit", "setpriv", "timeout", "env"):
        path = shutil.which(name)
        if path is None:
            fix = INSTALL if name == "bwrap" else "install util-linux and coreutils"
            raise ToolchainError(f"no sandbox on this machine: {name} is not installed", fix=fix)
        tools[name] = path
    version = _version(tools["bwrap"])
    found = Sandbox(
        version, tools, tuple(_readable(programs)), limits or Limits(), os.geteuid() == 0
    )
    _try(found)
    _wake()
    return found


def _version(bwrap: str) -> str:
    done = subprocess.run([bwrap, "--version"], capture_output=True, check=False, encoding="utf-8")
    match = re.search(r"\d+(?:\.\d+)+", done.stdout)
    version = match.group() if match else "of no known version"
    if not match or tuple(map(int, version.split(".")))[:2] < _LEAST:
        raise ToolchainError(
            f"no sandbox on this machine: bubblewrap is {version}, and 0.7 is needed", fix=INSTALL
        )
    return version


def _try(found: Sandbox) -> None:
    done = found.run(runner.task(("/usr/bin/id", "-u"), {}, timeout=30))
    if done.stdout != (str(NOBODY),):
        said = (*done.stderr, *done.problems, done.ended())[0]
        raise ToolchainError(f"no sandbox on this machine: bubblewrap says: {said}", fix=ALLOW)


def _wake() -> None:
    # The driver makes this device file when it is first used, and only root can.
    wake = shutil.which("nvidia-modprobe")
    if wake and Path("/dev/nvidiactl").exists() and not Path("/dev/nvidia-uvm").exists():
        subprocess.run([wake, "-u", "-c", "0"], check=False, capture_output=True)


def _readable(programs: Iterable[Path]) -> list[str]:
    """Return the folders of Python, of this tool, of the CUDA tools and of what the user added."""
    # This folder holds what runs a notebook.
    folders = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent]
    both = [path for program in programs for path in (program, program.resolve())]
    folders += [path.parent.parent if path.parent.name == "bin" else path.parent for path in both]
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        folders += [
            Path(p) for p in os.environ.get(name, "").split(os.pathsep) if p.startswith("/")
        ]
    home = Path.home()
    made: list[str] = []
    for folder in sorted(set(folders)):
        # Never the whole of a home, nor of what holds one.
        if home.is_relative_to(folder) or folder.is_relative_to("/usr"):
            continue
        if os.access(folder, os.R_OK | os.X_OK):
            made.append(str(folder))
    return made
