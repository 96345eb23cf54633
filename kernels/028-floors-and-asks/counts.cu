// SPDX-License-Identifier: MIT
//
// Day 28: floors and asks. Six kernels whose bytes are counted before anything
// runs, by arithmetic, in three ways:
//
//   floor   every array once per pass over it: a program of this shape cannot
//           do with less
//   ask     what the blocks request: an address once per block and use
//   loads   every load of every thread
//
// add needs every byte once: floor, ask and loads are equal. window adds up
// five neighbours, so each float is used five times. eighth takes one float of
// eight. lessMax goes over each row twice, for its maximum and to subtract it.
// matmulNaive and matmulTiled are day 16's products: the same floor and the
// same ask, but naive's threads load for themselves what tiled's block shares.
//
// The file exists for its profile: what passed the L1, the L2 and the DRAM is
// held against the counts. Written down before the run: DRAM moves the floor
// in all of them but eighth, where it moves eight times as much, and lessMax,
// where it moves one pass; the ask is seen by no counter but tiled's L1.
//
// All inputs are whole numbers so small that every result is exact; there is
// no tolerance, and a reference that works on the CPU in double precision.
// Streams are 128 MiB an array, rows 16 KiB, matrices 16 MiB.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o counts counts.cu
// Run: ./counts

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

constexpr unsigned int kThreads = 256;
constexpr unsigned int kWindow = 5;   // floats that one output adds up
constexpr unsigned int kApart = 8;    // floats between two that eighth takes
constexpr unsigned int kTile = 16;    // a block of the matmuls is 16 x 16

struct Sizes {
    size_t n;     // floats of a stream
    size_t rows;
    size_t cols;  // of lessMax
    size_t side;  // of the matrices
};

// Streams of 128 MiB, twice what the L2 holds, and ragged. A product of two
// 2048 x 2048 matrices is the largest that takes only milliseconds.
constexpr Sizes kFullSizes = {(1 << 25) + 3, 8191, 4099, 2048};
constexpr Sizes kQuickSizes = {10007, 37, 1003, 67};  // for sanitizers

constexpr size_t kRefRows = 8;  // rows of a product that get a reference

// Floats behind the output: an unguarded last block writes into them.
constexpr size_t kCanary = kThreads;

// --- Cases ------------------------------------------------------------------

// Element i is entry i % kPeriod of a table. The period is a prime, and the
// entries are remainders of cubes, which show no pattern.
constexpr size_t kPeriod = 1048573;
constexpr size_t kWholes = 17;  // whole numbers from -8 to 8

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;  // odd: the median is one of the samples
constexpr int kWarmups = 1;   // replays of each graph before the first

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kFullSizes.side % kTile == 0, "the ask counts whole tiles");
static_assert(kFullSizes.side * 8 * 8 < (1 << 24), "products are exact");
static_assert(kTile * kTile == kThreads, "all blocks have one size");

// --- Kernels ----------------------------------------------------------------

// c = a + b.
// Memory: a warp reads 32 neighbouring floats of each and writes 32.
// Launch assumption: at least n threads; any n.
__global__ void add(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c, size_t n)
{
    // snippet: add
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
    // end snippet
}

// y[i] = x[i] + ... + x[i + 4], for the n - 4 windows of x.
// Memory: five loads of 32 neighbouring floats, each one float further on.
// Launch assumption: at least n threads; any n.
__global__ void window(const float *__restrict__ x, float *__restrict__ y,
                       size_t n)
{
    // snippet: window
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i + kWindow <= n) {
        y[i] = x[i] + x[i + 1] + x[i + 2] + x[i + 3] + x[i + 4];
    }
    // end snippet
}

// y[i] = x[8 * i], for the n / 8 of them.
// Memory: a warp reads 32 floats that lie 32 bytes apart, and writes 32
// neighbouring ones.
// Launch assumption: at least n / 8 threads; any n.
__global__ void eighth(const float *__restrict__ x, float *__restrict__ y,
                       size_t n)
{
    // snippet: eighth
    const size_t i =
        static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n / kApart) {
        y[i] = x[kApart * i];
    }
    // end snippet
}

// y = x less the largest of its row, a block per row.
// Memory: a warp reads 32 neighbouring floats, twice in all.
// Launch assumption: kThreads threads, one block per row. No thread leaves
// early: barriers follow.
__global__ void lessMax(const float *__restrict__ x, float *__restrict__ y,
                        size_t cols)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const size_t first = blockIdx.x * cols;
    // snippet: less-max
    float best = -INFINITY;
    for (size_t c = tid; c < cols; c += kThreads) {
        best = fmaxf(best, x[first + c]);
    }
    part[tid] = best;
    __syncthreads();  // every thread's largest is there
    for (unsigned int active = kThreads / 2; active > 0; active /= 2) {
        if (tid < active) {
            part[tid] = fmaxf(part[tid], part[tid + active]);
        }
        __syncthreads();  // this half is done
    }
    for (size_t c = tid; c < cols; c += kThreads) {
        y[first + c] = x[first + c] - part[0];
    }
    // end snippet
}

// c = a * b, square matrices, one thread per element of c.
// Memory: at each step a warp reads 2 floats of a, the same for 16 lanes each,
// and 16 neighbouring floats of b, the same for both rows.
// Launch assumption: blocks of kTile x kTile that cover c; any side.
__global__ void matmulNaive(const float *__restrict__ a,
                            const float *__restrict__ b,
                            float *__restrict__ c, size_t side)
{
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + threadIdx.y;
    const size_t col = static_cast<size_t>(blockIdx.x) * kTile + threadIdx.x;
    if (row < side && col < side) {
        // snippet: naive
        float total = 0.0f;
        for (size_t k = 0; k < side; ++k) {
            total = fmaf(a[row * side + k], b[k * side + col], total);
        }
        c[row * side + col] = total;
        // end snippet
    }
}

// The same by tiles that a block loads once and uses kTile times (day 16).
// Memory: a warp reads 2 rows of 16 neighbouring floats of a and of b.
// Launch assumption: as matmulNaive. No thread leaves early: barriers follow.
__global__ void matmulTiled(const float *__restrict__ a,
                            const float *__restrict__ b,
                            float *__restrict__ c, size_t side)
{
    __shared__ float tileA[kTile][kTile];
    __shared__ float tileB[kTile][kTile];
    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + ty;
    const size_t col = static_cast<size_t>(blockIdx.x) * kTile + tx;
    // snippet: tiled
    float total = 0.0f;
    for (size_t first = 0; first < side; first += kTile) {
        tileA[ty][tx] = row < side && first + tx < side
                            ? a[row * side + first + tx]
                            : 0.0f;
        tileB[ty][tx] = first + ty < side && col < side
                            ? b[(first + ty) * side + col]
                            : 0.0f;
        __syncthreads();  // both tiles are there
        for (unsigned int k = 0; k < kTile; ++k) {
            total = fmaf(tileA[ty][k], tileB[k][tx], total);
        }
        __syncthreads();  // both tiles have been used
    }
    // end snippet
    if (row < side && col < side) {
        c[row * side + col] = total;
    }
}

// --- Paths ------------------------------------------------------------------

enum Path { kAdd, kWindowed, kEighth, kLessMax, kNaive, kTiled, kPathCount };

struct PathInfo {
    const char *name;
    const void *kernel;
    int shortLaunches;  // lengths of the two timed graphs
    int longLaunches;
};

static const PathInfo kPaths[kPathCount] = {
    {"add", reinterpret_cast<const void *>(add), 2, 12},
    {"window", reinterpret_cast<const void *>(window), 2, 12},
    {"eighth", reinterpret_cast<const void *>(eighth), 2, 12},
    {"lessMax", reinterpret_cast<const void *>(lessMax), 2, 12},
    {"naive", reinterpret_cast<const void *>(matmulNaive), 1, 3},
    {"tiled", reinterpret_cast<const void *>(matmulTiled), 1, 3},
};

struct Buffers {
    float *d_x = nullptr;
    float *d_y = nullptr;
    float *d_out = nullptr;
};

static unsigned int blocksFor(size_t n, size_t threads)
{
    return static_cast<unsigned int>((n + threads - 1) / threads);
}

static void launch(int path, const Sizes &sizes, const Buffers &b,
                   cudaStream_t stream)
{
    const unsigned int flat = blocksFor(sizes.n, kThreads);
    const unsigned int tiles = blocksFor(sizes.side, kTile);
    const dim3 grid(tiles, tiles);
    const dim3 block(kTile, kTile);
    if (path == kAdd) {
        add<<<flat, kThreads, 0, stream>>>(b.d_x, b.d_y, b.d_out, sizes.n);
    } else if (path == kWindowed) {
        window<<<flat, kThreads, 0, stream>>>(b.d_x, b.d_out, sizes.n);
    } else if (path == kEighth) {
        eighth<<<blocksFor(sizes.n / kApart, kThreads), kThreads, 0,
                 stream>>>(b.d_x, b.d_out, sizes.n);
    } else if (path == kLessMax) {
        lessMax<<<static_cast<unsigned int>(sizes.rows), kThreads, 0,
                  stream>>>(b.d_x, b.d_out, sizes.cols);
    } else if (path == kNaive) {
        matmulNaive<<<grid, block, 0, stream>>>(b.d_x, b.d_y, b.d_out,
                                                sizes.side);
    } else {
        matmulTiled<<<grid, block, 0, stream>>>(b.d_x, b.d_y, b.d_out,
                                                sizes.side);
    }
    CUDA_CHECK(cudaGetLastError());
}

static size_t outputsOf(int path, const Sizes &sizes)
{
    switch (path) {
    case kAdd:
        return sizes.n;
    case kWindowed:
        return sizes.n - kWindow + 1;
    case kEighth:
        return sizes.n / kApart;
    case kLessMax:
        return sizes.rows * sizes.cols;
    default:
        return sizes.side * sizes.side;
    }
}

// --- Counts -----------------------------------------------------------------

// Bytes by arithmetic.
struct Counts {
    size_t floorIn = 0;  // read: every array once per pass
    size_t askIn = 0;    // read: an address once per block and use
    size_t loads = 0;    // read: every load of every thread
    size_t out = 0;      // written
};

// snippet: counts
static Counts countsOf(int path, const Sizes &sizes)
{
    const size_t outputs = outputsOf(path, sizes);
    const size_t square = sizes.side * sizes.side;
    const size_t tiles = sizes.side / kTile;
    Counts floats;
    if (path == kAdd) {
        floats = {2 * outputs, 2 * outputs, 2 * outputs, outputs};
    } else if (path == kWindowed) {
        floats = {sizes.n, kWindow * outputs, kWindow * outputs, outputs};
    } else if (path == kEighth) {
        floats = {outputs, outputs, outputs, outputs};
    } else if (path == kLessMax) {
        floats = {2 * outputs, 2 * outputs, 2 * outputs, outputs};
    } else {
        // Each of tiles * tiles blocks goes along a stripe of a and of b.
        const size_t ask = tiles * tiles * 2 * kTile * sizes.side;
        const size_t each = 2 * square * sizes.side;
        floats = {2 * square, ask, path == kNaive ? each : ask, square};
    }
    const size_t b = sizeof(float);
    return {b * floats.floorIn, b * floats.askIn, b * floats.loads,
            b * floats.out};
}
// end snippet

static void printCounts(const Sizes &sizes, const cudaDeviceProp &device)
{
    std::printf("\ncounts: bytes by arithmetic, nothing has run yet\n");
    std::printf("  stream      %.3fx   (of the L2)\n",
                static_cast<double>(sizes.n * sizeof(float)) /
                    device.l2CacheSize);
    std::printf("  matrices    %.3fx   (three of them, of the L2)\n\n",
                static_cast<double>(3 * sizes.side * sizes.side *
                                    sizeof(float)) /
                    device.l2CacheSize);
    std::printf("  %-8s  %13s  %14s  %14s  %12s  %14s\n", "kernel",
                "floor, in (B)", "ask, in (B)", "loads, in (B)", "out (B)",
                "ask over floor");
    for (int path = 0; path < kPathCount; ++path) {
        const Counts counts = countsOf(path, sizes);
        std::printf("  %-8s  %13zu  %14zu  %14zu  %12zu  %14.3f\n",
                    kPaths[path].name, counts.floorIn, counts.askIn,
                    counts.loads, counts.out,
                    static_cast<double>(counts.askIn) /
                        static_cast<double>(counts.floorIn));
    }
}

// --- Inputs and CPU reference -----------------------------------------------

static std::vector<float> inputOf(size_t n, size_t step)
{
    std::vector<float> table(kPeriod);
    std::vector<float> x(n);
    for (size_t i = 0; i < kPeriod; ++i) {
        const size_t place = i * step % kPeriod;
        const size_t cube = place * place % kPeriod * place % kPeriod;
        table[i] = static_cast<float>(cube % kWholes) - 8.0f;
    }
    for (size_t i = 0; i < n; ++i) {
        x[i] = table[i % kPeriod];
    }
    return x;
}

// Output i of a path, from inputs x and y; `best` is the largest of i's row.
static double referenceAt(int path, size_t i, const Sizes &sizes,
                          const std::vector<float> &x,
                          const std::vector<float> &y, float best)
{
    double total = 0.0;
    switch (path) {
    case kAdd:
        return static_cast<double>(x[i]) + y[i];
    case kWindowed:
        for (size_t k = 0; k < kWindow; ++k) {
            total += x[i + k];
        }
        return total;
    case kEighth:
        return x[kApart * i];
    case kLessMax:
        return static_cast<double>(x[i]) - best;
    default:
        for (size_t k = 0; k < sizes.side; ++k) {
            total += static_cast<double>(x[i / sizes.side * sizes.side + k]) *
                     y[k * sizes.side + i % sizes.side];
        }
        return total;
    }
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *path = nullptr;
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

// --- Judging ----------------------------------------------------------------

// Runs a path over an output that is all NaN and compares: every element, of
// the products every element of some rows. Behind the output NaNs must remain.
static void judgePath(int path, const Sizes &sizes,
                      const std::vector<float> &h_x,
                      const std::vector<float> &h_y, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    const size_t outputs = outputsOf(path, sizes);
    const size_t bytes = (outputs + kCanary) * sizeof(float);
    std::vector<float> got(outputs + kCanary);
    CUDA_CHECK(cudaMemset(b.d_out, 0xff, bytes));
    launch(path, sizes, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(got.data(), b.d_out, bytes,
                          cudaMemcpyDeviceToHost));

    const bool product = path == kNaive || path == kTiled;
    const size_t rowLength = product ? sizes.side : sizes.cols;
    const size_t every =
        product && sizes.side > kRefRows ? sizes.side / kRefRows : 1;
    float best = 0.0f;
    size_t judged = 0;
    size_t wrong = 0;
    size_t zeros = 0;
    for (size_t i = 0; i < outputs; ++i) {
        // One row of every stretch, each time one further on in the stretch.
        const size_t row = i / rowLength;
        if (product && row % every != row / every % every) {
            continue;
        }
        if (path == kLessMax && i % rowLength == 0) {
            best = *std::max_element(h_x.begin() + static_cast<long>(i),
                                     h_x.begin() +
                                         static_cast<long>(i + rowLength));
        }
        const double want = referenceAt(path, i, sizes, h_x, h_y, best);
        ++judged;
        zeros += want == 0.0 ? 1 : 0;
        // Written so that a NaN counts as wrong.
        if (!(static_cast<double>(got[i]) == want)) {
            if (failure->path == nullptr) {
                *failure = {kPaths[path].name, i,
                            static_cast<double>(got[i]), want};
            }
            ++wrong;
        }
    }
    size_t stray = 0;
    for (size_t k = outputs; k < got.size(); ++k) {
        stray += std::isnan(got[k]) ? 0 : 1;
    }
    std::printf("  %-8s  %9zu  %9zu  %5zu  %5zu  %15.1f\n",
                kPaths[path].name, outputs, judged, wrong, stray,
                100.0 * static_cast<double>(zeros) /
                    static_cast<double>(judged));
    if ((stray != 0 || judged == 0) && failure->path == nullptr) {
        *failure = {kPaths[path].name, outputs, static_cast<double>(stray),
                    0.0};
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

static cudaGraphExec_t graphOf(int path, int launches, const Sizes &sizes,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(path, sizes, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times all paths beside each other. A path's time is the slope between a
// short and a long graph of launches, so what a replay and its events cost
// cancels out; a launch finds the caches as the one before it left them. The
// paths take turns, forwards and backwards, so that a drifting clock meets all
// of them.
static void timePaths(const Sizes &sizes, const Buffers &b,
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

    cudaGraphExec_t shortGraphs[kPathCount] = {};
    cudaGraphExec_t longGraphs[kPathCount] = {};
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo &info = kPaths[path];
        shortGraphs[path] =
            graphOf(path, info.shortLaunches, sizes, b, stream);
        longGraphs[path] = graphOf(path, info.longLaunches, sizes, b, stream);
        for (int w = 0; w < kWarmups; ++w) {
            replayMs(shortGraphs[path]);
            replayMs(longGraphs[path]);
        }
    }
    std::vector<std::vector<double>> slopes(kPathCount);
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = repeat % 2 == 0 ? turn : kPathCount - 1 - turn;
            const PathInfo &info = kPaths[path];
            const double msShort = replayMs(shortGraphs[path]);
            const double msLong = replayMs(longGraphs[path]);
            slopes[static_cast<size_t>(path)].push_back(
                (msLong - msShort) / (info.longLaunches - info.shortLaunches));
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

static void printTimes(const Sizes &sizes, const Spread *spreads)
{
    std::printf("\ntime: slope between graphs, no cache cleared\n");
    std::printf("  repeats   %d   (time is the median of these)\n\n",
                kRepeats);
    std::printf("  %-8s  %9s  %9s  %9s  %17s  %17s\n", "kernel", "time (ms)",
                "min (ms)", "max (ms)", "floor rate (GB/s)",
                "loads rate (GB/s)");
    for (int path = 0; path < kPathCount; ++path) {
        const Counts counts = countsOf(path, sizes);
        const double seconds = spreads[path].median * 1e-3;
        std::printf("  %-8s  %9.5f  %9.5f  %9.5f  %17.1f  %17.1f\n",
                    kPaths[path].name, spreads[path].median,
                    spreads[path].least, spreads[path].most,
                    static_cast<double>(counts.floorIn + counts.out) /
                        seconds / kGiga,
                    static_cast<double>(counts.loads + counts.out) / seconds /
                        kGiga);
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
        std::fprintf(stderr, "usage: counts [--quick | --once]\n"
                             "  --quick  small sizes, nothing timed\n"
                             "  --once   every kernel once, for profilers\n");
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

    const Sizes sizes = mode == Mode::kQuick ? kQuickSizes : kFullSizes;
    const size_t most = std::max(
        {sizes.n, sizes.rows * sizes.cols, sizes.side * sizes.side});
    const std::vector<float> h_x = inputOf(most, 27449);
    const std::vector<float> h_y = inputOf(most, 7919);
    Buffers b;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    for (float **d_buffer : {&b.d_x, &b.d_y, &b.d_out}) {
        CUDA_CHECK(cudaMalloc(d_buffer, (most + kCanary) * sizeof(float)));
    }
    CUDA_CHECK(cudaMemcpy(b.d_x, h_x.data(), most * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_y, h_y.data(), most * sizeof(float),
                          cudaMemcpyHostToDevice));
    if (mode != Mode::kQuick) {
        printCounts(sizes, device);
    }

    Failure failure;
    int passed = 0;
    std::printf("\ngate: to the bit, and what an answer of zeros would get\n");
    std::printf("  %-8s  %9s  %9s  %5s  %5s  %15s\n", "kernel", "outputs",
                "judged", "wrong", "stray", "zeros right (%)");
    for (int path = 0; path < kPathCount; ++path) {
        if (failure.path == nullptr) {
            judgePath(path, sizes, h_x, h_y, b, stream, &failure);
            passed += failure.path == nullptr ? 1 : 0;
        }
    }
    if (failure.path == nullptr && mode == Mode::kFull) {
        Spread spreads[kPathCount];
        timePaths(sizes, b, stream, spreads);
        printTimes(sizes, spreads);
    }

    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaFree(b.d_out));
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.path != nullptr) {
        std::fprintf(stderr, "%s fails: element %zu is %.9g, not %.9g\n",
                     failure.path, failure.index, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
