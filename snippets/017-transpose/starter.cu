// SPDX-License-Identifier: MIT
//
// Day 17, the exercise: transpose a square matrix in place, for any n. Two
// tiles have to change places, each turned. Who reads what, before anyone
// writes? And which blocks have nothing to do?
//
// The program compares every element with what belongs there, bit for bit, for
// sizes beside and at the tile's.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

constexpr unsigned int kTile = 32;
constexpr unsigned int kStep = 8;  // rows that a block has threads for

constexpr size_t kSizes[] = {31, 32, 33, 100, 257};

static_assert(257 * 257 < (1 << 24), "all elements are different in FP32");

// x (n x n) is transposed in place.
// Memory: to be as good as day 17's padded tile: a warp reads and writes 32
// neighbouring floats, and meets no bank conflict.
// Launch assumption: block (32, 8), a grid of as many tiles as cover x.
__global__ void transposeInPlace(float *x, size_t n)
{
    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t firstRow = static_cast<size_t>(blockIdx.y) * kTile;
    const size_t firstCol = static_cast<size_t>(blockIdx.x) * kTile;

    // snippet: exercise
    // A block per tile is there. Tiles in shared memory, a barrier, and guards
    // for what lies outside; so far every element stays where it is.
    if (firstRow + ty < n && firstCol + tx < n) {
        x[(firstRow + ty) * n + firstCol + tx] += 0.0f;
    }
    // end snippet
}

// How many elements are not where they belong.
static size_t wrongAt(size_t n)
{
    std::vector<float> h_x(n * n);
    std::vector<float> h_got(n * n, NAN);
    for (size_t i = 0; i < n * n; ++i) {
        h_x[i] = static_cast<float>(i) + 1.0f;
    }
    float *d_x = nullptr;
    const size_t bytes = n * n * sizeof(float);
    const unsigned int tiles =
        static_cast<unsigned int>((n + kTile - 1) / kTile);
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    transposeInPlace<<<dim3(tiles, tiles), dim3(kTile, kStep)>>>(d_x, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_got.data(), d_x, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_x));

    size_t wrong = 0;
    for (size_t i = 0; i < n * n; ++i) {
        wrong += h_got[i] == h_x[i % n * n + i / n] ? 0 : 1;
    }
    return wrong;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    int passed = 0;
    int cases = 0;
    std::printf("\ncheck: every element, bit for bit\n");
    std::printf("  %-7s  %8s  %6s\n", "size", "elements", "wrong");
    for (const size_t n : kSizes) {
        const size_t wrong = wrongAt(n);
        ++cases;
        passed += wrong == 0 ? 1 : 0;
        std::printf("  n = %-3zu  %8zu  %6zu\n", n, n * n, wrong);
    }
    if (passed != cases || cases == 0) {
        std::fprintf(stderr, "%d of %d sizes are right\n", passed, cases);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
