// SPDX-License-Identifier: Apache-2.0
// Matrix products of the CUDA backend through keel.h, with the cuBLASLt over the emulated chip: the
// products that use the library and those that do not, correct results of both, unusable libraries,
// and failures.
#include <cuda.h>
#include <dlfcn.h>

#include <keel/keel.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/testing/cuda_test.h"
#include "backends/gpu/testing/matmul_test.h"

namespace keel::testing {
namespace {

constexpr char kByLibrary[] = "cublaslt.matmul";
constexpr char kByOwnKernel[] = "simt.matmul";

class MatmulLibraryTest : public MatmulRuns<CudaFixture> {
 protected:
  // |library|: as in KEEL_EMULATED_CUBLASLT; |chips|: as in KEEL_EMULATED_CUDA.
  void start(const std::string& library = "", const std::string& chips = "devices=1",
             const char* file = KEEL_EMULATED_CUBLASLT_FILE) {
    driver_.emplace(chips);
    if (!std::filesystem::exists(driver_->kernels())) GTEST_SKIP() << "a build without nvcc";
    if (file != nullptr) driver_->add_cublaslt(file, library);
    device_ = Device(load_cuda(*driver_).at(0));
    stream_.emplace(device_);
  }
  // The library's counter: "heuristics" or "products".
  uint64_t count(const std::string& what) const {
    void* const library = dlopen(driver_->cublaslt().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto counter = reinterpret_cast<uint64_t (*)()>(
        library == nullptr ? nullptr : dlsym(library, ("keel_emulated_cublaslt_" + what).c_str()));
    return counter == nullptr ? 0 : counter();
  }

  // Looks up a driver function.
  template <typename Function>
  Function native(const char* name) const {
    return reinterpret_cast<Function>(
        dlsym(dlopen((driver_->folder() + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD), name));
  }

  std::optional<OwnDriver> driver_;
};

TEST_F(MatmulLibraryTest, EachTranspositionOfEachDtype) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      const Question q = {.trans_a = trans_a, .trans_b = trans_b};
      EXPECT_EQ(run<float>(q), kByLibrary);
      EXPECT_EQ(run<bfloat16_t>(q), kByLibrary);
      EXPECT_EQ((run<bfloat16_t, float>(q)), kByLibrary);
      EXPECT_EQ(run<float16_t>(q), kByLibrary);
      EXPECT_EQ((run<float16_t, float>(q)), kByLibrary);
    }
  }
  EXPECT_EQ(count("products"), 20u);
}

TEST_F(MatmulLibraryTest, FactorsBiasesAndOldContents) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  EXPECT_EQ(run<float>({.bias = true, .alpha = -2, .beta = 3}), kByLibrary);
  EXPECT_EQ(run<bfloat16_t>({.trans_b = true, .bias = true}), kByLibrary);
  EXPECT_EQ(run<float16_t>({.trans_a = true, .bias = true, .beta = 1}), kByLibrary);
  // A weight gradient, added to the existing values.
  EXPECT_EQ((run<bfloat16_t, float>({.trans_a = true, .beta = 1})), kByLibrary);
}

TEST_F(MatmulLibraryTest, StridesAndPlacesBetweenAlignments) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  EXPECT_EQ(run<float>({.bias = true, .padding = 3}), kByLibrary);
  EXPECT_EQ(run<bfloat16_t>({.trans_a = true, .bias = true, .padding = 5, .shift = 1}), kByLibrary);
  EXPECT_EQ(run<float>({.m = 1}), kByLibrary);
  EXPECT_EQ(run<float>({.n = 1, .trans_b = true}), kByLibrary);
  EXPECT_EQ(run<float>({.m = 1, .n = 1, .k = 1}), kByLibrary);
}

TEST_F(MatmulLibraryTest, Batches) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  const std::string batched = "cublaslt.batched_matmul";
  EXPECT_EQ(run<float>({.batch = 3}), batched);
  EXPECT_EQ(run<float>({.batch = 1, .padding = 2}), batched);
  EXPECT_EQ(run<bfloat16_t>({.trans_b = true, .beta = 2, .batch = 4, .padding = 3}), batched);
  EXPECT_EQ((run<float16_t, float>({.trans_a = true, .batch = 2, .shift = 1})), batched);
}

// If the library has no epilogue, one of Keel's kernels finishes the library's sums.
TEST_F(MatmulLibraryTest, Activations) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  for (const int64_t activation : {1, 2, 3}) {
    Question q = {.m = 9, .n = 12, .bias = true, .alpha = 0.25, .beta = 0.5};
    q.activation = activation;
    for (const int64_t padding : {0, 3, 4}) {
      q.padding = padding;
      EXPECT_EQ(run<float>(q), kByLibrary);
      EXPECT_EQ(run<bfloat16_t>(q), kByLibrary);
      EXPECT_EQ(run<float16_t>(q), kByLibrary);
      EXPECT_EQ((run<bfloat16_t, float>(q)), kByLibrary);
    }
    q.bias = false;
    q.beta = 0;
    q.k = 80;
    q.shift = 1;
    EXPECT_EQ(run<float>(q), kByLibrary);
    EXPECT_EQ(run<float16_t>(q), kByLibrary);
  }
  EXPECT_EQ(count("products"), 42u);
}

TEST_F(MatmulLibraryTest, ABiasOfAnotherType) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  EXPECT_EQ((run<bfloat16_t, float>({.bias = true, .beta = 1})), kByLibrary);
  EXPECT_EQ((run<float16_t, float>({.n = 8, .bias = true, .padding = 8})), kByLibrary);
}

// Sums that the library splits: their workspace is stored beside the result.
TEST_F(MatmulLibraryTest, AWorkspace) {
  ASSERT_NO_FATAL_FAILURE(start("workspace=100000"));
  if (IsSkipped()) return;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run<float>({.k = 80}), kByLibrary);
  EXPECT_EQ(count("products"), 3u);
}

TEST_F(MatmulLibraryTest, APlanIsMadeOnce) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  for (int i = 0; i < 4; ++i) run<float>({.bias = true});
  EXPECT_EQ(count("heuristics"), 1u) << "the bias is elsewhere each time, and aligned the same";
  run<float>({.bias = true, .alpha = 2, .beta = 1});
  EXPECT_EQ(count("heuristics"), 1u) << "factors are no part of it";
  run<float>({.m = 6, .bias = true});
  EXPECT_EQ(count("heuristics"), 2u);
  run<float>({.trans_a = true, .bias = true});
  EXPECT_EQ(count("heuristics"), 3u);
  run<float>({.bias = true, .shift = 1});
  EXPECT_EQ(count("heuristics"), 4u);
  EXPECT_EQ(count("products"), 8u);
}

TEST_F(MatmulLibraryTest, ManyThreadsWithOnePlan) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      const Device device = device_;
      Stream stream(device);
      const std::vector<float> ones(64, 1);
      const std::vector<float> biases(8, static_cast<float>(thread));
      const Buffer a = Buffer::of<float>(device, 64);
      const Buffer c = Buffer::of<float>(device, 64);
      const Buffer bias = Buffer::of<float>(device, 8);
      stream.upload(a, ones);
      stream.upload(bias, biases);
      for (int i = 0; i < 20; ++i) {
        ops::matmul(stream, {.a = a.tensor<float>({8, 8}),
                             .b = a.tensor<float>({8, 8}),
                             .bias = bias.tensor<float>({8}),
                             .c = c.tensor<float>({8, 8})});
      }
      std::vector<float> got(64);
      stream.download(got, c);
      stream.synchronize();
      EXPECT_EQ(got, std::vector<float>(64, 8.0f + static_cast<float>(thread)));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(count("products"), 80u);
}

// ---- what is not the library's ----------------------------------------------------------

TEST_F(MatmulLibraryTest, WhatKeelsKernelsMake) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  EXPECT_EQ(run<float>({.alpha = 0, .beta = 1}), kByOwnKernel);
  EXPECT_EQ(run<float>({.k = 0, .beta = 2}), kByOwnKernel);
  EXPECT_EQ(count("heuristics"), 0u);
  EXPECT_EQ(count("products"), 0u);
}

TEST_F(MatmulLibraryTest, AProductThatTheLibraryHasNoKernelFor) {
  for (const char* settings : {"kernels=0", "heuristic=15", "heuristic=7"}) {
    ASSERT_NO_FATAL_FAILURE(start(settings));
    if (IsSkipped()) return;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run<float>({.bias = true}), kByOwnKernel);
    EXPECT_EQ(count("heuristics"), 1u) << settings << ": the answer is kept";
    EXPECT_EQ(count("products"), 0u);
    stream_.reset();
  }
}

// The library refuses a planned product: nothing was enqueued, so Keel's kernel runs the product,
// now and later.
TEST_F(MatmulLibraryTest, AProductThatTheLibraryRefusesWhenItIsToRun) {
  ASSERT_NO_FATAL_FAILURE(start("matmul=15"));
  if (IsSkipped()) return;
  EXPECT_EQ(run<float>({}), kByLibrary);
  EXPECT_EQ(run<float>({}), kByOwnKernel);
}

TEST_F(MatmulLibraryTest, NoLibrary) {
  std::string log;
  keel_set_log(
      KEEL_LOG_INFO,
      [](void* user, keel_log_level, const char* text) {
        static_cast<std::string*>(user)->append(text).append("\n");
      },
      &log);
  const auto skipped = [&] { return IsSkipped(); };
  const auto try_with = [&](const char* settings, const char* file) {
    log.clear();
    start(settings, "devices=1", file);
    if (!skipped()) {
      EXPECT_EQ(run<float>({.bias = true}), kByOwnKernel);
    }
    stream_.reset();
    return log;
  };
  const std::string missing = try_with("", nullptr);
  if (!skipped()) {
    EXPECT_HAS(missing, "matrix products by Keel's own kernels: no cuBLASLt: ");
    EXPECT_HAS(try_with("", KEEL_EMULATED_CUBLASLT_BARE),
               "symbols missing: cublasLtMatmul, cublasLtMatrixLayoutSetAttribute");
    EXPECT_HAS(try_with("version=110902", KEEL_EMULATED_CUBLASLT_FILE),
               "is cuBLASLt 11.9.2, too old: 12.0.0 is the first that is used");
    EXPECT_HAS(try_with("create=1", KEEL_EMULATED_CUBLASLT_FILE),
               "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED");
  }
  keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr);
}

TEST_F(MatmulLibraryTest, TheFolderOfTheLibrary) {
  const OwnDriver driver("devices=1");
  if (!std::filesystem::exists(driver.kernels())) GTEST_SKIP() << "a build without nvcc";
  // The library uses the driver in its own folder or in the parent folder.
  const std::string own = driver.folder() + "/cublaslt";
  std::filesystem::create_directories(own);
  std::filesystem::copy_file(KEEL_EMULATED_CUBLASLT_FILE, own + "/libcublasLt.so.12");
  const auto kernel = [&](const Settings& more) {
    Settings settings = {{"library_folder", driver.folder()}};
    settings.insert(more.begin(), more.end());
    device_ = Device(load("cuda", settings).at(0));
    stream_.emplace(device_);
    const std::string made_by = run<float>({});
    stream_.reset();
    return made_by;
  };
  EXPECT_EQ(kernel({}), kByOwnKernel);
  EXPECT_EQ(kernel({{"cublaslt_folder", own}}), kByLibrary);
  setenv("KEEL_CUBLASLT_LIBRARY_FOLDER", own.c_str(), 1);
  EXPECT_EQ(kernel({}), kByLibrary);
  EXPECT_EQ(kernel({{"cublaslt_folder", driver.folder()}}), kByOwnKernel) << "a setting goes first";
  unsetenv("KEEL_CUBLASLT_LIBRARY_FOLDER");
}

// ---- failures ------------------------------------------------------------------------------

TEST_F(MatmulLibraryTest, AFailureOfTheCallIsNamed) {
  ASSERT_NO_FATAL_FAILURE(start("matmul=13"));
  if (IsSkipped()) return;
  try {
    run<float>({});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_INTERNAL);
    EXPECT_HAS(error.what(), "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED");
  }
}

TEST_F(MatmulLibraryTest, AFailureOfTheWorkIsTheDevices) {
  ASSERT_NO_FATAL_FAILURE(start("", "devices=1 faults=fail:op@1"));
  if (IsSkipped()) return;
  try {
    run<float>({});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_DEVICE_LOST) << error.what();
    EXPECT_HAS(error.what(), "CUDA_ERROR_LAUNCH_FAILED");
  }
}

// A product cannot be part of a framework's graph. The capture continues, even if a new product is
// planned meanwhile.
TEST_F(MatmulLibraryTest, AStreamThatIsCaptured) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (IsSkipped()) return;
  const Buffer a = Buffer::of<float>(device_, 64 * 8);
  const Buffer b = Buffer::of<float>(device_, 64 * 8);
  const Buffer c = Buffer::of<float>(device_, 64 * 64);
  const OpCall call(KEEL_OP_MATMUL, {a.tensor<float>({64, 8}), b.tensor<float>({8, 64}), nullptr},
                    {c.tensor<float>({64, 64})}, {0, 0, 1.0, 0.0, 0});
  void* context = nullptr;
  ASSERT_KEEL_OK(keel_device_native_handle(device_.get(), 0, &context));
  const auto inside = static_cast<CUstream>(stream_->native());
  ASSERT_EQ(
      native<decltype(&cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(static_cast<CUcontext>(context)),
      CUDA_SUCCESS);
  ASSERT_EQ(native<decltype(&cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(
                inside, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(std::string(call.plan(device_).kernel), kByLibrary);
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, "is being captured",
               keel_op_run(stream_->get(), &call.get()));
  EXPECT_EQ(count("products"), 0u);
  CUgraph graph = nullptr;
  EXPECT_EQ(native<decltype(&cuStreamEndCapture)>("cuStreamEndCapture")(inside, &graph),
            CUDA_SUCCESS);
  CUcontext popped = nullptr;
  EXPECT_EQ(native<decltype(&cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
}

}  // namespace
}  // namespace keel::testing
