// SPDX-License-Identifier: MIT
//
// Day 11: warps and divergence. Each thread takes a number through thousands of
// multiply-adds, on one of 32 ways: loops in branches of their own, which
// differ in the number that they multiply by. Which way a thread takes stands
// in an array. So all cases run the same code and do the same number of
// multiply-adds; only the array differs.
//
// ways: the lanes of each warp are spread over 1, 2, 4, ... 32 ways.
//
// patterns: two ways, and who takes the second: every other block, warp, half
// of a warp or thread, threads at random, one warp in 32, one thread in 32.
//
// lengths: one way, but every thread has its own number of steps, the same
// number on average; in falling order, and shuffled.
//
// chosen: every other thread takes the second way, but there is one loop, and
// the number to multiply by is chosen before it.
//
// A fused multiply-add rounds once, on a CPU as on a GPU. So the results are
// judged bit for bit, against a table of what each way makes of each input.
//
// Predicted before the first run: a warp takes as long as all the ways that its
// lanes take, one after the other. So k ways take k times as long, and how many
// lanes are on a way does not matter.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o divergence divergence.cu
// Run: ./divergence

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

constexpr unsigned int kWarp = 32;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kWays = 32;  // one for each lane

constexpr size_t kFullCount = 1048573;  // no multiple of a warp; 16 waves of
                                        // blocks on a small GPU, 4 on a large
constexpr size_t kQuickCount = 4099;    // under sanitizers
constexpr unsigned int kFullSteps = 4096;  // multiply-adds per thread
constexpr unsigned int kQuickSteps = 64;

// Multiply-adds by a number just above -1 change sign and mantissa each time
// and neither die out nor grow; each way has a number of its own.
constexpr float kAddend = 0.75f;

// Element i of the input is i % 97 - 48: a prime, so that no pattern of ways
// meets the same inputs again and again.
constexpr unsigned int kPeriod = 97;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;      // odd: the median is one of the samples
constexpr int kWarmupRounds = 2;  // of all cases, before the first sample

constexpr double kGiga = 1e9;

static_assert(kThreads % kWarp == 0, "a block is whole warps");
static_assert(kFullCount % kWarp != 0 && kQuickCount % kWarp != 0,
              "the last warp is not full");

// --- Kernels ----------------------------------------------------------------

// What way `way` multiplies by.
__host__ __device__ constexpr float factorOf(unsigned int way)
{
    return -1.0f + static_cast<float>(way + 1) / 65536.0f;
}

// Takes a number through `steps` multiply-adds.
// snippet: work
template <unsigned int kWay>
__device__ float work(float v, unsigned int steps)
{
    constexpr float factor = factorOf(kWay);
    for (unsigned int s = 0; s < steps; ++s) {
        v = fmaf(v, factor, kAddend);
    }
    return v;
}
// end snippet

// The same on the way that is named: 32 loops, each in a branch of its own.
__device__ float goWay(unsigned int way, float v, unsigned int steps)
{
    switch (way) {
    case 1: return work<1>(v, steps);
    case 2: return work<2>(v, steps);
    case 3: return work<3>(v, steps);
    case 4: return work<4>(v, steps);
    case 5: return work<5>(v, steps);
    case 6: return work<6>(v, steps);
    case 7: return work<7>(v, steps);
    case 8: return work<8>(v, steps);
    case 9: return work<9>(v, steps);
    case 10: return work<10>(v, steps);
    case 11: return work<11>(v, steps);
    case 12: return work<12>(v, steps);
    case 13: return work<13>(v, steps);
    case 14: return work<14>(v, steps);
    case 15: return work<15>(v, steps);
    case 16: return work<16>(v, steps);
    case 17: return work<17>(v, steps);
    case 18: return work<18>(v, steps);
    case 19: return work<19>(v, steps);
    case 20: return work<20>(v, steps);
    case 21: return work<21>(v, steps);
    case 22: return work<22>(v, steps);
    case 23: return work<23>(v, steps);
    case 24: return work<24>(v, steps);
    case 25: return work<25>(v, steps);
    case 26: return work<26>(v, steps);
    case 27: return work<27>(v, steps);
    case 28: return work<28>(v, steps);
    case 29: return work<29>(v, steps);
    case 30: return work<30>(v, steps);
    case 31: return work<31>(v, steps);
    default:
        return work<0>(v, steps);
    }
}

// y = x taken along way[i]. The template parameter changes nothing: it lets
// a profiler tell the cases apart.
// Memory: a warp reads 32 neighbouring numbers of x and of way and writes 32,
// once for thousands of multiply-adds.
// Launch assumption: at least n threads; any n.
template <int kId>
__global__ void branchy(const float *__restrict__ x,
                        const unsigned int *__restrict__ way,
                        float *__restrict__ y, size_t n,
                        unsigned int steps)
{
    // snippet: kernel
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = goWay(way[i], x[i], steps);
    }
    // end snippet
}

// y = x taken along way 0, way[i] steps far.
// Memory: as branchy.
// Launch assumption: as branchy.
template <int kId>
__global__ void lengths(const float *__restrict__ x,
                        const unsigned int *__restrict__ way,
                        float *__restrict__ y, size_t n, unsigned int)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        // snippet: lengths
        const unsigned int steps = way[i];
        y[i] = work<0>(x[i], steps);
        // end snippet
    }
}

// y = x taken along way[i], which is 0 or 1, without a branch.
// Memory: as branchy.
// Launch assumption: as branchy.
__global__ void chosen(const float *__restrict__ x,
                       const unsigned int *__restrict__ way,
                       float *__restrict__ y, size_t n, unsigned int steps)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        // snippet: chosen
        const float factor = way[i] == 0 ? factorOf(0) : factorOf(1);
        float v = x[i];
        for (unsigned int s = 0; s < steps; ++s) {
            v = fmaf(v, factor, kAddend);
        }
        y[i] = v;
        // end snippet
    }
}

// --- Cases ------------------------------------------------------------------

enum Pattern {
    kByLane,  // lane % ways
    kByBlock,
    kByWarp,
    kByHalfWarp,
    kByThread,
    kRandom,
    kOneWarp,
    kOneThread,
    kFalling,  // lengths
    kShuffled
};

struct Case {
    const char *section;
    const char *name;
    Pattern pattern;
    unsigned int ways;  // that lanes are spread over
    void (*kernel)(const float *, const unsigned int *, float *, size_t,
                   unsigned int);
};

constexpr Case kCases[] = {
    {"ways", "ways 1", kByLane, 1, branchy<1>},
    {"ways", "ways 2", kByLane, 2, branchy<2>},
    {"ways", "ways 4", kByLane, 4, branchy<4>},
    {"ways", "ways 8", kByLane, 8, branchy<8>},
    {"ways", "ways 16", kByLane, 16, branchy<16>},
    {"ways", "ways 32", kByLane, 32, branchy<32>},
    {"patterns", "block", kByBlock, 2, branchy<100>},
    {"patterns", "warp", kByWarp, 2, branchy<101>},
    {"patterns", "half warp", kByHalfWarp, 2, branchy<102>},
    {"patterns", "thread", kByThread, 2, branchy<103>},
    {"patterns", "at random", kRandom, 2, branchy<104>},
    {"patterns", "one warp in 32", kOneWarp, 2, branchy<105>},
    {"patterns", "one thread in 32", kOneThread, 2, branchy<106>},
    {"lengths", "falling", kFalling, 1, lengths<0>},
    {"lengths", "shuffled", kShuffled, 1, lengths<1>},
    {"chosen", "thread", kByThread, 2, chosen},
};
constexpr int kCaseCount = sizeof(kCases) / sizeof(kCases[0]);

// A number that looks like chance, and is the same in every run.
static unsigned int hashOf(size_t i)
{
    unsigned int h = static_cast<unsigned int>(i) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    return h ^ (h >> 13);
}

// What stands in the array for thread i: its way, or its number of steps.
static unsigned int wayOf(const Case &test, size_t i, size_t n,
                          unsigned int steps)
{
    switch (test.pattern) {
    case kByLane:
        return static_cast<unsigned int>(i % kWarp) % test.ways;
    case kByBlock:
        return i / kThreads % 2;
    case kByWarp:
        return i / kWarp % 2;
    case kByHalfWarp:
        return i / (kWarp / 2) % 2;
    case kByThread:
        return i % 2;
    case kRandom:
        return hashOf(i) % 2;
    case kOneWarp:
        return i / kWarp % 32 == 5 ? 1 : 0;
    case kOneThread:
        return i % 32 == 5 ? 1 : 0;
    case kFalling:  // from 2 * steps to 0
        return static_cast<unsigned int>(2 * steps * (n - 1 - i) / (n - 1));
    default:
        return hashOf(i) % (2 * steps + 1);
    }
}

// --- CPU reference ----------------------------------------------------------

// What each way makes of each input after each number of steps that is needed.
struct Table {
    unsigned int steps = 0;
    std::vector<float> byWay;   // [way][input], after `steps`
    std::vector<float> byStep;  // [input][steps], on way 0
};

static float inputOf(size_t i)
{
    return static_cast<float>(i % kPeriod) - 48.0f;
}

static Table tableOf(unsigned int steps)
{
    Table table;
    table.steps = steps;
    for (unsigned int way = 0; way < kWays; ++way) {
        for (unsigned int r = 0; r < kPeriod; ++r) {
            float v = inputOf(r);
            for (unsigned int s = 0; s < steps; ++s) {
                v = std::fmaf(v, factorOf(way), kAddend);
            }
            table.byWay.push_back(v);
        }
    }
    for (unsigned int r = 0; r < kPeriod; ++r) {
        float v = inputOf(r);
        for (unsigned int s = 0; s <= 2 * steps; ++s) {
            table.byStep.push_back(v);
            v = std::fmaf(v, factorOf(0), kAddend);
        }
    }
    return table;
}

static float wanted(const Table &table, const Case &test, size_t i,
                    unsigned int way)
{
    const size_t r = i % kPeriod;
    if (test.pattern == kFalling || test.pattern == kShuffled) {
        return table.byStep[r * (2 * table.steps + 1) + way];
    }
    return table.byWay[way * kPeriod + r];
}

// --- Gate -------------------------------------------------------------------

struct Buffers {
    size_t n = 0;
    unsigned int steps = 0;
    float *d_x = nullptr;
    float *d_y = nullptr;
    unsigned int *d_way[kCaseCount] = {};  // one array for each case
};

// What went wrong first; reported after everything has been printed.
struct Failure {
    const char *what = nullptr;
    int test = 0;
    size_t count = 0;
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

static void launch(int c, const Buffers &b)
{
    const unsigned int blocks =
        static_cast<unsigned int>((b.n + kThreads - 1) / kThreads);
    kCases[c].kernel<<<blocks, kThreads>>>(b.d_x, b.d_way[c], b.d_y, b.n,
                                           b.steps);
    CUDA_CHECK(cudaGetLastError());
}

// The multiply-adds of a case, and how many would be done if each lane of a
// warp had to wait for the others: on a way of its own, or on the longest loop.
struct Count {
    double own = 0.0;
    double waited = 0.0;
};

static Count countOf(const Case &test, const std::vector<unsigned int> &way,
                     unsigned int steps)
{
    const bool lengthsVary =
        test.pattern == kFalling || test.pattern == kShuffled;
    const bool branchless = std::strcmp(test.section, "chosen") == 0;
    Count count;
    for (size_t first = 0; first < way.size(); first += kWarp) {
        const size_t end = std::min(first + kWarp, way.size());
        unsigned int seen = 0;  // a bit for each way
        unsigned int longest = 0;
        for (size_t i = first; i < end; ++i) {
            seen |= 1u << (way[i] % kWays);
            longest = std::max(longest, way[i]);
            count.own += lengthsVary ? way[i] : steps;
        }
        unsigned int taken = 0;
        for (unsigned int bit = 0; bit < kWays; ++bit) {
            taken += seen >> bit & 1;
        }
        const double passes = branchless ? 1.0 : taken;
        count.waited += kWarp * (lengthsVary ? longest : passes * steps);
    }
    return count;
}

// Runs a case and judges every element.
static void runCase(int c, const Buffers &b, const Table &table,
                    Count *count, Failure *failure)
{
    const Case &test = kCases[c];
    std::vector<unsigned int> way(b.n);
    for (size_t i = 0; i < b.n; ++i) {
        way[i] = wayOf(test, i, b.n, b.steps);
    }
    *count = countOf(test, way, b.steps);
    CUDA_CHECK(cudaMemcpy(b.d_way[c], way.data(), b.n * sizeof(unsigned int),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(b.d_y, 0xff, b.n * sizeof(float)));  // all NaN
    launch(c, b);
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<float> got(b.n);
    CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, b.n * sizeof(float),
                          cudaMemcpyDeviceToHost));

    size_t wrong = 0;
    size_t second = 0;  // threads that are not on way 0
    for (size_t i = 0; i < b.n; ++i) {
        const float want = wanted(table, test, i, way[i]);
        second += way[i] != 0 ? 1 : 0;
        if (!(got[i] == want)) {
            if (wrong++ == 0) {
                *failure = {"elements are wrong", c, 0, i, got[i], want};
            }
        }
    }
    failure->count = wrong;
    std::printf("  %-16s  %15.2f  %18.3f  %5zu\n", test.name,
                100.0 * static_cast<double>(second) /
                    static_cast<double>(b.n),
                count->waited / count->own, wrong);
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

// Times all cases beside each other: a sample is one launch between two events,
// and the cases take turns, forwards and backwards.
static void timeAll(const Buffers &b, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](int c) {
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start));
        launch(c, b);
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms);
    };

    std::vector<std::vector<double>> samples(kCaseCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (int turn = 0; turn < kCaseCount; ++turn) {
            const int c = round % 2 == 0 ? turn : kCaseCount - 1 - turn;
            const double ms = launchMs(c);
            if (round >= 0) {
                samples[static_cast<size_t>(c)].push_back(ms);
            }
        }
    }
    for (int c = 0; c < kCaseCount; ++c) {
        spreads[c] = spreadOf(samples[static_cast<size_t>(c)]);
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
    printKernel("branchy<32>", reinterpret_cast<const void *>(branchy<32>),
                kThreads, device);
    printKernel("lengths<0>", reinterpret_cast<const void *>(lengths<0>),
                kThreads, device);
    printKernel("chosen", reinterpret_cast<const void *>(chosen), kThreads,
                device);
}

static void printTimes(const Count *counts, const Spread *spreads)
{
    std::printf("\ntiming: events around one launch, the cases in turns\n");
    std::printf("  repeats    %d   (time is the median of these)\n", kRepeats);
    const char *section = "";
    for (int c = 0; c < kCaseCount; ++c) {
        const Case &test = kCases[c];
        if (std::strcmp(section, test.section) != 0) {
            section = test.section;
            std::printf("\ntime of %s: against one way for all\n", section);
            std::printf("  %-16s  %9s  %9s  %9s  %14s  %9s\n", "case",
                        "time (ms)", "min (ms)", "max (ms)", "rate (GFLOP/s)",
                        "slower (x)");
        }
        const Spread &spread = spreads[c];
        std::printf("  %-16s  %9.4f  %9.4f  %9.4f  %14.1f  %9.3f\n",
                    test.name, spread.median, spread.least, spread.most,
                    2.0 * counts[c].own / (spread.median * 1e-3) / kGiga,
                    spread.median / spreads[0].median);
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

int main(int argc, char **argv)
{
    Mode mode = Mode::kFull;
    if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) {
        mode = Mode::kQuick;
    } else if (argc == 2 && std::strcmp(argv[1], "--once") == 0) {
        mode = Mode::kOnce;
    } else if (argc != 1) {
        std::fprintf(stderr,
                     "usage: divergence [--quick | --once]\n"
                     "  --quick  few threads and steps, nothing timed\n"
                     "  --once   every case once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    printKernels(device);

    Buffers b;
    b.n = mode == Mode::kQuick ? kQuickCount : kFullCount;
    b.steps = mode == Mode::kQuick ? kQuickSteps : kFullSteps;
    std::vector<float> x(b.n);
    for (size_t i = 0; i < b.n; ++i) {
        x[i] = inputOf(i);
    }
    CUDA_CHECK(cudaMalloc(&b.d_x, b.n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_y, b.n * sizeof(float)));
    for (int c = 0; c < kCaseCount; ++c) {
        CUDA_CHECK(cudaMalloc(&b.d_way[c], b.n * sizeof(unsigned int)));
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, x.data(), b.n * sizeof(float),
                          cudaMemcpyHostToDevice));

    std::printf("\nwork: the same in every case, on average\n");
    std::printf("  threads             %zu\n", b.n);
    std::printf("  steps of a thread   %u   (multiply-adds)\n", b.steps);

    const Table table = tableOf(b.steps);
    Count counts[kCaseCount];
    Failure failure;
    int passed = 0;
    const char *section = "";
    for (int c = 0; c < kCaseCount && failure.what == nullptr; ++c) {
        if (std::strcmp(section, kCases[c].section) != 0) {
            section = kCases[c].section;
            std::printf("\n%s: judged bit for bit; steps are counted\n",
                        section);
            std::printf("  %-16s  %15s  %18s  %5s\n", "case", "off way 0 (%)",
                        "steps with waiting", "wrong");
        }
        runCase(c, b, table, &counts[c], &failure);
        passed += failure.what == nullptr ? 1 : 0;
    }
    if (failure.what == nullptr && mode == Mode::kFull) {
        Spread spreads[kCaseCount];
        timeAll(b, spreads);
        printTimes(counts, spreads);
    }

    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));
    for (int c = 0; c < kCaseCount; ++c) {
        CUDA_CHECK(cudaFree(b.d_way[c]));
    }
    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s, case %s: %zu %s; the first is element %zu: %.9g, not "
                     "%.9g\n",
                     kCases[failure.test].section, kCases[failure.test].name,
                     failure.count, failure.what, failure.index, failure.got,
                     failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
