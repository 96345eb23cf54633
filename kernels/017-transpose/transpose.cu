// SPDX-License-Identifier: MIT
//
// Day 17: transpose. out[col][row] = in[row][col], for a matrix of 4-byte
// elements with any number of rows and columns. Nothing is computed; the only
// question is how near it comes to a plain copy of the same bytes.
//
// The ladder, one idea a step. naive: neighbouring threads read neighbours and
// write far apart. gather: the other way round. tile: a block collects 32 x 32
// elements in shared memory and writes them by rows as well. padded: the tile's
// rows are 33 words apart, so that reading a column of it meets 32 banks (day
// 15). wide: 64 x 64 elements per block and 16 bytes per access, four of them
// on their way from a thread; row and column counts must be multiples of four.
// turned: the same, but blocks that start one after the other lie below each
// other in the input, and so side by side in the output.
//
// Prediction, written before the run: naive reaches a third of the copy's rate,
// tile half, padded three quarters, wide nine tenths. The last step was found
// by trying several tiles and orders; nothing was predicted for it. gather came
// last of all; it was expected to be twice as fast as naive.
//
// Elements are bits, all different: element i of the input is i + 1. One judge,
// a kernel, counts the elements whose bits are not those that belong there; it
// must find every element wrong before a path has run. There is no tolerance.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o transpose transpose.cu
// Run: ./transpose

#include <algorithm>
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
constexpr unsigned int kTile = 32;             // rows and columns: a warp each
constexpr unsigned int kPitch = kTile + 1;     // padded: day 15
constexpr unsigned int kStep = 8;              // rows that a block has threads
constexpr unsigned int kThreads = kTile * kStep;

constexpr unsigned int kWide = 64;             // rows and columns
constexpr unsigned int kWidePitch = kWide + 1;
constexpr unsigned int kVector = 4;            // elements of a uint4
constexpr unsigned int kAcross = 8;            // lanes along a row: 128 bytes
constexpr unsigned int kDown = kThreads / kAcross;   // rows of a block at once
constexpr unsigned int kQuads = kWide / (kVector * kAcross);
constexpr unsigned int kLoads = kWide * kWide / (kVector * kThreads);
constexpr unsigned int kWideRegisters = 32;    // so that 2048 threads fit

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t rows;
    size_t cols;
    bool timed;
};

// Less than a tile; ragged on both sides; ragged, in multiples of four. Then
// the timed ones, 1 GiB each: square; rows of whole lines of 128 bytes; rows
// that begin anywhere in a line, and tiles that stick out.
constexpr Size kSizes[] = {
    {3, 5, false},        {37, 70, false},      {100, 68, false},
    {1001, 517, false},   {16384, 16384, true}, {16000, 16768, true},
    {16000, 16776, true},
};
constexpr size_t kMost = size_t{16384} * 16384;  // elements of any of them
constexpr size_t kQuickLargest = 100;            // rows
constexpr unsigned int kJudges = 1024;           // blocks, for any size

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 7;       // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;  // of all paths, before the first sample
constexpr int kLaunches = 3;      // between two events; one more before them
constexpr double kGiga = 1e9;

constexpr bool sizesFit()
{
    for (const Size &size : kSizes) {
        if (size.rows * size.cols > kMost) {
            return false;
        }
    }
    return true;
}

static_assert(sizesFit(), "one pair of buffers serves all sizes");
static_assert(kMost < 0xffffffffu, "no element has the bits of a cleared one");
static_assert(kThreads % kWarp == 0 && kTile % kStep == 0,
              "blocks are whole warps, and every thread has as many rows");
static_assert(kWide % kDown == 0 && kWide / kDown * kQuads == kLoads,
              "the loads of a block cover the wide tile");
static_assert((kTile * kPitch) * 4 <= 48 * 1024 &&
                  (kWide * kWidePitch) * 4 <= 48 * 1024,
              "static shared memory ends at 48 KiB");

// --- Kernels ----------------------------------------------------------------

// x[i] = i + 1.
// Memory: a warp writes 32 neighbouring elements.
// Launch assumption: any.
__global__ void fillNumbers(unsigned int *__restrict__ x, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        x[i] = static_cast<unsigned int>(i + 1);
    }
}

// Counts the elements that are not the transposed input's, or with `moved`
// false, the input's.
// Memory: a warp reads 32 neighbouring elements.
// Launch assumption: any.
__global__ void countWrong(const unsigned int *__restrict__ got, size_t rows,
                           size_t cols, bool moved,
                           unsigned long long *__restrict__ wrong)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    unsigned long long mine = 0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < rows * cols; i += step) {
        const size_t from = moved ? i % rows * cols + i / rows : i;
        mine += got[i] == static_cast<unsigned int>(from + 1) ? 0 : 1;
    }
    if (mine > 0) {
        atomicAdd(wrong, mine);
    }
}

// out = in, as it lies: what the others are measured by.
// Memory: a warp reads and writes 512 neighbouring bytes.
// Launch assumption: any; rows * cols a multiple of four.
__global__ void copy(const unsigned int *__restrict__ in,
                     unsigned int *__restrict__ out, size_t rows, size_t cols)
{
    const size_t tile =
        static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    const size_t i = tile * kThreads + threadIdx.y * kTile + threadIdx.x;
    if (i < rows * cols / kVector) {
        reinterpret_cast<uint4 *>(out)[i] =
            reinterpret_cast<const uint4 *>(in)[i];
    }
}

// One thread for four elements of a column.
// Memory: a warp reads 32 neighbouring elements and writes 32 that are `rows`
// elements apart, a sector of 32 bytes for each four bytes.
// Launch assumption: block (32, 8), a grid that covers `in` by tiles.
__global__ void naive(const unsigned int *__restrict__ in,
                      unsigned int *__restrict__ out, size_t rows, size_t cols)
{
    // snippet: naive
    const size_t col = static_cast<size_t>(blockIdx.x) * kTile + threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.y) * kTile + threadIdx.y;
    for (unsigned int i = 0; i < kTile; i += kStep) {
        const size_t row = first + i;
        if (row < rows && col < cols) {
            out[col * rows + row] = in[row * cols + col];
        }
    }
    // end snippet
}

// The same elements for each block, but its lanes lie along a column.
// Memory: a warp reads 32 elements that are `cols` elements apart, and of each
// sector only four bytes; the rest is for other warps of the block, if a cache
// keeps it for them. It writes 32 neighbouring elements.
// Launch assumption: as naive.
__global__ void gather(const unsigned int *__restrict__ in,
                       unsigned int *__restrict__ out, size_t rows,
                       size_t cols)
{
    // snippet: gather
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + threadIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.x) * kTile + threadIdx.y;
    for (unsigned int i = 0; i < kTile; i += kStep) {
        const size_t col = first + i;
        if (row < rows && col < cols) {
            out[col * rows + row] = in[row * cols + col];
        }
    }
    // end snippet
}

// Through a tile in shared memory, whose rows are kTilePitch words apart.
// Memory: a warp reads and writes 32 neighbouring elements. It stores a row of
// the tile and reads a column of it: at a pitch of 32 words all of a column
// lies in one bank, at 33 in 32 different ones.
// Launch assumption: as naive. No thread leaves early: a barrier follows.
template <unsigned int kTilePitch>
__global__ void tiled(const unsigned int *__restrict__ in,
                      unsigned int *__restrict__ out, size_t rows, size_t cols)
{
    __shared__ unsigned int tile[kTile][kTilePitch];

    // snippet: tiled
    const unsigned int tx = threadIdx.x;
    const size_t firstRow = static_cast<size_t>(blockIdx.y) * kTile;
    const size_t firstCol = static_cast<size_t>(blockIdx.x) * kTile;
    for (unsigned int r = threadIdx.y; r < kTile; r += kStep) {
        if (firstRow + r < rows && firstCol + tx < cols) {
            tile[r][tx] = in[(firstRow + r) * cols + firstCol + tx];
        }
    }
    __syncthreads();  // the tile is there
    for (unsigned int c = threadIdx.y; c < kTile; c += kStep) {
        if (firstCol + c < cols && firstRow + tx < rows) {
            out[(firstCol + c) * rows + firstRow + tx] = tile[tx][c];
        }
    }
    // end snippet
}

// Through a tile of 64 x 64 elements, 16 bytes at a time: what wide and turned
// have in common.
// Memory: a warp reads, and writes, 128 neighbouring bytes of each of four
// rows; four loads are on their way before the first is waited for. What was
// read is stored word by word: a warp's 32 words lie in banks row + 4 * quad +
// constant, modulo 32, with four rows and eight quads. That is 32 banks, and
// what is read back lies in 32 banks for the same reason.
// Launch assumption: block (32, 8); rows and cols multiples of four, so that a
// uint4 is all in or all out. No thread leaves early: a barrier follows.
__device__ void moveWide(const unsigned int *__restrict__ in,
                         unsigned int *__restrict__ out, size_t rows,
                         size_t cols, size_t firstRow, size_t firstCol)
{
    __shared__ unsigned int tile[kWide][kWidePitch];
    const unsigned int tid = threadIdx.y * kTile + threadIdx.x;

    // snippet: wide-load
    uint4 four[kLoads];
#pragma unroll
    for (unsigned int i = 0; i < kLoads; ++i) {
        const unsigned int r = tid / kAcross + i / kQuads * kDown;
        const unsigned int c = kVector * (tid % kAcross + i % kQuads * kAcross);
        four[i] = make_uint4(0, 0, 0, 0);
        if (firstRow + r < rows && firstCol + c < cols) {
            const size_t at = ((firstRow + r) * cols + firstCol + c) / kVector;
            four[i] = reinterpret_cast<const uint4 *>(in)[at];
        }
    }
    // end snippet
#pragma unroll
    for (unsigned int i = 0; i < kLoads; ++i) {
        const unsigned int r = tid / kAcross + i / kQuads * kDown;
        const unsigned int c = kVector * (tid % kAcross + i % kQuads * kAcross);
        tile[r][c] = four[i].x;
        tile[r][c + 1] = four[i].y;
        tile[r][c + 2] = four[i].z;
        tile[r][c + 3] = four[i].w;
    }
    __syncthreads();  // the wide tile is there

    // snippet: wide-store
#pragma unroll
    for (unsigned int i = 0; i < kLoads; ++i) {
        const unsigned int c = tid / kAcross + i / kQuads * kDown;
        const unsigned int r = kVector * (tid % kAcross + i % kQuads * kAcross);
        if (firstCol + c < cols && firstRow + r < rows) {
            const size_t at = ((firstCol + c) * rows + firstRow + r) / kVector;
            reinterpret_cast<uint4 *>(out)[at] =
                make_uint4(tile[r][c], tile[r + 1][c], tile[r + 2][c],
                           tile[r + 3][c]);
        }
    }
    // end snippet
}

// Blocks in the order of the input: the next one lies to the right.
// Memory: as moveWide.
// Launch assumption: as moveWide; a grid that covers `in` by its tiles.
__global__ void __maxnreg__(kWideRegisters)
    wide(const unsigned int *__restrict__ in, unsigned int *__restrict__ out,
         size_t rows, size_t cols)
{
    // snippet: order
    const size_t firstRow = static_cast<size_t>(blockIdx.y) * kWide;
    const size_t firstCol = static_cast<size_t>(blockIdx.x) * kWide;
    // end snippet
    moveWide(in, out, rows, cols, firstRow, firstCol);
}

// Blocks in the order of the output: the next one lies below.
// Memory: as moveWide.
// Launch assumption: as moveWide; a grid that covers `out` by its tiles.
__global__ void __maxnreg__(kWideRegisters)
    turned(const unsigned int *__restrict__ in, unsigned int *__restrict__ out,
           size_t rows, size_t cols)
{
    // snippet: turned-order
    const size_t firstRow = static_cast<size_t>(blockIdx.x) * kWide;
    const size_t firstCol = static_cast<size_t>(blockIdx.y) * kWide;
    // end snippet
    moveWide(in, out, rows, cols, firstRow, firstCol);
}

// --- Paths ------------------------------------------------------------------

using Kernel = void (*)(const unsigned int *, unsigned int *, size_t, size_t);

struct Path {
    const char *name;
    Kernel kernel;
    unsigned int side;  // of the tile that a block has
    bool fours;         // needs multiples of four
};

enum {
    kCopy,
    kNaive,
    kGather,
    kTileOnly,
    kPadded,
    kWideOnly,
    kTurned,
    kPathCount
};

constexpr Path kPaths[kPathCount] = {
    {"copy", copy, kTile, true},
    {"naive", naive, kTile, false},
    {"gather", gather, kTile, false},
    {"tile", tiled<kTile>, kTile, false},
    {"padded", tiled<kPitch>, kTile, false},
    {"wide", wide, kWide, true},
    {"turned", turned, kWide, true},
};

static bool takes(const Path &path, const Size &size)
{
    return !path.fours ||
           (size.rows % kVector == 0 && size.cols % kVector == 0);
}

static void launch(size_t p, const Size &size, const unsigned int *d_in,
                   unsigned int *d_out)
{
    const Path &path = kPaths[p];
    const unsigned int across =
        static_cast<unsigned int>((size.cols + path.side - 1) / path.side);
    const unsigned int down =
        static_cast<unsigned int>((size.rows + path.side - 1) / path.side);
    const dim3 grid = p == kTurned ? dim3(down, across) : dim3(across, down);
    path.kernel<<<grid, dim3(kTile, kStep)>>>(d_in, d_out, size.rows,
                                              size.cols);
    CUDA_CHECK(cudaGetLastError());
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *path = nullptr;
    Size size = {};
    unsigned long long count = 0;
};

static unsigned long long wrongIn(const unsigned int *d_got, const Size &size,
                                  bool moved, unsigned long long *d_wrong)
{
    unsigned long long wrong = 0;
    CUDA_CHECK(cudaMemset(d_wrong, 0, sizeof(wrong)));
    countWrong<<<kJudges, kThreads>>>(d_got, size.rows, size.cols, moved,
                                      d_wrong);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&wrong, d_wrong, sizeof(wrong),
                          cudaMemcpyDeviceToHost));
    return wrong;
}

static void judgePath(size_t p, const Size &size, const unsigned int *d_in,
                      unsigned int *d_out, unsigned long long *d_wrong,
                      Failure *failure)
{
    const Path &path = kPaths[p];
    const size_t count = size.rows * size.cols;
    CUDA_CHECK(cudaMemset(d_out, 0xff, count * sizeof(unsigned int)));
    const unsigned long long before =
        wrongIn(d_out, size, p != kCopy, d_wrong);
    launch(p, size, d_in, d_out);
    CUDA_CHECK(cudaDeviceSynchronize());
    const unsigned long long after = wrongIn(d_out, size, p != kCopy, d_wrong);
    std::printf("  %-6s  %9zu  %12llu  %11llu\n", path.name, count, before,
                after);
    if (before != count) {
        *failure = {"the judge sees less than everything wrong", path.name,
                    size, before};
    } else if (after != 0) {
        *failure = {"wrong elements", path.name, size, after};
    }
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

static void timeAll(const Size &size, const unsigned int *d_in,
                    unsigned int *d_out, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](size_t p) {
        float ms = 0.0f;
        launch(p, size, d_in, d_out);
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(p, size, d_in, d_out);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPathCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (size_t turn = 0; turn < kPathCount; ++turn) {
            const size_t p = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double ms = launchMs(p);
            if (round >= 0) {
                samples[p].push_back(ms);
            }
        }
    }
    for (size_t p = 0; p < kPathCount; ++p) {
        spreads[p] = spreadOf(samples[p]);
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
    for (const Path &path : kPaths) {
        printKernel(path.name, reinterpret_cast<const void *>(path.kernel),
                    kThreads, device);
    }
}

static void printTimes(const Size &size, const Spread *spreads)
{
    const double bytes = 2.0 * static_cast<double>(size.rows * size.cols) *
                         sizeof(unsigned int);
    std::printf("\ntimes %zu x %zu: events around launches, the paths in "
                "turns\n",
                size.rows, size.cols);
    std::printf("  bytes moved   %.0f B   (read and written, both counted)\n",
                bytes);
    std::printf("  repeats       %d   (time is the median of these)\n",
                kRepeats);
    std::printf("  launches      %d   (in each, after one that is not "
                "timed)\n\n",
                kLaunches);
    std::printf("  %-6s  %9s  %9s  %9s  %11s\n", "path", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)");
    for (size_t p = 0; p < kPathCount; ++p) {
        std::printf("  %-6s  %9.4f  %9.4f  %9.4f  %11.1f\n", kPaths[p].name,
                    spreads[p].median, spreads[p].least, spreads[p].most,
                    bytes / (spreads[p].median * 1e-3) / kGiga);
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static bool wanted(const Size &size, Mode mode)
{
    if (mode == Mode::kOnce) {
        return size.rows * size.cols == kMost;
    }
    return mode == Mode::kFull || size.rows <= kQuickLargest;
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
                     "usage: transpose [--quick | --once]\n"
                     "  --quick  small sizes only, nothing timed\n"
                     "  --once   every path once at the square size, for "
                     "profilers\n");
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

    size_t most = 0;
    for (const Size &size : kSizes) {
        most = std::max(most, wanted(size, mode) ? size.rows * size.cols : 0);
    }
    Failure failure;
    int passed = 0;
    unsigned int *d_in = nullptr;
    unsigned int *d_out = nullptr;
    unsigned long long *d_wrong = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, most * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_out, most * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_wrong, sizeof(unsigned long long)));
    fillNumbers<<<kJudges, kThreads>>>(d_in, most);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());

    for (const Size &size : kSizes) {
        if (!wanted(size, mode) || failure.what != nullptr) {
            continue;
        }
        std::printf("\ngate %zu x %zu: bit for bit, no tolerance\n",
                    size.rows, size.cols);
        std::printf("  %-6s  %9s  %12s  %11s\n", "path", "elements",
                    "wrong before", "wrong after");
        for (size_t p = 0; p < kPathCount && failure.what == nullptr; ++p) {
            if (takes(kPaths[p], size)) {
                judgePath(p, size, d_in, d_out, d_wrong, &failure);
                passed += failure.what == nullptr ? 1 : 0;
            }
        }
        if (failure.what == nullptr && size.timed && mode == Mode::kFull) {
            Spread spreads[kPathCount];
            timeAll(size, d_in, d_out, spreads);
            printTimes(size, spreads);
        }
    }

    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_wrong));

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s fails at %zu x %zu: %s: %llu\n", failure.path,
                     failure.size.rows, failure.size.cols, failure.what,
                     failure.count);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
