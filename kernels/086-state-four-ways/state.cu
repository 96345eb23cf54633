// SPDX-License-Identifier: MIT
//
// Day 86: where the state lies. The gated recurrence of day 84 and its kernel,
// in FP32, with the D x D numbers of its state in one place after the other:
//
//   state[i][j] = gate[t][j] * state[i][j] + k[t][i] * v[t][j]
//   y[t][j]     = sum over i of q[t][i] * state[i][j]
//
//   registers   D is a template parameter, the loop over i written out
//   no pragma   the same, without a word to the compiler
//   fitting     float state[D], but the loop's bound is an argument
//   own zeros   the same; the loop that sets it to zero has that bound, too
//   of 128      as fitting, with room for 128 numbers
//   of 256      with room for 256
//   pragma      as of 128, with #pragma unroll before the loop
//   by fours    as of 128, with #pragma unroll 4
//   rows        in shared memory, D numbers of a thread in a row
//   padded      the same, with one unused number behind each row
//   transposed  the same, without padding, the numbers of all threads in a row
//   any D       as rows; D is an argument, and shared memory is asked for at
//               the launch
//
// Everything else is day 84's: a block per batch and head, a thread per column,
// k and q through shared memory, two barriers a step.
//
// The gate is day 84's: double precision on the CPU, and for each output an
// error of at most 4 u sqrt(depth) times the sum of the absolute terms, with
// u = 2^-24 and depth the roundings behind a term, weighted by size.
//
// Times are device times of a chain: the slope between a short and a long graph
// of launches, all data in L2 after the first of them.
//
// Written down before the run, microseconds at B=2, T=128, H=4, D=24: registers
// and no pragma 35; fitting, of 128, of 256, pragma, by fours 60 each; rows 55,
// padded 42, transposed 42, any D 65. The local memory of a block fits into the
// L1, so its latency counts and no byte of it. When the compiler's report had
// fitting without local memory, own zeros was added, predicted at 60, and
// fitting at 45.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o state state.cu
// Run: ./state

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
constexpr int kRoom = 128;      // of an array whose length is not known
constexpr int kMoreRoom = 256;

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

static_assert(kOtherDim <= kRoom, "the arrays have room for every D");
static_assert(kOtherDim * (kOtherDim + 3) * sizeof(float) <= 48 * 1024,
              "a padded state fits into static shared memory");

// --- Kernels ----------------------------------------------------------------

// Where the inputs of a block's head begin, plus the thread's column.
__device__ inline size_t firstOf(int steps, int heads, int dim)
{
    const size_t row = static_cast<size_t>(heads) * dim;
    return blockIdx.y / heads * steps * row + blockIdx.y % heads * dim +
           threadIdx.x;
}

// Day 84's kernel: thread j of block (b, h) has column j of its state.
// Memory: a step reads and writes rows of kD neighbouring floats; k and q go
// through shared memory, where all lanes read the same word (a broadcast).
// Launch assumption: kD threads, (1, batch * heads) blocks.
template <int kD>
__global__ void registers(const float *__restrict__ q,
                          const float *__restrict__ k,
                          const float *__restrict__ v,
                          const float *__restrict__ gate,
                          float *__restrict__ y, int steps, int heads, int)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = firstOf(steps, heads, kD);
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

// The same, without the pragma. It is also compiled for larger kD, to see up
// to where the compiler does by itself what the pragma asks for.
// Memory and launch assumption: as registers.
template <int kD>
__global__ void noPragma(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads, int)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = firstOf(steps, heads, kD);
    float state[kD] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < kD; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// An array with room for kMax numbers, of which dim are used. All of it is set
// to zero at the start, or with kOwnZeros what is used of it.
// Memory: as registers; a state in local memory has the i-th numbers of all
// lanes side by side.
// Launch assumption: dim <= kMax threads, (1, batch * heads) blocks.
template <int kMax, bool kOwnZeros>
__global__ void counted(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads, int dim)
{
    __shared__ float tileK[kMax];
    __shared__ float tileQ[kMax];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * dim;
    size_t at = firstOf(steps, heads, dim);
    // snippet: counted
    float state[kMax];
    for (int i = 0; i < (kOwnZeros ? dim : kMax); ++i) {
        state[i] = 0.0f;
    }
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
}

// As counted, with a pragma before the loop.
// Memory and launch assumption: as counted.
template <int kMax>
__global__ void pragma(const float *__restrict__ q,
                       const float *__restrict__ k,
                       const float *__restrict__ v,
                       const float *__restrict__ gate,
                       float *__restrict__ y, int steps, int heads, int dim)
{
    __shared__ float tileK[kMax];
    __shared__ float tileQ[kMax];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * dim;
    size_t at = firstOf(steps, heads, dim);
    float state[kMax] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < dim; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// As counted, with a pragma that says how often.
// Memory and launch assumption: as counted.
template <int kMax>
__global__ void byFours(const float *__restrict__ q,
                        const float *__restrict__ k,
                        const float *__restrict__ v,
                        const float *__restrict__ gate,
                        float *__restrict__ y, int steps, int heads, int dim)
{
    __shared__ float tileK[kMax];
    __shared__ float tileQ[kMax];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * dim;
    size_t at = firstOf(steps, heads, dim);
    float state[kMax] = {};
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll 4
        for (int i = 0; i < dim; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
}

// The state in shared memory. kPitch is from one row of it to the next.
// Memory: as registers. Number i of all lanes: words that are kPitch apart, or
// if transposed, neighbours. At kD = kPitch = 24 the former lie in banks 0, 24,
// 16 and 8 alone, six lanes in each; at an odd kPitch, and transposed, every
// lane has a bank to itself.
// Launch assumption: kD threads, (1, batch * heads) blocks.
template <int kD, int kPitch, bool kTransposed>
__global__ void inShared(const float *__restrict__ q,
                         const float *__restrict__ k,
                         const float *__restrict__ v,
                         const float *__restrict__ gate,
                         float *__restrict__ y, int steps, int heads, int)
{
    __shared__ float tileK[kD];
    __shared__ float tileQ[kD];
    __shared__ float state[kD * kPitch];
    const int j = static_cast<int>(threadIdx.x);
    const size_t row = static_cast<size_t>(heads) * kD;
    size_t at = firstOf(steps, heads, kD);
    // snippet: in-shared
    const int first = kTransposed ? j : j * kPitch;
    constexpr int kNext = kTransposed ? kPitch : 1;
#pragma unroll
    for (int i = 0; i < kD; ++i) {
        state[first + i * kNext] = 0.0f;
    }
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kD; ++i) {
            float &own = state[first + i * kNext];
            own = fmaf(g, own, tileK[i] * value);
            sum = fmaf(tileQ[i], own, sum);
        }
        y[at] = sum;
        __syncthreads();  // nobody reads them any more
    }
    // end snippet
}

// For any D: nothing about it is known before the launch.
// Memory: as inShared with rows.
// Launch assumption: dim threads, (1, batch * heads) blocks, dim * (dim + 2)
// floats of shared memory.
__global__ void anyD(const float *__restrict__ q, const float *__restrict__ k,
                     const float *__restrict__ v,
                     const float *__restrict__ gate, float *__restrict__ y,
                     int steps, int heads, int dim)
{
    // snippet: any-d
    extern __shared__ float words[];  // dim * (dim + 2) of them
    const int j = static_cast<int>(threadIdx.x);
    float *tileK = words;
    float *tileQ = words + dim;
    float *state = words + 2 * dim + j * dim;
    // end snippet
    const size_t row = static_cast<size_t>(heads) * dim;
    size_t at = firstOf(steps, heads, dim);
    for (int i = 0; i < dim; ++i) {
        state[i] = 0.0f;
    }
    for (int t = 0; t < steps; ++t, at += row) {
        tileK[j] = k[at];
        tileQ[j] = q[at];
        __syncthreads();  // the step's k and q are there
        const float g = gate[at];
        const float value = v[at];
        float sum = 0.0f;
        for (int i = 0; i < dim; ++i) {
            state[i] = fmaf(g, state[i], tileK[i] * value);
            sum = fmaf(tileQ[i], state[i], sum);
        }
        y[at] = sum;
        __syncthreads();  // any D: nobody reads them any more
    }
}

// Nothing at all. Launch assumption: any.
__global__ void empty() {}

// --- Paths ------------------------------------------------------------------

enum Path {
    kPathRegisters,
    kPathNoPragma,
    kPathFitting,
    kPathOwnZeros,
    kPathOf128,
    kPathOf256,
    kPathPragma,
    kPathByFours,
    kPathRows,
    kPathPadded,
    kPathTransposed,
    kPathAnyD,
    kPathCount
};

using Kernel = void (*)(const float *, const float *, const float *,
                        const float *, float *, int, int, int);

struct PathInfo {
    const char *name;
    Kernel kernel;
    size_t dynamic;  // bytes of shared memory asked for at the launch
};

template <int kD>
static PathInfo infoOf(int path)
{
    constexpr size_t kAnyBytes = kD * (kD + 2) * sizeof(float);
    const PathInfo all[kPathCount] = {
        {"registers", registers<kD>, 0},
        {"no pragma", noPragma<kD>, 0},
        {"fitting", counted<kD, false>, 0},
        {"own zeros", counted<kD, true>, 0},
        {"of 128", counted<kRoom, false>, 0},
        {"of 256", counted<kMoreRoom, false>, 0},
        {"pragma", pragma<kRoom>, 0},
        {"by fours", byFours<kRoom>, 0},
        {"rows", inShared<kD, kD, false>, 0},
        {"padded", inShared<kD, kD + 1, false>, 0},
        {"transposed", inShared<kD, kD, true>, 0},
        {"any D", anyD, kAnyBytes},
    };
    return all[path];
}

static PathInfo infoOf(int path, int dim)
{
    return dim == kDim ? infoOf<kDim>(path) : infoOf<kOtherDim>(path);
}

static dim3 gridOf(const Shape &shape)
{
    return dim3(1, static_cast<unsigned int>(shape.batch * shape.heads));
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

// A path, or behind the last of them an empty kernel.
static void launch(int path, const Shape &shape, const Buffers &b,
                   cudaStream_t stream)
{
    if (path == kPathCount) {
        empty<<<gridOf(shape), shape.dim, 0, stream>>>();
    } else {
        const PathInfo info = infoOf(path, shape.dim);
        info.kernel<<<gridOf(shape), shape.dim, info.dynamic, stream>>>(
            b.d_in[0], b.d_in[1], b.d_in[2], b.d_in[3], b.d_y, shape.steps,
            shape.heads, shape.dim);
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
        if (infoOf(path, shape.dim).kernel == nullptr) {
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
            *failure = {infoOf(path, shape.dim).name, kGatesNames[gates],
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
        const PathInfo info = infoOf(path, shape.dim);
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

// Not the helper of that name that other programs share: it adds what is asked
// for at the launch.
static void printKernel
    (const char *name, Kernel kernel, size_t dynamic)
{
    cudaFuncAttributes attributes = {};
    CUDA_CHECK(cudaFuncGetAttributes(&attributes,
                                     reinterpret_cast<const void *>(kernel)));
    std::printf("  %-10s  %9d  %9zu  %10zu\n", name, attributes.numRegs,
                attributes.localSizeBytes,
                attributes.sharedSizeBytes + dynamic);
}

static void printKernels()
{
    std::printf("\nkernels: D = %d, %u blocks of %d threads\n", kDim,
                gridOf(kFounding).y, kDim);
    std::printf("  %-10s  %9s  %9s  %10s\n", "path", "registers", "local (B)",
                "shared (B)");
    for (int path = 0; path < kPathCount; ++path) {
        const PathInfo info = infoOf<kDim>(path);
        printKernel(info.name, info.kernel, info.dynamic);
    }
    std::printf("\nplain widths: no pragma at other D, compiled and not run\n");
    std::printf("  %-10s  %9s  %9s  %10s\n", "width", "registers", "local (B)",
                "shared (B)");
    printKernel("D = 64", noPragma<64>, 0);
    printKernel("D = 128", noPragma<128>, 0);
    printKernel("D = 256", noPragma<256>, 0);
    std::printf("\nunrolled widths: registers at other D, likewise\n");
    std::printf("  %-10s  %9s  %9s  %10s\n", "width", "registers", "local (B)",
                "shared (B)");
    printKernel("D = 64", registers<64>, 0);
    printKernel("D = 128", registers<128>, 0);
    printKernel("D = 256", registers<256>, 0);
}

// The most words of one bank that lanes ask for at once, when lane j reads
// number i of a state laid out so. The same for every i.
static int degreeOf(int pitch, bool transposed)
{
    int words[32] = {};
    int most = 0;
    for (int j = 0; j < kDim; ++j) {
        const int bank = (transposed ? j : j * pitch) % 32;
        most = std::max(most, ++words[bank]);
    }
    return most;
}

static void printCounts()
{
    const double steps = static_cast<double>(kFounding.steps) *
                         kFounding.batch * kFounding.heads;
    std::printf("\ncounts: at the founding shape\n");
    std::printf("  steps         %.0f   (of all blocks)\n", steps);
    std::printf("  state reads   %.0f   (of a warp: one for each row)\n",
                steps * kDim);
    std::printf("\nbanks: words of one bank that a warp asks for at once\n");
    std::printf("  rows         %d\n", degreeOf(kDim, false));
    std::printf("  padded       %d\n", degreeOf(kDim + 1, false));
    std::printf("  transposed   %d\n", degreeOf(kDim, true));
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
                    path < kPathCount ? infoOf<kDim>(path).name : "empty",
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
        std::fprintf(stderr, "usage: state [--quick | --once]\n"
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
