"""The system calls that a stranger's program does not get.

A process in a user namespace of its own may mount a folder in memory without a
size, so that no limit on its private folder would hold. No namespace, no mount,
no key of the kernel's keyring and no loading of code into the kernel is anything
that a CUDA program needs. Everything else is let through.

The filter is a program for the kernel's classic BPF machine, as bubblewrap takes it.
"""

from __future__ import annotations

import errno
import platform
import struct

from evidence.errors import ToolchainError

# Names → numbers, from the kernel's tables of system calls.
_COMMON = {
    "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip
_REFUSED = {
    "x86_64": {
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
        "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, **_COMMON,
    },
    "aarch64": {
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41,
        "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, **_COMMON,
    },
}  # fmt: skip
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435  # its flags lie in memory, where no filter can look: libraries then use clone
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_USER = 0x10000000
_X32 = 0x40000000  # set in the numbers of x86-64's second table

_LOAD, _EQUAL, _SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCH, _FIRST = 0, 4, 16  # offsets of what the kernel gives the filter
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def program(machine: str | None = None) -> bytes:
    """Return the filter for a kind of processor.

    Args:
        machine: As `uname -m` names it; this machine's by default.

    Raises:
        ToolchainError: Its system calls are not known here.
    """
    machine = machine or platform.machine()
    if machine not in _REFUSED:
        known = ", ".join(_REFUSED)
        raise ToolchainError(
            f"no sandbox on this machine: it is {machine}, known are {known}",
            fix="record on another machine",
        )
    lines = [
        _line(_LOAD, _ARCH),
        # A program of another architecture has other numbers.
        _line(_EQUAL, _ARCHITECTURE[machine], 1, 0), _error(errno.ENOSYS),
        _line(_LOAD, _NUMBER),
        _line(_SET, _X32, 0, 1), _error(errno.ENOSYS),
        _line(_EQUAL, _CLONE3, 0, 1), _error(errno.ENOSYS),
    ]  # fmt: skip
    for number in _REFUSED[machine].values():
        lines += [_line(_EQUAL, number, 0, 1), _error(errno.EPERM)]
    lines += [
        _line(_EQUAL, _CLONE[machine], 0, 3), _line(_LOAD, _FIRST), _line(_SET, _NEW_USER, 0, 1),
        _error(errno.EPERM), _line(_RETURN, _ALLOW),
    ]  # fmt: skip
    return b"".join(lines)


def _line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _error(number: int) -> bytes:
    return _line(_RETURN, _ERROR | number)
