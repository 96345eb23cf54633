// SPDX-License-Identifier: MIT
//
// Day 2: the same kernel without a guard, in an allocation that two arrays
// share. The 24 stray floats of the first array's last block land in the
// second array.
//
// For memcheck every address is inside the allocation, so it reports nothing.
// The program notices, because it knows what the second array has to hold; a
// canary is such an array that has no other use.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o neighbour neighbour.cu
// Run: ./neighbour

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

constexpr size_t kCount = 1000;         // no multiple of a block
constexpr unsigned int kThreads = 256;  // threads in a block
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;
constexpr size_t kBytes = kCount * sizeof(float);

static_assert(kCount % kThreads != 0, "the last block has threads to spare");
static_assert(kBlocks * kThreads <= 2 * kCount, "they stay in the allocation");

// out[i] = i, one thread per element.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: as many threads as elements, which does not hold here.
__global__ void number(float *out)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = static_cast<float>(i);
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors     %d\n", device.multiProcessorCount);

    // snippet: neighbour
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, 2 * kBytes));
    float *d_next = d_out + kCount;  // the second array begins where out ends
    CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));
    CUDA_CHECK(cudaMemset(d_next, 0, kBytes));
    number<<<kBlocks, kThreads>>>(d_out);
    // end snippet
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    std::vector<float> h_out(kCount, NAN);
    std::vector<float> h_next(kCount, NAN);
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(h_next.data(), d_next, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));

    size_t wrong = 0;
    size_t changed = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += h_out[i] == static_cast<float>(i) ? 0 : 1;
        changed += h_next[i] == 0.0f ? 0 : 1;
    }
    std::printf("\ncheck: both arrays, element by element\n");
    std::printf("  elements of each    %zu\n", kCount);
    std::printf("  threads too many    %zu\n", kBlocks * kThreads - kCount);
    std::printf("  wrong elements      %zu   (of the first array)\n", wrong);
    std::printf("  changed elements    %zu   (of the second, which nobody "
                "meant to write)\n",
                changed);
    if (wrong != 0 || changed != 0) {
        std::fprintf(stderr, "%zu elements of the second array are gone, the "
                             "first of them is %g now\n",
                     changed, h_next[0]);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
