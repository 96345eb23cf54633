"""kill -9 at every step of a command that changes anything on a disk.

A library that is loaded before the C library counts the calls of one process that make,
write, rename, remove or flush a file, and kills it right before the n-th of them; of a
write it lets half through. Between two such calls nothing on the disk changes, so that
n = 1, 2, 3, … leaves every state that a kill can leave.

One process loads everything once and forks for each n: run as `python killing.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long limit = -1, count;
void fault_arm(long n) { limit = n; count = 0; }
long fault_count(void) { return count; }
static int due(void) { return limit >= 0 && ++count == limit; }
static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
#define STEP() do { if (due()) die(); } while (0)
#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (real == 0) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int changes(int flags) { return flags & (O_CREAT | O_TRUNC); }
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        REAL(int, #name, const char *, int, ...); \
        if (changes(flags)) STEP(); \
        return real(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        REAL(int, #name, int, const char *, int, ...); \
        if (changes(flags)) STEP(); \
        return real(folder, path, flags, mode); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

static int is_file(int handle) {
    struct stat about;
    return limit >= 0 && fstat(handle, &about) == 0 && S_ISREG(about.st_mode);
}
ssize_t write(int handle, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (is_file(handle) && due()) { real(handle, data, size / 2); die(); }
    return real(handle, data, size);
}
ssize_t pwrite64(int handle, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    if (is_file(handle) && due()) { real(handle, data, size / 2, at); die(); }
    return real(handle, data, size, at);
}
ssize_t sendfile64(int to, int from, off_t *at, size_t size) {
    REAL(ssize_t, "sendfile64", int, int, off_t *, size_t);
    if (is_file(to)) STEP();
    return real(to, from, at, size);
}
#define CALL(type, name, parameters, words) \
    type name parameters { \
        static type (*real) parameters; \
        if (real == 0) real = (type (*) parameters)dlsym(RTLD_NEXT, #name); \
        STEP(); \
        return real words; \
    }
CALL(int, rename, (const char *a, const char *b), (a, b))
CALL(int, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b))
CALL(int, unlink, (const char *a), (a))
CALL(int, unlinkat, (int x, const char *a, int f), (x, a, f))
CALL(int, rmdir, (const char *a), (a))
CALL(int, mkdir, (const char *a, mode_t m), (a, m))
CALL(int, mkdirat, (int x, const char *a, mode_t m), (x, a, m))
CALL(int, fsync, (int h), (h))
CALL(int, ftruncate64, (int h, off_t n), (h, n))
CALL(int, chmod, (const char *a, mode_t m), (a, m))
CALL(int, fchmod, (int h, mode_t m), (h, m))
CALL(int, fchmodat, (int x, const char *a, mode_t m, int f), (x, a, m, f))
"""


def library(folder: Path) -> Path:
    """Build the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a C compiler and Linux are needed to kill at every step")
    source, made = folder / "faults.c", folder / "faults.so"
    source.write_text(LIBRARY, encoding="utf-8")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"], check=True
    )
    return made


def every_step(library: Path, environ: dict[str, str], **job: Any) -> list[dict[str, Any]]:
    """Kill a command at every step; return what was found after each.

    Args:
        library: From `library`.
        environ: Where the tools are.
        job: See `_Server`.
    """
    import evidence

    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    done = subprocess.run(
        [sys.executable, __file__],
        env={**environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(paths)},
        input=json.dumps(job, default=str), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Server:
    """Forks for each step.

    A job has `root`, the project; `before`, what it must be like each time; `words`, the
    command line; `programs`, names; `target`, a bundle, or ""; and `gpu`, its identifier.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.root, self.before = Path(job["root"]), Path(job["before"])
        self.target = Path(job["target"]) if job["target"] else None
        # What the killed recorder started is ours to wait for.
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER

    def run(self) -> list[dict[str, Any]]:
        found = []
        number = 0
        while True:
            number += 1
            self.reset()
            status, said = self.command(number)
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0, said
                return found
            assert os.WTERMSIG(status) == signal.SIGKILL, (number, status, said)
            state = self.look()
            again, said = self.command(None)
            state |= {"step": number, "again": os.waitstatus_to_exitcode(again), "said": said}
            found.append(state | {"then": self.look(), "left": self.left()})

    def reset(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.before, self.root, symlinks=True)
        if self.target is not None and self.job["words"][0] == "record":
            self.target.unlink(missing_ok=True)
            shutil.rmtree(f"{self.target}.partial", ignore_errors=True)
            for left in self.target.parent.glob(".*.tmp"):
                left.unlink()

    def command(self, limit: int | None) -> tuple[int, str]:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(write, 1)
            os.dup2(write, 2)
            status = 99
            try:
                status = self.call(limit)
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            said = stream.read().decode()
        status = 0
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, ended = os.waitpid(-1, 0)
                status = ended if pid == child else status
        return status, said

    def call(self, limit: int | None) -> int:
        from dataclasses import replace

        import fake_cuda
        from evidence import cli
        from evidence.commands import record

        card = replace(fake_cuda.H200, uuid=self.job["gpu"])
        record.LocalGpu = lambda: fake_cuda.Gpu(card)  # type: ignore[assignment,misc]
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = sys.stdout
        if limit is not None:
            ctypes.CDLL(None).fault_arm(ctypes.c_long(limit))
        try:
            cli.main(["--project", str(self.root), *self.job["words"]])
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 98
        return 0

    def look(self) -> dict[str, Any]:
        """Return what each record is: `old`, `new`, `none`, or what is wrong with it."""
        from evidence import bundle, store
        from evidence.errors import EvidenceError

        words = []
        for name in self.job["programs"]:
            folder, _, stem = name.partition("/")
            path = Path("kernels") / folder / "evidence" / f"{stem}.h200.json"
            try:
                data = store.read(self.root / path).data if (self.root / path).exists() else None
            except EvidenceError as error:
                words.append(str(error))
                continue
            words.append("none" if data is None else str(data["runs"][0]["stdout"][0]))
            if (
                words[-1] == "old"
                and (self.root / path).read_bytes() != (self.before / path).read_bytes()
            ):
                words[-1] = "old but changed"
        whole: object = None
        if self.target is not None and self.target.exists():
            try:
                whole = len(bundle.read(self.target))
            except EvidenceError as error:
                whole = str(error)
        return {"records": words, "bundle": whole}

    def left(self) -> list[str]:
        """Return what a finished command must not leave behind."""
        from evidence import project, readme

        folders = [self.root] if self.target is None else [self.root, self.target.parent]
        found = [p for folder in folders for p in folder.rglob("*.tmp")]
        found += list((self.root / ".evidence/staging").glob("*"))
        if self.target is not None:
            found += list(self.target.parent.glob("*.partial"))
        # READMEs that are not as the records are.
        found += [Path(path) for path in readme.write_all(project.load(self.root))]
        return sorted(str(path) for path in found)


if __name__ == "__main__":
    print(json.dumps(_Server(json.load(sys.stdin)).run()))
