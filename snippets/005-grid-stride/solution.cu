// SPDX-License-Identifier: MIT
//
// Day 5, exercise: any grid, solved.
// x[i] = 0.5 * x[i] + 3, in place, for any n with any grid.
//
// The step is the number of threads in the grid, not in a block.
//
// In place, so that an element that is computed twice is wrong. The numbers
// are whole or halves, so they have to be equal to the CPU's to the bit. Behind
// the array lies a canary, which must not change.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr unsigned int kThreads = 256;
constexpr size_t kSizes[] = {1, 300, 65537};
constexpr unsigned int kGrids[] = {1, 3, 131, 500};
constexpr size_t kCanary = kThreads;
constexpr float kCanaryValue = -1234.5f;

// snippet: exercise
__global__ void update(float *x, size_t n)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += step) {
        x[i] = 0.5f * x[i] + 3.0f;
    }
}
// end snippet

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    int passed = 0;
    int failed = 0;
    size_t firstN = 0;
    size_t firstWrong = 0;
    unsigned int firstBlocks = 0;
    for (const unsigned int blocks : kGrids) {
        std::printf("\ncase %u blocks: %u threads\n", blocks,
                    blocks * kThreads);
        std::printf("  %-9s  %5s  %14s\n", "size", "wrong", "canary changed");
        for (const size_t n : kSizes) {
            std::vector<float> h_x(n + kCanary, kCanaryValue);
            for (size_t i = 0; i < n; ++i) {
                h_x[i] = static_cast<float>(i + 1);
            }
            const size_t bytes = h_x.size() * sizeof(float);
            float *d_x = nullptr;
            CUDA_CHECK(cudaMalloc(&d_x, bytes));
            CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes,
                                  cudaMemcpyHostToDevice));
            update<<<blocks, kThreads>>>(d_x, n);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaDeviceSynchronize());
            CUDA_CHECK(cudaMemcpy(h_x.data(), d_x, bytes,
                                  cudaMemcpyDeviceToHost));
            CUDA_CHECK(cudaFree(d_x));

            size_t wrong = 0;
            size_t changed = 0;
            for (size_t i = 0; i < n; ++i) {
                const float want = 0.5f * static_cast<float>(i + 1) + 3.0f;
                wrong += h_x[i] == want ? 0 : 1;
            }
            for (size_t k = 0; k < kCanary; ++k) {
                changed += h_x[n + k] == kCanaryValue ? 0 : 1;
            }
            std::printf("  n = %-5zu  %5zu  %14zu\n", n, wrong, changed);
            if (wrong + changed == 0) {
                ++passed;
            } else if (failed++ == 0) {
                firstN = n;
                firstWrong = wrong + changed;
                firstBlocks = blocks;
            }
        }
    }
    if (failed != 0) {
        std::fprintf(stderr, "%zu elements are wrong with %u blocks at n = "
                             "%zu\n",
                     firstWrong, firstBlocks, firstN);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
