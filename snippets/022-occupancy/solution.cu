// SPDX-License-Identifier: MIT
//
// Day 22, a solution of the exercise: a block smooths a ring of 6144 numbers
// twice. Each pass needs all results of the one before it. A thread keeps its
// own results in registers until the whole block has read, and writes them over
// what was read. One array of 24 KiB does.
//
// The program compares every number with the CPU's, bit for bit: the inputs are
// whole numbers, and so are all results. Then it asks the runtime how many
// blocks fit on a multiprocessor, and fails unless there are more than 48 KiB
// for each would allow.
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

constexpr unsigned int kThreads = 256;
constexpr unsigned int kPerThread = 24;
constexpr unsigned int kRing = kThreads * kPerThread;  // 24 KiB
constexpr unsigned int kBlocks = 3;
constexpr unsigned int kFar = 5;  // the second pass looks further

// Twice around the ring of each block: the sum of a number and the next one,
// then the sum of such a sum and the fifth one after it.
// Memory: a warp reads and writes 32 neighbouring numbers everywhere.
// Launch assumption: 256 threads; x and out hold kRing numbers per block.
__global__ void smooth(const float *__restrict__ x, float *__restrict__ out)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * kRing;
    // snippet: exercise
    __shared__ float numbers[kRing];
    float sums[kPerThread];  // in registers: every index is known
#pragma unroll
    for (unsigned int k = 0; k < kPerThread; ++k) {
        const unsigned int i = threadIdx.x + k * kThreads;
        numbers[i] = x[first + i];
    }
    __syncthreads();
#pragma unroll
    for (unsigned int k = 0; k < kPerThread; ++k) {
        const unsigned int i = threadIdx.x + k * kThreads;
        sums[k] = numbers[i] + numbers[(i + 1) % kRing];
    }
    __syncthreads();  // everybody has read: the array is free
#pragma unroll
    for (unsigned int k = 0; k < kPerThread; ++k) {
        numbers[threadIdx.x + k * kThreads] = sums[k];
    }
    __syncthreads();
#pragma unroll
    for (unsigned int k = 0; k < kPerThread; ++k) {
        const unsigned int i = threadIdx.x + k * kThreads;
        out[first + i] = numbers[i] + numbers[(i + kFar) % kRing];
    }
    // end snippet
}

static int attributeOf(cudaDeviceAttr attribute)
{
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
    return value;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    // All different: steps through 0 .. 18 442, a prime less one.
    std::vector<float> h_x(kBlocks * static_cast<size_t>(kRing));
    std::vector<float> h_out(h_x.size(), NAN);
    for (size_t i = 0; i < h_x.size(); ++i) {
        h_x[i] = static_cast<float>(i * 5003 % 18443);
    }
    float *d_x = nullptr;
    float *d_out = nullptr;
    const size_t bytes = h_x.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_out, 0xff, bytes));
    smooth<<<kBlocks, kThreads>>>(d_x, d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_out));

    size_t wrong = 0;
    for (size_t i = 0; i < h_x.size(); ++i) {
        const size_t base = i / kRing * kRing;
        const size_t j = i - base;
        const float near = h_x[i] + h_x[base + (j + 1) % kRing];
        const float far = h_x[base + (j + kFar) % kRing] +
                          h_x[base + (j + kFar + 1) % kRing];
        wrong += h_out[i] == near + far ? 0 : 1;
    }
    int blocks = 0;
    cudaFuncAttributes attributes = {};
    const void *kernel = reinterpret_cast<const void *>(smooth);
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(kThreads), 0));
    const int both =
        attributeOf(cudaDevAttrMaxSharedMemoryPerMultiprocessor) /
        (2 * static_cast<int>(kRing * sizeof(float)) +
         attributeOf(cudaDevAttrReservedSharedMemoryPerBlock));
    std::printf("\ncheck: every number, and the blocks per multiprocessor\n");
    std::printf("  compared        %zu\n", h_out.size());
    std::printf("  wrong           %zu\n", wrong);
    std::printf("  shared memory   %zu B   (of a block)\n",
                attributes.sharedSizeBytes);
    std::printf("  registers       %d\n", attributes.numRegs);
    std::printf("  local memory    %zu B   (of a thread)\n",
                attributes.localSizeBytes);
    std::printf("  blocks          %d\n", blocks);
    std::printf("  with 48 KiB     %d\n", both);
    if (wrong != 0) {
        std::fprintf(stderr, "%zu of %zu numbers are wrong\n", wrong,
                     h_out.size());
        return EXIT_FAILURE;
    }
    if (blocks <= both) {
        std::fprintf(stderr, "right, but with no more blocks than two arrays "
                     "leave room for: %d\n", blocks);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
