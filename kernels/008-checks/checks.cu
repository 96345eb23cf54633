// SPDX-License-Identifier: MIT
//
// Day 8: a check that can fail. One small computation, one right kernel, eight
// answers that are wrong, five checks, and three sets of inputs. Which check
// notices what?
//
// The computation is a table of weights: w[row, column] is a[row] * b[column],
// divided by the sum of all such products. All weights together are 1, so each
// is tiny, and a tolerance that looks strict may be larger than the answer.
//
// The checks are written as they are found in many programs, but for the last,
// the gate of all programs here: double precision on the CPU, two roundings, so
// rtol = max(1e-5, 4 * 2^-23 * sqrt(2)) and atol = rtol * max |reference|.
//
// The inputs: all ones; one vector used twice; and two vectors with nothing in
// common, whose periods are primes. The size, 300 by 300, is no multiple of
// anything here.
//
// The program passes if every check accepts the right kernel with all inputs,
// the gate rejects every wrong answer with the last inputs, and every other
// check accepts at least one of them.
//
// Predictions, written before the run: the gate needs the good inputs to find
// all eight. No other check finds more than six, and the sum of all weights
// not even half.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o checks checks.cu
// Run: ./checks

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
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

constexpr size_t kSide = 300;  // rows, and columns: no whole number of blocks
constexpr size_t kCount = kSide * kSide;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocks = (kCount + kThreads - 1) / kThreads;

static_assert(kCount % kThreads != 0, "the last block has threads to spare");

// --- Cases ------------------------------------------------------------------

enum Input { kOnes, kTwice, kGood, kInputs };
constexpr const char *kInputNames[kInputs] = {"ones", "twice", "good"};
constexpr const char *kInputAbout[kInputs] = {
    "every input is 1", "b is a", "two vectors with nothing in common"};

// Primes longer than a side: no number comes twice in a vector.
constexpr size_t kPeriodA = 307;
constexpr size_t kPeriodB = 311;
constexpr size_t kStepA = 23;
constexpr size_t kStepB = 34;

static_assert(kPeriodA >= kSide && kPeriodB >= kSide, "no number comes twice");

enum Answer {
    kRight,
    kZeros,
    kNothing,
    kStale,
    kMean,
    kSwapped,
    kShifted,
    kShort,
    kOneOff,
    kAnswers
};
constexpr const char *kAnswerNames[kAnswers] = {
    "right",   "all zeros",   "nothing written",  "left from before",
    "mean",    "swapped",     "shifted",          "last row missing",
    "one off",
};

enum Check { kSum, kFirst, kAbsolute, kRelative, kGate, kChecks };
constexpr const char *kCheckNames[kChecks] = {"sum", "first ten", "absolute",
                                              "relative", "gate"};

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr double kLoose = 1e-3;            // what the other checks allow
constexpr double kStrict = 1e-5;           // or, relative to the reference

// --- Kernels, of which one is right -----------------------------------------

// The index of this thread in the table, row after row.
__device__ size_t placeOf()
{
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// w = a * b / sum, one thread per weight.
// Memory: a warp writes 32 neighbouring floats, and reads at most two of a and
// 32 of b.
// Launch assumption: at least kCount threads.
// snippet: weights
__global__ void weights(const float *__restrict__ a,
                        const float *__restrict__ b, float scale,
                        float *__restrict__ w)
{
    const size_t i = placeOf();
    if (i < kCount) {
        w[i] = a[i / kSide] * b[i % kSide] * scale;
    }
}
// end snippet

// Rows for columns. Otherwise as weights.
// snippet: swapped
__global__ void swapped(const float *__restrict__ a,
                        const float *__restrict__ b, float scale,
                        float *__restrict__ w)
{
    const size_t i = placeOf();
    if (i < kCount) {
        w[i] = a[i % kSide] * b[i / kSide] * scale;
    }
}
// end snippet

// The next column's weight. Otherwise as weights.
__global__ void shifted(const float *__restrict__ a,
                        const float *__restrict__ b, float scale,
                        float *__restrict__ w)
{
    const size_t i = placeOf();
    if (i < kCount) {
        w[i] = a[i / kSide] * b[(i + 1) % kSide] * scale;
    }
}

// One weight for all, which at least have the right sum.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: at least kCount threads.
__global__ void mean(float *__restrict__ w)
{
    const size_t i = placeOf();
    if (i < kCount) {
        w[i] = 1.0f / kCount;
    }
}

// What is wrong is one weight, by a thousandth; or the last row, which is left
// out. Otherwise as weights.
__global__ void nearly(const float *__restrict__ a,
                       const float *__restrict__ b, float scale,
                       float *__restrict__ w, size_t count, size_t wrong)
{
    const size_t i = placeOf();
    if (i < count) {
        const float off = i == wrong ? 1.001f : 1.0f;
        w[i] = a[i / kSide] * b[i % kSide] * scale * off;
    }
}

// --- Inputs -----------------------------------------------------------------

struct Vectors {
    std::vector<float> a;
    std::vector<float> b;
    float scale = 0.0f;  // one over the sum of all products
};

static Vectors vectorsOf(Input input)
{
    Vectors v;
    double sumA = 0.0;
    double sumB = 0.0;
    for (size_t i = 0; i < kSide; ++i) {
        const float stepA = static_cast<float>(i * kStepA % kPeriodA);
        const float stepB = static_cast<float>(i * kStepB % kPeriodB);
        const float a = input == kOnes ? 1.0f : 0.003f * (stepA + 40.3f);
        const float b = input == kGood ? 0.003f * (stepB + 40.3f) : a;
        v.a.push_back(a);
        v.b.push_back(b);
        sumA += a;
        sumB += b;
    }
    v.scale = static_cast<float>(1.0 / (sumA * sumB));
    return v;
}

// --- CPU reference ----------------------------------------------------------

static std::vector<double> reference(const Vectors &v)
{
    std::vector<double> w;
    for (size_t row = 0; row < kSide; ++row) {
        for (size_t column = 0; column < kSide; ++column) {
            w.push_back(static_cast<double>(v.a[row]) * v.b[column] *
                        v.scale);
        }
    }
    return w;
}

// --- Checks -----------------------------------------------------------------

// Is the sum of all that is there right?
// snippet: sum
static bool sumPasses(const std::vector<float> &got,
                      const std::vector<double> &want)
{
    double sumGot = 0.0;
    double sumWant = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
        sumGot += got[i];
        sumWant += want[i];
    }
    if (std::fabs(sumGot - sumWant) > kLoose * sumWant) {
        return false;
    }
    return true;
}
// end snippet

// Are the first ten right?
static bool firstPasses(const std::vector<float> &got,
                        const std::vector<double> &want)
{
    for (size_t i = 0; i < 10; ++i) {
        if (!(std::fabs(got[i] - want[i]) <= kStrict * want[i])) {
            return false;
        }
    }
    return true;
}

// Is no error above a number that looks small?
// snippet: absolute
static bool absolutePasses(const std::vector<float> &got,
                           const std::vector<double> &want)
{
    double worst = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, std::fabs(got[i] - want[i]));
    }
    return worst <= kLoose;
}
// end snippet

// Is no error above a small part of what it should be?
// snippet: relative
static bool relativePasses(const std::vector<float> &got,
                           const std::vector<double> &want)
{
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::fabs(got[i] - want[i]) > kStrict * std::fabs(want[i])) {
            return false;
        }
    }
    return true;
}
// end snippet

// Day 66's rule, for an output that is a sum of `depth` products.
static double rtolFor(size_t depth)
{
    return std::max(kTableRtol,
                    4.0 * kUlp * std::sqrt(static_cast<double>(depth)));
}

// The share of its allowance that an error uses up; above 1 is a failure. A
// NaN would lose every comparison, so what is not finite counts as infinite.
// snippet: gate
static double gateFraction(double got, double want, double rtol, double atol)
{
    if (!std::isfinite(got) || !std::isfinite(want)) {
        return HUGE_VAL;
    }
    return std::fabs(got - want) / (atol + rtol * std::fabs(want));
}

struct Verdict {
    double frac = 0.0;
    size_t looked = 0;  // elements that were judged
};

static Verdict judge(const std::vector<float> &got,
                     const std::vector<double> &want)
{
    double maxReference = 0.0;
    for (const double value : want) {
        maxReference = std::max(maxReference, std::fabs(value));
    }
    const double rtol = rtolFor(2);
    Verdict verdict;
    for (size_t i = 0; i < want.size(); ++i) {
        const double frac =
            gateFraction(got[i], want[i], rtol, rtol * maxReference);
        if (!(frac <= verdict.frac)) {
            verdict.frac = frac;
        }
        ++verdict.looked;
    }
    return verdict;
}

static bool gatePasses(const std::vector<float> &got,
                       const std::vector<double> &want)
{
    const Verdict verdict = judge(got, want);
    return verdict.looked == kCount && verdict.frac <= 1.0;
}
// end snippet

static bool passes(int check, const std::vector<float> &got,
                   const std::vector<double> &want)
{
    switch (check) {
    case kSum:
        return sumPasses(got, want);
    case kFirst:
        return firstPasses(got, want);
    case kAbsolute:
        return absolutePasses(got, want);
    case kRelative:
        return relativePasses(got, want);
    default:
        return gatePasses(got, want);
    }
}

// --- The GPU's part ---------------------------------------------------------

struct Buffers {
    float *d_a = nullptr;
    float *d_b = nullptr;
    float *d_w = nullptr;
};

// One answer. Before it the output is cleared to NaN, or is said not to be.
static std::vector<float> answerOf(int answer, bool cleared, const Vectors &v,
                                   const Buffers &b)
{
    std::vector<float> h_w(kCount, 0.0f);
    // snippet: clear
    if (cleared) {
        CUDA_CHECK(cudaMemset(b.d_w, 0xff, kBytes));  // every weight a NaN
    }
    // end snippet
    switch (answer) {
    case kRight:
        weights<<<kBlocks, kThreads>>>(b.d_a, b.d_b, v.scale, b.d_w);
        break;
    case kZeros:
        CUDA_CHECK(cudaMemset(b.d_w, 0, kBytes));
        break;
    case kMean:
        mean<<<kBlocks, kThreads>>>(b.d_w);
        break;
    case kSwapped:
        swapped<<<kBlocks, kThreads>>>(b.d_a, b.d_b, v.scale, b.d_w);
        break;
    case kShifted:
        shifted<<<kBlocks, kThreads>>>(b.d_a, b.d_b, v.scale, b.d_w);
        break;
    case kShort:
        CUDA_CHECK(cudaMemset(b.d_w, 0, kBytes));
        nearly<<<kBlocks, kThreads>>>(b.d_a, b.d_b, v.scale, b.d_w,
                                      kCount - kSide, kCount);
        break;
    case kOneOff:
        nearly<<<kBlocks, kThreads>>>(b.d_a, b.d_b, v.scale, b.d_w, kCount,
                                      kCount / 2);
        break;
    default:  // kNothing and kStale: no kernel runs
        break;
    }
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_w.data(), b.d_w, kBytes, cudaMemcpyDeviceToHost));
    return h_w;
}

// --- Kernel statistics ------------------------------------------------------

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
    printKernel("weights", reinterpret_cast<const void *>(weights), kThreads,
                device);
    printKernel("swapped", reinterpret_cast<const void *>(swapped), kThreads,
                device);
}

// --- Tables -----------------------------------------------------------------

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    const char *check = nullptr;
    const char *answer = nullptr;
    const char *input = nullptr;
};

// Which check passes which answer, 1 for passed; and per check, how many of the
// wrong ones it noticed. `fracs` are the gate's fractions.
struct Table {
    bool passed[kAnswers][kChecks] = {};
    double fracs[kAnswers] = {};
    int noticed[kChecks] = {};
};

static Table tryAll(Input input, const Buffers &b)
{
    const Vectors v = vectorsOf(input);
    const std::vector<double> want = reference(v);
    const size_t bytes = kSide * sizeof(float);
    CUDA_CHECK(cudaMemcpy(b.d_a, v.a.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b.d_b, v.b.data(), bytes, cudaMemcpyHostToDevice));
    Table table;
    for (int answer = 0; answer < kAnswers; ++answer) {
        if (answer == kStale) {
            answerOf(kRight, true, v, b);  // of an earlier, right run
        }
        const std::vector<float> got = answerOf(answer, true, v, b);
        table.fracs[answer] = judge(got, want).frac;
        for (int check = 0; check < kChecks; ++check) {
            table.passed[answer][check] = passes(check, got, want);
            table.noticed[check] +=
                answer != kRight && !table.passed[answer][check] ? 1 : 0;
        }
    }
    return table;
}

// An answer that is left from before, judged without clearing: a right one.
static bool staleNoticed(const Buffers &b)
{
    const Vectors v = vectorsOf(kGood);
    answerOf(kRight, true, v, b);
    return !gatePasses(answerOf(kStale, false, v, b), reference(v));
}

static void printTable(Input input, const Table &table)
{
    std::printf("\n%s: %s; 1 is passed, 0 is noticed\n", kInputNames[input],
                kInputAbout[input]);
    std::printf("  %-16s", "answer");
    for (const char *name : kCheckNames) {
        std::printf("  %9s", name);
    }
    std::printf("\n");
    for (int answer = 0; answer < kAnswers; ++answer) {
        std::printf("  %-16s", kAnswerNames[answer]);
        for (int check = 0; check < kChecks; ++check) {
            std::printf("  %9d", table.passed[answer][check] ? 1 : 0);
        }
        std::printf("\n");
    }
}

static void printNoticed(const Table (&tables)[kInputs])
{
    std::printf("\nnoticed: of %d wrong answers\n", kAnswers - 1);
    std::printf("  %-9s", "check");
    for (const char *name : kInputNames) {
        std::printf("  %5s", name);
    }
    std::printf("\n");
    for (int check = 0; check < kChecks; ++check) {
        std::printf("  %-9s", kCheckNames[check]);
        for (const Table &table : tables) {
            std::printf("  %5d", table.noticed[check]);
        }
        std::printf("\n");
    }
}

static void printFractions(const Table &table, double maxReference)
{
    std::printf("\nfractions: of the gate's allowance, with good inputs\n");
    std::printf("  max |reference|   %.3e\n", maxReference);
    std::printf("  gate rtol         %.3e   (max(1e-5, 4 * 2^-23 * "
                "sqrt(2)); atol = rtol * max |reference|)\n\n",
                rtolFor(2));
    std::printf("  %-16s  %10s\n", "answer", "gate frac");
    for (int answer = 0; answer < kAnswers; ++answer) {
        if (std::isfinite(table.fracs[answer])) {
            std::printf("  %-16s  %10.4f\n", kAnswerNames[answer],
                        table.fracs[answer]);
        } else {
            std::printf("  %-16s  %10s\n", kAnswerNames[answer],
                        "not finite");
        }
    }
}

// --- Gates ------------------------------------------------------------------

// What must be so: see the head of the file.
static int judgeChecks(const Table (&tables)[kInputs], bool staleSeen,
                       Failure *failure)
{
    int held = 0;
    for (int check = 0; check < kChecks; ++check) {
        for (int input = 0; input < kInputs; ++input) {
            if (tables[input].passed[kRight][check]) {
                ++held;
            } else if (failure->what == nullptr) {
                *failure = {"a right answer is rejected", kCheckNames[check],
                            kAnswerNames[kRight], kInputNames[input]};
            }
        }
        if (check != kGate && tables[kGood].noticed[check] < kAnswers - 1) {
            ++held;
        } else if (check != kGate && failure->what == nullptr) {
            *failure = {"a weak check notices everything", kCheckNames[check],
                        "any", kInputNames[kGood]};
        }
    }
    for (int answer = kRight + 1; answer < kAnswers; ++answer) {
        if (!tables[kGood].passed[answer][kGate]) {
            ++held;
        } else if (failure->what == nullptr) {
            *failure = {"a wrong answer passes", kCheckNames[kGate],
                        kAnswerNames[answer], kInputNames[kGood]};
        }
    }
    if (!staleSeen) {
        ++held;
    } else if (failure->what == nullptr) {
        *failure = {"an answer from before was not left there", "gate",
                    kAnswerNames[kStale], kInputNames[kGood]};
    }
    return held;
}

// --- Main -------------------------------------------------------------------

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);
    std::printf("  weights           %zu   (in each answer)\n", kCount);
    printKernels(device);

    Buffers b;
    CUDA_CHECK(cudaMalloc(&b.d_a, kSide * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_b, kSide * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&b.d_w, kBytes));
    Table tables[kInputs];
    for (int input = 0; input < kInputs; ++input) {
        tables[input] = tryAll(static_cast<Input>(input), b);
        printTable(static_cast<Input>(input), tables[input]);
    }
    const bool staleSeen = staleNoticed(b);
    CUDA_CHECK(cudaFree(b.d_a));
    CUDA_CHECK(cudaFree(b.d_b));
    CUDA_CHECK(cudaFree(b.d_w));

    const std::vector<double> want = reference(vectorsOf(kGood));
    printNoticed(tables);
    printFractions(tables[kGood], *std::max_element(want.begin(), want.end()));
    std::printf("\nstale: a right answer of an earlier run, and no kernel\n");
    std::printf("  cleared before    %d   (1 is passed by the gate)\n",
                tables[kGood].passed[kStale][kGate] ? 1 : 0);
    std::printf("  not cleared       %d\n", staleSeen ? 0 : 1);

    Failure failure;
    const int held = judgeChecks(tables, staleSeen, &failure);
    if (failure.what != nullptr) {
        std::fprintf(stderr, "%s: check %s, answer %s, inputs %s\n",
                     failure.what, failure.check, failure.answer,
                     failure.input);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", held);
    return EXIT_SUCCESS;
}
