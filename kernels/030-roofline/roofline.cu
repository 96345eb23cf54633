// SPDX-License-Identifier: MIT
//
// Day 30: the roofline of a GPU. How many bytes a second does this GPU move
// from memory to memory, out of memory, out of its L2 and out of its shared
// memory, and how many multiply-adds a second does it do? No data sheet is
// asked: every rate comes from a program whose work is beyond doubt, and whose
// result is checked bit for bit before it is timed. Later days say how good
// they are as a share of these rates.
//
// The copies: three kernels and cudaMemcpyAsync move the same buffer, far
// larger than the L2. They differ in how much a thread asks for before it
// waits. The fastest of them is the ceiling.
//
// The reads: one loop that adds up what it loads, over the whole buffer, and
// over and over a footprint that fits in the L2; then one that reads a tile in
// shared memory.
//
// The multiply-adds: eight independent chains per thread, all in registers.
//
// The sweep joins both: a kernel that loads a float, does k dependent
// multiply-adds to it and stores it. At small k memory should decide the rate,
// at large k arithmetic; the roof is the lower of the two ceilings.
//
// There is no tolerance: copies are exact, the sums are of whole numbers that
// FP32 holds exactly, and a fused multiply-add rounds once, on a CPU as on a
// GPU. One judge, a kernel, counts the elements whose bits are not as the CPU
// says; it must find every element wrong before a path has run, or it is not
// believed afterwards (day 8).
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o roofline roofline.cu
// Run: ./roofline

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
constexpr unsigned int kEach = 4;  // float4s that copyFour moves per thread

// Two buffers of this size; halved until both fit into half of what is free.
constexpr size_t kFullBytes = size_t{2} << 30;
constexpr size_t kQuickBytes = size_t{32} << 20;  // under sanitizers

// The L2 footprint is the largest power of two up to a quarter of the L2: the
// rest of it is left to whatever else passes through.
constexpr size_t kL2Share = 4;

constexpr unsigned int kTileVectors = 1024;  // 16 KiB per block
constexpr unsigned int kTileStep = 264;      // a block and 8 float4s further
constexpr unsigned int kSharedPasses = 8192;
constexpr unsigned int kSharedUnroll = 8;

constexpr unsigned int kChains = 8;   // 4 cycles of latency, twice over
constexpr unsigned int kUnroll = 32;  // 256 multiply-adds per loop overhead
constexpr unsigned int kFmaSteps = 32768;
constexpr unsigned int kQuickSteps = 256;  // also passes over the tile

// Multiply-adds by a number just above -1 change sign and mantissa each time
// and neither die out nor grow: what switches is as for ordinary data.
constexpr float kFactor = -1.0f + 1.0f / 65536.0f;
constexpr float kAddend = 0.75f;

// --- Cases ------------------------------------------------------------------

// Element i of the input is i % 97: a prime, so no stride and no block size
// meets the same numbers again, and all sums are of whole numbers.
constexpr unsigned int kPeriod = 97;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;     // odd: the median is one of the samples
constexpr int kWarmupRounds = 2; // of all paths, before the first sample
constexpr int kLaunches = 3;     // between two events; one more before them

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

static_assert(kFullBytes % kQuickBytes == 0 &&
                  (kQuickBytes & (kQuickBytes - 1)) == 0,
              "buffers are powers of two, so that whole blocks cover them");
static_assert(kQuickBytes % (sizeof(float4) * kThreads * kEach) == 0,
              "the copies have no guard");
static_assert((kTileVectors & (kTileVectors - 1)) == 0,
              "the place in the tile wraps by a mask");
static_assert(kTileStep % 8 == 0,
              "8 float4s are all 32 banks: no step causes a conflict");
static_assert(kSharedPasses % kSharedUnroll == 0 &&
                  kQuickSteps % kSharedUnroll == 0 &&
                  kFmaSteps % kUnroll == 0 && kQuickSteps % kUnroll == 0,
              "unrolled loops have no remainder");
static_assert(kSharedPasses * (kPeriod - 1) * 4 < (1 << 24),
              "a float counts whole numbers up to 2^24");

// --- Kernels ----------------------------------------------------------------

// x[i] = i % 97.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: any.
__global__ void fillPeriodic(float *__restrict__ x, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        x[i] = static_cast<float>(i % kPeriod);
    }
}

// Counts the elements whose bits are not those of table[i % period].
// Memory: a warp reads 32 neighbouring floats.
// Launch assumption: any.
__global__ void countWrong(const float *__restrict__ got,
                           const float *__restrict__ table,
                           unsigned int period, size_t count,
                           unsigned long long *__restrict__ wrong)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    unsigned long long mine = 0;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const unsigned int bits = __float_as_uint(got[i]);
        mine += bits == __float_as_uint(table[i % period]) ? 0 : 1;
    }
    if (mine > 0) {
        atomicAdd(wrong, mine);
    }
}

// y = x, one float4 per thread.
// Memory: a warp reads and writes 512 neighbouring bytes. A thread has 16 bytes
// on their way at a time.
// Launch assumption: 256 threads, one per float4.
__global__ void copyOne(const float4 *__restrict__ x, float4 *__restrict__ y)
{
    const size_t i =
        static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    y[i] = x[i];
}

// y = x, four float4s per thread.
// Memory: as copyOne; four loads are on their way before the first store waits
// for its data, 64 bytes a thread.
// Launch assumption: 256 threads, one per four float4s.
__global__ void copyFour(const float4 *__restrict__ x, float4 *__restrict__ y)
{
    // snippet: copy
    const size_t i =
        static_cast<size_t>(blockIdx.x) * kEach * kThreads + threadIdx.x;
    const float4 first = x[i];
    const float4 second = x[i + kThreads];
    const float4 third = x[i + 2 * kThreads];
    const float4 fourth = x[i + 3 * kThreads];
    y[i] = first;
    y[i + kThreads] = second;
    y[i + 2 * kThreads] = third;
    y[i + 3 * kThreads] = fourth;
    // end snippet
}

// y = x, by as many blocks as the GPU holds at once (day 5).
// Memory: as copyOne, and no block ever has to be replaced by another.
// Launch assumption: any.
__global__ void copyStrided(const float4 *__restrict__ x,
                            float4 *__restrict__ y, size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        y[i] = x[i];
    }
}

// This thread's share of the sum of `count` float4s, of which number i lies at
// x[i & mask]: with all bits set that is all of x, else the same part of it
// again and again. Four loads are on their way at a time. __ldcg goes past the
// L1, which could hold a multiprocessor's part of a small footprint.
__device__ float sumOf(const float4 *__restrict__ x, size_t count, size_t mask)
{
    // snippet: read
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    float total = 0.0f;
    for (; i + 3 * step < count; i += 4 * step) {
        const float4 a = __ldcg(&x[i & mask]);
        const float4 b = __ldcg(&x[(i + step) & mask]);
        const float4 c = __ldcg(&x[(i + 2 * step) & mask]);
        const float4 d = __ldcg(&x[(i + 3 * step) & mask]);
        total += (a.x + a.y) + (a.z + a.w) + (b.x + b.y) + (b.z + b.w);
        total += (c.x + c.y) + (c.z + c.w) + (d.x + d.y) + (d.z + d.w);
    }
    // end snippet
    for (; i < count; i += step) {
        const float4 a = __ldcg(&x[i & mask]);
        total += (a.x + a.y) + (a.z + a.w);
    }
    return total;
}

// The sum of a buffer, one part per thread. Two kernels of one loop, so that a
// profiler can tell them apart.
// Memory: a warp reads 512 neighbouring bytes; what a thread writes, one float
// after thousands, is not counted.
// Launch assumption: any.
__global__ void readDram(const float4 *__restrict__ x,
                         float *__restrict__ part, size_t count, size_t mask)
{
    part[blockIdx.x * blockDim.x + threadIdx.x] = sumOf(x, count, mask);
}

__global__ void readL2(const float4 *__restrict__ x, float *__restrict__ part,
                       size_t count, size_t mask)
{
    part[blockIdx.x * blockDim.x + threadIdx.x] = sumOf(x, count, mask);
}

// Reads a tile in shared memory again and again, from a place that moves on.
// Memory: a warp reads 32 neighbouring float4s, 8 of them at a time from all 32
// banks: 128 bytes a cycle and no conflict (day 15).
// Launch assumption: 256 threads, any grid.
__global__ void readShared(float *__restrict__ part, unsigned int passes)
{
    __shared__ float4 tile[kTileVectors];
    const unsigned int tid = threadIdx.x;
    for (unsigned int i = tid; i < kTileVectors; i += kThreads) {
        const unsigned int first = 4 * i;
        tile[i] = make_float4(static_cast<float>(first % kPeriod),
                              static_cast<float>((first + 1) % kPeriod),
                              static_cast<float>((first + 2) % kPeriod),
                              static_cast<float>((first + 3) % kPeriod));
    }
    __syncthreads();  // the tile is there

    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    unsigned int at = tid;
#pragma unroll 8
    for (unsigned int pass = 0; pass < passes; ++pass) {
        const float4 v = tile[at];
        total.x += v.x;
        total.y += v.y;
        total.z += v.z;
        total.w += v.w;
        at = (at + kTileStep) & (kTileVectors - 1);
    }
    part[blockIdx.x * kThreads + tid] =
        (total.x + total.y) + (total.z + total.w);
}

// Where chain c of a thread begins; sixty-fourths, so exact everywhere.
__host__ __device__ inline float chainStart(unsigned int thread,
                                            unsigned int c)
{
    return static_cast<float>(thread % kPeriod + kPeriod * c) / 64.0f;
}

// Eight chains of `steps` multiply-adds per thread, summed up and stored, or
// the compiler would remove them.
// Memory: none to speak of, one float per thread at the end.
// Launch assumption: 256 threads, any grid, steps a multiple of 32.
__global__ void fmaChains(float *__restrict__ out, float factor, float addend,
                          unsigned int steps)
{
    const unsigned int thread = blockIdx.x * kThreads + threadIdx.x;
    // snippet: fma-chains
    float x[kChains];
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        x[c] = chainStart(thread, c);
    }
    for (unsigned int s = 0; s < steps; s += kUnroll) {
#pragma unroll
        for (unsigned int u = 0; u < kUnroll; ++u) {
#pragma unroll
            for (unsigned int c = 0; c < kChains; ++c) {
                x[c] = fmaf(x[c], factor, addend);
            }
        }
    }
    // end snippet
    float total = 0.0f;
#pragma unroll
    for (unsigned int c = 0; c < kChains; ++c) {
        total += x[c];
    }
    out[thread] = total;
}

// y = x after kFmas dependent multiply-adds, for each of a float4's four parts.
// The count is a template parameter, so that the loop leaves no trace.
// Memory: as copyOne.
// Launch assumption: as copyOne.
template <int kFmas>
__global__ void intensity(const float4 *__restrict__ x,
                          float4 *__restrict__ y, float factor, float addend)
{
    // snippet: intensity
    const size_t i =
        static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
    float4 v = x[i];
#pragma unroll
    for (int k = 0; k < kFmas; ++k) {
        v.x = fmaf(v.x, factor, addend);
        v.y = fmaf(v.y, factor, addend);
        v.z = fmaf(v.z, factor, addend);
        v.w = fmaf(v.w, factor, addend);
    }
    y[i] = v;
    // end snippet
}

// --- Paths ------------------------------------------------------------------

struct Point {
    int fmas;  // per element, for 8 bytes moved
    void (*kernel)(const float4 *, float4 *, float, float);
};

// Doubling, and closer where the two ceilings should meet.
constexpr Point kPoints[] = {
    {1, intensity<1>},     {2, intensity<2>},     {4, intensity<4>},
    {8, intensity<8>},     {16, intensity<16>},   {32, intensity<32>},
    {48, intensity<48>},   {64, intensity<64>},   {80, intensity<80>},
    {96, intensity<96>},   {128, intensity<128>}, {192, intensity<192>},
    {256, intensity<256>},
};
constexpr int kPointCount = sizeof(kPoints) / sizeof(kPoints[0]);

enum Path {
    kCopyOne,
    kCopyFour,
    kCopyStrided,
    kMemcpy,
    kReadDram,
    kReadL2,
    kReadShared,
    kFma,
    kSweep  // and on: one for each of kPoints
};
constexpr int kPathCount = kSweep + kPointCount;
constexpr const char *kNames[kSweep] = {"one each", "four each", "strided",
                                        "memcpy",   "read",      "L2 read",
                                        "shared read", "fma"};

// Blocks of the kernels that fill the GPU exactly once.
struct Grids {
    unsigned int strided = 0;
    unsigned int dram = 0;
    unsigned int l2 = 0;
    unsigned int shared = 0;
    unsigned int fma = 0;
};

struct Buffers {
    size_t bytes = 0;      // of d_x, and of d_y
    size_t vectors = 0;    // float4s in each
    size_t l2Vectors = 0;  // float4s of the footprint in the L2
    size_t partCount = 0;  // most threads that leave a part
    unsigned int passes = 0;
    unsigned int steps = 0;
    Grids grids;
    float4 *d_x = nullptr;
    float4 *d_y = nullptr;
    float *d_part = nullptr;
    float *d_table = nullptr;
    unsigned long long *d_wrong = nullptr;
};

static void launch(int path, const Buffers &b, cudaStream_t stream)
{
    const unsigned int flat =
        static_cast<unsigned int>(b.vectors / kThreads);
    if (path == kCopyOne) {
        copyOne<<<flat, kThreads, 0, stream>>>(b.d_x, b.d_y);
    } else if (path == kCopyFour) {
        copyFour<<<flat / kEach, kThreads, 0, stream>>>(b.d_x, b.d_y);
    } else if (path == kCopyStrided) {
        copyStrided<<<b.grids.strided, kThreads, 0, stream>>>(b.d_x, b.d_y,
                                                              b.vectors);
    } else if (path == kMemcpy) {
        CUDA_CHECK(cudaMemcpyAsync(b.d_y, b.d_x, b.bytes,
                                   cudaMemcpyDeviceToDevice, stream));
    } else if (path == kReadDram) {
        readDram<<<b.grids.dram, kThreads, 0, stream>>>(
            b.d_x, b.d_part, b.vectors, ~size_t{0});
    } else if (path == kReadL2) {
        readL2<<<b.grids.l2, kThreads, 0, stream>>>(
            b.d_x, b.d_part, b.vectors, b.l2Vectors - 1);
    } else if (path == kReadShared) {
        readShared<<<b.grids.shared, kThreads, 0, stream>>>(b.d_part,
                                                            b.passes);
    } else if (path == kFma) {
        fmaChains<<<b.grids.fma, kThreads, 0, stream>>>(b.d_part, kFactor,
                                                        kAddend, b.steps);
    } else {
        kPoints[path - kSweep].kernel<<<flat, kThreads, 0, stream>>>(
            b.d_x, b.d_y, kFactor, kAddend);
    }
    CUDA_CHECK(cudaGetLastError());
}

// What one launch of a path moves or does, by arithmetic.
struct Work {
    double bytes = 0.0;
    double fmas = 0.0;
};

static Work workOf(int path, const Buffers &b)
{
    const double buffer = static_cast<double>(b.bytes);
    if (path <= kMemcpy) {
        return {2.0 * buffer, 0.0};
    }
    if (path == kReadDram || path == kReadL2) {
        return {buffer, 0.0};
    }
    if (path == kReadShared) {
        return {static_cast<double>(b.grids.shared) * kThreads * b.passes *
                    sizeof(float4),
                0.0};
    }
    if (path == kFma) {
        return {0.0, static_cast<double>(b.grids.fma) * kThreads * kChains *
                         b.steps};
    }
    const double floats = buffer / sizeof(float);
    return {2.0 * buffer, floats * kPoints[path - kSweep].fmas};
}

// --- CPU reference ----------------------------------------------------------

// What every path must leave behind: a table that the results repeat, with its
// period, or a sum.
static std::vector<float> tableOf(int path, const Buffers &b)
{
    std::vector<float> table;
    if (path == kReadShared) {
        for (unsigned int tid = 0; tid < kThreads; ++tid) {
            double total = 0.0;
            unsigned int at = tid;
            for (unsigned int pass = 0; pass < b.passes; ++pass) {
                for (unsigned int i = 4 * at; i < 4 * at + 4; ++i) {
                    total += i % kPeriod;
                }
                at = (at + kTileStep) & (kTileVectors - 1);
            }
            table.push_back(static_cast<float>(total));
        }
        return table;
    }
    for (unsigned int i = 0; i < kPeriod; ++i) {
        if (path == kFma) {
            float total = 0.0f;
            for (unsigned int c = 0; c < kChains; ++c) {
                float x = chainStart(i, c);
                for (unsigned int s = 0; s < b.steps; ++s) {
                    x = std::fmaf(x, kFactor, kAddend);
                }
                total += x;
            }
            table.push_back(total);
        } else {
            float x = static_cast<float>(i);
            const int fmas = path < kSweep ? 0 : kPoints[path - kSweep].fmas;
            for (int k = 0; k < fmas; ++k) {
                x = std::fmaf(x, kFactor, kAddend);
            }
            table.push_back(x);
        }
    }
    return table;
}

// The sum of the first `count` elements of the input.
static double sumOfInput(size_t count)
{
    const size_t laps = count / kPeriod;
    const size_t rest = count % kPeriod;
    const size_t perLap = kPeriod * (kPeriod - 1) / 2;
    return static_cast<double>(laps * perLap + rest * (rest - 1) / 2);
}

// --- Gates ------------------------------------------------------------------

static unsigned long long wrongIn(const float *d_got, unsigned int period,
                                  size_t count, const Buffers &b)
{
    unsigned long long wrong = 0;
    CUDA_CHECK(cudaMemset(b.d_wrong, 0, sizeof(wrong)));
    countWrong<<<b.grids.strided, kThreads>>>(d_got, b.d_table, period, count,
                                              b.d_wrong);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&wrong, b.d_wrong, sizeof(wrong),
                          cudaMemcpyDeviceToHost));
    return wrong;
}

static double sumOfParts(size_t count, const Buffers &b)
{
    std::vector<float> part(count);
    CUDA_CHECK(cudaMemcpy(part.data(), b.d_part, count * sizeof(float),
                          cudaMemcpyDeviceToHost));
    double total = 0.0;
    for (const float value : part) {
        total += static_cast<double>(value);
    }
    return total;
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    int path = 0;
    double got = 0.0;
    double want = 0.0;
};

static const char *nameOf(int path)
{
    return path < kSweep ? kNames[path] : "intensity";
}

// Runs a path once over results that are all NaN and judges it by its table.
// snippet: judge
static void judgeBits(int path, const Buffers &b, cudaStream_t stream,
                      Failure *failure)
{
    const bool parts = path == kReadShared || path == kFma;
    const unsigned int blocks =
        path == kFma ? b.grids.fma : b.grids.shared;
    const size_t count =
        parts ? static_cast<size_t>(blocks) * kThreads : 4 * b.vectors;
    float *d_got = parts ? b.d_part : &b.d_y->x;

    const std::vector<float> table = tableOf(path, b);
    const unsigned int period = static_cast<unsigned int>(table.size());
    CUDA_CHECK(cudaMemcpy(b.d_table, table.data(), period * sizeof(float),
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_got, 0xff, count * sizeof(float)));
    const unsigned long long before = wrongIn(d_got, period, count, b);
    launch(path, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const unsigned long long after = wrongIn(d_got, period, count, b);
    // end snippet

    const int fmas = path < kSweep ? 0 : kPoints[path - kSweep].fmas;
    char label[32];
    std::snprintf(label, sizeof(label), path < kSweep ? "%s" : "%s k = %d",
                  nameOf(path), fmas);
    std::printf("  %-17s  %9zu  %12llu  %11llu\n", label, count, before,
                after);
    if (before != count) {
        *failure = {"the judge does not see results that are not there", path,
                    static_cast<double>(before), static_cast<double>(count)};
    } else if (after != 0) {
        *failure = {"wrong elements", path, static_cast<double>(after), 0.0};
    }
}

// The same for a path that leaves parts of a sum. A NaN among them makes the
// sum one, and that is not equal to anything.
static void judgeSum(int path, const Buffers &b, cudaStream_t stream,
                     Failure *failure)
{
    const unsigned int blocks =
        path == kReadL2 ? b.grids.l2 : b.grids.dram;
    const size_t count = static_cast<size_t>(blocks) * kThreads;
    const size_t footprint = path == kReadL2 ? b.l2Vectors : b.vectors;
    const double laps = static_cast<double>(b.vectors / footprint);
    const double want = laps * sumOfInput(4 * footprint);
    CUDA_CHECK(cudaMemset(b.d_part, 0xff, b.partCount * sizeof(float)));
    launch(path, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const double got = sumOfParts(count, b);
    std::printf("  %-17s  %9zu  %12.0f  %11.0f\n", nameOf(path), count, want,
                got);
    if (!(got == want)) {
        *failure = {"sum", path, got, want};
    }
}

static int judgeAll(const Buffers &b, cudaStream_t stream, Failure *failure)
{
    int passed = 0;
    std::printf("\ngate: bit for bit, no tolerance\n");
    std::printf("  %-17s  %9s  %12s  %11s\n", "path", "elements",
                "wrong before", "wrong after");
    for (int path = 0; path < kPathCount && failure->what == nullptr;
         ++path) {
        if (path != kReadDram && path != kReadL2) {
            judgeBits(path, b, stream, failure);
            passed += failure->what == nullptr ? 1 : 0;
        }
    }
    if (failure->what == nullptr) {
        std::printf("\n  %-17s  %9s  %12s  %11s\n", "path", "parts",
                    "sum wanted", "sum");
        for (const int path : {kReadDram, kReadL2}) {
            if (failure->what == nullptr) {
                judgeSum(path, b, stream, failure);
                passed += failure->what == nullptr ? 1 : 0;
            }
        }
    }
    return passed;
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

// Times all paths beside each other: a sample is a few launches between two
// events, after one that leaves the caches as they are found by the next. The
// paths take turns, forwards and backwards, so that a drifting clock meets all
// of them.
static void timeAll(const Buffers &b, cudaStream_t stream, Spread *spreads)
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));

    const auto launchMs = [&](int path) {
        float ms = 0.0f;
        launch(path, b, stream);
        CUDA_CHECK(cudaEventRecord(start, stream));
        for (int i = 0; i < kLaunches; ++i) {
            launch(path, b, stream);
        }
        CUDA_CHECK(cudaEventRecord(stop, stream));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms) / kLaunches;
    };

    std::vector<std::vector<double>> samples(kPathCount);
    for (int round = -kWarmupRounds; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            const double ms = launchMs(path);
            if (round >= 0) {
                samples[static_cast<size_t>(path)].push_back(ms);
            }
        }
    }
    for (int path = 0; path < kPathCount; ++path) {
        spreads[path] = spreadOf(samples[static_cast<size_t>(path)]);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics and tables -------------------------------------------

static unsigned int residentBlocks(const void *kernel,
                                   const cudaDeviceProp &device)
{
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel, static_cast<int>(kThreads), 0));
    return static_cast<unsigned int>(blocks * device.multiProcessorCount);
}

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
    printKernel("copyOne", reinterpret_cast<const void *>(copyOne), kThreads,
                device);
    printKernel("copyFour", reinterpret_cast<const void *>(copyFour),
                kThreads, device);
    printKernel("copyStrided", reinterpret_cast<const void *>(copyStrided),
                kThreads, device);
    printKernel("readDram", reinterpret_cast<const void *>(readDram),
                kThreads, device);
    printKernel("readL2", reinterpret_cast<const void *>(readL2), kThreads,
                device);
    printKernel("readShared", reinterpret_cast<const void *>(readShared),
                kThreads, device);
    printKernel("fmaChains", reinterpret_cast<const void *>(fmaChains),
                kThreads, device);
    printKernel("intensity<1>", reinterpret_cast<const void *>(intensity<1>),
                kThreads, device);
    printKernel("intensity<256>",
                reinterpret_cast<const void *>(intensity<256>), kThreads,
                device);
}

static void printSizes(const cudaDeviceProp &device, const Buffers &b)
{
    std::printf("\nsizes: of each path's work\n");
    std::printf("  buffer              %zu B   (each of two)\n", b.bytes);
    std::printf("  buffer over L2      %.1fx\n",
                static_cast<double>(b.bytes) / device.l2CacheSize);
    std::printf("  L2 footprint        %zu B\n",
                b.l2Vectors * sizeof(float4));
    std::printf("  laps over it        %zu\n", b.vectors / b.l2Vectors);
    std::printf("  shared tile         %zu B   (of a block)\n",
                kTileVectors * sizeof(float4));
    std::printf("  chains per thread   %u\n", kChains);
    std::printf("  steps per chain     %u\n", b.steps);
}

static void printByteRate(const char *name, const Work &work,
                          const Spread &spread)
{
    std::printf("  %-11s  %12.0f  %9.4f  %9.4f  %9.4f  %11.1f\n", name,
                work.bytes, spread.median, spread.least, spread.most,
                work.bytes / (spread.median * 1e-3) / kGiga);
}

static void printByteHeader(const char *what)
{
    std::printf("  %-11s  %12s  %9s  %9s  %9s  %11s\n", what, "bytes (B)",
                "time (ms)", "min (ms)", "max (ms)", "rate (GB/s)");
}

// The ceilings, and how far the sweep stays below the roof they make.
static void printRates(const Buffers &b, const Spread *spreads)
{
    std::printf("\ntiming: events around launches of one path, the paths in "
                "turns\n");
    std::printf("  repeats    %d   (time is the median of these)\n", kRepeats);
    std::printf("  launches   %d   (in each, after one that is not timed)\n",
                kLaunches);

    int best = kCopyOne;
    std::printf("\ncopies: bytes read and bytes written, both counted\n");
    printByteHeader("copy");
    for (int path = kCopyOne; path <= kMemcpy; ++path) {
        printByteRate(kNames[path], workOf(path, b), spreads[path]);
        best = spreads[path].median < spreads[best].median ? path : best;
    }

    std::printf("\nceilings: measured; copy is the fastest of the copies\n");
    printByteHeader("memory");
    printByteRate("copy", workOf(best, b), spreads[best]);
    for (int path = kReadDram; path <= kReadShared; ++path) {
        printByteRate(kNames[path], workOf(path, b), spreads[path]);
    }
    const Work fma = workOf(kFma, b);
    const double copyRate =
        workOf(best, b).bytes / (spreads[best].median * 1e-3);
    const double fmaRate = 2.0 * fma.fmas / (spreads[kFma].median * 1e-3);
    std::printf("\n  %-11s  %12s  %9s  %9s  %9s  %14s\n", "arithmetic",
                "FMAs (inst)", "time (ms)", "min (ms)", "max (ms)",
                "rate (GFLOP/s)");
    std::printf("  %-11s  %12.0f  %9.4f  %9.4f  %9.4f  %14.0f\n", "fma",
                fma.fmas, spreads[kFma].median, spreads[kFma].least,
                spreads[kFma].most, fmaRate / kGiga);
    std::printf("\n  ridge of these rates   %.2f FLOP/B   (fma over copy)\n",
                fmaRate / copyRate);

    std::printf("\nsweep: k multiply-adds for every float loaded and stored\n");
    std::printf("  %-8s  %12s  %18s  %9s  %16s  %14s  %14s  %17s\n", "FMAs",
                "FMAs (inst)", "intensity (FLOP/B)", "time (ms)",
                "bandwidth (GB/s)", "rate (GFLOP/s)", "roof (GFLOP/s)",
                "rate of roof (%)");
    for (int i = 0; i < kPointCount; ++i) {
        const Spread &spread = spreads[kSweep + i];
        const Work work = workOf(kSweep + i, b);
        const double seconds = spread.median * 1e-3;
        const double flops = 2.0 * work.fmas;
        const double perByte = flops / work.bytes;
        const double rate = flops / seconds;
        const double roof = std::min(perByte * copyRate, fmaRate);
        std::printf("  k = %-4d  %12.0f  %18.2f  %9.4f  %16.1f  %14.1f  "
                    "%14.1f  %17.1f\n",
                    kPoints[i].fmas, work.fmas, perByte, spread.median,
                    work.bytes / seconds / kGiga, rate / kGiga, roof / kGiga,
                    100.0 * rate / roof);
    }
}

// --- Main -------------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static void allocate(Mode mode, const cudaDeviceProp &device, Buffers *b)
{
    size_t freeBytes = 0;
    size_t totalBytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&freeBytes, &totalBytes));
    b->bytes = mode == Mode::kQuick ? kQuickBytes : kFullBytes;
    while (4 * b->bytes > freeBytes && b->bytes > kQuickBytes) {
        b->bytes /= 2;
    }
    b->vectors = b->bytes / sizeof(float4);
    b->l2Vectors = b->vectors / 4;
    while (b->l2Vectors * sizeof(float4) * kL2Share >
               static_cast<size_t>(device.l2CacheSize) &&
           b->l2Vectors > kThreads) {
        b->l2Vectors /= 2;
    }
    b->passes = mode == Mode::kQuick ? kQuickSteps : kSharedPasses;
    b->steps = mode == Mode::kQuick ? kQuickSteps : kFmaSteps;

    b->grids.strided =
        residentBlocks(reinterpret_cast<const void *>(copyStrided), device);
    b->grids.dram =
        residentBlocks(reinterpret_cast<const void *>(readDram), device);
    b->grids.l2 =
        residentBlocks(reinterpret_cast<const void *>(readL2), device);
    b->grids.shared =
        residentBlocks(reinterpret_cast<const void *>(readShared), device);
    b->grids.fma =
        residentBlocks(reinterpret_cast<const void *>(fmaChains), device);
    b->partCount = static_cast<size_t>(device.multiProcessorCount) *
                   static_cast<size_t>(device.maxThreadsPerMultiProcessor);

    CUDA_CHECK(cudaMalloc(&b->d_x, b->bytes));
    CUDA_CHECK(cudaMalloc(&b->d_y, b->bytes));
    CUDA_CHECK(cudaMalloc(&b->d_part, b->partCount * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_table, kThreads * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_wrong, sizeof(unsigned long long)));
    fillPeriodic<<<b->grids.strided, kThreads>>>(&b->d_x->x, 4 * b->vectors);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaFree(b.d_part));
    CUDA_CHECK(cudaFree(b.d_table));
    CUDA_CHECK(cudaFree(b.d_wrong));
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
                     "usage: roofline [--quick | --once]\n"
                     "  --quick  small buffers, nothing timed\n"
                     "  --once   every path once, for profilers\n");
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

    Buffers b;
    Failure failure;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    allocate(mode, device, &b);
    printSizes(device, b);
    printKernels(device);
    const int passed = judgeAll(b, stream, &failure);
    if (failure.what == nullptr && mode == Mode::kFull) {
        Spread spreads[kPathCount];
        timeAll(b, stream, spreads);
        printRates(b, spreads);
    }

    release(b);
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s (path %d) fails: %s: %.0f, not %.0f\n",
                     nameOf(failure.path), failure.path, failure.what,
                     failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
