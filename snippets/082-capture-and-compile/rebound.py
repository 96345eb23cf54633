# SPDX-License-Identifier: MIT
#
# Day 82: a graph and its addresses. A graph is recorded with the addresses of the
# tensors that were there. Giving another tensor the same name afterwards changes
# nothing for the graph; writing new values to the old place does.
#
# Written down before the run: after the new name all outputs are those of the old
# inputs, after the copy none is.
#
# Run: python3 rebound.py

import sys

import torch

COUNT = 1000


def main() -> int:
    """Record y = 2 x + 1, then give it other inputs in two ways."""
    device = torch.cuda.get_device_properties(0)
    print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
    old = torch.arange(float(COUNT), device="cuda")
    new = old + COUNT
    want = new * 2.0 + 1.0
    x = old.clone()
    (x * 2.0 + 1.0).sum()  # whatever is done once is done before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2.0 + 1.0
    print(f"\nreplayed: wrong outputs of {COUNT}")
    kept = x
    # snippet: rebound
    x = new.clone()  # a new tensor, elsewhere
    graph.replay()
    # end snippet
    rebound = int((y != want).sum())
    # snippet: copied
    kept.copy_(new)  # new values, in the old place
    graph.replay()
    # end snippet
    copied = int((y != want).sum())
    print(f"  new name   {rebound}")
    print(f"  copy       {copied}")
    if rebound:
        print(f"{rebound} outputs are those of the old inputs", file=sys.stderr)
    return int(rebound + copied > 0)


if __name__ == "__main__":
    sys.exit(main())
