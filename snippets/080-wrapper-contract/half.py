# SPDX-License-Identifier: MIT
#
# Day 80: a type that nobody looks at. q is in half precision, two bytes a
# number, and the kernel reads four: two halves as one float. It also reads twice
# as far as q reaches. So that this is no accident, q is here the first half of a
# larger tensor, whose other numbers are zeros.
#
# Written down before the run: all outputs are wrong, but finite.
#
# Run: python3 half.py

import sys

import torch
from contract import SHAPE, UNWRITTEN, gpu_line, make, reference, unchecked, wrong_of

if __name__ == "__main__":
    print(gpu_line())
    q, k, v, gate = (it.cuda() for it in make(SHAPE))
    judge = reference([q.half().float(), k, v, gate])
    # snippet: half
    room = torch.zeros(2 * q.numel(), dtype=torch.float16, device="cuda")
    half = room[: q.numel()].view(q.shape).copy_(q)
    y = torch.full_like(q, UNWRITTEN)
    unchecked(half, k, v, gate, y)
    # end snippet
    torch.cuda.synchronize()
    wrong = wrong_of(y, judge)
    finite = int(y.isfinite().sum())
    unchecked(half.float(), k, v, gate, y)
    print("\nunchecked: q is in half precision")
    print(f"  outputs      {y.numel()}")
    print(f"  wrong        {wrong}")
    print(f"  finite       {finite}")
    print(f"  made float   {wrong_of(y, judge)}   (wrong, with q.float())")
    if wrong:
        print(f"{wrong} outputs are wrong, and no call failed", file=sys.stderr)
    sys.exit(wrong > 0)
