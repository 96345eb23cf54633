// SPDX-License-Identifier: MIT
//
// Day 34: fewer reads, slower kernel. Every pixel of an image becomes a
// weighted sum of itself and its four neighbours; at the border the image goes
// on with its edge. Four kernels do it, and ask global memory for less and
// less:
//
//   plain      a thread per pixel, five loads
//   shuffled   left and right come from the neighbouring lanes (day 24): three
//              loads, four where a warp ends
//   marching   a thread walks down a column of 16 pixels and keeps the one
//              above and its own: three loads a pixel, 18 + 32 for 16
//   tiled      a block of 32 x 8 pixels loads them and a border of one into
//              shared memory once (days 12 and 16): 340 loads for 256 pixels
//
// The arithmetic is the same, operation by operation, so all four must agree to
// the bit; plain is judged by double precision on the CPU with day 66's rule
// for a sum of five products.
//
// Two sizes: one that DRAM has to deliver, and one that stays in the L2.
//
// Predicted before the first run. The program counts loads, and a cache line
// that was loaded once is in the L1 when a neighbour asks for it: DRAM delivers
// the same bytes to all four. So no kernel gains from fewer loads, and tiled,
// which asks for a quarter, is the slowest: all warps of a block wait for the
// last load of any of them before the first may go on.
//
// The file exists to hold loads against time; later days cite it as the
// precedent that fewer reads do not have to be faster.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o stencil stencil.cu
// Run: ./stencil

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

constexpr unsigned int kTileWide = 32;  // pixels of a block: a warp per row
constexpr unsigned int kTileHigh = 8;
constexpr unsigned int kThreads = kTileWide * kTileHigh;
constexpr unsigned int kHaloWide = kTileWide + 2;  // and a border of one
constexpr unsigned int kHaloHigh = kTileHigh + 2;
constexpr unsigned int kHalo = kHaloWide * kHaloHigh;

constexpr unsigned int kMarch = 16;  // pixels that a marching thread makes

// No two alike, or two neighbours could be swapped unseen.
constexpr float kCentre = 0.40f;
constexpr float kUp = 0.10f;
constexpr float kDown = 0.20f;
constexpr float kLeft = 0.05f;
constexpr float kRight = 0.25f;

// --- Cases ------------------------------------------------------------------

struct Size {
    const char *name;
    size_t wide;
    size_t high;
    bool timed;         // else for correctness only
    int shortLaunches;  // lengths of the two timed graphs
    int longLaunches;
};

// Ragged: no multiple of a warp, a tile or a march. Then 128 MiB in and 128 MiB
// out, more than four times an H200's L2, and 8 MiB in and out, which stay.
constexpr Size kSizes[] = {
    {"ragged", 203, 77, false, 0, 0},
    {"large", 8192, 4096, true, 2, 12},
    {"small", 2048, 1024, true, 10, 60},
};
constexpr size_t kMaxPixels = size_t{8192} * 4096;

// Periods are primes: no two rows or columns are alike.
constexpr size_t kPeriod = 65537;
constexpr size_t kStep = 27449;  // neighbours are far apart
constexpr size_t kSlowPeriod = 199;
constexpr size_t kStretch = 4096;

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr size_t kDepth = 5;               // products in one sum

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmups = 2;       // replays of each graph before the first

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kTileWide == kWarp, "a warp is one row of a tile");
static_assert(kSizes[0].wide % kWarp != 0 && kSizes[0].high % kTileHigh != 0 &&
                  kSizes[0].high % kMarch != 0,
              "the first size is ragged");
static_assert(kHalo == 340, "the header says so");
static_assert(kMaxPixels < (size_t{1} << 31),
              "tiled has rows and columns as int");

// --- Small helpers ----------------------------------------------------------

// One order and one rounding per step in all kernels: nothing is left to how a
// compiler contracts a * b + c.
// snippet: weigh
__device__ float weigh(float up, float left, float centre, float right,
                       float down)
{
    float sum = kUp * up;
    sum = fmaf(kLeft, left, sum);
    sum = fmaf(kCentre, centre, sum);
    sum = fmaf(kRight, right, sum);
    return fmaf(kDown, down, sum);
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// Memory: a warp reads 32 neighbouring floats five times, twice off by one. A
// row is asked for by three rows of threads.
// Launch assumption: block (32, 8), blocks that cover the image.
__global__ void plain(const float *__restrict__ in, float *__restrict__ out,
                      size_t wide, size_t high)
{
    // snippet: plain
    const size_t x = static_cast<size_t>(blockIdx.x) * kTileWide + threadIdx.x;
    const size_t y = static_cast<size_t>(blockIdx.y) * kTileHigh + threadIdx.y;
    if (x < wide && y < high) {
        const size_t i = y * wide + x;
        const float up = in[y > 0 ? i - wide : i];
        const float left = in[x > 0 ? i - 1 : i];
        const float right = in[x + 1 < wide ? i + 1 : i];
        const float down = in[y + 1 < high ? i + wide : i];
        out[i] = weigh(up, left, in[i], right, down);
    }
    // end snippet
}

// Memory: as plain, without the two reads that are off by one, but for one
// lane each at a warp's ends.
// Launch assumption: as plain. No thread leaves before the shuffles: one that
// is beyond the image works on its last pixel and stores nothing.
__global__ void shuffled(const float *__restrict__ in,
                         float *__restrict__ out, size_t wide, size_t high)
{
    const size_t x = static_cast<size_t>(blockIdx.x) * kTileWide + threadIdx.x;
    const size_t y = static_cast<size_t>(blockIdx.y) * kTileHigh + threadIdx.y;
    const size_t column = x < wide ? x : wide - 1;
    const size_t row = y < high ? y : high - 1;
    const size_t i = row * wide + column;

    // snippet: shuffled
    const float centre = in[i];
    float left = __shfl_up_sync(kFullWarp, centre, 1);
    float right = __shfl_down_sync(kFullWarp, centre, 1);
    if (threadIdx.x == 0) {
        left = in[column > 0 ? i - 1 : i];
    }
    if (threadIdx.x == kWarp - 1) {
        right = in[column + 1 < wide ? i + 1 : i];
    }
    // end snippet
    const float up = in[row > 0 ? i - wide : i];
    const float down = in[row + 1 < high ? i + wide : i];
    if (x < wide && y < high) {
        out[i] = weigh(up, left, centre, right, down);
    }
}

// Memory: a warp reads 32 neighbouring floats three times per row.
// Launch assumption: block (32, 8), blocks that cover the image, each 32 pixels
// wide and 8 x 16 high.
__global__ void marching(const float *__restrict__ in,
                         float *__restrict__ out, size_t wide, size_t high)
{
    const size_t x = static_cast<size_t>(blockIdx.x) * kTileWide + threadIdx.x;
    const size_t first =
        (static_cast<size_t>(blockIdx.y) * kTileHigh + threadIdx.y) * kMarch;
    if (x >= wide || first >= high) {
        return;
    }
    const size_t end = first + kMarch < high ? first + kMarch : high;
    // snippet: marching
    size_t i = first * wide + x;
    float centre = in[i];
    float up = first > 0 ? in[i - wide] : centre;
    for (size_t y = first; y < end; ++y) {
        const float down = y + 1 < high ? in[i + wide] : centre;
        const float left = in[x > 0 ? i - 1 : i];
        const float right = in[x + 1 < wide ? i + 1 : i];
        out[i] = weigh(up, left, centre, right, down);
        up = centre;
        centre = down;
        i += wide;
    }
    // end snippet
}

// Memory: a warp reads 32 floats of the tile and its border at a time; where a
// row of 34 ends it goes on in the next. Out of shared memory it reads 32
// neighbouring floats, so no bank is asked twice (day 15).
// Launch assumption: as plain. No thread leaves before the barrier.
__global__ void tiled(const float *__restrict__ in, float *__restrict__ out,
                      size_t wide, size_t high)
{
    // snippet: tiled
    __shared__ float tile[kHaloHigh][kHaloWide];
    const unsigned int tid = threadIdx.y * kTileWide + threadIdx.x;
    const int left = static_cast<int>(blockIdx.x * kTileWide) - 1;
    const int top = static_cast<int>(blockIdx.y * kTileHigh) - 1;
    const int lastColumn = static_cast<int>(wide) - 1;
    const int lastRow = static_cast<int>(high) - 1;
    for (unsigned int i = tid; i < kHalo; i += kThreads) {
        const int row = static_cast<int>(i / kHaloWide);
        const int column = static_cast<int>(i % kHaloWide);
        const int y = min(max(top + row, 0), lastRow);
        const int x = min(max(left + column, 0), lastColumn);
        tile[row][column] = in[static_cast<size_t>(y) * wide + x];
    }
    __syncthreads();  // the tile and its border are there
    // end snippet

    const size_t x = static_cast<size_t>(blockIdx.x) * kTileWide + threadIdx.x;
    const size_t y = static_cast<size_t>(blockIdx.y) * kTileHigh + threadIdx.y;
    const unsigned int c = threadIdx.x + 1;
    const unsigned int r = threadIdx.y + 1;
    if (x < wide && y < high) {
        out[y * wide + x] = weigh(tile[r - 1][c], tile[r][c - 1], tile[r][c],
                                  tile[r][c + 1], tile[r + 1][c]);
    }
}

// --- CPU reference ----------------------------------------------------------

static double referenceAt(const std::vector<float> &in, const Size &size,
                          size_t x, size_t y)
{
    const size_t wide = size.wide;
    const size_t i = y * wide + x;
    const double up = in[y > 0 ? i - wide : i];
    const double left = in[x > 0 ? i - 1 : i];
    const double right = in[x + 1 < wide ? i + 1 : i];
    const double down = in[y + 1 < size.high ? i + wide : i];
    return static_cast<double>(kUp) * up + static_cast<double>(kLeft) * left +
           static_cast<double>(kCentre) * static_cast<double>(in[i]) +
           static_cast<double>(kRight) * right +
           static_cast<double>(kDown) * down;
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
    Size size = {};
    Worst worst;
};

// --- Launches ---------------------------------------------------------------

enum Part { kPlain, kShuffled, kMarching, kTiled, kPartCount };
constexpr const char *kNames[] = {"plain", "shuffled", "marching", "tiled"};

struct Buffers {
    float *d_in = nullptr;
    float *d_out[kPartCount] = {};
};

static void launch(Part part, const Size &size, const Buffers &b,
                   cudaStream_t stream)
{
    const unsigned int across =
        static_cast<unsigned int>((size.wide + kTileWide - 1) / kTileWide);
    const size_t rows = part == kMarching ? kTileHigh * kMarch : kTileHigh;
    const unsigned int down =
        static_cast<unsigned int>((size.high + rows - 1) / rows);
    const dim3 grid(across, down);
    const dim3 block(kTileWide, kTileHigh);
    if (part == kPlain) {
        plain<<<grid, block, 0, stream>>>(b.d_in, b.d_out[part], size.wide,
                                          size.high);
    } else if (part == kShuffled) {
        shuffled<<<grid, block, 0, stream>>>(b.d_in, b.d_out[part], size.wide,
                                             size.high);
    } else if (part == kMarching) {
        marching<<<grid, block, 0, stream>>>(b.d_in, b.d_out[part], size.wide,
                                             size.high);
    } else {
        tiled<<<grid, block, 0, stream>>>(b.d_in, b.d_out[part], size.wide,
                                          size.high);
    }
    CUDA_CHECK(cudaGetLastError());
}

// Loads of one float by one thread, counted for an image: by hand, from the
// loops above, and at the border as well.
static double loadsOf(Part part, const Size &size)
{
    const double pixels =
        static_cast<double>(size.wide) * static_cast<double>(size.high);
    const double across =
        std::ceil(static_cast<double>(size.wide) / kTileWide);
    const double down = std::ceil(static_cast<double>(size.high) / kTileHigh);
    if (part == kPlain) {
        return 5.0 * pixels;
    }
    if (part == kShuffled) {
        return across * down * (3.0 * kThreads + 2.0 * kTileHigh);
    }
    if (part == kMarching) {
        // One more for each of a column's pieces, and one above all but the
        // first; the last has none below.
        const double pieces =
            std::ceil(static_cast<double>(size.high) / kMarch);
        return 3.0 * pixels + static_cast<double>(size.wide) *
                                  (pieces + (pieces - 1.0) - 1.0);
    }
    return across * down * kHalo;
}

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

static cudaGraphExec_t graphOf(Part part, int launches, const Size &size,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(part, size, b, stream);
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
                      int longLaunches, const Size &size, const Buffers &b,
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
        launch(parts[i], size, b, stream);  // loaded before it is captured
        CUDA_CHECK(cudaStreamSynchronize(stream));
        shortGraphs.push_back(
            graphOf(parts[i], shortLaunches, size, b, stream));
        longGraphs.push_back(
            graphOf(parts[i], longLaunches, size, b, stream));
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
    printKernel("plain", reinterpret_cast<const void *>(plain), kThreads,
                device);
    printKernel("shuffled", reinterpret_cast<const void *>(shuffled),
                kThreads, device);
    printKernel("marching", reinterpret_cast<const void *>(marching),
                kThreads, device);
    printKernel("tiled", reinterpret_cast<const void *>(tiled), kThreads,
                device);
}

// --- One case ---------------------------------------------------------------

struct Verdict {
    Worst against;            // of plain, against the reference
    Worst zeros;              // what an answer of nothing but zeros would get
    size_t differ[kPartCount] = {};  // pixels whose bits are not plain's
    Worst first[kPartCount];         // the first of them
};

static Verdict judgeCase(const Size &size, const std::vector<float> &h_in,
                         const std::vector<float> *h_out)
{
    Verdict verdict;
    double most = 0.0;
    for (const float value : h_in) {
        most = std::max(most, std::fabs(static_cast<double>(value)));
    }
    const Gate gate = {rtolFor(kDepth), rtolFor(kDepth) * most};
    for (size_t y = 0; y < size.high; ++y) {
        for (size_t x = 0; x < size.wide; ++x) {
            const size_t i = y * size.wide + x;
            const double want = referenceAt(h_in, size, x, y);
            judge(h_out[kPlain][i], want, i, gate, &verdict.against);
            judge(0.0, want, i, gate, &verdict.zeros);
        }
    }
    for (int part = 0; part < kPartCount; ++part) {
        for (size_t i = 0; i < h_in.size(); ++i) {
            // A NaN differs from everything, so it is counted here as well.
            if (!(h_out[part][i] == h_out[kPlain][i])) {
                if (verdict.differ[part] == 0) {
                    verdict.first[part].index = i;
                    verdict.first[part].got = h_out[part][i];
                    verdict.first[part].want = h_out[kPlain][i];
                }
                ++verdict.differ[part];
            }
        }
    }
    return verdict;
}

static void timeCase(const Size &size, const Buffers &b, cudaStream_t stream)
{
    const Part parts[] = {kPlain, kShuffled, kMarching, kTiled};
    Spread spreads[kPartCount];
    timeParts(parts, kPartCount, size.shortLaunches, size.longLaunches, size,
              b, stream, spreads);
    const double bytes = 2.0 * sizeof(float) * static_cast<double>(size.wide) *
                         static_cast<double>(size.high);
    std::printf("\n  %-8s  %9s  %9s  %9s  %11s  %12s\n", "kernel",
                "time (ms)", "min (ms)", "max (ms)", "rate (GB/s)",
                "of plain (%)");
    for (int part = 0; part < kPartCount; ++part) {
        const Spread &spread = spreads[part];
        std::printf("  %-8s  %9.5f  %9.5f  %9.5f  %11.1f  %12.1f\n",
                    kNames[part], spread.median, spread.least, spread.most,
                    bytes / (spread.median * 1e-3) / kGiga,
                    100.0 * spread.median / spreads[kPlain].median);
    }
}

static void runCase(const Size &size, bool timing, const Buffers &b,
                    cudaStream_t stream, Failure *failure)
{
    const size_t pixels = size.wide * size.high;
    const size_t bytes = pixels * sizeof(float);
    std::vector<float> h_in(pixels);
    std::vector<float> h_out[kPartCount];
    for (size_t i = 0; i < pixels; ++i) {
        h_in[i] = inputAt(i);
    }
    CUDA_CHECK(cudaMemcpy(b.d_in, h_in.data(), bytes, cudaMemcpyHostToDevice));
    for (int part = 0; part < kPartCount; ++part) {
        h_out[part].resize(pixels);
        // Every byte 0xff is a NaN: what is not written cannot pass.
        CUDA_CHECK(cudaMemset(b.d_out[part], 0xff, bytes));
        launch(static_cast<Part>(part), size, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaMemcpy(h_out[part].data(), b.d_out[part], bytes,
                              cudaMemcpyDeviceToHost));
    }

    const Verdict verdict = judgeCase(size, h_in, h_out);
    std::printf("\ncase %s: %zu x %zu pixels\n", size.name, size.wide,
                size.high);
    std::printf("  image              %.2f MiB   (in, and as much out)\n",
                static_cast<double>(bytes) / kMiB);
    std::printf("  floor              %zu B   (each pixel in and out once)\n",
                2 * bytes);
    std::printf("  plain, gate frac   %.4f\n", verdict.against.frac);
    std::printf("  zeros, gate frac   %.1f\n\n", verdict.zeros.frac);
    std::printf("  %-8s  %10s  %13s  %13s\n", "counted", "loads",
                "loads a pixel", "not as plain");
    for (int part = 0; part < kPartCount; ++part) {
        const double loads = loadsOf(static_cast<Part>(part), size);
        std::printf("  %-8s  %10.0f  %13.3f  %13zu\n", kNames[part], loads,
                    loads / static_cast<double>(pixels),
                    verdict.differ[part]);
    }

    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.against.frac <= 1.0)) {
        *failure = {kNames[kPlain], size, verdict.against};
        return;
    }
    for (int part = 0; part < kPartCount; ++part) {
        if (verdict.differ[part] != 0) {
            *failure = {kNames[part], size, verdict.first[part]};
            return;
        }
    }
    if (timing && size.timed) {
        timeCase(size, b, stream);
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
                     "usage: stencil [--quick | --once]\n"
                     "  --quick  the ragged image only, nothing timed\n"
                     "  --once   every kernel once per image, for profilers\n");
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
    std::printf("\ntiming: the slope between a short and a long graph of "
                "launches, no cache cleared\n");
    std::printf("  repeats           %d   (time is the median of these "
                "slopes)\n",
                kRepeats);
    std::printf("  warm-up replays   %d   (of every graph)\n", kWarmups);

    Buffers b;
    Failure failure;
    cudaStream_t stream = nullptr;
    int passed = 0;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc(&b.d_in, kMaxPixels * sizeof(float)));
    for (float *&d_out : b.d_out) {
        CUDA_CHECK(cudaMalloc(&d_out, kMaxPixels * sizeof(float)));
    }
    for (const Size &size : kSizes) {
        if (failure.what == nullptr &&
            (mode != Mode::kQuick || !size.timed)) {
            runCase(size, mode == Mode::kFull, b, stream, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }
    CUDA_CHECK(cudaFree(b.d_in));
    for (float *d_out : b.d_out) {
        CUDA_CHECK(cudaFree(d_out));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails on %s: pixel %zu (column %zu, row %zu) is "
                     "%.9g, not %.9g\n",
                     failure.what, failure.size.name, worst.index,
                     worst.index % failure.size.wide,
                     worst.index / failure.size.wide, worst.got, worst.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
