"""Whether the GPU still works: asked after a program that did not do what it must.

A GPU that is lost in the middle of a recording fails every program from then on. What
they do says nothing about them, so it must not be recorded. A small process of our own
asks the driver for a context, writes to memory and reads it back.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from evidence import runner
from evidence.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evidence.machine import Machine
    from evidence.model import Program
    from evidence.trial import Trial

TIMEOUT = 60.0  # seconds; making a context takes some on a host with many GPUs
_SCRIPT = """\
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit(0)  # no driver: nothing to ask
def call(name, *words):
    status = getattr(cuda, name)(*words)
    if status != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(text))
        print(f"{name}: {(text.value or b'error').decode()} ({status})")
        raise SystemExit(1)
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
back = (ctypes.c_uint32 * 1024)()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
call("cuMemsetD32_v2", memory, ctypes.c_uint32(0x5EED5EED), ctypes.c_size_t(1024))
call("cuCtxSynchronize")
call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(4096))
if set(back) != {0x5EED5EED}:
    print("its memory does not hold what was written to it")
    raise SystemExit(1)
call("cuMemFree_v2", memory)
"""


def ask(machine: Machine) -> str:
    """Return what is wrong with a machine's GPU; "" if it works or there is no driver."""
    words = (sys.executable, "-I", "-c", _SCRIPT)
    done = runner.run(runner.task(words, {}, timeout=TIMEOUT, environment=machine.environment))
    if done.exit_status == 0:
        return ""
    if done.timed_out:
        return f"it did not answer for {TIMEOUT:.0f} s"
    return done.stdout[0] if done.stdout else f"asking it {done.ended()}"


def doubtful(trial: Trial, reasons: Sequence[str]) -> bool:
    """Whether what happened might be the GPU's doing.

    On a GPU that is lost nothing succeeds any more, so that what ends well proves
    that it was there. A mutant that was rejected is a program that failed.
    """
    checked = any(
        found.status not in ("clean", "not-requested") for found in trial.sanitizers.values()
    )
    profiled = trial.profile.status not in ("recorded", "not-requested")
    return bool(reasons) or checked or profiled or bool(trial.mutants)


def require(machine: Machine, program: Program) -> None:
    """Refuse to record what a program did on a GPU that no longer works.

    Raises:
        MachineError: It does not.
    """
    wrong = ask(machine)
    if wrong:
        raise MachineError(
            f"{machine.device.name} stopped working while {program.name} was recorded: {wrong}; "
            "nothing was recorded of this program, what was done before is kept",
            path=program.relative, line=program.run.line,
            fix="see nvidia-smi, reset the GPU or restart the machine, then run the same command",
        )  # fmt: skip
