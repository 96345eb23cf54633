// SPDX-License-Identifier: MIT
//
// Day 13, exercise: nobody leaves early. A solution.
//
// Each row of a matrix is taken by one block, in pieces of 256 elements; from
// each element the largest one of its piece is subtracted. The width is no
// multiple of 256, so a row's last piece is shorter.
//
// The judge does the same on the CPU. The elements are whole numbers that a
// float holds exactly, and so are their differences: every one must be right.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

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

constexpr unsigned int kThreads = 256;  // threads in a block, and its piece
constexpr size_t kWidths[] = {1, 256, 257, 1000};
constexpr unsigned int kRows = 96;

// y = x less the largest element of its piece, row by row.
// Memory: a warp reads 32 neighbouring floats and writes 32.
// Launch assumption: one block of 256 threads per row; any width.
__global__ void lessLargest(const float *__restrict__ x,
                            float *__restrict__ y, size_t width)
{
    __shared__ float piece[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t row = blockIdx.x * width;
    // snippet: exercise
    for (size_t start = 0; start < width; start += kThreads) {
        const bool inside = start + tid < width;
        piece[tid] = inside ? x[row + start + tid] : -INFINITY;
        __syncthreads();  // the piece is there
        float largest = piece[0];
        for (unsigned int k = 1; k < kThreads; ++k) {
            largest = fmaxf(largest, piece[k]);
        }
        if (inside) {
            y[row + start + tid] = piece[tid] - largest;
        }
        __syncthreads();  // all are done with it
    }
    // end snippet
}

// The same on the CPU.
static std::vector<float> reference(const std::vector<float> &x, size_t width)
{
    std::vector<float> y(x.size());
    for (size_t row = 0; row < x.size(); row += width) {
        for (size_t start = 0; start < width; start += kThreads) {
            const size_t end = std::min(start + kThreads, width);
            float largest = x[row + start];
            for (size_t i = start; i < end; ++i) {
                largest = std::max(largest, x[row + i]);
            }
            for (size_t i = start; i < end; ++i) {
                y[row + i] = x[row + i] - largest;
            }
        }
    }
    return y;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::printf("\ncheck: every element\n");
    std::printf("  rows   %u\n\n", kRows);
    std::printf("  %-12s  %8s  %5s\n", "width", "elements", "wrong");
    size_t allWrong = 0;
    size_t all = 0;
    for (const size_t width : kWidths) {
        const size_t count = kRows * width;
        const size_t bytes = count * sizeof(float);
        std::vector<float> x(count);
        for (size_t i = 0; i < count; ++i) {
            // Falling along a row, with a wiggle: earlier pieces are larger.
            x[i] = static_cast<float>(width - i % width) +
                   static_cast<float>(i * 7919 % 101);
        }
        const std::vector<float> want = reference(x, width);
        std::vector<float> got(count);
        float *d_x = nullptr;
        float *d_y = nullptr;
        CUDA_CHECK(cudaMalloc(&d_x, bytes));
        CUDA_CHECK(cudaMalloc(&d_y, bytes));
        CUDA_CHECK(cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemset(d_y, 0xff, bytes));  // all NaN
        lessLargest<<<kRows, kThreads>>>(d_x, d_y, width);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(got.data(), d_y, bytes,
                              cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaFree(d_x));
        CUDA_CHECK(cudaFree(d_y));

        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
            wrong += got[i] == want[i] ? 0 : 1;
        }
        std::printf("  width = %-4zu  %8zu  %5zu\n", width, count, wrong);
        allWrong += wrong;
        all += count;
    }
    if (allWrong != 0) {
        std::fprintf(stderr, "%zu of %zu elements are wrong\n", allWrong, all);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n",
                sizeof(kWidths) / sizeof(kWidths[0]));
    return EXIT_SUCCESS;
}
