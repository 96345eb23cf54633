# SPDX-License-Identifier: MIT
#
# Day 80: the wrapper contract. Day 84's recurrence as a PyTorch operator, built
# the lean way of day 79: a C function, compiled by nvcc, loaded by ctypes and
# registered by torch.library. Of q, k, v and gate, FP32 of shape (B, T, H, D),
#
#   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
#   y[t][j]     = sum over i of q[t][i] * state[i][j]
#
# A C function is given addresses and believes what it is told about them. There
# are two here. `unchecked` is told shapes alone; the day's other programs show
# what that leads to. `recurrence` is told strides and a stream as well, and says
# whether its launch was accepted; its wrapper refuses what it cannot compute.
#
# The gate is day 84's: the reference is in double precision on the CPU, and
#
#   |got - reference| <= 4 u sqrt(depth) * (sum of the absolute terms)
#
# with u = 2^-24 and depth = D + 2 + the roundings behind a term, weighted by
# its size. Not finite fails. Each layout is judged with sigmoid gates and with
# gates near one.
#
# Written down before the run: all layouts have the very result of contiguous
# inputs, bit for bit; opcheck finds nothing.
#
# Run: python3 contract.py

import argparse
import ctypes
import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

SHAPE = (2, 128, 4, 24)  # B, T, H, D
OTHER = (1, 67, 2, 40)  # two warps of columns, the second ragged
DIMS = (24, 40)  # for which there is a kernel
UNWRITTEN = 12345.0  # what every y holds before
UNIT = 2.0**-24
SLEEP = 200_000_000  # cycles: a tenth of a second

torch.set_num_threads(1)  # the reference is a thousand small steps

# --- The C functions ---------------------------------------------------------------

ANY_D = r"""
// Thread j of block (b, h) has column j of its state, in shared memory.
__global__ void anyD(const float *q, const float *k, const float *v,
                     const float *gate, float *y, int steps, int heads)
{
    extern __shared__ float shared[];
    const int dim = blockDim.x;
    float *state = shared + 2 * dim;
    const int j = threadIdx.x;
    const long long row = static_cast<long long>(heads) * dim;
    long long at = blockIdx.x / heads * steps * row + blockIdx.x % heads * dim + j;
    for (int i = 0; i < dim; ++i) {
        state[i * dim + j] = 0.0f;
    }
    for (int t = 0; t < steps; ++t, at += row) {
        shared[j] = k[at];
        shared[dim + j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) {
            float &s = state[i * dim + j];
            s = fmaf(g, s, shared[i] * value);
            sum = fmaf(shared[dim + i], s, sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}
"""

# snippet: c-unchecked
UNCHECKED = r"""
extern "C" void unchecked(const float *q, const float *k, const float *v,
                          const float *gate, float *y, int batch, int steps,
                          int heads, int dim)
{
    const size_t shared = sizeof(float) * dim * (dim + 2);
    anyD<<<batch * heads, dim, shared>>>(q, k, v, gate, y, steps, heads);
}
"""
# end snippet

STRIDED = r"""
struct Input {
    const float *data;
    long long batch;  // strides, in elements; D has stride 1
    long long step;
    long long head;
};

struct Inputs {
    Input q;
    Input k;
    Input v;
    Input gate;
};

__device__ inline const float *startOf(const Input &input, int b, int h)
{
    return input.data + b * input.batch + h * input.head + threadIdx.x;
}

// As anyD, with the state in registers.
template <int kD>
__global__ void founding(Inputs in, float *y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int b = blockIdx.x / heads;
    const int h = blockIdx.x % heads;
    const int j = threadIdx.x;
    const float *q = startOf(in.q, b, h);
    const float *k = startOf(in.k, b, h);
    const float *v = startOf(in.v, b, h);
    const float *gate = startOf(in.gate, b, h);
    y += (static_cast<long long>(b) * steps * heads + h) * kD + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t) {
        tileK[j] = k[t * in.k.step];
        tileQ[j] = q[t * in.q.step];
        __syncthreads();  // the step's k and q are there
        const float g = gate[t * in.gate.step];
        const float value = v[t * in.v.step];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[static_cast<long long>(t) * heads * kD] = sum;
        __syncthreads();  // nobody reads them any more
    }
}
"""

# snippet: c-checked
CHECKED = r"""
extern "C" int recurrence(const Inputs *in, float *y, int batch, int steps,
                          int heads, int dim, cudaStream_t stream)
{
    switch (dim) {
    case 24:
        founding<24><<<batch * heads, 24, 0, stream>>>(*in, y, steps, heads);
        break;
    case 40:
        founding<40><<<batch * heads, 40, 0, stream>>>(*in, y, steps, heads);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
"""
# end snippet

TEXT_OF = r"""
extern "C" const char *textOf(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}
"""


# --- The library ---------------------------------------------------------------


class Input(ctypes.Structure):
    """One input as the C function takes it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("batch", ctypes.c_longlong),
        ("step", ctypes.c_longlong),
        ("head", ctypes.c_longlong),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """Compile and load the C functions, once."""
    major, minor = torch.cuda.get_device_capability()
    flags = ["-O3", "-std=c++17", f"-arch=sm_{major}{minor}", "-Xcompiler=-fPIC", "-shared"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "recurrence.cu")
        source.write_text(ANY_D + UNCHECKED + STRIDED + CHECKED + TEXT_OF)
        subprocess.run(["nvcc", *flags, "-o", f"{folder}/lib.so", str(source)], check=True)
        made = ctypes.CDLL(f"{folder}/lib.so")
    made.unchecked.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int] * 4
    made.unchecked.restype = None
    made.recurrence.argtypes = [Input * 4, ctypes.c_void_p, *[ctypes.c_int] * 4, ctypes.c_void_p]
    made.textOf.restype = ctypes.c_char_p
    return made


# snippet: unchecked
def unchecked(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, y: Tensor) -> None:
    """Hand the addresses on and hope."""
    inputs = [tensor.data_ptr() for tensor in (q, k, v, gate)]
    library().unchecked(*inputs, y.data_ptr(), *q.shape)


# end snippet


# --- The operator ----------------------------------------------------------------


# snippet: complaint
def complaint(**inputs: Tensor) -> str:
    """Say what is wrong with the inputs, in words; nothing if nothing is."""
    q = inputs["q"]
    for name, it in inputs.items():
        if it.device.type != "cuda":
            return f"{name} is on {it.device}, but must be on a CUDA device"
        if it.device != q.device:
            return f"{name} is on {it.device}, but must be on q's, {q.device}"
        if it.dtype != torch.float32:
            return f"{name} is {it.dtype}, but must be torch.float32"
        if it.dim() != 4:
            return f"{name} has {it.dim()} dimensions, but must have 4: B, T, H, D"
        if it.shape != q.shape:
            return f"{name} is {tuple(it.shape)}, but must be as q, {tuple(q.shape)}"
        if it.stride(3) != 1:
            return f"{name} has stride {it.stride(3)} along D, but must have 1: use .contiguous()"
    if q.shape[3] not in DIMS:
        return f"D is {q.shape[3]}, but must be one of {DIMS}"
    return ""


# end snippet


# snippet: operator
@torch.library.custom_op("course::recurrence", mutates_args=())
def recurrence(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    """Compute y, or say why not."""
    wrong = complaint(q=q, k=k, v=v, gate=gate)
    if wrong:
        raise ValueError(f"recurrence: {wrong}")
    y = q.new_empty(q.shape)  # contiguous, whatever q is
    if y.numel() > 0:  # a grid of no blocks would be refused
        launch((q, k, v, gate), y)
    return y


def launch(inputs: tuple[Tensor, ...], y: Tensor) -> None:
    """Launch on the device of the tensors, on the caller's stream."""
    packed = (Input * 4)(*[Input(it.data_ptr(), *it.stride()[:3]) for it in inputs])
    with torch.cuda.device(y.device):
        stream = torch.cuda.current_stream().cuda_stream
        error = library().recurrence(packed, y.data_ptr(), *y.shape, stream)
    if error:
        text = library().textOf(error).decode()
        raise RuntimeError(f"recurrence: the launch failed: {text}")


@recurrence.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    wrong = complaint(q=q, k=k, v=v, gate=gate)
    if wrong:
        raise ValueError(f"recurrence: {wrong}")
    return q.new_empty(q.shape)


# end snippet


# --- Inputs and gate -----------------------------------------------------------


def scattered(value: Tensor) -> Tensor:
    """Scatter the bits of 32-bit numbers; no two meet."""
    mask = 0xFFFFFFFF
    value = value ^ (value >> 16)
    value = value * 0x7FEB352D & mask
    value = value ^ (value >> 15)
    value = value * 0x846CA68B & mask
    return value ^ (value >> 16)


def normal(shape: tuple[int, ...], salt: int) -> Tensor:
    """Return normally distributed numbers: sums of twelve uniform ones, less six."""
    count = torch.Size(shape).numel()
    place = torch.arange(count * 12, dtype=torch.int64)
    numbers = scattered((place * 5 + salt) * 2654435769 + 1 & 0xFFFFFFFF)
    return (numbers.double().reshape(count, 12) / 2.0**32).sum(1).sub(6.0).reshape(shape)


def make(shape: tuple[int, ...], shift: float = 0.0) -> list[Tensor]:
    """Return q, k, v and gate on the CPU; a shift of 4 brings gates near one."""
    q, k, v, x = (normal(shape, salt).float() for salt in range(1, 5))
    return [q, k, v, torch.sigmoid(x.double() + shift).float()]


def reference(inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute y and what it may be off by, in double precision on the CPU."""
    q, k, v, gate = (it.detach().double().cpu() for it in inputs)
    state, size, aged = (q.new_zeros(*q.shape[:1], *q.shape[2:], q.shape[3]) for _ in range(3))
    y, allowed = torch.empty_like(q), torch.empty_like(q)
    for t in range(q.shape[1]):
        kv = k[:, t, :, :, None] * v[:, t, :, None, :]
        g = gate[:, t, :, None, :]
        aged = g * (aged + 2.0 * size)
        state = g * state + kv
        size = g * size + kv.abs()
        row = q[:, t, :, None, :]
        y[:, t] = (row @ state)[..., 0, :]
        terms = (row.abs() @ size)[..., 0, :]
        depth = q.shape[3] + 2.0 + (row.abs() @ aged)[..., 0, :] / terms
        allowed[:, t] = 4.0 * UNIT * depth.sqrt() * terms
    return y, allowed


def fractions(got: Tensor, judge: tuple[Tensor, Tensor]) -> Tensor:
    """Return each error as a fraction of what is allowed; not finite is infinitely wrong."""
    want, allowed = judge
    got = got.detach().double().cpu()
    return torch.where(got.isfinite(), (got - want).abs() / allowed, torch.inf)


def wrong_of(got: Tensor, judge: tuple[Tensor, Tensor]) -> int:
    """Count the outputs that the gate does not accept."""
    return int((~(fractions(got, judge) <= 1.0)).sum())


def gpu_line() -> str:
    """Return the first line of every program."""
    major, minor = torch.cuda.get_device_capability()
    return f"GPU: {torch.cuda.get_device_name()} (compute capability {major}.{minor})"


# --- Checks ----------------------------------------------------------------------


def layouts(shape: tuple[int, ...]) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return ways to lay out the same numbers in memory."""
    batch, steps, heads, dim = shape

    def slice_of(it: Tensor) -> Tensor:
        wide = it.new_full((batch + 1, steps, heads, dim + 3), torch.nan)
        wide[1:, :, :, 2 : dim + 2] = it
        return wide[1:, :, :, 2 : dim + 2]

    return {
        "contiguous": lambda it: it.contiguous(),
        "heads first": lambda it: it.transpose(1, 2).contiguous().transpose(1, 2),
        "steps first": lambda it: it.transpose(0, 1).contiguous().transpose(0, 1),
        "slice": slice_of,
    }


def judge_layouts() -> int:
    """Judge the operator on every layout; return how many cases pass."""
    passed = 0
    for shape in (OTHER, SHAPE):
        batch, steps, heads, dim = shape
        print(
            f"\ngate B = {batch}, T = {steps}, H = {heads}, D = {dim}: "
            "worst error as a fraction of what is allowed"
        )
        print("  layout       outputs  sigmoid  near one  all zeros  other bits")
        cases = [make(shape), make(shape, 4.0)]
        judges = [reference(inputs) for inputs in cases]
        plain = [recurrence(*[it.cuda() for it in inputs]) for inputs in cases]
        zeros = float(fractions(torch.zeros(shape), judges[0]).max())
        for name, lay in layouts(shape).items():
            got = [recurrence(*[lay(it.cuda()) for it in inputs]) for inputs in cases]
            worst = [float(fractions(*pair).max()) for pair in zip(got, judges, strict=True)]
            other = sum(int((a != b).sum()) for a, b in zip(got, plain, strict=True))
            outputs = got[0].numel()
            print(
                f"  {name:11s}  {outputs:7d}  {worst[0]:7.4f}  {worst[1]:8.4f}"
                f"  {zeros:9.0f}  {other:10d}"
            )
            passed += max(worst) <= 1.0 and other == 0 and zeros > 1.0
    return passed


def judge_streams() -> int:
    """Judge the operator on a stream whose inputs come late, and in a graph."""
    inputs = [it.cuda() for it in make(SHAPE)]
    judge = reference(inputs)
    late = [torch.zeros_like(it) for it in inputs]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(SLEEP)  # noqa: SLF001
        for empty, full in zip(late, inputs, strict=True):
            empty.copy_(full)
        y = recurrence(*late)
    torch.cuda.synchronize()
    streamed = wrong_of(y, judge)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = recurrence(*late)
    y.fill_(UNWRITTEN)
    graph.replay()
    torch.cuda.synchronize()
    replayed = wrong_of(y, judge)
    none = recurrence(*[it[:, :0] for it in inputs])
    print("\nstreams: outputs that the gate does not accept")
    print(f"  inputs come late   {streamed}   (on a stream of the caller's)")
    print(f"  graph, replayed    {replayed}   (over a y of {UNWRITTEN:.0f})")
    print(f"  outputs of T = 0   {none.numel()}")
    return (streamed == 0) + (replayed == 0) + (none.shape == (2, 0, 4, 24))


def judge_refusals() -> int:
    """Offer what must be refused; return how many times the words are right."""
    q, k, v, gate = (it.cuda() for it in make(SHAPE))
    narrow = [it[..., :23] for it in (q, k, v, gate)]
    apart = q.transpose(2, 3).contiguous().transpose(2, 3)
    offers = {
        "half": ((q.half(), k, v, gate), "q is torch.float16, but must be torch.float32"),
        "double": ((q, k, v, gate.double()), "gate is torch.float64, but must be torch.float32"),
        "on the CPU": ((q.cpu(), k, v, gate), "q is on cpu, but must be on a CUDA device"),
        "k on the CPU": ((q, k.cpu(), v, gate), "k is on cpu, but must be on a CUDA device"),
        "no batch": ((q[0], k, v, gate), "q has 3 dimensions, but must have 4: B, T, H, D"),
        "short": (
            (q, k, v[:, :64], gate),
            "v is (2, 64, 4, 24), but must be as q, (2, 128, 4, 24)",
        ),
        "one gate": (
            (q, k, v, gate[..., :1]),
            "gate is (2, 128, 4, 1), but must be as q, (2, 128, 4, 24)",
        ),
        "D apart": (
            (apart, k, v, gate),
            "q has stride 4 along D, but must have 1: use .contiguous()",
        ),
        "D of 23": (narrow, "D is 23, but must be one of (24, 40)"),
    }
    print("\nrefused: each with a ValueError that says")
    right = 0
    for name, (inputs, due) in offers.items():
        try:
            recurrence(*inputs)
            said = "nothing"
        except ValueError as error:
            said = str(error)
        print(f"  {name:13s}  {said}")
        right += said == f"recurrence: {due}"
    try:
        launch((q, k, v, gate), q.new_empty(0, 128, 4, 24))
        said = "nothing"
    except RuntimeError as error:
        said = str(error)
    print(f"\nlaunch of no blocks: {said}")
    print(f"\nrefusals: {len(offers)} by the wrapper, one by the launch")
    print(f"  in the right words   {right}")
    return (right == len(offers)) + said.startswith("recurrence: the launch failed: ")


def judge_opcheck() -> int:
    """Let PyTorch judge how the operator is registered."""
    print("\nopcheck: of torch.library")
    passed = 0
    inputs = [it.cuda() for it in make(OTHER)]
    for name in ("contiguous", "heads first"):
        lay = layouts(OTHER)[name]
        found = torch.library.opcheck(recurrence, [lay(it) for it in inputs])
        good = sum(result == "SUCCESS" for result in found.values())
        print(f"  {name:11s}   {good}   (tests passed, of {len(found)})")
        passed += good == len(found) > 0
    return passed


def main() -> int:
    """Judge everything; nothing is timed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="without opcheck")
    quick = parser.parse_args().quick
    print(gpu_line())
    passed = judge_layouts() + judge_streams() + judge_refusals()
    due = 8 + 3 + 2
    if not quick:
        passed += judge_opcheck()
        due += 2
    if passed != due:
        print(f"{due - passed} of {due} checks failed", file=sys.stderr)
        return 1
    print(f"\nall {due} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
