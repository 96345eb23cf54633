# SPDX-License-Identifier: MIT
#
# Day 83: the same kernel in Triton. The gated recurrence of day 84, FP32, at
# B=2, T=128, H=4, D=24, in two languages:
#
#   founding  day 84's kernel in CUDA: a block per head, a thread per column
#   pairs     the fastest of day 87, in CUDA
#   steps     Triton: a program per head, the state a 32 x 32 block of which 24 x
#             24 are used, one step after the other; a warp per program
#   narrow    the same, four columns a program
#   ahead     narrow, with the loads of the loop in a pipeline of four stages
#   scan      a program per column; 32 steps are loaded as a block, and
#             tl.associative_scan makes all their states at once
#
# The CUDA kernels are those of ladder.cu, which lies beside this file: its text
# from the top to "// --- Paths" is compiled here, with a plain C interface.
#
# The gate is day 84's, computed with numpy in double precision: an error of at
# most 4 u sqrt(depth) times the sum of the absolute terms. Results are NaN before
# every run.
#
# "compiled" says what the compiler made of each Triton kernel, from its own
# record and by counting in its own text: conversions of layout in Triton's GPU
# language; shuffles, barriers and asynchronous copies in PTX. "variants" is how
# often it compiled a kernel for the three shapes here. "layouts" is how it dealt
# out blocks of two and three dimensions: step, row, column.
#
# Times are device times of a chain: the slope between a short and a long graph
# of launches, all data in L2 after the first of them. "returns" is what a call
# costs the host, "first call" that and all compiling.
#
# Written down before the run, microseconds: founding 35, pairs 2.9, as on day
# 87; steps 45, narrow 40, ahead 25, scan 8. A program of Triton has no barrier
# in its loop if it is one warp. A call of Triton costs the host three times what
# one through ctypes does.
#
# Run: python3 intriton.py

# ruff: noqa: ANN001, ANN201, N803 - Triton's functions have types of their own

import ctypes
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

# --- Shapes -----------------------------------------------------------------

FOUNDING = (2, 128, 4, 24)
SHAPES = ((1, 131, 3, 24), (1, 131, 2, 40), FOUNDING)  # T no multiple of a tile
TILE = 32  # steps that scan has at a time
STAGES = 4  # of the pipeline of ahead

# --- Cases ------------------------------------------------------------------

GATES = ("sigmoid", "near one", "one", "near zero", "zeros")
SHIFT = 4.0  # sigmoid(x + 4) is near one
ZERO_PERIOD = 7  # of the steps whose gates are zero

# --- Tolerance --------------------------------------------------------------

UNIT = 2.0**-24  # u: the most that a rounding is off
SAFETY = 4.0

# --- Timing -----------------------------------------------------------------

REPEATS = 11  # odd: the median is one of the samples
WARMUPS = 2
LENGTHS = (20, 120)  # launches in a short and in a long graph
CALLS = 200  # in a row, by the host's clock

# --- Kernels ----------------------------------------------------------------


# A program has COLS columns of one head's state, and does step after step. Sizes
# are powers of two: what is beyond DIM is masked, and computed all the same.
# snippet: steps
@triton.jit
def steps_kernel(q, k, v, gate, y, steps, heads, DIM: tl.constexpr, ROWS: tl.constexpr,
                 COLS: tl.constexpr, AHEAD: tl.constexpr):  # fmt: skip
    """Compute the recurrence step by step."""
    i = tl.arange(0, ROWS)
    j = tl.program_id(0) * COLS + tl.arange(0, COLS)
    row = heads * DIM
    at = tl.program_id(1) // heads * steps * row + tl.program_id(1) % heads * DIM
    state = tl.zeros((ROWS, COLS), tl.float32)
    for _ in tl.range(0, steps, num_stages=AHEAD):
        own_k = tl.load(k + at + i, mask=i < DIM, other=0.0)
        own_q = tl.load(q + at + i, mask=i < DIM, other=0.0)
        value = tl.load(v + at + j, mask=j < DIM, other=0.0)
        g = tl.load(gate + at + j, mask=j < DIM, other=0.0)
        state = g[None, :] * state + own_k[:, None] * value[None, :]
        tl.store(y + at + j, tl.sum(own_q[:, None] * state, axis=0), mask=j < DIM)
        at += row


# end snippet


# snippet: combine
@triton.jit
def combine(gate0, added0, gate1, added1):
    """Put two neighbouring stretches of steps together."""
    return gate0 * gate1, gate1 * added0 + added1


# end snippet


# A program has COLS columns of one head's state, and TILE steps at a time: three
# dimensions, of step, row and column. No element of a block can be named, so the
# last state is found by summing up a block in which all others are zero.
# snippet: scan
@triton.jit
def scan_kernel(q, k, v, gate, y, steps, heads, DIM: tl.constexpr, ROWS: tl.constexpr,
                COLS: tl.constexpr, AHEAD: tl.constexpr):  # fmt: skip
    """Compute the recurrence AHEAD steps at a time."""
    s = tl.arange(0, AHEAD)[:, None, None]
    i = tl.arange(0, ROWS)[None, :, None]
    j = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, None, :]
    row = heads * DIM
    start = tl.program_id(1) // heads * steps * row + tl.program_id(1) % heads * DIM
    state = tl.zeros((1, ROWS, COLS), tl.float32)
    for first in range(0, steps, AHEAD):
        at = start + (first + s) * row
        here = first + s < steps
        own_k = tl.load(k + at + i, mask=here & (i < DIM), other=0.0)
        own_q = tl.load(q + at + i, mask=here & (i < DIM), other=0.0)
        value = tl.load(v + at + j, mask=here & (j < DIM), other=0.0)
        g = tl.load(gate + at + j, mask=here & (j < DIM), other=1.0)
        added = own_k * value
        gates = g + tl.zeros_like(added)
        decay, from_zero = tl.associative_scan((gates, added), 0, combine)
        states = decay * state + from_zero
        sums = tl.sum(own_q * states, axis=1, keep_dims=True)
        tl.store(y + at + j, sums, mask=here & (j < DIM))
        last = tl.where(s == AHEAD - 1, states, 0.0)
        state = tl.sum(last, axis=0, keep_dims=True)


# end snippet

LAUNCHER = r"""
template <int kD>
static cudaError_t launchAt(int path, const float *q, const float *k,
                            const float *v, const float *gate, float *y,
                            int batch, int steps, int heads,
                            cudaStream_t stream)
{
    const dim3 grid(path == 0 ? 1 : kD / 2, batch * heads);
    if (path == 0) {
        founding<kD><<<grid, kD, 0, stream>>>(q, k, v, gate, y, steps, heads);
    } else {
        pairs<kD, 2, false><<<grid, 8 * kWarp, 0, stream>>>(q, k, v, gate, y,
                                                            steps, heads);
    }
    return cudaGetLastError();
}

extern "C" int launch(int path, const float *q, const float *k, const float *v,
                      const float *gate, float *y, int batch, int steps,
                      int heads, int dim, cudaStream_t stream)
{
    return dim == kDim ? launchAt<kDim>(path, q, k, v, gate, y, batch, steps,
                                        heads, stream)
                       : launchAt<kOtherDim>(path, q, k, v, gate, y, batch,
                                             steps, heads, stream);
}
"""


class ProgramError(Exception):
    """What ends the program: one sentence."""


def start_build(folder: Path) -> subprocess.Popen[str]:
    """Start nvcc on the kernels of ladder.cu and the functions above."""
    text = (Path(__file__).parent / "ladder.cu").read_text(encoding="utf-8")
    kernels, mark, _ = text.partition("// --- Paths")
    if not mark or "pairs(" not in kernels:
        raise ProgramError("ladder.cu has no line '// --- Paths' after its kernels")
    source = folder / "kernels.cu"
    source.write_text(kernels + LAUNCHER, encoding="utf-8")
    words = ["nvcc", "-O3", "-std=c++17", "-arch=native", "-shared"]
    words += ["-Xcompiler=-fPIC", "-o", str(folder / "kernels.so"), str(source)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def load(building: subprocess.Popen[str], folder: Path) -> ctypes.CDLL:
    """Wait for nvcc and load what it made."""
    said, _ = building.communicate()
    if building.returncode != 0:
        raise ProgramError(f"nvcc failed:\n{said}")
    library = ctypes.CDLL(str(folder / "kernels.so"))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.launch.argtypes = [number, *[pointer] * 5, *[number] * 4, pointer]
    return library


# --- Paths ------------------------------------------------------------------


@dataclass(frozen=True)
class Tensors:
    """What every path reads, and where it writes."""

    inputs: tuple[torch.Tensor, ...]  # q, k, v, gate
    y: torch.Tensor


@dataclass(frozen=True)
class Way:
    """One way to compute the recurrence.

    Attributes:
        name: What it is called.
        run: Launches it; returns what Triton compiled.
        blocks: Of one head, at the founding shape.
        warps: Of a block.
    """

    name: str
    run: Callable[[Tensors], object]
    blocks: int
    warps: int


def cuda_way(library: ctypes.CDLL, number: int, name: str, blocks: int, warps: int) -> Way:
    """Return a kernel of ladder.cu."""

    def run(it: Tensors) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        pointers = [tensor.data_ptr() for tensor in (*it.inputs, it.y)]
        error = library.launch(number, *pointers, *it.y.shape, stream)
        if error != 0:
            raise ProgramError(f"{name}: CUDA error {error}")

    return Way(name, run, blocks, warps)


def triton_way(name: str, kernel, columns: int, ahead: int, warps: int) -> Way:
    """Return a Triton kernel; with columns = 0 a program has all of a head."""

    # snippet: launch
    def run(it: Tensors) -> object:
        batch, steps, heads, dim = it.y.shape
        rows = triton.next_power_of_2(dim)
        cols = columns or rows
        grid = (triton.cdiv(dim, cols), batch * heads)
        return kernel[grid](
            *it.inputs, it.y, steps, heads,
            DIM=dim, ROWS=rows, COLS=cols, AHEAD=ahead, num_warps=warps,
        )  # fmt: skip

    # end snippet
    dim = FOUNDING[-1]
    return Way(name, run, triton.cdiv(dim, columns or triton.next_power_of_2(dim)), warps)


def ways_of(library: ctypes.CDLL) -> list[Way]:
    """Return all paths, in the order of the tables."""
    return [
        cuda_way(library, 0, "founding", 1, 1),
        cuda_way(library, 1, "pairs", FOUNDING[-1] // 2, 8),
        triton_way("steps", steps_kernel, 0, 1, 1),
        triton_way("narrow", steps_kernel, 4, 1, 1),
        triton_way("ahead", steps_kernel, 4, STAGES, 1),
        triton_way("scan", scan_kernel, 1, TILE, 4),
    ]


# --- Inputs -----------------------------------------------------------------


def scattered(value: np.ndarray) -> np.ndarray:
    """Scatter the bits of numbers over all of them; no two numbers meet."""
    value = value ^ (value >> np.uint32(16))
    value = value * np.uint32(0x7FEB352D)
    value = value ^ (value >> np.uint32(15))
    value = value * np.uint32(0x846CA68B)
    return value ^ (value >> np.uint32(16))


def normal(shape: tuple[int, ...], salt: int) -> np.ndarray:
    """Return normal numbers: the sum of twelve uniform ones, less six."""
    place = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(12)
    total = np.full(place.shape, -6.0)
    for n in range(12):
        seed = (place + np.uint32(n)) * np.uint32(5) + np.uint32(salt)
        total += scattered(seed * np.uint32(2654435769) + np.uint32(1)) / 2.0**32
    return total.reshape(shape)


def make_inputs(shape: tuple[int, ...], gates: str) -> list[np.ndarray]:
    """Return q, k, v and gate of a case: those of ladder.cu."""
    shift = {"near one": SHIFT, "near zero": -SHIFT}.get(gates, 0.0)
    gate = 1.0 / (1.0 + np.exp(-normal(shape, 4) - shift))
    if gates == "one":
        gate[:] = 1.0
    if gates == "zeros":
        gate[:, ZERO_PERIOD - 1 :: ZERO_PERIOD] = 0.0
    values = [normal(shape, salt) for salt in (1, 2, 3)]
    return [value.astype(np.float32) for value in (*values, gate)]


def tensors_of(values: list[np.ndarray]) -> Tensors:
    """Return new tensors on the GPU."""
    inputs = tuple(torch.from_numpy(value).cuda() for value in values)
    return Tensors(inputs, torch.full_like(inputs[0], math.nan))


# --- CPU reference and tolerance --------------------------------------------


@dataclass(frozen=True)
class Reference:
    """What is right, and by how much a result may differ from it."""

    y: np.ndarray
    tolerance: np.ndarray


def reference_of(values: list[np.ndarray]) -> Reference:
    """Compute day 84's reference in double precision, and its tolerance.

    Beside the state go its sum of absolute terms, and the roundings that those
    terms have been through, weighted by size: two more in every step.
    """
    q, k, v, gate = (value.astype(np.float64) for value in values)
    batch, steps, heads, dim = q.shape
    state = np.zeros((batch, heads, dim, dim))
    size, aged = state.copy(), state.copy()
    y, tolerance = np.empty(q.shape), np.empty(q.shape)
    for t in range(steps):
        g = gate[:, t, :, None, :]
        added = k[:, t, :, :, None] * v[:, t, :, None, :]
        row = q[:, t, :, :, None]
        aged = g * (aged + 2.0 * size)
        state = g * state + added
        size = g * size + np.abs(added)
        y[:, t] = (row * state).sum(-2)
        terms = (np.abs(row) * size).sum(-2)
        older = (np.abs(row) * aged).sum(-2) / terms
        tolerance[:, t] = SAFETY * UNIT * np.sqrt(dim + 2.0 + older) * terms
    return Reference(y, tolerance)


# --- Judging ----------------------------------------------------------------


@dataclass
class Verdicts:
    """What went wrong first, and what was looked at."""

    failure: str = ""
    passed: int = 0
    outputs: int = 0
    firsts: dict[str, float] = field(default_factory=dict)  # seconds of a first call
    made: dict[str, set[str]] = field(default_factory=dict)  # hashes of what Triton compiled

    def fraction(self, what: str, values: np.ndarray, ref: Reference) -> float:
        """Return the worst error as a fraction of what is allowed."""
        self.outputs += values.size
        error = np.abs(values.astype(np.float64) - ref.y)
        part = np.where(error == 0.0, 0.0, error / np.maximum(ref.tolerance, 1e-300))
        part = np.where(np.isfinite(values), part, np.inf)
        where = np.unravel_index(np.argmax(part), part.shape)
        worst = float(part[where])
        if not worst <= 1.0 and not self.failure:
            place = ", ".join(str(int(n)) for n in where)
            self.failure = (
                f"{what}: output [{place}] is {values[where]:.9g}, not {ref.y[where]:.9g}"
            )
        self.passed += 1 if worst <= 1.0 else 0
        return worst


def judge(ways: list[Way], shape: tuple[int, ...], kinds: tuple[str, ...], it: Verdicts) -> None:
    """Judge every path at one shape; note how long a first call takes."""
    print(f"\ngate B = {shape[0]}, T = {shape[1]}, H = {shape[2]}, D = {shape[3]}: "
          "worst error as a fraction of what is allowed")  # fmt: skip
    print(f"  outputs   {math.prod(shape)}   (each path, each row)\n")
    print("  gates    " + "".join(f"  {way.name:>12}" for way in ways) + "   all zeros")
    for gates in kinds:
        values = make_inputs(shape, gates)
        ref = reference_of(values)
        cells = ""
        for way in ways:
            tensors = tensors_of(values)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            made = way.run(tensors)
            torch.cuda.synchronize()
            it.firsts.setdefault(way.name, time.perf_counter() - begin)
            it.made.setdefault(way.name, set()).update([made.hash] if made else [])
            got = tensors.y.cpu().numpy()
            what = f"{way.name}, gates {gates}, {shape}"
            cells += f"  {it.fraction(what, got, ref):12.4f}"
        print(f"  {gates:9}{cells}  {float((np.abs(ref.y) / ref.tolerance).max()):10.0f}")


# --- What the compiler made -------------------------------------------------


def print_compiled(ways: list[Way], tensors: Tensors, it: Verdicts) -> None:
    """Print what Triton says of its kernels at the founding shape."""
    print(f"\ncompiled: by Triton {triton.__version__}, at the founding shape")
    print(f"  {'path':9}  {'variants':>8}  {'blocks':>6}  {'warps':>5}  {'registers':>9}  "
          f"{'spills':>6}  {'shared (B)':>10}  {'conversions':>11}  {'shuffles':>8}  "
          f"{'barriers':>8}  {'copies':>6}")  # fmt: skip
    for way in ways:
        made = way.run(tensors)
        if made is None:
            continue
        # snippet: compiled
        layouts = made.asm["ttgir"].count("ttg.convert_layout")
        ptx = made.asm["ptx"]
        shuffles, barriers = ptx.count("shfl.sync"), ptx.count("bar.sync")
        row = (made.n_regs, made.n_spills, made.metadata.shared, layouts)
        # end snippet
        copies = ptx.count("cp.async.ca") + ptx.count("cp.async.cg")
        blocks = way.blocks * FOUNDING[0] * FOUNDING[2]
        variants = len(it.made[way.name])
        print(f"  {way.name:9}  {variants:8}  {blocks:6}  {way.warps:5}  {row[0]:9}  {row[1]:6}  "
              f"{row[2]:10}  {row[3]:11}  {shuffles:8}  {barriers:8}  {copies:6}")  # fmt: skip


# How a block is dealt out: what lies together in a thread, in a warp, in a block.
LAYOUT = re.compile(
    r"#(blocked\d*) = #ttg\.blocked<\{sizePerThread = \[(.+?)\], "
    r"threadsPerWarp = \[(.+?)\], warpsPerCTA = \[(.+?)\]"
)


def print_layouts(ways: list[Way], tensors: Tensors) -> None:
    """Print the layouts that the compiler chose, but for those of rows."""
    print("\nlayouts: of blocks of numbers, as the compiler chose them")
    print(f"  {'path':9}  {'layout':9}  {'a thread has':>12}  {'a warp is':>12}  {'warps':>12}")
    for way in ways:
        made = way.run(tensors)
        for found in LAYOUT.findall(made.asm["ttgir"]) if made else ():
            if "," in found[1]:
                cells = "".join(f"  {cell.replace(', ', ' x '):>12}" for cell in found[1:])
                print(f"  {way.name:9}  {found[0]:9}{cells}")


# --- Timer ------------------------------------------------------------------


@dataclass
class Slopes:
    """Slopes between a short and a long graph, microseconds per launch."""

    graphs: tuple[torch.cuda.CUDAGraph, ...]
    samples: list[float] = field(default_factory=list)

    def sample(self) -> float:
        """Return one slope."""
        times = []
        for graph in self.graphs:
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        return 1e3 * (times[1] - times[0]) / (LENGTHS[1] - LENGTHS[0])


def slopes_of(run: Callable[[], object]) -> Slopes:
    """Record both graphs of a path that has run before."""
    graphs = []
    for length in LENGTHS:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            for _ in range(length):
                run()
        graphs.append(graph)
    return Slopes(tuple(graphs))


def returns_of(run: Callable[[], object]) -> float:
    """Return what a call costs the host, microseconds: until it returns."""
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            run()
        times.append((time.perf_counter() - begin) / CALLS)
    return 1e6 * statistics.median(times)


def print_times(ways: list[Way], tensors: Tensors, it: Verdicts) -> None:
    """Time all paths beside each other, in turns, forwards and backwards."""
    every = {way.name: slopes_of(partial(way.run, tensors)) for way in ways}
    for number in range(-WARMUPS, REPEATS):
        turns = list(every.values())
        for slopes in turns if number % 2 == 0 else reversed(turns):
            sample = slopes.sample()
            if number >= 0:
                slopes.samples.append(sample)
    print(f"\ntime: slope between graphs of {LENGTHS[0]} and {LENGTHS[1]} launches, data in L2")
    print(f"  repeats   {REPEATS}   (time is the median of these slopes)\n")
    print(f"  {'path':9}  {'time (us)':>9}  {'min (us)':>8}  {'max (us)':>8}  "
          f"{'over pairs':>10}  {'returns (us)':>12}  {'first call (s)':>14}")  # fmt: skip
    best = statistics.median(every["pairs"].samples)
    for way in ways:
        samples = every[way.name].samples
        median = statistics.median(samples)
        print(f"  {way.name:9}  {median:9.3f}  {min(samples):8.3f}  {max(samples):8.3f}  "
              f"{median / best:9.2f}x  {returns_of(partial(way.run, tensors)):12.2f}  "
              f"{it.firsts[way.name]:14.3f}")  # fmt: skip


# --- Main -------------------------------------------------------------------


def everything(folder: Path, *, quick: bool) -> Verdicts:
    """Judge every path, then look at it and time it."""
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")  # so that it compiles
    building = start_build(folder)
    device = torch.cuda.get_device_properties(0)
    print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
    print(f"  multiprocessors   {device.multi_processor_count}")
    ways = ways_of(load(building, folder))
    verdicts = Verdicts()
    for shape in SHAPES[:1] if quick else SHAPES:
        if not verdicts.failure:
            judge(ways, shape, GATES[:2] if quick else GATES, verdicts)
    if quick or verdicts.failure:
        return verdicts
    tensors = tensors_of(make_inputs(FOUNDING, GATES[0]))
    print_compiled(ways, tensors, verdicts)
    print_layouts(ways, tensors)
    print_times(ways, tensors, verdicts)
    return verdicts


def main(arguments: list[str]) -> int:
    """Run the program."""
    if arguments not in ([], ["--quick"]):
        print("usage: intriton.py [--quick]\n  --quick  one small shape, nothing timed",
              file=sys.stderr)  # fmt: skip
        return 2
    try:
        with tempfile.TemporaryDirectory() as name, torch.cuda.stream(torch.cuda.Stream()):
            verdicts = everything(Path(name), quick=bool(arguments))
    except ProgramError as error:
        print(error, file=sys.stderr)
        return 1
    if verdicts.failure or verdicts.outputs == 0:
        print(verdicts.failure or "nothing was looked at", file=sys.stderr)
        return 1
    print(f"\nall {verdicts.passed} results passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
