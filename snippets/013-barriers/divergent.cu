// SPDX-License-Identifier: MIT
//
// Day 13: a barrier that a part of the block passes by. Nobody returns here:
// the threads that leave out the first barrier arrive at the second one.
//
// In passBy, the first `part` threads of a block have a barrier of their own,
// write their names behind it, and then meet the others at a barrier for all,
// behind which everyone counts the names. The part's own barrier finds its
// missing threads at the other one, and so both let everybody through: nothing
// hangs, and the rest counts before the names are written.
//
// In eitherWay, both branches of an if have a barrier. With whole warps in
// either branch everyone counts right; with 100 threads in the first one, which
// ends inside of a warp, most miss four names.
//
// All of it is undefined: a barrier must be reached by all threads of the
// block, or by none. synccheck says so, and ends the program at the first
// kernel. What passBy does if its part ends inside of a warp, through-a-warp.cu
// shows.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o divergent divergent.cu
// Run: ./divergent

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
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

constexpr unsigned int kThreads = 256;  // threads in the only block
constexpr unsigned int kNobody = 0;     // an empty place in the tile
constexpr long long kLate = 50000;      // cycles that a part comes late
constexpr int kPatience = 5000;         // milliseconds, then a kernel hangs
constexpr size_t kBytes = kThreads * sizeof(unsigned int);

// Waits for kLate cycles.
__device__ void beLate()
{
    const long long start = clock64();
    while (clock64() - start < kLate) {
    }
}

__device__ unsigned int namesIn(const unsigned int *names)
{
    unsigned int count = 0;
    for (unsigned int k = 0; k < kThreads; ++k) {
        count += names[k] != kNobody ? 1 : 0;
    }
    return count;
}

// For each thread, how many names it finds behind the second barrier.
// Memory: a warp writes 32 neighbouring numbers.
// Launch assumption: one block of 256 threads.
__global__ void passBy(unsigned int part, unsigned int *__restrict__ found)
{
    __shared__ unsigned int names[kThreads];
    const unsigned int tid = threadIdx.x;
    names[tid] = kNobody;
    __syncthreads();
    // snippet: pass-by
    if (tid < part) {
        __syncthreads();  // only the part gets here
        beLate();
        names[tid] = tid + 1;
    }
    __syncthreads();  // for all: the part's names are there
    found[tid] = namesIn(names);
    // end snippet
}

// The same with a barrier in either branch.
// Memory: as passBy.
// Launch assumption: as passBy.
__global__ void eitherWay(unsigned int part, unsigned int *__restrict__ found)
{
    __shared__ unsigned int names[kThreads];
    const unsigned int tid = threadIdx.x;
    names[tid] = kNobody;
    __syncthreads();
    if (tid < part) {
        beLate();
        names[tid] = tid + 1;
        __syncthreads();
    } else {
        __syncthreads();
    }
    found[tid] = namesIn(names);
}

struct Case {
    const char *name;
    void (*kernel)(unsigned int, unsigned int *);
    unsigned int part;
};

constexpr Case kCases[] = {
    {"pass by", passBy, 128},
    {"either way", eitherWay, 128},
    {"either way, 100", eitherWay, 100},
};

// Waits for the device, but not for ever. Whether it came to an end.
static bool endsInTime()
{
    using std::chrono::steady_clock;
    const auto start = steady_clock::now();
    cudaError_t state = cudaStreamQuery(nullptr);
    while (state == cudaErrorNotReady &&
           steady_clock::now() - start < std::chrono::milliseconds(kPatience)) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        state = cudaStreamQuery(nullptr);
    }
    if (state != cudaErrorNotReady) {
        CUDA_CHECK(state);
    }
    return state == cudaSuccess;
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    unsigned int *d_found = nullptr;
    CUDA_CHECK(cudaMalloc(&d_found, kBytes));
    std::printf("\ndivergent: names found behind the barrier for all\n");
    std::printf("  threads in a block   %u\n\n", kThreads);
    std::printf("  %-15s  %5s  %17s  %17s\n", "case", "names",
                "found by the part", "found by the rest");
    unsigned int wrong = 0;
    for (const Case &test : kCases) {
        std::vector<unsigned int> found(kThreads);
        CUDA_CHECK(cudaMemset(d_found, 0xff, kBytes));
        test.kernel<<<1, kThreads>>>(test.part, d_found);
        CUDA_CHECK(cudaGetLastError());
        if (!endsInTime()) {
            std::fprintf(stderr, "%s does not end\n", test.name);
            std::fflush(nullptr);
            std::_Exit(EXIT_FAILURE);
        }
        CUDA_CHECK(cudaMemcpy(found.data(), d_found, kBytes,
                              cudaMemcpyDeviceToHost));
        const auto rest = found.begin() + test.part;
        for (const unsigned int count : found) {
            wrong += count == test.part ? 0 : 1;
        }
        std::printf("  %-15s  %5u  %17u  %17u\n", test.name, test.part,
                    *std::min_element(found.begin(), rest),
                    *std::max_element(rest, found.end()));
    }
    CUDA_CHECK(cudaFree(d_found));
    if (wrong != 0) {
        std::fprintf(stderr, "%u threads counted wrong\n", wrong);
        return EXIT_FAILURE;
    }
    std::printf("\nall %zu cases passed their gates\n",
                sizeof(kCases) / sizeof(kCases[0]));
    return EXIT_SUCCESS;
}
