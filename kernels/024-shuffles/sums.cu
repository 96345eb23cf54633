// SPDX-License-Identifier: MIT
//
// Day 24: shuffles against shared memory. sums[r] = the sum of row r of a
// matrix, by five kernels that load alike and differ in how lanes add up.
//
// sumsBlockTree gives a row to a block and halves its parts in shared memory,
// a barrier after each step (day 12). sumsBlockShuffle lets each warp shuffle
// and needs one barrier, for the warps' sums. The others give a row to a warp:
// sumsWarpShared halves in shared memory, with __syncwarp for a barrier;
// sumsWarpXor and sumsWarpDown shuffle.
//
// Written down before the run: for rows of 256 floats the block's shuffles
// halve the time of the block's tree, and a warp's shuffles save a third of
// the time that a warp takes through shared memory. Xor and down are equal.
//
// Sums are judged in double precision on the CPU. A row has n terms, so day
// 66's rule says rtol = max(1e-5, 4 * 2^-23 * sqrt(n)); whole numbers have to
// be equal to the bit, which finds a term that is missing. Behind the sums
// lies a canary (day 2). What is timed fits into the L2.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o sums sums.cu
// Run: ./sums

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

// Below, at and above a warp and a block; one column alone; rows that leave
// the last block with warps to spare.
struct Size {
    size_t rows;
    size_t cols;
    bool timed;
};

constexpr Size kSizes[] = {
    {37, 1, false},    {37, 31, false},  {37, 32, false},
    {37, 33, false},   {37, 255, false}, {37, 257, false},
    {37, 1000, false}, {131072, 32, true}, {16384, 256, true},
};

constexpr size_t kCanary = kThreads;  // floats behind the sums
constexpr int kCanaryByte = 0xa5;
constexpr unsigned int kCanaryBits = 0xa5a5a5a5u;  // a float of four of them

// --- Cases ------------------------------------------------------------------

// Elements step through 0 .. kPeriod - 1. The period is a prime larger than
// the number of rows, so that no two rows are alike.
constexpr size_t kPeriod = 1048573;
constexpr size_t kStep = 27449;
constexpr size_t kWholes = 2003;  // different whole numbers

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 21;       // odd: the median is one of the samples
constexpr int kWarmups = 2;        // replays of each graph before the first
constexpr int kShortLaunches = 20; // lengths of the two timed graphs
constexpr int kLongLaunches = 120;

constexpr double kMiB = 1024.0 * 1024.0;

static_assert(kThreads % kWarp == 0, "warp exchanges need whole warps");
static_assert((kThreads & (kThreads - 1)) == 0, "the tree halves the block");
static_assert(kWarps <= kWarp, "one warp adds up the warps' sums");
static_assert(kWholes * 1000 < (1 << 24), "whole sums are exact in FP32");

// --- Small helpers ----------------------------------------------------------

// snippet: xor
__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}
// end snippet

// The warp's sum in lane 0. The other lanes return something else.
// snippet: down
__device__ float warpSumDown(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_down_sync(kFullWarp, value, offset);
    }
    return value;
}
// end snippet

// What `lanes` lanes, beginning with `lane`, add up of one row: every
// lanes-th element. Lanes without an element have 0, and stay.
__device__ float partOfRow(const float *__restrict__ row, size_t cols,
                           unsigned int lane, unsigned int lanes)
{
    float total = 0.0f;
    for (size_t c = lane; c < cols; c += lanes) {
        total += row[c];
    }
    return total;
}

// --- Kernels ----------------------------------------------------------------

// sums[row] = the sum of a row, a block per row.
// Memory: a warp reads 32 neighbouring floats; the block's parts are halved in
// shared memory, neighbouring threads at neighbouring floats, no conflict.
// Launch assumption: kThreads threads, one block per row, any cols. No thread
// leaves early: barriers follow.
__global__ void sumsBlockTree(const float *__restrict__ x,
                              float *__restrict__ sums, size_t rows,
                              size_t cols)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t row = blockIdx.x;
    const float total = partOfRow(x + row * cols, cols, tid, kThreads);
    // snippet: block-tree
    part[tid] = total;
    __syncthreads();  // every thread's part is there
    for (unsigned int active = kThreads / 2; active > 0; active /= 2) {
        if (tid < active) {
            part[tid] += part[tid + active];
        }
        __syncthreads();  // this half is done
    }
    // end snippet
    if (tid == 0 && row < rows) {
        sums[row] = part[0];
    }
}

// The same with shuffles: within each warp, then among the warps' sums.
// Memory: as sumsBlockTree, and one float of shared memory per warp.
// Launch assumption: as sumsBlockTree.
__global__ void sumsBlockShuffle(const float *__restrict__ x,
                                 float *__restrict__ sums, size_t rows,
                                 size_t cols)
{
    __shared__ float part[kWarps];
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    const size_t row = blockIdx.x;
    float total = partOfRow(x + row * cols, cols, threadIdx.x, kThreads);
    // snippet: block-shuffle
    total = warpSum(total);
    if (lane == 0) {
        part[warp] = total;
    }
    __syncthreads();  // every warp's sum is there
    if (warp == 0) {
        total = warpSum(lane < kWarps ? part[lane] : 0.0f);
    }
    // end snippet
    if (threadIdx.x == 0 && row < rows) {
        sums[row] = total;
    }
}

// The same, a warp per row, halved in shared memory.
// Memory: a warp reads 32 neighbouring floats; its parts lie in 32 banks.
// Launch assumption: kThreads threads, a warp per row, any cols. The guard
// sends whole warps away, never single lanes.
__global__ void sumsWarpShared(const float *__restrict__ x,
                               float *__restrict__ sums, size_t rows,
                               size_t cols)
{
    __shared__ float parts[kWarps][kWarp];
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    const size_t row = static_cast<size_t>(blockIdx.x) * kWarps + warp;
    if (row < rows) {
        float *part = parts[warp];
        const float total = partOfRow(x + row * cols, cols, lane, kWarp);
        // snippet: warp-shared
        part[lane] = total;
        __syncwarp();  // every lane's part is there
        for (unsigned int active = kWarp / 2; active > 0; active /= 2) {
            if (lane < active) {
                part[lane] += part[lane + active];
            }
            __syncwarp();  // this half is done
        }
        // end snippet
        if (lane == 0) {
            sums[row] = part[0];
        }
    }
}

// The same with xor shuffles.
// Memory: as sumsWarpShared, without the shared memory.
// Launch assumption: as sumsWarpShared.
__global__ void sumsWarpXor(const float *__restrict__ x,
                            float *__restrict__ sums, size_t rows,
                            size_t cols)
{
    // snippet: warp-xor
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    const size_t row = static_cast<size_t>(blockIdx.x) * kWarps + warp;
    if (row < rows) {
        float total = partOfRow(x + row * cols, cols, lane, kWarp);
        total = warpSum(total);
        if (lane == 0) {
            sums[row] = total;
        }
    }
    // end snippet
}

// The same with down shuffles.
// Memory and launch assumption: as sumsWarpXor.
__global__ void sumsWarpDown(const float *__restrict__ x,
                             float *__restrict__ sums, size_t rows,
                             size_t cols)
{
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    const size_t row = static_cast<size_t>(blockIdx.x) * kWarps + warp;
    if (row < rows) {
        const float total = partOfRow(x + row * cols, cols, lane, kWarp);
        const float sum = warpSumDown(total);
        if (lane == 0) {
            sums[row] = sum;
        }
    }
}

// --- Paths ------------------------------------------------------------------

enum Path { kBlockTree, kBlockShuffle, kWarpShared, kXor, kDown, kPathCount };

struct PathInfo {
    const char *name;
    void (*kernel)(const float *, float *, size_t, size_t);
    bool warpPerRow;
};

constexpr PathInfo kPaths[kPathCount] = {
    {"block tree", sumsBlockTree, false},
    {"block shuffle", sumsBlockShuffle, false},
    {"warp shared", sumsWarpShared, true},
    {"warp xor", sumsWarpXor, true},
    {"warp down", sumsWarpDown, true},
};

struct Buffers {
    float *d_x = nullptr;
    float *d_sums = nullptr;
};

static void launch(int path, const Size &size, const Buffers &b,
                   cudaStream_t stream)
{
    const size_t blocks = kPaths[path].warpPerRow
                              ? (size.rows + kWarps - 1) / kWarps
                              : size.rows;
    kPaths[path].kernel<<<static_cast<unsigned int>(blocks), kThreads, 0,
                          stream>>>(b.d_x, b.d_sums, size.rows, size.cols);
    CUDA_CHECK(cudaGetLastError());
}

// --- Inputs and CPU reference -----------------------------------------------

// Fractions are all positive: a sum of them is never small because its terms
// cancel, and its error is that of the summation.
static float elementAt(size_t i, bool whole)
{
    const size_t place = i * kStep % kPeriod;
    return whole ? static_cast<float>(place % kWholes) - 600.0f
                 : 0.25f + static_cast<float>(place) /
                               static_cast<float>(kPeriod);
}

static std::vector<double> referenceOf(const std::vector<float> &h_x,
                                       const Size &size)
{
    std::vector<double> sums(size.rows, 0.0);
    for (size_t row = 0; row < size.rows; ++row) {
        for (size_t c = 0; c < size.cols; ++c) {
            sums[row] += h_x[row * size.cols + c];
        }
    }
    return sums;
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
    const char *path = nullptr;
    Size size = {};
    Worst worst;
};

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

static cudaGraphExec_t graphOf(int path, int launches, const Size &size,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(path, size, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times all paths beside each other. A path's time is the slope between a
// short and a long graph of launches, so what a replay and its events cost
// cancels out. The paths take turns, forwards and backwards, so that a
// drifting clock meets all of them.
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
        shortGraphs[path] = graphOf(path, kShortLaunches, size, b, stream);
        longGraphs[path] = graphOf(path, kLongLaunches, size, b, stream);
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
                (msLong - msShort) / (kLongLaunches - kShortLaunches));
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

static void printKernels(const cudaDeviceProp &device)
{
    std::printf("\nkernels: as compiled, local memory per thread\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    for (const PathInfo &path : kPaths) {
        printKernel(path.name, reinterpret_cast<const void *>(path.kernel),
                    kThreads, device);
    }
}

// --- Rows -------------------------------------------------------------------

// Runs one path over results that are all NaN, a canary behind them.
static std::vector<float> sumsOnGpu(int path, const Size &size,
                                    const Buffers &b, cudaStream_t stream)
{
    std::vector<float> h_sums(size.rows + kCanary, NAN);
    CUDA_CHECK(cudaMemset(b.d_sums, 0xff, size.rows * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_sums + size.rows, kCanaryByte,
                          kCanary * sizeof(float)));
    launch(path, size, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(h_sums.data(), b.d_sums,
                          h_sums.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return h_sums;
}

static size_t changedIn(const std::vector<float> &h_sums, size_t rows)
{
    size_t changed = 0;
    for (size_t k = rows; k < h_sums.size(); ++k) {
        unsigned int bits = 0;
        std::memcpy(&bits, &h_sums[k], sizeof(bits));
        changed += bits == kCanaryBits ? 0 : 1;
    }
    return changed;
}

// Judges every path on one matrix; prints the gate fractions, or, for whole
// numbers, how many sums differ at all.
static void judgeRows(const Size &size, bool whole, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    std::vector<float> h_x(size.rows * size.cols);
    for (size_t i = 0; i < h_x.size(); ++i) {
        h_x[i] = elementAt(i, whole);
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, h_x.data(), h_x.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
    const std::vector<double> reference = referenceOf(h_x, size);
    double maxReference = 0.0;
    for (const double value : reference) {
        maxReference = std::max(maxReference, std::fabs(value));
    }
    const double rtol = rtolFor(size.cols);
    const Gate gate = {rtol, rtol * maxReference};

    char label[32];
    std::snprintf(label, sizeof(label), "%zu x %zu", size.rows, size.cols);
    std::printf("  %-12s", label);
    Worst zeros;
    size_t changed = 0;
    for (int path = 0; path < kPathCount; ++path) {
        const std::vector<float> got = sumsOnGpu(path, size, b, stream);
        Worst worst;
        size_t inexact = 0;
        for (size_t row = 0; row < size.rows; ++row) {
            judge(got[row], reference[row], row, gate, &worst);
            judge(0.0, reference[row], row, gate, &zeros);
            inexact += static_cast<double>(got[row]) == reference[row] ? 0 : 1;
        }
        const size_t stray = changedIn(got, size.rows);
        changed += stray;
        if (whole) {
            std::printf("  %13zu", inexact);
        } else {
            std::printf("  %13.4f", worst.frac);
        }
        // Written so that a fraction that is not a number fails as well.
        if (!(worst.frac <= 1.0) && failure->what == nullptr) {
            *failure = {"the sum", kPaths[path].name, size, worst};
        } else if (whole && inexact != 0 && failure->what == nullptr) {
            *failure = {"the sum, to the bit,", kPaths[path].name, size,
                        worst};
        } else if (stray != 0 && failure->what == nullptr) {
            *failure = {"the canary", kPaths[path].name, size, worst};
        }
    }
    std::printf("  %10.1f  %14zu\n", zeros.frac, changed);
}

static void timeRows(const Size &size, const Buffers &b, cudaStream_t stream)
{
    Spread spreads[kPathCount];
    timePaths(size, b, stream, spreads);
    std::printf("\nrows of %zu: slope between graphs of %d and %d launches, "
                "in L2\n",
                size.cols, kShortLaunches, kLongLaunches);
    std::printf("  matrix        %zu B\n", size.rows * size.cols *
                                               sizeof(float));
    std::printf("  repeats       %d   (time is the median of these)\n\n",
                kRepeats);
    std::printf("  %-13s  %9s  %9s  %9s\n", "path", "time (ms)", "min (ms)",
                "max (ms)");
    for (int path = 0; path < kPathCount; ++path) {
        std::printf("  %-13s  %9.5f  %9.5f  %9.5f\n", kPaths[path].name,
                    spreads[path].median, spreads[path].least,
                    spreads[path].most);
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static bool isJudged(const Size &size, bool whole, Mode mode)
{
    if (mode == Mode::kOnce) {
        return whole && size.timed;
    }
    return mode == Mode::kFull || !size.timed;
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
                     "usage: sums [--quick | --once]\n"
                     "  --quick  the small sizes, nothing timed\n"
                     "  --once   every path once per timed size, for "
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
    size_t elements = 0;
    size_t sums = 0;
    for (const Size &size : kSizes) {
        if (!size.timed || mode != Mode::kQuick) {
            elements = std::max(elements, size.rows * size.cols);
            sums = std::max(sums, size.rows);
        }
    }
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc(&b.d_x, elements * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_sums, (sums + kCanary) * sizeof(float)));

    int passed = 0;
    for (const bool whole : {false, true}) {
        if (failure.what != nullptr) {
            break;
        }
        std::printf("\n%s\n", whole ? "whole numbers: sums that are not equal "
                                      "to the bit"
                                    : "fractions: gate fractions");
        std::printf("  %-12s", "rows x cols");
        for (const PathInfo &path : kPaths) {
            std::printf("  %13s", path.name);
        }
        std::printf("  %10s  %14s\n", "zeros frac", "canary changed");
        for (const Size &size : kSizes) {
            if (failure.what == nullptr && isJudged(size, whole, mode)) {
                judgeRows(size, whole, b, stream, &failure);
                passed += failure.what == nullptr ? 1 : 0;
            }
        }
    }
    for (const Size &size : kSizes) {
        if (size.timed && mode == Mode::kFull && failure.what == nullptr) {
            timeRows(size, b, stream);
        }
    }

    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_sums));
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s of %s fails at %zu x %zu: number %zu is %.9g, not "
                     "%.9g, gate fraction %.4g\n",
                     failure.what, failure.path, failure.size.rows,
                     failure.size.cols, worst.index, worst.got, worst.want,
                     worst.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
