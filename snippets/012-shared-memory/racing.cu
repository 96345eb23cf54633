// SPDX-License-Identifier: MIT
//
// Day 12: the sort of shared.cu with one of its three barriers removed, each in
// turn, and once with all of them. How many of 4096 tiles come out wrong?
//
// Without a barrier between them, a store of one thread and a load of another
// are in a race, and the order in which they happen is nobody's decision. So
// the numbers below may differ from run to run, and a row of zeros proves
// nothing. In the last row, each thread waits for a fixed time where it should
// meet the others, and nearly every tile is right.
//
// racecheck watches the accesses themselves: it reports a race whether or not
// the result suffered from it.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o racing racing.cu
// Run: ./racing

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

constexpr unsigned int kThreads = 256;    // threads in a block, and its tile
constexpr unsigned int kTiles = 4096;     // more than run at a time
constexpr unsigned int kQuickTiles = 16;  // under sanitizers
constexpr long long kWait = 50000;        // cycles, far more than a load takes
constexpr size_t kPeriod = 10007;         // a prime: no two tiles are alike
constexpr size_t kStep = 7919;

// Waits for kWait cycles, alone.
__device__ void waitAlone()
{
    const long long start = clock64();
    while (clock64() - start < kWait) {
    }
}

// y = x with every tile sorted, or not, as barrier kMissing is not there; with
// kMissing 4, a fixed wait stands in for the first barrier. The tile has a
// place more than elements: a thread that counts while elements change can
// count 256.
// Memory: as sortShared.
// Launch assumption: one block of 256 threads per tile, and no ragged one.
template <int kMissing>
__global__ void sortRacing(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float tile[kThreads + 1];
    const unsigned int tid = threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * kThreads;
    // snippet: racing
    const float mine = x[first + tid];
    tile[tid] = mine;
    if (kMissing == 4) {
        waitAlone();
    } else if (kMissing != 1) {
        __syncthreads();
    }
    unsigned int place = 0;
    for (unsigned int k = 0; k < kThreads; ++k) {
        const float other = tile[k];
        place += other < mine || (other == mine && k < tid) ? 1 : 0;
    }
    if (kMissing != 2) {
        __syncthreads();
    }
    tile[place] = mine;
    if (kMissing != 3) {
        __syncthreads();
    }
    y[first + tid] = tile[tid];
    // end snippet
}

struct Variant {
    const char *name;
    void (*kernel)(const float *, float *);
};

constexpr Variant kVariants[] = {
    {"none", sortRacing<0>},
    {"barrier 1", sortRacing<1>},
    {"barrier 2", sortRacing<2>},
    {"barrier 3", sortRacing<3>},
    {"1, a wait", sortRacing<4>},
};

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const unsigned int tiles = quick ? kQuickTiles : kTiles;
    const size_t count = static_cast<size_t>(tiles) * kThreads;
    const size_t bytes = count * sizeof(float);
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i) {
        x[i] = static_cast<float>((i + 1) * kStep % kPeriod);
    }
    std::vector<float> want = x;
    for (auto tile = want.begin(); tile != want.end(); tile += kThreads) {
        std::sort(tile, tile + kThreads);
    }
    float *d_x = nullptr;
    float *d_y = nullptr;
    CUDA_CHECK(cudaMalloc(&d_x, bytes));
    CUDA_CHECK(cudaMalloc(&d_y, bytes));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice));

    std::printf("\nracing: wrong results, without the barrier that is named\n");
    std::printf("  tiles      %u\n", tiles);
    std::printf("  elements   %zu\n\n", count);
    std::printf("  %-9s  %11s  %14s\n", "missing", "wrong tiles",
                "wrong elements");
    size_t allWrong = 0;
    size_t soundWrong = 0;
    for (const Variant &variant : kVariants) {
        std::vector<float> got(count, NAN);
        CUDA_CHECK(cudaMemset(d_y, 0xff, bytes));
        variant.kernel<<<tiles, kThreads>>>(d_x, d_y);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(got.data(), d_y, bytes, cudaMemcpyDeviceToHost));

        size_t wrongTiles = 0;
        size_t wrong = 0;
        for (size_t first = 0; first < count; first += kThreads) {
            const size_t before = wrong;
            for (size_t i = first; i < first + kThreads; ++i) {
                wrong += got[i] == want[i] ? 0 : 1;
            }
            wrongTiles += wrong == before ? 0 : 1;
        }
        std::printf("  %-9s  %11zu  %14zu\n", variant.name, wrongTiles, wrong);
        allWrong += wrong;
        soundWrong += variant.kernel == kVariants[0].kernel ? wrong : 0;
    }
    CUDA_CHECK(cudaFree(d_x));
    CUDA_CHECK(cudaFree(d_y));

    if (soundWrong != 0) {
        std::fprintf(stderr, "%zu elements are wrong with all barriers\n",
                     soundWrong);
        return 3;
    }
    if (allWrong != 0) {
        std::fprintf(stderr, "%zu elements are wrong, all for want of a "
                             "barrier\n",
                     allWrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n",
                sizeof(kVariants) / sizeof(kVariants[0]));
    return EXIT_SUCCESS;
}
