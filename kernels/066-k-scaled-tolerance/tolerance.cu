// SPDX-License-Identifier: MIT
//
// Day 66: the K-scaled tolerance. The gate of every program here allows an
// error of atol + rtol * |reference| with
//
//   rtol = max(1e-5, 4 * 2^-23 * sqrt(K)),   atol = rtol * max |reference|
//
// where K is the number of terms that one output sums up. This file tries the
// rule out: dot products of K pairs in FP32, K from 10 to a million, right and
// wrong ones. A good rule accepts the right and rejects the wrong.
//
// Right are serial (one accumulator) and split (256 accumulators and a tree,
// day 25). Each is judged by the rule, by rtol = 1e-5 at every K ("fixed"), by
// the rule without atol, and by the theorem of day 62: K roundings are off by
// at most K u times the sum of the absolute values, u = 2^-24.
//
// Wrong, all in split's order, are
//
//   lost        the last term is missing
//   tile        the last 32 terms are missing
//   neighbour   every x meets the y of the next pair
//   TF32        both inputs keep 10 mantissa bits of 23
//   half        the accumulators are rounded to FP16 after each addition
//
// Inputs: mixed (between -0.5 and 0.5), positive (between 0 and 1), alike (all
// pairs of a row the same; only for the right ones) and whole, numbers from 1
// to 9 with either sign. Sums of those are so small that FP32 holds them, so
// the right answer is equal and no tolerance is needed. Inputs are computed
// from their place, not read: nothing here is about memory or time. The
// reference is in double precision on the CPU.
//
// Written down before the run: mixed and positive pass the rule at every K with
// less than a fifth of it, and "fixed" rejects them at a million; the rule
// rejects alike, serial (day 62). Each wrong answer is noticed at small K; lost
// and TF32 get through at large K, sooner with positive inputs. The whole
// numbers notice what is missing or swapped at every K, and TF32 never.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o tolerance tolerance.cu
// Run: ./tolerance

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_fp16.h>
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

constexpr unsigned int kRows = 32;      // outputs: a warp of them
constexpr unsigned int kThreads = 256;  // accumulators of split, per output
constexpr unsigned int kTile = 32;      // terms that go missing together

static_assert((kThreads & (kThreads - 1)) == 0, "the tree halves the block");

// --- Cases ------------------------------------------------------------------

constexpr unsigned int kLengths[] = {10,   30,    100,   300,    1000,
                                     3000, 10000, 30000, 100000, 300000,
                                     1000000};
constexpr unsigned int kMost = 1000000;
constexpr unsigned int kQuickMost = 3000;
constexpr unsigned int kTf32Seen = 10000;  // so far the rule must notice TF32

enum Kind { kMixed, kPositive, kAlike, kWhole, kKinds };
constexpr const char *kKindNames[kKinds] = {"mixed", "positive", "alike",
                                            "whole"};

enum Answer { kRight, kLost, kLostTile, kNeighbour, kTf32, kHalf, kAnswers };
constexpr const char *kAnswerNames[kAnswers] = {
    "right", "lost", "tile", "neighbour", "TF32", "half"};

// --- Tolerance --------------------------------------------------------------

constexpr double kTableRtol = 1e-5;        // day 66's table, FP32
constexpr double kUlp = 1.0 / (1 << 23);   // FP32 has 23 mantissa bits
constexpr double kUnit = kUlp / 2.0;       // u: the most that a rounding is off

// The table. With fewer bits, 4 * 2^-bits is above any floor worth having.
struct Format {
    const char *name;
    int bits;      // mantissa bits of the accumulator, the leading 1 aside
    double floor;  // least rtol; 0 for none
};
constexpr Format kFormats[] = {
    {"FP32", 23, kTableRtol}, {"FP16", 10, 0.0}, {"BF16", 7, 0.0}};

// --- Inputs -----------------------------------------------------------------

// Scatters the bits of a number over all of it; no two numbers meet.
__host__ __device__ inline unsigned int scattered(unsigned int value)
{
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

// Term k's x (salt 1) or y (salt 2) of a row. All are exact in FP32.
__host__ __device__ inline float numberAt(Kind kind, unsigned int k,
                                          unsigned int row, unsigned int salt)
{
    if (kind == kAlike) {
        return static_cast<float>(5033165 * salt + 1009 * row) / 16777216.0f;
    }
    const unsigned int place = (k * kRows + row) * 2u + salt;
    const unsigned int value = scattered(place * 2654435769u + 1u) >> 8;
    if (kind == kWhole) {
        const int size = static_cast<int>(value % 9u) + 1;
        return static_cast<float>(value >> 23 == 0 ? size : -size);
    }
    const int zero = kind == kMixed ? 1 << 23 : 0;
    return static_cast<float>(static_cast<int>(value) - zero) / 16777216.0f;
}

// --- Kernels ----------------------------------------------------------------

// Lane r computes output r with one accumulator.
// Memory: a warp writes 32 neighbouring floats.
// Launch assumption: one block of kRows threads.
__global__ void serialDot(Kind kind, unsigned int k, float *__restrict__ out)
{
    const unsigned int row = threadIdx.x;
    // snippet: serial
    float total = 0.0f;
    #pragma unroll 8
    for (unsigned int i = 0; i < k; ++i) {
        total = fmaf(numberAt(kind, i, row, 1), numberAt(kind, i, row, 2),
                     total);
    }
    // end snippet
    out[row] = total;
}

// Ten mantissa bits of 23: what a tensor core reads of a float.
__device__ float tf32Of(float value)
{
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & ~0x1fffu);
}

// Block r computes output r, right or in one of the wrong ways.
// Memory: shared memory is read and written by neighbouring lanes.
// Launch assumption: kThreads threads, kRows blocks.
__global__ void splitDot(Kind kind, Answer answer, unsigned int k,
                         float *__restrict__ out)
{
    __shared__ float part[kThreads];
    const unsigned int tid = threadIdx.x;
    const unsigned int row = blockIdx.x;
    // snippet: wrong
    const unsigned int lost = answer == kLost       ? 1
                              : answer == kLostTile ? min(k, kTile)
                                                    : 0;
    const unsigned int shift = answer == kNeighbour ? 1 : 0;
    float total = 0.0f;
    for (unsigned int i = tid; i < k - lost; i += kThreads) {
        float x = numberAt(kind, i, row, 1);
        float y = numberAt(kind, i + shift, row, 2);
        if (answer == kTf32) {
            x = tf32Of(x);
            y = tf32Of(y);
        }
        total = fmaf(x, y, total);
        if (answer == kHalf) {
            total = __half2float(__float2half_rn(total));
        }
    }
    // end snippet
    part[tid] = total;
    for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();  // the level above is there
        if (tid < half) {
            total = part[tid] + part[tid + half];
            part[tid] = answer == kHalf
                            ? __half2float(__float2half_rn(total))
                            : total;
        }
    }
    if (tid == 0) {
        out[row] = part[0];
    }
}

// --- CPU reference ----------------------------------------------------------

// The outputs for one K, and the sums of their terms' absolute values.
struct Reference {
    std::vector<double> value = std::vector<double>(kRows, 0.0);
    std::vector<double> absolute = std::vector<double>(kRows, 0.0);
    double most = 0.0;  // max |value|
};

// One reference for each length up to `longest`, in one walk over the terms.
static std::vector<Reference> referencesOf(Kind kind, unsigned int longest)
{
    std::vector<Reference> references;
    Reference now;
    unsigned int k = 0;
    for (const unsigned int length : kLengths) {
        if (length > longest) {
            break;
        }
        for (; k < length; ++k) {
            for (unsigned int row = 0; row < kRows; ++row) {
                const double product =
                    static_cast<double>(numberAt(kind, k, row, 1)) *
                    static_cast<double>(numberAt(kind, k, row, 2));
                now.value[row] += product;
                now.absolute[row] += std::fabs(product);
            }
        }
        now.most = 0.0;
        for (const double value : now.value) {
            now.most = std::max(now.most, std::fabs(value));
        }
        references.push_back(now);
    }
    return references;
}

// --- Tolerance and error metrics --------------------------------------------

// snippet: rule
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

// The same rule for any accumulator.
static double rtolOf(const Format &format, double depth)
{
    return std::max(format.floor,
                    4.0 * std::ldexp(1.0, -format.bits) * std::sqrt(depth));
}

struct Verdict {
    double rule = 0.0;    // worst fractions of the allowance: the rule's,
    double fixed = 0.0;   // that of rtol = 1e-5 at every K,
    double noAtol = 0.0;  // the rule's without atol,
    double bound = 0.0;   // and day 62's bound
    double zeros = 0.0;   // the rule's fraction of an answer of zeros
    unsigned int unequal = 0;  // rows that are not equal to the reference
    unsigned int looked = 0;   // rows that were judged
};

static Verdict judge(const std::vector<float> &got, const Reference &want,
                     unsigned int k)
{
    const double rtol = rtolFor(k);
    Verdict v;
    for (unsigned int row = 0; row < kRows; ++row) {
        const double is = static_cast<double>(got[row]);
        const double due = want.value[row];
        const double units = k * kUnit / (1.0 - k * kUnit);
        v.rule = std::max(v.rule,
                          gateFraction(is, due, rtol, rtol * want.most));
        v.fixed = std::max(v.fixed, gateFraction(is, due, kTableRtol,
                                                 kTableRtol * want.most));
        v.noAtol = std::max(v.noAtol, gateFraction(is, due, rtol, 0.0));
        v.bound = std::max(v.bound, gateFraction(is, due, 0.0,
                                                 units * want.absolute[row]));
        v.zeros = std::max(v.zeros,
                           gateFraction(0.0, due, rtol, rtol * want.most));
        v.unequal += is == due ? 0 : 1;
        ++v.looked;
    }
    return v;
}

// What went wrong first; reported after everything has been cleaned up.
struct Failure {
    const char *what = nullptr;
    Kind kind = kMixed;
    Answer answer = kRight;
    unsigned int k = 0;
    Verdict verdict;
};

struct Tally {
    int passed = 0;
    Failure failure;
};

static void expect(bool held, const char *what, Kind kind, Answer answer,
                   unsigned int k, const Verdict &verdict, Tally *tally)
{
    if (held && verdict.looked == kRows) {
        ++tally->passed;
    } else if (tally->failure.what == nullptr) {
        tally->failure = {what, kind, answer, k, verdict};
    }
}

// --- The GPU's part ---------------------------------------------------------

static std::vector<float> fetch(const float *d_out)
{
    std::vector<float> h_out(kRows);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kRows * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return h_out;
}

static std::vector<float> serialOnGpu(Kind kind, unsigned int k, float *d_out)
{
    CUDA_CHECK(cudaMemset(d_out, 0xff, kRows * sizeof(float)));  // NaN
    serialDot<<<1, kRows>>>(kind, k, d_out);
    return fetch(d_out);
}

static std::vector<float> splitOnGpu(Kind kind, Answer answer, unsigned int k,
                                     float *d_out)
{
    CUDA_CHECK(cudaMemset(d_out, 0xff, kRows * sizeof(float)));  // NaN
    splitDot<<<kRows, kThreads>>>(kind, answer, k, d_out);
    return fetch(d_out);
}

// --- Tables -----------------------------------------------------------------

static void printRule()
{
    std::printf("\nrule: rtol = max(floor, 4 * 2^-bits * sqrt(K))\n");
    std::printf("  %-11s  %4s  %9s  %9s  %9s  %11s  %12s\n", "accumulator",
                "bits", "floor", "K = 1", "K = 1000", "K = 1000000",
                "zeros pass at");
    for (const Format &format : kFormats) {
        char floor[16] = "none";
        if (format.floor > 0.0) {
            std::snprintf(floor, sizeof(floor), "%.1e", format.floor);
        }
        // Zeros are off by max |reference|, and 2 rtol of it are allowed.
        const double root = std::ldexp(1.0, format.bits) / 8.0;
        std::printf("  %-11s  %4d  %9s  %9.2e  %9.2e  %11.2e  %12.0f\n",
                    format.name, format.bits, floor, rtolOf(format, 1.0),
                    rtolOf(format, 1e3), rtolOf(format, 1e6), root * root);
    }
    std::printf("\n  floor decides up to K   %.0f   (FP32)\n",
                std::floor(std::pow(kTableRtol / (4.0 * kUlp), 2.0)));
}

// Both right answers of a kind, at every K.
static void runRight(Kind kind, const std::vector<Reference> &references,
                     float *d_out, Tally *tally)
{
    for (const bool serial : {true, false}) {
        std::printf("\nright %s %s: worst shares of the allowance, of %u "
                    "outputs\n",
                    kKindNames[kind], serial ? "serial" : "split", kRows);
        std::printf("  %-11s  %8s  %8s  %8s  %8s  %9s\n", "K", "rule",
                    "fixed", "no atol", "bound", "zeros");
        for (size_t i = 0; i < references.size(); ++i) {
            const unsigned int k = kLengths[i];
            const Verdict v = judge(serial ? serialOnGpu(kind, k, d_out)
                                           : splitOnGpu(kind, kRight, k,
                                                        d_out),
                                    references[i], k);
            std::printf("  K = %-7u  %8.4f  %8.4f  %8.4f  %8.4f  %9.0f\n", k,
                        v.rule, v.fixed, v.noAtol, v.bound, v.zeros);
            const bool walks = !(kind == kAlike && serial);  // day 62
            expect(v.bound <= 1.0, "is beyond the bound", kind, kRight, k, v,
                   tally);
            expect(!walks || v.rule <= 1.0, "is beyond the rule", kind,
                   kRight, k, v, tally);
            expect(v.zeros > 1.0, "leaves room for zeros", kind, kRight, k, v,
                   tally);
        }
    }
}

// The wrong answers of a kind; the first K that gets through goes to `blind`.
static void runWrong(Kind kind, const std::vector<Reference> &references,
                     float *d_out, unsigned int (&blind)[kAnswers],
                     Tally *tally)
{
    const bool whole = kind == kWhole;
    std::printf(whole ? "\nwrong %s: outputs that are not equal, of %u\n"
                      : "\nwrong %s: worst shares of the rule's allowance, of "
                        "%u outputs\n",
                kKindNames[kind], kRows);
    std::printf("  %-11s", "K");
    for (int answer = whole ? kRight : kLost; answer < kAnswers; ++answer) {
        std::printf("  %10s", kAnswerNames[answer]);
    }
    std::printf("\n");
    for (size_t i = 0; i < references.size(); ++i) {
        const unsigned int k = kLengths[i];
        std::printf("  K = %-7u", k);
        for (int a = whole ? kRight : kLost; a < kAnswers; ++a) {
            const Answer answer = static_cast<Answer>(a);
            const Verdict v =
                judge(splitOnGpu(kind, answer, k, d_out), references[i], k);
            const bool noticed = whole ? v.unequal > 0 : v.rule > 1.0;
            if (!noticed && blind[a] == 0) {
                blind[a] = k;
            }
            if (whole) {
                std::printf("  %10u", v.unequal);
            } else if (std::isfinite(v.rule)) {
                std::printf("  %10.4g", v.rule);
            } else {
                std::printf("  %10s", "not finite");
            }
            if (whole && answer == kRight) {
                expect(!noticed, "is not equal", kind, answer, k, v, tally);
            } else if (whole && answer <= kNeighbour) {
                expect(noticed, "is equal", kind, answer, k, v, tally);
            } else if (kind == kMixed && (answer == kHalf || k <= kTf32Seen)) {
                expect(noticed, "is within the rule", kind, answer, k, v,
                       tally);
            }
        }
        std::printf("\n");
    }
}

static void printBlind(const unsigned int (&blind)[kKinds][kAnswers])
{
    std::printf("\nunnoticed: the least K tried that gets through\n");
    std::printf("  %-9s  %9s  %9s  %9s\n", "answer", "mixed", "positive",
                "whole");
    for (int answer = kLost; answer < kAnswers; ++answer) {
        std::printf("  %-9s", kAnswerNames[answer]);
        for (const Kind kind : {kMixed, kPositive, kWhole}) {
            if (blind[kind][answer] != 0) {
                std::printf("  %9u", blind[kind][answer]);
            } else {
                std::printf("  %9s", "none");
            }
        }
        std::printf("\n");
    }
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: tolerance [--quick]\n"
                             "  --quick  up to K = 3000\n");
        return 2;
    }

    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  outputs   %u   (for each K)\n", kRows);
    printRule();

    const unsigned int longest = quick ? kQuickMost : kMost;
    float *d_out = nullptr;
    unsigned int blind[kKinds][kAnswers] = {};
    Tally tally;
    CUDA_CHECK(cudaMalloc(&d_out, kRows * sizeof(float)));
    for (const Kind kind : {kMixed, kPositive, kAlike, kWhole}) {
        const std::vector<Reference> references = referencesOf(kind, longest);
        if (kind != kWhole) {
            runRight(kind, references, d_out, &tally);
        }
        if (kind != kAlike) {
            runWrong(kind, references, d_out, blind[kind], &tally);
        }
    }
    CUDA_CHECK(cudaFree(d_out));
    printBlind(blind);

    const Failure &failure = tally.failure;
    if (failure.what != nullptr) {
        std::fprintf(stderr,
                     "%s, K = %u: the answer %s %s: rule %.4g, bound %.4g, %u "
                     "of %u unequal\n",
                     kKindNames[failure.kind], failure.k,
                     kAnswerNames[failure.answer], failure.what,
                     failure.verdict.rule, failure.verdict.bound,
                     failure.verdict.unequal, failure.verdict.looked);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", tally.passed);
    return EXIT_SUCCESS;
}
