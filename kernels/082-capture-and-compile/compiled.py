# SPDX-License-Identifier: MIT
#
# Day 82: torch.compile. It reads a Python function, makes a graph of PyTorch's
# operations from it, and writes kernels for that graph. What comes of it for
#
#   loop       day 84's recurrence as a Python loop over T steps, for a few T
#   plain      a function with pointwise operations around a kernel of ours,
#              which a Python function calls through ctypes
#   disabled   the same; the compiler is told not to look into that function
#   operator   the same; the kernel is an operator of PyTorch (day 81)
#
# Counted are the graphs that a function was cut into, the breaks between them,
# and the kernels that were written. "compiling" is the first call of a compiled
# function, by the host's clock, with no cache to draw upon. "graph" is the time
# of a call on the device: the slope between a short and a long CUDA graph of
# calls, data in L2; "eager graph" is the same for the function as it stands.
#
# The gate is day 84's for the loop, and for the others 1e-5, between compiled
# and not compiled: results are tanh of something, and the gates of a compiled
# sigmoid may be off by a rounding or two.
#
# Written down before the run: the compiler unrolls the loop, so compiling takes
# 1 s for each step; a step is left with one kernel of five. Plain is cut in
# three, operator stays in one piece and is 2 kernels beside ours. (When plain
# turned out not to get through at all, disabled was added: cut in two.)
#
# Run: python3 compiled.py

import ctypes
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch._dynamo.utils
import torch._inductor.async_compile
import torch._inductor.config
import torch._inductor.metrics

# --- Shapes -----------------------------------------------------------------

BATCH, STEPS, HEADS, DIM = 2, 128, 4, 24
COMPILED = (8, 16, 32)  # steps of the loop; each more costs more than the last
SEED = 82

# --- Tolerance --------------------------------------------------------------

UNIT = 2.0**-24  # u: the most that a rounding is off
SAFETY = 4.0
NEAR = 1e-5  # between a function compiled and not compiled

# --- Timing -----------------------------------------------------------------

REPEATS = 11  # odd: the median is one of the samples
WARMUPS = 2
LENGTHS = (5, 25)  # calls in a short and in a long graph
CALLS = 200  # in a row, by the host's clock

# --- Kernel -----------------------------------------------------------------

SOURCE = r"""
constexpr int kDim = 24;

// Day 84's kernel. Thread j of block (b, h) has column j of its state.
// Launch assumption: kDim threads, a block per batch and head.
__global__ void founding(const float *q, const float *k, const float *v,
                         const float *gate, float *y, int steps, int heads)
{
    __shared__ float tileK[kDim];
    __shared__ float tileQ[kDim];
    const int j = threadIdx.x;
    const size_t row = static_cast<size_t>(heads) * kDim;
    size_t at =
        blockIdx.x / heads * steps * row + blockIdx.x % heads * kDim + j;
    float state[kDim] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        float sum = 0.0f;
        for (int i = 0; i < kDim; ++i) {
            state[i] = fmaf(gate[at], state[i], tileK[i] * v[at]);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

extern "C" int launch(const float *q, const float *k, const float *v,
                      const float *gate, float *y, int batch, int steps,
                      int heads, cudaStream_t stream)
{
    founding<<<batch * heads, kDim, 0, stream>>>(q, k, v, gate, y, steps,
                                                 heads);
    return cudaGetLastError();
}
"""


def build(folder: str) -> ctypes.CDLL:
    """Compile the kernel and load it."""
    Path(folder, "kernel.cu").write_text(SOURCE)
    command = ["nvcc", "-O3", "-std=c++17", "-arch=native", "-shared", "-Xcompiler=-fPIC"]
    subprocess.run([*command, "-o", "kernel.so", "kernel.cu"], cwd=folder, check=True)
    library = ctypes.CDLL(f"{folder}/kernel.so")
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.launch.argtypes = [*[pointer] * 5, *[number] * 3, pointer]
    return library


# --- Functions --------------------------------------------------------------

Function = Callable[..., torch.Tensor]


def plain_of(library: ctypes.CDLL) -> Function:
    """Return a function of Python that launches the kernel."""

    def plain(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor
    ) -> torch.Tensor:
        batch, steps, heads, dim = q.shape
        for tensor in (q, k, v, gate):
            if tensor.dtype != torch.float32 or not tensor.is_contiguous() or dim != DIM:
                raise ValueError(f"not a contiguous float32 tensor of rows of {DIM}")
        y = torch.empty_like(q)
        pointers = [tensor.data_ptr() for tensor in (q, k, v, gate, y)]
        stream = torch.cuda.current_stream().cuda_stream
        error = library.launch(*pointers, batch, steps, heads, stream)
        if error:
            raise RuntimeError(f"the launch failed with error {error}")
        return y

    return plain


def operator_of(plain: Function) -> Function:
    """Return the same as an operator of PyTorch."""
    schema = "(Tensor q, Tensor k, Tensor v, Tensor gate) -> Tensor"
    operator = torch.library.custom_op(
        "day82::recurrence", plain, mutates_args=(), device_types="cuda", schema=schema
    )
    operator.register_fake(lambda q, k, v, gate: torch.empty_like(q))  # noqa: ARG005
    return torch.ops.day82.recurrence


# snippet: layer
def layer_of(recurrence: Function) -> Function:
    """Return a function that has a kernel of ours between pointwise operations."""

    def layer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(x) * 0.5 + 0.5
        y = recurrence(q, k * 0.125, v, gate)
        return torch.tanh(y) * 2.0

    return layer


# end snippet


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


# --- Judging ----------------------------------------------------------------


def make_inputs(steps: int) -> list[torch.Tensor]:
    """Return q, k, v and gate on the GPU; gates are near one, and forget little."""
    source = torch.Generator().manual_seed(SEED)
    shape = (BATCH, steps, HEADS, DIM)
    values = [torch.randn(shape, generator=source) for _ in range(4)]
    values[3] = torch.sigmoid(values[3] + 4.0)
    return [value.cuda() for value in values]


def loop_fraction(got: torch.Tensor, inputs: list[torch.Tensor]) -> float:
    """Return the worst error of a loop as a fraction of what is allowed."""
    steps = got.shape[1]
    exact = [value.cpu().double() for value in inputs]
    want, terms = loop(*exact), loop(*[value.abs() for value in exact])
    allowed = SAFETY * UNIT * math.sqrt(DIM + 2 + 2 * steps) * terms
    part = (got.cpu().double() - want).abs() / allowed
    return float(torch.where(torch.isfinite(part), part, math.inf).max())


def layer_fraction(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the worst difference as a fraction of what is allowed."""
    part = (got - want).abs() / NEAR
    return float(torch.where(torch.isfinite(part), part, math.inf).max())


# --- Timer ------------------------------------------------------------------


def graph_of(run: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    """Record calls of a function that has run before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph


def device_time(run: Callable[[], object]) -> float:
    """Return the time of a call on the device, microseconds: the median slope."""
    graphs = [graph_of(run, calls) for calls in LENGTHS]
    slopes = []
    for number in range(-WARMUPS, REPEATS):
        times = []
        for graph in graphs:
            start = torch.cuda.Event(enable_timing=True)
            stop = torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        if number >= 0:
            slopes.append(1e3 * (times[1] - times[0]) / (LENGTHS[1] - LENGTHS[0]))
    return statistics.median(slopes)


def host_time(run: Callable[[], object], calls: int) -> float:
    """Return the time of a call of many in a row, by the host's clock, microseconds."""
    samples = []
    for number in range(-1, REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
        if number >= 0:
            samples.append((time.perf_counter() - start) / calls)
    return 1e6 * statistics.median(samples)


# --- Compiling --------------------------------------------------------------


@dataclass(frozen=True)
class Compilation:
    """What torch.compile made of a function."""

    run: Function
    y: torch.Tensor
    seconds: float
    graphs: int
    breaks: int
    kernels: int

    def columns(self) -> str:
        """Return what was counted, as cells of a row."""
        counts = f"{self.graphs:6}  {self.breaks:6}  {self.kernels:7}"
        return f"{counts}  {self.seconds:13.3f}"


COLUMNS = f"{'graphs':>6}  {'breaks':>6}  {'kernels':>7}  {'compiling (s)':>13}"


def compiled(function: Function, inputs: list[torch.Tensor]) -> Compilation:
    """Compile a function for its inputs, and count what came of it."""
    counters = torch._dynamo.utils.counters  # noqa: SLF001
    torch._dynamo.reset()  # noqa: SLF001
    torch._inductor.metrics.reset()  # noqa: SLF001
    counters.clear()
    torch.cuda.synchronize()
    start = time.perf_counter()
    run = torch.compile(function, dynamic=False)
    y = run(*inputs)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    kernels = torch._inductor.metrics.generated_kernel_count  # noqa: SLF001
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    return Compilation(run, y, seconds, graphs, breaks, kernels)


def compile_loops() -> tuple[int, str]:
    """Compile the loop for more and more steps."""
    print("\nloop: T steps, compiled")
    print(f"  {'T':8}  {COLUMNS}  {'graph (us)':>10}  {'eager graph (us)':>16}  {'gate frac':>9}")
    passed = 0
    for steps in COMPILED:
        inputs = make_inputs(steps)
        it = compiled(loop, inputs)
        worst = loop_fraction(it.y, inputs)
        if not worst <= 1.0:
            return passed, f"compiled loop, T = {steps}: {worst:.4f} of what is allowed"
        passed += 1
        loop(*inputs)
        own, eager = (device_time(partial(f, *inputs)) for f in (it.run, loop))
        times = f"{own:10.2f}  {eager:16.2f}"
        print(f"  T = {steps:<4}  {it.columns()}  {times}  {worst:9.4f}")
    return passed, ""


def compile_layers(plain: Function, *, quick: bool) -> tuple[int, str]:
    """Compile a function around our kernel, called in two ways."""
    print(f"\nlayer: a function around a kernel of ours, T = {STEPS}, compiled")
    print(
        f"  {'kernel':8}  {COLUMNS}  {'call (us)':>10}  {'eager call (us)':>16}  {'gate frac':>9}"
    )
    inputs = make_inputs(STEPS)
    passed, refused = 0, ""
    ways = {
        "plain": plain,
        "disabled": torch.compiler.disable(plain),
        "operator": operator_of(plain),
    }
    for name, recurrence in ways.items():
        layer = layer_of(recurrence)
        want = layer(*inputs)
        try:
            it = compiled(layer, inputs)
        except AttributeError as error:
            if name != "plain":
                return passed, f"compiled layer, {name}: {error}"
            refused = str(error)
            continue
        worst = layer_fraction(it.y, want)
        if not worst <= 1.0:
            return passed, f"compiled layer, {name}: {worst:.4f} of what is allowed"
        passed += 1
        times = f"{'-':>10}  {'-':>16}"
        if not quick:
            own, eager = (host_time(partial(f, *inputs), CALLS) for f in (it.run, layer))
            times = f"{own:10.2f}  {eager:16.2f}"
        print(f"  {name:8}  {it.columns()}  {times}  {worst:9.4f}")
        if name == "operator" and (it.graphs != 1 or it.breaks != 0):
            return passed, f"the operator cuts its function into {it.graphs} graphs"
    if refused:
        print(f"\nplain, compiled, fails: {refused}")
    return passed, ""


# --- Main -------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Compile, judge, count and time."""
    if arguments not in ([], ["--quick"]):
        print("usage: compiled.py [--quick]\n  --quick  no loops, nothing timed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        # Nothing may come from an earlier run's cache: that would time a look-up.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        torch._inductor.config.force_disable_caches = True  # noqa: SLF001
        device = torch.cuda.get_device_properties(0)
        print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
        compiled(torch.sin, make_inputs(1)[:1])  # what the compiler does once
        passed, failure = compile_layers(plain_of(library), quick=bool(arguments))
        if not failure and not arguments:
            more, failure = compile_loops()
            passed += more
        torch._inductor.async_compile.shutdown_compile_workers()  # noqa: SLF001
    if failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"\nall {passed} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
