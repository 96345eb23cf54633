# SPDX-License-Identifier: MIT
#
# Day 80: strides that nobody looks at. q was made with heads in front of steps,
# as attention wants it, and is seen as (B, T, H, D) through transpose, which
# moves no data. Its shape is right, and its address is right.
#
# Written down before the run: nearly all outputs are wrong.
#
# Run: python3 transposed.py

import sys

import torch
from contract import SHAPE, UNWRITTEN, gpu_line, make, reference, unchecked, wrong_of

if __name__ == "__main__":
    print(gpu_line())
    q, k, v, gate = (it.cuda() for it in make(SHAPE))
    judge = reference([q, k, v, gate])
    # snippet: transposed
    heads_first = q.transpose(1, 2).contiguous()  # (B, H, T, D), in this order
    view = heads_first.transpose(1, 2)  # (B, T, H, D), and not a number has moved
    y = torch.full_like(q, UNWRITTEN)
    unchecked(view, k, v, gate, y)
    # end snippet
    torch.cuda.synchronize()
    wrong = wrong_of(y, judge)
    unchecked(view.contiguous(), k, v, gate, y)
    print("\nunchecked: q is a transposed view")
    print(f"  outputs          {y.numel()}")
    print(f"  wrong            {wrong}")
    print(f"  made contiguous  {wrong_of(y, judge)}   (wrong, with q.contiguous())")
    if wrong:
        print(f"{wrong} outputs are wrong, and no call failed", file=sys.stderr)
    sys.exit(wrong > 0)
