// SPDX-License-Identifier: MIT
//
// Day 12: shared memory and barriers. A vector of n floats is cut into tiles of
// 256, and every tile is sorted, by a block of 256 threads: each thread counts
// how many elements of the tile belong before its own, and that is the place
// its own belongs to.
//
// The path sortShared has the block keep its tile in shared memory. Its threads
// read what other threads wrote, so three barriers stand in it. The path
// sortGlobal does the same without shared memory and without a barrier: every
// thread reads the whole tile from main memory, through the caches.
//
// The judge is std::sort on the CPU, tile by tile, bit for bit: sorting moves
// numbers and never rounds, so there is no tolerance. Equal elements are a case
// of their own, since two threads that count alike would take one place. A
// canary (day 2) lies behind the output.
//
// The file exists to show what shared memory and its barriers are for, and
// whether it is faster than caches. Predicted before the first run: three times
// as fast.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o shared shared.cu
// Run: ./shared

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

// --- Shapes -----------------------------------------------------------------

constexpr unsigned int kThreads = 256;  // threads in a block, floats in a tile

// One element alone; one less and one more than a tile; a ragged few tiles.
// The last size is timed, and no tile divides it.
constexpr size_t kSizes[] = {1, 255, 256, 257, 5003, 4000037};
constexpr int kSizeCount = sizeof(kSizes) / sizeof(kSizes[0]);
constexpr int kQuickSizes = kSizeCount - 1;  // under sanitizers
constexpr size_t kTimed = kSizes[kSizeCount - 1];

// An unguarded last block writes at most kThreads - 1 elements past the end.
constexpr size_t kCanary = kThreads;
constexpr int kCanaryByte = 0xa5;
constexpr unsigned int kCanaryBits = 0xa5a5a5a5u;  // a float of four of them

static_assert(kTimed % kThreads != 0, "the last tile is not full");
static_assert(kThreads <= 1024, "no GPU takes a larger block");
static_assert(kThreads * sizeof(float) <= 48 * 1024,
              "every block may have 48 KiB of shared memory");

// --- Cases ------------------------------------------------------------------

struct Case {
    const char *name;
    const char *about;
    size_t period;  // of the input, a prime; values are below it
    size_t step;
};

// Steps that divide no tile: no two tiles of a case are alike.
constexpr Case kCases[] = {
    {"distinct", "no two elements of a tile are equal", 10007, 7919},
    {"ties", "each value about twenty times in a tile", 13, 5},
    {"falling", "nearly every tile in reverse order", 1000003, 1000002},
};

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmupRounds = 3;  // of both paths, before the first sample
constexpr int kLaunches = 5;      // between two events

constexpr double kKilo = 1e3;

// --- Small helpers ----------------------------------------------------------

// As many whole blocks as cover n elements: n / kThreads, rounded up.
static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

// --- Kernels ----------------------------------------------------------------

// y = x with every tile sorted, through shared memory.
// Memory: a warp reads 32 neighbouring floats of x and writes 32 of y, each
// once. In shared memory, all threads of a warp read the same float at a time,
// which is one access.
// Launch assumption: one block of 256 threads per tile; any n. Threads that
// have no element stay until the end: they have to reach the barriers.
__global__ void sortShared(const float *__restrict__ x, float *__restrict__ y,
                           size_t n)
{
    // snippet: tile
    __shared__ float tile[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * kThreads;
    const unsigned int count = n - first < kThreads
                                   ? static_cast<unsigned int>(n - first)
                                   : kThreads;
    float mine = 0.0f;
    if (tid < count) {
        mine = x[first + tid];
        tile[tid] = mine;
    }
    __syncthreads();  // 1: the whole tile is there
    // end snippet

    // snippet: place
    unsigned int place = 0;
    for (unsigned int k = 0; k < count; ++k) {
        const float other = tile[k];
        const bool before = other < mine || (other == mine && k < tid);
        place += before ? 1 : 0;
    }
    __syncthreads();  // 2: nobody reads the old tile any more
    // end snippet

    // snippet: store
    if (tid < count) {
        tile[place] = mine;
    }
    __syncthreads();  // 3: the sorted tile is there
    if (tid < count) {
        y[first + tid] = tile[tid];
    }
    // end snippet
}

// The same without shared memory.
// Memory: each thread reads its whole tile, a float at a time; all threads of
// a warp read the same one, and the cache has it from the first on. The 32
// floats that a warp writes may lie anywhere in the tile.
// Launch assumption: one block of 256 threads per tile; any n.
__global__ void sortGlobal(const float *__restrict__ x, float *__restrict__ y,
                           size_t n)
{
    const unsigned int tid = threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * kThreads;
    const unsigned int count = n - first < kThreads
                                   ? static_cast<unsigned int>(n - first)
                                   : kThreads;
    // snippet: global
    if (tid < count) {
        const float mine = x[first + tid];
        unsigned int place = 0;
        for (unsigned int k = 0; k < count; ++k) {
            const float other = x[first + k];
            const bool before = other < mine || (other == mine && k < tid);
            place += before ? 1 : 0;
        }
        y[first + place] = mine;
    }
    // end snippet
}

// --- Paths ------------------------------------------------------------------

enum Path { kGlobal, kShared, kPathCount };
constexpr const char *kNames[kPathCount] = {"global", "shared"};

struct Buffers {
    float *d_x = nullptr;
    float *d_y = nullptr;
};

static void launch(int path, size_t n, const Buffers &b)
{
    if (path == kShared) {
        sortShared<<<blocksFor(n), kThreads>>>(b.d_x, b.d_y, n);
    } else {
        sortGlobal<<<blocksFor(n), kThreads>>>(b.d_x, b.d_y, n);
    }
    CUDA_CHECK(cudaGetLastError());
}

// --- CPU reference ----------------------------------------------------------

static std::vector<float> sortedTiles(std::vector<float> x)
{
    for (size_t first = 0; first < x.size(); first += kThreads) {
        const size_t end = std::min(first + kThreads, x.size());
        std::sort(x.begin() + static_cast<std::ptrdiff_t>(first),
                  x.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return x;
}

// --- Inputs -----------------------------------------------------------------

static std::vector<float> inputOf(const Case &input, size_t n)
{
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) {
        const size_t place = (i + 1) * input.step % input.period;
        x[i] = 0.25f * static_cast<float>(place) - 0.5f;
    }
    return x;
}

// --- Gate -------------------------------------------------------------------

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    const char *path = "";
    const char *input = "";
    size_t n = 0;
    size_t count = 0;  // of places that are wrong
    size_t index = 0;  // of the first of them
    double got = 0.0;
    double want = 0.0;
};

// Sorts one vector on one path. Returns how many places are wrong, those of the
// canary included.
static size_t runPath(int path, const Case &input,
                      const std::vector<float> &want, const Buffers &b,
                      Failure *failure)
{
    const size_t n = want.size();
    std::vector<float> got(n + kCanary);
    CUDA_CHECK(cudaMemset(b.d_y, 0xff, n * sizeof(float)));  // all NaN
    CUDA_CHECK(cudaMemset(b.d_y + n, kCanaryByte, kCanary * sizeof(float)));
    launch(path, n, b);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, got.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));

    Failure found = {nullptr, kNames[path], input.name, n, 0, 0, 0.0, 0.0};
    for (size_t i = 0; i < n + kCanary; ++i) {
        unsigned int bits = 0;
        std::memcpy(&bits, &got[i], sizeof(bits));
        const bool right = i < n ? got[i] == want[i] : bits == kCanaryBits;
        if (!right && found.count++ == 0) {
            found.what = i < n ? "the sorted tile" : "the canary";
            found.index = i;
            found.got = got[i];
            found.want = i < n ? want[i] : -1.0;
        }
    }
    if (found.count > 0 && failure->what == nullptr) {
        *failure = found;
    }
    return found.count;
}

// Both paths at each size. Returns how many sizes passed.
static int runCase(const Case &input, int sizes, const Buffers &b,
                   Failure *failure)
{
    int passed = 0;
    size_t allMoved = 0;
    std::printf("\ncase %s: %s\n", input.name, input.about);
    std::printf("  %-11s  %8s  %12s  %12s\n", "size", "to move",
                "wrong global", "wrong shared");
    for (int s = 0; s < sizes && failure->what == nullptr; ++s) {
        const size_t n = kSizes[s];
        const std::vector<float> x = inputOf(input, n);
        const std::vector<float> want = sortedTiles(x);
        size_t moved = 0;
        for (size_t i = 0; i < n; ++i) {
            moved += x[i] == want[i] ? 0 : 1;
        }
        CUDA_CHECK(cudaMemcpy(b.d_x, x.data(), n * sizeof(float),
                              cudaMemcpyHostToDevice));
        const size_t global = runPath(kGlobal, input, want, b, failure);
        const size_t shared = runPath(kShared, input, want, b, failure);
        std::printf("  n = %-7zu  %8zu  %12zu  %12zu\n", n, moved, global,
                    shared);
        allMoved += moved;
        passed += failure->what == nullptr ? 1 : 0;
    }
    if (failure->what == nullptr && allMoved == 0) {
        failure->what = "an input that is sorted already";
        failure->input = input.name;
    }
    return passed;
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats times, milliseconds per launch.
struct Spread {
    double median = 0.0;
    double least = 0.0;
    double most = 0.0;
};

static Spread spreadOf(std::vector<double> samples)
{
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples.front(), samples.back()};
}

// Times both paths beside each other: a sample is a few launches between two
// events, and the paths take turns, forwards and backwards.
static void timeAll(size_t n, const Buffers &b, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](int path) {
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(path, n, b);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPathCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double ms = launchMs(path);
            if (round >= 0) {
                samples[static_cast<size_t>(path)].push_back(ms);
            }
        }
    }
    for (int path = 0; path < kPathCount; ++path) {
        spreads[path] = spreadOf(samples[static_cast<size_t>(path)]);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics and counts -------------------------------------------

static void printKernel(const char *name, const void *kernel,
                        unsigned int threads, const cudaDeviceProp &device)
{
    cudaFuncAttributes attributes = {};
    int blocks = 0;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(threads), 0));
    const double occupancy = 100.0 * blocks * threads /
                             device.maxThreadsPerMultiProcessor;
    std::printf("  %-15s  %9d  %9zu  %10zu  %9d  %13.1f\n", name,
                attributes.numRegs, attributes.localSizeBytes,
                attributes.sharedSizeBytes, blocks, occupancy);
}

static void printKernels(const cudaDeviceProp &device)
{
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    printKernel("sortGlobal", reinterpret_cast<const void *>(sortGlobal),
                kThreads, device);
    printKernel("sortShared", reinterpret_cast<const void *>(sortShared),
                kThreads, device);
}

// What the threads of each path ask of main memory: whole tiles only, and the
// few elements of the last one as what they are.
static void printBytes(size_t n)
{
    const size_t rest = n % kThreads;
    const size_t pairs = (n - rest) * kThreads + rest * rest;
    std::printf("\nbytes: counted, not measured, at n = %zu\n", n);
    std::printf("  comparisons           %zu   (elements of the own tile, "
                "for every element)\n",
                pairs);
    std::printf("  floor                 %zu B   (x once and y once)\n",
                2 * n * sizeof(float));
    std::printf("  asked by sortGlobal   %zu B   (main memory, by all "
                "threads)\n",
                (2 * n + pairs) * sizeof(float));
    std::printf("  asked by sortShared   %zu B   (main memory)\n",
                2 * n * sizeof(float));
    std::printf("  asked in shared       %zu B   (by sortShared, beside it)\n",
                (3 * n + pairs) * sizeof(float));
}

static void printTimes(const Spread *spreads)
{
    std::printf("\ntiming: events around launches, the paths in turns\n");
    std::printf("  repeats    %d   (time is the median of these)\n", kRepeats);
    std::printf("  launches   %d   (in each; x and y are in L2 from the one "
                "before)\n\n",
                kLaunches);
    std::printf("  %-6s  %9s  %9s  %9s\n", "path", "time (us)", "min (us)",
                "max (us)");
    for (int path = 0; path < kPathCount; ++path) {
        const Spread &spread = spreads[path];
        std::printf("  %-6s  %9.1f  %9.1f  %9.1f\n", kNames[path],
                    kKilo * spread.median, kKilo * spread.least,
                    kKilo * spread.most);
    }
    std::printf("\n  global over shared   %.2fx\n",
                spreads[kGlobal].median / spreads[kShared].median);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: shared [--quick]\n"
                             "  --quick  small sizes, nothing timed\n");
        return 2;
    }
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    printKernels(device);
    printBytes(kTimed);

    Buffers b;
    CUDA_CHECK(cudaMalloc(&b.d_x, kTimed * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_y, (kTimed + kCanary) * sizeof(float)));

    Failure failure;
    int passed = 0;
    for (const Case &input : kCases) {
        if (failure.what == nullptr) {
            passed += runCase(input, quick ? kQuickSizes : kSizeCount, b,
                              &failure);
        }
    }
    if (failure.what == nullptr && !quick) {
        Spread spreads[kPathCount];
        timeAll(kTimed, b, spreads);
        printTimes(spreads);
    }
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));

    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s of path %s fails at n = %zu, case %s, in %zu places: "
                     "element %zu (tile %zu) is %.9g, not %.9g\n",
                     failure.what, failure.path, failure.n, failure.input,
                     failure.count, failure.index, failure.index / kThreads,
                     failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
