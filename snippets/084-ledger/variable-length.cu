// SPDX-License-Identifier: MIT
//
// Ledger: may an array in a kernel have a length that is known at run time
// only? In C99 it may, and g++ accepts it in host code.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o variable-length variable-length.cu
// Run: ./variable-length

#include <cuda_runtime.h>

// snippet: variable-length
__global__ void recurrence(float *__restrict__ y, int dim)
{
    float state[dim];
    for (int i = 0; i < dim; ++i) {
        state[i] = 0.0f;
    }
    y[threadIdx.x] = state[threadIdx.x];
}
// end snippet

int main()
{
    recurrence<<<1, 24>>>(nullptr, 24);
    return 0;
}
