// SPDX-License-Identifier: MIT
//
// Day 40: caches, a working-set ladder. How long does a load take, and how many
// bytes a second do all threads get, if a program keeps coming back to W bytes?
//
// The chase has one thread. Each line of 128 bytes holds the place of the next
// one, in an order without a pattern that visits every line once, so no load
// can begin before the one before it has ended, and cycles per load are what
// one load takes. Cold: the L2 was flushed by writing 512 MiB elsewhere, the L1
// by the launch itself. Warm: all of W was read by the whole GPU before, and
// the thread has walked over as many lines as it will be timed on.
//
// The sweep has all threads. They read W bytes over and over, past the L1, and
// the rate says from how far the bytes come.
//
// Predicted before the first run:
//   warm   about 40 cycles up to 192 KiB or so, the L1; about 270 up to 30 MiB,
//          half of what the API gives as the size of the L2, since that is two
//          halves and a multiprocessor is close to one; about 700 from there
//   cold   about 700 at every W: what was never there cannot be kept
//   sweep  a fall near the same 30 MiB, to the rate of DRAM
//
// The chase is judged by where it ends: the CPU walks the same chain. The sweep
// is judged by its sum, of whole numbers that FP32 holds exactly. The file
// exists to compare cold with warm, and both with the sizes of the caches.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o ladder ladder.cu
// Run: ./ladder

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
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

constexpr unsigned int kThreads = 256;

constexpr size_t kLine = 128;  // bytes that a cache keeps together
constexpr unsigned int kWords = kLine / sizeof(unsigned int);
constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * 1024;

// --- Cases ------------------------------------------------------------------

// From an eighth of an L1 to eight times an L2, closer where one may end.
constexpr size_t kChases[] = {
    32 * kKiB, 64 * kKiB,  128 * kKiB, 160 * kKiB, 192 * kKiB, 224 * kKiB,
    256 * kKiB, 512 * kKiB, 1 * kMiB,   4 * kMiB,   8 * kMiB,   16 * kMiB,
    20 * kMiB, 24 * kMiB,  28 * kMiB,  32 * kMiB,  40 * kMiB,  48 * kMiB,
    56 * kMiB, 64 * kMiB,  96 * kMiB,  128 * kMiB, 256 * kMiB, 512 * kMiB,
};
constexpr size_t kSweeps[] = {
    4 * kMiB,  8 * kMiB,  16 * kMiB, 20 * kMiB,  24 * kMiB,
    28 * kMiB, 32 * kMiB, 40 * kMiB, 48 * kMiB,  56 * kMiB,
    64 * kMiB, 96 * kMiB, 128 * kMiB, 256 * kMiB, 512 * kMiB,
};
constexpr size_t kMost = 512 * kMiB;
constexpr size_t kQuick = 160 * kKiB;  // under sanitizers

// At 700 cycles a load, 4096 steps take under two milliseconds. Beyond 512 KiB
// that is not a whole lap: the timed steps then follow on those before them.
constexpr unsigned int kSteps = 4096;
constexpr unsigned int kStart = 0;

constexpr size_t kSweepBytes = size_t{1} << 30;  // read by one timed launch
constexpr size_t kQuickBytes = 64 * kMiB;  // some fifteen reads a thread
constexpr unsigned int kPeriod = 97;             // of the sweep's numbers

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 5;       // odd: the median is one of the samples
constexpr int kSweepRepeats = 9;  // after two that are not timed
constexpr int kWarmups = 2;

constexpr double kGiga = 1e9;

static_assert(kMost / sizeof(unsigned int) <= 0xffffffffu,
              "a link is the number of a word");
static_assert(kMost / sizeof(float4) <= 0xffffffffu / 2,
              "the sweep's place does not overflow before it is wrapped");

// --- Kernels ----------------------------------------------------------------

// Writes line i's link: where its first word says the chain goes on.
// Memory: one word of each line, 128 bytes apart.
// Launch assumption: any.
__global__ void placeLinks(const unsigned int *__restrict__ next,
                           unsigned int *__restrict__ links,
                           unsigned int lines)
{
    const unsigned int step = gridDim.x * blockDim.x;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < lines;
         i += step) {
        links[static_cast<size_t>(i) * kWords] = next[i] * kWords;
    }
}

// Reads a word of every line, so that the L2 holds them if it can. Nobody needs
// the sum, but without it the compiler would remove the loads.
// Launch assumption: any.
__global__ void touch(const unsigned int *__restrict__ links,
                      unsigned int lines, unsigned int *__restrict__ sink)
{
    const unsigned int step = gridDim.x * blockDim.x;
    unsigned int total = 0;
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < lines;
         i += step) {
        total += links[static_cast<size_t>(i) * kWords];
    }
    atomicAdd(sink, total);
}

struct Walk {
    long long cycles;     // of the timed steps
    unsigned int middle;  // where the untimed steps ended
    unsigned int end;     // and the timed ones
};

// Follows the chain for `before` steps, then for `steps` with a clock.
// Memory: each load needs what the one before it brought.
// Launch assumption: one thread.
__global__ void chase(const unsigned int *__restrict__ links,
                      unsigned int start, unsigned int before,
                      unsigned int steps, Walk *__restrict__ walk)
{
    // snippet: chase
    __shared__ unsigned int arrived;
    unsigned int at = start;
    for (unsigned int s = 0; s < before; ++s) {
        at = links[at];
    }
    arrived = at;  // waits for the last load before the clock is read
    __syncthreads();
    const long long begin = clock64();
    for (unsigned int s = 0; s < steps; ++s) {
        at = links[at];
    }
    walk->middle = arrived;
    arrived = at;
    __syncthreads();
    walk->cycles = clock64() - begin;
    walk->end = at;
    // end snippet
}

// Each thread's part of the sum of `reads` float4s, of which number i lies at
// x[i % count]. Four loads are on their way at a time. __ldcg goes past the L1.
// Memory: a warp reads 512 neighbouring bytes, but where x begins anew.
// Launch assumption: any.
__global__ void sweep(const float4 *__restrict__ x, float *__restrict__ part,
                      unsigned int count, size_t reads)
{
    const unsigned int threads = gridDim.x * blockDim.x;
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    // snippet: sweep
    const unsigned int step = threads % count;
    unsigned int at = thread % count;
    float total = 0.0f;
#pragma unroll 4
    for (size_t i = thread; i < reads; i += threads) {
        const float4 v = __ldcg(&x[at]);
        total += (v.x + v.y) + (v.z + v.w);
        at += step;
        at = at < count ? at : at - count;
    }
    // end snippet
    part[thread] = total;
}

// x[i] = i % kPeriod.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: any.
__global__ void fillPeriodic(float *__restrict__ x, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        x[i] = static_cast<float>(i % kPeriod);
    }
}

// --- CPU reference ----------------------------------------------------------

// A chain that visits each of `lines` lines once before it is back at the
// first: Sattolo's shuffle, which makes one single cycle.
// snippet: chain
static std::vector<unsigned int> chainOf(unsigned int lines)
{
    std::vector<unsigned int> next(lines);
    for (unsigned int i = 0; i < lines; ++i) {
        next[i] = i;
    }
    unsigned long long state = 88172645463325252ull;
    for (unsigned int i = lines - 1; i > 0; --i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::swap(next[i], next[state % i]);  // never with itself
    }
    return next;
}
// end snippet

static unsigned int walkOnCpu(const std::vector<unsigned int> &next,
                              unsigned int at, unsigned int steps)
{
    for (unsigned int s = 0; s < steps; ++s) {
        at = next[at];
    }
    return at;
}

// The sum of the first `count` floats of the sweep's array.
static double sumOfPeriodic(size_t count)
{
    const size_t laps = count / kPeriod;
    const size_t rest = count % kPeriod;
    const size_t perLap = size_t{kPeriod} * (kPeriod - 1) / 2;
    return static_cast<double>(laps * perLap + rest * (rest - 1) / 2);
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    size_t bytes = 0;
    double got = 0.0;
    double want = 0.0;
};

// --- Buffers ----------------------------------------------------------------

struct Buffers {
    size_t bytes = 0;         // of the two large ones
    unsigned int blocks = 0;  // that fill the GPU with threads
    unsigned int *d_links = nullptr;
    float *d_x = nullptr;  // what the sweep reads; overwriting it flushes
    unsigned int *d_next = nullptr;
    unsigned int *d_sink = nullptr;
    float *d_part = nullptr;
    Walk *d_walk = nullptr;
};

static void allocate(size_t bytes, const cudaDeviceProp &device, Buffers *b)
{
    b->bytes = bytes;
    b->blocks =
        static_cast<unsigned int>(device.multiProcessorCount *
                                  device.maxThreadsPerMultiProcessor) /
        kThreads;
    CUDA_CHECK(cudaMalloc(&b->d_links, bytes));
    CUDA_CHECK(cudaMalloc(&b->d_x, bytes));
    CUDA_CHECK(cudaMalloc(&b->d_next, bytes / kLine * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&b->d_sink, sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&b->d_part, b->blocks * kThreads * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_walk, sizeof(Walk)));
    CUDA_CHECK(cudaMemset(b->d_sink, 0, sizeof(unsigned int)));
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_links));
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_next));
    CUDA_CHECK(cudaFree(b.d_sink));
    CUDA_CHECK(cudaFree(b.d_part));
    CUDA_CHECK(cudaFree(b.d_walk));
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats samples, milliseconds or cycles.
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

// --- The chase --------------------------------------------------------------

// The first cells of a row: its working set in bytes, and in larger units.
static void printSet(size_t bytes)
{
    const bool large = bytes >= kMiB;
    std::printf("  W = %-9zu  %4zu %s", bytes, bytes / (large ? kMiB : kKiB),
                large ? "MiB" : "KiB");
}

static Walk walkOnGpu(unsigned int before, unsigned int steps,
                      const Buffers &b)
{
    Walk walk = {};
    CUDA_CHECK(cudaMemset(b.d_walk, 0xff, sizeof(walk)));
    chase<<<1, 1>>>(b.d_links, kStart, before, steps, b.d_walk);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&walk, b.d_walk, sizeof(walk),
                          cudaMemcpyDeviceToHost));
    return walk;
}

static void judgeWalk(const Walk &walk, size_t bytes, unsigned int middle,
                      unsigned int end, Failure *failure)
{
    if (failure->what != nullptr) {
        return;
    }
    if (walk.middle != middle * kWords) {
        *failure = {"the walk before the clock", bytes,
                    static_cast<double>(walk.middle),
                    static_cast<double>(middle * kWords)};
    } else if (walk.end != end * kWords) {
        *failure = {"the timed walk", bytes, static_cast<double>(walk.end),
                    static_cast<double>(end * kWords)};
    } else if (walk.cycles <= 0) {
        *failure = {"the clock", bytes, static_cast<double>(walk.cycles), 1.0};
    }
}

static void runChase(size_t bytes, const Buffers &b, Failure *failure)
{
    const unsigned int lines = static_cast<unsigned int>(bytes / kLine);
    const unsigned int steps = std::min(lines, kSteps);
    const std::vector<unsigned int> next = chainOf(lines);
    const unsigned int middle = walkOnCpu(next, kStart, steps);
    const unsigned int end = walkOnCpu(next, middle, steps);
    if (walkOnCpu(next, kStart, lines) != kStart || (lines > kSteps &&
                                                     middle == kStart)) {
        *failure = {"the chain is not one lap", bytes,
                    static_cast<double>(middle), kStart};
        return;
    }
    CUDA_CHECK(cudaMemcpy(b.d_next, next.data(), lines * sizeof(next[0]),
                          cudaMemcpyHostToDevice));
    // A link that is not placed leads out of all memory, not on from where an
    // earlier chain has left one.
    CUDA_CHECK(cudaMemset(b.d_links, 0xff, bytes));
    placeLinks<<<b.blocks, kThreads>>>(b.d_next, b.d_links, lines);
    CUDA_CHECK(cudaGetLastError());

    std::vector<double> cold;
    std::vector<double> warm;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        // snippet: cold-and-warm
        CUDA_CHECK(cudaMemset(b.d_x, repeat, b.bytes));  // flushes the L2
        const Walk first = walkOnGpu(0, steps, b);

        touch<<<b.blocks, kThreads>>>(b.d_links, lines, b.d_sink);
        CUDA_CHECK(cudaGetLastError());
        const Walk second = walkOnGpu(steps, steps, b);
        // end snippet
        judgeWalk(first, bytes, kStart, middle, failure);
        judgeWalk(second, bytes, middle, end, failure);
        cold.push_back(static_cast<double>(first.cycles) / steps);
        warm.push_back(static_cast<double>(second.cycles) / steps);
    }
    const Spread colds = spreadOf(cold);
    const Spread warms = spreadOf(warm);
    printSet(bytes);
    std::printf("  %9u  %13.1f  %17.1f  %17.1f  %13.1f  %17.1f  %17.1f\n",
                lines, warms.median, warms.least, warms.most, colds.median,
                colds.least, colds.most);
}

// --- The sweep --------------------------------------------------------------

static void runSweep(size_t bytes, size_t atLeast, const Buffers &b,
                     Failure *failure)
{
    const unsigned int count =
        static_cast<unsigned int>(bytes / sizeof(float4));
    const size_t laps = std::max(atLeast / bytes, size_t{2});
    const size_t reads = laps * count;
    const size_t threads = size_t{b.blocks} * kThreads;
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> times;
    for (int repeat = -kWarmups; repeat < kSweepRepeats; ++repeat) {
        float ms = 0.0f;
        CUDA_CHECK(cudaMemset(b.d_part, 0xff, threads * sizeof(float)));
        CUDA_CHECK(cudaEventRecord(start));
        sweep<<<b.blocks, kThreads>>>(
            reinterpret_cast<const float4 *>(b.d_x), b.d_part, count, reads);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        if (repeat >= 0) {
            times.push_back(static_cast<double>(ms));
        }
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));

    std::vector<float> part(threads);
    CUDA_CHECK(cudaMemcpy(part.data(), b.d_part, threads * sizeof(float),
                          cudaMemcpyDeviceToHost));
    double sum = 0.0;
    for (const float value : part) {
        sum += static_cast<double>(value);
    }
    const double want =
        static_cast<double>(laps) * sumOfPeriodic(size_t{count} * 4);
    if (!(sum == want) && failure->what == nullptr) {
        *failure = {"the sweep's sum", bytes, sum, want};
    }
    const Spread spread = spreadOf(times);
    const double read = static_cast<double>(reads * sizeof(float4));
    printSet(bytes);
    std::printf("  %5zu  %12.0f  %9.4f  %9.4f  %9.4f  %11.1f\n", laps, read,
                spread.median, spread.least, spread.most,
                read / (spread.median * 1e-3) / kGiga);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: ladder [--quick]\n"
                             "  --quick  one small working set each\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors        %d\n", device.multiProcessorCount);
    std::printf("  line                   %zu B\n", kLine);
    std::printf("  L2 cache               %.1f MiB\n",
                static_cast<double>(device.l2CacheSize) /
                    static_cast<double>(kMiB));
    std::printf("  lines of the L2        %zu\n",
                static_cast<size_t>(device.l2CacheSize) / kLine);
    std::printf("  shared memory, most    %zu B   (of a multiprocessor; it "
                "shares with the L1)\n",
                device.sharedMemPerMultiprocessor);

    Buffers b;
    Failure failure;
    int passed = 0;
    allocate(quick ? kQuick : kMost, device, &b);

    std::printf("\nchase: one thread, cycles per load; cold, and warm\n");
    std::printf("  steps     %u   (or a lap, where that is less)\n", kSteps);
    std::printf("  repeats   %d   (the median of these)\n\n", kRepeats);
    std::printf("  %-13s  %8s  %9s  %13s  %17s  %17s  %13s  %17s  %17s\n",
                "working set", "size", "lines", "warm (cycles)",
                "warm min (cycles)", "warm max (cycles)", "cold (cycles)",
                "cold min (cycles)", "cold max (cycles)");
    for (const size_t bytes : kChases) {
        if (failure.what == nullptr && (!quick || bytes == kQuick)) {
            runChase(bytes, b, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }

    fillPeriodic<<<b.blocks, kThreads>>>(b.d_x, b.bytes / sizeof(float));
    CUDA_CHECK(cudaGetLastError());
    std::printf("\nsweep: all threads, events around one launch of many "
                "laps\n");
    std::printf("  repeats   %d   (the median of these)\n\n", kSweepRepeats);
    std::printf("  %-13s  %8s  %5s  %12s  %9s  %9s  %9s  %11s\n",
                "working set", "size", "laps", "read (B)", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)");
    if (quick && failure.what == nullptr) {
        runSweep(kQuick, kQuickBytes, b, &failure);
        passed += failure.what == nullptr ? 1 : 0;
    }
    for (const size_t bytes : kSweeps) {
        if (failure.what == nullptr && !quick) {
            runSweep(bytes, kSweepBytes, b, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }
    release(b);

    if (failure.what != nullptr) {
        std::fprintf(stderr, "W = %zu: %s: %.0f, not %.0f\n", failure.bytes,
                     failure.what, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
