# SPDX-License-Identifier: MIT
#
# Ledger: is -O3 what nvcc does for a kernel if it is told nothing? A kernel is
# compiled to machine code again and again: with no level, with -O3, with lower
# levels, and with lower levels handed on to ptxas, the assembler that writes
# machine code. The results are compared with the first, byte by byte: the whole
# file, in which options for ptxas are noted, and the instructions in it. Nothing
# is run.
#
# The gate: compiling twice alike gives the same file, and some level gives other
# instructions.
#
# Predicted: none and -O3 are the same. So is -O0, for -O is about host code;
# handed on to ptxas, -O3 gives the same instructions and -O0 others.
#
# Run: python3 default-level.py

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = """
extern "C" __global__ void recurrence(const float *__restrict__ q,
                                      const float *__restrict__ k,
                                      const float *__restrict__ v,
                                      const float *__restrict__ gate,
                                      float *__restrict__ y, int steps, int row)
{
    constexpr int kD = 24;
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = threadIdx.x;
    int at = blockIdx.x * steps * row + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();
    }
}
"""
# snippet: levels
LEVELS = {
    "none": [],
    "none again": [],
    "O3": ["-O3"],
    "O1": ["-O1"],
    "O0": ["-O0"],
    "ptxas O3": ["-Xptxas=-O3"],
    "ptxas O1": ["-Xptxas=-O1"],
    "ptxas O0": ["-Xptxas=-O0"],
}
# end snippet


def code_of(words: list[str], folder: Path) -> bytes:
    """Return the machine code that nvcc writes with these options."""
    file, out = folder / "kernel.cu", folder / "kernel.cubin"
    file.write_text(SOURCE, encoding="utf-8")
    command = ["nvcc", *words, "-arch=sm_90", "-cubin", "-o", str(out), str(file)]
    subprocess.run(command, check=True)
    return out.read_bytes()


def instructions(cubin: bytes) -> bytes:
    """Return the kernel's section of an ELF file of 64 bits."""
    start, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    table = [struct.unpack_from("<I20xQQ", cubin, start + n * size) for n in range(count)]
    for name, offset, length in table:
        at = table[names][1] + name
        if cubin[at : cubin.index(b"\0", at)] == b".text.recurrence":
            return cubin[offset : offset + length]
    return b""


def main() -> int:
    """Compare all levels with none; return the exit status."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, words in LEVELS.items():
            found[name] = code_of(words, Path(folder))
    first = found["none"]
    same = {name: instructions(code) == instructions(first) for name, code in found.items()}
    print("levels: machine code of the founding kernel, beside that of none")
    print("  level        same file   same instructions")
    for name, code in found.items():
        print(f"  {name:10s}   {code == first:9d}   {same[name]:17d}")
    print(f"  bytes of instructions   {len(instructions(first))} B")
    if found["none again"] != first or all(same.values()) or not instructions(first):
        print("the comparison shows nothing", file=sys.stderr)
        return 1
    print("\nall 8 cases passed their gates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
