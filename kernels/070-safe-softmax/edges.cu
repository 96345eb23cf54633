// SPDX-License-Identifier: MIT
//
// Day 70: the edges of exp. For which of the 2^32 floats does expf overflow,
// lose bits (a denormal result) or give 0? A GPU can try them all.
//
// The edges are held against exact ones, found by bisection with the CPU's exp
// in double precision: the first argument whose exp rounds to infinity, lies
// below 2^-126, or rounds to 0. expf may be off by a unit or two in the last
// place, and next to an edge neighbouring arguments differ by more than that,
// so its edges may be off by two floats at most. The count is also a check that
// there is no other edge: what is infinite is everything beyond the first.
//
// Written down before the run: 88.7, -87.3 and -104; about half of all floats
// have an exp that is close to 1, because they are close to 0.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o edges edges.cu
// Run: ./edges

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

constexpr unsigned int kThreads = 256;
constexpr unsigned int kBlocksPerProcessor = 8;
constexpr unsigned long long kFloats = 1ull << 32;
constexpr unsigned int kAround = 1000;  // floats on each side, under --quick
constexpr unsigned int kInfinityBits = 0x7f800000u;
constexpr unsigned int kNone = ~0u;  // above the bits of all magnitudes
constexpr long long kMostOff = 2;    // floats between expf's edge and the exact

// --- Kernel -----------------------------------------------------------------

enum Class { kNan, kInfinite, kNormal, kDenormal, kZero, kClasses };
constexpr const char *kNames[kClasses] = {"not a number", "infinite", "normal",
                                          "denormal", "zero"};

// How many floats expf sends where; and for each class the least bits, without
// the sign, of an argument that lands there.
struct Census {
    unsigned long long count[kClasses] = {};
    unsigned int least[kClasses] = {kNone, kNone, kNone, kNone, kNone};
};

// The floats whose bits are first .. first + count - 1.
// Memory: ten atomics per thread, in the end.
// Launch assumption: any.
// snippet: census
__global__ void countExp(unsigned long long first, unsigned long long count,
                         Census *census)
{
    unsigned long long found[kClasses] = {};
    unsigned int least[kClasses] = {kNone, kNone, kNone, kNone, kNone};
    const unsigned long long step =
        static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const unsigned int bits = static_cast<unsigned int>(first + i);
        const float e = expf(__uint_as_float(bits));
        const int where = isnan(e)         ? kNan
                          : isinf(e)       ? kInfinite
                          : e >= 0x1p-126f ? kNormal
                          : e > 0.0f       ? kDenormal
                                           : kZero;
        #pragma unroll
        for (int c = 0; c < kClasses; ++c) {
            if (c == where) {
                ++found[c];
                least[c] = min(least[c], bits & 0x7fffffffu);
            }
        }
    }
    #pragma unroll
    for (int c = 0; c < kClasses; ++c) {
        atomicAdd(&census->count[c], found[c]);
        atomicMin(&census->least[c], least[c]);
    }
}
// end snippet

// --- CPU reference ----------------------------------------------------------

static float floatOf(unsigned int bits)
{
    float value = 0.0f;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// Does exp of the magnitude x, or of -x, round to the class in FP32?
static bool rounds(double x, Class to)
{
    const double below = 1.0 - std::ldexp(1.0, -25);  // half a place below 1
    switch (to) {
    case kInfinite:
        return std::exp(x) >= std::ldexp(below, 128);
    case kDenormal:
        return std::exp(-x) < std::ldexp(below, -126);
    default:
        return std::exp(-x) <= std::ldexp(1.0, -150);
    }
}

// The least bits of a magnitude that does; bits grow with the magnitude.
static unsigned int exactEdge(Class to)
{
    unsigned int before = 0;
    unsigned int edge = kInfinityBits;
    while (edge - before > 1) {
        const unsigned int middle = before + (edge - before) / 2;
        (rounds(static_cast<double>(floatOf(middle)), to) ? edge : before) =
            middle;
    }
    return edge;
}

// --- Main -------------------------------------------------------------------

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc != 1 && !quick) {
        std::fprintf(stderr, "usage: edges [--quick]\n"
                             "  --quick  only the floats around the edges\n");
        return 2;
    }
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  multiprocessors   %d\n", device.multiProcessorCount);

    const Class edges[] = {kInfinite, kDenormal, kZero};
    const unsigned int blocks =
        kBlocksPerProcessor *
        static_cast<unsigned int>(device.multiProcessorCount);
    Census census;
    Census *d_census = nullptr;
    CUDA_CHECK(cudaMalloc(&d_census, sizeof(census)));
    CUDA_CHECK(cudaMemcpy(d_census, &census, sizeof(census),
                          cudaMemcpyHostToDevice));
    unsigned long long looked = 0;
    if (quick) {
        for (const Class edge : edges) {
            const unsigned int sign = edge == kInfinite ? 0 : 0x80000000u;
            countExp<<<blocks, kThreads>>>(sign + exactEdge(edge) - kAround,
                                           2 * kAround, d_census);
            CUDA_CHECK(cudaGetLastError());
            looked += 2 * kAround;
        }
    } else {
        countExp<<<blocks, kThreads>>>(0, kFloats, d_census);
        CUDA_CHECK(cudaGetLastError());
        looked = kFloats;
    }
    CUDA_CHECK(cudaMemcpy(&census, d_census, sizeof(census),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_census));

    unsigned long long sum = 0;
    std::printf("\nexp: where expf sends each float\n");
    std::printf("  floats          %llu\n", looked);
    for (int c = 0; c < kClasses; ++c) {
        std::printf("  %-12s    %llu\n", kNames[c], census.count[c]);
        sum += census.count[c];
    }
    bool held = looked > 0 && sum == looked;
    std::printf("\nedges: the argument nearest to 0 that gives it\n");
    std::printf("  %-9s  %13s  %13s  %10s\n", "result", "expf", "exact",
                "floats off");
    for (const Class edge : edges) {
        const float sign = edge == kInfinite ? 1.0f : -1.0f;
        const unsigned int exact = exactEdge(edge);
        const long long off = static_cast<long long>(census.least[edge]) -
                              static_cast<long long>(exact);
        std::printf("  %-9s  %13.7f  %13.7f  %10lld\n", kNames[edge],
                    static_cast<double>(sign * floatOf(census.least[edge])),
                    static_cast<double>(sign * floatOf(exact)), off);
        held = held && off >= -kMostOff && off <= kMostOff;
    }
    if (!quick) {  // nothing beyond an edge comes back
        held = held &&
               census.count[kInfinite] ==
                   kInfinityBits - census.least[kInfinite] + 1 &&
               census.count[kZero] == kInfinityBits - census.least[kZero] + 1 &&
               census.count[kDenormal] ==
                   census.least[kZero] - census.least[kDenormal];
    }
    if (!held) {
        std::fprintf(stderr, "an edge of expf is not where it should be, or "
                             "%llu of %llu floats were not counted once\n",
                     looked - sum, looked);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", quick ? 4 : 7);
    return EXIT_SUCCESS;
}
