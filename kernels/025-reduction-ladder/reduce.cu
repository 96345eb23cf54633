// SPDX-License-Identifier: MIT
//
// Day 25: the reduction ladder. The sum of n floats, seven times, one idea a
// step. Blocks of 256 threads each leave one partial sum, and the same kernel
// adds those up until one is left:
//
//   modulo      a float per thread; a tree in shared memory whose working
//               threads are those with tid % (2 * step) == 0
//   halves      the tree's working threads are the first ones of the block
//   shuffle     warps add up by shuffles (day 24), one barrier in place of nine
//   strided     as many blocks as the GPU holds, many floats per thread (day 5)
//   vectors     loads of 16 bytes (day 19)
//   in flight   four of those on their way before the first is used
//   one launch  the block that finishes last adds up the parts
//
// A path's time is that of all of its launches. The rate is n floats over that
// time; a sum only reads, so it is held against day 30's read as well as
// against its copy, which reads and writes.
//
// Written down before the run: halves saves a third of modulo, shuffle a third
// of halves, strided brings three quarters of the read rate, vectors and in
// flight the rest; one launch saves 2 us, which only the small size shows.
//
// Two cases. Fractions, all positive, are judged by day 66's rule: the sum has
// n terms, so rtol = max(1e-5, 4 * 2^-23 * sqrt(n)), and the reference is in
// double precision. For 2^28 terms that allows far more than one term, so the
// rule cannot see one that is missing. Whole numbers can: their partial sums
// stay so small that FP32 holds them exactly, and the result has to be equal.
//
// The large size is 2^28 + 3 floats, 1 GiB, so no cache holds it; the small
// one, 2^20 + 3, stays in the L2 from one launch to the next.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o reduce reduce.cu
// Run: ./reduce

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
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr unsigned int kThreads = 256;
constexpr unsigned int kWarps = kThreads / kWarp;
constexpr unsigned int kLoads = 4;  // float4s on their way, path "in flight"

// So few numbers are left to one block, on the paths that loop.
constexpr size_t kOneBlock = 8192;

struct Size {
    size_t n;
    bool quick;         // also under sanitizers
    int shortLaunches;  // lengths of the two timed graphs; 0: not timed
    int longLaunches;
};

// No size is a multiple of a warp. On the paths that loop, 8191 is one block
// and makes it loop; 70001 is several.
constexpr Size kSizes[] = {
    {1, true, 0, 0},         {31, true, 0, 0},
    {33, true, 0, 0},        {255, true, 0, 0},
    {257, true, 0, 0},       {8191, true, 0, 0},
    {70001, true, 0, 0},     {(1 << 20) + 3, false, 20, 120},
    {(1 << 28) + 3, false, 2, 8},
};
constexpr size_t kLargest = (1 << 28) + 3;

// --- Cases ------------------------------------------------------------------

// Element i is entry i % kPeriod of a table. The period is a prime: threads,
// blocks and grids meet every entry.
constexpr size_t kPeriod = 1048573;
constexpr size_t kStep = 27449;
constexpr size_t kWholes = 19;  // whole numbers from -9 to 9

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 11;  // odd: the median is one of the samples
constexpr int kWarmups = 2;   // replays of each graph before the first

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kThreads % kWarp == 0, "warp exchanges need whole warps");
static_assert((kThreads & (kThreads - 1)) == 0, "the trees halve the block");
static_assert(kWarps <= kWarp, "one warp adds up the warps' sums");
static_assert(kLoads == 4, "the loop's sums are written out for four");
static_assert(kLargest / kThreads < (size_t{1} << 31), "blocks fit a grid");

// --- Small helpers ----------------------------------------------------------

__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// The block's sum, in thread 0. Every thread must come.
// snippet: block-sum
__device__ float blockSumFirst(float value)
{
    __shared__ float part[kWarps];
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    value = warpSum(value);
    if (lane == 0) {
        part[warp] = value;
    }
    __syncthreads();  // every warp's sum is there
    if (warp == 0) {
        value = warpSum(lane < kWarps ? part[lane] : 0.0f);
    }
    return value;
}
// end snippet

__device__ float sumOf(float4 v)
{
    return (v.x + v.y) + (v.z + v.w);
}

// What lies behind the last whole float4 is left to the first block.
__device__ float restOf(const float *__restrict__ in, size_t n)
{
    const size_t first = n / 4 * 4;
    return blockIdx.x == 0 && first + threadIdx.x < n ? in[first + threadIdx.x]
                                                      : 0.0f;
}

// --- Kernels ----------------------------------------------------------------

// x[i] = table[i % kPeriod].
// Launch assumption: any.
__global__ void fill(const float *__restrict__ table, float *__restrict__ x,
                     size_t n)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += step) {
        x[i] = table[i % kPeriod];
    }
}

// out[block] = the sum of the block's kThreads floats.
// Memory: a warp reads 32 neighbouring floats. In the tree a warp stays within
// 64 neighbouring floats of shared memory and no two lanes share a bank, but
// half of its lanes idle, then more, and all warps take part up to step 16.
// Launch assumption: kThreads threads, blocks that cover n, any n.
__global__ void sumModulo(const float *__restrict__ in,
                          float *__restrict__ out, size_t n)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + tid;
    // snippet: modulo
    part[tid] = i < n ? in[i] : 0.0f;
    __syncthreads();  // every float is there
    for (unsigned int step = 1; step < kThreads; step *= 2) {
        if (tid % (2 * step) == 0) {
            part[tid] += part[tid + step];
        }
        __syncthreads();  // this step is done
    }
    // end snippet
    if (tid == 0) {
        out[blockIdx.x] = part[0];
    }
}

// The same with the working threads side by side: warps work whole or not at
// all, and what they read lies side by side, too.
// Launch assumption: as sumModulo.
__global__ void sumHalves(const float *__restrict__ in,
                          float *__restrict__ out, size_t n)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + tid;
    part[tid] = i < n ? in[i] : 0.0f;
    __syncthreads();  // every float is there
    // snippet: halves
    for (unsigned int active = kThreads / 2; active > 0; active /= 2) {
        if (tid < active) {
            part[tid] += part[tid + active];
        }
        __syncthreads();  // this half is done
    }
    // end snippet
    if (tid == 0) {
        out[blockIdx.x] = part[0];
    }
}

// The same by shuffles.
// Launch assumption: as sumModulo. No thread leaves early: a barrier follows.
__global__ void sumShuffle(const float *__restrict__ in,
                           float *__restrict__ out, size_t n)
{
    // snippet: shuffle
    const size_t i =
        static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    const float total = blockSumFirst(i < n ? in[i] : 0.0f);
    // end snippet
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}

// out[block] = a share of the sum; the shares make up all of it.
// Memory: a warp reads 32 neighbouring floats and then goes on a grid further.
// Launch assumption: kThreads threads, any grid, any n.
__global__ void sumStrided(const float *__restrict__ in,
                           float *__restrict__ out, size_t n)
{
    // snippet: strided
    const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
    float total = 0.0f;
    for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
         i < n; i += step) {
        total += in[i];
    }
    total = blockSumFirst(total);
    // end snippet
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}

// The same with 16 bytes per load.
// Memory: a warp reads 512 neighbouring bytes.
// Launch assumption: as sumStrided; `in` is 16-byte aligned.
__global__ void sumVectors(const float *__restrict__ in,
                           float *__restrict__ out, size_t n)
{
    // snippet: vectors
    const float4 *in4 = reinterpret_cast<const float4 *>(in);
    const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
    float total = restOf(in, n);
    for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
         i < n / 4; i += step) {
        total += sumOf(in4[i]);
    }
    total = blockSumFirst(total);
    // end snippet
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}

// This thread's share, with kLoads 16-byte loads on their way at a time.
// snippet: in-flight
__device__ float shareOf(const float *__restrict__ in, size_t n)
{
    const float4 *in4 = reinterpret_cast<const float4 *>(in);
    const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
    size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    float total = restOf(in, n);
    for (; i + 3 * step < n / 4; i += kLoads * step) {
        const float4 a = in4[i];
        const float4 b = in4[i + step];
        const float4 c = in4[i + 2 * step];
        const float4 d = in4[i + 3 * step];
        total += (sumOf(a) + sumOf(b)) + (sumOf(c) + sumOf(d));
    }
    for (; i < n / 4; i += step) {
        total += sumOf(in4[i]);
    }
    return total;
}
// end snippet

// As sumVectors, with shareOf's loop.
__global__ void sumInFlight(const float *__restrict__ in,
                            float *__restrict__ out, size_t n)
{
    const float total = blockSumFirst(shareOf(in, n));
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}

// The whole sum in one launch: the block that draws the last ticket adds up
// what all blocks left in `parts`.
// Memory: as sumInFlight. The parts are read past the L1, which may hold an
// older copy of a line that this multiprocessor wrote a neighbour into.
// Launch assumption: as sumVectors; *ticket is 0, and is so again afterwards.
__global__ void sumOneLaunch(const float *__restrict__ in, float *parts,
                             unsigned int *ticket, float *__restrict__ out,
                             size_t n)
{
    __shared__ bool isLast;
    const float share = blockSumFirst(shareOf(in, n));
    // snippet: one-launch
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = share;
        __threadfence();  // the part is there before the ticket is drawn
        isLast = atomicAdd(ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();  // the whole block knows whether it is the last
    if (isLast) {
        float total = 0.0f;
        for (unsigned int p = threadIdx.x; p < gridDim.x; p += kThreads) {
            total += __ldcg(&parts[p]);
        }
        total = blockSumFirst(total);
        if (threadIdx.x == 0) {
            *out = total;
            *ticket = 0;  // for the next launch
        }
    }
    // end snippet
}

// --- Paths ------------------------------------------------------------------

enum Path {
    kModulo,
    kHalves,
    kShuffle,
    kStrided,
    kVectors,
    kInFlight,
    kOneLaunch,
    kPathCount
};

struct PathInfo {
    const char *name;
    void (*kernel)(const float *, float *, size_t);  // but for one launch
};

constexpr PathInfo kPaths[kPathCount] = {
    {"modulo", sumModulo},     {"halves", sumHalves},
    {"shuffle", sumShuffle},   {"strided", sumStrided},
    {"vectors", sumVectors},   {"in flight", sumInFlight},
    {"one launch", nullptr},
};

struct Buffers {
    unsigned int resident[kPathCount] = {};  // blocks that fill the GPU once
    float *d_table = nullptr;
    float *d_x = nullptr;
    float *d_parts[2] = {nullptr, nullptr};  // in turns
    float *d_out = nullptr;
    unsigned int *d_ticket = nullptr;
};

static unsigned int blocksOf(int path, size_t count, const Buffers &b)
{
    const size_t cover = (count + kThreads - 1) / kThreads;
    if (path < kStrided) {
        return static_cast<unsigned int>(cover);
    }
    const size_t most = count <= kOneBlock ? 1 : b.resident[path];
    return static_cast<unsigned int>(std::min(cover, most));
}

// snippet: passes
// Launches a path's kernel on the input, then on its own results, until one
// number is left. Returns the number of launches.
static int launch(int path, size_t n, const Buffers &b, cudaStream_t stream)
{
    const float *from = b.d_x;
    size_t count = n;
    int launches = 0;
    do {
        const unsigned int blocks = blocksOf(path, count, b);
        float *to = blocks == 1 ? b.d_out : b.d_parts[launches % 2];
        if (path == kOneLaunch) {
            sumOneLaunch<<<blocks, kThreads, 0, stream>>>(
                from, b.d_parts[0], b.d_ticket, b.d_out, count);
            count = 1;
        } else {
            kPaths[path].kernel<<<blocks, kThreads, 0, stream>>>(from, to,
                                                                 count);
            count = blocks;
        }
        CUDA_CHECK(cudaGetLastError());
        from = to;
        ++launches;
    } while (count > 1);
    return launches;
}
// end snippet

// --- Inputs and CPU reference -----------------------------------------------

// Fractions are all positive, between 0.25 and 1.25: the error of their sum is
// that of the summation, and not made large by terms that cancel. The table of
// whole numbers has a sum that is small and not 0; they come from cubes, whose
// remainders show no pattern that a stride could meet.
static float entryAt(size_t i, bool whole)
{
    const size_t place = i * kStep % kPeriod;
    const size_t cube = place * place % kPeriod * place % kPeriod;
    return whole ? static_cast<float>(cube % kWholes) - 9.0f
                 : 0.25f + static_cast<float>(place) /
                               static_cast<float>(kPeriod);
}

// The sum of the first n elements; for whole numbers it is exact.
static double referenceOf(const std::vector<float> &h_table, size_t n)
{
    double period = 0.0;
    double rest = 0.0;
    for (size_t i = 0; i < kPeriod; ++i) {
        period += h_table[i];
        rest += i < n % kPeriod ? h_table[i] : 0.0;
    }
    return static_cast<double>(n / kPeriod) * period + rest;
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

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats slopes, milliseconds per launch.
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

static cudaGraphExec_t graphOf(int path, int launches, size_t n,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(path, n, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times all paths beside each other. A path's time is the slope between a
// short and a long graph of it, so what a replay and its events cost cancels
// out. The paths take turns, forwards and backwards, so that a drifting clock
// meets all of them.
static void timePaths(const Size &size, const Buffers &b, cudaStream_t stream,
                      Spread *spreads)
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

    cudaGraphExec_t shortGraphs[kPathCount] = {};
    cudaGraphExec_t longGraphs[kPathCount] = {};
    for (int path = 0; path < kPathCount; ++path) {
        shortGraphs[path] =
            graphOf(path, size.shortLaunches, size.n, b, stream);
        longGraphs[path] = graphOf(path, size.longLaunches, size.n, b, stream);
        for (int w = 0; w < kWarmups; ++w) {
            replayMs(shortGraphs[path]);
            replayMs(longGraphs[path]);
        }
    }
    std::vector<std::vector<double>> slopes(kPathCount);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = repeat % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double msShort = replayMs(shortGraphs[path]);
            const double msLong = replayMs(longGraphs[path]);
            slopes[static_cast<size_t>(path)].push_back(
                (msLong - msShort) / (size.longLaunches - size.shortLaunches));
        }
    }
    for (int path = 0; path < kPathCount; ++path) {
        spreads[path] = spreadOf(slopes[static_cast<size_t>(path)]);
        CUDA_CHECK(cudaGraphExecDestroy(shortGraphs[path]));
        CUDA_CHECK(cudaGraphExecDestroy(longGraphs[path]));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics ------------------------------------------------------

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

static const void *kernelOf(int path)
{
    return path == kOneLaunch
               ? reinterpret_cast<const void *>(sumOneLaunch)
               : reinterpret_cast<const void *>(kPaths[path].kernel);
}

static void printKernels(const cudaDeviceProp &device)
{
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    for (int path = 0; path < kPathCount; ++path) {
        printKernel(kPaths[path].name, kernelOf(path), kThreads, device);
    }
}

// --- Judging ----------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *path = nullptr;
    size_t n = 0;
    Worst worst;
};

// Runs every path once, over a result and parts that are NaN, and judges it.
// Prints gate fractions, or, for whole numbers, how far the sums are off.
static void judgeSize(const Size &size, bool whole,
                      const std::vector<float> &h_table, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    const double want = referenceOf(h_table, size.n);
    const double rtol = rtolFor(size.n);
    const Gate gate = {rtol, rtol * std::fabs(want)};
    fill<<<b.resident[kStrided], kThreads, 0, stream>>>(b.d_table, b.d_x,
                                                        size.n);
    CUDA_CHECK(cudaGetLastError());
    std::printf("  n = %-9zu", size.n);
    for (int path = 0; path < kPathCount; ++path) {
        float got = NAN;
        for (float *d_parts : b.d_parts) {
            const size_t parts = blocksOf(path, size.n, b);
            CUDA_CHECK(cudaMemsetAsync(d_parts, 0xff, parts * sizeof(float),
                                       stream));
        }
        CUDA_CHECK(cudaMemsetAsync(b.d_out, 0xff, sizeof(float), stream));
        launch(path, size.n, b, stream);
        CUDA_CHECK(cudaMemcpyAsync(&got, b.d_out, sizeof(got),
                                   cudaMemcpyDeviceToHost, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        Worst worst;
        judge(got, want, 0, gate, &worst);
        const bool exact = static_cast<double>(got) == want;
        if (whole) {
            std::printf("  %10.0f", worst.error);
        } else {
            std::printf("  %10.5f", worst.frac);
        }
        // Written so that a fraction that is not a number fails as well.
        if (!(worst.frac <= 1.0) && failure->what == nullptr) {
            *failure = {"the sum", kPaths[path].name, size.n, worst};
        } else if (whole && !exact && failure->what == nullptr) {
            *failure = {"the sum, to the bit,", kPaths[path].name, size.n,
                        {worst.error, worst.frac, 0, got, want}};
        }
    }
    if (whole) {
        std::printf("  %11.0f\n", want);
    } else {
        Worst zero;
        judge(0.0, want, 0, gate, &zero);
        std::printf("  %9.3e  %10.2f  %10.2e\n", rtol, zero.frac,
                    1.25 / (2.0 * gate.atol));
    }
}

enum class Mode { kFull, kQuick, kOnce };

static bool isJudged(const Size &size, bool whole, Mode mode)
{
    if (mode == Mode::kOnce) {
        return whole && size.n == kLargest;
    }
    return mode == Mode::kFull || size.quick;
}

static int judgeAll(Mode mode, const Buffers &b, cudaStream_t stream,
                    Failure *failure)
{
    int passed = 0;
    std::vector<float> h_table(kPeriod);
    for (const bool whole : {true, false}) {
        for (size_t i = 0; i < kPeriod; ++i) {
            h_table[i] = entryAt(i, whole);
        }
        CUDA_CHECK(cudaMemcpy(b.d_table, h_table.data(),
                              kPeriod * sizeof(float),
                              cudaMemcpyHostToDevice));
        std::printf("\n%s\n",
                    whole ? "whole numbers: distance from the exact sum"
                          : "fractions: gate fractions, and what one term "
                            "more or less would get");
        std::printf("  %-13s", "size");
        for (const PathInfo &path : kPaths) {
            std::printf("  %10s", path.name);
        }
        if (whole) {
            std::printf("  %11s\n", "sum");
        } else {
            std::printf("  %9s  %10s  %10s\n", "rtol", "zeros frac",
                        "term frac");
        }
        for (const Size &size : kSizes) {
            if (isJudged(size, whole, mode) && failure->what == nullptr) {
                judgeSize(size, whole, h_table, b, stream, failure);
                passed += failure->what == nullptr ? 1 : 0;
            }
        }
    }
    return passed;
}

// --- Times ------------------------------------------------------------------

static void timeSize(const Size &size, const cudaDeviceProp &device,
                     const Buffers &b, cudaStream_t stream)
{
    const double bytes = static_cast<double>(size.n * sizeof(float));
    Spread spreads[kPathCount];
    timePaths(size, b, stream, spreads);
    std::printf("\ntime n = %zu: slope between graphs of %d and %d sums\n",
                size.n, size.shortLaunches, size.longLaunches);
    std::printf("  bytes     %.0f B   (floor and ask of the input)\n", bytes);
    std::printf("  over L2   %.3fx\n", bytes / device.l2CacheSize);
    std::printf("  repeats   %d   (time is the median of these slopes)\n\n",
                kRepeats);
    std::printf("  %-10s  %8s  %9s  %9s  %9s  %11s\n", "path", "launches",
                "time (ms)", "min (ms)", "max (ms)", "rate (GB/s)");
    for (int path = 0; path < kPathCount; ++path) {
        const int launches = launch(path, size.n, b, stream);
        std::printf("  %-10s  %8d  %9.5f  %9.5f  %9.5f  %11.1f\n",
                    kPaths[path].name, launches, spreads[path].median,
                    spreads[path].least, spreads[path].most,
                    bytes / (spreads[path].median * 1e-3) / kGiga);
    }
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

// --- Main -------------------------------------------------------------------

static void allocate(Mode mode, const cudaDeviceProp &device, Buffers *b)
{
    for (int path = 0; path < kPathCount; ++path) {
        int blocks = 0;
        CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, kernelOf(path), static_cast<int>(kThreads), 0));
        b->resident[path] =
            static_cast<unsigned int>(blocks * device.multiProcessorCount);
    }
    size_t n = 0;
    for (const Size &size : kSizes) {
        n = mode == Mode::kQuick && !size.quick ? n : std::max(n, size.n);
    }
    const size_t parts = std::max(
        n / kThreads + 1, static_cast<size_t>(b->resident[kOneLaunch]));
    CUDA_CHECK(cudaMalloc(&b->d_table, kPeriod * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_x, n * sizeof(float)));
    for (float *&d_parts : b->d_parts) {
        CUDA_CHECK(cudaMalloc(&d_parts, parts * sizeof(float)));
    }
    CUDA_CHECK(cudaMalloc(&b->d_out, sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_ticket, sizeof(unsigned int)));
    CUDA_CHECK(cudaMemset(b->d_ticket, 0, sizeof(unsigned int)));
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_table));
    CUDA_CHECK(cudaFree(b.d_x));
    for (float *d_parts : b.d_parts) {
        CUDA_CHECK(cudaFree(d_parts));
    }
    CUDA_CHECK(cudaFree(b.d_out));
    CUDA_CHECK(cudaFree(b.d_ticket));
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
                     "usage: reduce [--quick | --once]\n"
                     "  --quick  small sizes, nothing timed\n"
                     "  --once   whole numbers at the largest size, for "
                     "profilers\n");
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
    CUDA_CHECK(cudaStreamCreate(&stream));
    allocate(mode, device, &b);

    const int passed = judgeAll(mode, b, stream, &failure);
    for (const Size &size : kSizes) {
        if (mode == Mode::kFull && failure.what == nullptr &&
            size.shortLaunches > 0) {
            timeSize(size, device, b, stream);
        }
    }

    release(b);
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s of %s fails at n = %zu: it is %.9g, not %.9g, gate "
                     "fraction %.4g\n",
                     failure.what, failure.path, failure.n, failure.worst.got,
                     failure.worst.want, failure.worst.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
