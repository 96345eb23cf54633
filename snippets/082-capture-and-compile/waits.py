# SPDX-License-Identifier: MIT
#
# Day 82: a capture that asks for a result. While a stream is captured nothing
# runs on it, so there is no number that could be looked at. float(y) has to wait
# for one.
#
# Written down before the run: PyTorch reports an operation that is not permitted,
# and then once more, that the capture has failed.
#
# Run: python3 waits.py

import sys

import torch


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def main() -> int:
    """Capture a function that looks at what it computes."""
    device = torch.cuda.get_device_properties(0)
    print(f"GPU: {device.name} (compute capability {device.major}.{device.minor})")
    x = torch.arange(8.0, device="cuda")

    # snippet: waits
    def halved(y: torch.Tensor) -> torch.Tensor:
        while float(y.max()) > 1.0:
            y = y * 0.5
        return y

    # end snippet

    print("\ncalled: as it stands")
    print(f"  largest   {float(halved(x).max()):.4f}")
    said = []
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            try:
                halved(x)
            except RuntimeError as error:
                said.append(first_line(error))
    except RuntimeError as error:
        said.append(first_line(error))
    if not said:
        print("it can be captured")
        return 0
    print(*said, sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
