// SPDX-License-Identifier: MIT
//
// Day 97: attention two ways. One head of O = softmax(Q K^T / sqrt(d)) V in
// FP32 with d = 64, on the ordinary cores, no tensor cores, for sequence
// lengths n from 256 to 16384.
//
// The naive path is three kernels with two n x n buffers between them:
// scoresQKt writes every score, softmaxRows turns each row into weights and
// stores its total, weightedV averages V with them.
//
// The online path is one kernel, attentionOnline, with no n x n buffer. It
// walks over the keys once and keeps, for each query row, the largest score
// so far, the sum of the weights so far and the unfinished output (day 72).
// When a larger score turns up, what was gathered so far is scaled down.
//
// Both are judged by one reference: double precision, on the CPU, a row at a
// time, the maximum subtracted. One output is a sum over n keys, so day 66's
// rule takes K = n, not the head width: rtol = max(1e-5, 4 * 2^-23 * sqrt(n)).
// Then the two paths are judged against each other by the same gate. Up to
// n = 4096 every row has a reference; the two larger sizes have one for 256
// rows each, and the comparison of the paths covers all of them.
//
// Flat inputs hide bugs: their softmax is nearly a plain average, and with
// 97 distinct query rows a mix-up of rows that far apart goes unseen. So the
// first three sizes also run with rows that are all distinct and Q 16 and 64
// times as large (powers of two, so the scores scale exactly), and the program
// counts how often the running maximum moves. At 64 times, the largest scores
// overflow expf unless a maximum is subtracted.
//
// The file exists to hold bytes against time. The naive path's blocks ask for
// 20 n^2 floats, the online path's for 2 n^2; the program prints both counts,
// and then what the clock says. Day 34 set the precedent: fewer reads do not
// have to be faster.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o attention attention.cu
// Run: ./attention

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

constexpr unsigned int kTile = 16;               // day 16's tile
constexpr unsigned int kTilePitch = kTile + 1;   // padded: see scoresQKt

constexpr unsigned int kSoftmaxThreads = 256;    // one block per row
constexpr unsigned int kSoftmaxWarps = kSoftmaxThreads / kWarp;

constexpr unsigned int kRowsPerWarp = 8;         // query rows a warp owns
constexpr unsigned int kOnlineThreads = 256;
constexpr unsigned int kOnlineWarps = kOnlineThreads / kWarp;
constexpr unsigned int kQueryTile = kRowsPerWarp * kOnlineWarps;
constexpr unsigned int kKeyTile = kWarp;         // a lane scores one key
constexpr unsigned int kKeyPitch = kHeadDim + 1; // padded: day 15

// Q tile 64 x 64, K tile 32 x 65, V tile 32 x 64: 16384 + 8320 + 8192 bytes.
constexpr size_t kOnlineShared =
    sizeof(float) * (kQueryTile * kHeadDim + kKeyTile * kKeyPitch +
                     kKeyTile * kHeadDim);

// --- Cases ------------------------------------------------------------------

struct Size {
    size_t n;
    size_t refRows;     // rows that get a reference
    bool peaked;        // also with Q 16 and 64 times as large
    int shortLaunches;  // lengths of the two timed graphs: long enough to
    int longLaunches;   // drown a replay's jitter, short enough to be over
};

// From 256 to 1024 to 4096 the score matrix grows sixteenfold; at 8192 and
// 16384 it has 256 MiB and 1 GiB, far more than an L2 cache holds. A reference
// costs one CPU thread 2 n d multiply-adds a row, so these two get a sample.
constexpr Size kSizes[] = {
    {256, 256, true, 10, 60},   {1024, 1024, true, 3, 15},
    {4096, 4096, true, 1, 5},   {8192, 256, false, 1, 3},
    {16384, 256, false, 1, 2},
};
constexpr size_t kMaxN = 16384;

// The flat case; where rescaling matters; where expf overflows without a
// maximum.
constexpr int kFactors[] = {1, 16, 64};

// Sequence lengths for which the cost of a score matrix is printed.
constexpr size_t kCostLengths[] = {8192, 32768, 131072, 1048576};

// Periods are primes: they divide no size. A row comes round after as many
// rows as the period has, since the head width shares no factor with it. The
// flat case leaves it at that. In the others the amplitude then changes with a
// second prime period, so no two rows are alike.
constexpr size_t kPeriodQ = 97;
constexpr size_t kPeriodK = 89;
constexpr size_t kPeriodV = 83;
constexpr size_t kSlowPeriod = 199;
constexpr size_t kSpikeFromEnd = 3;   // key n - 3: in the last tile
constexpr float kSpikeFactor = 3.0f;  // as large as three ordinary keys

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmups = 2;       // replays of each graph before the first
constexpr int kEmptyShort = 100;  // the empty kernel is all jitter, so its
constexpr int kEmptyLong = 1100;  // graphs are long

constexpr double kMiB = 1024.0 * 1024.0;
constexpr size_t kSpareBytes = size_t{256} << 20;  // left for the runtime

constexpr bool sizesFit()
{
    for (const Size &size : kSizes) {
        if (size.n % kQueryTile != 0 || size.n % kKeyTile != 0 ||
            size.n % kTile != 0 || size.n % size.refRows != 0 ||
            size.n > kMaxN) {
            return false;
        }
    }
    return true;
}

static_assert(sizesFit(), "no kernel has a guard: sizes divide the tiles");
static_assert(kHeadDim == 64 && kScale == 0.125f,
              "the scale is written out for d = 64");
static_assert(kHeadDim % kTile == 0, "the tiles cover the head width");
static_assert(kHeadDim == 2 * kWarp, "a lane owns two output dimensions");
static_assert(kKeyTile == kWarp, "a lane scores one key of a tile");
static_assert(kTile * kTile % kWarp == 0, "tile blocks are whole warps");
static_assert(kWarp % kSoftmaxWarps == 0, "lanes re-read the warps' parts");
static_assert(kOnlineShared == 32896, "the kernel's comment says this");
static_assert(kOnlineShared <= 48 * 1024,
              "static shared memory ends at 48 KiB");
static_assert(kPeriodV * kSlowPeriod >= kMaxN, "no row comes twice");

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

// --- Kernels ----------------------------------------------------------------

// S = Q K^T / sqrt(d), one thread per score, in day 16's tiles.
// Memory: a warp is two rows of a tile. It loads 16 neighbouring floats of two
// rows of Q and of K and stores 32 scores as two runs of 16. K's tile is kept
// transposed, so that the inner loop reads neighbouring keys from neighbouring
// banks. The store that transposes would hit 4 banks 8 times each at a pitch
// of 16; at 17 one pair of lanes still shares a bank. Every row of Q and K is
// asked for n / 16 times.
// Launch assumption: block (16, 16), grid (n / 16, n / 16), n a multiple of 16.
__global__ void scoresQKt(const float *__restrict__ q,
                          const float *__restrict__ k, float *__restrict__ s,
                          size_t n)
{
    __shared__ float tileQ[kTile][kTile];
    __shared__ float tileKt[kTile][kTilePitch];

    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + ty;
    const size_t firstKey = static_cast<size_t>(blockIdx.x) * kTile;

    // snippet: scores
    float acc = 0.0f;
    for (size_t d = 0; d < kHeadDim; d += kTile) {
        tileQ[ty][tx] = q[row * kHeadDim + d + tx];
        tileKt[tx][ty] = k[(firstKey + ty) * kHeadDim + d + tx];
        __syncthreads();
        for (unsigned int i = 0; i < kTile; ++i) {
            acc += tileQ[ty][i] * tileKt[i][tx];
        }
        __syncthreads();
    }
    s[row * n + firstKey + tx] = acc * kScale;
    // end snippet
}

// P = exp(S - row maximum) and each row's total. The division by it is left to
// weightedV, which has n x 64 outputs to divide, not n x n weights. P is a
// second buffer: in place, a second launch would read other inputs, and the
// kernel could not be timed in a loop.
// Memory: a warp reads 32 neighbouring scores. The row is read twice; the
// second pass finds it in a cache as long as one is large enough.
// Launch assumption: 256 threads, one block per row, any n.
__global__ void softmaxRows(const float *__restrict__ s, float *__restrict__ p,
                            float *__restrict__ rowSum, size_t n)
{
    __shared__ float partMax[kSoftmaxWarps];
    __shared__ float partSum[kSoftmaxWarps];

    const unsigned int tid = threadIdx.x;
    const unsigned int lane = tid % kWarp;
    const unsigned int warp = tid / kWarp;
    const size_t first = static_cast<size_t>(blockIdx.x) * n;

    float best = -INFINITY;
    for (size_t col = tid; col < n; col += kSoftmaxThreads) {
        best = fmaxf(best, s[first + col]);
    }
    best = warpMax(best);
    if (lane == 0) {
        partMax[warp] = best;
    }
    __syncthreads();  // every warp's maximum is there
    best = warpMax(partMax[lane % kSoftmaxWarps]);

    float total = 0.0f;
    for (size_t col = tid; col < n; col += kSoftmaxThreads) {
        const float weight = expf(s[first + col] - best);
        p[first + col] = weight;
        total += weight;
    }
    total = warpSum(total);
    if (lane == 0) {
        partSum[warp] = total;
    }
    __syncthreads();  // every warp's sum is there
    if (tid == 0) {
        total = 0.0f;
        for (unsigned int w = 0; w < kSoftmaxWarps; ++w) {
            total += partSum[w];
        }
        rowSum[blockIdx.x] = total;
    }
}

// O = P V / row total, one thread per output, in day 16's tiles.
// Memory: as in scoresQKt, without a transposition and so without padding.
// Four blocks cover the head width, so P is asked for four times; V is asked
// for n / 16 times.
// Launch assumption: block (16, 16), grid (4, n / 16), n a multiple of 16.
__global__ void weightedV(const float *__restrict__ p,
                          const float *__restrict__ rowSum,
                          const float *__restrict__ v, float *__restrict__ o,
                          size_t n)
{
    __shared__ float tileP[kTile][kTile];
    __shared__ float tileV[kTile][kTile];

    const unsigned int tx = threadIdx.x;
    const unsigned int ty = threadIdx.y;
    const size_t row = static_cast<size_t>(blockIdx.y) * kTile + ty;
    const size_t dim = static_cast<size_t>(blockIdx.x) * kTile + tx;

    float acc = 0.0f;
    for (size_t key = 0; key < n; key += kTile) {
        tileP[ty][tx] = p[row * n + key + tx];
        tileV[ty][tx] = v[(key + ty) * kHeadDim + dim];
        __syncthreads();
        for (unsigned int i = 0; i < kTile; ++i) {
            acc += tileP[ty][i] * tileV[i][tx];
        }
        __syncthreads();
    }
    o[row * kHeadDim + dim] = acc / rowSum[row];
}

// O in one pass over the keys. A block owns 64 query rows, a warp 8 of them; a
// lane scores one key of a tile of 32 and owns output dimensions lane and
// lane + 32 of each of its warp's rows.
// Memory: a warp loads 32 neighbouring floats of Q, K or V. K's rows are padded
// to 65 floats, so that 32 lanes reading one dimension of 32 keys hit 32 banks
// (day 15); Q is read by broadcast, V in neighbouring floats. The tiles take
// 32,896 bytes. K and V are asked for once per block, n / 64 times in all.
// The running state is in arrays that the row loop indexes. Registers have no
// address, so unless the compiler unrolls that loop the arrays go to local
// memory, which is then read and written once per row and tile, a cost that no
// line of the kernel shows. The kernel table prints its bytes.
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

    // snippet: online-state
    float runMax[kRowsPerWarp];  // the largest score so far
    float runSum[kRowsPerWarp];  // the weights' sum, relative to runMax
    float acc[kRowsPerWarp][2];  // this lane's two dimensions of the output
    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        runMax[r] = -INFINITY;
        runSum[r] = 0.0f;
        acc[r][0] = 0.0f;
        acc[r][1] = 0.0f;
    }
    // end snippet

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

            // snippet: online-update
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
            // end snippet
        }
        __syncthreads();  // the tiles may be overwritten
    }

    for (unsigned int r = 0; r < kRowsPerWarp; ++r) {
        const size_t row = firstQuery + firstRow + r;
        o[row * kHeadDim + lane] = acc[r][0] / runSum[r];
        o[row * kHeadDim + lane + kWarp] = acc[r][1] / runSum[r];
    }
}

// Nothing: what a launch inside a graph costs by itself.
__global__ void emptyKernel()
{
}

// --- CPU reference ----------------------------------------------------------

// Which query row the i-th reference row belongs to: one row from every
// stretch of n / refRows rows, each time one place further on in the stretch,
// so that a sample meets every warp of a block and every row of a warp. All
// rows when refRows == n.
static size_t refRowAt(size_t i, const Size &size)
{
    const size_t stretch = size.n / size.refRows;
    return i * stretch + i % stretch;
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

// What the online path's running maximum does on its way over the tiles.
struct MaxWatch {
    size_t movedLast = 0;          // rows in which the last tile moves it
    size_t moves = 0;              // tiles after the first that move it
    size_t mostMoves = 0;          // the same in the row with the most
    double smallestRescale = 1.0;  // the strongest scaling down
    double largestScore = -HUGE_VAL;
    double effectiveKeys = 0.0;    // summed over rows
};

static void watchMaximum(const std::vector<double> &scores, MaxWatch *watch)
{
    const size_t n = scores.size();
    double runMax = *std::max_element(scores.begin(),
                                      scores.begin() + kKeyTile);
    size_t moves = 0;
    for (size_t firstKey = kKeyTile; firstKey < n; firstKey += kKeyTile) {
        const auto tile =
            scores.begin() + static_cast<std::ptrdiff_t>(firstKey);
        const double tileMax = *std::max_element(tile, tile + kKeyTile);
        if (tileMax > runMax) {
            watch->smallestRescale =
                std::min(watch->smallestRescale, std::exp(runMax - tileMax));
            runMax = tileMax;
            ++moves;
            if (firstKey + kKeyTile == n) {
                ++watch->movedLast;
            }
        }
    }
    watch->largestScore = std::max(watch->largestScore, runMax);
    watch->moves += moves;
    watch->mostMoves = std::max(watch->mostMoves, moves);
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
    std::vector<float> naive;   // O of each path
    std::vector<float> online;
};

// The units give scores between -2 and 2 before Q is multiplied by `factor`;
// the steps are ones for which a row's scores neither repeat soon nor all lie
// close to 0. Factor 1 is the flat case.
static void fillInputs(size_t n, int factor, Host *host)
{
    const size_t count = n * kHeadDim;
    for (std::vector<float> *matrix : {&host->q, &host->k, &host->v,
                                       &host->naive, &host->online}) {
        matrix->resize(count);
    }
    const bool distinct = factor != 1;
    const size_t stepQ = distinct ? 23 : 9;
    const size_t stepK = distinct ? 34 : 23;
    const float unit = distinct ? 0.015f : 0.02f;
    for (size_t i = 0; i < count; ++i) {
        host->q[i] = static_cast<float>(factor) *
                     inputAt(i, kPeriodQ, stepQ, unit, distinct);
        host->k[i] = inputAt(i, kPeriodK, stepK, unit, distinct);
        host->v[i] = inputAt(i, kPeriodV, 31, 0.02f, distinct);
    }
    // The case that the stepper of day 72 calls spike-late: where this key
    // scores above 0 it mostly scores highest, in the very last tile.
    for (size_t d = 0; d < kHeadDim; ++d) {
        host->k[(n - kSpikeFromEnd) * kHeadDim + d] *= kSpikeFactor;
    }
}

// --- Tolerance and error metrics --------------------------------------------

// snippet: gate
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
// end snippet

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
    size_t n = 0;
    int factor = 0;
    Worst worst;
};

// --- Launches ---------------------------------------------------------------

struct Buffers {
    float *d_q = nullptr;
    float *d_k = nullptr;
    float *d_v = nullptr;
    float *d_s = nullptr;       // n x n scores
    float *d_p = nullptr;       // n x n weights
    float *d_rowSum = nullptr;  // n
    float *d_naive = nullptr;   // O of the naive path
    float *d_online = nullptr;  // O of the online path
};

static size_t bytesNeeded(size_t n)
{
    return sizeof(float) * (2 * n * n + 5 * n * kHeadDim + n) + kSpareBytes;
}

static void allocate(size_t n, Buffers *b)
{
    const size_t head = n * kHeadDim * sizeof(float);
    CUDA_CHECK(cudaMalloc(&b->d_q, head));
    CUDA_CHECK(cudaMalloc(&b->d_k, head));
    CUDA_CHECK(cudaMalloc(&b->d_v, head));
    CUDA_CHECK(cudaMalloc(&b->d_s, n * n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_p, n * n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_rowSum, n * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_naive, head));
    CUDA_CHECK(cudaMalloc(&b->d_online, head));
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_q));
    CUDA_CHECK(cudaFree(b.d_k));
    CUDA_CHECK(cudaFree(b.d_v));
    CUDA_CHECK(cudaFree(b.d_s));
    CUDA_CHECK(cudaFree(b.d_p));
    CUDA_CHECK(cudaFree(b.d_rowSum));
    CUDA_CHECK(cudaFree(b.d_naive));
    CUDA_CHECK(cudaFree(b.d_online));
}

// Every byte 0xff is a NaN in every element: what a kernel does not write
// cannot pass, and neither can what an earlier case left behind.
static void clearResults(size_t n, const Buffers &b)
{
    const size_t head = n * kHeadDim * sizeof(float);
    CUDA_CHECK(cudaMemset(b.d_s, 0xff, n * n * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_p, 0xff, n * n * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_rowSum, 0xff, n * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_naive, 0xff, head));
    CUDA_CHECK(cudaMemset(b.d_online, 0xff, head));
}

enum Part { kNaive, kOnline, kScores, kSoftmax, kWeighted, kPartCount, kEmpty };

static void launch(Part part, size_t n, const Buffers &b, cudaStream_t stream)
{
    const unsigned int rows = static_cast<unsigned int>(n);
    const unsigned int tiles = rows / kTile;
    const dim3 block(kTile, kTile);
    if (part == kNaive || part == kScores) {
        const dim3 grid(tiles, tiles);
        scoresQKt<<<grid, block, 0, stream>>>(b.d_q, b.d_k, b.d_s, n);
    }
    if (part == kNaive || part == kSoftmax) {
        softmaxRows<<<rows, kSoftmaxThreads, 0, stream>>>(b.d_s, b.d_p,
                                                          b.d_rowSum, n);
    }
    if (part == kNaive || part == kWeighted) {
        const dim3 grid(kHeadDim / kTile, tiles);
        weightedV<<<grid, block, 0, stream>>>(b.d_p, b.d_rowSum, b.d_v,
                                              b.d_naive, n);
    }
    if (part == kOnline) {
        attentionOnline<<<rows / kQueryTile, kOnlineThreads, 0, stream>>>(
            b.d_q, b.d_k, b.d_v, b.d_online, n);
    }
    if (part == kEmpty) {
        emptyKernel<<<1, kWarp, 0, stream>>>();
    }
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

static cudaGraphExec_t graphOf(Part part, int launches, size_t n,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(part, n, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times `count` parts beside each other. A part's time is the slope between a
// short and a long graph of launches, so what a replay and its events cost
// cancels out; a launch follows the one before it as it does in the naive
// path, and finds the caches as that one left them. The parts take turns,
// forwards and backwards, so that a drifting clock meets all of them.
static void timeParts(const Part *parts, size_t count, int shortLaunches,
                      int longLaunches, size_t n, const Buffers &b,
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
        launch(parts[i], n, b, stream);  // loaded before it is captured
        CUDA_CHECK(cudaStreamSynchronize(stream));
        shortGraphs.push_back(graphOf(parts[i], shortLaunches, n, b, stream));
        longGraphs.push_back(graphOf(parts[i], longLaunches, n, b, stream));
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
    printKernel("scoresQKt", reinterpret_cast<const void *>(scoresQKt),
                kTile * kTile, device);
    printKernel("softmaxRows", reinterpret_cast<const void *>(softmaxRows),
                kSoftmaxThreads, device);
    printKernel("weightedV", reinterpret_cast<const void *>(weightedV),
                kTile * kTile, device);
    printKernel("attentionOnline",
                reinterpret_cast<const void *>(attentionOnline),
                kOnlineThreads, device);
}

static void printMatrixCost()
{
    std::printf("\nscore matrix: what n x n floats cost\n");
    std::printf("  %-11s  %13s  %10s\n", "length", "floats", "size (MiB)");
    for (const size_t n : kCostLengths) {
        std::printf("  n = %-7zu  %13zu  %10.0f\n", n, n * n,
                    static_cast<double>(n * n * sizeof(float)) / kMiB);
    }
}

// Bytes by arithmetic. The floor touches each array once per pass over it; the
// ask is what all blocks request, an address once per block and use.
static void printBytes(size_t n)
{
    const size_t head = n * kHeadDim;
    const size_t square = n * n;
    // S written, read for the maximum, read for the weights; P written, read;
    // row totals written, read; Q, K, V, O once.
    const size_t naiveFloor = 5 * square + 2 * n + 4 * head;
    const size_t onlineFloor = 4 * head;

    const size_t reReads = n / kTile;               // of Q, K and V
    const size_t columnBlocks = kHeadDim / kTile;   // of P and row totals
    const size_t scoresAsk = 2 * head * reReads + square;
    const size_t softmaxAsk = 3 * square + n;
    const size_t weightedAsk =
        columnBlocks * (square + n) + head * reReads + head;
    const size_t naiveAsk = scoresAsk + softmaxAsk + weightedAsk;
    const size_t onlineAsk = 2 * head + 2 * head * (n / kQueryTile);

    // If the state lies in local memory: four floats of each lane, read and
    // written once per row and tile.
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(attentionOnline)));
    const size_t stateAsk = attributes.localSizeBytes == 0
                                ? 0
                                : 2 * 4 * kWarp * n * (n / kKeyTile);

    std::printf("\nbytes n = %zu: counted, not measured\n", n);
    std::printf("  S or P         %.2f MiB   (the naive path has both)\n",
                static_cast<double>(square * sizeof(float)) / kMiB);
    std::printf("  online state   %zu B   (asked of local memory)\n\n",
                sizeof(float) * stateAsk);
    std::printf("  %-6s  %11s  %11s\n", "path", "floor (B)", "ask (B)");
    std::printf("  %-6s  %11zu  %11zu\n", "naive",
                sizeof(float) * naiveFloor, sizeof(float) * naiveAsk);
    std::printf("  %-6s  %11zu  %11zu\n\n", "online",
                sizeof(float) * onlineFloor, sizeof(float) * onlineAsk);
    std::printf("  floor naive over online   %.1fx\n",
                static_cast<double>(naiveFloor) /
                    static_cast<double>(onlineFloor));
    std::printf("  ask naive over online     %.2fx\n",
                static_cast<double>(naiveAsk) /
                    static_cast<double>(onlineAsk));
}

// --- One case ---------------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

static bool wanted(const Size &size, int factor, Mode mode)
{
    if (mode == Mode::kQuick && size.n != kSizes[0].n) {
        return false;
    }
    return factor == 1 || (size.peaked && mode != Mode::kOnce);
}

// Launches every kernel once and brings both outputs back.
static void runPaths(size_t n, const Buffers &b, cudaStream_t stream,
                     Host *host)
{
    const size_t head = n * kHeadDim * sizeof(float);
    CUDA_CHECK(cudaMemcpy(b.d_q, host->q.data(), head,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_k, host->k.data(), head,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_v, host->v.data(), head,
                          cudaMemcpyHostToDevice));
    clearResults(n, b);
    launch(kNaive, n, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    launch(kOnline, n, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(host->naive.data(), b.d_naive, head,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(host->online.data(), b.d_online, head,
                          cudaMemcpyDeviceToHost));
}

struct Verdict {
    MaxWatch watch;
    double maxReference = 0.0;
    Gate gate;
    Worst naive;
    Worst online;
    Worst zeros;  // what an answer of nothing but zeros would get
    Worst pair;   // online against naive, all rows
};

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
            referenceRow(&q[refRowAt(i, size) * kHeadDim], k, v, size.n,
                         scores.data(), out);
        watchMaximum(scores, &verdict.watch);
    }
    for (const double value : reference) {
        verdict.maxReference = std::max(verdict.maxReference,
                                        std::fabs(value));
    }

    const Gate gate = {rtolFor(size.n), rtolFor(size.n) * verdict.maxReference};
    verdict.gate = gate;
    for (size_t i = 0; i < reference.size(); ++i) {
        const size_t row = refRowAt(i / kHeadDim, size);
        const size_t index = row * kHeadDim + i % kHeadDim;
        judge(host.naive[index], reference[i], index, gate, &verdict.naive);
        judge(host.online[index], reference[i], index, gate, &verdict.online);
        judge(0.0, reference[i], index, gate, &verdict.zeros);
    }
    for (size_t i = 0; i < host.online.size(); ++i) {
        judge(host.online[i], host.naive[i], i, gate, &verdict.pair);
    }
    return verdict;
}

static void printVerdict(const Size &size, const Verdict &verdict)
{
    const MaxWatch &watch = verdict.watch;
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
    std::printf("  tiles that move it, mean  %.2f   (of %zu after the "
                "first)\n",
                static_cast<double>(watch.moves) / rows,
                size.n / kKeyTile - 1);
    std::printf("  tiles that move it, most  %zu\n", watch.mostMoves);
    std::printf("  smallest rescale          %.3e\n", watch.smallestRescale);
    std::printf("  max |reference|           %.3e\n", verdict.maxReference);
    std::printf("  gate rtol                 %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(n)))\n",
                verdict.gate.rtol);
    std::printf("  gate atol                 %.3e   (rtol * max "
                "|reference|)\n",
                verdict.gate.atol);
    std::printf("  all zeros, gate frac      %.1f\n", verdict.zeros.frac);
    std::printf("  pair, max abs err         %.3e   (online against naive, "
                "all rows)\n",
                verdict.pair.error);
    std::printf("  pair, gate frac           %.4f\n\n", verdict.pair.frac);
}

static void printPath(const char *path, const Worst &worst,
                      const Spread *spread)
{
    std::printf("  %-6s  %11.3e  %9.4f", path, worst.error, worst.frac);
    if (spread != nullptr) {
        std::printf("  %9.5f  %9.5f  %9.5f", spread->median, spread->least,
                    spread->most);
    }
    std::printf("\n");
}

static void printLaunch(const char *name, const Spread &spread)
{
    std::printf("  %-11s  %9.5f  %9.5f  %9.5f\n", name, spread.median,
                spread.least, spread.most);
}

// Times both paths and the parts of the naive one, and prints the tables.
static void timeCase(const Size &size, const Verdict &verdict,
                     const Buffers &b, cudaStream_t stream)
{
    const Part parts[] = {kNaive, kOnline, kScores, kSoftmax, kWeighted};
    Spread spreads[kPartCount];
    static_assert(sizeof(parts) / sizeof(parts[0]) == kPartCount,
                  "every part is timed, in the order of the enumeration");
    timeParts(parts, kPartCount, size.shortLaunches, size.longLaunches,
              size.n, b, stream, spreads);
    std::printf("  %-6s  %11s  %9s  %9s  %9s  %9s\n", "path", "max abs err",
                "gate frac", "time (ms)", "min (ms)", "max (ms)");
    printPath("naive", verdict.naive, &spreads[kNaive]);
    printPath("online", verdict.online, &spreads[kOnline]);
    std::printf("\n  %-11s  %9s  %9s  %9s\n", "naive alone", "time (ms)",
                "min (ms)", "max (ms)");
    printLaunch("scoresQKt", spreads[kScores]);
    printLaunch("softmaxRows", spreads[kSoftmax]);
    printLaunch("weightedV", spreads[kWeighted]);
    std::printf("\n  time naive over online   %.3fx\n",
                spreads[kNaive].median / spreads[kOnline].median);
}

// Runs both paths on one input, judges them, and times them if they are right.
// If they are not, `failure` says which and where.
static void runCase(const Size &size, int factor, Mode mode,
                    const Buffers &b, cudaStream_t stream, Host *host,
                    Failure *failure)
{
    fillInputs(size.n, factor, host);
    runPaths(size.n, b, stream, host);
    const Verdict verdict = judgeCase(size, *host);
    std::printf("\ncase n = %zu, q x %d: both paths against the reference\n",
                size.n, factor);
    printVerdict(size, verdict);

    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.naive.frac <= 1.0)) {
        *failure = {"naive", size.n, factor, verdict.naive};
    } else if (!(verdict.online.frac <= 1.0)) {
        *failure = {"online", size.n, factor, verdict.online};
    } else if (!(verdict.pair.frac <= 1.0)) {
        *failure = {"online against naive", size.n, factor, verdict.pair};
    } else if (mode == Mode::kFull) {
        timeCase(size, verdict, b, stream);
        return;
    }
    std::printf("  %-6s  %11s  %9s\n", "path", "max abs err", "gate frac");
    printPath("naive", verdict.naive, nullptr);
    printPath("online", verdict.online, nullptr);
}

// What a launch costs by itself, and how the tables of times come about.
static void timeEmptyKernel(const Buffers &b, cudaStream_t stream)
{
    const Part part = kEmpty;
    Spread spread;
    timeParts(&part, 1, kEmptyShort, kEmptyLong, 0, b, stream, &spread);
    std::printf("\ntiming: the slope between a short and a long graph of "
                "launches, no cache cleared\n");
    std::printf("  repeats           %d   (time is the median of these "
                "slopes)\n",
                kRepeats);
    std::printf("  warm-up replays   %d   (of every graph)\n\n", kWarmups);
    std::printf("  %-11s  %9s  %9s  %9s\n", "launch", "time (ms)", "min (ms)",
                "max (ms)");
    printLaunch("emptyKernel", spread);
    std::printf("\n  %-11s  %11s  %10s\n", "graphs", "short graph",
                "long graph");
    std::printf("  %-11s  %11d  %10d\n", "emptyKernel", kEmptyShort,
                kEmptyLong);
    for (const Size &size : kSizes) {
        std::printf("  n = %-7zu  %11d  %10d\n", size.n, size.shortLaunches,
                    size.longLaunches);
    }
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
                     "usage: attention [--quick | --once]\n"
                     "  --quick  the smallest size only, nothing timed\n"
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
    printMatrixCost();
    printKernels(device);

    // One set of buffers, for the largest size that is wanted and fits.
    size_t freeBytes = 0;
    size_t totalBytes = 0;
    CUDA_CHECK(cudaMemGetInfo(&freeBytes, &totalBytes));
    size_t maxN = 0;
    for (const Size &size : kSizes) {
        if (wanted(size, 1, mode) && bytesNeeded(size.n) <= freeBytes) {
            maxN = std::max(maxN, size.n);
        }
    }

    Buffers b;
    Host host;
    Failure failure;
    cudaStream_t stream = nullptr;
    int passed = 0;
    CUDA_CHECK(cudaStreamCreate(&stream));
    allocate(maxN, &b);
    if (mode == Mode::kFull) {
        timeEmptyKernel(b, stream);
    }
    for (const Size &size : kSizes) {
        if (!wanted(size, 1, mode)) {
            continue;
        }
        if (size.n > maxN) {
            std::printf("\ncase n = %zu: skipped, it needs %.0f MiB, %.0f MiB "
                        "are free\n",
                        size.n,
                        static_cast<double>(bytesNeeded(size.n)) / kMiB,
                        static_cast<double>(freeBytes) / kMiB);
            continue;
        }
        printBytes(size.n);
        for (const int factor : kFactors) {
            if (wanted(size, factor, mode) && failure.what == nullptr) {
                runCase(size, factor, mode, b, stream, &host, &failure);
                passed += failure.what == nullptr ? 1 : 0;
            }
        }
        if (failure.what != nullptr) {
            break;
        }
    }

    release(b);
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        const Worst &worst = failure.worst;
        std::fprintf(stderr,
                     "%s fails at n = %zu, q x %d: element %zu (row %zu, "
                     "dimension %zu) is %.9g, not %.9g, gate fraction %.4g\n",
                     failure.what, failure.n, failure.factor, worst.index,
                     worst.index / kHeadDim, worst.index % kHeadDim, worst.got,
                     worst.want, worst.frac);
        return EXIT_FAILURE;
    }
    if (passed == 0) {
        std::fprintf(stderr, "no case ran: %.0f MiB are free\n",
                     static_cast<double>(freeBytes) / kMiB);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
