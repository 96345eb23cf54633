// SPDX-License-Identifier: MIT
//
// Day 24, a solution of the exercise: the largest element of each row, and
// where it is. A warp takes a row, each lane looks through its share, and the
// lanes then agree by xor shuffles of value and column.
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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kThreads = 128;
constexpr unsigned int kWarps = kThreads / kWarp;

constexpr size_t kRows = 101;  // no multiple of the warps in a block
constexpr size_t kCols[] = {1, 20, 32, 33, 500};
constexpr size_t kValues = 61;  // different elements: long rows have ties

static_assert(kFullWarp >> (kWarp - 1) == 1, "a mask has one bit per lane");

struct Best {
    float value;
    unsigned int column;
};

// Of the lanes' bests the largest value, and of several that are equal the
// one with the lowest column. Every lane returns the same.
// snippet: exercise
__device__ Best warpBest(Best mine)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(kFullWarp, mine.value, offset);
        const unsigned int column =
            __shfl_xor_sync(kFullWarp, mine.column, offset);
        if (value > mine.value ||
            (value == mine.value && column < mine.column)) {
            mine = {value, column};
        }
    }
    return mine;
}
// end snippet

// The best of each row, a warp per row.
// Memory: a warp reads 32 neighbouring floats.
// Launch assumption: kThreads threads, a warp per row, any cols. Lanes without
// an element stay; what they have is worse than any element.
__global__ void bestOfRows(const float *__restrict__ x,
                           Best *__restrict__ best, size_t rows, size_t cols)
{
    const unsigned int lane = threadIdx.x % kWarp;
    const size_t row =
        static_cast<size_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
    if (row < rows) {
        Best mine = {-INFINITY, 0xffffffffu};
        for (size_t c = lane; c < cols; c += kWarp) {
            const float value = x[row * cols + c];
            if (value > mine.value) {
                mine = {value, static_cast<unsigned int>(c)};
            }
        }
        mine = warpBest(mine);
        // Each lane in turn writes, so that it matters what every lane has.
        if (lane == row % kWarp) {
            best[row] = mine;
        }
    }
}

// All elements are negative: a lane that brings a zero wins every row.
static float elementAt(size_t row, size_t c)
{
    const size_t place = (row * 1009 + c * 23) % kValues;
    return -0.5f - static_cast<float>(place) / 8.0f;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::printf("\nrows: value and column against the CPU's, to the bit\n");
    std::printf("  %-10s  %4s  %5s  %9s\n", "size", "rows", "wrong",
                "rows tied");
    size_t wrongInAll = 0;
    int passed = 0;
    for (const size_t cols : kCols) {
        std::vector<float> h_x(kRows * cols);
        std::vector<Best> h_best(kRows);
        for (size_t i = 0; i < h_x.size(); ++i) {
            h_x[i] = elementAt(i / cols, i % cols);
        }
        float *d_x = nullptr;
        Best *d_best = nullptr;
        const size_t bytes = kRows * sizeof(Best);
        CUDA_CHECK(cudaMalloc(&d_x, h_x.size() * sizeof(float)));
        CUDA_CHECK(cudaMalloc(&d_best, bytes));
        CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), h_x.size() * sizeof(float),
                              cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemset(d_best, 0xff, bytes));  // NaN
        const unsigned int blocks =
            static_cast<unsigned int>((kRows + kWarps - 1) / kWarps);
        bestOfRows<<<blocks, kThreads>>>(d_x, d_best, kRows, cols);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(h_best.data(), d_best, bytes,
                              cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaFree(d_x));
        CUDA_CHECK(cudaFree(d_best));

        size_t wrong = 0;
        size_t tied = 0;
        for (size_t row = 0; row < kRows; ++row) {
            const float *x = &h_x[row * cols];
            size_t first = 0;
            size_t times = 0;
            for (size_t c = 0; c < cols; ++c) {
                first = x[c] > x[first] ? c : first;
            }
            for (size_t c = 0; c < cols; ++c) {
                times += x[c] == x[first] ? 1 : 0;
            }
            tied += times > 1 ? 1 : 0;
            const bool right = h_best[row].value == x[first] &&
                               h_best[row].column == first;
            wrong += right ? 0 : 1;
        }
        std::printf("  cols = %-3zu  %4zu  %5zu  %9zu\n", cols, kRows, wrong,
                    tied);
        wrongInAll += wrong;
        passed += wrong == 0 ? 1 : 0;
    }
    if (wrongInAll != 0) {
        std::fprintf(stderr, "%zu rows have a wrong best\n", wrongInAll);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
