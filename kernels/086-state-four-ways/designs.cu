// SPDX-License-Identifier: MIT
//
// Day 86: the other choices. Day 84's kernel keeps a column of its state in the
// registers of a thread. It also has a block for each batch and head, a thread
// for each column, a barrier before and behind each step's sums, k and q by way
// of shared memory, and one chain of sums. Each path here has one of these
// otherwise; the recurrence and its gate are day 84's, all numbers are FP32:
//
//   founding    day 84's kernel
//   guarded     whole warps of threads; those without a column only wait
//   warp only   __syncwarp in place of both barriers, where D <= 32
//   direct      k and q straight from memory, and no barrier
//   float4      D / 4 threads bring k, D / 4 others q, 16 bytes each
//   one float4  the same with one load for both kinds of threads
//   four sums   each sum over i in four parts, added up at the end
//   squared     D x D threads with one number of the state each; the products
//               are exchanged through shared memory
//   warps       a warp for each column and a lane for each row, D warps in a
//               block, and five shuffles for each sum
//   single      a block for each column, of one thread
//   one block   the columns of all batches and heads in one block
//
// Where D x D or D warps are more threads than a block may have, the path is
// not offered.
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size.
//
// Times are device times of a chain: the slope between a short and a long graph
// of launches, all data in L2 after the first of them.
//
// Written down before the run, microseconds at B=2, T=128, H=4, D=24: founding
// 35, guarded 35, warp only 32, direct 27, float4 35, four sums 30, squared 60,
// warps 30, single 27, one block 40. When float4 took 80, one float4 was added,
// predicted at 35.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o designs designs.cu
// Run: ./designs

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
constexpr Shape kShapes[] = {
    {1, 131, 3, kDim},
    {1, 67, 2, kOtherDim},
    {1, 1, 1, kDim},
    kFounding,
};
constexpr int kQuickShapes = 3;
constexpr int kWarp = 32;
constexpr unsigned int kFullWarp = 0xffffffffu;
constexpr int kMaxThreads = 1024;  // of a block
constexpr int kParts = 4;          // of a sum in four sums

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
constexpr int kShortGraph = 10;  // launches
constexpr int kLongGraph = 60;

static_assert(kDim % 4 == 0 && kOtherDim % 4 == 0,
              "a row of k is whole float4s, and begins at one");
static_assert(kDim <= kWarp, "warps has a lane for each row");

// --- Kernels ----------------------------------------------------------------

// Where the inputs of a head begin.
__device__ inline size_t headAt(int head, int steps, int heads, int dim)
{
    const size_t row = static_cast<size_t>(heads) * dim;
    return static_cast<size_t>(head / heads) * steps * row +
           static_cast<size_t>(head % heads) * dim;
}

// Day 84's kernel: thread j of block (b, h) has column j of its state.
// Memory: a step reads and writes rows of kD neighbouring floats; k and q go
// through shared memory, where all lanes read the same word (a broadcast).
// Launch assumption: kD threads, a block for each head.
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
    size_t at = headAt(blockIdx.x, steps, heads, kD) + j;
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

// As founding, in whole warps. What touches memory is guarded; the barriers are
// not.
// Memory: as founding.
// Launch assumption: kD threads, rounded up to whole warps; a block for each
// head.
template <int kD>
__global__ void guarded(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD) + j;
    float state[kD] = {};
    // snippet: guarded
    for (int t = 0; t < steps; ++t, at += row) {
        float g = 0.0f;
        float value = 0.0f;
        if (j < kD) {
            tileK[j] = k[at];
            tileQ[j] = q[at];
            g = gate[at];
            value = v[at];
        }
        __syncthreads();  // for all threads, with a column or without
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        if (j < kD) {
            y[at] = sum;
        }
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
}

// As founding, for a block that is a single warp.
// Memory: as founding.
// Launch assumption: kD <= 32 threads, a block for each head.
template <int kD>
__global__ void warpOnly(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    static_assert(kD <= kWarp, "__syncwarp holds up one warp");
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD) + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncwarp((1u << kD) - 1);  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncwarp((1u << kD) - 1);  // nobody reads them any more
    }
}

// As founding, without shared memory.
// Memory: every lane reads every number of k and q, the same word as all other
// lanes: 2 kD requests of one sector a step, in place of two of a row.
// Launch assumption: as founding.
template <int kD>
__global__ void direct(const float *__restrict__ q,
                       const float *__restrict__ k,
                       const float *__restrict__ v,
                       const float *__restrict__ gate,
                       float *__restrict__ y, int steps, int heads)
{
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD);
    float state[kD] = {};
    // snippet: direct
    for (int t = 0; t < steps; ++t, at += row) {
        const float g = gate[at + j];
        const float value = v[at + j];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], k[at + i] * value);
            sum = fmaf(q[at + i], state[i], sum);
        }
        y[at + j] = sum;
    }
    // end snippet
}

// As founding; a thread brings four numbers of k or of q, or none.
// Memory: as founding, 16 bytes a lane.
// Launch assumption: as founding; inputs are aligned to 16 bytes.
template <int kD>
__global__ void byFloat4(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float4 tileK[kD / 4];
    __shared__ float4 tileQ[kD / 4];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD);
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        // snippet: float4
        if (j < kD / 4) {
            tileK[j] = reinterpret_cast<const float4 *>(k + at)[j];
        } else if (j < kD / 2) {
            tileQ[j - kD / 4] =
                reinterpret_cast<const float4 *>(q + at)[j - kD / 4];
        }
        // end snippet
        __syncthreads();  // the step's k and q are there
        const float g = gate[at + j];
        const float value = v[at + j];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            const float ki = (&tileK[0].x)[i];
            const float qi = (&tileQ[0].x)[i];
            state[i] = fmaf(g, state[i], ki * value);
            sum = fmaf(qi, state[i], sum);
        }
        y[at + j] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// As byFloat4; which of the two a thread brings is an address, not a branch.
// Memory: as byFloat4, k and q in one request.
// Launch assumption: as founding; inputs are aligned to 16 bytes.
template <int kD>
__global__ void oneFloat4(const float *__restrict__ q,
                          const float *__restrict__ k,
                          const float *__restrict__ v,
                          const float *__restrict__ gate,
                          float *__restrict__ y, int steps, int heads)
{
    __shared__ float4 tile[kD / 2];  // k, then q
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD);
    const float *from = j < kD / 4 ? k : q;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        // snippet: one-float4
        if (j < kD / 2) {
            tile[j] = reinterpret_cast<const float4 *>(from + at)[j % (kD / 4)];
        }
        // end snippet
        __syncthreads();  // the step's k and q are there
        const float g = gate[at + j];
        const float value = v[at + j];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            const float ki = (&tile[0].x)[i];
            const float qi = (&tile[kD / 4].x)[i];
            state[i] = fmaf(g, state[i], ki * value);
            sum = fmaf(qi, state[i], sum);
        }
        y[at + j] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// As founding; four chains of kD / 4 multiply-adds in place of one of kD.
// Memory and launch assumption: as founding.
template <int kD>
__global__ void fourSums(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD) + j;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum[kParts] = {};
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum[i % kParts] = fmaf(tileQ[i], state[i], sum[i % kParts]);
        }
        y[at] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        __syncthreads();  // nobody reads them any more
    }
}

// Thread (i, j) has number (i, j) of the state; the first kD threads add up.
// Memory: neighbouring threads read neighbouring floats of gate and v and the
// same one of k and q; the products are stored by rows and read by columns.
// Launch assumption: kD * kD threads, a block for each head.
template <int kD>
__global__ void squared(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads)
{
    __shared__ float product[kD][kD];
    const int i = static_cast<int>(threadIdx.x) / kD;
    const int j = static_cast<int>(threadIdx.x) % kD;
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD);
    float state = 0.0f;
    for (int t = 0; t < steps; ++t, at += row) {
        state = fmaf(gate[at + j], state, k[at + i] * v[at + j]);
        product[i][j] = q[at + i] * state;
        __syncthreads();  // all products of the step are there
        if (i == 0) {
            float sum = 0.0f;
#pragma unroll
            for (int n = 0; n < kD; ++n) {
                sum += product[n][j];
            }
            y[at + j] = sum;
        }
        __syncthreads();  // squared: nobody reads them any more
    }
}

// Warp j has column j, lane i its row i.
// Memory: a warp reads kD neighbouring floats of k and of q and one of gate and
// of v; one lane stores.
// Launch assumption: kD warps of 32 >= kD lanes, a block for each head.
template <int kD>
__global__ void warps(const float *__restrict__ q,
                      const float *__restrict__ k,
                      const float *__restrict__ v,
                      const float *__restrict__ gate, float *__restrict__ y,
                      int steps, int heads)
{
    const int i = static_cast<int>(threadIdx.x) % kWarp;
    const int j = static_cast<int>(threadIdx.x) / kWarp;
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x, steps, heads, kD);
    float state = 0.0f;
    for (int t = 0; t < steps; ++t, at += row) {
        const float ki = i < kD ? k[at + i] : 0.0f;
        const float qi = i < kD ? q[at + i] : 0.0f;
        state = fmaf(gate[at + j], state, ki * v[at + j]);
        float sum = qi * state;
#pragma unroll
        for (int offset = kWarp / 2; offset > 0; offset /= 2) {
            sum += __shfl_xor_sync(kFullWarp, sum, offset);
        }
        if (i == 0) {
            y[at + j] = sum;
        }
    }
}

// As direct; block (j, head) is one thread, with column j.
// Memory: every request is of one word.
// Launch assumption: one thread, kD blocks for each head.
template <int kD>
__global__ void single(const float *__restrict__ q,
                       const float *__restrict__ k,
                       const float *__restrict__ v,
                       const float *__restrict__ gate,
                       float *__restrict__ y, int steps, int heads)
{
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(blockIdx.x / kD, steps, heads, kD);
    const size_t j = blockIdx.x % kD;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        const float g = gate[at + j];
        const float value = v[at + j];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], k[at + i] * value);
            sum = fmaf(q[at + i], state[i], sum);
        }
        y[at + j] = sum;
    }
}

// As founding, for all heads at once.
// Memory: as founding; a warp's columns are of up to three heads, whose k and q
// it reads in as many words.
// Launch assumption: kD threads for each head, at most 1024, one block.
template <int kD>
__global__ void oneBlock(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads)
{
    __shared__ float tileK[kMaxThreads];
    __shared__ float tileQ[kMaxThreads];
    const int tid = static_cast<int>(threadIdx.x);
    const int first = tid / kD * kD;  // of the head
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = headAt(tid / kD, steps, heads, kD) + tid % kD;
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[tid] = k[at];
        tileQ[tid] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[first + i] * value);
            sum = fmaf(tileQ[first + i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // one block: nobody reads them any more
    }
}

// Nothing at all. Launch assumption: any.
__global__ void empty() {}

// --- Paths ------------------------------------------------------------------

enum Path {
    kPathFounding,
    kPathGuarded,
    kPathWarpOnly,
    kPathDirect,
    kPathFloat4,
    kPathOneFloat4,
    kPathFourSums,
    kPathSquared,
    kPathWarps,
    kPathSingle,
    kPathOneBlock,
    kPathCount
};

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int);

struct PathInfo {
    const char *name;
    Kernel kernel;  // none where it is not offered
    int blocks;
    int threads;
};

template <int kD>
static PathInfo infoOf(int path, int states)
{
    constexpr int kWhole = (kD + kWarp - 1) / kWarp * kWarp;
    Kernel ofWarp = nullptr;
    Kernel ofSquare = nullptr;
    Kernel ofWarps = nullptr;
    if constexpr (kD <= kWarp) {
        ofWarp = warpOnly<kD>;
        ofSquare = squared<kD>;
        ofWarps = warps<kD>;
    }
    const PathInfo all[kPathCount] = {
        {"founding", founding<kD>, states, kD},
        {"guarded", guarded<kD>, states, kWhole},
        {"warp only", ofWarp, states, kD},
        {"direct", direct<kD>, states, kD},
        {"float4", byFloat4<kD>, states, kD},
        {"one float4", oneFloat4<kD>, states, kD},
        {"four sums", fourSums<kD>, states, kD},
        {"squared", ofSquare, states, kD * kD},
        {"warps", ofWarps, states, kD * kWarp},
        {"single", single<kD>, states * kD, 1},
        {"one block", oneBlock<kD>, 1, states * kD},
    };
    return all[path];
}

static PathInfo infoOf(int path, const Shape &shape)
{
    const int states = shape.batch * shape.heads;
    return shape.dim == kDim ? infoOf<kDim>(path, states)
                             : infoOf<kOtherDim>(path, states);
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

// A path, or behind the last of them an empty kernel, launched as the first is.
static void launch(int path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    const PathInfo info = infoOf(path < kPathCount ? path : 0, shape);
    if (path == kPathCount) {
        empty<<<info.blocks, info.threads, 0, stream>>>();
    } else {
        info.kernel<<<info.blocks, info.threads, 0, stream>>>(
            b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y, shape.steps,
            shape.heads);
    }
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

// The worst fraction of every path with every kind of gates.
struct Fractions {
    double path[kPathCount][kGatesCount] = {};
    double zeros[kGatesCount] = {};
};

static void judgeCase(const Shape &shape, Gates gates, const Buffers &b,
                      cudaStream_t stream, Fractions *fractions,
                      Failure *failure)
{
    const HostInputs h = makeInputs(shape, gates);
    const Reference ref = referenceOf(shape, h);
    const size_t count = countOf(shape);
    std::vector<float> got(count);
    size_t where = 0;
    for (int n = 0; n < 4; ++n) {
        CUDA_CHECK(cudaMemcpy(b.d_in[n], h.in[n].data(), count * sizeof(float),
                              cudaMemcpyHostToDevice));
    }
    for (int path = 0; path < kPathCount; ++path) {
        if (infoOf(path, shape).kernel == nullptr) {
            continue;
        }
        CUDA_CHECK(cudaMemset(b.d_y, 0xff, count * sizeof(float)));
        launch(path, shape, b, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaMemcpy(got.data(), b.d_y, count * sizeof(float),
                              cudaMemcpyDeviceToHost));
        const double frac = worstOf(got, ref, &where);
        fractions->path[path][gates] = frac;
        if (!(frac <= 1.0) && failure->path == nullptr) {
            *failure = {infoOf(path, shape).name, kGatesNames[gates],
                        shape, where, static_cast<double>(got[where]),
                        ref.y[where]};
        }
    }
    const std::vector<float> zeros(count, 0.0f);
    fractions->zeros[gates] = worstOf(zeros, ref, &where);
    if (!(fractions->zeros[gates] > 1.0) && failure->path == nullptr) {
        *failure = {"all zeros, accepted,", kGatesNames[gates], shape, 0, 0.0,
                    ref.y[0]};
    }
}

static int judgeShape(const Shape &shape, int kinds, const Buffers &b,
                      cudaStream_t stream, Failure *failure)
{
    Fractions fractions;
    int passed = 0;
    for (int gates = 0; gates < kinds; ++gates) {
        judgeCase(shape, static_cast<Gates>(gates), b, stream, &fractions,
                  failure);
        passed += failure->path == nullptr ? 1 : 0;
    }
    std::printf("\ngate B = %d, T = %d, H = %d, D = %d: worst error as a "
                "fraction of what is allowed\n",
                shape.batch, shape.steps, shape.heads, shape.dim);
    std::printf("  outputs   %zu   (of each path, with each kind of gates)\n\n",
                countOf(shape));
    std::printf("  %-10s", "path");
    for (int gates = 0; gates < kinds; ++gates) {
        std::printf("  %9s", kGatesNames[gates]);
    }
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf(path, shape);
        if (info.kernel != nullptr) {
            std::printf("\n  %-10s", info.name);
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

static cudaGraphExec_t graphOf(int path, int launches, const Buffers &b,
                               cudaStream_t stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        launch(path, kFounding, b, stream);
    }
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

static double graphMs(cudaGraphExec_t exec, cudaEvent_t start,
                      cudaEvent_t stop, cudaStream_t stream)
{
    float ms = 0.0f;
    CUDA_CHECK(cudaEventRecord(start, stream));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    return static_cast<double>(ms);
}

// Times all paths and an empty kernel beside each other, in turns, forwards and
// backwards. What is paid once for a graph is in both of its lengths and falls
// out.
static void timeAll(const Buffers &b, cudaStream_t stream,
                    Spread (&times)[kPathCount + 1])
{
    constexpr int kAll = kPathCount + 1;
    cudaGraphExec_t few[kAll] = {};
    cudaGraphExec_t many[kAll] = {};
    for (int path = 0; path < kAll; ++path) {
        few[path] = graphOf(path, kShortGraph, b, stream);
        many[path] = graphOf(path, kLongGraph, b, stream);
    }
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    std::vector<double> slopes[kAll];
    for (int round = -kWarmups; round < kRepeats; ++round) {
        for (int turn = 0; turn < kAll; ++turn) {
            const int path = round % 2 == 0 ? turn : kAll - 1 - turn;
            const double shorter = graphMs(few[path], start, stop, stream);
            const double longer = graphMs(many[path], start, stop, stream);
            if (round >= 0) {
                slopes[path].push_back(1e3 * (longer - shorter) /
                                       (kLongGraph - kShortGraph));
            }
        }
    }
    for (int path = 0; path < kAll; ++path) {
        times[path] = spreadOf(slopes[path]);
        CUDA_CHECK(cudaGraphExecDestroy(few[path]));
        CUDA_CHECK(cudaGraphExecDestroy(many[path]));
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
        const PathInfo info = infoOf(path, kFounding);
        cudaFuncAttributes attributes = {};
        CUDA_CHECK(cudaFuncGetAttributes(
            &attributes, reinterpret_cast<const void *>(info.kernel)));
        std::printf("  %-10s  %6d  %7d  %9d  %9zu  %10zu\n", info.name,
                    info.blocks, info.threads, attributes.numRegs,
                    attributes.localSizeBytes, attributes.sharedSizeBytes);
    }
}

static void printCounts()
{
    const double row = kDim * sizeof(float);
    const double rows = static_cast<double>(kFounding.steps) *
                        kFounding.batch * kFounding.heads;
    std::printf("\ncounts: at the founding shape\n");
    std::printf("  row              %.0f B   (k of a head in a step)\n", row);
    std::printf("  sectors of row   %.0f   (of 32 bytes)\n", row / 32.0);
    std::printf("  rows             %.0f   (of each tensor)\n", rows);
    std::printf("  output sectors   %.0f\n", rows * row / 32.0);
    std::printf("  output bytes     %.0f B\n", rows * row);
}

static void printTimes(const Buffers &b, cudaStream_t stream)
{
    Spread times[kPathCount + 1];
    timeAll(b, stream, times);
    std::printf("\ntime: T = %d, slope between graphs of %d and %d launches, "
                "data in L2\n",
                kFounding.steps, kShortGraph, kLongGraph);
    std::printf("  repeats   %d   (time is the median of these slopes)\n\n",
                kRepeats);
    std::printf("  %-10s  %9s  %8s  %8s  %10s\n", "path", "time (us)",
                "min (us)", "max (us)", "over first");
    for (int path = 0; path <= kPathCount; ++path) {
        const Spread &spread = times[path];
        std::printf("  %-10s  %9.3f  %8.3f  %8.3f  %9.3fx\n",
                    path < kPathCount ? infoOf(path, kFounding).name : "empty",
                    spread.median, spread.least, spread.most,
                    spread.median / times[0].median);
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    const bool once = argc == 2 && std::strcmp(argv[1], "--once") == 0;
    if (argc != 1 && !quick && !once) {
        std::fprintf(stderr, "usage: designs [--quick | --once]\n"
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
    const size_t bytes = countOf(kFounding) * sizeof(float);
    for (float *&d_in : b.d_in) {
        CUDA_CHECK(cudaMalloc(&d_in, bytes));
    }
    CUDA_CHECK(cudaMalloc(&b.d_y, bytes));

    printKernels();
    printCounts();
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
        printTimes(b, stream);
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
