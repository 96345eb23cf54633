// SPDX-License-Identifier: MIT
//
// Day 24: a guard in the wrong place that appears to work. 20 numbers are to be
// added up by one warp. The guard sends the 12 spare lanes away before the
// shuffles, whose mask says that all 32 take part. What a lane reads from one
// that is not there is undefined: nothing says that it is a zero.
//
// The second kernel has the guard around the load only. Spare lanes bring a
// zero and stay for the shuffles. The other snippet, loop-tail, has the first
// kernel's mistake where it is usually made.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o guard-around guard-around.cu
// Run: ./guard-around

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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kCount = 20;  // less than a warp

static_assert(kCount < kWarp, "some lanes have no number");

__device__ unsigned int warpSum(unsigned int value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// The sum of the first n numbers, by a warp some of whose lanes have left.
// Launch assumption: one block of kWarp threads.
__global__ void guardAround(const unsigned int *__restrict__ x,
                            unsigned int *__restrict__ sum, unsigned int n)
{
    // snippet: guard-around
    const unsigned int lane = threadIdx.x;
    if (lane >= n) {
        return;  // wrong: the shuffles below name all 32 lanes
    }
    const unsigned int total = warpSum(x[lane]);
    // end snippet
    if (lane == 0) {
        *sum = total;
    }
}

// The same with all lanes. Launch assumption: one block of kWarp threads.
__global__ void guardAtLoad(const unsigned int *__restrict__ x,
                            unsigned int *__restrict__ sum, unsigned int n)
{
    // snippet: guard-at-load
    const unsigned int lane = threadIdx.x;
    const unsigned int mine = lane < n ? x[lane] : 0;
    const unsigned int total = warpSum(mine);
    // end snippet
    if (lane == 0) {
        *sum = total;
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

    unsigned int h_x[kCount];
    unsigned int want = 0;
    for (unsigned int i = 0; i < kCount; ++i) {
        h_x[i] = 100 * i + 1;
        want += h_x[i];
    }
    unsigned int *d_x = nullptr;
    unsigned int *d_sum = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, sizeof(h_x)));
    CUDA_CHECK(cudaMalloc(&d_sum, 2 * sizeof(unsigned int)));
    CUDA_CHECK(cudaMemcpy(d_x, h_x, sizeof(h_x), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_sum, 0xff, 2 * sizeof(unsigned int)));
    guardAround<<<1, kWarp>>>(d_x, d_sum, kCount);
    CUDA_CHECK(cudaGetLastError());
    guardAtLoad<<<1, kWarp>>>(d_x, d_sum + 1, kCount);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    unsigned int got[2] = {};
    CUDA_CHECK(cudaMemcpy(got, d_sum, sizeof(got), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_sum));
    std::printf("\nsum: of %u numbers, by one warp\n", kCount);
    std::printf("  right           %u\n", want);
    std::printf("  guard around    %u   (lanes sent away)\n", got[0]);
    std::printf("  guard at load   %u   (lanes bring a zero)\n", got[1]);
    if (got[0] != want || got[1] != want) {
        std::fprintf(stderr, "the sum of %u numbers is %u, not %u\n", kCount,
                     got[0] != want ? got[0] : got[1], want);
        return EXIT_FAILURE;
    }
    std::printf("\nall 2 cases passed their gates\n");
    return EXIT_SUCCESS;
}
