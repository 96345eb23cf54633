// SPDX-License-Identifier: MIT
//
// Day 5: a grid-stride loop whose step is a block instead of a grid. Every
// result is right: all blocks compute the same elements, and write the same
// numbers. A check of the results says nothing. A counter of visits does.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o short-step short-step.cu
// Run: ./short-step

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

constexpr size_t kCount = 10007;  // a prime
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = 8;

// out[i] = i * i, and one more visit of i.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block, or the work is done several times over.
__global__ void square(float *__restrict__ out,
                       unsigned int *__restrict__ visits, size_t n)
{
    // snippet: short-step
    const size_t step = blockDim.x;  // forgets that there are other blocks
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += step) {
        out[i] = static_cast<float>(i * i);
        atomicAdd(&visits[i], 1);
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
    std::printf("  multiprocessors     %d\n", device.multiProcessorCount);

    std::vector<float> h_out(kCount, NAN);
    std::vector<unsigned int> h_visits(kCount, 0);
    float *d_out = nullptr;
    unsigned int *d_visits = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kCount * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_visits, kCount * sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kCount * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_visits, 0, kCount * sizeof(unsigned int)));
    square<<<kBlocks, kThreads>>>(d_out, d_visits, kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kCount * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(h_visits.data(), d_visits,
                          kCount * sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_visits));

    size_t wrong = 0;
    size_t repeated = 0;
    size_t visits = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += h_out[i] == static_cast<float>(i * i) ? 0 : 1;
        repeated += h_visits[i] > 1 ? 1 : 0;
        visits += h_visits[i];
    }
    std::printf("\ncheck: every element against its square\n");
    std::printf("  elements            %zu\n", kCount);
    std::printf("  blocks              %u\n", kBlocks);
    std::printf("  wrong elements      %zu\n", wrong);
    std::printf("  visits              %zu   (%zu would be enough)\n", visits,
                kCount);
    std::printf("  visited repeatedly  %zu\n", repeated);
    if (wrong != 0 || visits != kCount) {
        std::fprintf(stderr, "%zu wrong elements, and %zu are computed more "
                             "than once\n",
                     wrong, repeated);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
