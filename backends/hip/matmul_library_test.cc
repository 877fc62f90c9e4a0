// SPDX-License-Identifier: Apache-2.0
// Matrix products of the HIP backend through keel.h, with the rocBLAS over the emulated chip: the
// products that use the library and those that do not, correct results of both, unusable libraries,
// and failures.
#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <keel/keel.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/gpu/testing/matmul_test.h"
#include "backends/hip/testing/hip_test.h"
#include "vendor/rocblas.h"

namespace keel::testing {
namespace {

constexpr char kByLibrary[] = "rocblas.matmul";
constexpr char kByOwnKernel[] = "simt.matmul";

class HipMatmulLibraryTest : public MatmulRuns<HipFixture> {
 protected:
  // |library|: as in KEEL_EMULATED_ROCBLAS; |chips|: as in KEEL_EMULATED_HIP; |file|: of the
  // library, or NULL.
  void start(const std::string& library = "", const std::string& chips = "devices=1",
             const char* file = KEEL_EMULATED_ROCBLAS_FILE) {
    runtime_.emplace(chips);
    if (file != nullptr) runtime_->add_rocblas(file, library);
    device_ = Device(load_hip(*runtime_).at(0));
    stream_.emplace(device_);
  }
  // The library's counter: "handles" or "products".
  uint64_t count(const std::string& what) const {
    void* const library = dlopen(runtime_->rocblas().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto counter = reinterpret_cast<uint64_t (*)()>(
        library == nullptr ? nullptr : dlsym(library, ("keel_emulated_rocblas_" + what).c_str()));
    return counter == nullptr ? 0 : counter();
  }
  std::optional<OwnRuntime> runtime_;
};

TEST_F(HipMatmulLibraryTest, EachTranspositionOfEachDtype) {
  start();
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
  EXPECT_EQ(count("handles"), 1u) << "a thread at a time needs no second handle";
}

// The library adds no bias and has no activation: one of Keel's kernels finishes its sums.
TEST_F(HipMatmulLibraryTest, FactorsBiasesActivationsAndOldContents) {
  start();
  EXPECT_EQ(run<float>({.bias = true, .alpha = -2, .beta = 3}), kByLibrary);
  EXPECT_EQ(run<bfloat16_t>({.trans_b = true, .bias = true, .beta = 1}), kByLibrary);
  EXPECT_EQ(run<float16_t>({.trans_a = true, .bias = true, .padding = 8}), kByLibrary);
  EXPECT_EQ((run<bfloat16_t, float>({.trans_a = true, .beta = 1})), kByLibrary);
  for (const int64_t activation : {1, 2, 3}) {
    Question q = {.m = 9, .n = 12, .bias = true, .alpha = 0.25, .beta = 0.5};
    q.activation = activation;
    q.padding = activation;
    EXPECT_EQ(run<float>(q), kByLibrary);
    EXPECT_EQ(run<bfloat16_t>(q), kByLibrary);
    EXPECT_EQ((run<float16_t, float>(q)), kByLibrary);
  }
  EXPECT_EQ(count("products"), 13u);
}

TEST_F(HipMatmulLibraryTest, StridesPlacesAndBatches) {
  start();
  EXPECT_EQ(run<float>({.padding = 3}), kByLibrary);
  EXPECT_EQ(run<bfloat16_t>({.trans_a = true, .padding = 5, .shift = 1}), kByLibrary);
  EXPECT_EQ(run<float>({.m = 1}), kByLibrary);
  EXPECT_EQ(run<float>({.n = 1, .trans_b = true}), kByLibrary);
  EXPECT_EQ(run<float>({.m = 1, .n = 1, .k = 1}), kByLibrary);
  const std::string batched = "rocblas.batched_matmul";
  EXPECT_EQ(run<float>({.batch = 3}), batched);
  EXPECT_EQ(run<float>({.batch = 1, .padding = 2}), batched);
  EXPECT_EQ(run<bfloat16_t>({.trans_b = true, .beta = 2, .batch = 4, .padding = 3}), batched);
  EXPECT_EQ((run<float16_t, float>({.trans_a = true, .batch = 2, .shift = 1})), batched);
}

// The library overwrites the workspace that the caller gave, and nothing else.
TEST_F(HipMatmulLibraryTest, AWorkspace) {
  start("workspace=100000");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run<float>({.k = 80}), kByLibrary);
    EXPECT_EQ(run<bfloat16_t>({.k = 80, .bias = true}), kByLibrary);
  }
  EXPECT_EQ(count("products"), 6u);
}

TEST_F(HipMatmulLibraryTest, ProductsThatTheLibraryDefinesOtherwise) {
  start();
  EXPECT_EQ(run<float>({.alpha = 0, .beta = 1}), kByOwnKernel);
  EXPECT_EQ(run<float>({.k = 0, .beta = 2}), kByOwnKernel);
  EXPECT_EQ(count("products"), 0u);
}

// The emulated library ends the process if two threads use one handle.
TEST_F(HipMatmulLibraryTest, EachThreadBorrowsAHandle) {
  start();
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
  EXPECT_LE(count("handles"), 4u);
}

// ---- unusable libraries --------------------------------------------------------

TEST_F(HipMatmulLibraryTest, NoLibrary) {
  const auto try_with = [&](const char* settings, const char* file) {
    return log_of([&] {
      start(settings, "devices=1", file);
      EXPECT_EQ(run<float>({.bias = true}), kByOwnKernel);
      stream_.reset();
    });
  };
  EXPECT_HAS(try_with("", nullptr), "matrix products by Keel's own kernels: no rocBLAS: ");
  EXPECT_HAS(try_with("", KEEL_EMULATED_ROCBLAS_BARE),
             "symbols missing: rocblas_gemm_strided_batched_ex, rocblas_set_atomics_mode, "
             "rocblas_set_workspace");
  EXPECT_HAS(try_with("version=2.43.1", KEEL_EMULATED_ROCBLAS_FILE),
             "is rocBLAS 2.43.1, too old: 2.44 is the first that is used");
  EXPECT_HAS(try_with("version=new", KEEL_EMULATED_ROCBLAS_FILE), "does not tell its version");
  EXPECT_HAS(try_with("create=5", KEEL_EMULATED_ROCBLAS_FILE),
             "rocblas_create_handle: rocblas_status_memory_error");
}

// Without kernels for the architecture the library ends the process at its first product, as does
// the emulated one.
TEST_F(HipMatmulLibraryTest, ALibraryWithoutKernelsForTheArchitectureIsNotCalled) {
  const std::string log = log_of([&] {
    start("", "devices=1 warp=32");  // gfx1030
    EXPECT_EQ(run<float>({}), kByOwnKernel);
  });
  EXPECT_HAS(log, "has no kernels for gfx1030");
  EXPECT_EQ(count("products"), 0u);
  EXPECT_EQ(count("handles"), 0u);
  stream_.reset();
  start("", "devices=1 warp=32", nullptr);
  runtime_->add_rocblas(KEEL_EMULATED_ROCBLAS_FILE, "", "gfx1030");
  EXPECT_EQ(run<float>({}), kByLibrary);
}

// Releases of ROCm whose kernels of all architectures have one index.
TEST_F(HipMatmulLibraryTest, OneIndexOfAllArchitecturesNeedsACodeObject) {
  start("", "devices=1 warp=32", nullptr);
  const std::string own = runtime_->folder() + "/indexed";
  std::filesystem::create_directories(own + "/library");
  std::filesystem::copy_file(KEEL_EMULATED_ROCBLAS_FILE, own + "/librocblas.so.4");
  std::ofstream(own + "/library/TensileLibrary.dat") << "index";
  std::ofstream(own + "/library/Kernels.so-000-gfx1031.hsaco") << "code";
  std::ofstream(own + "/library/TensileLibrary_gfx1030x.co") << "code";
  const std::string log = log_of([&] {
    device_ = Device(
        load("hip", {{"library_folder", runtime_->folder()}, {"rocblas_folder", own}}).at(0));
    stream_.emplace(device_);
    EXPECT_EQ(run<float>({}), kByOwnKernel);
  });
  EXPECT_HAS(log, own + "/librocblas.so.4 has no kernels for gfx1030");
}

TEST_F(HipMatmulLibraryTest, TheFolderOfTheLibrary) {
  const OwnRuntime runtime("devices=1");
  // The library uses the runtime in its own folder or in the parent folder.
  const std::string own = runtime.folder() + "/blas";
  std::filesystem::create_directories(own + "/rocblas/library");
  std::filesystem::copy_file(KEEL_EMULATED_ROCBLAS_FILE, own + "/librocblas.so.3");
  std::ofstream(own + "/rocblas/library/TensileLibrary_lazy_gfx90a.dat") << "kernels";
  const auto kernel = [&](const Settings& more) {
    Settings settings = {{"library_folder", runtime.folder()}};
    settings.insert(more.begin(), more.end());
    device_ = Device(load("hip", settings).at(0));
    stream_.emplace(device_);
    const std::string made_by = run<float>({});
    stream_.reset();
    return made_by;
  };
  EXPECT_EQ(kernel({}), kByOwnKernel);
  EXPECT_EQ(kernel({{"rocblas_folder", own}}), kByLibrary);
  setenv("KEEL_ROCBLAS_LIBRARY_FOLDER", own.c_str(), 1);
  EXPECT_EQ(kernel({}), kByLibrary);
  EXPECT_EQ(kernel({{"rocblas_folder", runtime.folder()}}), kByOwnKernel) << "a setting goes first";
  unsetenv("KEEL_ROCBLAS_LIBRARY_FOLDER");
}

// ---- failures --------------------------------------------------------------------

// Nothing was enqueued, so Keel's kernel runs the product, now and later.
TEST_F(HipMatmulLibraryTest, ARefusalHoldsForTheDtypes) {
  start("gemm=2");
  EXPECT_EQ(run<float>({}), kByLibrary);
  EXPECT_EQ(run<float>({.m = 3}), kByOwnKernel);
  EXPECT_EQ(run<bfloat16_t>({}), kByLibrary);
  EXPECT_EQ(run<bfloat16_t>({}), kByOwnKernel);
  EXPECT_EQ(count("products"), 0u);
}

TEST_F(HipMatmulLibraryTest, MemoryThatTheLibraryLacksIsNoFailure) {
  start("gemm=5");
  EXPECT_EQ(run<float>({}), kByLibrary);
  EXPECT_EQ(run<float>({}), kByLibrary) << "asked again each time";
}

TEST_F(HipMatmulLibraryTest, AFailureOfTheCallIsNamed) {
  start("gemm=6");
  try {
    run<float>({});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_INTERNAL);
    EXPECT_HAS(error.what(), "rocblas_gemm_strided_batched_ex: rocblas_status_internal_error");
  }
}

TEST_F(HipMatmulLibraryTest, AFailureOfTheWorkIsTheDevices) {
  start("", "devices=1 faults=fail:op@1");
  try {
    run<float>({});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_DEVICE_LOST) << error.what();
    EXPECT_HAS(error.what(), "hipErrorLaunchFailure");
  }
}

// The emulated library checks its arguments, as the real one does.
TEST_F(HipMatmulLibraryTest, ArgumentsAreChecked) {
  start("", "devices=2");
  run<float>({});  // opens the library
  void* const library = dlopen(runtime_->rocblas().c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
#define ROCBLAS(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))
  rocblas_handle handle = nullptr;
  ASSERT_EQ(ROCBLAS(rocblas_create_handle)(&handle), rocblas_status_success);
  EXPECT_EQ(ROCBLAS(rocblas_create_handle)(nullptr), rocblas_status_invalid_handle);
  EXPECT_EQ(ROCBLAS(rocblas_set_stream)(nullptr, nullptr), rocblas_status_invalid_handle);
  const Stream elsewhere{Device(load_hip(*runtime_).at(1))};
  EXPECT_EQ(ROCBLAS(rocblas_set_stream)(handle, static_cast<hipStream_t>(elsewhere.native())),
            rocblas_status_invalid_value);
  const Buffer memory = Buffer::of<float>(device_, 64);
  const float one = 1;
  auto* const data = static_cast<float*>(memory.data());
  const auto gemm = [&](rocblas_int leading_a, rocblas_int leading_d, rocblas_datatype type,
                        const void* a, rocblas_datatype compute) {
    return ROCBLAS(rocblas_gemm_strided_batched_ex)(
        handle, rocblas_operation_none, rocblas_operation_transpose, 3, 2, 4, &one, a, type,
        leading_a, 0, data, type, 2, 0, &one, data + 32, type, leading_d, 0, data + 32, type,
        leading_d, 0, 1, compute, rocblas_gemm_algo_standard, 0, 0);
  };
  constexpr auto kFloat = rocblas_datatype_f32_r;
  EXPECT_EQ(gemm(3, 3, kFloat, data, kFloat), rocblas_status_success);
  EXPECT_EQ(gemm(2, 3, kFloat, data, kFloat), rocblas_status_invalid_size);
  EXPECT_EQ(gemm(3, 2, kFloat, data, kFloat), rocblas_status_invalid_size);
  EXPECT_EQ(gemm(3, 3, kFloat, nullptr, kFloat), rocblas_status_invalid_pointer);
  EXPECT_EQ(gemm(3, 3, rocblas_datatype_f16_r, data, rocblas_datatype_f16_r),
            rocblas_status_not_implemented);
  EXPECT_EQ(gemm(3, 3, static_cast<rocblas_datatype>(160), data, kFloat),
            rocblas_status_not_implemented);
  EXPECT_EQ(ROCBLAS(rocblas_destroy_handle)(handle), rocblas_status_success);
#undef ROCBLAS
}

}  // namespace
}  // namespace keel::testing
