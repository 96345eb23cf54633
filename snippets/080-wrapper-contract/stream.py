# SPDX-License-Identifier: MIT
#
# Day 80: a stream that nobody asks for. The caller works on a stream of its own
# and fills the inputs there, after something that takes a tenth of a second. The
# C function launches on the legacy default stream, which does not wait for the
# streams that PyTorch makes.
#
# Written down before the run: on the default stream nothing is wrong, on the
# caller's nearly everything, and the operator is right on both.
#
# Run: python3 stream.py

import sys
from collections.abc import Callable

import contract
import torch
from contract import SHAPE, UNWRITTEN
from torch import Tensor


def main() -> int:
    """Compute on two streams in two ways."""
    print(contract.gpu_line())
    inputs = [it.cuda() for it in contract.make(SHAPE)]
    judge = contract.reference(inputs)
    late = [torch.zeros_like(it) for it in inputs]
    ready = torch.empty(SHAPE, device="cuda")

    def unchecked(*tensors: Tensor) -> Tensor:
        contract.unchecked(*tensors, ready)
        return ready

    # snippet: stream
    def on(stream: torch.cuda.Stream, function: Callable[..., Tensor]) -> int:
        """Fill the inputs and call, both on one stream; count what is wrong."""
        for it in late:
            it.zero_()
        ready.fill_(UNWRITTEN)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(contract.SLEEP)  # noqa: SLF001
            for empty, full in zip(late, inputs, strict=True):
                empty.copy_(full)
            y = function(*late)
        torch.cuda.synchronize()
        return contract.wrong_of(y, judge)

    # end snippet

    default, own = torch.cuda.default_stream(), torch.cuda.Stream()
    print(f"\nstreams: wrong outputs of {ready.numel()}")
    print("  wrapper    default  own")
    wrong = 0
    for function in (unchecked, contract.recurrence):
        usual, there = on(default, function), on(own, function)
        name = "unchecked" if function is unchecked else "operator"
        print(f"  {name:9s}  {usual:7d}  {there:5d}")
        wrong += usual + there
    if wrong:
        print(f"{wrong} outputs are wrong, and no call failed", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
