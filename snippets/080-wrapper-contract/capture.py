# SPDX-License-Identifier: MIT
#
# Day 80: the stream again, in a graph. A graph is recorded from what is launched
# on the stream that is being captured. The C function launches on another one.
#
# Written down before the run: the launch is not recorded but carried out, the
# graph is empty, and replaying it changes nothing. PyTorch warns of an empty
# graph.
#
# Run: python3 capture.py

import ctypes
import sys
import warnings
from collections.abc import Callable

import contract
import torch
from contract import SHAPE, UNWRITTEN
from torch import Tensor


def nodes_of(graph: torch.cuda.CUDAGraph) -> int:
    """Ask the driver how many nodes a captured graph has."""
    count = ctypes.c_size_t()
    raw = ctypes.c_void_p(graph.raw_cuda_graph())
    ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(raw, None, ctypes.byref(count))
    return count.value


# snippet: capture
def captured(function: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Record a call in a graph, put something else where its result is, replay."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = function()
    y.fill_(UNWRITTEN)
    graph.replay()
    return graph, y


# end snippet


def main() -> int:
    """Capture both ways, and count."""
    print(contract.gpu_line())
    inputs = [it.cuda() for it in contract.make(SHAPE)]
    judge = contract.reference(inputs)
    ready = torch.empty(SHAPE, device="cuda")

    def unchecked() -> Tensor:
        contract.unchecked(*inputs, ready)
        return ready

    def operator() -> Tensor:
        return contract.recurrence(*inputs)

    found = {}
    for function in (unchecked, operator):
        name = function.__name__
        function()  # loads the kernels: not while a stream is captured
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            graph, y = captured(function)
        torch.cuda.synchronize()
        unwritten = int((y == UNWRITTEN).sum())
        wrong = contract.wrong_of(y, judge)
        found[name] = (nodes_of(graph), unwritten, wrong, len(said))
        for warning in said:
            print(f"\n{name}, a warning: {str(warning.message).split('. ')[0]}")
    print(f"\nreplayed: a graph of one call, y filled with {UNWRITTEN:.0f} before")
    print("  wrapper    nodes  unwritten  wrong  warnings")
    for name, (nodes, unwritten, wrong, warned) in found.items():
        print(f"  {name:9s}  {nodes:5d}  {unwritten:9d}  {wrong:5d}  {warned:8d}")
    wrong = found["unchecked"][2]
    if wrong:
        print(f"{wrong} outputs are wrong, and no call failed", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
