// SPDX-License-Identifier: MIT
//
// Day 88: sequential against chunked as T grows. The gated recurrence of day
// 84, as it is defined and in forms that are parallel over T; all are FP32:
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
//   founding    day 84's kernel: a block per head, a thread per column
//   segments    the best of day 87: a block has two columns of a head and all
//               steps, 128 at a time, in eight segments
//   quadratic   no state: y[t] from all steps up to t, with a T x T matrix of
//               scores q k of which a block makes what it needs
//
// The others cut T into chunks. A first kernel finds what each chunk adds to
// any state, and the product of its gates; a second, the state at which each
// chunk begins; a third, the outputs of all chunks side by side:
//
//   replay 32   the third does the recurrence of its chunk of 32 steps
//   replay 128  the same, chunks of 128
//   replay two  chunks of 32 without the second kernel: each block goes over
//               all chunks before its own
//   horner 32   the third makes the chunk's scores and works out the chunk by
//   horner 128  Horner's rule, gate by gate, without a division
//   horner two  as replay two
//   fold 32     v is divided by the gates' product so far, and then the chunk
//               is a plain matrix product; fails where the product does
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size. What the
// fold cannot do is the subject of forms.cu; here it is judged with the gates
// that it is made for, sigmoid, near one and one.
//
// Times are device times of a chain: the slope between a short and a long graph
// of calls, of one, two or three kernels each. At the founding width all data is
// less than the L2 holds; at the other one it is more when T is large.
//
// Written down before the run. B=2, H=4, D=24: segments takes 3 us at T = 128
// and 90 at 8192. The best chunked form takes 6 us at 128, 20 at 8192, and is
// ahead from T = 512 on. The quadratic form takes 4 us at 128, is never the
// best, and passes a millisecond at 8192. Replay and Horner are equal here.
// B=2, H=8, D=64: chunked is ahead at every T, threefold at 8192, and Horner
// beats replay by a quarter; the fold is a tenth faster than Horner. All that
// was before a first version, which waited for each load of a tile in turn.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o growth growth.cu
// Run: ./growth

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
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
constexpr int kOtherDim = 64;  // of the wide one
constexpr Shape kShapes[] = {
    {1, 300, 3, kDim},       // T is no multiple of a chunk, nor of a tile
    {1, 261, 2, kOtherDim},
    {1, 1, 1, kDim},
    {2, 128, 4, kDim},
};
constexpr int kQuickShapes = 3;
constexpr Shape kSwept[] = {{2, 0, 4, kDim}, {2, 0, 8, kOtherDim}};
constexpr int kLengths[] = {128, 256, 512, 1024, 2048, 4096, 8192};
constexpr int kLengthCount = sizeof(kLengths) / sizeof(kLengths[0]);
constexpr int kLongest = kLengths[kLengthCount - 1];

constexpr int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr int kTile = 32;   // steps in shared memory at a time
constexpr int kParts = 4;   // threads that share a column
constexpr int kEach = kTile / kParts;
constexpr int kLoads = kTile / 4 / kParts;  // float4s of a thread and a tile
constexpr int kAhead = 16;  // chunks whose shares scan loads at a time
constexpr int kScanThreads = 64;

static_assert(kDim * kDim % kScanThreads == 0 &&
                  kOtherDim * kOtherDim % kScanThreads == 0,
              "a state is dealt out to whole blocks");
static_assert(kDim % (4 * kParts / 2) == 0 && kOtherDim % (4 * kParts) == 0,
              "a part of the rows is whole float2s, a row whole float4s");

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

constexpr int kRepeats = 7;  // odd: the median is one of the samples
constexpr int kWarmups = 1;

// Calls in the short graph and in the long one: fewer where a call is long.
constexpr int shortGraph(int steps)
{
    return steps <= 640 ? 1280 / steps : 1;
}

constexpr int longGraph(int steps)
{
    return shortGraph(steps) + (steps <= 3200 ? 6400 / steps : 2);
}

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

// A lane keeps the half of 2 kHalf products that its place stands for, each
// with its partner's share added.
template <int kHalf, int kCount>
__device__ inline void foldHalf(float (&product)[kCount], int lane)
{
    const bool upper = (lane & kHalf) != 0;
#pragma unroll
    for (int n = 0; n < kHalf; ++n) {
        const float send = upper ? product[n] : product[n + kHalf];
        const float keep = upper ? product[n + kHalf] : product[n];
        product[n] = keep + __shfl_xor_sync(kFullWarp, send, kHalf);
    }
}

// Each of kCount lanes brings kCount products; its n-th lane leaves with the
// sum of their n-th. A template for each half: a loop over them may stay a
// loop, and then the products are in local memory.
template <int kCount>
__device__ inline float sumOfEach(float (&product)[kCount], int lane)
{
    if constexpr (kCount >= 16) {
        foldHalf<8>(product, lane);
        foldHalf<4>(product, lane);
    }
    foldHalf<2>(product, lane);
    foldHalf<1>(product, lane);
    return product[0];
}

// Day 87's kernel with the fewest loads. A warp has kCols columns and as many
// steps as lanes for each; the warps of a block have the segments of 128 steps:
// what each adds to any state is found first, then where each begins, then the
// outputs.
// Memory: a load of k or q is of a row of kD neighbouring floats, 8 bytes a
// lane, the same for all columns; of v and gate kCols neighbouring floats for
// each step, as is a store.
// Launch assumption: 4 kCols warps, (kD / kCols, batch * heads) blocks.
template <int kD, int kCols>
__global__ void __launch_bounds__(4 * kCols *kWarp)
segments(const float *__restrict__ q, const float *__restrict__ k,
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
    for (int first = segment * kLanes; first - segment * kLanes < steps;
         first += kSegments * kLanes) {
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
}

// A thread's share of a tile of 32 rows, on its way from memory. A step that is
// not there is the last one again.
// Memory: a warp reads rows of kD neighbouring floats, 16 bytes a lane.
template <int kD>
__device__ inline void fetch(float4 (&share)[kLoads],
                             const float *__restrict__ from, size_t start,
                             size_t row, int first, int steps)
{
    constexpr int kVectors = kD / 4;
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
        const int place = static_cast<int>(threadIdx.x) + n * kParts * kD;
        const int step = min(first + place / kVectors, steps - 1);
        share[n] = *reinterpret_cast<const float4 *>(
            from + start + step * row + place % kVectors * 4);
    }
}

// Puts it into shared memory.
template <int kD, int kPitch>
__device__ inline void put(float4 (&rows)[kTile][kPitch],
                           const float4 (&share)[kLoads])
{
    constexpr int kVectors = kD / 4;
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
        const int place = static_cast<int>(threadIdx.x) + n * kParts * kD;
        rows[place / kVectors][place % kVectors] = share[n];
    }
}

// The same of gates and v, side by side.
template <int kD>
__device__ inline void putGates(float4 *pairs, const float4 (&gates)[kLoads],
                                const float4 (&values)[kLoads])
{
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
        const int place = static_cast<int>(threadIdx.x) + n * kParts * kD;
        const float4 g = gates[n];
        const float4 v = values[n];
        pairs[2 * place] = make_float4(g.x, v.x, g.y, v.y);
        pairs[2 * place + 1] = make_float4(g.z, v.z, g.w, v.w);
    }
}

// The first kernel: the state at the end of a chunk that begins at zero, and
// the product of the chunk's gates. Thread j * 4 + p has quarter p of column j.
// Memory: as the loads; lanes store eight neighbouring floats of four rows.
// Launch assumption: 4 kD threads, (whole chunks but the last, batch * heads)
// blocks.
template <int kD>
__global__ void __launch_bounds__(kParts *kD, 2)
ends(const float *__restrict__ k, const float *__restrict__ v,
     const float *__restrict__ gate, float *__restrict__ states,
     float *__restrict__ decays, int steps, int heads, int chunk)
{
    constexpr int kOwn = kD / kParts;
    __shared__ float4 tileK[kTile][kD / 4];
    __shared__ float4 tileGates[kTile * kD / 2];
    const float2 *gates = reinterpret_cast<const float2 *>(tileGates);
    const int j = static_cast<int>(threadIdx.x) / kParts;
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    const int begin = static_cast<int>(blockIdx.x) * chunk;
    // snippet: ends
    float state[kOwn] = {};
    float product = 1.0f;
    float4 nextK[kLoads], nextV[kLoads], nextGate[kLoads];
    fetch<kD>(nextK, k, start, row, begin, steps);
    fetch<kD>(nextV, v, start, row, begin, steps);
    fetch<kD>(nextGate, gate, start, row, begin, steps);
    for (int first = begin; first < begin + chunk; first += kTile) {
        __syncthreads();  // nobody reads the tile before
        put<kD>(tileK, nextK);
        putGates<kD>(tileGates, nextGate, nextV);
        __syncthreads();  // the tile is there
        if (first + kTile < begin + chunk) {
            fetch<kD>(nextK, k, start, row, first + kTile, steps);
            fetch<kD>(nextV, v, start, row, first + kTile, steps);
            fetch<kD>(nextGate, gate, start, row, first + kTile, steps);
        }
#pragma unroll 8
        for (int s = 0; s < kTile; ++s) {
            const float2 gv = gates[s * kD + j];
            const float *own = &tileK[s][0].x + part * kOwn;
            product *= gv.x;
#pragma unroll
            for (int i = 0; i < kOwn; i += 2) {
                const float2 kk = *reinterpret_cast<const float2 *>(own + i);
                state[i] = fmaf(gv.x, state[i], kk.x * gv.y);
                state[i + 1] = fmaf(gv.x, state[i + 1], kk.y * gv.y);
            }
        }
    }
    // end snippet
    const size_t at = blockIdx.y * gridDim.x + blockIdx.x;
    if (part == 0) {
        decays[at * kD + j] = product;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        states[(at * kD + part * kOwn + i) * kD + j] = state[i];
    }
}

// The second: from what each chunk adds to the state after it, in place.
// Memory: neighbouring lanes have neighbouring numbers of a state.
// Launch assumption: kScanThreads threads, (kD * kD / kScanThreads, batch *
// heads) blocks.
template <int kD>
__global__ void __launch_bounds__(kScanThreads)
scan(float *__restrict__ states, const float *__restrict__ decays, int count)
{
    const int own = static_cast<int>(blockIdx.x * kScanThreads + threadIdx.x);
    const size_t first = static_cast<size_t>(blockIdx.y) * count;
    // snippet: scan
    float state = 0.0f;
    for (int from = 0; from < count; from += kAhead) {
        float share[kAhead];
        float by[kAhead];
#pragma unroll
        for (int n = 0; n < kAhead; ++n) {
            const size_t chunk = first + min(from + n, count - 1);
            share[n] = states[chunk * kD * kD + own];
            by[n] = decays[chunk * kD + own % kD];
        }
#pragma unroll
        for (int n = 0; n < kAhead; ++n) {
            if (from + n < count) {
                state = fmaf(by[n], state, share[n]);
                states[(first + from + n) * kD * kD + own] = state;
            }
        }
    }
    // end snippet
}

// A thread's quarter of a column of the state at which a chunk begins: that
// after chunk `last`, by way of all from `from` on.
template <int kD>
__device__ inline void startOf(float (&state)[kD / kParts],
                               const float *__restrict__ states,
                               const float *__restrict__ decays, size_t head,
                               int from, int last)
{
    constexpr int kOwn = kD / kParts;
    const int j = static_cast<int>(threadIdx.x) / kParts;
    const int part = static_cast<int>(threadIdx.x) % kParts;
#pragma unroll 4
    for (int n = from; n <= last; ++n) {
        const float by = decays[(head + n) * kD + j];
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const size_t at = ((head + n) * kD + part * kOwn + i) * kD + j;
            state[i] = fmaf(by, state[i], states[at]);
        }
    }
}

// What the third kernels are given.
struct Chunks {
    const float *states;  // after each chunk but the last
    const float *decays;
    int size;        // steps of a chunk
    int count;       // of chunks, but the last
    bool isScanned;  // states are whole, and not only what a chunk adds
};

// The third kernel of replay: the recurrence from the state that the chunk
// begins with. Thread j * 4 + p has quarter p of column j; the four add up four
// steps' sums at once.
// Memory: as the loads; stores as ends.
// Launch assumption: 4 kD threads, (chunks, batch * heads) blocks.
template <int kD>
__global__ void __launch_bounds__(kParts *kD, 2)
replay(const float *__restrict__ q, const float *__restrict__ k,
       const float *__restrict__ v, const float *__restrict__ gate,
       float *__restrict__ y, int steps, int heads, Chunks chunks)
{
    constexpr int kOwn = kD / kParts;
    __shared__ float4 tileQ[kTile][kD / 4];
    __shared__ float4 tileK[kTile][kD / 4];
    __shared__ float4 tileGates[kTile * kD / 2];
    const float2 *gates = reinterpret_cast<const float2 *>(tileGates);
    const int j = static_cast<int>(threadIdx.x) / kParts;
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t start =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    const int own = static_cast<int>(blockIdx.x);
    const int begin = own * chunks.size;
    const int end = min(begin + chunks.size, steps);
    float4 nextQ[kLoads], nextK[kLoads], nextV[kLoads], nextGate[kLoads];
    fetch<kD>(nextQ, q, start, row, begin, steps);
    fetch<kD>(nextK, k, start, row, begin, steps);
    fetch<kD>(nextV, v, start, row, begin, steps);
    fetch<kD>(nextGate, gate, start, row, begin, steps);
    float state[kOwn] = {};
    startOf<kD>(state, chunks.states, chunks.decays,
                static_cast<size_t>(blockIdx.y) * chunks.count,
                chunks.isScanned ? max(own - 1, 0) : 0, own - 1);
    for (int first = begin; first < end; first += kTile) {
        __syncthreads();  // nobody reads the tile before
        put<kD>(tileQ, nextQ);
        put<kD>(tileK, nextK);
        putGates<kD>(tileGates, nextGate, nextV);
        __syncthreads();  // the tile is there
        if (first + kTile < end) {
            fetch<kD>(nextQ, q, start, row, first + kTile, steps);
            fetch<kD>(nextK, k, start, row, first + kTile, steps);
            fetch<kD>(nextV, v, start, row, first + kTile, steps);
            fetch<kD>(nextGate, gate, start, row, first + kTile, steps);
        }
        // snippet: replay
#pragma unroll 2
        for (int from = 0; from < kTile; from += kParts) {
            float sums[kParts] = {};
#pragma unroll
            for (int u = 0; u < kParts; ++u) {
                const float2 gv = gates[(from + u) * kD + j];
                const float *ownK = &tileK[from + u][0].x + part * kOwn;
                const float *ownQ = &tileQ[from + u][0].x + part * kOwn;
#pragma unroll
                for (int i = 0; i < kOwn; i += 2) {
                    const float2 kk =
                        *reinterpret_cast<const float2 *>(ownK + i);
                    const float2 qq =
                        *reinterpret_cast<const float2 *>(ownQ + i);
                    state[i] = fmaf(gv.x, state[i], kk.x * gv.y);
                    state[i + 1] = fmaf(gv.x, state[i + 1], kk.y * gv.y);
                    sums[u] = fmaf(qq.x, state[i], sums[u]);
                    sums[u] = fmaf(qq.y, state[i + 1], sums[u]);
                }
            }
            const float sum = sumOfEach(sums, part);
            if (first + from + part < steps) {
                y[start + (first + from + part) * row + j] = sum;
            }
        }
        // end snippet
    }
}

// scores[t][s] = q[t] . k[s] of two tiles, by a square of the block's threads.
// Memory: lanes read rows of k that are a pitch of kD + 4 floats apart, eight
// at a time without a conflict, and few rows of q.
template <int kD, int kPitch>
__device__ inline void scoresOf(const float4 (&tileQ)[kTile][kPitch],
                                const float4 (&tileK)[kTile][kPitch],
                                float4 (&scores)[kTile][kEach + 1])
{
    constexpr int kSide = kParts * kD >= 256 ? 16 : 8;
    constexpr int kOwn = kTile / kSide;  // rows, and columns, of a thread
    static_assert(kSide * kSide <= kParts * kD, "the block has the square");
    const int a = static_cast<int>(threadIdx.x) % kSide;
    const int b = static_cast<int>(threadIdx.x) / kSide;
    if (b < kSide) {
        float sum[kOwn][kOwn] = {};
#pragma unroll(kD == kDim ? 2 : 1)
        for (int i = 0; i < kD / 4; ++i) {
            float4 qq[kOwn];
            float4 kk[kOwn];
#pragma unroll
            for (int n = 0; n < kOwn; ++n) {
                qq[n] = tileQ[b + n * kSide][i];
                kk[n] = tileK[a + n * kSide][i];
            }
#pragma unroll
            for (int m = 0; m < kOwn * kOwn; ++m) {
                const float4 x = qq[m / kOwn];
                const float4 z = kk[m % kOwn];
                float &s = sum[m / kOwn][m % kOwn];
                s = fmaf(x.x, z.x, s);
                s = fmaf(x.y, z.y, s);
                s = fmaf(x.z, z.z, s);
                s = fmaf(x.w, z.w, s);
            }
        }
#pragma unroll
        for (int m = 0; m < kOwn * kOwn; ++m) {
            float *to = &scores[b + m / kOwn * kSide][0].x;
            to[a + m % kOwn * kSide] = sum[m / kOwn][m % kOwn];
        }
    }
}

// Puts the product of the gates so far in place of each gate of a tile, and v
// divided by it in place of v. Each of a column's four threads has every fourth
// step.
template <int kD>
__device__ inline void foldGates(float2 *gates, int j, int part)
{
    // snippet: fold-gates
    float2 folded[kEach];
    float product = 1.0f;
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
        const float2 gv = gates[s * kD + j];
        product *= gv.x;
        if (s % kParts == part) {
            folded[s / kParts] = make_float2(product, gv.y / product);
        }
    }
    // end snippet
    __syncthreads();  // everyone has read the gates
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
        gates[(n * kParts + part) * kD + j] = folded[n];
    }
}

__device__ inline float component(const float4 &of, int n)
{
    return n == 0 ? of.x : n == 1 ? of.y : n == 2 ? of.z : of.w;
}

// Takes a thread's outputs, of every fourth step, through the steps of a tile.
// On the diagonal, where they are those of the tile, an output ends with its
// own step.
template <int kD, bool kFold, bool kDiagonal>
__device__ inline void stepThrough(float (&acc)[kEach],
                                   const float4 (&scores)[kTile][kEach + 1],
                                   const float2 *gates, int j, int part)
{
    // snippet: step-through
#pragma unroll
    for (int four = 0; four < kEach; ++four) {
        float2 gv[kParts];
#pragma unroll
        for (int m = 0; m < kParts; ++m) {
            gv[m] = gates[(four * kParts + m) * kD + j];
        }
#pragma unroll
        for (int n = kDiagonal ? four : 0; n < kEach; ++n) {
            const float4 score = scores[n * kParts + part][four];
#pragma unroll
            for (int m = 0; m < kParts; ++m) {
                const float a = component(score, m);
                const float next = kFold ? fmaf(a, gv[m].y, acc[n])
                                         : fmaf(gv[m].x, acc[n], a * gv[m].y);
                const bool isOver = kDiagonal && n == four && part < m;
                acc[n] = isOver ? acc[n] : next;
            }
        }
    }
    // end snippet
}

// The third kernel of horner and fold, and the only one of quadratic, whose
// chunk is the whole sequence. A block has the outputs of 32 steps, and goes
// over the chunk's tiles up to its own; thread j * 4 + p has the outputs of
// every fourth step for column j.
// Memory: as the loads; a warp reads four rows of scores, a word for each
// column's threads, and eight neighbouring pairs of gate and v. As many
// blocks per SM are asked for as there can be without spills.
// Launch assumption: 4 kD threads, (tiles, batch * heads) blocks.
template <int kD, bool kFold>
__global__ void __launch_bounds__(kParts *kD, kD == kDim ? 6 : kFold ? 2 : 3)
outputs(const float *__restrict__ q, const float *__restrict__ k,
        const float *__restrict__ v, const float *__restrict__ gate,
        float *__restrict__ y, int steps, int heads, Chunks chunks)
{
    constexpr int kOwn = kD / kParts;
    constexpr int kPitch = kD / 4 + 1;
    constexpr int kPairs = kTile * kD / 2;
    __shared__ float4 tileQ[kTile][kPitch];
    __shared__ float4 tileK[kTile][kPitch];
    __shared__ float4 scores[kTile][kEach + 1];
    // The state at which the chunk begins, and after its use gates and v.
    __shared__ float4 shared[kPairs > kD * kD / 4 ? kPairs : kD * kD / 4];
    float *start = &shared[0].x;
    float2 *gates = reinterpret_cast<float2 *>(shared);
    const int j = static_cast<int>(threadIdx.x) / kParts;
    const int part = static_cast<int>(threadIdx.x) % kParts;
    const size_t row = static_cast<size_t>(heads) * kD;
    const size_t base =
        blockIdx.y / heads * steps * row + blockIdx.y % heads * kD;
    // The longest rows first: their blocks take longest.
    const int own = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
    const int chunk = own / chunks.size;
    const int begin = chunk * chunks.size;
    float4 shareQ[kLoads];
    fetch<kD>(shareQ, q, base, row, own, steps);
    put<kD>(tileQ, shareQ);
    float acc[kEach] = {};
    if (chunk > 0) {
        float state[kOwn] = {};
        startOf<kD>(state, chunks.states, chunks.decays,
                    static_cast<size_t>(blockIdx.y) * chunks.count,
                    chunks.isScanned ? chunk - 1 : 0, chunk - 1);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            start[(part * kOwn + i) * kD + j] = state[i];
        }
        __syncthreads();  // the state and q are there
#pragma unroll(kD == kDim ? 2 : 1)
        for (int i = 0; i < kD; i += 4) {
#pragma unroll
            for (int n = 0; n < kEach; ++n) {
                const float4 qq = tileQ[n * kParts + part][i / 4];
                acc[n] = fmaf(qq.x, start[i * kD + j], acc[n]);
                acc[n] = fmaf(qq.y, start[(i + 1) * kD + j], acc[n]);
                acc[n] = fmaf(qq.z, start[(i + 2) * kD + j], acc[n]);
                acc[n] = fmaf(qq.w, start[(i + 3) * kD + j], acc[n]);
            }
        }
    }
    for (int first = begin; first <= own; first += kTile) {
        __syncthreads();  // nobody reads the state, or the tile before
        float4 shareK[kLoads], shareV[kLoads], shareGate[kLoads];
        fetch<kD>(shareK, k, base, row, first, steps);
        fetch<kD>(shareV, v, base, row, first, steps);
        fetch<kD>(shareGate, gate, base, row, first, steps);
        put<kD>(tileK, shareK);
        putGates<kD>(shared, shareGate, shareV);
        __syncthreads();  // the tile is there
        scoresOf<kD>(tileQ, tileK, scores);
        if (kFold) {
            foldGates<kD>(gates, j, part);
        }
        __syncthreads();  // the scores are there, and the folded gates
        if (first < own) {
            stepThrough<kD, kFold, false>(acc, scores, gates, j, part);
        } else {
            stepThrough<kD, kFold, true>(acc, scores, gates, j, part);
        }
    }
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
        const int t = n * kParts + part;
        if (own + t < steps) {
            y[base + (own + t) * row + j] =
                kFold ? gates[t * kD + j].x * acc[n] : acc[n];
        }
    }
}

// --- Paths ------------------------------------------------------------------

enum Form { kFounding, kSegments, kQuadratic, kReplay, kHorner, kFold };

struct Path {
    const char *name;
    Form form;
    int chunk;
    bool isScanned;  // by a kernel of its own
};

constexpr Path kPaths[] = {
    {"founding", kFounding, 0, false},  {"segments", kSegments, 0, false},
    {"quadratic", kQuadratic, 0, false}, {"replay 32", kReplay, 32, true},
    {"replay 128", kReplay, 128, true}, {"replay two", kReplay, 32, false},
    {"horner 32", kHorner, 32, true},   {"horner 128", kHorner, 128, true},
    {"horner two", kHorner, 32, false}, {"fold 32", kFold, 32, true},
};
constexpr int kPathCount = sizeof(kPaths) / sizeof(kPaths[0]);
constexpr int kSegmentsPath = 1;
constexpr int kFirstChunked = 3;
constexpr int kCols = 2;  // of a block of segments

static size_t countOf(const Shape &shape)
{
    return static_cast<size_t>(shape.batch) * shape.steps * shape.heads *
           shape.dim;
}

struct Buffers {
    float *d_in[4] = {nullptr, nullptr, nullptr, nullptr};  // q, k, v, gate
    float *d_y = nullptr;
    float *d_states = nullptr;
    float *d_decays = nullptr;
};

// Chunks but the last; without one, the first two kernels have nothing to do.
static int endsOf(const Path &path, int steps)
{
    return path.chunk == 0 ? 0 : (steps - 1) / path.chunk;
}

static int kernelsOf(const Path &path, int steps)
{
    const int ends = endsOf(path, steps);
    return 1 + (ends > 0 ? 1 : 0) + (path.isScanned && ends > 1 ? 1 : 0);
}

template <int kD>
static void launchAt(const Path &path, const Shape &shape, const Buffers &b,
                     cudaStream_t stream)
{
    const int steps = shape.steps;
    const unsigned int heads =
        static_cast<unsigned int>(shape.batch * shape.heads);
    const unsigned int tiles =
        static_cast<unsigned int>((steps + kTile - 1) / kTile);
    const int count = endsOf(path, steps);
    const unsigned int before = static_cast<unsigned int>(count);
    constexpr int kThreads = kParts * kD;
    float *const *in = b.d_in;
    if (count > 0) {
        ends<kD><<<dim3(before, heads), kThreads, 0, stream>>>(
            in[1], in[2], in[3], b.d_states, b.d_decays, steps, shape.heads,
            path.chunk);
        CUDA_CHECK(cudaGetLastError());
    }
    if (path.isScanned && count > 1) {
        scan<kD><<<dim3(kD * kD / kScanThreads, heads), kScanThreads, 0,
                   stream>>>(b.d_states, b.d_decays, count);
        CUDA_CHECK(cudaGetLastError());
    }
    const Chunks chunks = {b.d_states, b.d_decays,
                           path.chunk > 0 ? path.chunk : steps, count,
                           path.isScanned};
    if (path.form == kFounding) {
        founding<kD><<<dim3(1, heads), kD, 0, stream>>>(
            in[0], in[1], in[2], in[3], b.d_y, steps, shape.heads);
    } else if (path.form == kSegments) {
        segments<kD, kCols>
            <<<dim3(kD / kCols, heads), 4 * kCols * kWarp, 0, stream>>>(
                in[0], in[1], in[2], in[3], b.d_y, steps, shape.heads);
    } else if (path.form == kReplay) {
        replay<kD><<<dim3(before + 1, heads), kThreads, 0, stream>>>(
            in[0], in[1], in[2], in[3], b.d_y, steps, shape.heads, chunks);
    } else if (path.form == kFold) {
        outputs<kD, true><<<dim3(tiles, heads), kThreads, 0, stream>>>(
            in[0], in[1], in[2], in[3], b.d_y, steps, shape.heads, chunks);
    } else {
        outputs<kD, false><<<dim3(tiles, heads), kThreads, 0, stream>>>(
            in[0], in[1], in[2], in[3], b.d_y, steps, shape.heads, chunks);
    }
    CUDA_CHECK(cudaGetLastError());
}

static void launch(const Path &path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    if (shape.dim == kDim) {
        launchAt<kDim>(path, shape, b, stream);
    } else {
        launchAt<kOtherDim>(path, shape, b, stream);
    }
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
    std::vector<std::thread> workers;
    for (unsigned int n = 0; n < 4; ++n) {
        h.in[n].resize(count);
        workers.emplace_back([&h, &shape, gates, count, row, n] {
            for (size_t i = 0; i < count; ++i) {
                h.in[n][i] = n < 3 ? static_cast<float>(normalAt(i, n + 1))
                                   : gateAt(i, i / row % shape.steps, gates);
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    return h;
}

// --- CPU reference and tolerance --------------------------------------------

struct Reference {
    std::vector<double> y;
    std::vector<double> tolerance;
};

// One head. Beside the state, its sum of absolute terms, and the roundings that
// those terms have been through, weighted by size: two more in every step.
static void referenceOfHead(const Shape &shape, const HostInputs &h,
                            size_t head, Reference *ref)
{
    const size_t dim = static_cast<size_t>(shape.dim);
    const size_t row = shape.heads * dim;
    const size_t base =
        head / shape.heads * shape.steps * row + head % shape.heads * dim;
    std::vector<double> state(dim * dim, 0.0);
    std::vector<double> size(dim * dim, 0.0);
    std::vector<double> aged(dim * dim, 0.0);
    for (size_t t = 0; t < static_cast<size_t>(shape.steps); ++t) {
        const size_t at = base + t * row;
        std::vector<double> y(dim, 0.0);
        std::vector<double> terms(dim, 0.0);
        std::vector<double> roundings(dim, 0.0);
        for (size_t i = 0; i < dim; ++i) {
            const double q = h.in[0][at + i];
            for (size_t j = 0; j < dim; ++j) {
                const size_t n = i * dim + j;
                const double g = h.in[3][at + j];
                const double kv =
                    static_cast<double>(h.in[1][at + i]) * h.in[2][at + j];
                aged[n] = g * (aged[n] + 2.0 * size[n]);
                state[n] = g * state[n] + kv;
                size[n] = g * size[n] + std::fabs(kv);
                y[j] += q * state[n];
                terms[j] += std::fabs(q) * size[n];
                roundings[j] += std::fabs(q) * aged[n];
            }
        }
        for (size_t j = 0; j < dim; ++j) {
            const double older = terms[j] > 0.0 ? roundings[j] / terms[j] : 0.0;
            const double depth = static_cast<double>(dim) + 2.0 + older;
            ref->y[at + j] = y[j];
            ref->tolerance[at + j] =
                kSafety * kUnit * std::sqrt(depth) * terms[j];
        }
    }
}

static Reference referenceOf(const Shape &shape, const HostInputs &h)
{
    Reference ref;
    ref.y.resize(countOf(shape));
    ref.tolerance.resize(countOf(shape));
    std::vector<std::thread> workers;
    for (size_t head = 0;
         head < static_cast<size_t>(shape.batch * shape.heads); ++head) {
        workers.emplace_back([&shape, &h, head, &ref] {
            referenceOfHead(shape, h, head, &ref);
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
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

// Runs every path that these gates are for and prints its worst fraction. What
// it computes from, and into, is NaN at first.
static bool judgeCase(const char *label, const Shape &shape, Gates gates,
                      const Buffers &b, cudaStream_t stream, Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const Reference ref = referenceOf(shape, h);
    const size_t count = countOf(shape);
    const size_t states = static_cast<size_t>(shape.batch * shape.heads) *
                          (shape.steps / kTile) * shape.dim;
    std::vector<float> got(count);
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), count * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    std::printf("  %-10s", label);
    for (const Path &path : kPaths) {
        if (path.form == kFold && gates > kOne) {
            std::printf("  %10s", "-");
            continue;
        }
        CUDA_CHECK(cudaMemset(b.d_y, 0xff, count * sizeof(float)));
        CUDA_CHECK(cudaMemset(b.d_decays, 0xff, states * sizeof(float)));
        CUDA_CHECK(cudaMemset(b.d_states, 0xff,
                              states * shape.dim * sizeof(float)));
        launch(path, shape, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, count * sizeof(float),
                              cudaMemcpyDeviceToHost));
        size_t where = 0;
        const double frac = worstOf(got, ref, &where);
        if (!(frac <= 1.0) && failure->path == nullptr) {
            *failure = {path.name, kGatesNames[gates], shape, where,
                        static_cast<double>(got[where]), ref.y[where]};
        }
        std::printf("  %10.4f", frac);
    }
    size_t where = 0;
    const std::vector<float> zeros(count, 0.0f);
    std::printf("  %10.0f\n", worstOf(zeros, ref, &where));
    return failure->path == nullptr;
}

static void printHeader(const char *first, const char *unit, const char *last)
{
    std::printf("  %-10s", first);
    for (const Path &path : kPaths) {
        char label[32];
        std::snprintf(label, sizeof(label), "%s%s", path.name, unit);
        std::printf("  %10s", label);
    }
    std::printf("%s\n", last);
}

static int judgeShape(const Shape &shape, int kinds, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    std::printf("\ngate B = %d, T = %d, H = %d, D = %d: worst error as a "
                "fraction of what is allowed\n",
                shape.batch, shape.steps, shape.heads, shape.dim);
    std::printf("  outputs   %zu   (each path, each row)\n\n",
                countOf(shape));
    printHeader("gates", "", "   all zeros");
    int passed = 0;
    for (int gates = 0; gates < kinds; ++gates) {
        passed += judgeCase(kGatesNames[gates], shape,
                            static_cast<Gates>(gates), b, stream, failure)
                      ? 1
                      : 0;
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

static cudaGraphExec_t graphOf(const Path &path, const Shape &shape, int calls,
                               const Buffers &b, cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < calls; ++i) {
        launch(path, shape, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Times all paths beside each other, in turns, forwards and backwards. What is
// paid once for a graph is in both of its lengths and falls out.
static void timeAll(const Shape &shape, const Buffers &b, cudaStream_t stream,
                    Spread *times)
{
    const int calls[2] = {shortGraph(shape.steps), longGraph(shape.steps)};
    cudaGraphExec_t execs[kPathCount][2] = {};
    for (int path = 0; path < kPathCount; ++path) {
        for (int n = 0; n < 2; ++n) {
            execs[path][n] = graphOf(kPaths[path], shape, calls[n], b, stream);
        }
    }
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> slopes[kPathCount];
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kPathCount; ++turn) {
            const int path = round % 2 == 0 ? turn : kPathCount - 1 - turn;
            float ms[2] = {0.0f, 0.0f};
            for (int n = 0; n < 2; ++n) {
                CUDA_CHECK(cudaEventRecord(start, stream));
                CUDA_CHECK(cudaGraphLaunch(execs[path][n], stream));
                CUDA_CHECK(cudaEventRecord(stop, stream));
                CUDA_CHECK(cudaEventSynchronize(stop));
                CUDA_CHECK(cudaEventElapsedTime(&ms[n], start, stop));
            }
            if (round >= 0) {
                slopes[path].push_back(1e3 *
                                       static_cast<double>(ms[1] - ms[0]) /
                                       (calls[1] - calls[0]));
            }
        }
    }
    for (int path = 0; path < kPathCount; ++path) {
        times[path] = spreadOf(slopes[path]);
        for (cudaGraphExec_t exec : execs[path]) {
            CUDA_CHECK(cudaGraphExecDestroy(exec));
        }
    }
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
}

// --- Tables -----------------------------------------------------------------

template <int kD>
static void printKernels()
{
    const struct {
        const char *name;
        const void *kernel;
        int threads;
    } kAll[] = {
        {"founding", reinterpret_cast<const void *>(founding<kD>), kD},
        {"segments", reinterpret_cast<const void *>(segments<kD, kCols>),
         4 * kCols * kWarp},
        {"ends", reinterpret_cast<const void *>(ends<kD>), kParts * kD},
        {"scan", reinterpret_cast<const void *>(scan<kD>), kScanThreads},
        {"replay", reinterpret_cast<const void *>(replay<kD>), kParts * kD},
        {"horner", reinterpret_cast<const void *>(outputs<kD, false>),
         kParts * kD},
        {"fold", reinterpret_cast<const void *>(outputs<kD, true>),
         kParts * kD},
    };
    std::printf("\nkernels D = %d: horner is quadratic too\n", kD);
    std::printf("  %-8s  %7s  %9s  %9s  %10s  %9s\n", "kernel", "threads",
                "registers", "local (B)", "shared (B)", "blocks/SM");
    for (const auto &one : kAll) {
        cudaFuncAttributes attributes = {};
        int blocks = 0;
        CUDA_CHECK(cudaFuncGetAttributes(&attributes, one.kernel));
        CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, one.kernel, one.threads, 0));
        std::printf("  %-8s  %7d  %9d  %9zu  %10zu  %9d\n", one.name,
                    one.threads, attributes.numRegs, attributes.localSizeBytes,
                    attributes.sharedSizeBytes, blocks);
    }
}

// What each path has to do at the longest T: arithmetic, counted on paper.
static void printCounts(const Shape &shape)
{
    const double tensor = static_cast<double>(countOf(shape)) * 4.0;
    const double all = tensor / 4.0;  // outputs
    std::printf("\ncounts D = %d: at T = %d, B = %d, H = %d\n", shape.dim,
                shape.steps, shape.batch, shape.heads);
    std::printf("  floor   %.1f MB   (four arrays read, one written)\n\n",
                5e-6 * tensor);
    std::printf("  %-10s  %7s  %11s  %17s\n", "path", "kernels",
                "states (MB)", "operations (1e6)");
    for (const Path &path : kPaths) {
        const double dim = shape.dim;
        const double states = path.chunk == 0
                                  ? 0.0
                                  : tensor * dim / path.chunk *
                                        (path.isScanned ? 4.0 : 2.0);
        // A multiply-add or a product each, of one number.
        const double pairs =
            0.5 * (kTile + (path.chunk > 0 ? path.chunk : shape.steps));
        const double perOutput =
            path.form == kReplay     ? 5.0 * dim
            : path.form == kHorner   ? 3.0 * dim + 3.0 * pairs
            : path.form == kFold     ? 3.0 * dim + 2.0 * pairs
            : path.form == kSegments ? 5.0 * dim
            : path.form == kFounding ? 3.0 * dim
                                     : 3.0 * pairs;
        std::printf("  %-10s  %7d  %11.1f  %17.0f\n", path.name,
                    kernelsOf(path, shape.steps), 1e-6 * states,
                    1e-6 * all * perOutput);
    }
}

// Judges and times one width at all lengths; a wrong path is not timed.
static int sweep(Shape shape, const Buffers &b, cudaStream_t stream,
                 Failure *failure)
{
    Spread times[kLengthCount][kPathCount];
    int passed = 0;
    std::printf("\nlengths D = %d: worst error as a fraction of what is "
                "allowed, sigmoid gates\n",
                shape.dim);
    printHeader("steps", "", "   all zeros");
    for (int n = 0; n < kLengthCount && failure->path == nullptr; ++n) {
        char label[16];
        shape.steps = kLengths[n];
        std::snprintf(label, sizeof(label), "T = %d", shape.steps);
        if (judgeCase(label, shape, kSigmoid, b, stream, failure)) {
            ++passed;
            timeAll(shape, b, stream, times[n]);
        }
    }
    if (failure->path != nullptr) {
        return passed;
    }
    std::printf("\ntime D = %d: B = %d, H = %d, sigmoid gates, slope between "
                "two graphs\n",
                shape.dim, shape.batch, shape.heads);
    std::printf("  repeats   %d   (time is the median of these slopes)\n\n",
                kRepeats);
    std::printf("  %-8s", "steps");
    for (const Path &path : kPaths) {
        char label[32];
        std::snprintf(label, sizeof(label), "%s (us)", path.name);
        std::printf("  %15s", label);
    }
    std::printf("\n");
    for (int n = 0; n < kLengthCount; ++n) {
        std::printf("  T = %-4d", kLengths[n]);
        for (int path = 0; path < kPathCount; ++path) {
            std::printf("  %15.3f", times[n][path].median);
        }
        std::printf("\n");
    }

    std::printf("\nahead D = %d: segments against the best in chunks, without "
                "a division\n",
                shape.dim);
    std::printf("  %-8s  %13s  %9s  %13s  %-10s\n", "steps", "segments (us)",
                "best (us)", "segments over", "which");
    for (int n = 0; n < kLengthCount; ++n) {
        int best = kFirstChunked;
        for (int path = kFirstChunked; path < kPathCount; ++path) {
            if (kPaths[path].form != kFold &&
                times[n][path].median < times[n][best].median) {
                best = path;
            }
        }
        const double sequential = times[n][kSegmentsPath].median;
        std::printf("  T = %-4d  %13.3f  %9.3f  %12.2fx  %-10s\n",
                    kLengths[n], sequential, times[n][best].median,
                    sequential / times[n][best].median, kPaths[best].name);
    }
    return passed;
}

// --- Main -------------------------------------------------------------------

static Buffers allocate()
{
    size_t most = 0;
    size_t states = 0;
    for (Shape shape : kSwept) {
        shape.steps = kLongest;
        most = std::max(most, countOf(shape));
        states = std::max(states, countOf(shape) / kTile * shape.dim);
    }
    Buffers b;
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, most * sizeof(float)));
        CUDA_CHECK(cudaMemset(d_in, 0, most * sizeof(float)));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, most * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_states, states * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_decays, states / kDim * sizeof(float)));
    return b;
}

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: growth [--quick]\n"
                             "  --quick  small shapes, nothing timed\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    Buffers b = allocate();
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    printKernels<kDim>();
    printKernels<kOtherDim>();
    for (Shape shape : kSwept) {
        shape.steps = kLongest;
        printCounts(shape);
    }
    Failure failure;
    int passed = 0;
    const int shapes = quick ? kQuickShapes
                             : static_cast<int>(sizeof(kShapes) /
                                                sizeof(kShapes[0]));
    for (int n = 0; n < shapes; ++n) {
        if (failure.path == nullptr) {
            passed += judgeShape(kShapes[n], quick ? 2 : kGatesCount, b,
                                 stream, &failure);
        }
    }
    for (const Shape &shape : kSwept) {
        if (failure.path == nullptr && !quick) {
            passed += sweep(shape, b, stream, &failure);
        }
    }

    for (float *d_in : b.d_in) {
        CUDA_CHECK(cudaFree(d_in));
    }
    CUDA_CHECK(cudaFree(b.d_y));
    CUDA_CHECK(cudaFree(b.d_states));
    CUDA_CHECK(cudaFree(b.d_decays));
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
