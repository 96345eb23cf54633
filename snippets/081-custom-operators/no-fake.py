# SPDX-License-Identifier: MIT
#
# Day 81: an operator without a fake kernel, under torch.compile. The compiler
# does not run an operator to see what comes out of it: it asks the fake kernel
# for the shape and type. Here there is none to ask.
#
# The operator is one row of the recurrence, y[t] = gate[t] y[t-1] + x[t], by a
# loop that PyTorch cannot look into. It needs no GPU, and neither does the error.
#
# Run: python3 no-fake.py

import re
import sys

import torch


# snippet: no-fake
@torch.library.custom_op("day81::decay", mutates_args=())
def decay(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute y[t] = gate[t] y[t-1] + x[t]."""
    last, rows = 0.0, []
    for one, by in zip(x.tolist(), gate.tolist(), strict=True):
        last = by * last + one
        rows.append(last)
    return torch.tensor(rows, dtype=x.dtype)


# end snippet


def main() -> int:
    """Call the operator as it is, then compiled."""
    x = torch.arange(1.0, 9.0)
    gate = torch.full((8,), 0.5)
    print("decay: 8 steps, on the CPU")
    print(f"  last of y   {float(decay(x, gate)[-1]):.5f}   (called)")
    compiled = torch.compile(lambda x: decay(x, gate) * 2.0, fullgraph=True, backend="eager")
    try:
        y = compiled(x)
    except Exception as error:
        said = re.search(r"There was no fake impl[^.]*\.", str(error))
        print(f"{type(error).__name__}: {said.group() if said else error}", file=sys.stderr)
        return 1
    print(f"  last of y   {float(y[-1]):.5f}   (compiled, and twice as much)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
