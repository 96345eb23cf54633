// SPDX-License-Identifier: MIT
//
// Day 87: the gated recurrence at a shape that fills the GPU, B=8, T=4096,
// H=16, D=64, in FP32. The recurrence is day 84's:
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
// There are as many states as multiprocessors, nearly, and a block for each.
//
//   founding    day 84's kernel: a thread per column, one step after the other
//   16 x 2      a thread has 16 rows of two columns; four threads share a
//               column, and add up eight steps together. Steps come in chunks
//               of 16 by asynchronous copies, three chunks ahead
//   8 x 2       eight rows of two columns: eight threads share a column
//   8 x 4       eight rows of four columns
//   16 x 1      sixteen rows of one column
//   two steps   16 x 2, with two steps in one: five operations in place of six
//   ahead       8 x 4 and two steps in one; what the next two need is loaded
//               from shared memory before these two are computed
//   no overlap  16 x 2, with one chunk of room: load, wait, compute
//
// Two steps in one: with S the state before both,
//
//   y[1] = gate[1] * (q[1] . S) + (q[1] . k[1]) * v[1]
//   y[2] = gate[2] * (gate[1] * (q[2] . S) + (q[2] . k[1]) * v[1])
//          + (q[2] . k[2]) * v[2]
//   state = gate[1] gate[2] * S + k[1] * (gate[2] v[1]) + k[2] * v[2]
//
// where the products of rows, q . k, are the same for all columns.
//
// Two probes take 16 x 2 apart. Each is judged on what it computes:
//
//   moves       copies as 16 x 2 does, and stores (q + k) + (v + gate)
//   computes    does the recurrence in which all chunks have the inputs of the
//               first, and loads that one only
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size. At the
// large shape it judges all outputs of four heads, and every output has to be
// a number. What moves stores is compared bit by bit.
//
// Five tensors are 671 MB and no cache holds them: times are of launches that
// follow one another, between two events.
//
// Written down before the run, milliseconds at the large shape: bytes alone
// need 0.157 at the rate of a copy, three operations for each number of a state
// and step 0.195 at the rate of multiply-adds. founding 2.2, 16 x 2 0.29, 8 x 2
// 0.30, 8 x 4 0.30, 16 x 1 0.31, no overlap 0.40, moves 0.18, computes 0.27.
// When all of them had taken half as long again and moves had not, two steps
// was added, predicted at 0.40. When it had gained nothing, ahead was added, at
// 0.27: threads read shared memory too often, and too late.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o large large.cu
// Run: ./large

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_pipeline_primitives.h>
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

struct Shape {
    int batch;
    int steps;
    int heads;
    int dim;
};

constexpr int kD = 64;
constexpr Shape kLarge = {8, 4096, 16, kD};
constexpr Shape kShapes[] = {
    {1, 131, 3, kD},  // T is no multiple of a chunk
    {2, 64, 2, kD},  // and here it is
    {1, 1, 1, kD},
};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr int kChunk = 16;    // steps that are copied together
constexpr int kTogether = 8;  // steps whose sums are added up together
constexpr int kVectors = kD / 4;  // float4s of a row

// Chunks of 16 KiB in shared memory: three are on their way while one is
// computed, 48 KiB for each multiprocessor.
constexpr int kStages = 4;

static_assert(kChunk % kTogether == 0, "a chunk is whole groups of steps");

// --- Cases ------------------------------------------------------------------

enum Gates { kSigmoid, kNearOne, kOne, kNearZero, kZeros, kGatesCount };
constexpr const char *kGatesNames[kGatesCount] = {
    "sigmoid", "near one", "one", "near zero", "zeros"};
constexpr double kShift = 4.0;    // sigmoid(x + 4) is near one
constexpr int kZeroPeriod = 7;    // of the steps whose gates are zero

// The large tensors repeat a table, of a prime length that divides no size.
constexpr int kTable = 1000003;
constexpr int kHeads[][2] = {{0, 0}, {2, 5}, {5, 11}, {7, 15}};  // judged
constexpr int kLargeKinds = 2;  // sigmoid and near one

// --- Tolerance --------------------------------------------------------------

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off
constexpr double kSafety = 4.0;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;  // odd: the median is one of the samples
constexpr int kWarmups = 2;
constexpr int kLaunches = 4;  // between two events; one more before them

// --- Kernels ----------------------------------------------------------------

// Day 84's kernel: thread j of block (b, h) has column j of its state.
// Memory: a step reads and writes rows of kD neighbouring floats; k and q go
// through shared memory, where all lanes read the same word.
// Launch assumption: kD threads, a block for each head.
__global__ void founding(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = blockIdx.x / heads * steps * row + blockIdx.x % heads * kD + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// A chunk of steps of one head, a row of each tensor per step.
struct Chunk {
    float4 q[kChunk][kVectors];
    float4 k[kChunk][kVectors];
    float4 v[kChunk][kVectors];
    float4 gate[kChunk][kVectors];
};

static_assert(sizeof(Chunk) == 16 * 1024, "a row is four times 256 bytes");

// Begins to copy a chunk, with all of the block's threads; a step that is not
// there is the last one again.
// Memory: half a warp copies a row of kD neighbouring floats, 16 bytes a lane,
// past the registers and the L1.
template <int kThreads>
__device__ inline void copyChunk(const float *__restrict__ q,
                                 const float *__restrict__ k,
                                 const float *__restrict__ v,
                                 const float *__restrict__ gate,
                                 Chunk &chunk, size_t start, size_t row,
                                 int first, int steps)
{
    // snippet: copy-chunk
    constexpr int kRowsAtOnce = kThreads / kVectors;
    static_assert(kChunk % kRowsAtOnce == 0, "all threads copy as much");
    const int n = static_cast<int>(threadIdx.x) % kVectors;
#pragma unroll
    for (int m = 0; m < kChunk; m += kRowsAtOnce) {
        const int s = m + static_cast<int>(threadIdx.x) / kVectors;
        const size_t at = start + min(first + s, steps - 1) * row + 4 * n;
        __pipeline_memcpy_async(&chunk.q[s][n], q + at, sizeof(float4));
        __pipeline_memcpy_async(&chunk.k[s][n], k + at, sizeof(float4));
        __pipeline_memcpy_async(&chunk.v[s][n], v + at, sizeof(float4));
        __pipeline_memcpy_async(&chunk.gate[s][n], gate + at, sizeof(float4));
    }
    // end snippet
}

// kLanes neighbouring lanes bring kCount sums each; a lane leaves with its
// share of them, in order, added up over all of the lanes, in front.
template <int kLanes, int kCount, int kAll>
__device__ inline void addUp(float (&sum)[kAll], int lane)
{
    if constexpr (kLanes > 1) {
        constexpr int kHalf = kCount / 2;
        const bool upper = (lane & (kLanes / 2)) != 0;
#pragma unroll
        for (int n = 0; n < kHalf; ++n) {
            const float send = upper ? sum[n] : sum[n + kHalf];
            const float keep = upper ? sum[n + kHalf] : sum[n];
            sum[n] = keep + __shfl_xor_sync(kFullWarp, send, kLanes / 2);
        }
        addUp<kLanes / 2, kHalf>(sum, lane);
    }
}

// kTogether steps of a thread's kRows x kCols numbers of the state.
// Memory: lanes that share a column read neighbouring float4s of k and q, all
// others the same ones; of v and gate kCols floats.
template <int kRows, int kCols>
__device__ inline void stepsOf(const Chunk &chunk, int from, int part,
                               int column, float (&state)[kRows][kCols],
                               float (&sum)[kTogether * kCols])
{
    constexpr int kParts = kD / kRows;
    // snippet: large-steps
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
        const int s = from + u;
        float g[kCols];
        float value[kCols];
#pragma unroll
        for (int c = 0; c < kCols; ++c) {
            g[c] = (&chunk.gate[s][0].x)[column + c];
            value[c] = (&chunk.v[s][0].x)[column + c];
            sum[u * kCols + c] = 0.0f;
        }
#pragma unroll
        for (int n = 0; n < kRows / 4; ++n) {
            const float4 kk = chunk.k[s][n * kParts + part];
            const float4 qq = chunk.q[s][n * kParts + part];
            const float ki[4] = {kk.x, kk.y, kk.z, kk.w};
            const float qi[4] = {qq.x, qq.y, qq.z, qq.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
#pragma unroll
                for (int c = 0; c < kCols; ++c) {
                    float &own = state[n * 4 + r][c];
                    own = fmaf(g[c], own, ki[r] * value[c]);
                    sum[u * kCols + c] = fmaf(qi[r], own, sum[u * kCols + c]);
                }
            }
        }
    }
    // end snippet
}

// The kCols sums from number `at` on, to neighbouring places.
template <int kCols, int kAll>
__device__ inline void store(float *to, const float (&sum)[kAll], int at)
{
    if constexpr (kCols % 2 == 0) {
#pragma unroll
        for (int c = 0; c < kCols; c += 2) {
            *reinterpret_cast<float2 *>(to + c) =
                make_float2(sum[at + c], sum[at + c + 1]);
        }
    } else {
        *to = sum[at];
    }
}

// All steps of a chunk, kTogether at a time.
// Memory: as stepsOf; a warp stores whole sectors.
template <int kRows, int kCols>
__device__ inline void computeChunk(const Chunk &chunk,
                                    float (&state)[kRows][kCols],
                                    float *__restrict__ y, size_t start,
                                    size_t row, int first, int steps)
{
    constexpr int kParts = kD / kRows;        // threads that share a column
    constexpr int kOwn = kTogether / kParts;  // steps whose sums a lane stores
    static_assert(kTogether % kParts == 0, "sums are dealt out to lanes");
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const int column = static_cast<int>(threadIdx.x) / kParts * kCols;
#pragma unroll 1
    for (int from = 0; from < kChunk; from += kTogether) {
        float sum[kTogether * kCols];
        stepsOf<kRows, kCols>(chunk, from, part, column, state, sum);
        addUp<kParts, kTogether * kCols>(sum, part);
#pragma unroll
        for (int u = 0; u < kOwn; ++u) {
            const int t = first + from + part * kOwn + u;
            if (t < steps) {
                store<kCols>(&y[start + t * row + column], sum, u * kCols);
            }
        }
    }
}

// q . k of two neighbouring steps: of their q and k number 1 and 2, x is 1 . 1,
// y 1 . 2 (which nobody needs), z 2 . 1, w 2 . 2.
// Memory: four lanes read a row of each, 16 bytes at a time.
// Launch assumption: 128 threads, four for each of a chunk's products.
__device__ inline void rowProducts(const Chunk &chunk,
                                   float4 (&products)[kChunk / 2])
{
    static_assert(kChunk / 2 * 4 * 4 == 128, "four threads for each product");
    const int tid = static_cast<int>(threadIdx.x);
    const int pair = tid / 16;
    const int which = tid / 4 % 4;
    float sum = 0.0f;
#pragma unroll
    for (int n = tid % 4; n < kVectors; n += 4) {
        const float4 a = chunk.q[2 * pair + which / 2][n];
        const float4 b = chunk.k[2 * pair + which % 2][n];
        sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
        sum = fmaf(a.z, b.z, fmaf(a.w, b.w, sum));
    }
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    if (tid % 4 == 0) {
        (&products[pair].x)[which] = sum;
    }
}

// All steps of a chunk, two in one: what the state before both gives to their
// sums, and the state behind both.
// Memory: as stepsOf.
template <int kRows, int kCols>
__device__ inline void computePairs(const Chunk &chunk,
                                    const float4 (&products)[kChunk / 2],
                                    float (&state)[kRows][kCols],
                                    float *__restrict__ y, size_t start,
                                    size_t row, int first, int steps)
{
    constexpr int kParts = kD / kRows;
    static_assert(kTogether / kParts == 2, "a lane gets the sums of a pair");
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const int column = static_cast<int>(threadIdx.x) / kParts * kCols;
#pragma unroll 1
    for (int from = 0; from < kChunk; from += kTogether) {
        float sum[kTogether * kCols];
#pragma unroll
        for (int u = 0; u < kTogether; u += 2) {
            const int s = from + u;
            float *first1 = sum + u * kCols;
            float *first2 = first1 + kCols;
            float both[kCols];
            float old[kCols];
            float value[kCols];
#pragma unroll
            for (int c = 0; c < kCols; ++c) {
                const float g = (&chunk.gate[s + 1][0].x)[column + c];
                both[c] = g * (&chunk.gate[s][0].x)[column + c];
                old[c] = g * (&chunk.v[s][0].x)[column + c];
                value[c] = (&chunk.v[s + 1][0].x)[column + c];
                first1[c] = 0.0f;
                first2[c] = 0.0f;
            }
#pragma unroll
            for (int n = 0; n < kRows / 4; ++n) {
                const int at = n * kParts + part;
                const float4 k1 = chunk.k[s][at];
                const float4 k2 = chunk.k[s + 1][at];
                const float4 q1 = chunk.q[s][at];
                const float4 q2 = chunk.q[s + 1][at];
                const float k1i[4] = {k1.x, k1.y, k1.z, k1.w};
                const float k2i[4] = {k2.x, k2.y, k2.z, k2.w};
                const float q1i[4] = {q1.x, q1.y, q1.z, q1.w};
                const float q2i[4] = {q2.x, q2.y, q2.z, q2.w};
#pragma unroll
                for (int r = 0; r < 4; ++r) {
#pragma unroll
                    for (int c = 0; c < kCols; ++c) {
                        float &own = state[n * 4 + r][c];
                        first1[c] = fmaf(q1i[r], own, first1[c]);
                        first2[c] = fmaf(q2i[r], own, first2[c]);
                        own = fmaf(both[c], own, k1i[r] * old[c]);
                        own = fmaf(k2i[r], value[c], own);
                    }
                }
            }
        }
        addUp<kParts, kTogether * kCols>(sum, part);
        const int s = from + 2 * part;
        const float4 product = products[s / 2];
#pragma unroll
        for (int c = 0; c < kCols; ++c) {
            const float g1 = (&chunk.gate[s][0].x)[column + c];
            const float g2 = (&chunk.gate[s + 1][0].x)[column + c];
            const float v1 = (&chunk.v[s][0].x)[column + c];
            const float v2 = (&chunk.v[s + 1][0].x)[column + c];
            float &y1 = sum[c];
            float &y2 = sum[kCols + c];
            y1 = fmaf(g1, y1, product.x * v1);
            y2 = fmaf(g1, y2, product.z * v1);
            y2 = fmaf(g2, y2, product.w * v2);
        }
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            if (first + s + u < steps) {
                store<kCols>(&y[start + (first + s + u) * row + column], sum,
                             u * kCols);
            }
        }
    }
}

// Stores (q + k) + (v + gate) of a chunk's steps.
// Memory: half a warp stores a row, 16 bytes a lane.
template <int kThreads>
__device__ inline void storeMoved(const Chunk &chunk, float *__restrict__ y,
                                  size_t start, size_t row, int first,
                                  int steps)
{
    for (int n = static_cast<int>(threadIdx.x); n < kChunk * kVectors;
         n += kThreads) {
        const float4 a = (&chunk.q[0][0])[n];
        const float4 b = (&chunk.k[0][0])[n];
        const float4 c = (&chunk.v[0][0])[n];
        const float4 d = (&chunk.gate[0][0])[n];
        const int t = first + n / kVectors;
        if (t < steps) {
            const size_t at = start + t * row + n % kVectors * 4;
            *reinterpret_cast<float4 *>(&y[at]) =
                make_float4((a.x + b.x) + (c.x + d.x),
                            (a.y + b.y) + (c.y + d.y),
                            (a.z + b.z) + (c.z + d.z),
                            (a.w + b.w) + (c.w + d.w));
        }
    }
}

enum What { kWhole, kTwoSteps, kMoves, kComputes };

// A block has a state, a thread kRows x kCols numbers of it, from the first
// step to the last.
// Memory: as copyChunk; a warp stores rows of neighbouring floats, whole
// sectors. Shared memory as stepsOf.
// Launch assumption: (kD / kRows) * (kD / kCols) threads, a block for each
// head, room for kRoom chunks; inputs are aligned to 16 bytes.
template <int kRows, int kCols, int kRoom, What kWhat>
__global__ void __launch_bounds__(kD / kRows *kD / kCols)
tiled(const float *__restrict__ q, const float *__restrict__ k,
      const float *__restrict__ v, const float *__restrict__ gate,
      float *__restrict__ y, int steps, int heads)
{
    constexpr int kThreads = (kD / kRows) * (kD / kCols);
    constexpr int kAhead = kRoom - 1;
    static_assert(kRows % 4 == 0, "rows come in float4s");
    extern __shared__ Chunk room[];
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.x / heads * steps * row + blockIdx.x % heads * kD;
    for (int n = 0; n < kAhead; ++n) {
        copyChunk<kThreads>(q, k, v, gate, room[n], start, row, n * kChunk,
                            steps);
        __pipeline_commit();
    }
    [[maybe_unused]] float state[kRows][kCols] = {};
    int stage = 0;
    for (int first = 0; first < steps; first += kChunk) {
        if constexpr (kAhead > 0) {
            __pipeline_wait_prior(kAhead - 1);
        }
        __syncthreads();  // the chunk is there, nobody reads the one before
        if (kWhat != kComputes) {
            copyChunk<kThreads>(q, k, v, gate, room[(stage + kAhead) % kRoom],
                                start, row, first + kAhead * kChunk, steps);
        }
        __pipeline_commit();
        if (kAhead == 0) {
            __pipeline_wait_prior(0);
            __syncthreads();  // there was only room for this one
        }
        const Chunk &chunk = room[stage];
        if (kWhat != kComputes) {
            stage = (stage + 1) % kRoom;
        }
        if constexpr (kWhat == kMoves) {
            storeMoved<kThreads>(chunk, y, start, row, first, steps);
        } else if constexpr (kWhat == kTwoSteps) {
            __shared__ float4 products[kChunk / 2];
            rowProducts(chunk, products);
            __syncthreads();  // the products are there
            computePairs<kRows, kCols>(chunk, products, state, y, start, row,
                                       first, steps);
        } else {
            computeChunk<kRows, kCols>(chunk, state, y, start, row, first,
                                       steps);
        }
    }
}

// What a thread needs of two neighbouring steps, in registers.
struct TwoSteps {
    float4 k1[2];
    float4 k2[2];
    float4 q1[2];
    float4 q2[2];
    float4 g1;
    float4 g2;
    float4 v1;
    float4 v2;
};

// Memory: eight lanes read a row of k and q, 16 bytes at a time, all others the
// same; of gate and v four columns a lane.
__device__ inline TwoSteps loadTwo(const Chunk &chunk, int s, int part,
                                   int group)
{
    TwoSteps two;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        two.k1[n] = chunk.k[s][n * 8 + part];
        two.k2[n] = chunk.k[s + 1][n * 8 + part];
        two.q1[n] = chunk.q[s][n * 8 + part];
        two.q2[n] = chunk.q[s + 1][n * 8 + part];
    }
    two.g1 = chunk.gate[s][group];
    two.g2 = chunk.gate[s + 1][group];
    two.v1 = chunk.v[s][group];
    two.v2 = chunk.v[s + 1][group];
    return two;
}

// The sums of both steps over a thread's rows, of the state before both; and
// the state behind both.
__device__ inline void computeTwo(const TwoSteps &two, float (&state)[8][4],
                                  float (&sum)[8])
{
    const float g1[4] = {two.g1.x, two.g1.y, two.g1.z, two.g1.w};
    const float g2[4] = {two.g2.x, two.g2.y, two.g2.z, two.g2.w};
    const float v1[4] = {two.v1.x, two.v1.y, two.v1.z, two.v1.w};
    const float v2[4] = {two.v2.x, two.v2.y, two.v2.z, two.v2.w};
    float both[4];
    float old[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        both[c] = g2[c] * g1[c];
        old[c] = g2[c] * v1[c];
        sum[c] = 0.0f;
        sum[4 + c] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const float k1[4] = {two.k1[n].x, two.k1[n].y, two.k1[n].z,
                             two.k1[n].w};
        const float k2[4] = {two.k2[n].x, two.k2[n].y, two.k2[n].z,
                             two.k2[n].w};
        const float q1[4] = {two.q1[n].x, two.q1[n].y, two.q1[n].z,
                             two.q1[n].w};
        const float q2[4] = {two.q2[n].x, two.q2[n].y, two.q2[n].z,
                             two.q2[n].w};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                float &own = state[n * 4 + r][c];
                sum[c] = fmaf(q1[r], own, sum[c]);
                sum[4 + c] = fmaf(q2[r], own, sum[4 + c]);
                own = fmaf(both[c], own, k1[r] * old[c]);
                own = fmaf(k2[r], v2[c], own);
            }
        }
    }
}

// As tiled with two steps in one and 8 x 4 numbers a thread; what the next two
// steps need is loaded from shared memory before these two are computed, and
// the sums of the last two are added up meanwhile.
// Memory: as tiled.
// Launch assumption: 128 threads, a block for each head, room for kStages
// chunks; inputs are aligned to 16 bytes.
__global__ void __launch_bounds__(128)
ahead(const float *__restrict__ q, const float *__restrict__ k,
      const float *__restrict__ v, const float *__restrict__ gate,
      float *__restrict__ y, int steps, int heads)
{
    extern __shared__ Chunk room[];
    __shared__ float4 products[2][kChunk / 2];
    const int part = static_cast<int>(threadIdx.x) % 8;
    const int group = static_cast<int>(threadIdx.x) / 8;
    const int ownColumn = group * 4 + part % 4;  // of the sum that is stored
    const bool second = part >= 4;               // it is of the second step
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.x / heads * steps * row + blockIdx.x % heads * kD;
    int t = second ? -1 : -2;  // the step whose sum is stored next
    float *to = y + start + ownColumn + (second ? row : 0) - 2 * row;
    for (int n = 0; n < kStages - 1; ++n) {
        copyChunk<128>(q, k, v, gate, room[n], start, row, n * kChunk, steps);
        __pipeline_commit();
    }
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();  // the first chunk is there
    rowProducts(room[0], products[0]);
    TwoSteps now = loadTwo(room[0], 0, part, group);
    float state[8][4] = {};
    float sum[8] = {};
    float scale = 0.0f;  // of the last two steps' sum
    float extra = 0.0f;
    int stage = 0;
    for (int first = 0; first < steps; first += kChunk) {
        __pipeline_wait_prior(kStages - 3);
        __syncthreads();  // the next chunk is there, nobody reads the last one
        copyChunk<128>(q, k, v, gate, room[(stage + kStages - 1) % kStages],
                       start, row, first + (kStages - 1) * kChunk, steps);
        __pipeline_commit();
        const Chunk &chunk = room[stage];
        stage = (stage + 1) % kStages;
        const Chunk &following = room[stage];
        const int half = first / kChunk % 2;
        rowProducts(following, products[1 - half]);
#pragma unroll 2
        for (int s = 0; s < kChunk; s += 2) {
            const bool last = s + 2 == kChunk;
            const TwoSteps next = loadTwo(last ? following : chunk,
                                          last ? 0 : s + 2, part, group);
            const float4 product = products[half][s / 2];
            const float g1 = (&chunk.gate[s][0].x)[ownColumn];
            const float g2 = (&chunk.gate[s + 1][0].x)[ownColumn];
            const float v1 = (&chunk.v[s][0].x)[ownColumn];
            const float v2 = (&chunk.v[s + 1][0].x)[ownColumn];
            __syncwarp();  // no load is put off beyond here
            addUp<8, 8>(sum, part);
            const float done = fmaf(scale, sum[0], extra);
            if (t >= 0 && t < steps) {
                *to = done;
            }
            t += 2;
            to += 2 * row;
            scale = second ? g1 * g2 : g1;
            extra = second ? fmaf(g2 * product.z, v1, product.w * v2)
                           : product.x * v1;
            computeTwo(now, state, sum);
            now = next;
        }
    }
    addUp<8, 8>(sum, part);
    if (t < steps) {
        *to = fmaf(scale, sum[0], extra);
    }
}

// Number i of a tensor is number i % kTable of a table.
// Memory: a warp writes neighbouring floats.
// Launch assumption: any.
__global__ void fill(const float *__restrict__ table, float *__restrict__ x,
                     size_t count)
{
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        x[i] = table[i % kTable];
    }
}

// --- Paths ------------------------------------------------------------------

enum Path {
    kPathFounding,
    kPath16x2,
    kPath8x2,
    kPath8x4,
    kPath16x1,
    kPathTwoSteps,
    kPathAhead,
    kPathNoOverlap,
    kPathMoves,
    kPathComputes,
    kPathCount
};

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

struct PathInfo {
    const char *name;
    Kernel kernel;
    int threads;
    size_t dynamic;  // bytes of shared memory asked for at the launch
    double words;    // of it that a thread reads in a step
};

template <int kRows, int kCols, int kRoom, What kWhat>
static PathInfo tiledInfo(const char *name)
{
    return {name, tiled<kRows, kCols, kRoom, kWhat>,
            (kD / kRows) * (kD / kCols), kRoom * sizeof(Chunk),
            kWhat == kMoves ? 4.0 * kRows * kCols / kD : 2.0 * (kRows + kCols)};
}

static PathInfo infoOf(int path)
{
    // For two steps 16 words of k, of q, of gate and v together, and what a
    // lane needs for its own sum.
    constexpr double kAheadWords = (3 * 16 + 4 + 4) / 2.0;
    const PathInfo all[kPathCount] = {
        {"founding", founding, kD, 0, 2.0 * kD},
        tiledInfo<16, 2, kStages, kWhole>("16 x 2"),
        tiledInfo<8, 2, kStages, kWhole>("8 x 2"),
        tiledInfo<8, 4, kStages, kWhole>("8 x 4"),
        tiledInfo<16, 1, kStages, kWhole>("16 x 1"),
        tiledInfo<16, 2, kStages, kTwoSteps>("two steps"),
        {"ahead", ahead, 128, kStages * sizeof(Chunk), kAheadWords},
        tiledInfo<16, 2, 1, kWhole>("no overlap"),
        tiledInfo<16, 2, kStages, kMoves>("moves"),
        tiledInfo<16, 2, kStages, kComputes>("computes"),
    };
    return all[path];
}

static size_t countOf(const Shape &shape)
{
    return static_cast<size_t>(shape.batch) * shape.steps * shape.heads *
           shape.dim;
}

struct Buffers {
    float *d_in[4] = {nullptr, nullptr, nullptr, nullptr};  // q, k, v, gate
    float *d_y = nullptr;
};

// More shared memory than 48 KiB is given to those who ask beforehand.
static void askForRoom()
{
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf(path);
        CUDA_CHECK(cudaFuncSetAttribute(
            reinterpret_cast<const void *>(info.kernel),
            cudaFuncAttributeMaxDynamicSharedMemorySize,
            static_cast<int>(info.dynamic)));
    }
}

static void launch(int path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    const PathInfo info = infoOf(path);
    info.kernel<<<shape.batch * shape.heads, info.threads, info.dynamic,
                  stream>>>(b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y,
                            shape.steps, shape.heads);
    CUDA_CHECK(cudaGetLastError());
}

// --- Inputs -----------------------------------------------------------------

// Scatters the bits of a number over all of it; no two numbers meet.
static unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// Normally distributed: the sum of twelve uniform numbers, less six.
static double normalAt(size_t i, unsigned int salt)
{
    double sum = -6.0;
    for (unsigned int n = 0; n < 12; ++n) {
        const unsigned int place = static_cast<unsigned int>(i) * 12u + n;
        sum += scattered((place * 5u + salt) * 2654435769u + 1u) /
               4294967296.0;
    }
    return sum;
}

static float gateAt(size_t i, size_t step, Gates gates)
{
    const double x = normalAt(i, 4);
    const double shift = gates == kNearOne    ? kShift
                         : gates == kNearZero ? -kShift
                                              : 0.0;
    if (gates == kOne) {
        return 1.0f;
    }
    if (gates == kZeros && step % kZeroPeriod == kZeroPeriod - 1) {
        return 0.0f;
    }
    return static_cast<float>(1.0 / (1.0 + std::exp(-x - shift)));
}

struct HostInputs {
    std::vector<float> in[4];
};

static HostInputs makeInputs(const Shape &shape, Gates gates)
{
    const size_t count = countOf(shape);
    const size_t row = static_cast<size_t>(shape.heads) * shape.dim;
    HostInputs h;
    for (unsigned int n = 0; n < 4; ++n) {
        h.in[n].resize(count);
        for (size_t i = 0; i < count; ++i) {
            h.in[n][i] = n < 3 ? static_cast<float>(normalAt(i, n + 1))
                               : gateAt(i, i / row % shape.steps, gates);
        }
    }
    return h;
}

// --- CPU reference and tolerance --------------------------------------------

struct Reference {
    std::vector<double> y;
    std::vector<double> tolerance;
    double memory = 0.0;  // steps back, weighted by size; the longest
};

// Beside the state, its sum of absolute terms, and the roundings that those
// terms have been through, weighted by size: two more in every step.
static Reference referenceOf(const Shape &shape, const HostInputs &h)
{
    const size_t dim = static_cast<size_t>(shape.dim);
    const size_t row = static_cast<size_t>(shape.heads) * dim;
    Reference ref;
    ref.y.resize(countOf(shape));
    ref.tolerance.resize(countOf(shape));
    for (size_t chain = 0; chain < shape.batch * row; ++chain) {
        const size_t head = chain / dim % shape.heads * dim;
        const size_t batch = chain / row * shape.steps * row;
        const size_t j = chain % dim;
        std::vector<double> state(dim, 0.0);
        std::vector<double> size(dim, 0.0);
        std::vector<double> aged(dim, 0.0);
        for (size_t t = 0; t < static_cast<size_t>(shape.steps); ++t) {
            const size_t at = batch + t * row + head;
            const double g = h.in[3][at + j];
            const double value = h.in[2][at + j];
            double y = 0.0;
            double terms = 0.0;
            double roundings = 0.0;
            for (size_t i = 0; i < dim; ++i) {
                const double kv = h.in[1][at + i] * value;
                const double q = h.in[0][at + i];
                aged[i] = g * (aged[i] + 2.0 * size[i]);
                state[i] = g * state[i] + kv;
                size[i] = g * size[i] + std::fabs(kv);
                y += q * state[i];
                terms += std::fabs(q) * size[i];
                roundings += std::fabs(q) * aged[i];
            }
            const double older = terms > 0.0 ? roundings / terms : 0.0;
            const double depth = static_cast<double>(dim) + 2.0 + older;
            ref.y[at + j] = y;
            ref.tolerance[at + j] = kSafety * kUnit * std::sqrt(depth) * terms;
            ref.memory = std::max(ref.memory, older / 2.0);
        }
    }
    return ref;
}

// --- Judging ----------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *path = nullptr;
    const char *gates = nullptr;
    Shape shape = {};
    size_t index = 0;
    double got = 0.0;
    double want = 0.0;
};

// The worst error as a fraction of what is allowed, and where it is. Anything
// that is not finite is infinitely wrong; no error at all is a zero.
static double worstOf(const std::vector<float> &got, const Reference &ref,
                      size_t *where)
{
    double worst = got.empty() ? HUGE_VAL : 0.0;  // nothing seen is no pass
    for (size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(static_cast<double>(got[i]) - ref.y[i]);
        double frac = error == 0.0 ? 0.0 : error / ref.tolerance[i];
        frac = std::isfinite(got[i]) ? frac : HUGE_VAL;
        if (!(frac <= worst)) {
            worst = frac;
            *where = i;
        }
    }
    return worst;
}

// What computes is given: the first chunk, again and again.
static HostInputs repeated(const Shape &shape, const HostInputs &h)
{
    const size_t row = static_cast<size_t>(shape.heads) * shape.dim;
    const size_t batch = shape.steps * row;
    HostInputs same = h;
    for (std::vector<float> &values : same.in) {
        for (size_t i = 0; i < values.size(); ++i) {
            const size_t t = i % batch / row % kChunk;
            values[i] = values[i / batch * batch + t * row + i % row];
        }
    }
    return same;
}

// The worst of moves: any other bits are infinitely wrong.
static double worstSum(const std::vector<float> &got, const HostInputs &h,
                       size_t *where)
{
    double worst = got.empty() ? HUGE_VAL : 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
        const float first = h.in[0][i] + h.in[1][i];
        const float second = h.in[2][i] + h.in[3][i];
        if (!(got[i] == first + second)) {
            worst = HUGE_VAL;
            *where = i;
        }
    }
    return worst;
}

// Runs a path on small inputs, over results that are all NaN.
static void runPath(int path, const Shape &shape, const HostInputs &h,
                    const Buffers &b, cudaStream_t stream,
                    std::vector<float> *got)
{
    const size_t bytes = countOf(shape) * sizeof(float);
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), bytes,
                              cudaMemcpyHostToDevice));
    }
    got->resize(countOf(shape));
    CUDA_CHECK(cudaMemset(b.d_y, 0xff, bytes));
    launch(path, shape, b, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(
        cudaMemcpy(got->data(), b.d_y, bytes, cudaMemcpyDeviceToHost));
}

// The worst fraction of every path with every kind of gates.
struct Fractions {
    double path[kPathCount][kGatesCount] = {};
    double zeros[kGatesCount] = {};
};

static void note(int path, const Shape &shape, int gates, double frac,
                 size_t where, const std::vector<float> &got,
                 Fractions *fractions, Failure *failure)
{
    fractions->path[path][gates] = frac;
    if (!(frac <= 1.0) && failure->path == nullptr) {
        *failure = {infoOf(path).name, kGatesNames[gates], shape, where,
                    static_cast<double>(got[where]), 0.0};
    }
}

static void judgeCase(const Shape &shape, Gates gates, const Buffers &b,
                      cudaStream_t stream, Fractions *fractions,
                      Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const HostInputs same = repeated(shape, h);
    const Reference ref = referenceOf(shape, h);
    const Reference sameRef = referenceOf(shape, same);
    std::vector<float> got;
    for (int path = 0; path < kPathCount; ++path) {
        const bool probe = path == kPathComputes;
        size_t where = 0;
        runPath(path, shape, probe ? same : h, b, stream, &got);
        const double frac = path == kPathMoves
                                ? worstSum(got, h, &where)
                                : worstOf(got, probe ? sameRef : ref, &where);
        note(path, shape, gates, frac, where, got, fractions, failure);
    }
    size_t where = 0;
    const std::vector<float> zeros(countOf(shape), 0.0f);
    fractions->zeros[gates] = worstOf(zeros, ref, &where);
    if (!(fractions->zeros[gates] > 1.0) && failure->path == nullptr) {
        *failure = {"all zeros, accepted,", kGatesNames[gates], shape, 0, 0.0,
                    ref.y[0]};
    }
}

static void printFractions(const Shape &shape, int kinds, size_t outputs,
                           const Fractions &fractions)
{
    std::printf("\ngate B = %d, T = %d, H = %d, D = %d: worst error as a "
                "fraction of what is allowed\n",
                shape.batch, shape.steps, shape.heads, shape.dim);
    std::printf("  outputs   %zu   (of each path, with each kind of gates)\n\n",
                outputs);
    std::printf("  %-10s", "path");
    for (int gates = 0; gates < kinds; ++gates) {
        std::printf("  %9s", kGatesNames[gates]);
    }
    for (int path = 0; path < kPathCount; ++path) {
        if (shape.steps != kLarge.steps || path < kPathMoves) {
            std::printf("\n  %-10s", infoOf(path).name);
            for (int gates = 0; gates < kinds; ++gates) {
                std::printf("  %9.4f", fractions.path[path][gates]);
            }
        }
    }
    std::printf("\n  %-10s", "all zeros");
    for (int gates = 0; gates < kinds; ++gates) {
        std::printf("  %9.0f", fractions.zeros[gates]);
    }
    std::printf("\n");
}

// The large tensors, as the host knows them: a table for each.
static std::vector<float> tableOf(int n, Gates gates)
{
    std::vector<float> table(kTable);
    for (size_t i = 0; i < table.size(); ++i) {
        table[i] = n < 3 ? static_cast<float>(
                               normalAt(i, static_cast<unsigned int>(n) + 1))
                         : gateAt(i, i, gates);
    }
    return table;
}

static void fillLarge(const std::vector<float> (&tables)[4], const Buffers &b,
                      cudaStream_t stream)
{
    float *d_table = nullptr;
    CUDA_CHECK(cudaMalloc(&d_table, kTable * sizeof(float)));
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(d_table, tables[n].data(),
                              kTable * sizeof(float),
                              cudaMemcpyHostToDevice));
        fill<<<1024, 256, 0, stream>>>(d_table, b.d_in[n], countOf(kLarge));
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    CUDA_CHECK(cudaFree(d_table));
}

// Where a head's row of a step begins in a large tensor.
static size_t largeAt(const int (&head)[2], int step)
{
    const size_t steps = static_cast<size_t>(head[0]) * kLarge.steps + step;
    return (steps * kLarge.heads + head[1]) * kD;
}

// Judges all paths but the probes on some of the heads, in full length.
static int judgeLarge(const Buffers &b, cudaStream_t stream, Failure *failure)
{
    constexpr int kJudged = sizeof(kHeads) / sizeof(kHeads[0]);
    constexpr Shape kOne = {1, kLarge.steps, 1, kD};
    Fractions fractions;
    size_t missing = 0;
    int passed = 0;
    std::vector<float> all(countOf(kLarge));
    std::vector<float> got(countOf(kOne));
    for (int gates = 0; gates < kLargeKinds; ++gates) {
        std::vector<float> tables[4];
        HostInputs h[kJudged];
        Reference ref[kJudged];
        for (int n = 0; n < 4; ++n) {
            tables[n] = tableOf(n, static_cast<Gates>(gates));
        }
        fillLarge(tables, b, stream);
        for (int one = 0; one < kJudged; ++one) {
            for (int n = 0; n < 4; ++n) {
                for (size_t i = 0; i < got.size(); ++i) {
                    const size_t at =
                        largeAt(kHeads[one], static_cast<int>(i / kD)) + i % kD;
                    h[one].in[n].push_back(tables[n][at % kTable]);
                }
            }
            ref[one] = referenceOf(kOne, h[one]);
        }
        for (int path = 0; path < kPathMoves; ++path) {
            CUDA_CHECK(cudaMemset(b.d_y, 0xff, all.size() * sizeof(float)));
            launch(path, kLarge, b, stream);
            CUDA_CHECK(cudaStreamSynchronize(stream));
            CUDA_CHECK(cudaMemcpy(all.data(), b.d_y,
                                  all.size() * sizeof(float),
                                  cudaMemcpyDeviceToHost));
            for (const float value : all) {
                missing += std::isfinite(value) ? 0 : 1;
            }
            for (int one = 0; one < kJudged; ++one) {
                for (size_t i = 0; i < got.size(); ++i) {
                    got[i] = all[largeAt(kHeads[one],
                                         static_cast<int>(i / kD)) +
                                 i % kD];
                }
                size_t where = 0;
                const double frac = worstOf(got, ref[one], &where);
                note(path, kLarge, gates,
                     std::max(frac, fractions.path[path][gates]), where, got,
                     &fractions, failure);
            }
        }
        size_t where = 0;
        const std::vector<float> zeros(countOf(kOne), 0.0f);
        fractions.zeros[gates] = worstOf(zeros, ref[0], &where);
        passed += failure->path == nullptr ? 1 : 0;
    }
    printFractions(kLarge, kLargeKinds, kJudged * got.size(), fractions);
    std::printf("\nall heads: outputs that are no number\n");
    std::printf("  missing   %zu   (of %zu, of all paths together)\n", missing,
                all.size() * kPathMoves * kLargeKinds);
    if (missing != 0 && failure->path == nullptr) {
        *failure = {"a path", "of any kind", kLarge, missing, 0.0, 0.0};
    }
    return passed;
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats samples.
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

// Times all paths beside each other, in turns, forwards and backwards:
// milliseconds of a launch, one of several that follow one another.
static void timeAll(const Buffers &b, cudaStream_t stream,
                    Spread (&times)[kPathCount])
{
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> samples[kPathCount];
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            float ms = 0.0f;
            launch(path, kLarge, b, stream);
            CUDA_CHECK(cudaEventRecord(start, stream));
            for (int n = 0; n < kLaunches; ++n) {
                launch(path, kLarge, b, stream);
            }
            CUDA_CHECK(cudaEventRecord(stop, stream));
            CUDA_CHECK(cudaEventSynchronize(stop));
            CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
            if (round >= 0) {
                samples[path].push_back(static_cast<double>(ms) / kLaunches);
            }
        }
    }
    for (int path = 0; path < kPathCount; ++path) {
        times[path] = spreadOf(samples[path]);
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Tables -----------------------------------------------------------------

static double floorBytes()
{
    return 5.0 * static_cast<double>(countOf(kLarge)) * sizeof(float);
}

static void printKernels()
{
    std::printf("\nkernels: D = %d, %d blocks at the large shape\n", kD,
                kLarge.batch * kLarge.heads);
    std::printf("  %-10s  %7s  %9s  %9s  %10s\n", "path", "threads",
                "registers", "local (B)", "shared (B)");
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf(path);
        cudaFuncAttributes attributes = {};
        CUDA_CHECK(cudaFuncGetAttributes(
            &attributes, reinterpret_cast<const void *>(info.kernel)));
        std::printf("  %-10s  %7d  %9d  %9zu  %10zu\n", info.name,
                    info.threads, attributes.numRegs,
                    attributes.localSizeBytes,
                    attributes.sharedSizeBytes + info.dynamic);
    }
}

static void printCounts()
{
    const double updates = static_cast<double>(countOf(kLarge)) * kD;
    std::printf("\ncounts: at the large shape\n");
    std::printf("  blocks       %d\n", kLarge.batch * kLarge.heads);
    std::printf("  floor        %.0f B   (four tensors read, one written)\n",
                floorBytes());
    std::printf("  updates      %.0f   (of one number of one state)\n",
                updates);
    std::printf("  operations   %.0f   (three for each: a multiplication and "
                "two multiply-adds)\n",
                3.0 * updates);
    std::printf("  work         %.0f FLOP   (five for each)\n",
                5.0 * updates);
    const double steps =
        static_cast<double>(kLarge.batch) * kLarge.heads * kLarge.steps;
    std::printf("\nshared: what threads read of shared memory\n");
    std::printf("  %-10s  %20s  %11s\n", "path", "words of a thread",
                "bytes (B)");
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf(path);
        std::printf("  %-10s  %20.0f  %11.0f\n", info.name, info.words,
                    info.words * sizeof(float) * info.threads * steps);
    }
}

static void printTimes(const Buffers &b, cudaStream_t stream)
{
    Spread times[kPathCount];
    timeAll(b, stream, times);
    std::printf("\ntime: T = %d, of one of %d launches between two events, "
                "data in DRAM\n",
                kLarge.steps, kLaunches);
    std::printf("  repeats   %d   (time is the median)\n\n", kRepeats);
    std::printf("  %-10s  %9s  %8s  %8s  %11s  %13s\n", "path", "time (ms)",
                "min (ms)", "max (ms)", "rate (GB/s)", "founding over");
    for (int path = 0; path < kPathCount; ++path) {
        const Spread &spread = times[path];
        std::printf("  %-10s  %9.4f  %8.4f  %8.4f  %11.0f  %12.2fx\n",
                    infoOf(path).name, spread.median, spread.least,
                    spread.most, 1e-6 * floorBytes() / spread.median,
                    times[kPathFounding].median / spread.median);
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const bool once = argc == 2 && std::strcmp(argv[1], "--once") == 0;
    if (argc != 1 && !quick && !once) {
        std::fprintf(stderr, "usage: large [--quick | --once]\n"
                             "  --quick  small shapes, nothing timed\n"
                             "  --once   every path once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    Buffers b;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    const size_t bytes =
        countOf(quick ? kShapes[0] : kLarge) * sizeof(float);
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, bytes));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, bytes));

    askForRoom();
    printKernels();
    printCounts();
    Failure failure;
    int passed = 0;
    for (int n = 0; n < kShapeCount && !once; ++n) {
        Fractions fractions;
        const int kinds = quick ? kLargeKinds : kGatesCount;
        for (int gates = 0; gates < kinds; ++gates) {
            judgeCase(kShapes[n], static_cast<Gates>(gates), b, stream,
                      &fractions, &failure);
            passed += failure.path == nullptr ? 1 : 0;
        }
        printFractions(kShapes[n], kinds, countOf(kShapes[n]), fractions);
    }
    if (failure.path == nullptr && !quick && !once) {
        passed += judgeLarge(b, stream, &failure);
    }
    if (failure.path == nullptr && !quick && !once) {
        printTimes(b, stream);
    }
    if (once) {
        const std::vector<float> tables[4] = {
            tableOf(0, kSigmoid), tableOf(1, kSigmoid), tableOf(2, kSigmoid),
            tableOf(3, kSigmoid)};
        fillLarge(tables, b, stream);
        for (int path = 0; path < kPathCount; ++path) {
            launch(path, kLarge, b, stream);
        }
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }

    for (float *d_in : b.d_in) {
        CUDA_CHECK(cudaFree(d_in));
    }
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaStreamDestroy(stream));

    if (failure.path != nullptr) {
        const Shape &s = failure.shape;
        std::fprintf(stderr,
                     "%s fails at B=%d T=%d H=%d D=%d, gates %s: output %zu "
                     "is %.9g\n",
                     failure.path, s.batch, s.steps, s.heads, s.dim,
                     failure.gates, failure.index, failure.got);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
