// SPDX-License-Identifier: MIT
//
// Day 22: what occupancy is worth. Twice: where a block more is worth its
// shared memory, and where it is worth nothing.
//
// The cliff: records of 32 numbers are split into 32 arrays, by way of a tile
// in shared memory. The tile is as large as two blocks per multiprocessor
// allow. Padded against bank conflicts (day 15) it is too large, and one block
// is left. Swizzled it keeps both, and so does a padded tile that holds fewer
// records.
//
// The sweep: the same multiply-adds as one chain per thread or as eight, with
// shared memory that nobody uses to keep blocks away. One chain needs many
// threads. Eight do not.
//
// Predictions, written before the run: padded with one block is a fifth slower
// than swizzled with two, and still faster than conflicts with two. Eight
// chains reach their best time with one block of 128 threads per
// multiprocessor, one chain with four blocks, and what comes after changes
// nothing.
//
// Elements are bits, all different, and judged on the GPU by a kernel that must
// find all of them wrong before a path has run. The chains are compared with
// the CPU bit for bit. There is no tolerance.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o cliff cliff.cu
// Run: ./cliff

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

// The tile: records of 32 fields. 896 rows are 112 KiB, and two blocks of an
// H200 may have 113 KiB each. With a word of padding per row only 864 fit.
constexpr unsigned int kFields = kWarp;
constexpr unsigned int kPitch = kFields + 1;
constexpr unsigned int kRows = 896;
constexpr unsigned int kFewerRows = 864;
constexpr unsigned int kSplitThreads = 512;
constexpr unsigned int kSplitWarps = kSplitThreads / kWarp;
constexpr unsigned int kLoads = 8;  // of a thread, on their way at once
constexpr size_t kRecords = 2112 * 896 - 5;  // ragged; 2112 = 16 * 132 blocks
constexpr size_t kQuickRecords = 2 * 896 - 5;

// The chains: one warp for each of a multiprocessor's four schedulers.
constexpr unsigned int kChainThreads = 128;
constexpr unsigned int kMultiplyAdds = 4096;  // of a thread
constexpr unsigned int kQuickMultiplyAdds = 64;
constexpr unsigned int kUnroll = 8;           // steps between two tests
constexpr unsigned int kBlocksPerSm = 48;     // divisible by those that fit
constexpr unsigned int kWanted[] = {1, 2, 3, 4, 6, 8, 12, 16};

// Factors just above -1 change sign and mantissa and neither die out nor grow.
constexpr float kFactor = -1.0f + 1.0f / 65536.0f;
constexpr float kAddend = 0.75f;
constexpr unsigned int kPeriod = 97;  // first numbers: no warp like its next

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;      // odd: the median is one of the samples
constexpr int kWarmupRounds = 1;  // of all paths, before the first sample
constexpr int kLaunches = 3;      // between two events; one more before them
constexpr double kGiga = 1e9;

static_assert(kRows % kWarp == 0 && kFewerRows % kWarp == 0,
              "a warp writes 32 records of one field");
static_assert(kQuickMultiplyAdds % (8 * kUnroll) == 0 &&
                  kMultiplyAdds % (8 * kUnroll) == 0,
              "eight chains have an eighth of the steps");
static_assert(kRecords * kFields < 0xffffffffu, "elements are 32 bits");

// --- Small helpers ----------------------------------------------------------

struct Limits {  // of a multiprocessor
    size_t threads;
    size_t shared;
    size_t reserved;  // of the shared memory, for each block
};

enum class Layout { kPlain, kPadded, kSwizzled };

// Where a field of a record lies in the tile.
template <Layout kLayout>
__device__ unsigned int placeOf(unsigned int row, unsigned int field)
{
    if (kLayout == Layout::kPadded) {
        return row * kPitch + field;
    }
    if (kLayout == Layout::kSwizzled) {
        return row * kFields + (field ^ (row % kFields));
    }
    return row * kFields + field;
}

// The first number of a chain.
__host__ __device__ inline float firstOf(unsigned int thread,
                                         unsigned int chain)
{
    return static_cast<float>(thread % kPeriod + chain * kPeriod + 1) / 1024.0f;
}

// --- Kernels ----------------------------------------------------------------

// Records into arrays: out[field][record] = in[record][field].
// Memory: a warp reads a record, 128 bytes, and writes one field of 32 records,
// 128 bytes. In the tile, a record is 32 neighbouring words, and a field of 32
// records is a column: 32 words of one bank if plain, of 32 banks otherwise.
// Launch assumption: 512 threads; grid = records / rows, rounded up; dynamic
// shared memory for kTileRows rows.
template <Layout kLayout, unsigned int kTileRows>
__global__ void split(const unsigned int *__restrict__ in,
                      unsigned int *__restrict__ out, size_t records,
                      size_t pitch)
{
    extern __shared__ unsigned int tile[];
    const unsigned int lane = threadIdx.x % kWarp;
    const unsigned int warp = threadIdx.x / kWarp;
    const size_t first = static_cast<size_t>(blockIdx.x) * kTileRows;
    const unsigned int rows = static_cast<unsigned int>(
        first + kTileRows < records ? kTileRows : records - first);
    // snippet: split
    for (unsigned int row = warp; row < rows; row += kLoads * kSplitWarps) {
        unsigned int kept[kLoads];
#pragma unroll
        for (unsigned int u = 0; u < kLoads; ++u) {
            const unsigned int r = row + u * kSplitWarps;
            kept[u] = r < rows ? in[(first + r) * kFields + lane] : 0u;
        }
#pragma unroll
        for (unsigned int u = 0; u < kLoads; ++u) {
            const unsigned int r = row + u * kSplitWarps;
            if (r < rows) {
                tile[placeOf<kLayout>(r, lane)] = kept[u];
            }
        }
    }
    __syncthreads();
    for (unsigned int field = warp; field < kFields; field += kSplitWarps) {
#pragma unroll 4
        for (unsigned int row = lane; row < rows; row += kWarp) {
            out[field * pitch + first + row] =
                tile[placeOf<kLayout>(row, field)];
        }
    }
    // end snippet
}

// Multiply-adds, each of which waits for the one before it in its chain.
// Memory: one float per thread at the end.
// Launch assumption: any; a thread has kChains * steps multiply-adds.
template <unsigned int kChains>
__global__ void chains(float *__restrict__ out, unsigned int steps)
{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float value[kChains];
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        value[c] = firstOf(thread, c);
    }
    // snippet: chains
    for (unsigned int step = 0; step < steps; step += kUnroll) {
#pragma unroll
        for (unsigned int u = 0; u < kUnroll; ++u) {
#pragma unroll
            for (unsigned int c = 0; c < kChains; ++c) {
                value[c] = fmaf(value[c], kFactor, kAddend);
            }
        }
    }
    // end snippet
    float total = 0.0f;
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        total = fmaf(value[c], static_cast<float>(c + 1), total);
    }
    out[thread] = total;
}

// Element i of the input is i + 1.
__global__ void fill(unsigned int *__restrict__ in, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        in[i] = static_cast<unsigned int>(i + 1);
    }
}

// Counts what is not as it has to be: elements, and behind the last record of
// each array the bits that were there.
__global__ void countWrong(const unsigned int *__restrict__ out,
                           size_t records, size_t pitch,
                           unsigned long long *__restrict__ wrong)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    unsigned long long mine = 0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < kFields * pitch; i += step) {
        const size_t record = i % pitch;
        const size_t want = record < records
                                ? record * kFields + i / pitch + 1
                                : 0xffffffffu;
        mine += out[i] == want ? 0 : 1;
    }
    atomicAdd(wrong, mine);
}

// --- Paths ------------------------------------------------------------------

using Split = void (*)(const unsigned int *, unsigned int *, size_t, size_t);

struct Path {
    const char *name;
    Split kernel;
    unsigned int rows;
    unsigned int pitch;
};

constexpr Path kPaths[] = {
    {"plain", split<Layout::kPlain, kRows>, kRows, kFields},
    {"padded", split<Layout::kPadded, kRows>, kRows, kPitch},
    {"padded, shorter", split<Layout::kPadded, kFewerRows>, kFewerRows, kPitch},
    {"swizzled", split<Layout::kSwizzled, kRows>, kRows, kFields},
};
constexpr size_t kPathCount = sizeof(kPaths) / sizeof(kPaths[0]);

constexpr size_t sharedOf(const Path &path)
{
    return static_cast<size_t>(path.rows) * path.pitch * sizeof(unsigned int);
}

using Chains = void (*)(float *, unsigned int);
constexpr Chains kChainKernels[] = {chains<1>, chains<8>};
constexpr unsigned int kChainCounts[] = {1, 8};
constexpr const char *kChainNames[] = {"one chain", "eight chains"};

// As much shared memory as leaves room for so many blocks and no more.
// snippet: ballast
static size_t ballastFor(size_t blocks, const Limits &limits)
{
    return (limits.shared / blocks - limits.reserved) / 128 * 128;
}
// end snippet

// --- CPU reference ----------------------------------------------------------

// What thread t has to leave, for t < 97.
static float chainsOf(unsigned int count, unsigned int steps, unsigned int t)
{
    float total = 0.0f;
    for (unsigned int c = 0; c < count; ++c) {
        float value = firstOf(t, c);
        for (unsigned int step = 0; step < steps; ++step) {
            value = std::fmaf(value, kFactor, kAddend);
        }
        total = std::fmaf(value, static_cast<float>(c + 1), total);
    }
    return total;
}

// --- Gates ------------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

static void expect(double got, double want, const char *what, size_t index,
                   Failure *failure)
{
    if (!(got == want) && failure->what == nullptr) {
        *failure = {what, index, got, want};
    }
}

static unsigned long long wrongIn(const unsigned int *d_out, size_t records,
                                  size_t pitch, unsigned long long *d_wrong)
{
    unsigned long long wrong = 0;
    CUDA_CHECK(cudaMemset(d_wrong, 0, sizeof(wrong)));
    countWrong<<<1024, 256>>>(d_out, records, pitch, d_wrong);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&wrong, d_wrong, sizeof(wrong),
                          cudaMemcpyDeviceToHost));
    return wrong;
}

// Every thread's result. Returns how many were compared.
static size_t judgeChains(unsigned int which, unsigned int blocks,
                          unsigned int multiplyAdds, float *d_sums,
                          Failure *failure)
{
    const unsigned int steps = multiplyAdds / kChainCounts[which];
    std::vector<float> want;
    for (unsigned int t = 0; t < kPeriod; ++t) {
        want.push_back(chainsOf(kChainCounts[which], steps, t));
    }
    std::vector<float> got(static_cast<size_t>(blocks) * kChainThreads, NAN);
    const size_t bytes = got.size() * sizeof(float);
    CUDA_CHECK(cudaMemset(d_sums, 0xff, bytes));
    kChainKernels[which]<<<blocks, kChainThreads>>>(d_sums, steps);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(got.data(), d_sums, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size(); ++i) {
        expect(got[i], want[i % kPeriod], "a chain", i, failure);
    }
    return got.size();
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
// all of them. launch(p) launches path p once.
template <typename Launch>
static std::vector<Spread> timeAll(size_t paths, Launch launch)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<std::vector<double>> samples(paths);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (size_t turn = 0; turn < paths; ++turn) {
            const size_t p = round % 2 == 0 ? turn : paths - 1 - turn;
            float ms = 0.0f;
            launch(p);
            CUDA_CHECK(cudaEventRecord(start));
            for (int i = 0; i < kLaunches; ++i) {
                launch(p);
            }
            CUDA_CHECK(cudaEventRecord(stop));
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaEventSynchronize(stop));
            CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
            if (round >= 0) {
                samples[p].push_back(static_cast<double>(ms) / kLaunches);
            }
        }
    }
    std::vector<Spread> spreads;
    for (const std::vector<double> &of : samples) {
        spreads.push_back(spreadOf(of));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    return spreads;
}

// --- Kernel statistics and tables -------------------------------------------

static size_t attributeOf(cudaDeviceAttr attribute)
{
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
    return static_cast<size_t>(value);
}

static void printKernelWith(const char *name, const void *kernel,
                            unsigned int threads, size_t shared,
                            const Limits &limits)
{
    cudaFuncAttributes attributes = {};
    int blocks = 0;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(threads), shared));
    std::printf("  %-15s  %9d  %9zu  %10zu  %9d  %13.1f\n", name,
                attributes.numRegs, attributes.localSizeBytes, shared, blocks,
                100.0 * blocks * threads /
                    static_cast<double>(limits.threads));
}

static void printKernels(const Limits &limits)
{
    std::printf("\nkernels: as compiled, shared memory as launched\n");
    std::printf("  %-15s  %9s  %9s  %10s  %9s  %13s\n", "kernel",
                "registers", "local (B)", "shared (B)", "blocks/SM",
                "occupancy (%)");
    for (const Path &path : kPaths) {
        printKernelWith(path.name, reinterpret_cast<const void *>(path.kernel),
                        kSplitThreads, sharedOf(path), limits);
    }
    for (size_t which = 0; which < 2; ++which) {
        printKernelWith(kChainNames[which],
                        reinterpret_cast<const void *>(kChainKernels[which]),
                        kChainThreads, 0, limits);
    }
}

// Each path's elements. Returns how many passed.
static int judgeSplits(size_t records, size_t pitch, const unsigned int *d_in,
                       unsigned int *d_out, unsigned long long *d_wrong,
                       Failure *failure)
{
    int passed = 0;
    std::printf("\nsplits: elements, judged on the GPU\n");
    std::printf("  %-15s  %9s  %12s  %11s\n", "path", "elements",
                "wrong before", "wrong after");
    for (const Path &path : kPaths) {
        CUDA_CHECK(cudaMemset(d_out, 0xff, kFields * pitch *
                                               sizeof(unsigned int)));
        const unsigned long long before =
            wrongIn(d_out, records, pitch, d_wrong);
        const size_t blocks = (records + path.rows - 1) / path.rows;
        path.kernel<<<static_cast<unsigned int>(blocks), kSplitThreads,
                      sharedOf(path)>>>(d_in, d_out, records, pitch);
        CUDA_CHECK(cudaGetLastError());
        const unsigned long long after =
            wrongIn(d_out, records, pitch, d_wrong);
        std::printf("  %-15s  %9zu  %12llu  %11llu\n", path.name,
                    records * kFields, before, after);
        expect(static_cast<double>(before),
               static_cast<double>(records * kFields),
               "elements wrong before path", passed, failure);
        expect(static_cast<double>(after), 0.0, "elements wrong after path",
               passed, failure);
        passed += failure->what == nullptr ? 1 : 0;
    }
    return passed;
}

static void timeSplits(size_t records, size_t pitch, const unsigned int *d_in,
                       unsigned int *d_out)
{
    const std::vector<Spread> spreads = timeAll(kPathCount, [&](size_t p) {
        const Path &path = kPaths[p];
        const size_t blocks = (records + path.rows - 1) / path.rows;
        path.kernel<<<static_cast<unsigned int>(blocks), kSplitThreads,
                      sharedOf(path)>>>(d_in, d_out, records, pitch);
    });
    std::printf("\ncliff: records into arrays, from DRAM\n");
    std::printf("  %-15s  %9s  %9s  %9s  %11s\n", "path", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)");
    for (size_t p = 0; p < kPathCount; ++p) {
        const double bytes = 2.0 * kFields * sizeof(unsigned int) *
                             static_cast<double>(records);
        std::printf("  %-15s  %9.4f  %9.4f  %9.4f  %11.1f\n", kPaths[p].name,
                    spreads[p].median, spreads[p].least, spreads[p].most,
                    bytes / (spreads[p].median * 1e-3) / kGiga);
    }
}

// The numbers of blocks that the ballast is to leave room for. What does not
// fit by threads is left out.
static std::vector<size_t> wantedOf(const Limits &limits)
{
    std::vector<size_t> wanted;
    for (const unsigned int blocks : kWanted) {
        if (blocks * kChainThreads <= limits.threads) {
            wanted.push_back(blocks);
        }
    }
    return wanted;
}

static void timeChains(unsigned int blocks, const Limits &limits,
                       float *d_sums)
{
    const std::vector<size_t> wanted = wantedOf(limits);
    const std::vector<Spread> spreads =
        timeAll(2 * wanted.size(), [&](size_t p) {
            const size_t shared = ballastFor(wanted[p / 2], limits);
            kChainKernels[p % 2]<<<blocks, kChainThreads, shared>>>(
                d_sums, kMultiplyAdds / kChainCounts[p % 2]);
        });
    const double count = static_cast<double>(blocks) * kChainThreads *
                         kMultiplyAdds;
    for (size_t which = 0; which < 2; ++which) {
        std::printf("\n%s: of each thread\n", kChainNames[which]);
        std::printf("  %-6s  %13s  %9s  %9s  %9s  %13s\n", "blocks",
                    "occupancy (%)", "time (ms)", "min (ms)", "max (ms)",
                    "rate (GFMA/s)");
        for (size_t i = 0; i < wanted.size(); ++i) {
            const Spread &spread = spreads[2 * i + which];
            std::printf("  b = %-2zu  %13.2f  %9.4f  %9.4f  %9.4f  %13.1f\n",
                        wanted[i],
                        100.0 * static_cast<double>(wanted[i]) *
                            kChainThreads / static_cast<double>(limits.threads),
                        spread.median, spread.least, spread.most,
                        count / (spread.median * 1e-3) / kGiga);
        }
    }
}

// The ballast must leave room for as many blocks as are wanted. Returns how
// many amounts do.
static int judgePlaces(const Limits &limits, Failure *failure)
{
    int passed = 0;
    std::printf("\nplaces: blocks per multiprocessor that ballast leaves\n");
    std::printf("  %-6s  %11s  %9s  %12s\n", "wanted", "ballast (B)",
                "one chain", "eight chains");
    for (const size_t wanted : wantedOf(limits)) {
        const size_t shared = ballastFor(wanted, limits);
        int blocks[2] = {};
        for (size_t which = 0; which < 2; ++which) {
            CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks[which], kChainKernels[which],
                static_cast<int>(kChainThreads), shared));
            expect(blocks[which], static_cast<double>(wanted),
                   "places with ballast", wanted, failure);
        }
        std::printf("  b = %-2zu  %11zu  %9d  %12d\n", wanted, shared,
                    blocks[0], blocks[1]);
        passed += failure->what == nullptr ? 1 : 0;
    }
    return passed;
}

// More than 48 KiB of dynamic shared memory have to be asked for.
static void allowShared(const void *kernel, size_t bytes)
{
    // snippet: allow
    CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(bytes)));
    // end snippet
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
                     "usage: cliff [--quick | --once]\n"
                     "  --quick  small sizes, nothing timed\n"
                     "  --once   every path once, for profilers\n");
        return 2;
    }
    const bool quick = mode == Mode::kQuick;

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    const size_t optIn = attributeOf(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (optIn < sharedOf(kPaths[1])) {
        std::fprintf(stderr, "a block may have %zu bytes of shared memory "
                     "here, and the tile has %zu\n", optIn,
                     sharedOf(kPaths[1]));
        return EXIT_FAILURE;
    }
    const Limits limits = {
        attributeOf(cudaDevAttrMaxThreadsPerMultiProcessor),
        attributeOf(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
        attributeOf(cudaDevAttrReservedSharedMemoryPerBlock)};
    for (const Path &path : kPaths) {
        allowShared(reinterpret_cast<const void *>(path.kernel),
                    sharedOf(path));
    }
    for (const Chains kernel : kChainKernels) {
        allowShared(reinterpret_cast<const void *>(kernel), optIn);
    }

    Failure failure;
    const size_t records = quick ? kQuickRecords : kRecords;
    const size_t pitch = (records + kWarp - 1) / kWarp * kWarp;
    const unsigned int sms =
        static_cast<unsigned int>(device.multiProcessorCount);
    const unsigned int blocks = quick ? 2 : kBlocksPerSm * sms;
    const unsigned int multiplyAdds =
        quick ? kQuickMultiplyAdds : kMultiplyAdds;
    unsigned int *d_in = nullptr;
    unsigned int *d_out = nullptr;
    float *d_sums = nullptr;
    unsigned long long *d_wrong = nullptr;
    CUDA_CHECK(cudaMalloc(&d_in, records * kFields * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_out, pitch * kFields * sizeof(unsigned int)));
    CUDA_CHECK(cudaMalloc(&d_sums, static_cast<size_t>(blocks) *
                                       kChainThreads * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_wrong, sizeof(unsigned long long)));
    fill<<<1024, 256>>>(d_in, records * kFields);
    CUDA_CHECK(cudaGetLastError());

    std::printf("\nwork: counted, not measured\n");
    std::printf("  records         %zu\n", records);
    std::printf("  bytes read      %zu B   (and as many written)\n",
                records * kFields * sizeof(unsigned int));
    std::printf("  multiply-adds   %zu inst   (as one chain or as eight)\n",
                static_cast<size_t>(blocks) * kChainThreads * multiplyAdds);
    printKernels(limits);
    int passed = judgePlaces(limits, &failure);
    passed += judgeSplits(records, pitch, d_in, d_out, d_wrong, &failure);
    std::printf("\ngate: every chain's result, bit for bit, no tolerance\n");
    for (unsigned int which = 0; which < 2; ++which) {
        std::printf("  %-12s   %zu   (threads compared)\n", kChainNames[which],
                    judgeChains(which, blocks, multiplyAdds, d_sums, &failure));
        passed += failure.what == nullptr ? 1 : 0;
    }
    if (failure.what == nullptr && mode == Mode::kFull) {
        std::printf("\ntiming: events around launches, the paths in turns\n");
        std::printf("  repeats    %d   (time is the median of these)\n",
                    kRepeats);
        std::printf("  launches   %d   (in each, after one not timed)\n",
                    kLaunches);
        timeSplits(records, pitch, d_in, d_out);
        timeChains(blocks, limits, d_sums);
    }
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_sums));
    CUDA_CHECK(cudaFree(d_wrong));

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s %zu: %.9g, not %.9g\n", failure.what,
                     failure.index, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
