// SPDX-License-Identifier: MIT
//
// Day 40, a solution of the exercise: each load's address is what the one
// before it brought.
//
// The links are a chain that visits every line of the working set once. `at`
// has to be the place where the walk ended; the CPU walks the same chain, and
// the program fails if the GPU ended elsewhere, or if a second lap took as long
// as the first.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu
// Run: ./solution

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>
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

constexpr unsigned int kWords = 32;   // of a line of 128 bytes
constexpr unsigned int kLines = 999;  // a working set that fits into any L1
constexpr unsigned int kStart = 0;
constexpr unsigned int kSteps[2] = {kLines, 777};  // the second stops midway

struct Walk {
    long long cycles[2];
    unsigned int end[2];
};

// Walks twice, and writes down how long each took and where it ended.
// Launch assumption: one thread.
__global__ void walkTwice(const unsigned int *__restrict__ links,
                          unsigned int first, unsigned int second,
                          Walk *__restrict__ walk)
{
    unsigned int at = kStart * kWords;
    for (unsigned int lap = 0; lap < 2; ++lap) {
        const unsigned int steps = lap == 0 ? first : second;
        const long long begin = clock64();
        // snippet: exercise
        for (unsigned int s = 0; s < steps; ++s) {
            at = links[at];
        }
        // end snippet
        walk->end[lap] = at;  // waits for the last load
        __threadfence();
        walk->cycles[lap] = clock64() - begin;
    }
}

int main()
{
    // Sattolo's shuffle: one single cycle over all lines.
    std::vector<unsigned int> next(kLines);
    for (unsigned int i = 0; i < kLines; ++i) {
        next[i] = i;
    }
    unsigned long long state = 88172645463325252ull;
    for (unsigned int i = kLines - 1; i > 0; --i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::swap(next[i], next[state % i]);
    }
    std::vector<unsigned int> h_links(size_t{kLines} * kWords, 0);
    for (unsigned int i = 0; i < kLines; ++i) {
        h_links[size_t{i} * kWords] = next[i] * kWords;
    }

    unsigned int *d_links = nullptr;
    Walk *d_walk = nullptr;
    Walk walk = {};
    const size_t bytes = h_links.size() * sizeof(h_links[0]);
    CUDA_CHECK(cudaMalloc(&d_links, bytes));
    CUDA_CHECK(cudaMalloc(&d_walk, sizeof(walk)));
    CUDA_CHECK(cudaMemcpy(d_links, h_links.data(), bytes,
                          cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_walk, 0xff, sizeof(walk)));
    walkTwice<<<1, 1>>>(d_links, kSteps[0], kSteps[1], d_walk);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&walk, d_walk, sizeof(walk),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(d_links));
    CUDA_CHECK(cudaFree(d_walk));

    bool right = true;
    unsigned int at = kStart;
    std::printf("walks: one thread over one chain\n");
    std::printf("  %-6s  %5s  %13s  %9s  %11s\n", "lap", "steps",
                "load (cycles)", "ended at", "CPU ends at");
    for (int lap = 0; lap < 2; ++lap) {
        for (unsigned int s = 0; s < kSteps[lap]; ++s) {
            at = next[at];
        }
        std::printf("  lap %-2d  %5u  %13.1f  %9u  %11u\n", lap + 1,
                    kSteps[lap],
                    static_cast<double>(walk.cycles[lap]) / kSteps[lap],
                    walk.end[lap], at * kWords);
        right = right && walk.end[lap] == at * kWords &&
                walk.cycles[lap] > 0;
    }
    const double cold = static_cast<double>(walk.cycles[0]) / kSteps[0];
    const double warm = static_cast<double>(walk.cycles[1]) / kSteps[1];
    if (!right || !(warm < cold)) {
        std::fprintf(stderr, "%s\n",
                     right ? "the second lap was not the faster one"
                           : "the walk did not end where the chain leads");
        return EXIT_FAILURE;
    }
    std::printf("\nboth laps ended where the chain leads\n");
    return EXIT_SUCCESS;
}
