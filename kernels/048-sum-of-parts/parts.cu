// SPDX-License-Identifier: MIT
//
// Day 48: three kernels timed in three loops are not one path timed once.
//
// The path takes a signal through three kernels and two buffers between them:
// scale (u from x), smooth (v from u, three neighbours), limit (y from v). Each
// reads one array and writes one, so each moves the same number of bytes.
//
// The region is the path as it is used: scale, smooth, limit, scale, smooth,
// limit and so on, timed as one thing and divided by the number of rounds.
//
// Alone is how breakdowns are often made: each kernel in a loop of its own. A
// loop of scale touches x and u and nothing else, so it finds both in the L2
// if the two fit there. In the path four arrays take turns.
//
// In place is the other way: an event before, between and after the three
// kernels of one round. Each finds the caches as it does in the path, but the
// events are there too.
//
// Predicted before the first run, for the sum of the three against the region:
//   64 Ki floats    alone within a tenth; in place several times as long
//   where two arrays fit into the L2 and four do not
//                   alone at most two thirds; in place within a tenth
//   16 Mi floats    both within a twentieth
//
// y is judged by double precision on the CPU, at every size that is timed and
// at a ragged one, with day 66's rule for a sum of three products. The file
// exists to compare the sum of parts with the region; what the empty kernel
// takes stands beside it.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o parts parts.cu
// Run: ./parts

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

constexpr float kOffset = 0.25f;
constexpr float kGain = 1.5f;
// No two weights alike, or left and right could be swapped unseen.
constexpr float kLeft = 0.2f;
constexpr float kMiddle = 0.5f;
constexpr float kRight = 0.3f;

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t n;           // floats in each of the four arrays
    bool timed;         // else for correctness only
    int shortLaunches;  // lengths of the two timed graphs, in rounds
    int longLaunches;
};

// The ragged one first. Then from 256 KiB per array, all four in any L2, to
// 64 MiB, where none is, with closer steps where an H200's L2 ends.
constexpr Size kSizes[] = {
    {1003, false, 0, 0},           {65536, true, 10, 110},
    {524288, true, 10, 110},       {1048576, true, 10, 60},
    {2097152, true, 10, 60},       {3145728, true, 5, 45},
    {4194304, true, 5, 35},        {6291456, true, 4, 24},
    {8388608, true, 2, 12},        {16777216, true, 1, 6},
};
constexpr size_t kMaxN = 16777216;
constexpr size_t kQuickN = 1003;

// Periods are primes: no stretch of the input comes twice.
constexpr size_t kPeriod = 65537;
constexpr size_t kStep = 27449;  // neighbours are far apart
constexpr size_t kSlowPeriod = 199;
constexpr size_t kStretch = 4096;

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr size_t kDepth = 3;               // products in one sum

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmups = 2;       // replays of each graph before the first
constexpr int kEmptyShort = 100;  // the empty kernel is all jitter, so its
constexpr int kEmptyLong = 1100;  // graphs are long

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kThreads % kWarp == 0, "a block is whole warps");
static_assert(kSizes[0].n % kWarp != 0, "the first size is ragged");

// --- Kernels ----------------------------------------------------------------

// u = kGain * (x - kOffset).
// Memory: a warp reads and writes 32 neighbouring floats.
// Launch assumption: at least n threads; any n.
// snippet: kernels
__global__ void scale(const float *__restrict__ x, float *__restrict__ u,
                      size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        u[i] = kGain * (x[i] - kOffset);
    }
}

// v = a weighted mean of u and its two neighbours; at the ends an element is
// its own neighbour.
// Memory: as scale, and the neighbours' floats again, out of the L1.
// Launch assumption: as scale.
__global__ void smooth(const float *__restrict__ u, float *__restrict__ v,
                       size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        const float left = u[i > 0 ? i - 1 : i];
        const float right = u[i + 1 < n ? i + 1 : i];
        v[i] = kLeft * left + kMiddle * u[i] + kRight * right;
    }
}

// y = v / (1 + |v|), which lies between -1 and 1.
// Memory: as scale.
// Launch assumption: as scale.
__global__ void limit(const float *__restrict__ v, float *__restrict__ y,
                      size_t n)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = v[i] / (1.0f + fabsf(v[i]));
    }
}
// end snippet

// Nothing: what a launch inside a graph costs by itself.
__global__ void emptyKernel()
{
}

// --- CPU reference ----------------------------------------------------------

static double scaled(const std::vector<float> &x, size_t i)
{
    return static_cast<double>(kGain) *
           (static_cast<double>(x[i]) - static_cast<double>(kOffset));
}

static double referenceAt(const std::vector<float> &x, size_t i)
{
    const size_t last = x.size() - 1;
    const double v =
        static_cast<double>(kLeft) * scaled(x, i == 0 ? 0 : i - 1) +
        static_cast<double>(kMiddle) * scaled(x, i) +
        static_cast<double>(kRight) * scaled(x, i == last ? last : i + 1);
    return v / (1.0 + std::fabs(v));
}

// --- Inputs -----------------------------------------------------------------

static float inputAt(size_t i)
{
    const float place = static_cast<float>(i * kStep % kPeriod) /
                        static_cast<float>(kPeriod);
    const float amplitude =
        1.0f + static_cast<float>(i / kStretch * 37 % kSlowPeriod) / 512.0f;
    return 4.0f * amplitude * (place - 0.503f);
}

// --- Tolerance and error metrics --------------------------------------------

// Day 66's rule, for an output that is a sum of `depth` products.
static double rtolFor(size_t depth)
{
    return std::max(kTableRtol,
                    4.0 * kUlp * std::sqrt(static_cast<double>(depth)));
}

// The share of its allowance that an error uses up; above 1 is a failure. A
// NaN would lose every comparison, so what is not finite counts as infinite.
static double gateFraction(double got, double want, double rtol, double atol)
{
    if (!std::isfinite(got) || !std::isfinite(want)) {
        return HUGE_VAL;
    }
    return std::fabs(got - want) / (atol + rtol * std::fabs(want));
}

struct Gate {
    double rtol = 0.0;
    double atol = 0.0;
};

struct Worst {
    double error = 0.0;
    double frac = 0.0;
    size_t index = 0;  // of the worst fraction
    double got = 0.0;
    double want = 0.0;
};

static void judge(double got, double want, size_t index, const Gate &gate,
                  Worst *worst)
{
    const double frac = gateFraction(got, want, gate.rtol, gate.atol);
    const double error =
        frac == HUGE_VAL ? HUGE_VAL : std::fabs(got - want);
    worst->error = std::max(worst->error, error);
    if (!(frac <= worst->frac)) {
        worst->frac = frac;
        worst->index = index;
        worst->got = got;
        worst->want = want;
    }
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    size_t n = 0;
    Worst worst;
};

// --- Launches ---------------------------------------------------------------

struct Buffers {
    float *d_x = nullptr;
    float *d_u = nullptr;
    float *d_v = nullptr;
    float *d_y = nullptr;
};

static void allocate(size_t n, Buffers *b)
{
    CUDA_CHECK(cudaMalloc(&b->d_x, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_u, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_v, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_y, n * sizeof(float)));
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_u));
    CUDA_CHECK(cudaFree(b.d_v));
    CUDA_CHECK(cudaFree(b.d_y));
}

enum Part { kRegion, kScale, kSmooth, kLimit, kPartCount, kEmpty };

// snippet: launch
static void launch(Part part, size_t n, const Buffers &b, cudaStream_t stream)
{
    const unsigned int blocks =
        static_cast<unsigned int>((n + kThreads - 1) / kThreads);
    if (part == kRegion || part == kScale) {
        scale<<<blocks, kThreads, 0, stream>>>(b.d_x, b.d_u, n);
    }
    if (part == kRegion || part == kSmooth) {
        smooth<<<blocks, kThreads, 0, stream>>>(b.d_u, b.d_v, n);
    }
    if (part == kRegion || part == kLimit) {
        limit<<<blocks, kThreads, 0, stream>>>(b.d_v, b.d_y, n);
    }
    if (part == kEmpty) {
        emptyKernel<<<1, kWarp, 0, stream>>>();
    }
    CUDA_CHECK(cudaGetLastError());
}
// end snippet

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats samples, milliseconds per launch.
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

static cudaGraphExec_t graphOf(Part part, int launches, size_t n,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(part, n, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times `count` parts beside each other. A part's time is the slope between a
// short and a long graph of launches, so what a replay and its events cost
// cancels out; a launch follows the one before it and finds the caches as that
// one left them. The parts take turns, forwards and backwards, so that a
// drifting clock meets all of them.
static void timeParts(const Part *parts, size_t count, int shortLaunches,
                      int longLaunches, size_t n, const Buffers &b,
                      cudaStream_t stream, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto replayMs = [&](cudaGraphExec_t exec) {
        float ms = 0.0f;
        CUDA_CHECK(cudaEventRecord(start, stream));
        CUDA_CHECK(cudaGraphLaunch(exec, stream));
        CUDA_CHECK(cudaEventRecord(stop, stream));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms);
    };

    std::vector<cudaGraphExec_t> shortGraphs;
    std::vector<cudaGraphExec_t> longGraphs;
    for (size_t i = 0; i < count; ++i) {
        launch(parts[i], n, b, stream);  // loaded before it is captured
        CUDA_CHECK(cudaStreamSynchronize(stream));
        shortGraphs.push_back(graphOf(parts[i], shortLaunches, n, b, stream));
        longGraphs.push_back(graphOf(parts[i], longLaunches, n, b, stream));
        for (int w = 0; w < kWarmups; ++w) {
            replayMs(shortGraphs[i]);
            replayMs(longGraphs[i]);
        }
    }

    std::vector<std::vector<double>> slopes(count);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (size_t turn = 0; turn < count; ++turn) {
            const size_t i = repeat % 2 == 0 ? turn : count - 1 - turn;
            const double msShort = replayMs(shortGraphs[i]);
            const double msLong = replayMs(longGraphs[i]);
            slopes[i].push_back((msLong - msShort) /
                                (longLaunches - shortLaunches));
        }
    }

    for (size_t i = 0; i < count; ++i) {
        spreads[i] = spreadOf(slopes[i]);
        CUDA_CHECK(cudaGraphExecDestroy(shortGraphs[i]));
        CUDA_CHECK(cudaGraphExecDestroy(longGraphs[i]));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

constexpr Part kParts[] = {kScale, kSmooth, kLimit};

// The three kernels of a round between four events, the round before it as its
// warm-up. Nothing is launched in a loop of its own.
static void timeInPlace(size_t n, const Buffers &b, cudaStream_t stream,
                        Spread *spreads)
{
    cudaEvent_t events[4] = {};
    for (cudaEvent_t &event : events) {
        CUDA_CHECK(cudaEventCreate(&event));
    }
    std::vector<std::vector<double>> samples(3);
    for (int repeat = -kWarmups; repeat < kRepeats; ++repeat) {
        // snippet: in-place
        launch(kRegion, n, b, stream);
        CUDA_CHECK(cudaEventRecord(events[0], stream));
        launch(kScale, n, b, stream);
        CUDA_CHECK(cudaEventRecord(events[1], stream));
        launch(kSmooth, n, b, stream);
        CUDA_CHECK(cudaEventRecord(events[2], stream));
        launch(kLimit, n, b, stream);
        CUDA_CHECK(cudaEventRecord(events[3], stream));
        // end snippet
        CUDA_CHECK(cudaEventSynchronize(events[3]));
        for (size_t i = 0; i < 3 && repeat >= 0; ++i) {
            float ms = 0.0f;
            CUDA_CHECK(cudaEventElapsedTime(&ms, events[i], events[i + 1]));
            samples[i].push_back(static_cast<double>(ms));
        }
    }
    for (size_t i = 0; i < 3; ++i) {
        spreads[i] = spreadOf(samples[i]);
    }
    for (const cudaEvent_t event : events) {
        CUDA_CHECK(cudaEventDestroy(event));
    }
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
    printKernel("scale", reinterpret_cast<const void *>(scale), kThreads,
                device);
    printKernel("smooth", reinterpret_cast<const void *>(smooth), kThreads,
                device);
    printKernel("limit", reinterpret_cast<const void *>(limit), kThreads,
                device);
}

// --- One case ---------------------------------------------------------------

static void printSpread(const char *name, const Spread &spread)
{
    std::printf("  %-15s  %9.5f  %9.5f  %9.5f\n", name, spread.median,
                spread.least, spread.most);
}

static void timeCase(const Size &size, const Buffers &b, cudaStream_t stream)
{
    const Part parts[] = {kRegion, kScale, kSmooth, kLimit};
    Spread alone[kPartCount];
    Spread inPlace[3];
    timeParts(parts, kPartCount, size.shortLaunches, size.longLaunches,
              size.n, b, stream, alone);
    timeInPlace(size.n, b, stream, inPlace);

    double sumAlone = 0.0;
    double sumInPlace = 0.0;
    for (size_t i = 0; i < 3; ++i) {
        sumAlone += alone[kParts[i]].median;
        sumInPlace += inPlace[i].median;
    }
    const double region = alone[kRegion].median;
    std::printf("\n  %-15s  %9s  %9s  %9s\n", "path", "time (ms)", "min (ms)",
                "max (ms)");
    printSpread("region", alone[kRegion]);
    printSpread("scale alone", alone[kScale]);
    printSpread("smooth alone", alone[kSmooth]);
    printSpread("limit alone", alone[kLimit]);
    printSpread("scale in place", inPlace[0]);
    printSpread("smooth in place", inPlace[1]);
    printSpread("limit in place", inPlace[2]);
    std::printf("\n  sum alone              %.5f ms\n", sumAlone);
    std::printf("  sum in place           %.5f ms\n", sumInPlace);
    std::printf("  alone over region      %.3fx\n", sumAlone / region);
    std::printf("  in place over region   %.3fx\n", sumInPlace / region);
    std::printf("  rate of the region     %.1f GB/s\n",
                6.0 * sizeof(float) * static_cast<double>(size.n) /
                    (region * 1e-3) / kGiga);
}

// Sends one input down the path, judges y, and times if it is right.
static void runCase(const Size &size, bool timing, const Buffers &b,
                    cudaStream_t stream, Failure *failure)
{
    const size_t n = size.n;
    const size_t bytes = n * sizeof(float);
    std::vector<float> h_x(n);
    std::vector<float> h_y(n);
    for (size_t i = 0; i < n; ++i) {
        h_x[i] = inputAt(i);
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, h_x.data(), bytes, cudaMemcpyHostToDevice));
    // Every byte 0xff is a NaN in every element: what a kernel does not write
    // cannot pass, and neither can what an earlier case left behind.
    CUDA_CHECK(cudaMemset(b.d_u, 0xff, bytes));
    CUDA_CHECK(cudaMemset(b.d_v, 0xff, bytes));
    CUDA_CHECK(cudaMemset(b.d_y, 0xff, bytes));
    launch(kRegion, n, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(h_y.data(), b.d_y, bytes, cudaMemcpyDeviceToHost));

    // |y| stays below 1, and its largest value is close to it.
    const Gate gate = {rtolFor(kDepth), rtolFor(kDepth)};
    Worst worst;
    Worst zeros;
    for (size_t i = 0; i < n; ++i) {
        const double want = referenceAt(h_x, i);
        judge(h_y[i], want, i, gate, &worst);
        judge(0.0, want, i, gate, &zeros);
    }
    std::printf("\ncase n = %zu: one path of three kernels\n", n);
    std::printf("  array                 %.2f MiB   (each of four)\n",
                static_cast<double>(bytes) / kMiB);
    std::printf("  touched by one loop   %.2f MiB   (counted: two arrays)\n",
                2.0 * static_cast<double>(bytes) / kMiB);
    std::printf("  touched by the path   %.2f MiB   (counted: four arrays)\n",
                4.0 * static_cast<double>(bytes) / kMiB);
    std::printf("  moved by the path     %zu B   (counted: six passes)\n",
                6 * bytes);
    std::printf("  max abs err           %.3e\n", worst.error);
    std::printf("  gate frac             %.4f\n", worst.frac);
    std::printf("  zeros, gate frac      %.1f\n", zeros.frac);

    // Written so that a fraction that is not a number fails as well.
    if (!(worst.frac <= 1.0)) {
        *failure = {"y", n, worst};
    } else if (timing && size.timed) {
        timeCase(size, b, stream);
    }
}

static void timeEmptyKernel(const Buffers &b, cudaStream_t stream)
{
    const Part part = kEmpty;
    Spread spread;
    timeParts(&part, 1, kEmptyShort, kEmptyLong, 0, b, stream, &spread);
    std::printf("\ntiming: region and alone are slopes between a short and a "
                "long graph, in place is events; no cache cleared\n");
    std::printf("  repeats           %d   (time is the median of these)\n",
                kRepeats);
    std::printf("  warm-up replays   %d   (of every graph)\n\n", kWarmups);
    std::printf("  %-15s  %9s  %9s  %9s\n", "launch", "time (ms)", "min (ms)",
                "max (ms)");
    printSpread("emptyKernel", spread);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: parts [--quick]\n"
                             "  --quick  the ragged size, nothing timed\n");
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
    cudaStream_t stream = nullptr;
    int passed = 0;
    CUDA_CHECK(cudaStreamCreate(&stream));
    allocate(quick ? kQuickN : kMaxN, &b);
    if (!quick) {
        timeEmptyKernel(b, stream);
    }
    for (const Size &size : kSizes) {
        if (failure.what == nullptr && (!quick || size.n == kQuickN)) {
            runCase(size, !quick, b, stream, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }
    release(b);
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails at n = %zu: element %zu is %.9g, not %.9g, "
                     "gate fraction %.4g\n",
                     failure.what, failure.n, worst.index, worst.got,
                     worst.want, worst.frac);
        return EXIT_FAILURE;
    }
    if (passed == 0) {
        std::fprintf(stderr, "no case ran\n");
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
