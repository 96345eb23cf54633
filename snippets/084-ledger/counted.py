# SPDX-License-Identifier: MIT
#
# Ledger: what the recurrence (day 84) does and moves, counted while it is done.
# One head runs through the obvious loop, on numbers that count every multiply
# and add, and rows that note which of their elements were touched. The others
# do the same, so B * H times it is everything.
#
# The rest is arithmetic on these counts: what they would take at a rate of
# memory that was claimed, beside the times that were claimed.
#
# The gate: the counts are those of the formulas 5 D^2 T and 5 T D, y is what
# plain numbers give, and nothing was touched that is not there.
#
# Run: python3 counted.py

import sys
from dataclasses import dataclass, field

BATCH, STEPS, HEADS, DIM = 2, 128, 4, 24
BYTES = 4  # of an FP32 number
RATE = 3.35e12  # bytes in a second, as it was claimed
SECTOR = 32  # bytes, the least that memory is read in
PERIOD = 10007  # a prime: no two rows are alike


@dataclass
class Counts:
    """What was done so far."""

    multiplies: int = 0
    adds: int = 0
    updates: int = 0


COUNTS = Counts()


@dataclass(frozen=True)
class Number:
    """A number that counts what is done with it."""

    value: float

    def __mul__(self, other: "Number") -> "Number":
        COUNTS.multiplies += 1
        return Number(self.value * other.value)

    def __add__(self, other: "Number") -> "Number":
        COUNTS.adds += 1
        return Number(self.value + other.value)


@dataclass
class Rows:
    """T rows of D numbers that note which of them were touched."""

    values: list[list[float]]
    touched: set[tuple[int, int]] = field(default_factory=set)

    def get(self, t: int, j: int) -> Number:
        """Return a number, and note it."""
        self.touched.add((t, j))
        return Number(self.values[t][j])

    def put(self, t: int, j: int, number: Number) -> None:
        """Write a number, and note it."""
        self.touched.add((t, j))
        self.values[t][j] = number.value


def rows(which: int) -> Rows:
    """Return rows without symmetry; the gates, which = 3, are in (0, 1)."""
    lift = 0.0 if which < 3 else 0.5
    stride = 2579 + 346 * which
    return Rows(
        [
            [((t * DIM + j + which) * stride % PERIOD) / PERIOD - 0.5 + lift for j in range(DIM)]
            for t in range(STEPS)
        ]
    )


def head(q: Rows, k: Rows, v: Rows, gate: Rows, y: Rows) -> None:
    """Compute y of one head."""
    # snippet: head
    state = [[Number(0.0) for _ in range(DIM)] for _ in range(DIM)]
    for t in range(STEPS):
        for j in range(DIM):
            total = Number(0.0)
            for i in range(DIM):
                outer = k.get(t, i) * v.get(t, j)
                state[i][j] = gate.get(t, j) * state[i][j] + outer
                total = total + q.get(t, i) * state[i][j]
                COUNTS.updates += 1
            y.put(t, j, total)
    # end snippet


def plain(q: Rows, k: Rows, v: Rows, gate: Rows) -> list[list[float]]:
    """Return the same y from plain numbers, column after column."""
    y = [[0.0] * DIM for _ in range(STEPS)]
    for j in range(DIM):
        column = [0.0] * DIM
        for t in range(STEPS):
            for i in range(DIM):
                kept = gate.values[t][j] * column[i]
                column[i] = kept + k.values[t][i] * v.values[t][j]
                y[t][j] += q.values[t][i] * column[i]
    return y


def main() -> int:
    """Count, and print; return the exit status."""
    arrays = [rows(which) for which in range(4)]
    y = Rows([[0.0] * DIM for _ in range(STEPS)])
    head(*arrays, y)
    heads = BATCH * HEADS
    work = COUNTS.multiplies + COUNTS.adds
    floats = sum(len(array.touched) for array in (*arrays, y))
    size = heads * floats * BYTES
    print(f"one head: T = {STEPS}, D = {DIM}")
    print(f"  multiplies         {COUNTS.multiplies}")
    print(f"  adds               {COUNTS.adds}")
    print(f"  work               {work} FLOP")
    print(f"  work of a thread   {work // DIM} FLOP")
    print(f"  as claimed         {4 * DIM * STEPS} FLOP   (4 D T)")
    print(f"\nall heads: B = {BATCH}, H = {HEADS}")
    print(f"  updates            {heads * COUNTS.updates}")
    print(f"  work               {heads * work} FLOP")
    print(f"  bytes              {size} B   (four arrays read, one written)")
    print(f"  intensity          {heads * work / size:.2f} FLOP/B")
    print(f"  as claimed         {heads * 4 * DIM * STEPS / size:.2f} FLOP/B")
    sectors = heads * len(y.touched) * BYTES // SECTOR
    threads_reads = STEPS * DIM
    print("\nmemory time: at 3.35 TB/s")
    print(f"  all bytes               {1e9 * size / RATE:.1f} ns")
    print(f"  transactions            {threads_reads}   (T D, as claimed)")
    print(f"  time of transactions    {1e6 * threads_reads * SECTOR / RATE:.5f} µs")
    print(f"  sectors of one array    {sectors}")
    right = (
        work == 5 * DIM * DIM * STEPS and floats == 5 * STEPS * DIM and y.values == plain(*arrays)
    )
    if not right:
        print("the counts or y are not what they must be", file=sys.stderr)
        return 1
    print("\nall 1 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
