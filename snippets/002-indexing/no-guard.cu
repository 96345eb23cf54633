// SPDX-License-Identifier: MIT
//
// Day 2: a kernel without a guard that appears to work. 1000 elements need
// four blocks of 256; the last block has 24 threads to spare, and they write
// behind the end of the allocation.
//
// Every element that was asked for is right, no call returns an error, and the
// program passes its check. The 24 stray floats land in memory that belongs to
// nobody here: the GPU looks after memory in pages far larger than this
// array, and stops an access only where there is no page. memcheck knows where
// the array ends, and reports all of them.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o no-guard no-guard.cu
// Run: ./no-guard

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

// out[i] = i, one thread per element.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: as many threads as elements, which does not hold here.
// snippet: no-guard
__global__ void number(float *out)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = static_cast<float>(i);
}
// end snippet

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    float *d_out = nullptr;
    std::vector<float> h_out(kCount, NAN);
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));
    number<<<kBlocks, kThreads>>>(d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));

    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += h_out[i] == static_cast<float>(i) ? 0 : 1;
    }
    std::printf("\ncheck: every element against its index\n");
    std::printf("  elements           %zu\n", kCount);
    std::printf("  threads            %u\n", kBlocks * kThreads);
    std::printf("  threads too many   %zu\n", kBlocks * kThreads - kCount);
    std::printf("  wrong elements     %zu\n", wrong);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu of %zu elements are wrong\n", wrong, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
