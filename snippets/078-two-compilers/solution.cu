// SPDX-License-Identifier: MIT
//
// Day 78, exercise: two strings for two compilers. This program does with them
// what load_inline does. The C++ string becomes main.cpp, with a binding for
// `decay` behind it, and g++ compiles it; the CUDA string becomes cuda.cu, and
// nvcc compiles it; both are linked into a library, which is loaded and called.
// Row r of y, on the host, is then to be a recurrence of 24 whole numbers,
//
//   y[r][j] = gate[r][j] * y[r][j - 1] + x[r][j]
//
// which FP32 computes without rounding. As it stands, the two strings are one
// program that was cut in the wrong place.
//
// Build: nvcc -O3 -std=c++17 -Xcompiler=-Wall,-Wextra,-Wshadow -arch=native -o solution solution.cu -ldl
// Run: ./solution

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>

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

constexpr int kRows = 1000;  // no multiple of a block's threads
constexpr size_t kDim = 24;
constexpr size_t kCount = kRows * kDim;
constexpr float kUnwritten = -12345.0f;  // an answer that no row has

// snippet: exercise
static const char *const kCpp = R"(
int decay(const float *gate, const float *x, float *y, int rows);
)";

static const char *const kCuda = R"(
#define DIM 24
#define THREADS 128

__global__ void rowDecay(const float *gate, const float *x, float *y, int rows)
{
    const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    float last = 0.0f;
    for (int j = 0; r < rows && j < DIM; ++j) {
        last = fmaf(gate[r * DIM + j], last, x[r * DIM + j]);
        y[r * DIM + j] = last;
    }
}

int decay(const float *gate, const float *x, float *y, int rows)
{
    rowDecay<<<(rows + THREADS - 1) / THREADS, THREADS>>>(gate, x, y, rows);
    const cudaError_t atLaunch = cudaGetLastError();
    return atLaunch != cudaSuccess ? atLaunch : cudaDeviceSynchronize();
}
)";
// end snippet

using Decay = int (*)(const float *, const float *, float *, int);

// Runs a compiler in a folder; what it says goes to stderr.
static bool succeeds(const std::string &folder, const std::string &command)
{
    const std::string all = "cd " + folder + " && LC_ALL=C " + command;
    return std::system(all.c_str()) == 0;
}

// Compiles the halves apart and links them. Returns what failed, or nullptr.
static const char *build(const std::string &folder)
{
    std::ofstream(folder + "/main.cpp")
        << kCpp << "extern \"C\" {\nvoid *bound_decay = (void *)&decay;\n}\n";
    std::ofstream(folder + "/cuda.cu") << kCuda;
    if (!succeeds(folder, "g++ -O3 -fPIC -c main.cpp -o main.o")) {
        return "g++ does not accept main.cpp";
    }
    if (!succeeds(folder, "nvcc -O3 -arch=native -Xcompiler=-fPIC -c cuda.cu "
                          "-o cuda.o")) {
        return "nvcc does not accept cuda.cu";
    }
    if (!succeeds(folder, "nvcc -shared main.o cuda.o -o library.so")) {
        return "the halves cannot be linked";
    }
    return nullptr;
}

// Returns the function that is bound in the library, or nullptr.
static Decay load(const std::string &folder)
{
    void *library = dlopen((folder + "/library.so").c_str(), RTLD_NOW);
    if (library == nullptr) {
        return nullptr;
    }
    void **bound = static_cast<void **>(dlsym(library, "bound_decay"));
    return bound == nullptr ? nullptr : reinterpret_cast<Decay>(*bound);
}

int main()
{
    cudaDeviceProp device = {};
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    std::printf("GPU: %s (compute capability %d.%d)\n", device.name,
                device.major, device.minor);
    std::fflush(stdout);

    char folder[] = "/tmp/two-compilers-XXXXXX";
    if (mkdtemp(folder) == nullptr) {
        std::fprintf(stderr, "cannot make a folder\n");
        return EXIT_FAILURE;
    }
    const char *failed = build(folder);
    const Decay decay = failed == nullptr ? load(folder) : nullptr;
    std::filesystem::remove_all(folder);
    if (decay == nullptr) {
        std::fprintf(stderr, "%s\n", failed != nullptr
                                         ? failed
                                         : "the library cannot be loaded");
        return EXIT_FAILURE;
    }

    float *in[2] = {};  // gate and x, in memory that host and device share
    float *y = nullptr;
    CUDA_CHECK(cudaMallocManaged(&in[0], kCount * sizeof(float)));
    CUDA_CHECK(cudaMallocManaged(&in[1], kCount * sizeof(float)));
    CUDA_CHECK(cudaMallocManaged(&y, kCount * sizeof(float)));
    std::vector<float> want(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        in[0][i] = static_cast<float>(7 * i % 5) - 2.0f;  // whole, and small
        in[1][i] = static_cast<float>(11 * i % 17) - 8.0f;
        want[i] = in[1][i] + (i % kDim == 0 ? 0.0f : in[0][i] * want[i - 1]);
        y[i] = kUnwritten;
    }
    const int error = decay(in[0], in[1], y, kRows);
    CUDA_CHECK(cudaDeviceSynchronize());
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
        wrong += y[i] == want[i] ? 0 : 1;  // a NaN is wrong
    }
    std::printf("\nlibrary: main.cpp by g++, cuda.cu by nvcc\n");
    std::printf("  numbers   %zu\n", kCount);
    std::printf("  wrong     %zu\n", wrong);
    std::printf("  error     %d   (that decay returned)\n", error);
    for (float *shared : {in[0], in[1], y}) {
        CUDA_CHECK(cudaFree(shared));
    }
    if (wrong != 0 || error != 0) {
        std::fprintf(stderr, "%zu of %zu numbers are wrong\n", wrong, kCount);
        return EXIT_FAILURE;
    }
    std::printf("\nall 1 cases passed their gates\n");
    return EXIT_SUCCESS;
}
