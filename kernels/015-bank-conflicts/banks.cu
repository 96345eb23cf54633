// SPDX-License-Identifier: MIT
//
// Day 15: bank conflicts and padding. Shared memory has 32 banks of four bytes
// each: word w lies in bank w % 32. In one access a bank delivers one word.
// What does a warp pay if its lanes want several words of one bank?
//
// The sweep: lane l of a warp reads word s * l, for strides s from 0 to 33.
// The degree, how many different words the busiest bank has to deliver, is
// counted twice, by looking at all 32 addresses and by the formula gcd(s, 32);
// the two must agree. The time of the very reads is measured.
//
// The layouts: a tile of 32 x 32 floats, of which a warp reads a column. At a
// pitch of 32 that is stride 32. Padding makes the pitch 33. A swizzle leaves
// the pitch at 32 and stores column c of row r in place c XOR r.
//
// Predictions, written before the run: time follows the degree, so stride 32
// takes 32 times as long as stride 1; stride 0, where all lanes want one word,
// costs no more than stride 1; a column takes as long padded as swizzled.
//
// Each lane adds up what it reads, times a weight that changes from read to
// read, so that no two reads may be exchanged. All sums are of whole numbers
// that FP32 holds exactly: there is no tolerance.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o banks banks.cu
// Run: ./banks

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
constexpr unsigned int kBanks = 32;      // of four bytes each
constexpr unsigned int kThreads = 256;
constexpr unsigned int kWarps = kThreads / kWarp;
constexpr unsigned int kWords = 4096;    // 16 KiB of each block
constexpr unsigned int kMaxStride = 33;
constexpr unsigned int kReads = 32;      // of a lane, between two moves

// After each pass the reads begin 3 * 32 words further on, so that the
// compiler cannot keep what it read; a whole number of times round the banks,
// so that the pattern of banks stays.
constexpr unsigned int kMove = 3 * kBanks;
constexpr unsigned int kMoveMask = kWords / 2 - kBanks;

constexpr unsigned int kTile = 32;  // rows and columns
constexpr unsigned int kTileWords = kTile * kTile;
constexpr unsigned int kPaddedPitch = kTile + 1;

constexpr unsigned int kPasses = 128;     // 4096 reads of each lane
constexpr unsigned int kQuickPasses = 3;
constexpr unsigned int kQuickBlocks = 2;

// Word i holds i % 97: a prime, so no stride meets the same numbers again.
constexpr unsigned int kPeriod = 97;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 7;       // odd: the median is one of the samples
constexpr int kWarmupRounds = 2;  // of all paths, before the first sample
constexpr int kLaunches = 2;      // between two events; one more before them
constexpr double kGiga = 1e9;

static_assert(kThreads % kWarp == 0, "blocks are whole warps");
static_assert((kWords & (kWords - 1)) == 0 && kMoveMask % kBanks == 0,
              "the place wraps by a mask, a whole number of bank rows");
static_assert((kWarp - 1) * kMaxStride + (kReads - 1) * kBanks + kMoveMask <
                  kWords,
              "the last lane's last read is in the array");
static_assert(kReads == kTile && kTile == kWarp,
              "a pass of the swizzled kernel reads every column once");
static_assert(kPasses * (kPeriod - 1) * (kReads * (kReads + 1) / 2) <
                  (1 << 24),
              "FP32 holds whole numbers up to 2^24");

// --- Small helpers ----------------------------------------------------------

// Where element (row, col) of a 32 x 32 tile is stored.
// snippet: swizzle
__host__ __device__ inline unsigned int swizzled(unsigned int row,
                                                 unsigned int col)
{
    return row * kTile + (col ^ row);
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// Lane l reads words kStride * l + 32 * u for u = 0 .. 31, again and again from
// a place that moves on. The stride is a template parameter, so that every
// address is one register plus a constant, for every stride.
// Memory: in shared memory, the pattern under study; in global memory one
// float per thread at the end.
// Launch assumption: 256 threads, any grid.
template <int kStride>
__global__ void readStrided(float *__restrict__ out, unsigned int passes)
{
    __shared__ float words[kWords];
    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    for (unsigned int i = tid; i < kWords; i += kThreads) {
        words[i] = static_cast<float>(i % kPeriod);
    }
    __syncthreads();  // the words are there

    // snippet: strided
    float total = 0.0f;
    unsigned int at = kStride * lane;
    unsigned int moved = 0;
    for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (unsigned int u = 0; u < kReads; ++u) {
            const float weight = static_cast<float>(u + 1);
            total = fmaf(words[at + moved + u * kBanks], weight, total);
        }
        moved = (moved + kMove) & kMoveMask;
    }
    // end snippet
    out[blockIdx.x * kThreads + tid] = total;
}

// A warp reads the 32 columns of a swizzled tile, one after the other, again
// and again from another of four tiles: lane r reads element (r, u). XOR
// touches the low five bits only, so the place of (r, u) is that of (r, 0),
// XOR u, in any tile.
// Memory: a row is stored in its own 32 words in another order, so a warp that
// stores a row hits 32 banks. Column u lies in banks u XOR r, which are all
// different as well. It costs one XOR per access and no word of memory.
// Launch assumption: 256 threads, any grid.
__global__ void readSwizzled(float *__restrict__ out, unsigned int passes)
{
    __shared__ float words[kWords];
    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    for (unsigned int i = tid; i < kWords; i += kThreads) {
        const unsigned int first = i / kTileWords * kTileWords;
        const unsigned int row = i % kTileWords / kTile;
        words[first + swizzled(row, i % kTile)] =
            static_cast<float>(i % kPeriod);
    }
    __syncthreads();  // the tiles are there

    // snippet: swizzled-reads
    float total = 0.0f;
    unsigned int at = swizzled(lane, 0);
    for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (unsigned int u = 0; u < kReads; ++u) {
            const float weight = static_cast<float>(u + 1);
            total = fmaf(words[at ^ u], weight, total);
        }
        at = (at + kTileWords) & (kWords - 1);
    }
    // end snippet
    out[blockIdx.x * kThreads + tid] = total;
}

// --- Paths ------------------------------------------------------------------

using Kernel = void (*)(float *, unsigned int);

constexpr Kernel kKernels[] = {
    readStrided<0>,  readStrided<1>,  readStrided<2>,  readStrided<3>,
    readStrided<4>,  readStrided<5>,  readStrided<6>,  readStrided<7>,
    readStrided<8>,  readStrided<9>,  readStrided<10>, readStrided<11>,
    readStrided<12>, readStrided<13>, readStrided<14>, readStrided<15>,
    readStrided<16>, readStrided<17>, readStrided<18>, readStrided<19>,
    readStrided<20>, readStrided<21>, readStrided<22>, readStrided<23>,
    readStrided<24>, readStrided<25>, readStrided<26>, readStrided<27>,
    readStrided<28>, readStrided<29>, readStrided<30>, readStrided<31>,
    readStrided<32>, readStrided<33>, readSwizzled,
};
constexpr unsigned int kPaths = sizeof(kKernels) / sizeof(kKernels[0]);
constexpr unsigned int kSwizzled = kMaxStride + 1;
static_assert(kPaths == kMaxStride + 2, "a path is named by its stride");

// --- CPU reference ----------------------------------------------------------

// What each lane has to come to.
static std::vector<float> referenceOf(unsigned int path, unsigned int passes)
{
    std::vector<float> sums;
    for (unsigned int lane = 0; lane < kWarp; ++lane) {
        double total = 0.0;
        for (unsigned int pass = 0; pass < passes; ++pass) {
            for (unsigned int u = 0; u < kReads; ++u) {
                unsigned int word = path * lane + u * kBanks +
                                    ((pass * kMove) & kMoveMask);
                if (path == kSwizzled) {
                    word = pass * kTileWords % kWords + lane * kTile + u;
                }
                total += static_cast<double>(word % kPeriod) * (u + 1);
            }
        }
        sums.push_back(static_cast<float>(total));
    }
    return sums;
}

// --- Degrees ----------------------------------------------------------------

// The largest number of different words in one bank. Lanes that want the same
// word get it together, so a word counts once.
// snippet: degree
static unsigned int degreeOf(const std::vector<unsigned int> &words)
{
    unsigned int degree = 0;
    for (unsigned int bank = 0; bank < kBanks; ++bank) {
        std::vector<unsigned int> wanted;
        for (const unsigned int word : words) {
            if (word % kBanks == bank) {
                wanted.push_back(word);
            }
        }
        std::sort(wanted.begin(), wanted.end());
        const auto last = std::unique(wanted.begin(), wanted.end());
        const auto different = last - wanted.begin();
        degree = std::max(degree, static_cast<unsigned int>(different));
    }
    return degree;
}
// end snippet

static unsigned int strideDegree(unsigned int stride)
{
    std::vector<unsigned int> words;
    for (unsigned int lane = 0; lane < kWarp; ++lane) {
        words.push_back(stride * lane);
    }
    return degreeOf(words);
}

// The greatest common divisor of the stride and the number of banks, by
// Euclid. At stride 0 there is one word only.
static unsigned int formulaDegree(unsigned int stride)
{
    unsigned int a = stride == 0 ? 1 : stride;
    unsigned int b = kBanks;
    while (b != 0) {
        const unsigned int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct Layout {
    const char *name;
    unsigned int path;   // whose reads are those of a column
    unsigned int pitch;  // words from row to row
};

constexpr Layout kLayouts[] = {{"plain", kTile, kTile},
                               {"padded", kPaddedPitch, kPaddedPitch},
                               {"swizzled", kSwizzled, kTile}};

static unsigned int placeIn(const Layout &layout, unsigned int row,
                            unsigned int col)
{
    return layout.path == kSwizzled ? swizzled(row, col)
                                    : row * layout.pitch + col;
}

// The worst degree over all rows of a tile, or over all columns.
static unsigned int tileDegree(const Layout &layout, bool column)
{
    unsigned int worst = 0;
    for (unsigned int i = 0; i < kTile; ++i) {
        std::vector<unsigned int> words;
        for (unsigned int lane = 0; lane < kWarp; ++lane) {
            words.push_back(column ? placeIn(layout, lane, i)
                                   : placeIn(layout, i, lane));
        }
        worst = std::max(worst, degreeOf(words));
    }
    return worst;
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    unsigned int path = 0;
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

static void judgeDegrees(Failure *failure)
{
    for (unsigned int s = 0; s <= kMaxStride; ++s) {
        if (strideDegree(s) != formulaDegree(s) && failure->what == nullptr) {
            *failure = {"the degree", s, 0,
                        static_cast<double>(strideDegree(s)),
                        static_cast<double>(formulaDegree(s))};
        }
    }
}

// Every thread's sum, bit for bit. Returns how many were compared.
static size_t judgeSums(unsigned int path, unsigned int blocks,
                        unsigned int passes, float *d_out, Failure *failure)
{
    const size_t count = static_cast<size_t>(blocks) * kThreads;
    const std::vector<float> want = referenceOf(path, passes);
    std::vector<float> got(count, NAN);
    CUDA_CHECK(cudaMemset(d_out, 0xff, count * sizeof(float)));
    kKernels[path]<<<blocks, kThreads>>>(d_out, passes);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(got.data(), d_out, count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count && failure->what == nullptr; ++i) {
        if (!(got[i] == want[i % kWarp])) {
            *failure = {"a sum", path, i, static_cast<double>(got[i]),
                        static_cast<double>(want[i % kWarp])};
        }
    }
    return count;
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

// The paths take turns, forwards and backwards, so that a drifting clock meets
// all of them.
static void timeAll(unsigned int blocks, float *d_out, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](unsigned int path) {
        float ms = 0.0f;
        kKernels[path]<<<blocks, kThreads>>>(d_out, kPasses);
        CUDA_CHECK(cudaEventRecord(start));
        for (int i = 0; i < kLaunches; ++i) {
            kKernels[path]<<<blocks, kThreads>>>(d_out, kPasses);
        }
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPaths);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (unsigned int turn = 0; turn < kPaths; ++turn) {
            const unsigned int path =
                round % 2 == 0 ? turn : kPaths - 1 - turn;
            const double ms = launchMs(path);
            if (round >= 0) {
                samples[path].push_back(ms);
            }
        }
    }
    for (unsigned int path = 0; path < kPaths; ++path) {
        spreads[path] = spreadOf(samples[path]);
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
    for (const unsigned int path : {1u, kTile, kPaddedPitch, kSwizzled}) {
        char name[32];
        std::snprintf(name, sizeof(name),
                      path == kSwizzled ? "readSwizzled" : "readStrided<%u>",
                      path);
        printKernel(name, reinterpret_cast<const void *>(kKernels[path]),
                    kThreads, device);
    }
}

static void printDegrees()
{
    std::printf("\ndegrees: counted, not measured\n");
    std::printf("  %-8s  %6s  %7s\n", "stride", "degree", "formula");
    for (unsigned int s = 0; s <= kMaxStride; ++s) {
        std::printf("  s = %-4u  %6u  %7u\n", s, strideDegree(s),
                    formulaDegree(s));
    }
    std::printf("\nlayouts: of a tile, counted, not measured\n");
    std::printf("  %-8s  %5s  %10s  %13s\n", "layout", "words",
                "row degree", "column degree");
    for (const Layout &layout : kLayouts) {
        std::printf("  %-8s  %5u  %10u  %13u\n", layout.name,
                    kTile * layout.pitch, tileDegree(layout, false),
                    tileDegree(layout, true));
    }
}

static void printTimes(double reads, const Spread *spreads)
{
    std::printf("\ntiming: events around launches of one stride, the strides "
                "in turns\n");
    std::printf("  repeats    %d   (time is the median of these)\n", kRepeats);
    std::printf("  launches   %d   (in each, after one that is not timed)\n",
                kLaunches);
    std::printf("\nsweep: every lane reads as often at every stride\n");
    std::printf("  %-8s  %9s  %9s  %9s  %11s\n", "stride", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)");
    for (unsigned int s = 0; s <= kMaxStride; ++s) {
        const Spread &spread = spreads[s];
        std::printf("  s = %-4u  %9.4f  %9.4f  %9.4f  %11.1f\n", s,
                    spread.median, spread.least, spread.most,
                    reads * kWarp * sizeof(float) / (spread.median * 1e-3) /
                        kGiga);
    }
    std::printf("\ncolumns: of a tile, by its layout\n");
    std::printf("  %-8s  %9s  %9s  %9s\n", "layout", "time (ms)", "min (ms)",
                "max (ms)");
    for (const Layout &layout : kLayouts) {
        const Spread &spread = spreads[layout.path];
        std::printf("  %-8s  %9.4f  %9.4f  %9.4f\n", layout.name,
                    spread.median, spread.least, spread.most);
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
                     "usage: banks [--quick | --once]\n"
                     "  --quick  few blocks and passes, nothing timed\n"
                     "  --once   every path once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    // As many blocks as the GPU holds at once: none waits for another.
    int perSm = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &perSm, kKernels[1], static_cast<int>(kThreads), 0));
    const bool quick = mode == Mode::kQuick;
    const unsigned int blocks =
        quick ? kQuickBlocks
              : static_cast<unsigned int>(perSm * device.multiProcessorCount);
    const unsigned int passes = quick ? kQuickPasses : kPasses;
    const double reads =
        static_cast<double>(blocks) * kWarps * passes * kReads;
    std::printf("\nwork: of each stride\n");
    std::printf("  blocks            %u\n", blocks);
    std::printf("  reads per lane    %u\n", passes * kReads);
    std::printf("  reads by warps    %.0f   (instructions, in all)\n", reads);
    printKernels(device);
    printDegrees();

    Failure failure;
    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, static_cast<size_t>(blocks) * kThreads *
                                      sizeof(float)));
    judgeDegrees(&failure);
    size_t compared = 0;
    int passed = 0;
    for (unsigned int path = 0; path < kPaths && failure.what == nullptr;
         ++path) {
        compared += judgeSums(path, blocks, passes, d_out, &failure);
        passed += failure.what == nullptr ? 1 : 0;
    }
    std::printf("\ngate: every thread's sum, bit for bit, no tolerance\n");
    std::printf("  sums compared   %zu\n", compared);
    if (failure.what == nullptr && mode == Mode::kFull) {
        Spread spreads[kPaths];
        timeAll(blocks, d_out, spreads);
        printTimes(reads, spreads);
    }
    CUDA_CHECK(cudaFree(d_out));

    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s fails at path %u, thread %zu (lane %zu): %.0f, not "
                     "%.0f\n",
                     failure.what, failure.path, failure.index,
                     failure.index % kWarp, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
