"""A driver library whose GPUs can be lost: built for tests, with the host's C compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# As CUDA does: one that is lost fails every call from then on. The file names the
# GPUs that are lost, as CUDA_VISIBLE_DEVICES names them, and what the calls return.
_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned memory[1024];

static int status(void) {
    char name[64];
    int code, found = 0;
    const char *own = getenv("CUDA_VISIBLE_DEVICES");
    FILE *lost = fopen(LOST, "r");
    if (lost == NULL) return 0;
    while (fscanf(lost, "%63s %d", name, &code) == 2)
        if (own != NULL && strcmp(name, own) == 0) found = code;
    fclose(lost);
    return found;
}
int cuInit(unsigned flags) { return status() == 999 ? 999 : 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = memory; return status(); }
int cuCtxSetCurrent(void *context) { return status(); }
int cuMemAlloc_v2(unsigned long long *address, size_t bytes) { *address = 64; return status(); }
int cuMemsetD32_v2(unsigned long long address, unsigned value, size_t count) {
    for (size_t i = 0; i < count; i++) memory[i] = value;
    return status();
}
int cuCtxSynchronize(void) { return status(); }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
    memcpy(to, memory, bytes);
    return status();
}
int cuMemFree_v2(unsigned long long address) { return status(); }
int cuGetErrorName(int code, const char **text) {
    *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have programs find the library; return the file that says which GPUs are lost."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for a driver library of our own")
    folder.mkdir()
    source, lost = folder / "driver.c", folder / "lost"
    source.write_text(_SOURCE, encoding="utf-8")
    words = ["-shared", "-fPIC", f'-DLOST="{lost}"', "-o", str(folder / "libcuda.so.1")]
    subprocess.run([compiler, *words, str(source)], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return lost
