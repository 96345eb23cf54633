# SPDX-License-Identifier: MIT
#
# Day 82: graph capture, and this module's comparison in one run. The gated
# recurrence of day 84 at B=2, T=128, H=4, D=24, all in FP32:
#
#   loop       PyTorch's operations, five for each step
#   founding   day 84's kernel, one thread per column
#   once       day 85's, everything loaded first
#   pairs      day 87's, a warp per column and the steps in segments
#   fla        flash-linear-attention's fused_recurrent_gla, a Triton kernel,
#              with gv = log(gate), gk=None and scale=1; the logarithm is taken
#              beforehand and not timed
#
# The kernels are those of ladder.cu, which lies beside this file: its text from
# the top to "// --- Paths" is compiled here, with a plain C interface. No header
# of PyTorch is included.
#
# The gate is day 84's, computed with numpy in double precision: an error of at
# most 4 u sqrt(depth) times the sum of the absolute terms. Every path is judged
# twice, called and captured. A captured path is recorded once, with the inputs
# of the first case, and then replayed with those of each case, copied into the
# tensors that it was recorded with. Results are NaN before every run.
#
# Times come in three kinds. "time" is the slope between a short and a long graph
# of launches, all data in L2 after the first of them; beside it the same for an
# empty kernel of the path's grid, block and shared memory. "call" is a call from
# Python, by the host's clock. "replay" is a graph of one call, started again and
# again.
#
# Written down before the run: loop 12 ms called and 1.25 ms captured, founding
# 40 us, once 9, pairs 3, fla 60. Called from Python, once and pairs are as fast:
# a call takes 20 us.
#
# Run: python3 compare.py

from __future__ import annotations

import ctypes
import math
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

# --- Shapes -----------------------------------------------------------------

BATCH, STEPS, HEADS, DIM = 2, 128, 4, 24
SHAPE = (BATCH, STEPS, HEADS, DIM)
RAGGED = (1, 131, 3, DIM)  # no multiple of a tile of steps, nor of a warp

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
ALONE = 101  # calls that are waited for

# --- Kernels ----------------------------------------------------------------

LAUNCHERS = r"""
using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

static const struct {
    Kernel kernel;
    int threads;
    int columns;  // of a block
} kPaths[] = {
    {founding<kDim>, kDim, kDim},
    {once<kDim, kLoaders>, kLoaders, kDim},
    {pairs<kDim, 2, false>, 8 * kWarp, 2},
};

extern "C" int launch(int path, const float *q, const float *k, const float *v,
                      const float *gate, float *y, int batch, int steps,
                      int heads, cudaStream_t stream)
{
    const auto &info = kPaths[path];
    const dim3 grid(kDim / info.columns, batch * heads);
    info.kernel<<<grid, info.threads, 0, stream>>>(q, k, v, gate, y, steps,
                                                   heads);
    return cudaGetLastError();
}

// A kernel without a body, launched as the path's is.
extern "C" int launchEmpty(int path, int batch, int heads, cudaStream_t stream)
{
    const auto &info = kPaths[path];
    const dim3 grid(kDim / info.columns, batch * heads);
    cudaFuncAttributes attributes = {};
    const cudaError_t error = cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(info.kernel));
    if (error != cudaSuccess) {
        return error;
    }
    empty<<<grid, info.threads, attributes.sharedSizeBytes, stream>>>();
    return cudaGetLastError();
}

// How many nodes a graph has, and how many of them are kernels.
extern "C" int countNodes(cudaGraph_t graph, int *nodes, int *kernels)
{
    size_t count = 0;
    cudaError_t error = cudaGraphGetNodes(graph, nullptr, &count);
    std::vector<cudaGraphNode_t> all(count);
    if (error == cudaSuccess) {
        error = cudaGraphGetNodes(graph, all.data(), &count);
    }
    *nodes = static_cast<int>(count);
    *kernels = 0;
    for (size_t n = 0; n < count && error == cudaSuccess; ++n) {
        cudaGraphNodeType type = cudaGraphNodeTypeCount;
        error = cudaGraphNodeGetType(all[n], &type);
        *kernels += type == cudaGraphNodeTypeKernel ? 1 : 0;
    }
    return error;
}

extern "C" const char *errorText(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}
"""

KERNELS = ("founding", "once", "pairs")


class CompareError(Exception):
    """What ends the program: one sentence."""


def start_build(folder: Path) -> subprocess.Popen[str]:
    """Start the compiler on the kernels of ladder.cu and the functions above."""
    text = (Path(__file__).parent / "ladder.cu").read_text(encoding="utf-8")
    kernels, mark, _ = text.partition("// --- Paths")
    if not mark or "pairs(" not in kernels:
        raise CompareError("ladder.cu has no line '// --- Paths' after its kernels")
    source = folder / "kernels.cu"
    source.write_text(kernels + LAUNCHERS, encoding="utf-8")
    # snippet: lean
    words = ["nvcc", "-O3", "-std=c++17", "-arch=native", "-shared"]
    words += ["-Xcompiler=-fPIC", "-o", str(folder / "kernels.so"), str(source)]
    # end snippet
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Library:
    """The compiled kernels, behind a plain C interface."""

    def __init__(self, path: Path) -> None:
        self.dll = ctypes.CDLL(str(path))
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.dll.launch.argtypes = [number, *[pointer] * 5, *[number] * 3, pointer]
        self.dll.launchEmpty.argtypes = [number, number, number, pointer]
        self.dll.countNodes.argtypes = [pointer, pointer, pointer]
        self.dll.errorText.restype = ctypes.c_char_p

    def check(self, error: int, what: str) -> None:
        """End the program if CUDA reports an error."""
        if error != 0:
            raise CompareError(f"{what}: {self.dll.errorText(error).decode()}")

    def launch(
        self, kernel: int, q: torch.Tensor, k: torch.Tensor,
        v: torch.Tensor, gate: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        """Launch a kernel on PyTorch's current stream."""
        for name, tensor in (("q", q), ("k", k), ("v", v), ("gate", gate)):
            if tensor.shape != q.shape or tensor.shape[-1] != DIM:
                raise ValueError(f"{name} is {tuple(tensor.shape)}")
            if tensor.dtype != torch.float32 or not tensor.is_contiguous():
                raise ValueError(f"{name} is not contiguous float32")
        y = torch.empty_like(q)
        batch, steps, heads, _ = q.shape
        stream = torch.cuda.current_stream().cuda_stream
        error = self.dll.launch(
            kernel, q.data_ptr(), k.data_ptr(), v.data_ptr(),
            gate.data_ptr(), y.data_ptr(), batch, steps, heads, stream,
        )  # fmt: skip
        self.check(error, KERNELS[kernel])
        return y

    def launch_empty(self, kernel: int) -> None:
        """Launch a kernel without a body as that kernel is."""
        stream = torch.cuda.current_stream().cuda_stream
        self.check(self.dll.launchEmpty(kernel, BATCH, HEADS, stream), "empty")

    def count(self, graph: torch.cuda.CUDAGraph) -> tuple[int, int]:
        """Return how many nodes a graph has, and how many are kernels."""
        nodes, kernels = ctypes.c_int(), ctypes.c_int()
        raw = graph.raw_cuda_graph()
        error = self.dll.countNodes(raw, ctypes.byref(nodes), ctypes.byref(kernels))
        self.check(error, "counting nodes")
        return nodes.value, kernels.value


# --- Paths ------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """The tensors that every path reads; `log_gate` is for fla alone."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    gate: torch.Tensor
    log_gate: torch.Tensor

    def copy_from(self, values: list[np.ndarray]) -> None:
        """Put new values where the old ones are."""
        tensors = [torch.from_numpy(value) for value in values]
        # snippet: copy-in
        for mine, new in zip((self.q, self.k, self.v, self.gate), tensors, strict=True):
            mine.copy_(new)
        self.log_gate.copy_(torch.log(self.gate))
        # end snippet


Function = Callable[[Inputs], torch.Tensor]


@dataclass(frozen=True)
class Way:
    """One way to compute the recurrence."""

    name: str
    run: Function
    kernel: int | None  # of ours
    lengths: tuple[int, int]  # calls in a short and in a long graph
    calls: int  # in a row, by the host's clock


# snippet: loop
def loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute the recurrence by PyTorch's operations, step by step."""
    batch, steps, heads, dim = q.shape
    state = q.new_zeros(batch, heads, dim, dim)
    rows = []
    for t in range(steps):
        state = state * gate[:, t].unsqueeze(-2)
        state = state + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        rows.append((q[:, t].unsqueeze(-1) * state).sum(-2))
    return torch.stack(rows, 1)


# end snippet


def fla_function() -> Function:
    """Return the library's kernel for the same function."""
    try:
        from fla.ops.gla import fused_recurrent_gla
    except ImportError as error:
        raise CompareError(f"flash-linear-attention cannot be imported: {error}") from None

    # snippet: fla
    def run(i: Inputs) -> torch.Tensor:
        y, _ = fused_recurrent_gla(i.q, i.k, i.v, gk=None, gv=i.log_gate, scale=1)
        return y

    # end snippet
    return run


def register(library: Library) -> None:
    """Make an operator of PyTorch of each kernel."""
    schema = "(Tensor q, Tensor k, Tensor v, Tensor gate) -> Tensor"
    for number, name in enumerate(KERNELS):

        def run(q, k, v, gate, number=number):  # noqa: ANN001, ANN202
            return library.launch(number, q, k, v, gate)

        op = torch.library.custom_op(
            f"measured::{name}", run, mutates_args=(), schema=schema, device_types="cuda"
        )
        op.register_fake(lambda q, k, v, gate: torch.empty_like(q))  # noqa: ARG005


def paths_of(fla: Function) -> list[Way]:
    """Return all paths, in the order of the tables."""
    ops = torch.ops.measured
    return [
        Way("loop", lambda i: loop(i.q, i.k, i.v, i.gate), None, (1, 4), 3),
        Way("founding", lambda i: ops.founding(i.q, i.k, i.v, i.gate), 0, (10, 60), 200),
        Way("once", lambda i: ops.once(i.q, i.k, i.v, i.gate), 1, (40, 240), 200),
        Way("pairs", lambda i: ops.pairs(i.q, i.k, i.v, i.gate), 2, (40, 240), 200),
        Way("fla", fla, None, (10, 60), 200),
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


def tensors_of(values: list[np.ndarray]) -> Inputs:
    """Return new tensors on the GPU."""
    q, k, v, gate = (torch.from_numpy(value).cuda() for value in values)
    return Inputs(q, k, v, gate, torch.log(gate))


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

    def fraction(self, what: str, got: torch.Tensor, ref: Reference) -> float:
        """Return the worst error as a fraction of what is allowed."""
        values = got.detach().cpu().numpy().astype(np.float64)
        if values.shape != ref.y.shape or values.size == 0:
            raise CompareError(f"{what}: {values.shape} outputs, not {ref.y.shape}")
        error = np.abs(values - ref.y)
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


@dataclass
class Captured:
    """A graph of some calls of one path, and where the last one's result is."""

    graph: torch.cuda.CUDAGraph
    y: torch.Tensor | None
    nodes: int = 0
    kernels: int = 0


def captured(library: Library, run: Callable[[], torch.Tensor | None], calls: int) -> Captured:
    """Record calls of a function that has run before."""
    # snippet: capture
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(calls):
            y = run()
    # end snippet
    nodes, kernels = library.count(graph)
    graph.instantiate()
    return Captured(graph, y, nodes, kernels)


def poisoned(run: Function, inputs: Inputs) -> torch.Tensor:
    """Call a path after leaving NaN where its result is likely to lie."""
    torch.full_like(inputs.q, math.nan)
    return run(inputs)


def judge(
    paths: list[Way], shape: tuple[int, ...], kinds: tuple[str, ...], library: Library,
    verdicts: Verdicts,
) -> dict[str, Captured]:  # fmt: skip
    """Judge every path at one shape, called and captured; return the graphs of one call."""
    inputs = tensors_of(make_inputs(shape, kinds[0]))
    graphs: dict[str, Captured] = {}
    for path in paths:
        for _ in range(WARMUPS):
            path.run(inputs)  # whatever is done once is done before the capture
        graphs[path.name] = captured(library, partial(path.run, inputs), 1)
    rows: dict[tuple[str, str], list[float]] = {}
    zeros = []
    for gates in kinds:
        values = make_inputs(shape, gates)
        ref = reference_of(values)
        inputs.copy_from(values)
        zeros.append(float((np.abs(ref.y) / ref.tolerance).max()))
        for path in paths:
            it = graphs[path.name]
            it.y.fill_(math.nan)
            it.graph.replay()
            for how, y in (("called", poisoned(path.run, inputs)), ("captured", it.y)):
                what = f"{path.name}, {how}, gates {gates}, {shape}"
                rows.setdefault((how, path.name), []).append(verdicts.fraction(what, y, ref))
    for how in ("called", "captured"):
        print(f"\n{how} B = {shape[0]}, T = {shape[1]}, H = {shape[2]}, D = {shape[3]}: "
              "worst error as a fraction of what is allowed")  # fmt: skip
        print(f"  outputs   {math.prod(shape)}   (of each path, for each kind of gates)\n")
        print("  path     " + "".join(f"  {gates:>9}" for gates in kinds))
        for path in paths:
            cells = "".join(f"  {part:9.4f}" for part in rows[how, path.name])
            print(f"  {path.name:9}{cells}")
        print("  all zeros" + "".join(f"  {part:9.0f}" for part in zeros))
    return graphs


# --- Timer ------------------------------------------------------------------


@dataclass
class Slopes:
    """Slopes between a short and a long graph, microseconds per call."""

    graphs: tuple[Captured, Captured]
    lengths: tuple[int, int]
    samples: list[float] = field(default_factory=list)

    def sample(self) -> float:
        """Return one slope."""
        times = []
        for it in self.graphs:
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            start.record()
            it.graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        return 1e3 * (times[1] - times[0]) / (self.lengths[1] - self.lengths[0])


def slopes_of(
    library: Library, run: Callable[[], torch.Tensor | None], lengths: tuple[int, int]
) -> Slopes:
    """Record both graphs of a path."""
    run()
    short, long = (captured(library, run, n) for n in lengths)
    return Slopes((short, long), lengths)


def take_turns(every: list[Slopes]) -> None:
    """Time all of them beside each other, in turns, forwards and backwards."""
    for number in range(-WARMUPS, REPEATS):
        for slopes in every if number % 2 == 0 else reversed(every):
            sample = slopes.sample()
            if number >= 0:
                slopes.samples.append(sample)


def print_times(
    paths: list[Way], library: Library, inputs: Inputs, graphs: dict[str, Captured]
) -> None:
    """Print the time of every path on the device."""
    every = {p.name: slopes_of(library, partial(p.run, inputs), p.lengths) for p in paths}
    nodes = {
        p.name: slopes_of(library, partial(library.launch_empty, p.kernel), (40, 240))
        for p in paths
        if p.kernel is not None
    }
    take_turns([*every.values(), *nodes.values()])
    print("\ntime: on the device, slope between a short and a long graph, data in L2")
    print(f"  repeats   {REPEATS}   (time is the median of these slopes)\n")
    print(f"  {'path':8}  {'nodes':>6}  {'kernels':>7}  {'time (us)':>10}  "
          f"{'min (us)':>10}  {'max (us)':>10}  {'empty (us)':>10}  "
          f"{'per kernel (us)':>15}")  # fmt: skip
    for path in paths:
        samples = every[path.name].samples
        median = statistics.median(samples)
        own = nodes.get(path.name)
        empty = f"{statistics.median(own.samples):10.3f}" if own else f"{'-':>10}"
        it = graphs[path.name]
        print(f"  {path.name:8}  {it.nodes:6}  {it.kernels:7}  {median:10.3f}  "
              f"{min(samples):10.3f}  {max(samples):10.3f}  {empty}  "
              f"{median / max(it.kernels, 1):15.3f}")  # fmt: skip


def host_times(run: Callable[[], object], calls: int) -> tuple[float, float, float]:
    """Time a call by the host's clock, microseconds.

    Returns:
        A call of many in a row, until all are done; the same until the last one
        has returned; a call alone, until it is done.
    """
    rows: list[tuple[float, float]] = []
    for number in range(-1, REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        returned = time.perf_counter()
        torch.cuda.synchronize()
        done = time.perf_counter()
        if number >= 0:
            rows.append(((done - start) / calls, (returned - start) / calls))
    alone = []
    for _ in range(ALONE if calls > 3 else REPEATS):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        alone.append(time.perf_counter() - start)
    in_a_row, returns = (statistics.median(column) for column in zip(*rows, strict=True))
    return 1e6 * in_a_row, 1e6 * returns, 1e6 * statistics.median(alone)


def print_host_times(title: str, rows: list[tuple[str, Callable[[], object], int]]) -> None:
    """Print what a caller of each function waits for."""
    print(f"\n{title}")
    print(f"  {'path':8}  {'in a row (us)':>14}  {'returns (us)':>14}  {'alone (us)':>14}")
    for name, run, calls in rows:
        times = host_times(run, calls)
        print(f"  {name:8}" + "".join(f"  {each:14.2f}" for each in times))


# --- Main -------------------------------------------------------------------


def compare(folder: Path, *, quick: bool) -> Verdicts:
    """Judge every path, then time it."""
    building = start_build(folder)
    fla = fla_function()  # while the compiler is at work
    said, _ = building.communicate()
    if building.returncode != 0:
        raise CompareError(f"nvcc failed:\n{said}")
    library = Library(folder / "kernels.so")
    register(library)
    device = torch.cuda.get_device_properties(0)
    print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
    print(f"  multiprocessors   {device.multi_processor_count}")
    paths = paths_of(fla)
    verdicts = Verdicts()
    judge(paths, RAGGED, GATES[:2], library, verdicts)
    graphs = judge(paths, SHAPE, GATES[:2] if quick else GATES, library, verdicts)
    if quick or verdicts.failure:
        return verdicts
    inputs = tensors_of(make_inputs(SHAPE, GATES[0]))
    print_times(paths, library, inputs, graphs)
    print_host_times(
        "call: from Python, by the host's clock",
        [(p.name, partial(p.run, inputs), p.calls) for p in paths],
    )
    print_host_times(
        "replay: a graph of one call, by the host's clock",
        [(p.name, graphs[p.name].graph.replay, max(p.calls, 20)) for p in paths],
    )
    return verdicts


def main(arguments: list[str]) -> int:
    """Run the comparison."""
    if arguments not in ([], ["--quick"]):
        print("usage: compare.py [--quick]\n  --quick  every path judged, nothing timed",
              file=sys.stderr)  # fmt: skip
        return 2
    try:
        with tempfile.TemporaryDirectory() as name, torch.cuda.stream(torch.cuda.Stream()):
            verdicts = compare(Path(name), quick=bool(arguments))
    except CompareError as error:
        print(error, file=sys.stderr)
        return 1
    if verdicts.failure:
        print(verdicts.failure, file=sys.stderr)
        return 1
    print(f"\nall {verdicts.passed} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
