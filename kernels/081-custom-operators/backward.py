# SPDX-License-Identifier: MIT
#
# Day 81: custom operators and autograd. The recurrence of day 84 as an operator
# of PyTorch, with a backward pass of its own:
#
#   state[t] = gate[t] * state[t - 1] + k[t] v[t]     D x D, gate along a row
#   y[t]     = q[t] state[t]
#
# With dy, the gradient of some number by y, let adjoint[t] be its gradient by
# state[t]. It is a recurrence as well, from the last step to the first:
#
#   adjoint[t] = gate[t + 1] * adjoint[t + 1] + q[t] dy[t]
#
#   dq[t][i]    = sum over j of state[t][i][j] * dy[t][j]
#   dk[t][i]    = sum over j of adjoint[t][i][j] * v[t][j]
#   dv[t][j]    = sum over i of adjoint[t][i][j] * k[t][i]
#   dgate[t][j] = sum over i of adjoint[t][i][j] * state[t - 1][i][j]
#
# dgate needs the states in the order in which they are not made. The kernel
# computes them once more, forwards, and keeps them all. They can be done without:
#
#   gate[t] dgate[t] = y[t] dy[t] - v[t] dv[t] + gate[t + 1] dgate[t + 1]
#
# That is a sum over later steps, and a division by the gate ("by sums").
#
# Judges: gradcheck in double precision at a small size; opcheck; and at the
# founding size autograd of the loop in double precision. A gradient may be off
# by 4 u sqrt(D + 4 + 2 T) times the sum of its absolute terms: no term has been
# through more roundings. That sum is the same gradient of the absolute inputs.
#
# Written down before the run: the worst fraction is 0.1 for all gradients. By
# sums is right with sigmoid gates, wrong near zero, and not finite with zeros.
# A plain function takes 10 us a call, an operator by define and impl 15, by
# custom_op 20, and 40 when it keeps something for backward. Forwards and
# backwards together take 250 us, the loop 40 ms.
#
# Run: python3 backward.py

import ctypes
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

# --- Shapes -----------------------------------------------------------------

FOUNDING = (2, 128, 4, 24)
OTHER = (1, 67, 3, 40)  # two warps of columns, the second ragged
SMALL = (1, 7, 2, 4)  # for gradcheck, in double precision

# --- Cases ------------------------------------------------------------------

GATES = {"sigmoid": 0.0, "near one": 4.0, "near zero": -4.0, "zeros": 0.0}
ZERO_PERIOD = 7  # of the steps whose gates are zero
SEED = 81

# --- Tolerance --------------------------------------------------------------

UNIT = 2.0**-24  # u: the most that a rounding is off
SAFETY = 4.0

# --- Timing -----------------------------------------------------------------

REPEATS = 11  # odd: the median is one of the samples
CALLS = 200  # in a row

# --- Kernels ----------------------------------------------------------------

SOURCE = r"""
// Thread j of block (b, h) has column j of its state.
// Launch assumption: kD threads, a block per batch and head.
template <typename Real, int kD>
__global__ void forward(const Real *q, const Real *k, const Real *v,
                        const Real *gate, Real *y, int steps, int heads)
{
    __shared__ Real tileK[kD];
    __shared__ Real tileQ[kD];
    const int j = threadIdx.x;
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = blockIdx.x / heads * steps * row + blockIdx.x % heads * kD + j;
    Real state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        Real sum = 0;
        for (int i = 0; i < kD; ++i) {
            state[i] = fma(gate[at], state[i], tileK[i] * v[at]);
            sum = fma(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// The same columns forwards, which keeps the states, then backwards. A sum over
// columns goes through shared memory; its pitch is odd, for the banks.
// Launch assumption: as forward.
template <typename Real, int kD>
__global__ void backward(const Real *dy, const Real *q, const Real *k,
                         const Real *v, const Real *gate, Real *states,
                         Real *dq, Real *dk, Real *dv, Real *dgate, int steps,
                         int heads)
{
    __shared__ Real tileK[kD];
    __shared__ Real tileQ[kD];
    __shared__ Real part[kD][kD + 1];
    const int j = threadIdx.x;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.x / heads * steps * row + blockIdx.x % heads * kD + j;
"""

# snippet: keep
SOURCE += r"""
    Real *kept = states + static_cast<size_t>(blockIdx.x) * steps * kD * kD + j;
    Real state[kD] = {};
    for (int t = 0; t < steps; ++t) {
        const size_t at = start + t * row;
        tileK[j] = k[at];
        __syncthreads();  // the step's k is there, and part has been read
        for (int i = 0; i < kD; ++i) {
            kept[(t * kD + i) * kD] = state[i];  // as it is before step t
            state[i] = fma(gate[at], state[i], tileK[i] * v[at]);
            part[i][j] = state[i] * dy[at];
        }
        __syncthreads();  // every column's part is there
        Real sum = 0;
        for (int n = 0; n < kD; ++n) {
            sum += part[j][n];
        }
        dq[at] = sum;
    }
"""
# end snippet

# snippet: reverse
SOURCE += r"""
    Real adjoint[kD] = {};
    Real later = 0;  // the gate of the step behind
    for (int t = steps - 1; t >= 0; --t) {
        const size_t at = start + t * row;
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there, and part has been read
        Real sumV = 0;
        Real sumGate = 0;
        for (int i = 0; i < kD; ++i) {
            adjoint[i] = fma(later, adjoint[i], tileQ[i] * dy[at]);
            sumV = fma(adjoint[i], tileK[i], sumV);
            sumGate = fma(adjoint[i], kept[(t * kD + i) * kD], sumGate);
            part[i][j] = adjoint[i] * v[at];
        }
        dv[at] = sumV;
        dgate[at] = sumGate;
        later = gate[at];
        __syncthreads();  // every column's part is there
        Real sum = 0;
        for (int n = 0; n < kD; ++n) {
            sum += part[j][n];
        }
        dk[at] = sum;
    }
"""
# end snippet

SOURCE += r"""
}

template <typename Real, int kD>
static int both(void *const *p, int blocks, int steps, int heads,
                cudaStream_t stream)
{
    Real *const *x = reinterpret_cast<Real *const *>(p);
    if (x[5] == nullptr) {
        forward<Real, kD><<<blocks, kD, 0, stream>>>(
            x[0], x[1], x[2], x[3], x[4], steps, heads);
    } else {
        backward<Real, kD><<<blocks, kD, 0, stream>>>(
            x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], steps,
            heads);
    }
    return cudaGetLastError();
}

// forward for five pointers and a null, backward for ten.
extern "C" int launch(void *const *pointers, int isDouble, int dim, int blocks,
                      int steps, int heads, cudaStream_t stream)
{
    if (isDouble != 0 && dim == 4) {
        return both<double, 4>(pointers, blocks, steps, heads, stream);
    }
    if (isDouble == 0 && dim == 24) {
        return both<float, 24>(pointers, blocks, steps, heads, stream);
    }
    if (isDouble == 0 && dim == 40) {
        return both<float, 40>(pointers, blocks, steps, heads, stream);
    }
    return cudaErrorInvalidValue;
}

extern "C" const char *errorText(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}
"""


def build(folder: str) -> ctypes.CDLL:
    """Compile the kernels and load them."""
    Path(folder, "kernels.cu").write_text(SOURCE)
    command = ["nvcc", "-O3", "-std=c++17", "-arch=native", "-shared", "-Xcompiler=-fPIC"]
    subprocess.run([*command, "-o", "kernels.so", "kernels.cu"], cwd=folder, check=True)
    library = ctypes.CDLL(f"{folder}/kernels.so")
    library.launch.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 5, ctypes.c_void_p]
    library.errorText.restype = ctypes.c_char_p
    return library


def launch(library: ctypes.CDLL, *tensors: torch.Tensor) -> None:
    """Launch forward for five tensors, backward for ten, on PyTorch's current stream.

    Raises:
        ValueError: A tensor is not what the kernels read.
        RuntimeError: The launch failed.
    """
    like = tensors[0]
    for number, tensor in enumerate(tensors):
        if tensor.device != like.device or tensor.dtype != like.dtype:
            raise ValueError(f"tensor {number} is {tensor.dtype} on {tensor.device}")
        if not tensor.is_contiguous():
            raise ValueError(f"tensor {number} has strides {tensor.stride()}")
    pointers = (ctypes.c_void_p * 10)(*[tensor.data_ptr() for tensor in tensors])
    batch, steps, heads, dim = like.shape
    stream = torch.cuda.current_stream(like.device).cuda_stream
    double = int(like.dtype == torch.float64)
    error = library.launch(pointers, double, dim, batch * heads, steps, heads, stream)
    if error:
        raise RuntimeError(library.errorText(error).decode())


# --- Operators --------------------------------------------------------------


def register(library: ctypes.CDLL) -> None:
    """Make the recurrence known to PyTorch, with its gradients."""

    # snippet: operator
    @torch.library.custom_op("day81::recurrence", mutates_args=(), device_types="cuda")
    def recurrence(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor
    ) -> torch.Tensor:
        y = torch.empty_like(q)
        launch(library, q, k, v, gate, y)
        return y

    @recurrence.register_fake
    def _(q, k, v, gate):  # noqa: ANN001, ANN202, ARG001
        return torch.empty_like(q)

    # end snippet
    # snippet: gradients
    @torch.library.custom_op("day81::gradients", mutates_args=(), device_types="cuda")
    def gradients(
        dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, steps, heads, dim = q.shape
        states = q.new_empty(batch, heads, steps, dim, dim)
        results = tuple(torch.empty_like(q) for _ in range(4))
        launch(library, dy, q, k, v, gate, states, *results)
        return results

    @gradients.register_fake
    def _(dy, q, k, v, gate):  # noqa: ANN001, ANN202, ARG001
        return tuple(torch.empty_like(q) for _ in range(4))

    # end snippet
    # snippet: autograd
    def setup_context(ctx, inputs, output):  # noqa: ANN001, ANN202, ARG001
        ctx.save_for_backward(*inputs)

    def backward(ctx, dy):  # noqa: ANN001, ANN202
        return torch.ops.day81.gradients(dy.contiguous(), *ctx.saved_tensors)

    recurrence.register_autograd(backward, setup_context=setup_context)
    # end snippet


def register_plain(library: ctypes.CDLL) -> Callable[..., torch.Tensor]:
    """Return the same as a plain function, and register that by define and impl."""

    def plain(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor
    ) -> torch.Tensor:
        y = torch.empty_like(q)
        launch(library, q, k, v, gate, y)
        return y

    schema = "(Tensor q, Tensor k, Tensor v, Tensor gate) -> Tensor"
    torch.library.define("day81::low", schema)
    torch.library.impl("day81::low", "cuda", plain)
    return plain


def loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute the recurrence by PyTorch's operations; autograd knows them all."""
    batch, steps, heads, dim = q.shape
    state = q.new_zeros(batch, heads, dim, dim)
    rows = []
    for t in range(steps):
        added = k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        state = state * gate[:, t].unsqueeze(-2) + added
        rows.append((q[:, t].unsqueeze(-1) * state).sum(-2))
    return torch.stack(rows, 1)


# --- Judging ----------------------------------------------------------------


def make_inputs(shape: tuple[int, ...], gates: str) -> list[torch.Tensor]:
    """Return q, k, v, gate and dy, in double precision, of values that are FP32's."""
    source = torch.Generator().manual_seed(SEED)
    values = [torch.randn(shape, generator=source) for _ in range(5)]
    values[3] = torch.sigmoid(values[3] + GATES[gates])
    if gates == "zeros":
        values[3][:, ZERO_PERIOD - 1 :: ZERO_PERIOD] = 0.0
    return [value.double() for value in values]


def with_gradients(
    function: Callable[..., torch.Tensor], values: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return y and the gradients by q, k, v and gate."""
    inputs = [value.detach().clone().requires_grad_() for value in values[:4]]
    y = function(*inputs)
    return [y.detach(), *torch.autograd.grad(y, inputs, values[4])]


# snippet: by-sums
def by_sums(
    y: torch.Tensor, dy: torch.Tensor, v: torch.Tensor, dv: torch.Tensor, gate: torch.Tensor
) -> torch.Tensor:
    """Return dgate without any state."""
    return (y * dy - v * dv).flip(1).cumsum(1).flip(1) / gate


# end snippet


def fraction(got: torch.Tensor, want: torch.Tensor, terms: torch.Tensor) -> float:
    """Return the worst error as a fraction of what is allowed; inf if not finite."""
    if got.shape != want.shape or got.numel() == 0:
        return math.inf
    _, steps, _, dim = want.shape
    allowed = SAFETY * UNIT * math.sqrt(dim + 4 + 2 * steps) * terms
    error = (got.cpu().double() - want).abs()
    part = torch.where(error == 0, 0.0, error / allowed)
    return float(torch.where(torch.isfinite(part), part, math.inf).max())


def judge(shape: tuple[int, ...], kinds: list[str]) -> tuple[int, str]:
    """Judge all gradients at one shape.

    Returns:
        How many cases passed, and what failed first.
    """
    batch, steps, heads, dim = shape
    print(f"\ngate B = {batch}, T = {steps}, H = {heads}, D = {dim}: "
          "worst error as a fraction of what is allowed")  # fmt: skip
    names = ["y", "dq", "dk", "dv", "dgate"]
    header = [*names, "by sums", "not finite", "all zeros"]
    print(f"  {'gates':9}" + "".join(f"  {name:>12}" for name in header))
    passed, failure = 0, ""
    for gates in kinds:
        values = make_inputs(shape, gates)
        want = with_gradients(loop, values)
        terms = with_gradients(loop, [value.abs() for value in values])
        on_gpu = [value.float().cuda() for value in values]
        got = with_gradients(torch.ops.day81.recurrence, on_gpu)
        row = [fraction(*each) for each in zip(got, want, terms, strict=True)]
        without = by_sums(got[0], on_gpu[4], on_gpu[2], got[3], on_gpu[3])
        finite = torch.isfinite(without).cpu()
        # Those that are not finite are counted, the others compared. Before step 0
        # the state is zero, and so are dgate and its terms.
        some = torch.where(finite, without.cpu(), want[4])
        sums = fraction(some[:, 1:], want[4][:, 1:], terms[4][:, 1:])
        zeros = fraction(torch.zeros_like(want[4]), want[4], terms[4])
        columns = [f"{part:12.4f}" for part in (*row, sums)]
        columns += [f"{int((~finite).sum()):12}", f"{zeros:12.0f}"]
        print(f"  {gates:9}" + "".join(f"  {text}" for text in columns))
        wrong = [name for name, part in zip(names, row, strict=True) if not part <= 1.0]
        if wrong:
            failure = failure or f"{wrong[0]} is wrong, gates {gates}, {shape}"
        else:
            passed += 1
    return passed, failure


def check_registration() -> tuple[int, str]:
    """Run PyTorch's own judges of an operator and of its gradients."""
    print("\nchecks: PyTorch's own")
    operator = torch.ops.day81.recurrence.default
    small = [value.cuda() for value in make_inputs(SMALL, "sigmoid")[:4]]
    large = [value.float().cuda() for value in make_inputs(FOUNDING, "sigmoid")[:4]]
    inputs = [value.requires_grad_() for value in small]
    good = torch.autograd.gradcheck(operator, inputs, raise_exception=False)
    print(f"  gradcheck   {int(good)}   (of 1, in double precision, every input)")
    arguments = tuple(value.requires_grad_() for value in large)
    results = torch.library.opcheck(operator, arguments, raise_exception=False)
    success = sum(result == "SUCCESS" for result in results.values())
    print(f"  opcheck     {success}   (of {len(results)} tests)")
    if not good:
        return 0, "gradcheck: the gradients are not those of the operator"
    if success != len(results) or not results:
        failed = [name for name, result in results.items() if result != "SUCCESS"]
        return 1, f"opcheck: {', '.join(failed)} failed"
    return 2, ""


# --- Timer ------------------------------------------------------------------


def microseconds(run: Callable[[], object], calls: int) -> float:
    """Return the time of a call of many in a row, by the host's clock; the median."""
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


def print_times(plain: Callable[..., torch.Tensor]) -> None:
    """Print what a call takes, for each way to make it."""
    *inputs, dy = [value.float().cuda() for value in make_inputs(FOUNDING, "sigmoid")]
    wanting = [value.detach().clone().requires_grad_() for value in inputs]
    ops = torch.ops.day81
    state_bytes = math.prod(FOUNDING) * FOUNDING[3] * 4
    print("\nbytes: at the founding shape")
    print(f"  tensor   {math.prod(FOUNDING) * 4} B")
    print(f"  states   {state_bytes} B   (kept while the gradients are computed)")

    def around(function: Callable[..., torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(function(*wanting), wanting, dy)

    print("\ntime: a call of many in a row, by the host's clock")
    print(f"  repeats   {REPEATS}   (time is the median)\n")
    print(f"  {'way':22}  {'time (us)':>10}")
    for name, run, calls in (
        ("plain function", lambda: plain(*inputs), CALLS),
        ("define and impl", lambda: ops.low(*inputs), CALLS),
        ("custom op", lambda: ops.recurrence(*inputs), CALLS),
        ("custom op, recorded", lambda: ops.recurrence(*wanting), CALLS),
        ("forward and backward", around(ops.recurrence), CALLS),
        ("loop", lambda: loop(*inputs), 3),
        ("loop and its backward", around(loop), 3),
    ):
        print(f"  {name:22}  {microseconds(run, calls):10.2f}")


# --- Main -------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Judge the operator, then time it."""
    if arguments not in ([], ["--quick"]):
        print("usage: backward.py [--quick]\n  --quick  nothing timed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
    register(library)
    plain = register_plain(library)
    device = torch.cuda.get_device_properties(0)
    print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
    passed, failure = check_registration()
    for shape, kinds in ((OTHER, list(GATES)[:2]), (FOUNDING, list(GATES))):
        if not failure:
            more, failure = judge(shape, kinds)
            passed += more
    if not failure and not arguments:
        print_times(plain)
    if failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"\nall {passed} cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
