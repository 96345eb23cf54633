# SPDX-License-Identifier: MIT
#
# Day 81: a backward pass that forgets one input. The recurrence of one row,
#
#   y[t] = gate[t] y[t-1] + x[t]
#
# has two gradients, by x and by gate. This operator returns the first, which is
# right, and None for the second. Nothing complains: None says that y does not
# depend on the gates, and training goes on, with gates that never learn. Only a
# comparison with what small changes of the inputs do to y can tell.
#
# Run: python3 forgets-gate.py

import sys

import torch
from torch.autograd.gradcheck import GradcheckError


def walk(x: list[float], gate: list[float]) -> list[float]:
    """Return y[t] = gate[t] y[t-1] + x[t]."""
    rows: list[float] = []
    for one, by in zip(x, gate, strict=True):
        rows.append(by * (rows[-1] if rows else 0.0) + one)
    return rows


@torch.library.custom_op("day81::decay", mutates_args=())
def decay(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute one row of the recurrence."""
    return torch.tensor(walk(x.tolist(), gate.tolist()), dtype=x.dtype)


def setup_context(ctx, inputs, output):  # noqa: ANN001, ANN201, ARG001, D103
    ctx.save_for_backward(inputs[1])


# snippet: forgets
def backward(ctx, dy):  # noqa: ANN001, ANN201
    """Return the gradient by x; the adjoint is the recurrence from the last step on."""
    (gate,) = ctx.saved_tensors
    later = [0.0, *gate.tolist()[:0:-1]]
    adjoint = walk(dy.tolist()[::-1], later)[::-1]
    return torch.tensor(adjoint, dtype=dy.dtype), None


# end snippet

decay.register_autograd(backward, setup_context=setup_context)


def main() -> int:
    """Let autograd differentiate, then let gradcheck judge."""
    source = torch.Generator().manual_seed(81)
    x, gate = (torch.rand(6, generator=source, dtype=torch.float64) for _ in range(2))
    x.requires_grad_()
    gate.requires_grad_()
    decay(x, gate).sum().backward()
    print("gradients: of the sum of 6 steps, on the CPU")
    print(f"  by x[5]      {float(x.grad[5]):.4f}")
    print(f"  by x[0]      {float(x.grad[0]):.4f}")
    print(f"  gate         {gate.grad}")
    try:
        torch.autograd.gradcheck(decay, (x, gate))
    except GradcheckError as error:
        print("gradcheck:", str(error).splitlines()[0].rstrip(","), file=sys.stderr)
        return 1
    print("\nall 1 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
