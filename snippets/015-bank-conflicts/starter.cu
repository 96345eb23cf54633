// SPDX-License-Identifier: MIT
//
// Day 15, the exercise: a tile of 32 rows and 16 columns that is written by
// rows and read by columns, both without a bank conflict, in 512 words. There
// is no room for padding. Change placeOf, and nothing else.
//
// The program transposes one such tile and compares every element, counts the
// degrees of all accesses with the very function that the kernel uses, and
// fails unless all are 1 and every place is used once.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

constexpr unsigned int kBanks = 32;
constexpr unsigned int kWarp = 32;
constexpr unsigned int kRows = 32;
constexpr unsigned int kCols = 16;
constexpr unsigned int kWords = kRows * kCols;  // no room for padding
constexpr size_t kBytes = kWords * sizeof(float);

static_assert(kRows == kWarp, "a warp reads a column, one row per lane");
static_assert(kWarp % kCols == 0, "a warp writes whole rows");

// Where element (row, col) lies in the tile: a word below kWords, another one
// for every element.
// snippet: exercise
__host__ __device__ inline unsigned int placeOf(unsigned int row,
                                                unsigned int col)
{
    return row * kCols + col;  // right, but a column lies in two banks
}
// end snippet

// out (16 x 32) is in (32 x 16) transposed, through shared memory.
// Memory: in is read and out written in order. The tile is written two rows at
// a time, a warp each, and read by columns.
// Launch assumption: one block of 512 threads.
__global__ void transposeTile(const float *__restrict__ in,
                              float *__restrict__ out)
{
    __shared__ float tile[kWords];
    const unsigned int tid = threadIdx.x;
    tile[placeOf(tid / kCols, tid % kCols) % kWords] = in[tid];
    __syncthreads();
    out[tid] = tile[placeOf(tid % kRows, tid / kRows) % kWords];
}

// The largest number of different words in one bank.
static unsigned int degreeOf(const std::vector<unsigned int> &words)
{
    unsigned int degree = 0;
    for (unsigned int bank = 0; bank < kBanks; ++bank) {
        std::vector<unsigned int> wanted;
        for (const unsigned int word : words) {
            if (word % kBanks == bank) {
                wanted.push_back(word);
            }
        }
        std::sort(wanted.begin(), wanted.end());
        const auto last = std::unique(wanted.begin(), wanted.end());
        const auto different = last - wanted.begin();
        degree = std::max(degree, static_cast<unsigned int>(different));
    }
    return degree;
}

// The worst degree over the 16 warps, of their writes or of their reads.
static unsigned int worstDegree(bool reading)
{
    unsigned int worst = 0;
    for (unsigned int first = 0; first < kWords; first += kWarp) {
        std::vector<unsigned int> words;
        for (unsigned int tid = first; tid < first + kWarp; ++tid) {
            words.push_back(reading ? placeOf(tid % kRows, tid / kRows)
                                    : placeOf(tid / kCols, tid % kCols));
        }
        worst = std::max(worst, degreeOf(words));
    }
    return worst;
}

// Places below kWords that some element has.
static size_t placesUsed()
{
    std::vector<bool> used(kWords, false);
    for (unsigned int i = 0; i < kWords; ++i) {
        const unsigned int place = placeOf(i / kCols, i % kCols);
        if (place < kWords) {
            used[place] = true;
        }
    }
    return static_cast<size_t>(std::count(used.begin(), used.end(), true));
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> h_in(kWords);
    std::vector<float> h_out(kWords, NAN);
    for (size_t i = 0; i < kWords; ++i) {
        h_in[i] = static_cast<float>(i) + 0.5f;  // all different
    }
    float *d_in = nullptr;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, kBytes));
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));
    CUDA_CHECK(cudaMemcpy(d_in, h_in.data(), kBytes, cudaMemcpyHostToDevice));
    transposeTile<<<1, kWords>>>(d_in, d_out);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));

    size_t wrong = 0;
    for (size_t i = 0; i < kWords; ++i) {
        const size_t row = i % kRows;
        const size_t col = i / kRows;
        wrong += h_out[i] == h_in[row * kCols + col] ? 0 : 1;
    }
    const unsigned int writes = worstDegree(false);
    const unsigned int reads = worstDegree(true);
    std::printf("\ncheck: one tile, transposed\n");
    std::printf("  elements          %u\n", kWords);
    std::printf("  wrong elements    %zu\n", wrong);
    std::printf("  places used       %zu   (of %u)\n", placesUsed(), kWords);
    std::printf("  degree of writes  %u\n", writes);
    std::printf("  degree of reads   %u\n", reads);
    if (wrong != 0 || placesUsed() != kWords) {
        std::fprintf(stderr, "%zu elements are wrong, %zu of %u places used\n",
                     wrong, placesUsed(), kWords);
        return EXIT_FAILURE;
    }
    if (writes != 1 || reads != 1) {
        std::fprintf(stderr,
                     "bank conflicts: writes have degree %u, reads %u, not 1\n",
                     writes, reads);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
