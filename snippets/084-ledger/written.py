# SPDX-License-Identifier: MIT
#
# Ledger: what was written down of the recurrence (day 84), run as it is
# written. All of it in double precision, at B = 2, T = 128, H = 4, D = 24.
#
#   shapes     the gate of a step is gate[:, t].unsqueeze(-2). Is that
#              (B, 1, H, D)? And does the state, (B, H, D, D), take it?
#   a step     y of step t from gate, k and v of step t - 1, beside the loop
#   unrolled   y as one sum over all steps so far, each times the product of
#              the gates since, beside the loop
#
# The gate of the program: the loop takes the gate as it is, and not in the
# shape that was claimed; unrolled and loop differ by rounding only.
#
# Predicted: the shape is (B, H, 1, D); a step late differs as much as two
# unrelated answers do; unrolled differs in the last digits.
#
# Run: python3 written.py

import sys

import torch

BATCH, STEPS, HEADS, DIM = 2, 128, 4, 24
# Of a double, times the steps that a term can be old, times the terms.
ROUNDING = 2.0**-53 * 2 * STEPS * STEPS * DIM


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k, v and the gate; the gates are sigmoids."""
    random = torch.Generator().manual_seed(84)
    shape = (4, BATCH, STEPS, HEADS, DIM)
    q, k, v, x = torch.randn(shape, generator=random, dtype=torch.float64)
    return q, k, v, torch.sigmoid(x)


def loop(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor, late: int
) -> torch.Tensor:
    """Return y, step after step; `late` steps behind, if it is not 0."""
    # snippet: loop
    state = torch.zeros(BATCH, HEADS, DIM, DIM, dtype=q.dtype)
    rows = []
    for t in range(STEPS):
        s = t - late
        if s >= 0:
            outer = k[:, s].unsqueeze(-1) * v[:, s].unsqueeze(-2)
            state = state * gate[:, s].unsqueeze(-2) + outer
        rows.append((q[:, t].unsqueeze(-1) * state).sum(-2))
    # end snippet
    return torch.stack(rows, 1)


def unrolled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Return y; each step's is a sum over all steps so far."""
    # snippet: unrolled
    rows = []
    for t in range(STEPS):
        row = torch.zeros_like(v[:, 0])
        since = torch.ones_like(v[:, 0])  # the product of the gates after s
        for s in range(t, -1, -1):
            score = (q[:, t] * k[:, s]).sum(-1, keepdim=True)
            row = row + score * v[:, s] * since
            since = since * gate[:, s]
        rows.append(row)
    # end snippet
    return torch.stack(rows, 1)


def takes(state: torch.Tensor, gate: torch.Tensor) -> bool:
    """Return whether a state can be multiplied by a gate of this shape."""
    try:
        return (state * gate).shape == state.shape
    except RuntimeError:
        return False


def main() -> int:
    """Print what each form comes to; return the exit status."""
    torch.set_num_threads(1)
    q, k, v, gate = inputs()
    state = torch.zeros(BATCH, HEADS, DIM, DIM, dtype=q.dtype)
    got = gate[:, 0].unsqueeze(-2)
    claimed = gate[:, 0].unsqueeze(1)  # (B, 1, H, D)
    print("shapes: of the gate of a step, with .unsqueeze(-2)")
    print("  axis    claimed   got")
    for axis in range(4):
        print(f"  {axis}       {claimed.shape[axis]:7d}  {got.shape[axis]:4d}")
    fits, claimed_fits = takes(state, got), takes(state, claimed)
    print("\nbroadcast: the state takes a gate of the shape")
    print(f"  got       {fits:d}")
    print(f"  claimed   {claimed_fits:d}")

    y = loop(q, k, v, gate, late=0)
    late = (loop(q, k, v, gate, late=1) - y).abs().max().item()
    apart = (unrolled(q, k, v, gate) - y).abs().max().item()
    largest = y.abs().max().item()
    print("\nforms: largest difference from the loop")
    print(f"  largest y     {largest:.1f}")
    print(f"  a step late   {late:.1f}")
    print(f"  unrolled      {apart:.1e}")
    if not fits or claimed_fits or not apart <= ROUNDING * largest:
        print("one of the forms is not what it must be", file=sys.stderr)
        return 1
    print("\nall 3 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
