// SPDX-License-Identifier: MIT
//
// Day 72: the online normaliser. A softmax needs the largest score of a row
// before it can weigh the first one, so the safe form of day 70 reads the row
// once for the maximum, once for the sum and once to write the weights. The
// online form reads it once for both: it keeps the largest score so far, m,
// and the sum of the weights relative to it, l, and when a larger score turns
// up it multiplies what it gathered by exp(old m - new m). All of that is one
// device function, addTile, for a tile of four scores.
//
// traceRow calls it. One thread walks over one row of eight tiles, averages
// one value per key on the way (o, the unfinished output) and writes m, l, o
// and the rescale after every tile. Six rows, called cases: scores ascending,
// descending and constant, an early and a late spike, and scores masked by
// -infinity, among them a whole first tile. Scores and values are multiples
// of 1/4 and printed whole, so that a reader with paper, or a page with a
// script, can start from the very numbers that the kernel had. FMAs are
// written out for the same reason: nothing is left to contraction.
//
// softmaxOnline calls it too, for rows of up to 131072 scores: each thread
// keeps m and l for the tiles it meets, the block brings the threads' sums to
// one maximum, a second pass writes the weights. softmaxSafe is the three-pass
// form with the same blocks and loads, and copyRows reads and writes once.
//
// All are judged by double precision on the CPU in two passes, maximum first.
// The trace is judged after every tile, against the two passes over the keys
// so far. l and a weight are sums over n keys, so day 66's rule takes K = n:
// rtol = max(1e-5, 4 * 2^-23 * sqrt(n)). The maximum is not rounded and must
// be equal. The two softmaxes are then judged against each other, all rows.
//
// The file exists to hold passes against time: four against three, counted.
// Whether the saved one shows depends on where it is read from. A short row is
// still in a cache when it is read again; while 512 rows of 131072 are on
// their way at once, nothing of them is left in L2. The matrix is the same
// 64 Mi floats in every size. Day 34 set the precedent: fewer reads do not
// have to be faster.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o online online.cu
// Run: ./online

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

constexpr unsigned int kTile = 4;    // scores: one 16-byte load of a thread
constexpr unsigned int kTiles = 8;   // of a traced row: few enough to follow
constexpr unsigned int kKeys = kTile * kTiles;

constexpr unsigned int kThreads = 512;  // one block per row
constexpr unsigned int kWarps = kThreads / kWarp;

constexpr unsigned int kLoads = 2;      // tiles a thread has on their way
constexpr unsigned int kStride = kLoads * kThreads;

// --- Cases ------------------------------------------------------------------

// The traced rows, named as the page's stepper names them.
enum Case {
    kAscending,
    kDescending,
    kConstant,
    kSpikeEarly,
    kSpikeLate,
    kMasked,
    kCaseCount
};

struct CaseText {
    const char *name;
    const char *what;
};

constexpr CaseText kCases[] = {
    {"ascending", "every tile brings a larger score"},
    {"descending", "the first tile has the largest score"},
    {"constant", "all scores alike, and exp of them is 0 in FP32"},
    {"spike-early", "one large score in the second tile"},
    {"spike-late", "one large score in the last tile"},
    {"masked", "scores of -infinity, the whole first tile among them"},
};

constexpr unsigned int kEarlyKey = 5;         // in the second tile
constexpr unsigned int kLateKey = kKeys - 3;  // in the last: as day 97's spike
constexpr float kSpike = 9.0f;       // others stay below 1.5 and still count
constexpr float kConstantScore = -200.0f;  // expf(-200) is 0

struct Size {
    size_t n;           // scores of a row
    size_t rows;
    size_t refRows;     // rows that get a reference
    bool timed;         // else ragged and masked, for correctness only
    int shortLaunches;  // lengths of the two timed graphs
    int longLaunches;
};

// 1028 scores are 257 tiles: about half of the threads have none, and a third
// of the tiles is masked whole. The others cut 64 Mi floats, 256 MiB, into
// rows; the factors between them, 4 and 8, lead from rows that an L1 cache can
// keep to rows of which an L2 keeps nothing until they are read again. A
// reference costs a few milliseconds per row of 131072.
constexpr Size kSizes[] = {
    {1028, 500, 500, false, 0, 0},
    {4096, 16384, 256, true, 4, 20},
    {16384, 4096, 64, true, 4, 20},
    {131072, 512, 8, true, 4, 20},
};
constexpr size_t kElements = size_t{1} << 26;  // of the matrix that is timed

// Inputs of the long rows: a step through 0 .. kPeriod - 1, a prime, so no
// row begins like another; the amplitude changes every kStretch elements with
// a second prime period.
constexpr size_t kPeriod = 65537;
constexpr size_t kStep = 27449;      // neighbours are far apart
constexpr size_t kStretch = 4096;
constexpr size_t kSlowPeriod = 199;
constexpr size_t kMaskEvery = 3;     // tiles, where the row is masked

// --- Tolerance and timing ---------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits

constexpr int kRepeats = 21;      // odd: the median is one of the samples
constexpr int kWarmups = 2;       // replays of each graph before the first
constexpr int kEmptyShort = 100;  // the empty kernel is all jitter, so its
constexpr int kEmptyLong = 1100;  // graphs are long

constexpr double kMiB = 1024.0 * 1024.0;

constexpr bool sizesFit()
{
    for (const Size &size : kSizes) {
        if (size.n % kTile != 0 || size.rows % size.refRows != 0 ||
            size.n * size.rows > kElements ||
            (size.timed && size.n * size.rows != kElements)) {
            return false;
        }
    }
    return true;
}

static_assert(sizesFit(), "rows are whole tiles; timed sizes are one matrix");
static_assert(kTile == 4, "a tile is loaded as one float4");
static_assert(kThreads % kWarp == 0, "warp exchanges need whole warps");
static_assert(kWarp % kWarps == 0, "lanes re-read the warps' parts");
static_assert(sizeof(kCases) / sizeof(kCases[0]) == kCaseCount,
              "every case has its text");
static_assert(kEarlyKey / kTile == 1 && kLateKey / kTile == kTiles - 1,
              "the spikes are where the cases' texts say");

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

// The block's largest value, in all of its threads. Every thread must come.
__device__ float blockMax(float value, float *parts)
{
    const unsigned int lane = threadIdx.x % kWarp;
    value = warpMax(value);
    if (lane == 0) {
        parts[threadIdx.x / kWarp] = value;
    }
    __syncthreads();  // every warp's maximum is there
    return warpMax(parts[lane % kWarps]);
}

// The block's sum, in all of its threads; each adds the parts up in the same
// order and has the same bits. Every thread must come.
__device__ float blockSum(float value, float *parts)
{
    value = warpSum(value);
    if (threadIdx.x % kWarp == 0) {
        parts[threadIdx.x / kWarp] = value;
    }
    __syncthreads();  // every warp's sum is there
    float total = 0.0f;
    for (unsigned int w = 0; w < kWarps; ++w) {
        total += parts[w];
    }
    return total;
}

// --- The online normaliser --------------------------------------------------

// snippet: state
struct State {
    float max;  // m, the largest score so far
    float sum;  // l, the sum of exp(score - m) over the scores so far
};

__device__ State emptyState()
{
    return {-INFINITY, 0.0f};
}
// end snippet

__device__ float maxOf(const float (&score)[kTile])
{
    float best = score[0];
    for (unsigned int i = 1; i < kTile; ++i) {
        best = fmaxf(best, score[i]);
    }
    return best;
}

// Takes a tile into the state. Leaves the tile's weights in `weight` and
// returns the factor by which whatever was gathered so far has to shrink.
// snippet: online-update
__device__ float addTile(const float (&score)[kTile], State *state,
                         float (&weight)[kTile])
{
    const float newMax = fmaxf(state->max, maxOf(score));
    // While every score so far is masked, newMax is -infinity, and -infinity
    // less itself is NaN. Any finite base gives the weights 0 that are due.
    const float base = newMax == -INFINITY ? 0.0f : newMax;

    const float rescale = expf(state->max - base);
    float tileSum = 0.0f;
    for (unsigned int i = 0; i < kTile; ++i) {
        weight[i] = expf(score[i] - base);
        tileSum += weight[i];
    }
    state->sum = fmaf(state->sum, rescale, tileSum);
    state->max = newMax;
    return rescale;
}
// end snippet

// --- Kernels ----------------------------------------------------------------

// What traceRow writes after each tile.
struct TraceRow {
    float tileMax;
    float runMax;   // m
    float rescale;
    float runSum;   // l
    float out;      // o, not yet divided by l
};

// The weighted average of a row's values, one thread per row, with the state
// after every tile. Meant to be read, not to be fast.
// Memory: every address is touched once, by one lane.
// Launch assumption: one thread per block, one block per row of kKeys.
__global__ void traceRow(const float *__restrict__ scores,
                         const float *__restrict__ values,
                         TraceRow *__restrict__ trace,
                         float *__restrict__ result)
{
    const size_t row = blockIdx.x;

    State state = emptyState();
    float out = 0.0f;
    for (unsigned int tile = 0; tile < kTiles; ++tile) {
        float score[kTile];
        float weight[kTile];
        for (unsigned int i = 0; i < kTile; ++i) {
            score[i] = scores[row * kKeys + tile * kTile + i];
        }
        // snippet: online-output
        const float rescale = addTile(score, &state, weight);
        out *= rescale;
        for (unsigned int i = 0; i < kTile; ++i) {
            out = fmaf(weight[i], values[tile * kTile + i], out);
        }
        // end snippet
        trace[row * kTiles + tile] = {maxOf(score), state.max, rescale,
                                      state.sum, out};
    }
    result[row] = out / state.sum;
}

// Loads the next kLoads tiles of this thread, all before any is used. Beyond
// the end of the row it gives tiles of -infinity, which weigh nothing.
__device__ void loadTiles(const float4 *__restrict__ in, unsigned int first,
                          unsigned int tiles, float (&score)[kLoads][kTile])
{
    for (unsigned int j = 0; j < kLoads; ++j) {
        const unsigned int tile = first + j * kThreads;
        const float4 s = tile < tiles
                             ? in[tile]
                             : make_float4(-INFINITY, -INFINITY, -INFINITY,
                                           -INFINITY);
        score[j][0] = s.x;
        score[j][1] = s.y;
        score[j][2] = s.z;
        score[j][3] = s.w;
    }
}

__device__ void storeTiles(float4 *__restrict__ out, unsigned int first,
                           unsigned int tiles,
                           const float (&y)[kLoads][kTile])
{
    for (unsigned int j = 0; j < kLoads; ++j) {
        const unsigned int tile = first + j * kThreads;
        if (tile < tiles) {
            out[tile] = make_float4(y[j][0], y[j][1], y[j][2], y[j][3]);
        }
    }
}

// The pass that both softmaxes end with: y = exp(x - maximum) / total.
__device__ void writeWeights(const float4 *__restrict__ in,
                             float4 *__restrict__ out, unsigned int tiles,
                             float best, float total)
{
    const float inverse = 1.0f / total;
    for (unsigned int i = threadIdx.x; i < tiles; i += kStride) {
        float score[kLoads][kTile];
        loadTiles(in, i, tiles, score);
        for (unsigned int j = 0; j < kLoads; ++j) {
            for (unsigned int e = 0; e < kTile; ++e) {
                score[j][e] = expf(score[j][e] - best) * inverse;
            }
        }
        storeTiles(out, i, tiles, score);
    }
}

// Safe softmax of every row: a pass for the maximum, one for the sum, one to
// write.
// Memory: a warp reads 512 neighbouring bytes, 16 per lane. The row is read
// three times by the same block; a cache answers the second and third time if
// it could keep the row, which is up to the length.
// Launch assumption: kThreads threads, one block per row, rows of whole tiles,
// 16-byte aligned. No thread leaves early: barriers follow.
__global__ void softmaxSafe(const float *__restrict__ x,
                            float *__restrict__ y, size_t n)
{
    __shared__ float partMax[kWarps];
    __shared__ float partSum[kWarps];

    const size_t first = static_cast<size_t>(blockIdx.x) * n;
    const float4 *in = reinterpret_cast<const float4 *>(x + first);
    const unsigned int tiles = static_cast<unsigned int>(n / kTile);
    float score[kLoads][kTile];

    // snippet: safe
    float best = -INFINITY;
    for (unsigned int i = threadIdx.x; i < tiles; i += kStride) {
        loadTiles(in, i, tiles, score);
        for (unsigned int j = 0; j < kLoads; ++j) {
            best = fmaxf(best, maxOf(score[j]));
        }
    }
    best = blockMax(best, partMax);

    float sum = 0.0f;
    for (unsigned int i = threadIdx.x; i < tiles; i += kStride) {
        loadTiles(in, i, tiles, score);
        for (unsigned int j = 0; j < kLoads; ++j) {
            for (unsigned int e = 0; e < kTile; ++e) {
                sum += expf(score[j][e] - best);
            }
        }
    }
    const float total = blockSum(sum, partSum);
    // end snippet
    writeWeights(in, reinterpret_cast<float4 *>(y + first), tiles, best,
                 total);
}

// The same with one pass for maximum and sum. Each thread keeps a state of its
// own; in the end its sum is brought to the row's maximum by one more rescale.
// A thread that met masked tiles only has m = -infinity and l = 0, and adds 0.
// Memory: as in softmaxSafe, but the row is read twice.
// Launch assumption: as softmaxSafe; at least one score of a row not masked.
__global__ void softmaxOnline(const float *__restrict__ x,
                              float *__restrict__ y, size_t n)
{
    __shared__ float partMax[kWarps];
    __shared__ float partSum[kWarps];

    const size_t first = static_cast<size_t>(blockIdx.x) * n;
    const float4 *in = reinterpret_cast<const float4 *>(x + first);
    const unsigned int tiles = static_cast<unsigned int>(n / kTile);
    float score[kLoads][kTile];
    float weight[kTile];

    // snippet: online
    State state = emptyState();
    for (unsigned int i = threadIdx.x; i < tiles; i += kStride) {
        loadTiles(in, i, tiles, score);
        for (unsigned int j = 0; j < kLoads; ++j) {
            addTile(score[j], &state, weight);
        }
    }
    const float best = blockMax(state.max, partMax);
    const float total =
        blockSum(state.sum * expf(state.max - best), partSum);
    // end snippet
    writeWeights(in, reinterpret_cast<float4 *>(y + first), tiles, best,
                 total);
}

// Reads and writes every row once, in the same way: what two passes cost.
// Memory: as in softmaxSafe. Launch assumption: as softmaxSafe.
__global__ void copyRows(const float *__restrict__ x, float *__restrict__ y,
                         size_t n)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * n;
    const float4 *in = reinterpret_cast<const float4 *>(x + first);
    const unsigned int tiles = static_cast<unsigned int>(n / kTile);
    for (unsigned int i = threadIdx.x; i < tiles; i += kStride) {
        float score[kLoads][kTile];
        loadTiles(in, i, tiles, score);
        storeTiles(reinterpret_cast<float4 *>(y + first), i, tiles, score);
    }
}

// Nothing: what a launch inside a graph costs by itself.
__global__ void emptyKernel()
{
}

// --- CPU reference ----------------------------------------------------------

// Which row of the matrix the i-th reference row is: one from every stretch of
// rows / refRows rows, each time one place further on in the stretch.
static size_t refRowAt(size_t i, const Size &size)
{
    const size_t stretch = size.rows / size.refRows;
    return i * stretch + i % stretch;
}

// What two passes over some keys give: first the maximum, then the sums.
struct TwoPasses {
    double max = -HUGE_VAL;
    double sum = 0.0;
    double out = 0.0;
};

// snippet: two-passes
static TwoPasses twoPasses(const float *scores, const float *values,
                           size_t keys)
{
    TwoPasses state;
    for (size_t key = 0; key < keys; ++key) {
        state.max = std::max(state.max, static_cast<double>(scores[key]));
    }
    for (size_t key = 0; key < keys; ++key) {
        // A masked key weighs nothing, even if all are masked.
        const double weight =
            std::isinf(scores[key]) ? 0.0 : std::exp(scores[key] - state.max);
        state.sum += weight;
        state.out += weight * values[key];
    }
    return state;
}
// end snippet

static void referenceRow(const float *x, size_t n, double *y)
{
    double best = -HUGE_VAL;
    for (size_t i = 0; i < n; ++i) {
        best = std::max(best, static_cast<double>(x[i]));
    }
    double total = 0.0;
    for (size_t i = 0; i < n; ++i) {
        y[i] = std::exp(x[i] - best);
        total += y[i];
    }
    for (size_t i = 0; i < n; ++i) {
        y[i] /= total;
    }
}

// --- Inputs -----------------------------------------------------------------

// Score `key` of a traced row. The wiggle takes 7 values between 0 and 1.5.
static float scoreAt(Case which, unsigned int key)
{
    const float wiggle = 0.25f * static_cast<float>(key * 3 % 7);
    const float slope = 0.5f * static_cast<float>(key) - 8.0f;
    switch (which) {
    case kAscending:
        return slope + wiggle;
    case kDescending:
        return -slope + wiggle;
    case kConstant:
        return kConstantScore;
    case kSpikeEarly:
        return key == kEarlyKey ? kSpike : wiggle;
    case kSpikeLate:
        return key == kLateKey ? kSpike : wiggle;
    case kMasked:
        return key / kTile == 0 || key / kTile == 4 || key % 5 == 3
                   ? -INFINITY
                   : slope / 4.0f - wiggle;
    default:
        return 0.0f;
    }
}

// The value of a key, the same in all cases and no two alike. All are positive,
// so that no sum of theirs is small because its terms cancel.
static float valueAt(unsigned int key)
{
    return 0.25f * (static_cast<float>(key * 11 % 37) + 1.0f);
}

static float inputAt(size_t i)
{
    const float place = static_cast<float>(i * kStep % kPeriod) /
                        static_cast<float>(kPeriod);
    const float amplitude =
        1.0f + static_cast<float>(i / kStretch * 37 % kSlowPeriod) / 512.0f;
    return 4.0f * amplitude * (place - 0.503f);
}

struct Host {
    std::vector<float> x;
    std::vector<float> safe;    // y of each path
    std::vector<float> online;
};

static void fillInputs(const Size &size, Host *host)
{
    const size_t count = size.n * size.rows;
    for (std::vector<float> *matrix :
         {&host->x, &host->safe, &host->online}) {
        matrix->resize(count);
    }
    for (size_t i = 0; i < count; ++i) {
        const bool masked = !size.timed && i % size.n / kTile % kMaskEvery == 1;
        host->x[i] = masked ? -INFINITY : inputAt(i);
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
    const char *name = nullptr;  // of a traced case
    size_t n = 0;                // of the long rows
    Worst worst;
};

// --- Launches ---------------------------------------------------------------

struct Buffers {
    float *d_x = nullptr;
    float *d_safe = nullptr;    // y of each path
    float *d_online = nullptr;
    float *d_copy = nullptr;
};

static size_t rowsFor(size_t n)
{
    for (const Size &size : kSizes) {
        if (size.n == n) {
            return size.rows;
        }
    }
    return 0;
}

static void allocate(size_t elements, Buffers *b)
{
    CUDA_CHECK(cudaMalloc(&b->d_x, elements * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_safe, elements * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_online, elements * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b->d_copy, elements * sizeof(float)));
}

static void release(const Buffers &b)
{
    CUDA_CHECK(cudaFree(b.d_x));
    CUDA_CHECK(cudaFree(b.d_safe));
    CUDA_CHECK(cudaFree(b.d_online));
    CUDA_CHECK(cudaFree(b.d_copy));
}

// Every byte 0xff is a NaN in every element: what a kernel does not write
// cannot pass, and neither can what an earlier case left behind.
static void clearResults(size_t elements, const Buffers &b)
{
    CUDA_CHECK(cudaMemset(b.d_safe, 0xff, elements * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_online, 0xff, elements * sizeof(float)));
    CUDA_CHECK(cudaMemset(b.d_copy, 0xff, elements * sizeof(float)));
}

enum Part { kSafe, kOnline, kCopy, kPartCount, kEmpty };

static void launch(Part part, size_t n, const Buffers &b, cudaStream_t stream)
{
    const unsigned int rows = static_cast<unsigned int>(rowsFor(n));
    if (part == kSafe) {
        softmaxSafe<<<rows, kThreads, 0, stream>>>(b.d_x, b.d_safe, n);
    }
    if (part == kOnline) {
        softmaxOnline<<<rows, kThreads, 0, stream>>>(b.d_x, b.d_online, n);
    }
    if (part == kCopy) {
        copyRows<<<rows, kThreads, 0, stream>>>(b.d_x, b.d_copy, n);
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
// cancels out; a launch follows the one before it and finds the caches as that
// one left them. The parts take turns, forwards and backwards, so that a
// drifting clock meets all of them.
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
    printKernel("softmaxSafe", reinterpret_cast<const void *>(softmaxSafe),
                kThreads, device);
    printKernel("softmaxOnline",
                reinterpret_cast<const void *>(softmaxOnline), kThreads,
                device);
    printKernel("copyRows", reinterpret_cast<const void *>(copyRows),
                kThreads, device);
}

static void printPasses(const char *path, size_t reads, size_t bytes)
{
    std::printf("  %-6s  %5zu  %6d  %11zu  %11zu  %10zu\n", path, reads, 1,
                (reads + 1) * bytes, (reads + 1) * bytes, 2 * bytes);
}

// Bytes by arithmetic, for the whole matrix. The floor touches each array once
// per pass over it; no address is asked for twice in one pass, so the ask is
// no more. What is left of it if a cache answers every second read of a row is
// one read and one write for all of them.
static void printBytes()
{
    const size_t bytes = kElements * sizeof(float);
    std::printf("\nbytes: counted, not measured, the same for every row "
                "length\n");
    std::printf("  matrix   %zu B\n\n", bytes);
    std::printf("  %-6s  %5s  %6s  %11s  %11s  %10s\n", "path", "reads",
                "writes", "floor (B)", "ask (B)", "cached (B)");
    printPasses("safe", 3, bytes);
    printPasses("online", 2, bytes);
    printPasses("copy", 1, bytes);
}

// --- The traced rows --------------------------------------------------------

struct Traced {
    std::vector<float> scores;    // kCaseCount rows of kKeys
    std::vector<float> values;    // kKeys
    std::vector<TraceRow> trace;  // kCaseCount rows of kTiles
    std::vector<float> results;   // kCaseCount
};

static void runTrace(cudaStream_t stream, Traced *traced)
{
    for (unsigned int which = 0; which < kCaseCount; ++which) {
        for (unsigned int key = 0; key < kKeys; ++key) {
            traced->scores.push_back(scoreAt(static_cast<Case>(which), key));
        }
    }
    for (unsigned int key = 0; key < kKeys; ++key) {
        traced->values.push_back(valueAt(key));
    }
    traced->trace.resize(kCaseCount * kTiles);
    traced->results.resize(kCaseCount);

    float *d_scores = nullptr;
    float *d_values = nullptr;
    TraceRow *d_trace = nullptr;
    float *d_results = nullptr;
    const size_t scoreBytes = traced->scores.size() * sizeof(float);
    const size_t valueBytes = traced->values.size() * sizeof(float);
    const size_t traceBytes = traced->trace.size() * sizeof(TraceRow);
    const size_t resultBytes = traced->results.size() * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_scores, scoreBytes));
    CUDA_CHECK(cudaMalloc(&d_values, valueBytes));
    CUDA_CHECK(cudaMalloc(&d_trace, traceBytes));
    CUDA_CHECK(cudaMalloc(&d_results, resultBytes));
    CUDA_CHECK(cudaMemcpy(d_scores, traced->scores.data(), scoreBytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_values, traced->values.data(), valueBytes,
                          cudaMemcpyHostToDevice));
    // NaN everywhere, as in clearResults.
    CUDA_CHECK(cudaMemset(d_trace, 0xff, traceBytes));
    CUDA_CHECK(cudaMemset(d_results, 0xff, resultBytes));

    traceRow<<<kCaseCount, 1, 0, stream>>>(d_scores, d_values, d_trace,
                                           d_results);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(traced->trace.data(), d_trace, traceBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(traced->results.data(), d_results, resultBytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_scores));
    CUDA_CHECK(cudaFree(d_values));
    CUDA_CHECK(cudaFree(d_trace));
    CUDA_CHECK(cudaFree(d_results));
}

// Nine significant digits name an FP32 number: read back, they give its bits.
static void printTrace(unsigned int which, const Traced &traced)
{
    std::printf("\ncase %s: %s\n", kCases[which].name, kCases[which].what);
    std::printf("  %-6s  %6s  %6s  %6s  %6s  %6s  %6s  %6s  %6s\n", "inputs",
                "s1", "s2", "s3", "s4", "v1", "v2", "v3", "v4");
    for (unsigned int tile = 0; tile < kTiles; ++tile) {
        const float *score = &traced.scores[which * kKeys + tile * kTile];
        const float *value = &traced.values[tile * kTile];
        std::printf("  tile %u  %6.9g  %6.9g  %6.9g  %6.9g", tile + 1,
                    score[0], score[1], score[2], score[3]);
        std::printf("  %6.9g  %6.9g  %6.9g  %6.9g\n", value[0], value[1],
                    value[2], value[3]);
    }
    std::printf("\n  %-6s  %8s  %7s  %14s  %14s  %14s\n", "state", "tile max",
                "m", "rescale", "l", "o");
    for (unsigned int tile = 0; tile < kTiles; ++tile) {
        const TraceRow &row = traced.trace[which * kTiles + tile];
        std::printf("  tile %u  %8.9g  %7.9g  %14.9g  %14.9g  %14.9g\n",
                    tile + 1, row.tileMax, row.runMax, row.rescale,
                    row.runSum, row.out);
    }
}

struct TraceVerdict {
    unsigned int moves = 0;      // tiles that move the maximum
    unsigned int shrinks = 0;    // tiles that scale something gathered down
    double smallestRescale = 1.0;
    double worstFrac = 0.0;      // of everything that is printed
    Worst zeros;                 // what a trace of nothing but zeros would get
};

// Notes a quantity of the trace that failed, if none did before.
static void note(const char *what, const char *name, const Worst &worst,
                 TraceVerdict *verdict, Failure *failure)
{
    verdict->worstFrac = std::max(verdict->worstFrac, worst.frac);
    // Written so that a fraction that is not a number fails as well.
    if (!(worst.frac <= 1.0) && failure->what == nullptr) {
        *failure = {what, name, 0, worst};
    }
}

// A maximum is one of the scores: it must be equal, and a NaN never is.
static void judgeMax(double got, double want, size_t tile, Worst *worst)
{
    if (got != want) {
        *worst = {HUGE_VAL, HUGE_VAL, tile, got, want};
    }
}

static TraceVerdict judgeTrace(unsigned int which, const Traced &traced,
                               Failure *failure)
{
    const float *scores = &traced.scores[which * kKeys];
    const float *values = traced.values.data();
    const TraceRow *trace = &traced.trace[which * kTiles];

    TwoPasses soFar[kTiles];
    const double rtol = rtolFor(kKeys);
    const Gate rescaleGate = {rtol, rtol};
    Gate sumGate = {rtol, 0.0};
    Gate outGate = {rtol, 0.0};
    for (unsigned int tile = 0; tile < kTiles; ++tile) {
        const TwoPasses state = twoPasses(scores, values, (tile + 1) * kTile);
        sumGate.atol = std::max(sumGate.atol, rtol * state.sum);
        outGate.atol = std::max(outGate.atol, rtol * std::fabs(state.out));
        soFar[tile] = state;
    }

    TraceVerdict verdict;
    Worst tileMax;
    Worst runMax;
    Worst rescale;
    Worst sum;
    Worst out;
    TwoPasses before;
    for (unsigned int tile = 0; tile < kTiles; ++tile) {
        const TraceRow &row = trace[tile];
        const TwoPasses &after = soFar[tile];
        const double shrink = before.max == -HUGE_VAL
                                  ? 0.0
                                  : std::exp(before.max - after.max);
        judgeMax(row.tileMax,
                 twoPasses(scores + tile * kTile, values, kTile).max, tile,
                 &tileMax);
        judgeMax(row.runMax, after.max, tile, &runMax);
        judge(row.rescale, shrink, tile, rescaleGate, &rescale);
        judge(row.runSum, after.sum, tile, sumGate, &sum);
        judge(row.out, after.out, tile, outGate, &out);
        judge(0.0, after.sum, tile, sumGate, &verdict.zeros);
        judge(0.0, after.out, tile, outGate, &verdict.zeros);

        verdict.moves += after.max > before.max ? 1 : 0;
        if (before.sum > 0.0 && row.rescale < 1.0f) {
            ++verdict.shrinks;
            verdict.smallestRescale = std::min(
                verdict.smallestRescale, static_cast<double>(row.rescale));
        }
        before = after;
    }
    Worst result;
    const double want = before.out / before.sum;
    judge(traced.results[which], want, kTiles - 1,
          {rtol, rtol * std::fabs(want)}, &result);

    const char *name = kCases[which].name;
    note("tile max", name, tileMax, &verdict, failure);
    note("m", name, runMax, &verdict, failure);
    note("rescale", name, rescale, &verdict, failure);
    note("l", name, sum, &verdict, failure);
    note("o", name, out, &verdict, failure);
    note("o / l", name, result, &verdict, failure);
    return verdict;
}

// Runs the six rows, prints what the kernel wrote, and judges every line of
// it. Returns how many cases passed.
static int runCases(cudaStream_t stream, Failure *failure)
{
    Traced traced;
    runTrace(stream, &traced);
    for (unsigned int which = 0; which < kCaseCount; ++which) {
        printTrace(which, traced);
    }

    int passed = 0;
    std::printf("\ntrace: judged after every tile, by two passes over the "
                "keys so far\n");
    std::printf("  gate rtol   %.3e   (max(1e-5, 4 * 2^-23 * sqrt(%u)))\n\n",
                rtolFor(kKeys), kKeys);
    std::printf("  %-11s  %5s  %7s  %16s  %12s  %9s  %10s\n", "case", "moves",
                "shrinks", "smallest rescale", "result", "gate frac",
                "zeros frac");
    for (unsigned int which = 0; which < kCaseCount; ++which) {
        const TraceVerdict verdict = judgeTrace(which, traced, failure);
        std::printf("  %-11s  %5u  %7u  %16.9g  %12.9g  %9.4f  %10.1f\n",
                    kCases[which].name, verdict.moves, verdict.shrinks,
                    verdict.smallestRescale, traced.results[which],
                    verdict.worstFrac, verdict.zeros.frac);
        if (failure->what != nullptr) {
            break;
        }
        ++passed;
    }
    return passed;
}

// --- The long rows ----------------------------------------------------------

enum class Mode { kFull, kQuick, kOnce };

// Launches every kernel once and brings the outputs back.
static void runPaths(const Size &size, const Buffers &b, cudaStream_t stream,
                     Host *host, std::vector<float> *copy)
{
    const size_t bytes = size.n * size.rows * sizeof(float);
    CUDA_CHECK(cudaMemcpy(b.d_x, host->x.data(), bytes,
                          cudaMemcpyHostToDevice));
    clearResults(size.n * size.rows, b);
    for (const Part part : {kSafe, kOnline, kCopy}) {
        launch(part, size.n, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    CUDA_CHECK(cudaMemcpy(host->safe.data(), b.d_safe, bytes,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(host->online.data(), b.d_online, bytes,
                          cudaMemcpyDeviceToHost));
    copy->resize(size.n * size.rows);
    CUDA_CHECK(cudaMemcpy(copy->data(), b.d_copy, bytes,
                          cudaMemcpyDeviceToHost));
}

struct Verdict {
    double maxReference = 0.0;
    Gate gate;
    Worst safe;
    Worst online;
    Worst zeros;  // what an answer of nothing but zeros would get
    Worst pair;   // online against safe, all rows
};

static Verdict judgeRows(const Size &size, const Host &host)
{
    Verdict verdict;
    std::vector<double> reference(size.refRows * size.n);
    for (size_t i = 0; i < size.refRows; ++i) {
        referenceRow(&host.x[refRowAt(i, size) * size.n], size.n,
                     &reference[i * size.n]);
    }
    for (const double value : reference) {
        verdict.maxReference = std::max(verdict.maxReference, value);
    }

    const Gate gate = {rtolFor(size.n),
                       rtolFor(size.n) * verdict.maxReference};
    verdict.gate = gate;
    for (size_t i = 0; i < reference.size(); ++i) {
        const size_t index =
            refRowAt(i / size.n, size) * size.n + i % size.n;
        judge(host.safe[index], reference[i], index, gate, &verdict.safe);
        judge(host.online[index], reference[i], index, gate, &verdict.online);
        judge(0.0, reference[i], index, gate, &verdict.zeros);
    }
    for (size_t i = 0; i < host.online.size(); ++i) {
        judge(host.online[i], host.safe[i], i, gate, &verdict.pair);
    }
    return verdict;
}

static void printVerdict(const Size &size, const Verdict &verdict,
                         const cudaDeviceProp &device)
{
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, reinterpret_cast<const void *>(softmaxOnline),
        static_cast<int>(kThreads), 0));
    const size_t places = static_cast<size_t>(blocks) *
                          static_cast<size_t>(device.multiProcessorCount);
    const size_t inFlight = std::min(size.rows, places);
    std::printf("  rows                   %zu\n", size.rows);
    std::printf("  row                    %zu B\n", size.n * sizeof(float));
    std::printf("  rows in flight         %zu   (blocks that run at once)\n",
                inFlight);
    std::printf("  rows in flight, bytes  %.1f MiB\n",
                static_cast<double>(inFlight * size.n * sizeof(float)) /
                    kMiB);
    std::printf("  rows with a reference  %zu   (of %zu)\n", size.refRows,
                size.rows);
    std::printf("  max |reference|        %.3e\n", verdict.maxReference);
    std::printf("  gate rtol              %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(n)))\n",
                verdict.gate.rtol);
    std::printf("  gate atol              %.3e   (rtol * max "
                "|reference|)\n",
                verdict.gate.atol);
    std::printf("  all zeros, gate frac   %.1f\n", verdict.zeros.frac);
    std::printf("  pair, max abs err      %.3e   (online against safe, all "
                "rows)\n",
                verdict.pair.error);
    std::printf("  pair, gate frac        %.4f\n\n", verdict.pair.frac);
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

// Times the paths and prints the tables.
static void timeRows(const Size &size, const Verdict &verdict,
                     const Buffers &b, cudaStream_t stream)
{
    const Part parts[] = {kSafe, kOnline, kCopy};
    Spread spreads[kPartCount];
    static_assert(sizeof(parts) / sizeof(parts[0]) == kPartCount,
                  "every part is timed, in the order of the enumeration");
    timeParts(parts, kPartCount, size.shortLaunches, size.longLaunches,
              size.n, b, stream, spreads);
    std::printf("  %-6s  %11s  %9s  %9s  %9s  %9s\n", "path", "max abs err",
                "gate frac", "time (ms)", "min (ms)", "max (ms)");
    printPath("safe", verdict.safe, &spreads[kSafe]);
    printPath("online", verdict.online, &spreads[kOnline]);
    printPath("copy", Worst(), &spreads[kCopy]);
    std::printf("\n  time safe over online   %.3fx\n",
                spreads[kSafe].median / spreads[kOnline].median);
    std::printf("  time safe over copy     %.3fx   (2 if every pass is from "
                "memory)\n",
                spreads[kSafe].median / spreads[kCopy].median);
    std::printf("  time online over copy   %.3fx   (1.5 if every pass is "
                "from memory)\n",
                spreads[kOnline].median / spreads[kCopy].median);
}

// Runs the paths on one cut of the matrix, judges them, and times them if they
// are right. If they are not, `failure` says which and where.
static void runRows(const Size &size, Mode mode, const cudaDeviceProp &device,
                    const Buffers &b, cudaStream_t stream, Host *host,
                    Failure *failure)
{
    std::vector<float> copy;
    fillInputs(size, host);
    runPaths(size, b, stream, host, &copy);
    const Verdict verdict = judgeRows(size, *host);
    std::printf("\nrows n = %zu: %s\n", size.n,
                size.timed ? "both paths against the reference"
                           : "threads without tiles, tiles masked");
    printVerdict(size, verdict, device);

    const size_t bytes = copy.size() * sizeof(float);
    // Written so that a fraction that is not a number fails as well.
    if (!(verdict.safe.frac <= 1.0)) {
        *failure = {"safe", nullptr, size.n, verdict.safe};
    } else if (!(verdict.online.frac <= 1.0)) {
        *failure = {"online", nullptr, size.n, verdict.online};
    } else if (!(verdict.pair.frac <= 1.0)) {
        *failure = {"online against safe", nullptr, size.n, verdict.pair};
    } else if (std::memcmp(copy.data(), host->x.data(), bytes) != 0) {
        *failure = {"copy", nullptr, size.n, Worst()};
    } else if (mode == Mode::kFull && size.timed) {
        timeRows(size, verdict, b, stream);
        return;
    }
    std::printf("  %-6s  %11s  %9s\n", "path", "max abs err", "gate frac");
    printPath("safe", verdict.safe, nullptr);
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
}

// Says what failed first, and where.
static void report(const Failure &failure)
{
    const Worst &worst = failure.worst;
    if (failure.name != nullptr) {
        std::fprintf(stderr, "%s fails in case %s after tile %zu", failure.what,
                     failure.name, worst.index + 1);
    } else {
        std::fprintf(stderr, "%s fails at n = %zu: element %zu (row %zu, place "
                             "%zu)",
                     failure.what, failure.n, worst.index,
                     worst.index / failure.n, worst.index % failure.n);
    }
    std::fprintf(stderr, " is %.9g, not %.9g, gate fraction %.4g\n", worst.got,
                 worst.want, worst.frac);
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
                     "usage: online [--quick | --once]\n"
                     "  --quick  the traced rows and the smallest size, "
                     "nothing timed\n"
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
    std::printf("\nshape: FP32, one block per row\n");
    std::printf("  scores in a tile   %u\n", kTile);
    std::printf("  tiles traced       %u\n", kTiles);
    std::printf("  threads            %u\n", kThreads);
    printKernels(device);

    Buffers b;
    Host host;
    Failure failure;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    allocate(mode == Mode::kQuick ? kSizes[0].n * kSizes[0].rows : kElements,
             &b);

    int passed = runCases(stream, &failure);
    if (failure.what == nullptr) {
        printBytes();
        if (mode == Mode::kFull) {
            timeEmptyKernel(b, stream);
        }
        for (const Size &size : kSizes) {
            if (mode == Mode::kQuick && size.timed) {
                continue;
            }
            runRows(size, mode, device, b, stream, &host, &failure);
            if (failure.what != nullptr) {
                break;
            }
            ++passed;
        }
    }

    release(b);
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.what != nullptr) {
        report(failure);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
