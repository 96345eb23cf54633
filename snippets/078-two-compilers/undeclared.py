# SPDX-License-Identifier: MIT
#
# Day 78: PyTorch's load_inline with an empty C++ string. The function that is
# asked for stands in the CUDA string, and the linker could find it there. But
# its binding is written into main.cpp, and there nobody has declared it.
#
# load_inline compiles both files at once. This program asks for one job at a
# time, so that the first error is the last.
#
# Run: python3 undeclared.py

import os
import re
import sys
import tempfile

import torch
from torch.utils.cpp_extension import load_inline

# snippet: undeclared
CUDA = """
__global__ void twice(float *x, int count)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        x[i] *= 2.0f;
    }
}

void twiceInPlace(torch::Tensor x)
{
    const int count = static_cast<int>(x.numel());
    twice<<<(count + 127) / 128, 128>>>(x.data_ptr<float>(), count);
}
"""


def build(folder: str) -> None:
    """Build it as the founding notes of this course did."""
    load_inline(
        name="undeclared",
        cpp_sources="",
        cuda_sources=CUDA,
        functions=["twiceInPlace"],
        build_directory=folder,
    )


# end snippet


def said(error: Exception) -> list[str]:
    """Return the compiler's own errors out of everything that was printed."""
    lines = str(error).splitlines()
    return [re.sub(r"^\S*/", "", line) for line in lines if ": error: " in line]


def main() -> int:
    """Build what does not build, and say why."""
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    os.environ["MAX_JOBS"] = "1"
    os.environ["LC_ALL"] = "C"  # plain quotation marks in messages
    print(f"GPU: {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(folder)
        except RuntimeError as error:
            print("\n".join(said(error)), file=sys.stderr)
            return 1
    print("it builds, although it is here because it does not")
    return 0


if __name__ == "__main__":
    sys.exit(main())
