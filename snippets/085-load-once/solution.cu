// SPDX-License-Identifier: MIT
//
// Day 85, exercise, solved: a tile of factors is loaded at once, and no step of
// it needs a barrier.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr int kColumns = 96;  // threads: three warps
constexpr int kSteps = 1000;  // no multiple of a tile
constexpr int kTile = 64;     // factors in shared memory, at most
constexpr int kTiles = (kSteps + kTile - 1) / kTile;
constexpr unsigned int kAllowed = 2 * kTiles;
constexpr size_t kCount = static_cast<size_t>(kSteps) * kColumns;

// A barrier that is counted.
__device__ void countedBarrier(unsigned int *barriers)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        ++*barriers;
    }
}

// A filter: y[t][j] = factor[t] * y[t - 1][j] + x[t][j]. Thread j has column j;
// every column has the same factors.
// Launch assumption: one block of kColumns threads.
__global__ void filter(const float *__restrict__ factor,
                       const float *__restrict__ x, float *__restrict__ y,
                       unsigned int *__restrict__ barriers)
{
    const int j = static_cast<int>(threadIdx.x);
    __shared__ float factors[kTile];
    float value = 0.0f;
    // snippet: exercise
    for (int first = 0; first < kSteps; first += kTile) {
        const int count = min(kTile, kSteps - first);
        if (j < count) {
            factors[j] = factor[first + j];
        }
        countedBarrier(barriers);  // the tile is there
        for (int s = 0; s < count; ++s) {
            const int at = (first + s) * kColumns + j;
            value = fmaf(factors[s], value, x[at]);
            y[at] = value;
        }
        countedBarrier(barriers);  // nobody reads it any more
    }
    // end snippet
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);

    std::vector<float> factor;
    std::vector<float> x;
    for (size_t t = 0; t < kSteps; ++t) {
        factor.push_back(static_cast<float>(t * 389 % 997) / 997.0f);
    }
    for (size_t i = 0; i < kCount; ++i) {
        x.push_back(static_cast<float>(i * 2579 % 10007) / 10007.0f - 0.5f);
    }
    float *d_factor = nullptr;
    float *d_x = nullptr;
    float *d_y = nullptr;
    unsigned int *d_barriers = nullptr;
    unsigned int barriers = 0;
    std::vector<float> y(kCount);
    CUDA_CHECK(cudaMalloc(&d_factor, kSteps * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_x, kCount * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, kCount * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_barriers, sizeof(barriers)));
    CUDA_CHECK(cudaMemcpy(d_factor, factor.data(), kSteps * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), kCount * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_y, 0xff, kCount * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_barriers, 0, sizeof(barriers)));
    filter<<<1, kColumns>>>(d_factor, d_x, d_y, d_barriers);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), d_y, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(&barriers, d_barriers, sizeof(barriers),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_factor));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));
    CUDA_CHECK(cudaFree(d_barriers));

    // fmaf rounds once, on a CPU as on a GPU: equal to the bit.
    size_t wrong = 0;
    for (size_t j = 0; j < kColumns; ++j) {
        float want = 0.0f;
        for (size_t t = 0; t < kSteps; ++t) {
            want = std::fmaf(factor[t], want, x[t * kColumns + j]);
            wrong += y[t * kColumns + j] == want ? 0 : 1;  // a NaN is wrong
        }
    }
    std::printf("\nfilter: %d steps of %d columns\n", kSteps, kColumns);
    std::printf("  outputs    %zu\n", kCount);
    std::printf("  wrong      %zu\n", wrong);
    std::printf("  barriers   %u\n", barriers);
    std::printf("  allowed    %u   (two for each tile)\n", kAllowed);
    if (wrong != 0 || barriers > kAllowed) {
        std::fprintf(stderr, "%zu wrong outputs, %u barriers, not at most %u\n",
                     wrong, barriers, kAllowed);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
