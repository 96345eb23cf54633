// SPDX-License-Identifier: MIT
//
// Day 18, a solution of the exercise: each thread finds the eight least of 61
// numbers in one pass, and keeps them in registers. The number goes through the
// list: at each place the lesser of the two stays, the greater one goes on. All
// indices are the unrolled loop's, so the array needs no address. (It also
// leaves the list in rising order, which nobody asked for.)
//
// The program sorts each thread's numbers on the CPU and compares all eight,
// bit for bit. Then it asks the runtime how much local memory the kernel has,
// and fails unless that is none.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <algorithm>
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

constexpr unsigned int kThreads = 64;
constexpr unsigned int kBlocks = 3;
constexpr unsigned int kKept = 8;
constexpr unsigned int kNumbers = 61;  // of each thread
constexpr size_t kAll = static_cast<size_t>(kBlocks) * kThreads;

// The kKept least of each thread's numbers, in any order.
// Memory: number i of all threads lies side by side: a warp reads 32 of them.
// Launch assumption: kAll threads.
__global__ void leastOf(const float *__restrict__ x, float *__restrict__ out)
{
    const size_t thread =
        static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    float least[kKept];
#pragma unroll
    for (unsigned int k = 0; k < kKept; ++k) {
        least[k] = INFINITY;
    }
    for (unsigned int i = 0; i < kNumbers; ++i) {
        float value = x[i * kAll + thread];
        // snippet: exercise
#pragma unroll
        for (unsigned int k = 0; k < kKept; ++k) {
            const float greater = fmaxf(least[k], value);
            least[k] = fminf(least[k], value);
            value = greater;
        }
        // end snippet
    }
#pragma unroll
    for (unsigned int k = 0; k < kKept; ++k) {
        out[k * kAll + thread] = least[k];
    }
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    // All different: steps through 0 .. 12 006, a prime less one.
    std::vector<float> h_x(kNumbers * kAll);
    std::vector<float> h_out(kKept * kAll, NAN);
    for (size_t i = 0; i < h_x.size(); ++i) {
        h_x[i] = static_cast<float>(i * 5003 % 12007) - 6000.5f;
    }
    float *d_x = nullptr;
    float *d_out = nullptr;
    const size_t bytesIn = h_x.size() * sizeof(float);
    const size_t bytesOut = h_out.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_x, bytesIn));
    CUDA_CHECK(cudaMalloc(&d_out, bytesOut));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytesIn, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytesOut));
    leastOf<<<kBlocks, kThreads>>>(d_x, d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytesOut,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_out));

    size_t wrong = 0;
    for (size_t thread = 0; thread < kAll; ++thread) {
        std::vector<float> sorted;
        for (size_t i = 0; i < kNumbers; ++i) {
            sorted.push_back(h_x[i * kAll + thread]);
        }
        std::sort(sorted.begin(), sorted.end());
        for (size_t k = 0; k < kKept; ++k) {
            size_t found = 0;
            for (size_t j = 0; j < kKept; ++j) {
                found += h_out[j * kAll + thread] == sorted[k] ? 1 : 0;
            }
            wrong += found == 1 ? 0 : 1;
        }
    }
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(leastOf)));
    std::printf("\ncheck: the least numbers of every thread\n");
    std::printf("  compared       %zu\n", h_out.size());
    std::printf("  wrong          %zu\n", wrong);
    std::printf("  local memory   %zu B   (of a thread)\n",
                attributes.localSizeBytes);
    std::printf("  registers      %d\n", attributes.numRegs);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu of %zu numbers are wrong\n", wrong,
                     h_out.size());
        return EXIT_FAILURE;
    }
    if (attributes.localSizeBytes != 0) {
        std::fprintf(stderr, "right, but with %zu bytes of local memory\n",
                     attributes.localSizeBytes);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
