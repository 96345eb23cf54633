// SPDX-License-Identifier: MIT
//
// Day 8: a check that NaN passes. The kernel forgets that there is more than
// one block, so most of the output is never written and stays NaN. The check
// counts errors that are greater than a tolerance, and a NaN is not greater
// than anything.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o nan-passes nan-passes.cu
// Run: ./nan-passes

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

constexpr size_t kCount = 1000;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr double kTolerance = 1e-5;

static_assert(kBlocks > 1, "one block alone would be right");

// out = 3 * in + 1, and wrong: every block has the elements of the first one.
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: one block is not enough for n.
__global__ void line(const float *__restrict__ in, float *__restrict__ out,
                     size_t n)
{
    const size_t i = threadIdx.x;
    if (i < n) {
        out[i] = 3.0f * in[i] + 1.0f;
    }
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    std::vector<float> h_in(kCount);
    std::vector<float> h_out(kCount, 0.0f);
    for (size_t i = 0; i < kCount; ++i) {
        h_in[i] = 0.003f * static_cast<float>(i + 1);
    }
    float *d_in = nullptr;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, kBytes));
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMemcpy(d_in, h_in.data(), kBytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));  // every element a NaN
    line<<<kBlocks, kThreads>>>(d_in, d_out, kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));

    // snippet: nan-passes
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        const double want = 3.0 * h_in[i] + 1.0;
        if (std::fabs(h_out[i] - want) > kTolerance * want) {
            ++wrong;
        }
    }
    std::printf("\ncheck: %s\n", wrong == 0 ? "PASSED" : "FAILED");
    // end snippet

    size_t notFinite = 0;
    for (const float value : h_out) {
        notFinite += std::isfinite(value) ? 0 : 1;
    }
    std::printf("  elements           %zu\n", kCount);
    std::printf("  wrong elements     %zu   (says the check)\n", wrong);
    std::printf("  not finite         %zu   (says a second look)\n",
                notFinite);
    if (wrong != 0 || notFinite != 0) {
        std::fprintf(stderr, "the check %s, and %zu of %zu elements were never "
                             "written\n",
                     wrong == 0 ? "passed" : "failed", notFinite, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
