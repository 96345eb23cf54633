# SPDX-License-Identifier: MIT
#
# Day 80: a device that nobody looks at. q is on the CPU. Its address is one of
# the host's memory, and the kernel is given it as if it were one of the GPU's.
# What that means is up to the machine: where the GPU can read the host's pages
# as they are, a right answer, otherwise an error.
#
# Written down before the run: an illegal memory access, found by whoever waits
# for the GPU next, and no other call works after it.
#
# Run: python3 cpu.py

import ctypes
import sys

import torch
from contract import SHAPE, UNWRITTEN, gpu_line, make, reference, unchecked, wrong_of

PAGEABLE = 88  # CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS


def reads_host_pages() -> int:
    """Ask the driver whether the GPU can read any page of the host."""
    found = ctypes.c_int(-1)
    ctypes.CDLL("libcuda.so.1").cuDeviceGetAttribute(ctypes.byref(found), PAGEABLE, 0)
    return found.value


def first_line(error: Exception) -> str:
    """Return what an error says, without advice."""
    return str(error).splitlines()[0]


def main() -> int:
    """Hand a host's address to the GPU; say who finds out."""
    print(gpu_line())
    print(f"  host pages readable   {reads_host_pages()}")
    q, k, v, gate = (it.cuda() for it in make(SHAPE))
    judge = reference([q, k, v, gate])
    y = torch.full_like(q, UNWRITTEN)
    torch.cuda.synchronize()
    # snippet: cpu
    unchecked(q.cpu(), k, v, gate, y)
    # end snippet
    print("\nunchecked: q is on the CPU")
    print("  the call       returns")
    try:
        torch.cuda.synchronize()
        print("  synchronize    returns")
        print(f"  outputs        {y.numel()}")
        wrong = wrong_of(y, judge)
        print(f"  wrong          {wrong}")
    except RuntimeError as error:
        print(f"  synchronize    {first_line(error)}")
        try:
            torch.zeros(1, device="cuda")
            print("  another call   returns")
        except RuntimeError as later:
            print(f"  another call   {first_line(later)}")
        print("the process has lost the GPU", file=sys.stderr)
        return 1
    print("a slow way to be right, if it is right", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
