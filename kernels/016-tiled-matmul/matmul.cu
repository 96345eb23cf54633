// SPDX-License-Identifier: MIT
//
// Day 16: the 16 x 16 tiled matmul. C = A B for square matrices of any n, in
// FP32, one thread per element of C, in blocks of 16 x 16.
//
// The naive path reads a row of A and a column of B for every element of C. The
// tiled path walks over the same row and column in steps of 16: its 256
// threads load one tile of each matrix into shared memory together, and every
// element that was loaded is used 16 times. Days that come later use this tile,
// and its variant below.
//
// The transposed path computes C = A B^T, as attention does with its keys. A
// tile of B is then turned round on its way into shared memory, and the store
// that does it hits few banks (day 15). It is compiled twice, with a pitch of
// 16 and of 17.
//
// One reference judges all: double precision on the CPU, for every row of the
// small sizes and for some rows of the large ones. An output is a sum over n
// products, so rtol = max(1e-5, 4 * 2^-23 * sqrt(n)) (day 66). Beyond that the
// naive and the tiled path add the same products in the same order, so they
// have to agree to the bit, in every element; on a second input, of small
// whole numbers, they and the reference do as well.
//
// The file exists to hold what the blocks ask for against the time. Prediction,
// written before the run: the tiled path asks for a sixteenth and is faster,
// but by far less than sixteen times, because a cache answers most of what the
// naive path asks for; pitch 17 is faster than pitch 16.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o matmul matmul.cu
// Run: ./matmul

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

constexpr unsigned int kTile = 16;             // 256 threads: 8 warps
constexpr unsigned int kTilePitch = kTile + 1; // padded: see tiledTransposed
constexpr unsigned int kWarp = 32;

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t n;
    size_t refRows;     // rows that get a reference
    int shortLaunches;  // lengths of the two timed graphs; 0 is not timed
    int longLaunches;
};

// Below, at and above a tile; three ragged sizes that take several; then four
// that are timed, one of them ragged. A reference costs one CPU thread n * n
// multiply-adds a row, so the large sizes get a sample.
constexpr Size kSizes[] = {
    {1, 1, 0, 0},      {15, 15, 0, 0},    {16, 16, 0, 0},
    {17, 17, 0, 0},    {100, 100, 0, 0},  {250, 250, 0, 0},
    {512, 32, 5, 25},  {1024, 16, 2, 8},  {2047, 8, 1, 3},
    {2048, 8, 1, 3},
};
constexpr size_t kQuickLargest = 17;

struct Input {
    const char *name;
    float unit;    // what a step is worth
    float offset;  // in steps; a fraction keeps every value away from 0
    bool exact;    // the sums have to be equal, not only close
};

constexpr Input kInputs[] = {
    {"fractions", 0.02f, 0.3f, false},
    {"whole numbers", 1.0f, 0.0f, true},
};

// Periods are primes that divide no size.
constexpr size_t kPeriodA = 101;
constexpr size_t kPeriodB = 89;
constexpr size_t kStepA = 23;
constexpr size_t kStepB = 34;

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 7;       // odd: the median is one of the samples
constexpr int kWarmups = 1;       // replays of each graph before the first
constexpr double kGiga = 1e9;

static_assert(kTile * kTile % kWarp == 0, "blocks are whole warps");
static_assert((kPeriodA / 2) * (kPeriodB / 2) * 2048 < (1 << 24),
              "whole sums are exact in FP32");

// --- Kernels ----------------------------------------------------------------

// C = A B, one thread per element.
// Memory: a warp is two rows of 16 elements of C. In one step of k it reads two
// floats of A, each of them for 16 lanes, and 16 neighbouring floats of B.
// Every element of A and B is asked for n times by threads.
// Launch assumption: block (16, 16), a grid that covers C, any n.
__global__ void naive(const float *__restrict__ a,
                      const float *__restrict__ b, float *__restrict__ c,
                      size_t n)
{
    // snippet: naive
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + threadIdx.y;
    const size_t col = static_cast<size_t>(blockIdx.x) * kTile + threadIdx.x;
    if (row < n && col < n) {
        float acc = 0.0f;
        for (size_t k = 0; k < n; ++k) {
            acc = fmaf(a[row * n + k], b[k * n + col], acc);
        }
        c[row * n + col] = acc;
    }
    // end snippet
}

// C = A B in tiles of 16 x 16.
// Memory: a warp loads two runs of 16 neighbouring floats of A and of B, and
// every element is asked for once per block, n / 16 times in all. In shared
// memory a warp reads two words of tileA, each of them for 16 lanes, and 16
// words of tileB side by side: no conflict.
// Launch assumption: block (16, 16), a grid that covers C, any n. No thread
// leaves early, as barriers follow: what lies outside is loaded as 0.
__global__ void tiled(const float *__restrict__ a,
                      const float *__restrict__ b, float *__restrict__ c,
                      size_t n)
{
    __shared__ float tileA[kTile][kTile];
    __shared__ float tileB[kTile][kTile];

    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + ty;
    const size_t col = static_cast<size_t>(blockIdx.x) * kTile + tx;

    // snippet: tiled
    float acc = 0.0f;
    for (size_t first = 0; first < n; first += kTile) {
        const size_t colA = first + tx;
        const size_t rowB = first + ty;
        const bool inA = row < n && colA < n;
        const bool inB = rowB < n && col < n;
        tileA[ty][tx] = inA ? a[row * n + colA] : 0.0f;
        tileB[ty][tx] = inB ? b[rowB * n + col] : 0.0f;
        __syncthreads();  // the tiles are there
        for (unsigned int k = 0; k < kTile; ++k) {
            acc = fmaf(tileA[ty][k], tileB[k][tx], acc);
        }
        __syncthreads();  // the tiles may be overwritten
    }
    if (row < n && col < n) {
        c[row * n + col] = acc;
    }
    // end snippet
}

// C = A B^T in tiles of 16 x 16. Row `col` of B is loaded in order and stored
// as a column of its tile, so that the inner loop is the same as in tiled.
// Memory: as tiled, but for that store. At a pitch of 16 a warp's 32 words lie
// in 4 banks, 8 in each. At 17 they lie in 31 banks; one pair shares a bank.
// Launch assumption: as tiled.
template <unsigned int kPitch>
__global__ void tiledTransposed(const float *__restrict__ a,
                                const float *__restrict__ b,
                                float *__restrict__ c, size_t n)
{
    __shared__ float tileA[kTile][kTile];
    __shared__ float tileBt[kTile][kPitch];

    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + ty;
    const size_t firstCol = static_cast<size_t>(blockIdx.x) * kTile;
    const size_t col = firstCol + tx;

    float acc = 0.0f;
    for (size_t first = 0; first < n; first += kTile) {
        // snippet: transposed
        const size_t k = first + tx;
        const size_t rowB = firstCol + ty;
        tileA[ty][tx] = row < n && k < n ? a[row * n + k] : 0.0f;
        tileBt[tx][ty] = rowB < n && k < n ? b[rowB * n + k] : 0.0f;
        // end snippet
        __syncthreads();  // both tiles are there
        for (unsigned int i = 0; i < kTile; ++i) {
            acc = fmaf(tileA[ty][i], tileBt[i][tx], acc);
        }
        __syncthreads();  // both tiles may be overwritten
    }
    if (row < n && col < n) {
        c[row * n + col] = acc;
    }
}

// --- Paths ------------------------------------------------------------------

using Kernel = void (*)(const float *, const float *, float *, size_t);

enum Path { kNaive, kTiled, kUnpadded, kPadded, kPathCount };
constexpr Kernel kKernels[kPathCount] = {naive, tiled, tiledTransposed<kTile>,
                                         tiledTransposed<kTilePitch>};
constexpr const char *kNames[kPathCount] = {"naive", "tiled", "unpadded",
                                            "padded"};

static bool takesTransposed(int path)
{
    return path == kUnpadded || path == kPadded;
}

struct Buffers {
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_bt = nullptr;  // B transposed: A (B^T)^T is A B again
    float *d_c[kPathCount] = {};
};

static void launch(int path, size_t n, const Buffers &b, cudaStream_t stream)
{
    const unsigned int tiles =
        static_cast<unsigned int>((n + kTile - 1) / kTile);
    kKernels[path]<<<dim3(tiles, tiles), dim3(kTile, kTile), 0, stream>>>(
        b.d_a, takesTransposed(path) ? b.d_bt : b.d_b, b.d_c[path], n);
    CUDA_CHECK(cudaGetLastError());
}

// --- CPU reference ----------------------------------------------------------

// Which row the i-th reference row is: spread over the matrix and over the
// rows of a tile, first and last among them.
static size_t refRowAt(size_t i, const Size &size)
{
    if (size.refRows == size.n) {
        return i;
    }
    return i * (size.n - 1) / (size.refRows - 1);
}

static void referenceRow(const float *a, const std::vector<float> &b,
                         size_t n, double *out)
{
    std::fill(out, out + n, 0.0);
    for (size_t k = 0; k < n; ++k) {
        const double factor = static_cast<double>(a[k]);
        for (size_t col = 0; col < n; ++col) {
            out[col] += factor * static_cast<double>(b[k * n + col]);
        }
    }
}

// --- Inputs -----------------------------------------------------------------

// Element i: a step through 0 .. period - 1, centred on 0.
static float elementAt(size_t i, size_t period, size_t step,
                       const Input &input)
{
    const float place = static_cast<float>(i * step % period);
    const float centre = static_cast<float>(period / 2) + input.offset;
    return input.unit * (place - centre);
}

struct Host {
    std::vector<float> a;
    std::vector<float> b;
    std::vector<float> bt;
    std::vector<float> c[kPathCount];
};

static void fillInputs(size_t n, const Input &input, Host *host)
{
    host->a.resize(n * n);
    host->b.resize(n * n);
    host->bt.resize(n * n);
    for (size_t i = 0; i < n * n; ++i) {
        host->a[i] = elementAt(i, kPeriodA, kStepA, input);
        host->b[i] = elementAt(i, kPeriodB, kStepB, input);
    }
    for (size_t i = 0; i < n * n; ++i) {
        host->bt[i % n * n + i / n] = host->b[i];
    }
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
    size_t n = 0;
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
// short and a long graph of launches, so what a replay and its events cost
// cancels out. The paths take turns, forwards and backwards, so that a drifting
// clock meets all of them.
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

    std::vector<cudaGraphExec_t> shortGraphs;
    std::vector<cudaGraphExec_t> longGraphs;
    for (int path = 0; path < kPathCount; ++path) {
        const size_t i = static_cast<size_t>(path);
        shortGraphs.push_back(
            graphOf(path, size.shortLaunches, size.n, b, stream));
        longGraphs.push_back(
            graphOf(path, size.longLaunches, size.n, b, stream));
        for (int w = 0; w < kWarmups; ++w) {
            replayMs(shortGraphs[i]);
            replayMs(longGraphs[i]);
        }
    }

    std::vector<std::vector<double>> slopes(kPathCount);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const size_t i = static_cast<size_t>(
                repeat % 2 == 0 ? turn : kPathCount - 1 - turn);
            const double msShort = replayMs(shortGraphs[i]);
            const double msLong = replayMs(longGraphs[i]);
            slopes[i].push_back((msLong - msShort) /
                                (size.longLaunches - size.shortLaunches));
        }
    }

    for (size_t i = 0; i < kPathCount; ++i) {
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
    for (int path = 0; path < kPathCount; ++path) {
        printKernel(kNames[path],
                    reinterpret_cast<const void *>(kKernels[path]),
                    kTile * kTile, device);
    }
}

// Bytes by arithmetic. The floor touches each matrix once; the ask is what
// threads request of global memory, each of their loads counted.
static void printBytes(size_t n)
{
    const size_t tiles = (n + kTile - 1) / kTile;
    const size_t square = n * n;
    std::printf("\nbytes n = %zu: counted, not measured\n", n);
    std::printf("  multiply-adds   %zu\n", square * n);
    std::printf("  floor           %zu B\n", 3 * square * sizeof(float));
    std::printf("  naive ask       %zu B\n",
                (2 * square * n + square) * sizeof(float));
    std::printf("  tiled ask       %zu B\n",
                (2 * square * tiles + square) * sizeof(float));
    std::printf("  threads         %zu   (launched)\n",
                tiles * tiles * kTile * kTile);
}

// --- One case ---------------------------------------------------------------

struct Verdict {
    Gate gate;
    size_t compared = 0;       // elements that have a reference
    size_t pairDiffers = 0;    // elements in which two paths differ at all
    size_t inexact = 0;        // that differ from the reference at all
    double maxReference = 0.0;
    Worst paths[kPathCount];
    Worst zeros;               // what an answer of nothing but zeros would get
};

static void runPaths(size_t n, const Buffers &b, cudaStream_t stream,
                     Host *host)
{
    const size_t bytes = n * n * sizeof(float);
    CUDA_CHECK(cudaMemcpy(b.d_a, host->a.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_b, host->b.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_bt, host->bt.data(), bytes,
                          cudaMemcpyHostToDevice));
    for (int path = 0; path < kPathCount; ++path) {
        // Every byte 0xff is a NaN: what is not written cannot pass.
        CUDA_CHECK(cudaMemset(b.d_c[path], 0xff, bytes));
        launch(path, n, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        host->c[path].assign(n * n, NAN);
        CUDA_CHECK(cudaMemcpy(host->c[path].data(), b.d_c[path], bytes,
                              cudaMemcpyDeviceToHost));
    }
}

static Verdict judgeCase(const Size &size, const Host &host)
{
    const size_t n = size.n;
    Verdict verdict;
    std::vector<double> reference(size.refRows * n);
    for (size_t i = 0; i < size.refRows; ++i) {
        referenceRow(&host.a[refRowAt(i, size) * n], host.b, n,
                     &reference[i * n]);
    }
    for (const double value : reference) {
        verdict.maxReference = std::max(verdict.maxReference,
                                        std::fabs(value));
    }
    verdict.gate = {rtolFor(n), rtolFor(n) * verdict.maxReference};
    for (size_t i = 0; i < reference.size(); ++i) {
        const size_t index = refRowAt(i / n, size) * n + i % n;
        ++verdict.compared;
        judge(0.0, reference[i], index, verdict.gate, &verdict.zeros);
        for (int path = 0; path < kPathCount; ++path) {
            const double got = static_cast<double>(host.c[path][index]);
            judge(got, reference[i], index, verdict.gate,
                  &verdict.paths[path]);
            verdict.inexact += got == reference[i] ? 0 : 1;
        }
    }
    for (size_t i = 0; i < n * n; ++i) {
        for (int path = 1; path < kPathCount; ++path) {
            verdict.pairDiffers +=
                host.c[path][i] == host.c[kNaive][i] ? 0 : 1;
        }
    }
    return verdict;
}

// Runs all paths on one input, judges them, and times them if they are right
// and that is asked for. If they are not, `failure` says which and where.
static void runCase(const Size &size, const Input &input, bool timed,
                    const Buffers &b, cudaStream_t stream, Host *host,
                    Failure *failure)
{
    fillInputs(size.n, input, host);
    runPaths(size.n, b, stream, host);
    const Verdict verdict = judgeCase(size, *host);
    std::printf("\ncase n = %zu, %s: all paths against the reference\n",
                size.n, input.name);
    std::printf("  elements compared     %zu\n", verdict.compared);
    std::printf("  max |reference|       %.3e\n", verdict.maxReference);
    std::printf("  gate rtol             %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(n)); atol = rtol * max |reference|)\n",
                verdict.gate.rtol);
    std::printf("  all zeros, gate frac  %.1f\n", verdict.zeros.frac);
    std::printf("  paths differ          %zu   (elements of any path that are "
                "not those of naive)\n",
                verdict.pairDiffers);
    std::printf("  inexact               %zu   (sums that are not the "
                "reference's)\n\n",
                verdict.inexact);

    // Written so that a fraction that is not a number fails as well.
    for (int path = 0; path < kPathCount; ++path) {
        const Worst &worst = verdict.paths[path];
        if (!(worst.frac <= 1.0) && failure->what == nullptr) {
            *failure = {"the gate", kNames[path], size.n, worst};
        }
    }
    if (failure->what == nullptr && verdict.pairDiffers != 0) {
        *failure = {"agreement to the bit", "a path", size.n, Worst()};
    }
    if (failure->what == nullptr && input.exact && verdict.inexact != 0) {
        *failure = {"the whole numbers", "a path", size.n, Worst()};
    }

    timed = timed && failure->what == nullptr;
    Spread spreads[kPathCount];
    if (timed) {
        timePaths(size, b, stream, spreads);
    }
    std::printf("  %-8s  %11s  %9s", "path", "max abs err", "gate frac");
    if (timed) {
        std::printf("  %9s  %9s  %9s  %14s", "time (ms)", "min (ms)",
                    "max (ms)", "rate (GFLOP/s)");
    }
    std::printf("\n");
    for (int path = 0; path < kPathCount; ++path) {
        std::printf("  %-8s  %11.3e  %9.4f", kNames[path],
                    verdict.paths[path].error, verdict.paths[path].frac);
        if (timed) {
            const double flops = 2.0 * static_cast<double>(size.n) *
                                 static_cast<double>(size.n) *
                                 static_cast<double>(size.n);
            std::printf("  %9.5f  %9.5f  %9.5f  %14.1f",
                        spreads[path].median, spreads[path].least,
                        spreads[path].most,
                        flops / (spreads[path].median * 1e-3) / kGiga);
        }
        std::printf("\n");
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static bool wanted(const Size &size, Mode mode)
{
    if (mode == Mode::kQuick) {
        return size.n <= kQuickLargest;
    }
    // A profiler tells launches apart by their grids: one size for each.
    return mode == Mode::kFull ||
           (size.shortLaunches > 0 && size.n % kTile == 0);
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
                     "usage: matmul [--quick | --once]\n"
                     "  --quick  sizes up to 17, nothing timed\n"
                     "  --once   every kernel once per timed size of whole "
                     "tiles, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("  L2 cache          %d B\n", device.l2CacheSize);
    printKernels(device);
    if (mode == Mode::kFull) {
        std::printf("\ntiming: the slope between a short and a long graph of "
                    "launches, no cache cleared\n");
        std::printf("  repeats   %d   (time is the median of these slopes)\n",
                    kRepeats);
    }

    size_t maxN = 0;
    for (const Size &size : kSizes) {
        maxN = wanted(size, mode) ? std::max(maxN, size.n) : maxN;
    }
    Buffers b;
    Host host;
    Failure failure;
    int passed = 0;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    for (float **d_matrix : {&b.d_a, &b.d_b, &b.d_bt, &b.d_c[0], &b.d_c[1],
                             &b.d_c[2], &b.d_c[3]}) {
        CUDA_CHECK(cudaMalloc(d_matrix, maxN * maxN * sizeof(float)));
    }
    for (const Size &size : kSizes) {
        if (!wanted(size, mode) || failure.what != nullptr) {
            continue;
        }
        if (size.shortLaunches > 0) {
            printBytes(size.n);
        }
        for (const Input &input : kInputs) {
            const bool skip = input.exact && mode == Mode::kOnce;
            if (failure.what == nullptr && !skip) {
                runCase(size, input,
                        mode == Mode::kFull && !input.exact &&
                            size.shortLaunches > 0,
                        b, stream, &host, &failure);
                passed += failure.what == nullptr ? 1 : 0;
            }
        }
    }

    for (float *d_matrix : {b.d_a, b.d_b, b.d_bt, b.d_c[0], b.d_c[1],
                            b.d_c[2], b.d_c[3]}) {
        CUDA_CHECK(cudaFree(d_matrix));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails %s at n = %zu: element %zu (row %zu, column "
                     "%zu) is %.9g, not %.9g, gate fraction %.4g\n",
                     failure.path, failure.what, failure.n, worst.index,
                     worst.index / failure.n, worst.index % failure.n,
                     worst.got, worst.want, worst.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
