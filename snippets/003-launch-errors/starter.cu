// SPDX-License-Identifier: MIT
//
// Day 3, exercise: a launch that says what became of it. To be finished by you.
//
// launchFill launches one kernel and reports three errors: one that was there
// before and has nothing to do with it, one of the launch, and one of the
// kernel. It leaves none behind for the next who asks. Change only that.
//
// Seven launches judge it: two good ones, one of them after a refused launch
// about which nobody asked; four that are refused; and one whose threads write
// far behind their array, which comes last, because nothing works after it.
// Which numbers the errors have is printed, and not judged.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o starter starter.cu
// Run: ./starter

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

constexpr unsigned int kThreads = 256;
constexpr size_t kFarAway = size_t{1} << 34;  // elements: 64 GiB further on
constexpr size_t kBytes = kThreads * sizeof(float);

// out[first + i] = i for one block.
// Launch assumption: one block; out has first + blockDim.x elements.
__global__ void fill(float *out, size_t first)
{
    out[first + threadIdx.x] = static_cast<float>(threadIdx.x);
}

struct Shape {
    dim3 grid;
    dim3 block;
    size_t shared;
};

struct Report {
    cudaError_t before = cudaSuccess;  // an error that somebody else left
    cudaError_t launch = cudaSuccess;  // why this launch was refused
    cudaError_t kernel = cudaSuccess;  // what went wrong while it ran
};

// snippet: exercise
static Report launchFill(const Shape &shape, float *d_out, size_t first)
{
    Report report;  // yours: ask at the right time, and in the right order
    fill<<<shape.grid, shape.block, shape.shared>>>(d_out, first);
    report.kernel = cudaDeviceSynchronize();
    report.launch = cudaGetLastError();
    return report;
}
// end snippet

struct Launch {
    const char *name;
    Shape shape;
    size_t first;
    bool leftBehind;  // a refused launch comes before, and nobody asks
    bool refused;
    bool fails;  // while it runs
};

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    const unsigned int threads =
        static_cast<unsigned int>(device.maxThreadsPerBlock);
    const unsigned int depth =
        static_cast<unsigned int>(device.maxThreadsDim[2]);
    const size_t shared = device.sharedMemPerBlock;
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::printf("  threads in a block   %u\n", threads);
    std::printf("  threads in z         %u\n", depth);

    const Shape good = {dim3(1), dim3(kThreads), 0};
    const Launch launches[] = {
        {"good", good, 0, false, false, false},
        {"too many threads", {dim3(1), dim3(threads + 1), 0}, 0, false, true,
         false},
        {"no blocks", {dim3(0), dim3(kThreads), 0}, 0, false, true, false},
        {"too deep a block", {dim3(1), dim3(1, 1, depth + 1), 0}, 0, false,
         true, false},
        {"too much shared", {dim3(1), dim3(kThreads), shared + 1}, 0, false,
         true, false},
        {"good after a bad", good, 0, true, false, false},
        {"out of bounds", good, kFarAway, false, false, true},
    };

    float *d_out = nullptr;
    CUDA_CHECK(cudaMalloc(&d_out, kBytes));
    std::printf("\nreports: error numbers, 0 is no error\n");
    std::printf("  %-16s  %6s  %9s  %9s  %4s  %5s\n", "launch", "before",
                "at launch", "in kernel", "left", "right");
    int passed = 0;
    int failed = 0;
    const char *firstFailed = nullptr;
    for (const Launch &l : launches) {
        const bool runs = !l.refused && !l.fails;
        std::vector<float> h_out(kThreads, NAN);
        CUDA_CHECK(cudaMemset(d_out, 0xff, kBytes));
        if (l.leftBehind) {
            fill<<<1, threads + 1>>>(d_out, 0);
        }
        const Report report = launchFill(l.shape, d_out, l.first);
        const cudaError_t left = cudaGetLastError();
        size_t right = 0;
        if (!l.fails) {
            CUDA_CHECK(cudaMemcpy(h_out.data(), d_out, kBytes,
                                  cudaMemcpyDeviceToHost));
        }
        for (unsigned int i = 0; i < kThreads; ++i) {
            right += h_out[i] == static_cast<float>(i) ? 1 : 0;
        }
        std::printf("  %-16s  %6d  %9d  %9d  %4d  %5zu\n", l.name,
                    report.before, report.launch, report.kernel, left, right);
        // What failed while it ran stays, so nobody can take it away.
        const bool ok = (report.before != cudaSuccess) == l.leftBehind &&
                        (report.launch != cudaSuccess) == l.refused &&
                        (report.kernel != cudaSuccess) == l.fails &&
                        (left == cudaSuccess || l.fails) &&
                        right == (runs ? kThreads : 0);
        if (ok) {
            ++passed;
        } else if (failed++ == 0) {
            firstFailed = l.name;
        }
    }
    // No memory is given back: after the last launch no call works any more.
    if (failed != 0) {
        std::fprintf(stderr, "%d of %d launches are not reported right, "
                             "first \"%s\"\n",
                     failed, failed + passed, firstFailed);
        return EXIT_FAILURE;
    }
    std::printf("\nall %d cases passed their gates\n", passed);
    return EXIT_SUCCESS;
}
