# SPDX-License-Identifier: MIT
#
# Day 80: a launch that nobody asks about. The kernel for any D keeps a state of
# D x D numbers and two rows in shared memory, 4 D (D + 2) bytes. A block gets 48
# KiB unless it asks for more, so at D = 110 the launch is refused. The C function
# returns nothing, and its own copy of the CUDA runtime keeps the error.
#
# y is filled before, here with a number. In a wrapper it comes from torch.empty
# and holds whatever was there: with luck the right answer of the call before.
#
# Written down before the run: D = 109 is right, of D = 110 nothing is written,
# and PyTorch finds no error.
#
# Run: python3 unasked.py

import sys

import torch
from contract import UNWRITTEN, gpu_line, make, reference, unchecked, wrong_of

DIMS = (64, 109, 110, 128)

if __name__ == "__main__":
    print(gpu_line())
    print(f"\nunchecked: B = 1, T = 16, H = 2, y filled with {UNWRITTEN:.0f} before")
    print("  case     shared (B)  outputs  unwritten  wrong")
    lost = 0
    for dim in DIMS:
        shape = (1, 16, 2, dim)
        inputs = make(shape)
        # snippet: unasked
        y = torch.full(shape, UNWRITTEN, device="cuda")
        unchecked(*[it.cuda() for it in inputs], y)
        torch.cuda.synchronize()  # raises, if there is an error
        # end snippet
        torch.ones(1, device="cuda").add_(1)  # and so would a launch of PyTorch's own
        unwritten = int((y == UNWRITTEN).sum())
        wrong = wrong_of(y, reference(inputs))
        lost += unwritten
        shared = 4 * dim * (dim + 2)
        print(f"  D = {dim:<3d}  {shared:10d}  {y.numel():7d}  {unwritten:9d}  {wrong:5d}")
    if lost:
        print(f"{lost} outputs were never written, and no call failed", file=sys.stderr)
    sys.exit(lost > 0)
