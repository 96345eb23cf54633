// SPDX-License-Identifier: MIT
//
// Day 10: coalescing. Every kernel here loads n numbers of four bytes and
// stores them one after the other. They differ in where the 32 threads of a
// warp find theirs: side by side, `stride` places apart, in reverse order, or
// moved by one.
//
// Memory is read in sectors of 32 bytes. The program counts, on the CPU, how
// many sectors the addresses of a warp lie in; that is arithmetic. Then it
// measures the time.
//
// Every kernel moves the same numbers, so the useful bytes are the same: 4n
// loaded and 4n stored. The buffer that is read from is as large as the largest
// stride needs, and even the least that a kernel reads is some times the L2.
//
// There is no tolerance: copies are exact. A judge, a kernel, counts the
// elements that are not what they must be; before a path has run, it must find
// every element wrong, or it is not believed afterwards (day 8).
//
// Predicted before the first run: time goes with sectors, those read and those
// written. So it grows up to a stride of 8, where each thread has a sector to
// itself, and stays from there on. Reverse order costs nothing; moving by one
// costs the fifth sector.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o coalescing coalescing.cu
// Run: ./coalescing

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kThreads = 256;
constexpr size_t kSector = 32;  // bytes

// Elements; halved until what the largest stride needs fits into half of what
// is free. Not a multiple of a block.
constexpr size_t kFullCount = (size_t{1} << 26) - 13;
constexpr size_t kQuickCount = (size_t{1} << 16) - 13;
constexpr size_t kLargestStride = 64;

// Element k of the buffer is (k + 1) times this, modulo 2^32. The factor is
// odd, so no two elements are alike and none is 0.
constexpr unsigned int kFactor = 2654435761u;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;      // odd: the median is one of the samples
constexpr int kWarmupRounds = 2;  // of all paths, before the first sample
constexpr int kLaunches = 3;      // between two events

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kFullCount * kLargestStride < (size_t{1} << 32) - 1,
              "no two elements of the buffer are alike");
static_assert(kFullCount % kThreads != 0, "the last block is not full");
static_assert(kThreads % kWarp == 0, "a block is whole warps");

// --- Kernels ----------------------------------------------------------------

// x[k] = (k + 1) * kFactor.
// Memory: a warp writes 32 neighbouring numbers.
// Launch assumption: any.
__global__ void fill(unsigned int *__restrict__ x, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t k = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         k < count; k += step) {
        x[k] = static_cast<unsigned int>(k + 1) * kFactor;
    }
}

// y[i] = x[i * stride]. The stride is a template parameter, so that a profiler
// can tell the strides apart.
// Memory: a warp reads 32 numbers that lie `stride` apart, and writes 32
// neighbouring ones.
// Launch assumption: at least n threads; x has n * stride elements.
template <unsigned int kStride>
__global__ void strided(const unsigned int *__restrict__ x,
                        unsigned int *__restrict__ y, size_t n)
{
    // snippet: strided
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i * kStride];
    }
    // end snippet
}

// y[i] = x[i ^ 31]: the 32 numbers of a warp in reverse order.
// Memory: as strided<1>, but the first thread reads the last address.
// Launch assumption: at least n threads; x has n + 31 elements.
__global__ void reversed(const unsigned int *__restrict__ x,
                         unsigned int *__restrict__ y, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        // snippet: reversed
        y[i] = x[i ^ (kWarp - 1)];
        // end snippet
    }
}

// y[i] = x[i + 1].
// Memory: as strided<1>, but a warp's first address begins no sector.
// Launch assumption: at least n threads; x has n + 1 elements.
__global__ void shifted(const unsigned int *__restrict__ x,
                        unsigned int *__restrict__ y, size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        // snippet: shifted
        y[i] = x[i + 1];
        // end snippet
    }
}

// --- Paths ------------------------------------------------------------------

enum Kind { kStrided, kReversed, kShifted };

struct Path {
    const char *name;
    Kind kind;
    unsigned int stride;
    void (*kernel)(const unsigned int *, unsigned int *, size_t);
};

constexpr Path kPaths[] = {
    {"stride 1", kStrided, 1, strided<1>},
    {"stride 2", kStrided, 2, strided<2>},
    {"stride 3", kStrided, 3, strided<3>},
    {"stride 4", kStrided, 4, strided<4>},
    {"stride 6", kStrided, 6, strided<6>},
    {"stride 8", kStrided, 8, strided<8>},
    {"stride 12", kStrided, 12, strided<12>},
    {"stride 16", kStrided, 16, strided<16>},
    {"stride 24", kStrided, 24, strided<24>},
    {"stride 32", kStrided, 32, strided<32>},
    {"stride 64", kStrided, 64, strided<64>},
    {"reversed", kReversed, 1, reversed},
    {"shifted", kShifted, 1, shifted},
};
constexpr int kPathCount = sizeof(kPaths) / sizeof(kPaths[0]);

// The place that element i comes from.
__host__ __device__ inline size_t sourceOf(Kind kind, size_t stride, size_t i)
{
    if (kind == kReversed) {
        return i ^ (kWarp - 1);
    }
    return kind == kShifted ? i + 1 : i * stride;
}

// Counts the elements that are not those of their source.
// Memory: a warp reads 32 neighbouring numbers.
// Launch assumption: any.
__global__ void countWrong(const unsigned int *__restrict__ y, size_t n,
                           Kind kind, size_t stride,
                           unsigned long long *__restrict__ wrong)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    unsigned long long mine = 0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += step) {
        const size_t k = sourceOf(kind, stride, i);
        mine += y[i] == static_cast<unsigned int>(k + 1) * kFactor ? 0 : 1;
    }
    if (mine > 0) {
        atomicAdd(wrong, mine);
    }
}

struct Buffers {
    size_t n = 0;
    size_t sources = 0;  // elements of d_x
    unsigned int *d_x = nullptr;
    unsigned int *d_y = nullptr;
    unsigned long long *d_wrong = nullptr;
};

static unsigned int blocksFor(size_t n)
{
    return static_cast<unsigned int>((n + kThreads - 1) / kThreads);
}

static void launch(const Path &path, const Buffers &b)
{
    path.kernel<<<blocksFor(b.n), kThreads>>>(b.d_x, b.d_y, b.n);
    CUDA_CHECK(cudaGetLastError());
}

// --- Counting ---------------------------------------------------------------

// How many sectors the addresses of a warp lie in. Here the buffer begins where
// a sector does; cudaMalloc sees to that.
// snippet: count-sectors
static size_t sectorsOf(const Path &path, size_t warp)
{
    std::set<size_t> sectors;
    for (size_t lane = 0; lane < kWarp; ++lane) {
        const size_t i = warp * kWarp + lane;
        const size_t place = sourceOf(path.kind, path.stride, i);
        sectors.insert(place * sizeof(unsigned int) / kSector);
    }
    return sectors.size();
}
// end snippet

// --- Gate -------------------------------------------------------------------

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    int path = 0;
    unsigned long long got = 0;
    unsigned long long want = 0;
};

static unsigned long long wrongIn(const Path &path, const Buffers &b)
{
    unsigned long long wrong = 0;
    CUDA_CHECK(cudaMemset(b.d_wrong, 0, sizeof(wrong)));
    countWrong<<<1024, kThreads>>>(b.d_y, b.n, path.kind, path.stride,
                                   b.d_wrong);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&wrong, b.d_wrong, sizeof(wrong),
                          cudaMemcpyDeviceToHost));
    return wrong;
}

// Runs every path once and judges it. Returns how many passed.
static int judgeAll(const Buffers &b, Failure *failure)
{
    int passed = 0;
    std::printf("\ngate: every element, bit for bit\n");
    std::printf("  %-9s  %8s  %12s  %11s\n", "path", "elements",
                "wrong before", "wrong after");
    for (int p = 0; p < kPathCount && failure->what == nullptr; ++p) {
        CUDA_CHECK(cudaMemset(b.d_y, 0, b.n * sizeof(unsigned int)));
        const unsigned long long before = wrongIn(kPaths[p], b);
        launch(kPaths[p], b);
        const unsigned long long after = wrongIn(kPaths[p], b);
        std::printf("  %-9s  %8zu  %12llu  %11llu\n", kPaths[p].name, b.n,
                    before, after);
        if (before != b.n) {
            *failure = {"the judge passes what is not there", p, before, b.n};
        } else if (after != 0) {
            *failure = {"elements are wrong", p, after, 0};
        }
        passed += failure->what == nullptr ? 1 : 0;
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

// Times all paths beside each other: a sample is a few launches between two
// events, and the paths take turns, forwards and backwards.
static void timeAll(const Buffers &b, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](const Path &path) {
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(path, b);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPathCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int p = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double ms = launchMs(kPaths[p]);
            if (round >= 0) {
                samples[static_cast<size_t>(p)].push_back(ms);
            }
        }
    }
    for (int p = 0; p < kPathCount; ++p) {
        spreads[p] = spreadOf(samples[static_cast<size_t>(p)]);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics and tables -------------------------------------------

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
    printKernel("strided<1>", reinterpret_cast<const void *>(strided<1>),
                kThreads, device);
    printKernel("strided<64>", reinterpret_cast<const void *>(strided<64>),
                kThreads, device);
    printKernel("reversed", reinterpret_cast<const void *>(reversed),
                kThreads, device);
    printKernel("shifted", reinterpret_cast<const void *>(shifted), kThreads,
                device);
}

static void printCounts(const Buffers &b)
{
    std::printf("\ncounts: arithmetic, of a warp that is not the first\n");
    std::printf("  elements       %zu\n", b.n);
    std::printf("  useful bytes   %zu B   (4 read, 4 written for each)\n",
                2 * b.n * sizeof(unsigned int));
    std::printf("  sector         %zu B\n\n", kSector);
    std::printf("  %-9s  %12s  %13s  %12s\n", "path", "read sectors",
                "for a warp (B)", "used of it (%)");
    for (const Path &path : kPaths) {
        const size_t sectors = sectorsOf(path, 7);
        std::printf("  %-9s  %12zu  %13zu  %12.1f\n", path.name, sectors,
                    sectors * kSector,
                    100.0 * kWarp * sizeof(unsigned int) /
                        static_cast<double>(sectors * kSector));
    }
}

static void printTimes(const Buffers &b, const Spread *spreads)
{
    const double bytes = 2.0 * static_cast<double>(b.n) * sizeof(unsigned int);
    std::printf("\ntiming: events around launches of one path, the paths in "
                "turns\n");
    std::printf("  repeats    %d   (time is the median of these)\n", kRepeats);
    std::printf("  launches   %d   (in each)\n", kLaunches);
    std::printf("\nsweep: useful bytes over time\n");
    std::printf("  %-9s  %9s  %9s  %9s  %11s\n", "path", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)");
    for (int p = 0; p < kPathCount; ++p) {
        const Spread &spread = spreads[p];
        std::printf("  %-9s  %9.4f  %9.4f  %9.4f  %11.1f\n", kPaths[p].name,
                    spread.median, spread.least, spread.most,
                    bytes / (spread.median * 1e-3) / kGiga);
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static void allocate(Mode mode, Buffers *b)
{
    size_t freeBytes = 0;
    size_t totalBytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&freeBytes, &totalBytes));
    b->n = mode == Mode::kQuick ? kQuickCount : kFullCount;
    while (2 * b->n * kLargestStride * sizeof(unsigned int) > freeBytes &&
           b->n > kQuickCount) {
        b->n /= 2;
    }
    b->sources = b->n * kLargestStride;
    CUDA_CHECK(cudaMalloc(&b->d_x, b->sources * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&b->d_y, b->n * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&b->d_wrong, sizeof(unsigned long long)));
    fill<<<1024, kThreads>>>(b->d_x, b->sources);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    Mode mode = Mode::kFull;
    if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) {
        mode = Mode::kQuick;
    } else if (argc == 2 && std::strcmp(argv[1], "--once") == 0) {
        mode = Mode::kOnce;
    } else if (argc != 1) {
        std::fprintf(stderr,
                     "usage: coalescing [--quick | --once]\n"
                     "  --quick  few elements, nothing timed\n"
                     "  --once   every path once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("  L2 cache          %.1f MiB\n",
                static_cast<double>(device.l2CacheSize) / kMiB);
    printKernels(device);

    Buffers b;
    Failure failure;
    allocate(mode, &b);
    printCounts(b);
    const int passed = judgeAll(b, &failure);
    if (failure.what == nullptr && mode == Mode::kFull) {
        Spread spreads[kPathCount];
        timeAll(b, spreads);
        printTimes(b, spreads);
    }
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaFree(b.d_wrong));

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s: %s: %llu, not %llu\n",
                     kPaths[failure.path].name, failure.what, failure.got,
                     failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
