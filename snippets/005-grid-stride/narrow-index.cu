// SPDX-License-Identifier: MIT
//
// Day 5: a grid-stride loop whose index is an unsigned int. There are fewer
// elements than 2^32, so every index fits. The one that ends the loop does
// not: it is an index plus a step, wraps around to a small number, and the
// thread begins again. Without the limit on the laps, the kernel would never
// end.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o narrow-index narrow-index.cu
// Run: ./narrow-index

#include <cstddef>
#include <cstdio>
#include <cstdlib>

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
constexpr unsigned int kBlocks = 1024;
constexpr unsigned int kStep = kBlocks * kThreads;

// Bytes. A thousand fewer than 2^32: less than a step.
constexpr unsigned int kCount = 0u - 1000u;
constexpr unsigned int kMostLaps = kCount / kStep + 1;

static_assert(kStep > 1000, "an index plus a step can pass 2^32");

// out[i] = 1 for n bytes. A thread that is not through after `mostLaps` laps
// has begun again; it says so and leaves.
// Memory: a warp writes 32 neighbouring bytes.
// Launch assumption: any, as long as n plus the number of threads fits.
__global__ void fill(unsigned char *__restrict__ out, unsigned int n,
                     unsigned int mostLaps, unsigned int *__restrict__ again)
{
    unsigned int laps = 0;
    // snippet: narrow-index
    const unsigned int step = gridDim.x * blockDim.x;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += step) {
        if (++laps > mostLaps) {
            atomicAdd(again, 1);
            break;
        }
        out[i] = 1;
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
    std::printf("  multiprocessors    %d\n", device.multiProcessorCount);

    unsigned char *d_out = nullptr;
    unsigned int *d_again = nullptr;
    unsigned int again = 0;
    CUDA_CHECK(cudaMalloc(&d_out, kCount));
    CUDA_CHECK(cudaMalloc(&d_again, sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(d_again, 0, sizeof(unsigned int)));
    fill<<<kBlocks, kThreads>>>(d_out, kCount, kMostLaps, d_again);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(&again, d_again, sizeof(unsigned int),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_again));

    std::printf("\nends: which threads come to the end\n");
    std::printf("  elements           %u\n", kCount);
    std::printf("  short of 2^32      %u\n", 0u - kCount);
    std::printf("  threads            %u\n", kStep);
    std::printf("  ended              %u\n", kStep - again);
    std::printf("  began again        %u\n", again);
    if (again != 0) {
        std::fprintf(stderr, "%u of %u threads came around to the beginning\n",
                     again, kStep);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
