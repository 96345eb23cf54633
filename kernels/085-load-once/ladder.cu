// SPDX-License-Identifier: MIT
//
// Day 85: load once, and day 87: a warp per column. The gated recurrence of
// day 84, nine times, one idea a step; all numbers are FP32:
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
//   founding    day 84's kernel: a block per head, a thread per column, and in
//               every step loads, a barrier, the sums, a barrier
//   prefetch    the same; the next step's loads are on their way meanwhile
//   once, warp  up to 128 steps are loaded into shared memory before the first
//               is computed, by the one warp that computes
//   once        loaded by 256 threads; the first D of them compute
//   rows        four threads share a column, each with a quarter of its rows
//   unrolled    rows, with eight steps written out side by side
//   columns     a warp per column, a lane per row, four columns a block; the
//               sums over rows are put off for 32 steps and done together
//   segments    a warp has 16 of 128 steps of two columns, and loads what it
//               needs into registers: what a segment adds to any state is found
//               first, then the state at which each begins, then the outputs
//   pairs       the same with a third of the loads
//
// "marked" is pairs with a clock in it. "empty" is a kernel without a body, of
// the grid, block and shared memory of the path beside it.
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size.
//
// Times are device times of a chain: the slope between a short and a long graph
// of launches, all data in L2 after the first of them.
//
// Written down before the run, microseconds at B=2, T=128, H=4, D=24: founding
// 34, prefetch 22, once by a warp 12, once 8.5, rows 5.5, columns 3.0, segments
// 2.5, empty 0.55. Loading once, we thought, is worth four fifths of the way.
// When rows turned out behind once, unrolled was added, predicted at 8, then
// pairs, at 2.4.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o ladder ladder.cu
// Run: ./ladder

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

struct Shape {
    int batch;
    int steps;
    int heads;
    int dim;
};

constexpr int kDim = 24;       // of the founding shape
constexpr int kOtherDim = 40;  // two warps of columns, the second ragged
constexpr Shape kFounding = {2, 128, 4, kDim};
constexpr Shape kLonger = {2, 1152, 4, kDim};  // nine times the steps
constexpr Shape kShapes[] = {
    {1, 131, 3, kDim},       // T is no multiple of a tile, nor of 32
    {1, 131, 2, kOtherDim},
    {1, 1, 1, kDim},
    kFounding,
};
constexpr int kQuickShapes = 3;

constexpr int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr int kLoaders = 256;  // threads of once and rows
constexpr int kParts = 4;      // threads that share a column in rows

// Steps in shared memory at a time. 128 steps of four arrays of 24 floats are
// 48 KiB, the most that a block has without asking.
__host__ __device__ constexpr int tileSteps(int dim)
{
    return dim <= kDim ? 128 : 64;
}

static_assert(tileSteps(kDim) * kDim * 4 * sizeof(float) <= 48 * 1024 &&
                  tileSteps(kOtherDim) * kOtherDim * 4 * sizeof(float) <=
                      48 * 1024,
              "the tiles of once fit into static shared memory");
static_assert(kDim % 8 == 0 && kOtherDim % 8 == 0,
              "rows are whole float4s, and a quarter of them whole float2s");

// --- Cases ------------------------------------------------------------------

enum Gates { kSigmoid, kNearOne, kOne, kNearZero, kZeros, kGatesCount };
constexpr const char *kGatesNames[kGatesCount] = {
    "sigmoid", "near one", "one", "near zero", "zeros"};
constexpr double kShift = 4.0;    // sigmoid(x + 4) is near one
constexpr int kZeroPeriod = 7;    // of the steps whose gates are zero

// --- Tolerance --------------------------------------------------------------

constexpr double kUnit = 1.0 / (1 << 24);  // u: the most that a rounding is off
constexpr double kSafety = 4.0;

// --- Timing -----------------------------------------------------------------

constexpr int kRepeats = 11;     // odd: the median is one of the samples
constexpr int kWarmups = 2;
constexpr int kShortGraph = 40;  // launches
constexpr int kLongGraph = 240;
constexpr int kLongerShort = 10;  // for the longer sequence
constexpr int kLongerLong = 40;

// --- Kernels ----------------------------------------------------------------

// Day 84's kernel: thread j of block (b, h) has column j of its state.
// Memory: a step reads and writes rows of kD neighbouring floats; k and q go
// through shared memory, where all lanes read the same word.
// Launch assumption: kD threads, (1, batch * heads) blocks.
template <int kD>
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
    size_t at = blockIdx.y / heads * steps * row + blockIdx.y % heads * kD + j;
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

// The same, a step ahead: what step t + 1 needs is loaded before step t is
// computed, into registers.
// Memory: as founding.
// Launch assumption: as founding.
template <int kD>
__global__ void prefetch(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = blockIdx.y / heads * steps * row + blockIdx.y % heads * kD + j;
    float state[kD] = {};
    // snippet: prefetch
    float nextK = k[at];
    float nextQ = q[at];
    float nextGate = gate[at];
    float nextV = v[at];
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = nextK;
        tileQ[j] = nextQ;
        const float g = nextGate;
        const float value = nextV;
        __syncthreads();  // the step's k and q are there
        const size_t next = t + 1 < steps ? at + row : at;
        nextK = k[next];
        nextQ = q[next];
        nextGate = gate[next];
        nextV = v[next];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
}

// Up to a tile of steps of one head, side by side.
template <int kD>
struct HeadTile {
    static constexpr int kSteps = tileSteps(kD);
    static constexpr int kVectors = kD / 4;  // of a row
    float4 q[kSteps * kVectors];
    float4 k[kSteps * kVectors];
    float4 v[kSteps * kVectors];
    float4 gate[kSteps * kVectors];
};

// Brings `count` steps into shared memory, with all of the block's threads. A
// step that is not there is the last one again: no branch holds up a load.
// Memory: a warp reads rows of kD neighbouring floats, 16 bytes a lane.
template <int kD, int kThreads>
__device__ void loadHead(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         HeadTile<kD> &tile, size_t start, size_t row,
                         int count)
{
    // snippet: load-head
    constexpr int kVectors = HeadTile<kD>::kVectors;
#pragma unroll
    for (int n = static_cast<int>(threadIdx.x);
         n < HeadTile<kD>::kSteps * kVectors; n += kThreads) {
        const int s = min(n / kVectors, count - 1);
        const size_t at = start + s * row + n % kVectors * 4;
        tile.q[n] = *reinterpret_cast<const float4 *>(q + at);
        tile.k[n] = *reinterpret_cast<const float4 *>(k + at);
        tile.v[n] = *reinterpret_cast<const float4 *>(v + at);
        tile.gate[n] = *reinterpret_cast<const float4 *>(gate + at);
    }
    // end snippet
}

// Everything of a tile is loaded at once; then its steps need no memory but
// shared, and no barrier.
// Memory: as loadHead; all lanes read the same float4 of k and q (a broadcast),
// and neighbouring floats of v and gate.
// Launch assumption: kThreads >= kD threads, (1, batch * heads) blocks.
template <int kD, int kThreads>
__global__ void __launch_bounds__(kThreads)
once(const float *__restrict__ q, const float *__restrict__ k,
     const float *__restrict__ v, const float *__restrict__ gate,
     float *__restrict__ y, int steps, int heads)
{
    using Tile = HeadTile<kD>;
    __shared__ Tile tile;
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    float state[kD] = {};
    // snippet: once
    for (int first = 0; first < steps; first += Tile::kSteps) {
        const int count = min(Tile::kSteps, steps - first);
        __syncthreads();  // nobody reads the tile before
        loadHead<kD, kThreads>(q, k, v, gate, tile, start + first * row, row,
                               count);
        __syncthreads();  // the tile is there
        for (int s = 0; s < count && j < kD; ++s) {
            const float value = (&tile.v[0].x)[s * kD + j];
            const float g = (&tile.gate[0].x)[s * kD + j];
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < kD; ++i) {
                const float ki = (&tile.k[0].x)[s * kD + i];
                const float qi = (&tile.q[0].x)[s * kD + i];
                state[i] = fmaf(g, state[i], ki * value);
                sum = fmaf(qi, state[i], sum);
            }
            y[start + (first + s) * row + j] = sum;
        }
    }
    // end snippet
}

// As once; thread j * 4 + p has quarter p of column j, and two shuffles add up
// the quarters. kUnroll steps are written out side by side, so that the loads
// of a later one need not wait for the sums of an earlier one.
// Memory: as once; a warp reads four different quarters of k and q.
// Launch assumption: kLoaders threads, (1, batch * heads) blocks.
template <int kD, int kUnroll>
__global__ void __launch_bounds__(kLoaders)
rows(const float *__restrict__ q, const float *__restrict__ k,
     const float *__restrict__ v, const float *__restrict__ gate,
     float *__restrict__ y, int steps, int heads)
{
    static_assert(kParts * kD <= kLoaders && kParts * kD % kWarp == 0,
                  "columns make whole warps: a shuffle needs all lanes");
    static_assert(tileSteps(kD) % kUnroll == 0, "the tile has all the steps");
    using Tile = HeadTile<kD>;
    constexpr int kOwn = kD / kParts;
    __shared__ Tile tile;
    const int j = static_cast<int>(threadIdx.x) / kParts;
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    float state[kOwn] = {};
    for (int first = 0; first < steps; first += Tile::kSteps) {
        const int count = min(Tile::kSteps, steps - first);
        __syncthreads();  // nobody reads the tile before
        loadHead<kD, kLoaders>(q, k, v, gate, tile, start + first * row, row,
                               count);
        __syncthreads();  // the tile is there
        // snippet: rows
        for (int from = 0; from < count && j < kD; from += kUnroll) {
#pragma unroll
            for (int s = from; s < from + kUnroll; ++s) {
                const float value = (&tile.v[0].x)[s * kD + j];
                const float g = (&tile.gate[0].x)[s * kD + j];
                const float *ownK = &tile.k[0].x + s * kD + part * kOwn;
                const float *ownQ = &tile.q[0].x + s * kD + part * kOwn;
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < kOwn; i += 2) {
                    const float2 kk =
                        *reinterpret_cast<const float2 *>(ownK + i);
                    const float2 qq =
                        *reinterpret_cast<const float2 *>(ownQ + i);
                    state[i] = fmaf(g, state[i], kk.x * value);
                    state[i + 1] = fmaf(g, state[i + 1], kk.y * value);
                    sum = fmaf(qq.x, state[i], sum);
                    sum = fmaf(qq.y, state[i + 1], sum);
                }
                sum += __shfl_xor_sync(kFullWarp, sum, 1);
                sum += __shfl_xor_sync(kFullWarp, sum, 2);
                if (part == 0 && s < count) {
                    y[start + (first + s) * row + j] = sum;
                }
            }
        }
        // end snippet
    }
}

// What a block of kCols columns needs of a tile of steps: for each step and row
// k and q side by side, zeros where there is no row, and for each step and
// column gate and v.
template <int kD, int kCols>
struct ColumnTile {
    static constexpr int kRows = (kD + kWarp - 1) / kWarp;  // rows of a lane
    static constexpr int kSteps = tileSteps(kD);
    static constexpr int kPitch = kRows * kWarp;
    float4 kq[kSteps * kPitch / 2];  // (k, q) of two neighbouring rows
    float2 gv[kSteps * kCols];       // (gate, v)
};

// Memory: a warp reads rows of kD neighbouring floats of k and q, 16 bytes a
// lane, and kCols neighbouring floats of a step's gate and v.
template <int kD, int kCols, int kThreads>
__device__ void loadColumns(const float *__restrict__ q,
                            const float *__restrict__ k,
                            const float *__restrict__ v,
                            const float *__restrict__ gate,
                            ColumnTile<kD, kCols> &tile, size_t start,
                            size_t row, int column, int count)
{
    using Tile = ColumnTile<kD, kCols>;
    constexpr int kVectors = Tile::kPitch / 4;
    static_assert(kThreads % kVectors == 0, "a thread loads the same rows");
    const int tid = static_cast<int>(threadIdx.x);
    const int i = tid % kVectors * 4;
    float2 gv[Tile::kSteps * kCols / kThreads];
#pragma unroll
    for (int n = 0; n < Tile::kSteps * kCols / kThreads; ++n) {
        const int s = min((tid + n * kThreads) / kCols, count - 1);
        const size_t at = start + s * row + column + tid % kCols;
        gv[n] = make_float2(gate[at], v[at]);
    }
    if (i < kD) {
#pragma unroll
        for (int n = tid; n < Tile::kSteps * kVectors; n += kThreads) {
            const size_t at = start + min(n / kVectors, count - 1) * row + i;
            const float4 kk = *reinterpret_cast<const float4 *>(k + at);
            const float4 qq = *reinterpret_cast<const float4 *>(q + at);
            tile.kq[2 * n] = make_float4(kk.x, qq.x, kk.y, qq.y);
            tile.kq[2 * n + 1] = make_float4(kk.z, qq.z, kk.w, qq.w);
        }
    }
#pragma unroll
    for (int n = 0; n < Tile::kSteps * kCols / kThreads; ++n) {
        tile.gv[tid + n * kThreads] = gv[n];
    }
}

// A lane keeps the half of 2 kHalf products that its place stands for, each
// with its partner's share added.
template <int kHalf, int kCount>
__device__ inline void foldHalf(float (&product)[kCount], int lane)
{
    // snippet: fold-half
    const bool upper = (lane & kHalf) != 0;
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
        const float send = upper ? product[n] : product[n + kHalf];
        const float keep = upper ? product[n + kHalf] : product[n];
        product[n] = keep + __shfl_xor_sync(kFullWarp, send, kHalf);
    }
    // end snippet
}

// Each of kCount lanes brings kCount products; its n-th lane leaves with the
// sum of their n-th. For 32 that is 16 + 8 + 4 + 2 + 1 shuffles in place of
// 32 * 5. A template for each half: a loop over them may stay a loop, and then
// the products are in local memory.
template <int kCount>
__device__ inline float sumOfEach(float (&product)[kCount], int lane)
{
    // snippet: sum-of-each
    if constexpr (kCount >= 32) {
        foldHalf<16>(product, lane);
    }
    if constexpr (kCount >= 16) {
        foldHalf<8>(product, lane);
    }
    foldHalf<4>(product, lane);
    foldHalf<2>(product, lane);
    foldHalf<1>(product, lane);
    return product[0];
    // end snippet
}

// Warp w of a block has column w of its few, lane i the rows i, i + 32, ...
// Memory: as loadColumns; a warp reads 32 neighbouring (k, q) and one (gate, v)
// for all lanes; lanes store floats that are a step apart, 32 sectors.
// Launch assumption: kCols warps, (kD / kCols, batch * heads) blocks.
template <int kD, int kCols>
__global__ void __launch_bounds__(kCols *kWarp)
columns(const float *__restrict__ q, const float *__restrict__ k,
        const float *__restrict__ v, const float *__restrict__ gate,
        float *__restrict__ y, int steps, int heads)
{
    using Tile = ColumnTile<kD, kCols>;
    constexpr int kThreads = kCols * kWarp;
    __shared__ Tile tile;
    const int tid = static_cast<int>(threadIdx.x);
    const int lane = tid % kWarp;
    const int warp = tid / kWarp;
    const int column = static_cast<int>(blockIdx.x) * kCols;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    float2 *kq = reinterpret_cast<float2 *>(tile.kq);
    for (int n = tid; n < Tile::kSteps * Tile::kPitch; n += kThreads) {
        if (n % Tile::kPitch >= kD) {
            kq[n] = make_float2(0.0f, 0.0f);  // no row, for all tiles
        }
    }
    float state[Tile::kRows] = {};
    for (int first = 0; first < steps; first += Tile::kSteps) {
        const int count = min(Tile::kSteps, steps - first);
        __syncthreads();  // nobody reads the tile before
        loadColumns<kD, kCols, kThreads>(q, k, v, gate, tile,
                                         start + first * row, row, column,
                                         count);
        __syncthreads();  // the tile is there
        // snippet: columns
        for (int from = 0; from < count; from += kWarp) {
            float product[kWarp];
#pragma unroll
            for (int u = 0; u < kWarp; ++u) {
                const float2 gv = tile.gv[(from + u) * kCols + warp];
                product[u] = 0.0f;
#pragma unroll
                for (int r = 0; r < Tile::kRows; ++r) {
                    const float2 own =
                        kq[(from + u) * Tile::kPitch + r * kWarp + lane];
                    state[r] = fmaf(gv.x, state[r], own.x * gv.y);
                    product[u] = fmaf(own.y, state[r], product[u]);
                }
            }
            const float sum = sumOfEach(product, lane);
            if (from + lane < count) {
                y[start + (first + from + lane) * row + column + warp] = sum;
            }
        }
        // end snippet
    }
}

// A warp has kCols columns and as many steps as lanes for each of them, so that
// a lane leaves with the sum of one step; the warps of a block have the
// segments of 128 steps. Everything is in registers, loaded straight from
// memory.
// Memory: a load of k or q is of up to 32 / kCols neighbouring floats, the same
// for all columns; of v and gate kCols neighbouring floats, as is a store.
// Launch assumption: 4 kCols warps, (kD / kCols, batch * heads) blocks.
template <int kD, int kCols>
__global__ void __launch_bounds__(4 * kCols *kWarp)
segments(const float *__restrict__ q, const float *__restrict__ k,
         const float *__restrict__ v, const float *__restrict__ gate,
         float *__restrict__ y, int steps, int heads)
{
    constexpr int kSegments = 4 * kCols;
    constexpr int kLanes = kWarp / kCols;              // of a column
    constexpr int kRows = (kD + kLanes - 1) / kLanes;  // of a lane
    static_assert(kD % kCols == 0 && kCols <= 4, "columns are dealt out");
    __shared__ float added[kSegments][kRows][kWarp];
    __shared__ float decay[kSegments][kCols];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int segment = static_cast<int>(threadIdx.x) / kWarp;
    const int part = lane % kLanes;
    const int own = lane / kLanes;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    const size_t column = blockIdx.x * kCols + own;
    float carried[kRows] = {};  // the state at which 128 steps begin
    for (int first = segment * kLanes; first - segment * kLanes < steps;
         first += kSegments * kLanes) {
        // snippet: segment-load
        float kv[kLanes][kRows];
        float qs[kLanes][kRows];
        float gs[kLanes];
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            // A step that is not there is the last one again, and not stored.
            const size_t at = start + min(first + u, steps - 1) * row;
            gs[u] = gate[at + column];
            const float value = v[at + column];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const int i = r * kLanes + part;
                kv[u][r] = i < kD ? k[at + i] * value : 0.0f;
                qs[u][r] = i < kD ? q[at + i] : 0.0f;
            }
        }
        // end snippet
        // snippet: segment-starts
        float end[kRows] = {};  // the state after it, if it begins at zero
        float product = 1.0f;   // of its gates
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            product *= gs[u];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                end[r] = fmaf(gs[u], end[r], kv[u][r]);
            }
        }
        __syncthreads();  // nobody reads the 128 steps before
        if (part == 0) {
            decay[segment][own] = product;
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            added[segment][r][lane] = end[r];
        }
        __syncthreads();  // every segment's share is there
        float state[kRows] = {};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int s = 0; s < kSegments; ++s) {
                state[r] = s == segment ? carried[r] : state[r];
                carried[r] = fmaf(decay[s][own], carried[r],
                                  added[s][r][lane]);
            }
        }
        // end snippet
        // snippet: segment-steps
        float sums[kLanes];
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            sums[u] = 0.0f;
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                state[r] = fmaf(gs[u], state[r], kv[u][r]);
                sums[u] = fmaf(qs[u][r], state[r], sums[u]);
            }
        }
        const float sum = sumOfEach(sums, lane);
        if (first + part < steps) {
            y[start + (first + part) * row + column] = sum;
        }
        // end snippet
    }
}

// When each block reached four places, in cycles of its multiprocessor.
constexpr int kMarks = 4;
constexpr int kMarkedBlocks = 1024;
__device__ long long d_marks[kMarks][kMarkedBlocks];

template <bool kMarked>
__device__ inline void mark(int place)
{
    if (kMarked && threadIdx.x == 0) {
        d_marks[place][blockIdx.y * gridDim.x + blockIdx.x] = clock64();
    }
}

// As segments, with fewer loads: rows two at a time, and gate and v,
// which a column's lanes share, a step per lane and on through shared memory.
// kMarked adds the clock, and is not timed.
// Memory: a load of k or q is of a row of kD neighbouring floats, 8 bytes a
// lane, the same for all columns; of v and gate kCols neighbouring floats for
// each step, as is a store.
// Launch assumption: as segments.
template <int kD, int kCols, bool kMarked>
__global__ void __launch_bounds__(4 * kCols *kWarp)
pairs(const float *__restrict__ q, const float *__restrict__ k,
      const float *__restrict__ v, const float *__restrict__ gate,
      float *__restrict__ y, int steps, int heads)
{
    constexpr int kSegments = 4 * kCols;
    constexpr int kLanes = kWarp / kCols;  // of a column
    constexpr int kPairs = (kD / 2 + kLanes - 1) / kLanes;  // of a lane's rows
    static_assert(kD % 2 == 0 && kD % kCols == 0 && kCols <= 4,
                  "rows come in pairs, columns are dealt out");
    __shared__ float4 shared[kSegments][kCols][kLanes / 2];  // gate, v; twice
    __shared__ float2 added[kSegments][kPairs][kWarp];
    __shared__ float decay[kSegments][kCols];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int segment = static_cast<int>(threadIdx.x) / kWarp;
    const int part = lane % kLanes;
    const int own = lane / kLanes;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    const size_t column = start + blockIdx.x * kCols + own;
    float2 carried[kPairs] = {};  // the state at which 128 steps begin
    mark<kMarked>(0);
    for (int first = segment * kLanes; first - segment * kLanes < steps;
         first += kSegments * kLanes) {
        // snippet: pair-load
        // A step that is not there is the last one again, and not stored.
        const size_t mine = column + min(first + part, steps - 1) * row;
        const float2 gv = make_float2(gate[mine], v[mine]);
        float2 kv[kLanes][kPairs];
        float2 qs[kLanes][kPairs];
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            const size_t at = start + min(first + u, steps - 1) * row;
#pragma unroll
            for (int r = 0; r < kPairs; ++r) {
                const int i = 2 * (r * kLanes + part);
                const float2 none = make_float2(0.0f, 0.0f);
                const float2 *twoK =
                    reinterpret_cast<const float2 *>(&k[at + i]);
                const float2 *twoQ =
                    reinterpret_cast<const float2 *>(&q[at + i]);
                kv[u][r] = i < kD ? *twoK : none;
                qs[u][r] = i < kD ? *twoQ : none;
            }
        }
        reinterpret_cast<float2 *>(shared[segment][own])[part] = gv;
        __syncwarp();  // the segment's gates and v are there
        // end snippet
        float2 end[kPairs] = {};  // the state after it, if it begins at zero
        float product = 1.0f;     // of its gates
        float gs[kLanes];
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            const float4 two = shared[segment][own][u / 2];
            const float value = u % 2 == 0 ? two.y : two.w;
            gs[u] = u % 2 == 0 ? two.x : two.z;
            product *= gs[u];
#pragma unroll
            for (int r = 0; r < kPairs; ++r) {
                kv[u][r].x *= value;
                kv[u][r].y *= value;
                end[r].x = fmaf(gs[u], end[r].x, kv[u][r].x);
                end[r].y = fmaf(gs[u], end[r].y, kv[u][r].y);
            }
        }
        mark<kMarked>(1);
        __syncthreads();  // nobody reads the 128 steps before
        if (part == 0) {
            decay[segment][own] = product;
        }
#pragma unroll
        for (int r = 0; r < kPairs; ++r) {
            added[segment][r][lane] = end[r];
        }
        __syncthreads();  // every segment's share is there
        float2 state[kPairs] = {};
#pragma unroll
        for (int s = 0; s < kSegments; ++s) {
            const float by = decay[s][own];
#pragma unroll
            for (int r = 0; r < kPairs; ++r) {
                const float2 share = added[s][r][lane];
                state[r] = s == segment ? carried[r] : state[r];
                carried[r].x = fmaf(by, carried[r].x, share.x);
                carried[r].y = fmaf(by, carried[r].y, share.y);
            }
        }
        mark<kMarked>(2);
        float sums[kLanes];
#pragma unroll
        for (int u = 0; u < kLanes; ++u) {
            sums[u] = 0.0f;
#pragma unroll
            for (int r = 0; r < kPairs; ++r) {
                state[r].x = fmaf(gs[u], state[r].x, kv[u][r].x);
                state[r].y = fmaf(gs[u], state[r].y, kv[u][r].y);
                sums[u] = fmaf(qs[u][r].x, state[r].x, sums[u]);
                sums[u] = fmaf(qs[u][r].y, state[r].y, sums[u]);
            }
        }
        const float sum = sumOfEach(sums, lane);
        if (first + part < steps) {
            y[column + (first + part) * row] = sum;
        }
    }
    mark<kMarked>(3);
}

// Nothing at all. Launch assumption: any.
__global__ void empty() {}

// --- Paths ------------------------------------------------------------------

enum Path {
    kPathFounding,
    kPathPrefetch,
    kPathOnceWarp,
    kPathOnce,
    kPathRows,
    kPathUnrolled,
    kPathColumns,
    kPathSegments,
    kPathPairs,
    kPathMarked,
    kPathCount,
    kTimedPaths = kPathMarked
};

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

struct PathInfo {
    const char *name;
    Kernel kernel;
    int threads;
    int columns;  // of a block
};

// What a path is at kD; no kernel where it is not offered.
template <int kD>
static PathInfo infoOf(int path)
{
    constexpr int kCols = 2;
    constexpr int kFew = (kD + kWarp - 1) / kWarp * kWarp;
    const PathInfo all[kPathCount] = {
        {"founding", founding<kD>, kD, kD},
        {"prefetch", prefetch<kD>, kD, kD},
        {"once, warp", once<kD, kFew>, kFew, kD},
        {"once", once<kD, kLoaders>, kLoaders, kD},
        {"rows", rows<kD, 1>, kLoaders, kD},
        {"unrolled", rows<kD, 8>, kLoaders, kD},
        {"columns", columns<kD, 4>, 4 * kWarp, 4},
        {"segments", segments<kD, kCols>, 4 * kCols * kWarp, kCols},
        {"pairs", pairs<kD, kCols, false>, 4 * kCols * kWarp, kCols},
        {"marked", pairs<kD, kCols, true>, 4 * kCols * kWarp, kCols},
    };
    return all[path];
}

static PathInfo infoOf(int path, int dim)
{
    return dim == kDim ? infoOf<kDim>(path) : infoOf<kOtherDim>(path);
}

static dim3 gridOf(const PathInfo &info, const Shape &shape)
{
    const unsigned int heads =
        static_cast<unsigned int>(shape.batch * shape.heads);
    return dim3(static_cast<unsigned int>(shape.dim / info.columns), heads);
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

static void launch(int path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    const PathInfo info = infoOf(path, shape.dim);
    info.kernel<<<gridOf(info, shape), info.threads, 0, stream>>>(
        b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y, shape.steps,
        shape.heads);
    CUDA_CHECK(cudaGetLastError());
}

// A kernel without a body, launched as the path's is.
static void launchEmpty(int path, const Shape &shape, cudaStream_t stream)
{
    const PathInfo info = infoOf(path, shape.dim);
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(
        &attributes, reinterpret_cast<const void *>(info.kernel)));
    empty<<<gridOf(info, shape), info.threads, attributes.sharedSizeBytes,
            stream>>>();
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

// Runs every path that there is and prints its worst fraction.
static void judgeCase(const Shape &shape, Gates gates, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const Reference ref = referenceOf(shape, h);
    const size_t count = countOf(shape);
    std::vector<float> got(count);
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), count * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    std::printf("  %-10s", kGatesNames[gates]);
    for (int path = 0; path < kPathCount; ++path) {
        CUDA_CHECK(cudaMemset(b.d_y, 0xff, count * sizeof(float)));
        launch(path, shape, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, count * sizeof(float),
                              cudaMemcpyDeviceToHost));
        size_t where = 0;
        const double frac = worstOf(got, ref, &where);
        if (!(frac <= 1.0) && failure->path == nullptr) {
            *failure = {infoOf(path, shape.dim).name, kGatesNames[gates],
                        shape, where, static_cast<double>(got[where]),
                        ref.y[where]};
        }
        std::printf("  %10.4f", frac);
    }
    size_t where = 0;
    const std::vector<float> zeros(count, 0.0f);
    std::printf("  %10.0f  %8.1f\n", worstOf(zeros, ref, &where), ref.memory);
}

static int judgeShape(const Shape &shape, int kinds, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    std::printf("\ngate B = %d, T = %d, H = %d, D = %d: worst error as a "
                "fraction of what is allowed\n",
                shape.batch, shape.steps, shape.heads, shape.dim);
    std::printf("  outputs   %zu   (each path, each row)\n\n",
                countOf(shape));
    std::printf("  %-10s", "gates");
    for (int path = 0; path < kPathCount; ++path) {
        std::printf("  %10s", infoOf<kDim>(path).name);
    }
    std::printf("  %10s  %8s\n", "all zeros", "memory");
    int passed = 0;
    for (int gates = 0; gates < kinds; ++gates) {
        judgeCase(shape, static_cast<Gates>(gates), b, stream, failure);
        passed += failure->path == nullptr ? 1 : 0;
    }
    return passed;
}

// --- Timer ------------------------------------------------------------------

// The median, least and largest of kRepeats slopes, microseconds per launch.
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

// Two graphs of one path, or of empty kernels like it.
struct Pair {
    cudaGraphExec_t exec[2] = {nullptr, nullptr};
};

static Pair graphsOf(int path, bool isEmpty, const Shape &shape,
                     const int (&lengths)[2], const Buffers &b,
                     cudaStream_t stream)
{
    Pair pair;
    for (int n = 0; n < 2; ++n) {
        cudaGraph_t graph = nullptr;
        CUDA_CHECK(
            cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < lengths[n]; ++i) {
            if (isEmpty) {
                launchEmpty(path, shape, stream);
            } else {
                launch(path, shape, b, stream);
            }
        }
        CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
        CUDA_CHECK(cudaGraphInstantiate(&pair.exec[n], graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
    }
    return pair;
}

struct Times {
    Spread path[kTimedPaths];
    Spread node[kTimedPaths];  // an empty kernel like the path's
};

// Times all paths beside each other, in turns, forwards and backwards. What is
// paid once for a graph is in both of its lengths and falls out.
static void timeAll(const Shape &shape, const int (&lengths)[2],
                    const Buffers &b, cudaStream_t stream, Times *times)
{
    constexpr int kAll = 2 * kTimedPaths;
    Pair pairs[kAll];
    for (int n = 0; n < kAll; ++n) {
        pairs[n] = graphsOf(n / 2, n % 2 == 1, shape, lengths, b, stream);
    }
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> slopes[kAll];
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kAll; ++turn) {
            const int n = round % 2 == 0 ? turn : kAll - 1 - turn;
            float ms[2] = {0.0f, 0.0f};
            for (int length = 0; length < 2; ++length) {
                CUDA_CHECK(cudaEventRecord(start, stream));
                CUDA_CHECK(cudaGraphLaunch(pairs[n].exec[length], stream));
                CUDA_CHECK(cudaEventRecord(stop, stream));
                CUDA_CHECK(cudaEventSynchronize(stop));
                CUDA_CHECK(cudaEventElapsedTime(&ms[length], start, stop));
            }
            const double us = 1e3 * static_cast<double>(ms[1] - ms[0]) /
                              (lengths[1] - lengths[0]);
            if (round >= 0) {
                slopes[n].push_back(us);
            }
        }
    }
    for (int n = 0; n < kAll; ++n) {
        (n % 2 == 1 ? times->node : times->path)[n / 2] = spreadOf(slopes[n]);
        for (cudaGraphExec_t exec : pairs[n].exec) {
            CUDA_CHECK(cudaGraphExecDestroy(exec));
        }
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Tables -----------------------------------------------------------------

static void printKernels()
{
    std::printf("\nkernels: D = %d, at the founding shape\n", kDim);
    std::printf("  %-10s  %6s  %7s  %9s  %9s  %10s\n", "path", "blocks",
                "threads", "registers", "local (B)", "shared (B)");
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf<kDim>(path);
        const dim3 grid = gridOf(info, kFounding);
        cudaFuncAttributes attributes = {};
        CUDA_CHECK(cudaFuncGetAttributes(
            &attributes, reinterpret_cast<const void *>(info.kernel)));
        std::printf("  %-10s  %6u  %7d  %9d  %9zu  %10zu\n", info.name,
                    grid.x * grid.y, info.threads, attributes.numRegs,
                    attributes.localSizeBytes, attributes.sharedSizeBytes);
    }
}

static void printBytes()
{
    const double tensor = static_cast<double>(countOf(kFounding)) * 4.0;
    std::printf("\nbytes: at the founding shape, what must move\n");
    std::printf("  tensor      %.0f B\n", tensor);
    std::printf("  floor       %.0f B   (four read, one written)\n",
                5.0 * tensor);
    std::printf("  updates     %.0f   (of one number of one state)\n",
                tensor / 4.0 * kDim);
}

static void printTimes(double clockGhz, const Buffers &b, cudaStream_t stream)
{
    const int lengths[2] = {kShortGraph, kLongGraph};
    const int longer[2] = {kLongerShort, kLongerLong};
    Times times;
    Times more;
    timeAll(kFounding, lengths, b, stream, &times);
    timeAll(kLonger, longer, b, stream, &more);

    std::printf("\ntime: T = %d, slope between graphs of %d and %d launches, "
                "data in L2\n",
                kFounding.steps, kShortGraph, kLongGraph);
    std::printf("  repeats   %d   (time is the median of these slopes)\n\n",
                kRepeats);
    std::printf("  %-10s  %9s  %8s  %8s  %10s  %14s\n", "path", "time (us)",
                "min (us)", "max (us)", "empty (us)", "founding over");
    for (int path = 0; path < kTimedPaths; ++path) {
        const Spread &spread = times.path[path];
        std::printf("  %-10s  %9.3f  %8.3f  %8.3f  %10.3f  %13.2fx\n",
                    infoOf<kDim>(path).name, spread.median, spread.least,
                    spread.most, times.node[path].median,
                    times.path[kPathFounding].median / spread.median);
    }

    const double steps = kLonger.steps - kFounding.steps;
    std::printf("\nsteps: from the time at T = %d and at T = %d\n",
                kFounding.steps, kLonger.steps);
    std::printf("  clock   %.3f GHz   (the most that the device says)\n\n",
                clockGhz);
    std::printf("  %-10s  %11s  %9s  %15s  %12s\n", "path", "longer (us)",
                "step (ns)", "length (cycles)", "no steps (us)");
    for (int path = 0; path < kTimedPaths; ++path) {
        const double each =
            (more.path[path].median - times.path[path].median) / steps;
        std::printf("  %-10s  %11.3f  %9.3f  %15.1f  %12.3f\n",
                    infoOf<kDim>(path).name, more.path[path].median,
                    1e3 * each, 1e3 * each * clockGhz,
                    times.path[path].median - kFounding.steps * each);
    }
}

// The last launch of "marked": what it spent between its marks.
static void printMarks()
{
    constexpr const char *kPhases[kMarks] = {"loads and shares", "exchange",
                                             "outputs", "all"};
    const dim3 grid = gridOf(infoOf<kDim>(kPathMarked), kFounding);
    const size_t blocks = static_cast<size_t>(grid.x) * grid.y;
    static long long h_marks[kMarks][kMarkedBlocks];
    CUDA_CHECK(cudaMemcpyFromSymbol(h_marks, d_marks, sizeof(h_marks)));
    std::printf("\nmarks: cycles of %zu blocks of pairs, by their clock\n",
                blocks);
    std::printf("  %-16s  %15s  %12s  %12s\n", "phase", "median (cycles)",
                "min (cycles)", "max (cycles)");
    for (int phase = 0; phase < kMarks; ++phase) {
        const int from = phase == kMarks - 1 ? 0 : phase;
        const int to = phase == kMarks - 1 ? phase : phase + 1;
        std::vector<double> cycles;
        for (size_t n = 0; n < blocks; ++n) {
            cycles.push_back(
                static_cast<double>(h_marks[to][n] - h_marks[from][n]));
        }
        const Spread spread = spreadOf(cycles);
        std::printf("  %-16s  %15.0f  %12.0f  %12.0f\n", kPhases[phase],
                    spread.median, spread.least, spread.most);
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const bool once = argc == 2 && std::strcmp(argv[1], "--once") == 0;
    if (argc != 1 && !quick && !once) {
        std::fprintf(stderr, "usage: ladder [--quick | --once]\n"
                             "  --quick  small shapes, nothing timed\n"
                             "  --once   every path once, for profilers\n");
        return 2;
    }

    cudaDeviceProp device = {};
    int clockKhz = 0;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    CUDA_CHECK(cudaDeviceGetAttribute(&clockKhz, cudaDevAttrClockRate, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    Buffers b;
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    const size_t bytes = countOf(kLonger) * sizeof(float);
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, bytes));
        CUDA_CHECK(cudaMemset(d_in, 0, bytes));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, bytes));

    printKernels();
    printBytes();
    Failure failure;
    int passed = 0;
    const int shapes = quick ? kQuickShapes
                             : static_cast<int>(sizeof(kShapes) /
                                                sizeof(kShapes[0]));
    for (int n = once ? shapes - 1 : 0; n < shapes; ++n) {
        if (failure.path == nullptr) {
            // Sigmoid alone; near one as well; all.
            const int kinds = once ? 1 : quick ? 2 : kGatesCount;
            passed += judgeShape(kShapes[n], kinds, b, stream, &failure);
        }
    }
    if (failure.path == nullptr && !quick && !once) {
        launch(kPathMarked, kFounding, b, stream);  // the data is in L2
        launch(kPathMarked, kFounding, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        printMarks();
        // Real data for the longer sequence as well.
        const HostInputs h = makeInputs(kLonger, kSigmoid);
        for (int n = 0; n < 4; ++n) {
            CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), bytes,
                                  cudaMemcpyHostToDevice));
        }
        printTimes(clockKhz * 1e-6, b, stream);
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
                     "is %.9g, not %.9g\n",
                     failure.path, s.batch, s.steps, s.heads, s.dim,
                     failure.gates, failure.index, failure.got, failure.want);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
