// SPDX-License-Identifier: MIT
//
// Day 8: inputs that hide a mistake. The table is a[row] + b[column], and the
// kernel takes rows for columns. The check is strict: no bit may differ. But b
// is a, so the table is the same when it is turned over, and the wrong kernel
// is right. With other numbers in b the same check notices.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o symmetric symmetric.cu
// Run: ./symmetric

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                    \
    do {                                                                    \
        const cudaError_t error_ = (call);                                  \
        if (error_ != cudaSuccess) {                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__,     \
                         #call, cudaGetErrorString(error_));                \
            std::exit(EXIT_FAILURE);                                        \
        }                                                                   \
    } while (0)

constexpr size_t kSide = 100;
constexpr size_t kCount = kSide * kSide;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);

// table = a[row] + b[column], row after row, and wrong: rows for columns.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: at least kCount threads.
// snippet: symmetric
__global__ void addTable(const float *__restrict__ a,
                         const float *__restrict__ b,
                         float *__restrict__ table)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < kCount) {
        const size_t row = i % kSide;  // should be i / kSide
        const size_t column = i / kSide;
        table[i] = a[row] + b[column];
    }
}
// end snippet

// How many elements of the table differ in at least one bit.
static size_t wrongWith(const std::vector<float> &h_a,
                        const std::vector<float> &h_b)
{
    std::vector<float> h_table(kCount, NAN);
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_table = nullptr;
    CUDA_CHECK(cudaMalloc(&d_a, kSide * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_b, kSide * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_table, kBytes));
    CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), kSide * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, h_b.data(), kSide * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_table, 0xff, kBytes));
    addTable<<<kBlocks, kThreads>>>(d_a, d_b, d_table);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_table.data(), d_table, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_table));
    size_t wrong = 0;
    for (size_t row = 0; row < kSide; ++row) {
        for (size_t column = 0; column < kSide; ++column) {
            const float want = h_a[row] + h_b[column];
            wrong += h_table[row * kSide + column] == want ? 0 : 1;
        }
    }
    return wrong;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    std::vector<float> h_a(kSide);
    std::vector<float> h_b(kSide);
    for (size_t i = 0; i < kSide; ++i) {
        h_a[i] = static_cast<float>(i * 23 % 101);
        h_b[i] = static_cast<float>(i * 34 % 103);
    }
    const size_t wrong = wrongWith(h_a, h_a);
    std::printf("\ncheck: %s\n", wrong == 0 ? "PASSED" : "FAILED");
    std::printf("  elements           %zu\n", kCount);
    std::printf("  wrong elements     %zu   (with one vector used twice)\n",
                wrong);
    const size_t other = wrongWith(h_a, h_b);
    std::printf("  wrong with two     %zu   (with two different vectors)\n",
                other);
    if (wrong != 0 || other != 0) {
        std::fprintf(stderr, "the check %s, and with other inputs %zu of %zu "
                             "elements are wrong\n",
                     wrong == 0 ? "passed" : "failed", other, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
