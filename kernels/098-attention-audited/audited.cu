// SPDX-License-Identifier: MIT
//
// Day 98: day 97 audited. Its online kernel is right and slow. Five things are
// looked into, one step each, and every step has to show its gain or its cost:
//
//   day 97     the kernel as it was, its running state in local memory
//   unrolled   the loops over a warp's rows unrolled: the state in registers
//   swizzled   the K tile without padding: a XOR keeps 32 lanes in 32 banks
//   four rows  a warp owns 4 rows, not 8: twice as many blocks
//   two rows   a warp owns 2 rows: four times as many
//   any n      four rows, and guards: n need not be a multiple of anything
//
// All steps compute one head of O = softmax(Q K^T / sqrt(d)) V, FP32, d = 64.
// They are judged by day 97's reference, in double precision on the CPU, and by
// day 66's rule with K = n: rtol = max(1e-5, 4 * 2^-23 * sqrt(n)). Where n is
// a multiple of 64, each step is also compared with day 97's kernel, all rows.
// What lies behind the last row of O is checked to be untouched.
//
// Inputs are day 97's flat case, where the last tile moves the maximum of about
// a quarter of the rows, although day 97's comment on the large key sounds like
// all of them; its Q x 64, here called peaked; and one in which the last key
// has the highest score of every row, here called spiked. The program counts.
//
// The arithmetic about a T4, where day 97's padding costs a multiprocessor its
// second block, is done by the compiler: see the static_asserts.
//
// The file exists to hold a change against its reason. What a loop's pragma
// does to the clock is printed here; that local memory, L2 traffic and shared
// loads went with it is what a profiler counts.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o audited audited.cu
// Run: ./audited

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

constexpr size_t kHeadDim = 64;   // the head width of many published models
constexpr float kScale = 0.125f;  // 1 / sqrt(kHeadDim), exact in binary

constexpr unsigned int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;

constexpr unsigned int kRowsPerWarp = 8;         // query rows a warp owns
constexpr unsigned int kOnlineThreads = 256;
constexpr unsigned int kOnlineWarps = kOnlineThreads / kWarp;
constexpr unsigned int kQueryTile = kRowsPerWarp * kOnlineWarps;
constexpr unsigned int kKeyTile = kWarp;         // a lane scores one key
constexpr unsigned int kKeyPitch = kHeadDim + 1; // padded: day 15

// Tiles of Q, K and V of a block whose warps own `rows` rows each.
constexpr size_t sharedBytes(unsigned int rows, size_t keyPitch)
{
    return sizeof(float) * (rows * kOnlineWarps * kHeadDim +
                            kKeyTile * keyPitch + kKeyTile * kHeadDim);
}

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t n;
    size_t refRows;     // rows that get a reference; they divide n
    bool allInputs;     // peaked and spiked as well as flat
    int shortLaunches;  // lengths of the two timed graphs: long enough to
    int longLaunches;   // drown a replay's jitter, short enough to be over
};

// 100 and 1000 leave a key tile and a query tile unfinished, 4097 begins a new
// one of each for a single key and a single row. At 4096 day 97's grid has 64
// blocks, at 16384 it has 256. A reference costs one CPU thread 2 n d
// multiply-adds a row, so the larger sizes get a sample.
constexpr Size kSizes[] = {
    {100, 100, true, 20, 100}, {256, 256, true, 20, 100},
    {1000, 1000, true, 5, 25}, {1024, 1024, true, 5, 25},
    {4096, 512, true, 2, 10},  {4097, 241, true, 2, 10},
    {16384, 256, false, 1, 3},
};

enum class Input { kFlat, kPeaked, kSpiked };
constexpr Input kInputs[] = {Input::kFlat, Input::kPeaked, Input::kSpiked};
constexpr const char *kInputNames[] = {"flat", "peaked", "spiked"};

constexpr float kPeakedFactor = 64.0f;  // expf overflows without a maximum

// Periods are primes: they divide no size. A row comes round after as many
// rows as the period has, since the head width shares no factor with it. The
// flat case leaves it at that. In the others the amplitude then changes with a
// second prime period, so no two rows are alike.
constexpr size_t kPeriodQ = 97;
constexpr size_t kPeriodK = 89;
constexpr size_t kPeriodV = 83;
constexpr size_t kSlowPeriod = 199;
constexpr size_t kSpikeFromEnd = 3;   // key n - 3, as day 97 has it
constexpr float kSpikeFactor = 3.0f;  // as large as three ordinary keys

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 21;  // odd: the median is one of the samples
constexpr int kWarmups = 2;   // replays of each graph before the first

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiga = 1e9;

constexpr bool sizesFit()
{
    for (const Size &size : kSizes) {
        if (size.n % size.refRows != 0) {
            return false;
        }
    }
    return true;
}

static_assert(sizesFit(), "rows with a reference are spread evenly");
static_assert(kHeadDim == 64 && kScale == 0.125f,
              "the scale is written out for d = 64");
static_assert(kHeadDim == 2 * kWarp, "a lane owns two output dimensions");
static_assert(kKeyTile == kWarp, "a lane scores one key of a tile");
static_assert((kHeadDim & (kHeadDim - 1)) == 0 && kKeyTile <= kHeadDim,
              "a XOR with a key's number stays inside its row");
static_assert(sharedBytes(kRowsPerWarp, kKeyPitch) <= 48 * 1024,
              "static shared memory ends at 48 KiB");

// snippet: two-blocks
constexpr size_t kPaddedBytes = sharedBytes(kRowsPerWarp, kKeyPitch);
constexpr size_t kSwizzledBytes = sharedBytes(kRowsPerWarp, kHeadDim);
constexpr size_t kT4Shared = 65536;  // of a multiprocessor, CUDA's guide
constexpr size_t kT4Threads = 1024;

static_assert(kPaddedBytes == 32896 && kT4Shared / kPaddedBytes == 1,
              "padded, a T4's multiprocessor holds one block");
static_assert(kSwizzledBytes == 32768 && kT4Shared / kSwizzledBytes == 2,
              "without the padding it would hold two");
// end snippet

// --- Small helpers ----------------------------------------------------------

__device__ float warpMax(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
    }
    return value;
}

__device__ float warpSum(float value)
{
    for (unsigned int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(kFullWarp, value, offset);
    }
    return value;
}

// Where dimension d of a key lies in its row of the K tile. Unpadded rows of 64
// floats all begin at bank 0; XOR with the key's number puts one dimension of
// 32 keys into 32 banks, and 32 neighbouring dimensions of one key as well.
// snippet: swizzle
template <bool kSwizzle>
__device__ unsigned int placeOf(unsigned int key, unsigned int d)
{
    return kSwizzle ? d ^ key : d;
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// Day 97's kernel, word for word. O in one pass over the keys. A block owns 64
// query rows, a warp 8 of them; a lane scores one key of a tile of 32 and owns
// output dimensions lane and lane + 32 of each of its warp's rows.
// Memory: a warp loads 32 neighbouring floats of Q, K or V. K's rows are padded
// to 65 floats, so that 32 lanes reading one dimension of 32 keys hit 32 banks
// (day 15); Q is read by broadcast, V in neighbouring floats. The tiles take
// 32,896 bytes. K and V are asked for once per block, n / 64 times in all. The
// running state lies in local memory, since the loop that indexes it is not
// unrolled: read and written once per row and tile.
// Launch assumption: 256 threads, grid n / 64, n a multiple of 64. No thread
// leaves early: barriers and full-warp shuffles follow everywhere.
__global__ void attentionOnline(const float *__restrict__ q,
                                const float *__restrict__ k,
                                const float *__restrict__ v,
                                float *__restrict__ o, size_t n)
{
    __shared__ float tileQ[kQueryTile][kHeadDim];
    __shared__ float tileK[kKeyTile][kKeyPitch];
    __shared__ float tileV[kKeyTile][kHeadDim];

    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    const unsigned int firstRow = tid / kWarp * kRowsPerWarp;
    const size_t firstQuery = static_cast<size_t>(blockIdx.x) * kQueryTile;

    for (unsigned int i = tid; i < kQueryTile * kHeadDim;
         i += kOnlineThreads) {
        tileQ[i / kHeadDim][i % kHeadDim] = q[firstQuery * kHeadDim + i];
    }

    float runMax[kRowsPerWarp];  // the largest score so far
    float runSum[kRowsPerWarp];  // the weights' sum, relative to runMax
    float acc[kRowsPerWarp][2];  // this lane's two dimensions of the output
    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        runMax[r] = -INFINITY;
        runSum[r] = 0.0f;
        acc[r][0] = 0.0f;
        acc[r][1] = 0.0f;
    }

    for (size_t firstKey = 0; firstKey < n; firstKey += kKeyTile) {
        for (unsigned int i = tid; i < kKeyTile * kHeadDim;
             i += kOnlineThreads) {
            tileK[i / kHeadDim][i % kHeadDim] = k[firstKey * kHeadDim + i];
            tileV[i / kHeadDim][i % kHeadDim] = v[firstKey * kHeadDim + i];
        }
        __syncthreads();  // the tiles are there

        for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
            float score = 0.0f;
            for (unsigned int d = 0; d < kHeadDim; ++d) {
                score += tileQ[firstRow + r][d] * tileK[lane][d];
            }
            score *= kScale;

            // At the first tile, expf(-infinity) = 0 wipes the empty state.
            const float newMax = fmaxf(runMax[r], warpMax(score));
            const float rescale = expf(runMax[r] - newMax);
            const float weight = expf(score - newMax);
            runMax[r] = newMax;
            runSum[r] = runSum[r] * rescale + warpSum(weight);
            acc[r][0] *= rescale;
            acc[r][1] *= rescale;
            for (unsigned int key = 0; key < kKeyTile; ++key) {
                const float w = __shfl_sync(kFullWarp, weight, key);
                acc[r][0] += w * tileV[key][lane];
                acc[r][1] += w * tileV[key][lane + kWarp];
            }
        }
        __syncthreads();  // the tiles may be overwritten
    }

    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        const size_t row = firstQuery + firstRow + r;
        o[row * kHeadDim + lane] = acc[r][0] / runSum[r];
        o[row * kHeadDim + lane + kWarp] = acc[r][1] / runSum[r];
    }
}

// The same, audited: a warp owns kRows rows and the loops over them are
// unrolled; the K tile is padded or swizzled; with guards, n is any number
// above 0.
// Memory: as before, K and V once per block, n / (8 kRows) times in all. Since
// all rows of a tile are now in one piece of code, an element of K or V that a
// lane has loaded from shared memory serves all of the warp's rows: fewer rows
// per warp, more loads per row.
// Launch assumption: 256 threads, grid ceil(n / (8 kRows)); without guards n is
// a multiple of 8 kRows. No thread leaves early: one whose row does not exist
// works on zeros and stores nothing.
template <unsigned int kRows, bool kSwizzle, bool kGuard>
__global__ void attentionAudited(const float *__restrict__ q,
                                 const float *__restrict__ k,
                                 const float *__restrict__ v,
                                 float *__restrict__ o, size_t n)
{
    constexpr unsigned int kTileRows = kRows * kOnlineWarps;
    constexpr unsigned int kPitch = kSwizzle ? kHeadDim : kKeyPitch;
    __shared__ float tileQ[kTileRows][kHeadDim];
    __shared__ float tileK[kKeyTile][kPitch];
    __shared__ float tileV[kKeyTile][kHeadDim];

    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    const unsigned int firstRow = tid / kWarp * kRows;
    const size_t firstQuery = static_cast<size_t>(blockIdx.x) * kTileRows;

    for (unsigned int i = tid; i < kTileRows * kHeadDim;
         i += kOnlineThreads) {
        const bool there = !kGuard || firstQuery + i / kHeadDim < n;
        tileQ[i / kHeadDim][i % kHeadDim] =
            there ? q[firstQuery * kHeadDim + i] : 0.0f;
    }

    // snippet: state
    float runMax[kRows];  // the largest score so far
    float runSum[kRows];  // the weights' sum, relative to runMax
    float acc[kRows][2];  // this lane's two dimensions of the output
#pragma unroll
    for (unsigned int r = 0; r < kRows; ++r) {
        runMax[r] = -INFINITY;
        runSum[r] = 0.0f;
        acc[r][0] = 0.0f;
        acc[r][1] = 0.0f;
    }
    // end snippet

    for (size_t firstKey = 0; firstKey < n; firstKey += kKeyTile) {
        // snippet: guarded-tiles
        for (unsigned int i = tid; i < kKeyTile * kHeadDim;
             i += kOnlineThreads) {
            const unsigned int key = i / kHeadDim;
            const unsigned int d = i % kHeadDim;
            const bool there = !kGuard || firstKey + key < n;
            tileK[key][placeOf<kSwizzle>(key, d)] =
                there ? k[firstKey * kHeadDim + i] : 0.0f;
            tileV[key][d] = there ? v[firstKey * kHeadDim + i] : 0.0f;
        }
        // end snippet
        __syncthreads();  // the tiles are there

#pragma unroll
        for (unsigned int r = 0; r < kRows; ++r) {
            // snippet: guarded-score
            float score = 0.0f;
            for (unsigned int d = 0; d < kHeadDim; ++d) {
                score += tileQ[firstRow + r][d] *
                         tileK[lane][placeOf<kSwizzle>(lane, d)];
            }
            score *= kScale;
            if (kGuard && firstKey + lane >= n) {
                score = -INFINITY;  // a key that does not exist weighs 0
            }
            // end snippet

            const float newMax = fmaxf(runMax[r], warpMax(score));
            const float rescale = expf(runMax[r] - newMax);
            const float weight = expf(score - newMax);
            runMax[r] = newMax;
            runSum[r] = runSum[r] * rescale + warpSum(weight);
            acc[r][0] *= rescale;
            acc[r][1] *= rescale;
            for (unsigned int key = 0; key < kKeyTile; ++key) {
                const float w = __shfl_sync(kFullWarp, weight, key);
                acc[r][0] += w * tileV[key][lane];
                acc[r][1] += w * tileV[key][lane + kWarp];
            }
        }
        __syncthreads();  // the tiles may be overwritten
    }

#pragma unroll
    for (unsigned int r = 0; r < kRows; ++r) {
        const size_t row = firstQuery + firstRow + r;
        if (!kGuard || row < n) {
            o[row * kHeadDim + lane] = acc[r][0] / runSum[r];
            o[row * kHeadDim + lane + kWarp] = acc[r][1] / runSum[r];
        }
    }
}

// --- Steps ------------------------------------------------------------------

using Kernel = void (*)(const float *, const float *, const float *, float *,
                        size_t);

struct Step {
    const char *name;
    unsigned int rows;  // per warp
    bool anyN;
    Kernel kernel;
};

// snippet: steps
constexpr Step kSteps[] = {
    {"day 97", kRowsPerWarp, false, attentionOnline},
    {"unrolled", 8, false, attentionAudited<8, false, false>},
    {"swizzled", 8, false, attentionAudited<8, true, false>},
    {"four rows", 4, false, attentionAudited<4, true, false>},
    {"two rows", 2, false, attentionAudited<2, true, false>},
    {"any n", 4, true, attentionAudited<4, true, true>},
};
// end snippet
constexpr size_t kStepCount = sizeof(kSteps) / sizeof(kSteps[0]);

static size_t blocksFor(const Step &step, size_t n)
{
    const size_t rows = step.rows * kOnlineWarps;
    return (n + rows - 1) / rows;
}

static bool takes(const Step &step, size_t n)
{
    return step.anyN || n % kQueryTile == 0;
}

// --- CPU reference ----------------------------------------------------------

// Which query row the i-th reference row belongs to: one row from every
// stretch of n / refRows rows, each time one place further on in the stretch,
// so that a sample meets every warp of a block and every row of a warp. Counted
// from the end, since a ragged size's last row is the one that goes wrong. All
// rows when refRows == n.
static size_t rowFromEnd(size_t i, const Size &size)
{
    const size_t stretch = size.n / size.refRows;
    return size.n - 1 - (i * stretch + i % stretch);
}

// One row of attention in double precision. Leaves the row's scores in
// `scores` and returns the effective number of keys, (sum w)^2 / sum w^2: n if
// all weights are equal, 1 if one key has all the weight.
static double referenceRow(const double *q, const std::vector<double> &k,
                           const std::vector<double> &v, size_t n,
                           double *scores, double *out)
{
    double best = -HUGE_VAL;
    for (size_t key = 0; key < n; ++key) {
        double dot = 0.0;
        for (size_t d = 0; d < kHeadDim; ++d) {
            dot += q[d] * k[key * kHeadDim + d];
        }
        scores[key] = dot / std::sqrt(static_cast<double>(kHeadDim));
        best = std::max(best, scores[key]);
    }

    double total = 0.0;
    double squares = 0.0;
    std::fill(out, out + kHeadDim, 0.0);
    for (size_t key = 0; key < n; ++key) {
        const double weight = std::exp(scores[key] - best);
        total += weight;
        squares += weight * weight;
        for (size_t d = 0; d < kHeadDim; ++d) {
            out[d] += weight * v[key * kHeadDim + d];
        }
    }
    for (size_t d = 0; d < kHeadDim; ++d) {
        out[d] /= total;
    }
    return total * total / squares;
}

// What the running maximum does on its way over the tiles.
struct TileWatch {
    size_t movedLast = 0;          // rows in which the last tile moves it
    size_t moves = 0;              // tiles after the first that move it
    double smallestRescale = 1.0;  // the strongest scaling down
    double largestScore = -HUGE_VAL;
    double effectiveKeys = 0.0;    // summed over rows
};

static void watchTiles(const std::vector<double> &scores, TileWatch *watch)
{
    const size_t n = scores.size();
    double runMax = -HUGE_VAL;
    for (size_t firstKey = 0; firstKey < n; firstKey += kKeyTile) {
        const size_t end = std::min(firstKey + kKeyTile, n);
        double tileMax = -HUGE_VAL;
        for (size_t key = firstKey; key < end; ++key) {
            tileMax = std::max(tileMax, scores[key]);
        }
        if (firstKey > 0 && tileMax > runMax) {
            watch->smallestRescale =
                std::min(watch->smallestRescale, std::exp(runMax - tileMax));
            ++watch->moves;
            if (end == n) {
                ++watch->movedLast;
            }
        }
        runMax = std::max(runMax, tileMax);
    }
    watch->largestScore = std::max(watch->largestScore, runMax);
}

// --- Inputs -----------------------------------------------------------------

// Element i of a matrix: a step through 0 .. period - 1, centred on the middle
// (for distinct rows a little off it, so that no value is 0). Distinct rows
// have amplitudes of 1 to 1.4 times `unit`.
static float inputAt(size_t i, size_t period, size_t step, float unit,
                     bool distinct)
{
    const float place = static_cast<float>(i * step % period);
    const float centre = static_cast<float>(period / 2);
    if (!distinct) {
        return unit * (place - centre);
    }
    const size_t lap = i / (period * kHeadDim);
    const float amplitude =
        1.0f + static_cast<float>(lap * 37 % kSlowPeriod) / 512.0f;
    return unit * amplitude * (place - centre - 0.3f);
}

struct Host {
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    std::vector<float> o[kStepCount];  // with what lies behind the last row
};

// The units give scores between -2 and 2 before anything is enlarged; the steps
// are ones for which a row's scores neither repeat soon nor all lie close to 0.
static void fillInputs(size_t n, Input input, Host *host)
{
    const size_t count = n * kHeadDim;
    host->q.resize(count);
    host->k.resize(count);
    host->v.resize(count);
    const bool distinct = input != Input::kFlat;
    const size_t stepQ = distinct ? 23 : 9;
    const size_t stepK = distinct ? 34 : 23;
    const float unit = distinct ? 0.015f : 0.02f;
    const float factor = input == Input::kPeaked ? kPeakedFactor : 1.0f;
    for (size_t i = 0; i < count; ++i) {
        host->q[i] = factor * inputAt(i, kPeriodQ, stepQ, unit, distinct);
        host->k[i] = inputAt(i, kPeriodK, stepK, unit, distinct);
        host->v[i] = inputAt(i, kPeriodV, 31, 0.02f, distinct);
    }
    if (input == Input::kSpiked) {
        // A large key alone is not enough: where a row points away from it, its
        // score is the lowest. So dimension 0 of every query is made about 1,
        // and the last key has nothing else. Its score is about ln n, others
        // are mostly below 2: it weighs about as much as all the others do.
        const double score = std::log(static_cast<double>(n));
        for (size_t row = 0; row < n; ++row) {
            host->q[row * kHeadDim] = 1.0f + host->q[row * kHeadDim] / 16.0f;
        }
        for (size_t d = 0; d < kHeadDim; ++d) {
            host->k[(n - 1) * kHeadDim + d] =
                d == 0 ? static_cast<float>(score) / kScale : 0.0f;
        }
    } else {
        for (size_t d = 0; d < kHeadDim; ++d) {
            host->k[(n - kSpikeFromEnd) * kHeadDim + d] *= kSpikeFactor;
        }
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
    size_t index = 0;  // of the worst fraction, in the n x d output
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
    const char *step = nullptr;
    size_t n = 0;
    Input input = Input::kFlat;
    Worst worst;
};

// --- Launches ---------------------------------------------------------------

// Rows behind the end of O: as many as a whole tile could write too many.
constexpr size_t kSpareRows = kQueryTile;

struct Buffers {
    float *d_q = nullptr;
    float *d_k = nullptr;
    float *d_v = nullptr;
    float *d_o[kStepCount] = {};
};

// Q, K and V get exactly their size. A read behind the end of one is an error
// to memcheck only where no other allocation begins, so each is followed by a
// gap, which is given back when all are in place.
static void allocate(size_t n, const Host &host, Buffers *b)
{
    const size_t head = n * kHeadDim * sizeof(float);
    const size_t spare = kSpareRows * kHeadDim * sizeof(float);
    const std::vector<float> *inputs[] = {&host.q, &host.k, &host.v};
    float **places[] = {&b->d_q, &b->d_k, &b->d_v};
    float *gaps[] = {nullptr, nullptr, nullptr};
    for (size_t i = 0; i < 3; ++i) {
        CUDA_CHECK(cudaMalloc(places[i], head));
        CUDA_CHECK(cudaMalloc(&gaps[i], spare));
        CUDA_CHECK(cudaMemcpy(*places[i], inputs[i]->data(), head,
                              cudaMemcpyHostToDevice));
    }
    // Every byte 0xff is a NaN in every element: what a kernel does not write
    // cannot pass, and what it writes behind the end is seen.
    for (float *&d_o : b->d_o) {
        CUDA_CHECK(cudaMalloc(&d_o, head + spare));
        CUDA_CHECK(cudaMemset(d_o, 0xff, head + spare));
    }
    for (float *gap : gaps) {
        CUDA_CHECK(cudaFree(gap));
    }
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_q));
    CUDA_CHECK(cudaFree(b.d_k));
    CUDA_CHECK(cudaFree(b.d_v));
    for (float *d_o : b.d_o) {
        CUDA_CHECK(cudaFree(d_o));
    }
}

static void launch(size_t step, size_t n, const Buffers &b,
                   cudaStream_t stream)
{
    const unsigned int blocks =
        static_cast<unsigned int>(blocksFor(kSteps[step], n));
    kSteps[step].kernel<<<blocks, kOnlineThreads, 0, stream>>>(
        b.d_q, b.d_k, b.d_v, b.d_o[step], n);
    CUDA_CHECK(cudaGetLastError());
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

static cudaGraphExec_t graphOfStep(size_t step, int launches, size_t n,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(step, n, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times the steps that take this n beside each other. A step's time is the
// slope between a short and a long graph of launches, so what a replay and its
// events cost cancels out. The steps take turns, forwards and backwards, so
// that a drifting clock meets all of them.
static void timeSteps(const Size &size, const Buffers &b,
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

    std::vector<size_t> steps;
    std::vector<cudaGraphExec_t> shortGraphs;
    std::vector<cudaGraphExec_t> longGraphs;
    for (size_t step = 0; step < kStepCount; ++step) {
        if (!takes(kSteps[step], size.n)) {
            continue;
        }
        steps.push_back(step);
        shortGraphs.push_back(
            graphOfStep(step, size.shortLaunches, size.n, b, stream));
        longGraphs.push_back(
            graphOfStep(step, size.longLaunches, size.n, b, stream));
        for (int w = 0; w < kWarmups; ++w) {
            replayMs(shortGraphs.back());
            replayMs(longGraphs.back());
        }
    }

    std::vector<std::vector<double>> slopes(steps.size());
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (size_t turn = 0; turn < steps.size(); ++turn) {
            const size_t i = repeat % 2 == 0 ? turn : steps.size() - 1 - turn;
            const double msShort = replayMs(shortGraphs[i]);
            const double msLong = replayMs(longGraphs[i]);
            slopes[i].push_back((msLong - msShort) /
                                (size.longLaunches - size.shortLaunches));
        }
    }

    for (size_t i = 0; i < steps.size(); ++i) {
        spreads[steps[i]] = spreadOf(slopes[i]);
        CUDA_CHECK(cudaGraphExecDestroy(shortGraphs[i]));
        CUDA_CHECK(cudaGraphExecDestroy(longGraphs[i]));
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Kernel statistics and counts -------------------------------------------

static cudaFuncAttributes attributesOf(const Step &step)
{
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(step.kernel)));
    return attributes;
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
    for (const Step &step : kSteps) {
        printKernel(step.name, reinterpret_cast<const void *>(step.kernel),
                    kOnlineThreads, device);
    }
}

// What each resource of a multiprocessor of this GPU would allow by itself. The
// least of the three is the number of blocks. Registers are given to warps in
// lots of 256.
static void printLimits(const cudaDeviceProp &device)
{
    std::printf("\nlimits: blocks that fit a multiprocessor of this GPU\n");
    std::printf("  %-9s  %12s  %9s  %10s\n", "step", "by registers",
                "by shared", "by threads");
    for (const Step &step : kSteps) {
        const cudaFuncAttributes attributes = attributesOf(step);
        const int perWarp =
            (attributes.numRegs * static_cast<int>(kWarp) + 255) / 256 * 256;
        const int warps = device.regsPerMultiprocessor / std::max(perWarp, 1);
        const size_t shared =
            attributes.sharedSizeBytes + device.reservedSharedMemPerBlock;
        std::printf("  %-9s  %12d  %9zu  %10d\n", step.name,
                    warps / static_cast<int>(kOnlineWarps),
                    device.sharedMemPerMultiprocessor /
                        std::max(shared, size_t{1}),
                    device.maxThreadsPerMultiProcessor /
                        static_cast<int>(kOnlineThreads));
    }
}

static void printT4()
{
    std::printf("\nT4: blocks that fit its multiprocessor, by arithmetic\n");
    std::printf("  shared memory   %zu B   (of a multiprocessor)\n\n",
                kT4Shared);
    std::printf("  %-8s  %14s  %10s  %9s  %10s\n", "K tile", "pitch (floats)",
                "shared (B)", "by shared", "by threads");
    std::printf("  %-8s  %14u  %10zu  %9zu  %10zu\n", "padded", kKeyPitch,
                kPaddedBytes, kT4Shared / kPaddedBytes,
                kT4Threads / kOnlineThreads);
    std::printf("  %-8s  %14zu  %10zu  %9zu  %10zu\n", "swizzled", kHeadDim,
                kSwizzledBytes, kT4Shared / kSwizzledBytes,
                kT4Threads / kOnlineThreads);
}

// Bytes by arithmetic. The floor touches Q, K, V and O once. The ask is what
// all blocks request: Q and O once, K and V once per block. The state is what
// local memory is asked for where it lies there: four floats of each lane, read
// and written once per row and tile.
static void printBytes(size_t n)
{
    const size_t head = n * kHeadDim * sizeof(float);
    const size_t tiles = (n + kKeyTile - 1) / kKeyTile;
    std::printf("\nbytes n = %zu: counted, not measured\n", n);
    std::printf("  floor of every step   %zu B\n\n", 4 * head);
    std::printf("  %-9s  %6s  %11s  %11s\n", "step", "blocks", "ask (B)",
                "state (B)");
    for (const Step &step : kSteps) {
        if (!takes(step, n)) {
            continue;
        }
        const size_t blocks = blocksFor(step, n);
        const size_t state = attributesOf(step).localSizeBytes == 0
                                 ? 0
                                 : 2 * 4 * kWarp * n * tiles * sizeof(float);
        std::printf("  %-9s  %6zu  %11zu  %11zu\n", step.name, blocks,
                    2 * head + 2 * head * blocks, state);
    }
}

// --- One case ---------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static bool wanted(const Size &size, Input input, Mode mode)
{
    if (mode == Mode::kQuick) {
        return size.n <= 256;  // one that is ragged, and one that is not
    }
    if (mode == Mode::kOnce) {
        return input == Input::kFlat && size.n % 4096 == 0;
    }
    return input == Input::kFlat || size.allInputs;
}

struct Verdict {
    TileWatch watch;
    double maxReference = 0.0;
    Gate gate;
    Worst zeros;  // what an answer of nothing but zeros would get
    Worst steps[kStepCount];
    Worst pairs[kStepCount];  // against day 97's kernel, all rows
    Worst behind[kStepCount]; // the first float written behind the end
    size_t touched = 0;       // how many there are
};

static void judgeBehind(size_t n, const std::vector<float> &o, Worst *worst,
                        size_t *touched)
{
    for (size_t i = n * kHeadDim; i < o.size(); ++i) {
        unsigned int bits = 0;
        std::memcpy(&bits, &o[i], sizeof(bits));
        if (bits != 0xffffffffu) {
            if (worst->frac == 0.0) {
                *worst = {HUGE_VAL, HUGE_VAL, i, static_cast<double>(o[i]),
                          static_cast<double>(NAN)};
            }
            ++*touched;
        }
    }
}

static Verdict judgeCase(const Size &size, const Host &host)
{
    Verdict verdict;
    const std::vector<double> q(host.q.begin(), host.q.end());
    const std::vector<double> k(host.k.begin(), host.k.end());
    const std::vector<double> v(host.v.begin(), host.v.end());
    std::vector<double> scores(size.n);
    std::vector<double> reference(size.refRows * kHeadDim);
    for (size_t i = 0; i < size.refRows; ++i) {
        double *out = &reference[i * kHeadDim];
        verdict.watch.effectiveKeys +=
            referenceRow(&q[rowFromEnd(i, size) * kHeadDim], k, v, size.n,
                         scores.data(), out);
        watchTiles(scores, &verdict.watch);
    }
    for (const double value : reference) {
        verdict.maxReference = std::max(verdict.maxReference,
                                        std::fabs(value));
    }

    const Gate gate = {rtolFor(size.n), rtolFor(size.n) * verdict.maxReference};
    verdict.gate = gate;
    for (size_t i = 0; i < reference.size(); ++i) {
        const size_t row = rowFromEnd(i / kHeadDim, size);
        const size_t index = row * kHeadDim + i % kHeadDim;
        judge(0.0, reference[i], index, gate, &verdict.zeros);
        for (size_t step = 0; step < kStepCount; ++step) {
            if (takes(kSteps[step], size.n)) {
                judge(host.o[step][index], reference[i], index, gate,
                      &verdict.steps[step]);
            }
        }
    }
    for (size_t step = 0; step < kStepCount; ++step) {
        if (!takes(kSteps[step], size.n)) {
            continue;
        }
        judgeBehind(size.n, host.o[step], &verdict.behind[step],
                    &verdict.touched);
        for (size_t i = 0; i < size.n * kHeadDim; ++i) {
            if (takes(kSteps[0], size.n)) {
                judge(host.o[step][i], host.o[0][i], i, gate,
                      &verdict.pairs[step]);
            }
        }
    }
    return verdict;
}

static void printVerdict(const Size &size, const Verdict &verdict)
{
    const TileWatch &watch = verdict.watch;
    const double rows = static_cast<double>(size.refRows);
    std::printf("  rows with a reference     %zu   (of %zu)\n", size.refRows,
                size.n);
    std::printf("  largest score             %.2f   (expf overflows above "
                "88.7)\n",
                watch.largestScore);
    std::printf("  effective keys, mean      %.1f   (n if all weigh the "
                "same)\n",
                watch.effectiveKeys / rows);
    std::printf("  moved by last tile        %zu   (rows whose maximum it "
                "moves)\n",
                watch.movedLast);
    std::printf("  share moved by last tile  %.1f %%\n",
                100.0 * static_cast<double>(watch.movedLast) / rows);
    std::printf("  tiles that move it, mean  %.2f\n",
                static_cast<double>(watch.moves) / rows);
    std::printf("  smallest rescale          %.3e\n", watch.smallestRescale);
    std::printf("  max |reference|           %.3e\n", verdict.maxReference);
    std::printf("  gate rtol                 %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(n)))\n",
                verdict.gate.rtol);
    std::printf("  gate atol                 %.3e   (rtol * max "
                "|reference|)\n",
                verdict.gate.atol);
    std::printf("  all zeros, gate frac      %.1f\n", verdict.zeros.frac);
    std::printf("  written behind the end    %zu   (floats)\n\n",
                verdict.touched);
}

// One row a step; a pair only where day 97's kernel takes this n, a time only
// where there is one.
static void printSteps(const Size &size, const Verdict &verdict,
                       const Spread *spreads)
{
    std::printf("  %-9s  %11s  %9s  %9s", "step", "max abs err", "gate frac",
                "pair frac");
    if (spreads != nullptr) {
        std::printf("  %9s  %9s  %9s  %14s", "time (ms)", "min (ms)",
                    "max (ms)", "rate (GFLOP/s)");
    }
    std::printf("\n");
    const double n = static_cast<double>(size.n);
    for (size_t step = 0; step < kStepCount; ++step) {
        if (!takes(kSteps[step], size.n)) {
            continue;
        }
        const Worst &worst = verdict.steps[step];
        std::printf("  %-9s  %11.3e  %9.4f", kSteps[step].name, worst.error,
                    worst.frac);
        if (takes(kSteps[0], size.n) && step > 0) {
            std::printf("  %9.4f", verdict.pairs[step].frac);
        } else {
            std::printf("  %9s", "-");
        }
        if (spreads != nullptr) {
            const Spread &spread = spreads[step];
            const double flops = 4.0 * n * n * kHeadDim;
            std::printf("  %9.5f  %9.5f  %9.5f  %14.1f", spread.median,
                        spread.least, spread.most,
                        flops / (spread.median * 1e-3) / kGiga);
        }
        std::printf("\n");
    }
}

static void findFailure(const Size &size, Input input, const Verdict &verdict,
                        Failure *failure)
{
    for (size_t step = 0; step < kStepCount && failure->what == nullptr;
         ++step) {
        const Worst &worst = verdict.steps[step];
        const Worst &pair = verdict.pairs[step];
        const Worst &behind = verdict.behind[step];
        // Written so that a fraction that is not a number fails as well.
        if (!(worst.frac <= 1.0)) {
            *failure = {"the reference", kSteps[step].name, size.n, input,
                        worst};
        } else if (!(pair.frac <= 1.0)) {
            *failure = {"day 97's kernel", kSteps[step].name, size.n, input,
                        pair};
        } else if (!(behind.frac <= 1.0)) {
            *failure = {"the end of O", kSteps[step].name, size.n, input,
                        behind};
        }
    }
}

// Runs every step that takes this n once, judges them, and times them if they
// are right. If they are not, `failure` says which and where.
static void runCase(const Size &size, Input input, Mode mode,
                    cudaStream_t stream, Failure *failure)
{
    Host host;
    Buffers b;
    fillInputs(size.n, input, &host);
    allocate(size.n, host, &b);
    const size_t floats = (size.n + kSpareRows) * kHeadDim;
    for (size_t step = 0; step < kStepCount; ++step) {
        host.o[step].resize(floats);
        if (takes(kSteps[step], size.n)) {
            launch(step, size.n, b, stream);
            CUDA_CHECK(cudaStreamSynchronize(stream));
        }
        CUDA_CHECK(cudaMemcpy(host.o[step].data(), b.d_o[step],
                              floats * sizeof(float),
                              cudaMemcpyDeviceToHost));
    }
    const Verdict verdict = judgeCase(size, host);
    std::printf("\ncase n = %zu, %s: every step that takes this n\n", size.n,
                kInputNames[static_cast<int>(input)]);
    printVerdict(size, verdict);
    findFailure(size, input, verdict, failure);
    Spread spreads[kStepCount];
    const bool timed = mode == Mode::kFull && input == Input::kFlat &&
                       failure->what == nullptr;
    if (timed) {
        timeSteps(size, b, stream, spreads);
    }
    printSteps(size, verdict, timed ? spreads : nullptr);
    release(b);
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    Mode mode = Mode::kFull;
    if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) {
        mode = Mode::kQuick;
    } else if (argc == 2 && std::strcmp(argv[1], "--once") == 0) {
        mode = Mode::kOnce;
    } else if (argc != 1) {
        std::fprintf(stderr,
                     "usage: audited [--quick | --once]\n"
                     "  --quick  the two smallest sizes, nothing timed\n"
                     "  --once   every kernel once per size, for profilers\n");
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
    std::printf("\nshape: one head, FP32\n");
    std::printf("  head width        %zu\n", kHeadDim);
    printT4();
    printKernels(device);
    printLimits(device);
    std::printf("\ntiming: the slope between a short and a long graph of "
                "launches, no cache cleared\n");
    std::printf("  repeats           %d   (time is the median of these "
                "slopes)\n",
                kRepeats);
    std::printf("  warm-up replays   %d   (of every graph)\n", kWarmups);

    Failure failure;
    cudaStream_t stream = nullptr;
    int passed = 0;
    CUDA_CHECK(cudaStreamCreate(&stream));
    for (const Size &size : kSizes) {
        for (const Input input : kInputs) {
            if (failure.what != nullptr || !wanted(size, input, mode)) {
                continue;
            }
            if (input == Input::kFlat) {
                printBytes(size.n);
            }
            runCase(size, input, mode, stream, &failure);
            passed += failure.what == nullptr ? 1 : 0;
        }
    }
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails against %s at n = %zu, %s: element %zu (row "
                     "%zu, dimension %zu) is %.9g, not %.9g, gate fraction "
                     "%.4g\n",
                     failure.step, failure.what, failure.n,
                     kInputNames[static_cast<int>(failure.input)],
                     worst.index, worst.index / kHeadDim,
                     worst.index % kHeadDim, worst.got, worst.want,
                     worst.frac);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
