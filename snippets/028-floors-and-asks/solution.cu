// SPDX-License-Identifier: MIT
//
// Day 28, a solution of the exercise: count before you run. The kernel
// `distances` writes |p[i] - q[j]| for all pairs of n floats and m floats, in
// blocks of 16 x 16. Two formulas say how many bytes it must read and how many
// its blocks ask for; the program counts on the GPU, address by address.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr unsigned int kSide = 16;      // a block is 16 x 16
constexpr unsigned int kMost = 1024;    // floats of p and q together
constexpr unsigned int kWords = kMost / 32;  // one bit for each of them

struct Size {
    unsigned int n;
    unsigned int m;
};

// Whole blocks, blocks with idle threads on one side, and on both.
constexpr Size kSizes[] = {{1, 1},     {16, 16},  {16, 17},  {48, 160},
                           {100, 333}, {333, 100}, {7, 1000}};

// |p[i] - q[j]|. The program does not run it; it counts its loads.
// Launch assumption: blocks of kSide x kSide that cover m x n.
__global__ void distances(const float *__restrict__ p,
                          const float *__restrict__ q,
                          float *__restrict__ out, unsigned int n,
                          unsigned int m)
{
    const unsigned int j = blockIdx.x * kSide + threadIdx.x;
    const unsigned int i = blockIdx.y * kSide + threadIdx.y;
    if (i < n && j < m) {
        out[i * m + j] = fabsf(p[i] - q[j]);
    }
}

// Bytes that are read, each array once per pass, and bytes that the blocks
// request, each address once per block and use.
// snippet: exercise
static size_t floorOf(size_t n, size_t m)
{
    return (n + m) * sizeof(float);
}

static size_t askOf(size_t n, size_t m)
{
    // Each p is asked for by a row of blocks, each q by a column of them.
    const size_t across = (m + kSide - 1) / kSide;
    const size_t down = (n + kSide - 1) / kSide;
    return (n * across + m * down) * sizeof(float);
}
// end snippet

// Whether nobody has set this bit before.
__device__ bool isNew(unsigned int *words, unsigned int bit)
{
    const unsigned int mask = 1u << (bit % 32);
    return (atomicOr(&words[bit / 32], mask) & mask) == 0;
}

// Goes where `distances` goes, and notes each address in two sets: one of the
// block, one of the grid. counts[0] is how many the grid has met, counts[1]
// how many the blocks have, together.
// Launch assumption: as distances.
__global__ void countDistances(unsigned int *__restrict__ seen,
                               unsigned int *__restrict__ counts,
                               unsigned int n, unsigned int m)
{
    __shared__ unsigned int mine[kWords];
    const unsigned int tid = threadIdx.y * kSide + threadIdx.x;
    for (unsigned int w = tid; w < kWords; w += kSide * kSide) {
        mine[w] = 0;
    }
    __syncthreads();  // the block has met nothing yet
    const unsigned int j = blockIdx.x * kSide + threadIdx.x;
    const unsigned int i = blockIdx.y * kSide + threadIdx.y;
    if (i < n && j < m) {
        for (const unsigned int bit : {i, n + j}) {
            if (isNew(mine, bit)) {
                atomicAdd(&counts[1], 1);
            }
            if (isNew(seen, bit)) {
                atomicAdd(&counts[0], 1);
            }
        }
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

    unsigned int *d_seen = nullptr;
    unsigned int *d_counts = nullptr;
    CUDA_CHECK(cudaMalloc(&d_seen, kWords * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_counts, 2 * sizeof(unsigned int)));
    std::printf("\nreads: bytes by the formulas, and as counted on the GPU\n");
    std::printf("  %-11s  %9s  %11s  %7s  %11s\n", "n x m", "floor (B)",
                "counted (B)", "ask (B)", "blocks' (B)");
    int passed = 0;
    int wrong = 0;
    for (const Size &size : kSizes) {
        const dim3 block(kSide, kSide);
        const dim3 grid((size.m + kSide - 1) / kSide,
                        (size.n + kSide - 1) / kSide);
        unsigned int counts[2] = {};
        CUDA_CHECK(cudaMemset(d_seen, 0, kWords * sizeof(unsigned int)));
        CUDA_CHECK(cudaMemset(d_counts, 0, sizeof(counts)));
        countDistances<<<grid, block>>>(d_seen, d_counts, size.n, size.m);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(counts, d_counts, sizeof(counts),
                              cudaMemcpyDeviceToHost));
        const size_t floorBytes = floorOf(size.n, size.m);
        const size_t askBytes = askOf(size.n, size.m);
        const size_t floorTrue = counts[0] * sizeof(float);
        const size_t askTrue = counts[1] * sizeof(float);
        char label[32];
        std::snprintf(label, sizeof(label), "%u x %u", size.n, size.m);
        std::printf("  %-11s  %9zu  %11zu  %7zu  %11zu\n", label, floorBytes,
                    floorTrue, askBytes, askTrue);
        if (floorBytes == floorTrue && askBytes == askTrue) {
            ++passed;
        } else {
            ++wrong;
        }
    }
    CUDA_CHECK(cudaFree(d_seen));
    CUDA_CHECK(cudaFree(d_counts));
    if (wrong != 0) {
        std::fprintf(stderr, "the formulas are wrong for %d of %d sizes\n",
                     wrong, wrong + passed);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
