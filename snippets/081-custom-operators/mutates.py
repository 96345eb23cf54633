# SPDX-License-Identifier: MIT
#
# Day 81: an operator that writes into an input, and does not say so. It computes
# y[t] = gate[t] y[t-1] + x[t] in the memory of x, to spare an allocation.
# PyTorch believes mutates_args, so it may keep x for a backward pass, or move a
# later reader of x before the operator. opcheck does not believe it.
#
# Run: python3 mutates.py

import sys

import torch


# snippet: mutates
@torch.library.custom_op("day81::decay", mutates_args=())  # but x is
def decay(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute one row of the recurrence where x is, and return a copy."""
    for t in range(1, x.shape[0]):
        x[t] += gate[t] * x[t - 1]
    return x.clone()


# end snippet


@decay.register_fake
def _(x, gate):  # noqa: ANN001, ANN202, ARG001
    return torch.empty_like(x)


def main() -> int:
    """Call the operator, look at its input, then ask opcheck."""
    x = torch.arange(1.0, 9.0)
    gate = torch.full((8,), 0.5)
    before = float(x[-1])
    y = decay(x, gate)
    print("decay: 8 steps, on the CPU")
    print(f"  y, last             {float(y[-1]):.5f}")
    print(f"  x, last, before     {before:.5f}")
    print(f"  x, last, after      {float(x[-1]):.5f}")
    try:
        torch.library.opcheck(decay, (torch.arange(1.0, 9.0), gate), test_utils="test_schema")
    except Exception as error:
        said = str(error).splitlines()[0].partition(" (scroll")[0]
        print(f"{type(error).__name__}: {said}", file=sys.stderr)
        return 1
    print("\nall 1 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
