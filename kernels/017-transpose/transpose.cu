// SPDX-License-Identifier: MIT
//
// Day 17: transpose. out[col][row] = in[row][col], for a matrix of 4-byte
// elements with any number of rows and columns. Nothing is computed; the only
// question is how near it comes to a plain copy of the same bytes.
//
// The ladder, one idea a step. naive: neighbouring threads read neighbours and
// write far apart. tile: a block collects 32 x 32 elements in shared memory and
// writes them by rows as well. padded: the tile's rows are 33 words apart, so
// that reading a column of it meets 32 banks (day 15). wide: 64 x 64 elements
// per block and 16 bytes per access, with four times as many bytes on their way
// from each thread; it needs row and column counts that are multiples of four.
//
// Prediction, written before the run: naive reaches a third of the copy's rate,
// tile half, padded three quarters, wide nine tenths.
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
constexpr unsigned int kDown = kWarp / kAcross;

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t rows;
    size_t cols;
    bool timed;
};

// Less than a tile; ragged on both sides; ragged, in multiples of four; the
// timed ones, 1 GiB each.
constexpr Size kSizes[] = {
    {3, 5, false},        {37, 70, false},      {100, 68, false},
    {1001, 517, false},   {16384, 16384, true}, {16000, 16776, true},
};
constexpr size_t kQuickLargest = 100;  // rows

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 9;       // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;  // of all paths, before the first sample
constexpr int kLaunches = 3;      // between two events; one more before them
constexpr double kGiga = 1e9;

static_assert(kThreads % kWarp == 0 && kTile % kStep == 0,
              "blocks are whole warps, and every thread has as many rows");
static_assert(kWide % kDown == 0 && kWide % (kVector * kAcross) == 0,
              "a warp's accesses cover the wide tile");
static_assert(kTile * kPitch * 4 <= 48 * 1024 &&
                  kWide * kWidePitch * 4 <= 48 * 1024,
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

// Counts the elements that are not the transposed input's, or with `turned`
// false, the input's.
// Memory: a warp reads 32 neighbouring elements.
// Launch assumption: any.
__global__ void countWrong(const unsigned int *__restrict__ got, size_t rows,
                           size_t cols, bool turned,
                           unsigned long long *__restrict__ wrong)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    unsigned long long mine = 0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < rows * cols; i += step) {
        const size_t from = turned ? i % rows * cols + i / rows : i;
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

// Through a tile of kSide x kSide elements, 16 bytes at a time.
// Memory: a warp reads, and writes, 128 neighbouring bytes of each of four
// rows. What was read is stored word by word; a warp's 32 words lie at
// row + 4 * quad + constant modulo 32, with four rows and eight quads: 32
// banks. The words it reads back lie in 32 banks for the same reason.
// Launch assumption: a grid that covers `in` by its tiles; rows and cols
// multiples of four, so that a uint4 is all in or all out.
template <unsigned int kSide, unsigned int kWarps, unsigned int kGroup>
__global__ void wide(const unsigned int *__restrict__ in,
                     unsigned int *__restrict__ out, size_t rows, size_t cols)
{
    extern __shared__ unsigned int tile[];
    constexpr unsigned int kSidePitch = kSide + 1;
    constexpr unsigned int kQuads = kSide / (kVector * kAcross);
    const unsigned int tid = threadIdx.y * kTile + threadIdx.x;
    const unsigned int quad = tid % kAcross;
    const unsigned int down = tid / kAcross;
    constexpr unsigned int kEvery = kWarps * kDown;

    // Blocks in bands of kGroup tile rows.
    const unsigned int id = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned int band = id / (kGroup * gridDim.x);
    const unsigned int height = min(kGroup, gridDim.y - band * kGroup);
    const unsigned int within = id - band * kGroup * gridDim.x;
    const unsigned int by = band * kGroup + within % height;
    const unsigned int bx = within / height;

    const size_t firstRow = static_cast<size_t>(by) * kSide;
    const size_t firstCol = static_cast<size_t>(bx) * kSide;
    constexpr unsigned int kLoads = kSide * kQuads / kEvery;
    uint4 v[kLoads];
#pragma unroll
    for (unsigned int i = 0; i < kLoads; ++i) {
        const unsigned int r = down + i / kQuads * kEvery;
        const unsigned int c = kVector * (quad + i % kQuads * kAcross);
        v[i] = make_uint4(0, 0, 0, 0);
        if (firstRow + r < rows && firstCol + c < cols) {
            v[i] = *reinterpret_cast<const uint4 *>(
                &in[(firstRow + r) * cols + firstCol + c]);
        }
    }
#pragma unroll
    for (unsigned int i = 0; i < kLoads; ++i) {
        const unsigned int r = down + i / kQuads * kEvery;
        const unsigned int c = kVector * (quad + i % kQuads * kAcross);
        tile[r * kSidePitch + c] = v[i].x;
        tile[r * kSidePitch + c + 1] = v[i].y;
        tile[r * kSidePitch + c + 2] = v[i].z;
        tile[r * kSidePitch + c + 3] = v[i].w;
    }
    __syncthreads();  // the wide tile is there
#pragma unroll
    for (unsigned int c = down; c < kSide; c += kEvery) {
#pragma unroll
        for (unsigned int k = 0; k < kQuads; ++k) {
            const unsigned int r = kVector * (quad + k * kAcross);
            if (firstCol + c < cols && firstRow + r < rows) {
                *reinterpret_cast<uint4 *>(
                    &out[(firstCol + c) * rows + firstRow + r]) =
                    make_uint4(tile[r * kSidePitch + c],
                               tile[(r + 1) * kSidePitch + c],
                               tile[(r + 2) * kSidePitch + c],
                               tile[(r + 3) * kSidePitch + c]);
            }
        }
    }
}

// --- Paths ------------------------------------------------------------------

using Kernel = void (*)(const unsigned int *, unsigned int *, size_t, size_t);

struct Path {
    const char *name;
    Kernel kernel;
    unsigned int side;     // of the tile that a block has
    unsigned int threads;
    bool fours;            // needs multiples of four
    size_t shared;         // dynamic
};

constexpr size_t sharedOf(unsigned int side)
{
    return static_cast<size_t>(side) * (side + 1) * 4;
}

constexpr Path kPaths[] = {
    {"copy", copy, 32, 256, true, 0},
    {"naive", naive, 32, 256, false, 0},
    {"tile", tiled<kTile>, 32, 256, false, 0},
    {"padded", tiled<kPitch>, 32, 256, false, 0},
    {"wide32", wide<32, 2, 1>, 32, 64, true, sharedOf(32)},
    {"wide32b", wide<32, 4, 1>, 32, 128, true, sharedOf(32)},
    {"wide64", wide<64, 8, 1>, 64, 256, true, sharedOf(64)},
    {"wide64b", wide<64, 16, 1>, 64, 512, true, sharedOf(64)},
    {"wide64g8", wide<64, 8, 8>, 64, 256, true, sharedOf(64)},
    {"wide64g32", wide<64, 8, 32>, 64, 256, true, sharedOf(64)},
    {"wide64bg8", wide<64, 16, 8>, 64, 512, true, sharedOf(64)},
    {"wide64all", wide<64, 8, 100000>, 64, 256, true, sharedOf(64)},
    {"wide128", wide<128, 16, 1>, 128, 512, true, sharedOf(128)},
    {"wide128b", wide<128, 32, 1>, 128, 1024, true, sharedOf(128)},
    {"wide128g8", wide<128, 16, 8>, 128, 512, true, sharedOf(128)},
    {"wide96", wide<96, 12, 1>, 96, 384, true, sharedOf(96)},
    {"wide96g8", wide<96, 12, 8>, 96, 384, true, sharedOf(96)},
};
constexpr size_t kPathCount = sizeof(kPaths) / sizeof(kPaths[0]);
constexpr size_t kCopy = 0;

static bool takes(const Path &path, const Size &size)
{
    return !path.fours ||
           (size.rows % kVector == 0 && size.cols % kVector == 0);
}

static void launch(const Path &path, const Size &size,
                   const unsigned int *d_in, unsigned int *d_out)
{
    const dim3 grid(
        static_cast<unsigned int>((size.cols + path.side - 1) / path.side),
        static_cast<unsigned int>((size.rows + path.side - 1) / path.side));
    path.kernel<<<grid, dim3(kTile, path.threads / kTile), path.shared>>>(
        d_in, d_out, size.rows, size.cols);
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
                                  bool turned, unsigned long long *d_wrong)
{
    unsigned long long wrong = 0;
    CUDA_CHECK(cudaMemset(d_wrong, 0, sizeof(wrong)));
    countWrong<<<1024, kThreads>>>(d_got, size.rows, size.cols, turned,
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
    launch(path, size, d_in, d_out);
    CUDA_CHECK(cudaDeviceSynchronize());
    const unsigned long long after = wrongIn(d_out, size, p != kCopy, d_wrong);
    std::printf("  %-9s  %9zu  %12llu  %11llu\n", path.name, count, before,
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

    const auto launchMs = [&](const Path &path) {
        float ms = 0.0f;
        launch(path, size, d_in, d_out);
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            launch(path, size, d_in, d_out);
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
            const double ms = launchMs(kPaths[p]);
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

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    for (const Path &path : kPaths) {
        if (path.shared > 48 * 1024) {
            CUDA_CHECK(cudaFuncSetAttribute(
                path.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                static_cast<int>(path.shared)));
        }
    }
    Failure failure;
    unsigned int *d_in = nullptr;
    unsigned int *d_out = nullptr;
    unsigned long long *d_wrong = nullptr;
    const size_t most = size_t{16384} * 16384;
    const size_t bytes = most * sizeof(unsigned int);
    CUDA_CHECK(cudaMalloc(&d_in, bytes));
    CUDA_CHECK(cudaMalloc(&d_out, bytes));
    CUDA_CHECK(cudaMalloc(&d_wrong, sizeof(unsigned long long)));
    fillNumbers<<<1024, kThreads>>>(d_in, most);
    CUDA_CHECK(cudaGetLastError());
    for (const Size &size : kSizes) {
        if (quick && size.rows > kQuickLargest) {
            continue;
        }
        std::printf("\ncase %zu x %zu\n", size.rows, size.cols);
        for (size_t p = 0; p < kPathCount && failure.what == nullptr; ++p) {
            if (takes(kPaths[p], size)) {
                judgePath(p, size, d_in, d_out, d_wrong, &failure);
            }
        }
        if (failure.what == nullptr && size.timed) {
            Spread spreads[kPathCount];
            timeAll(size, d_in, d_out, spreads);
            for (size_t p = 0; p < kPathCount; ++p) {
                std::printf("  %-9s  %9.4f  %9.4f  %9.4f  %9.1f\n",
                            kPaths[p].name, spreads[p].median,
                            spreads[p].least, spreads[p].most,
                            2.0 * static_cast<double>(size.rows * size.cols) *
                                4.0 / (spreads[p].median * 1e-3) / kGiga);
            }
        }
    }
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s: %s at %zu x %zu: %llu\n", failure.path,
                     failure.what, failure.size.rows, failure.size.cols,
                     failure.count);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
