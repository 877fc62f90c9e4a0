// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, in a folder below the driver's.
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace {

void* open_once(const char* file) {
  setenv("KEEL_EMULATED_CUDA", "devices=2 memory_mib=64", 1);
  setenv("KEEL_EMULATED_CUBLASLT", "version=120304 workspace=512", 1);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}
void* library() {
  static void* const opened = open_once(KEEL_SHIM);
  return opened;
}
void* driver() {
  static void* const opened = open_once(KEEL_DRIVER_SHIM);
  return opened;
}

#define LT(name) reinterpret_cast<decltype(&name)>(dlsym(library(), #name))
#define DRIVER(name, symbol) reinterpret_cast<decltype(&name)>(dlsym(driver(), symbol))

// On the first device, with its context current: d[3,2] = a[3,4] b[4,2], column-major, in one
// allocation of 8192 bytes: a at 0, b at 256, d at 512, the workspace at 4096.
class CublasLtShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver(), nullptr) << dlerror();
    ASSERT_NE(library(), nullptr) << dlerror();
    ASSERT_EQ(DRIVER(cuInit, "cuInit")(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    ASSERT_EQ(DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(&context, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(DRIVER(cuCtxPushCurrent, "cuCtxPushCurrent_v2")(context), CUDA_SUCCESS);
    ASSERT_EQ(DRIVER(cuStreamCreateWithPriority, "cuStreamCreateWithPriority")(
                  &stream_, CU_STREAM_NON_BLOCKING, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(DRIVER(cuMemAlloc, "cuMemAlloc_v2")(&memory_, 8192), CUDA_SUCCESS);
    ASSERT_EQ(LT(cublasLtCreate)(&handle_), CUBLAS_STATUS_SUCCESS);
    describe();
    prefer(/*workspace=*/4096);
  }
  void TearDown() override {
    EXPECT_EQ(LT(cublasLtDestroy)(handle_), CUBLAS_STATUS_SUCCESS);
    (void)DRIVER(cuStreamDestroy, "cuStreamDestroy_v2")(stream_);  // the context may be lost
    CUcontext context = nullptr;
    EXPECT_EQ(DRIVER(cuCtxPopCurrent, "cuCtxPopCurrent_v2")(&context), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")(0), CUDA_SUCCESS);
  }

  void describe() {
    ASSERT_EQ(LT(cublasLtMatmulDescInit_internal)(&operation_, sizeof(operation_),
                                                  CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    lay_out(&a_, 3, 4);
    lay_out(&b_, 4, 2);
    lay_out(&d_, 3, 2);
  }
  static void lay_out(cublasLtMatrixLayoutOpaque_t* layout, uint64_t rows, uint64_t columns,
                      int64_t leading = 0, cudaDataType type = CUDA_R_32F) {
    EXPECT_EQ(
        LT(cublasLtMatrixLayoutInit_internal)(layout, sizeof(*layout), type, rows, columns,
                                              leading == 0 ? static_cast<int64_t>(rows) : leading),
        CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    return LT(cublasLtMatmulDescSetAttribute)(&operation_, attribute, &value, sizeof(value));
  }
  void prefer(uint64_t workspace, uint32_t alignment = 256) {
    EXPECT_EQ(LT(cublasLtMatmulPreferenceInit_internal)(&preference_, sizeof(preference_)),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(
        LT(cublasLtMatmulPreferenceSetAttribute)(
            &preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
        CUBLAS_STATUS_SUCCESS);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      EXPECT_EQ(LT(cublasLtMatmulPreferenceSetAttribute)(&preference_, attribute, &alignment,
                                                         sizeof(alignment)),
                CUBLAS_STATUS_SUCCESS);
    }
  }

  cublasStatus_t ask() {
    int count = 0;
    const cublasStatus_t result = LT(cublasLtMatmulAlgoGetHeuristic)(
        handle_, &operation_, &a_, &b_, &d_, &d_, &preference_, 1, &found_, &count);
    EXPECT_EQ(count, result == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    return result;
  }
  void* at(uint64_t offset) const { return reinterpret_cast<void*>(memory_ + offset); }
  cublasStatus_t multiply(uint64_t a = 0, uint64_t b = 256, uint64_t d = 512,
                          uint64_t workspace = 4096, size_t workspace_bytes = 4096) {
    const float one = 1;
    return LT(cublasLtMatmul)(handle_, &operation_, &one, at(a), &a_, at(b), &b_, &beta_, at(d),
                              &d_, at(d), &d_, &found_.algo, at(workspace), workspace_bytes,
                              stream_);
  }
  void write(uint64_t offset, const std::vector<float>& values) const {
    EXPECT_EQ(DRIVER(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")(memory_ + offset, values.data(),
                                                                values.size() * 4, stream_),
              CUDA_SUCCESS);
  }
  // Reads after all enqueued work; returns the driver's result.
  CUresult read(uint64_t offset, std::vector<float>* out_values) const {
    return DRIVER(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")(out_values->data(), memory_ + offset,
                                                             out_values->size() * 4, stream_);
  }

  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t operation_ = {};
  cublasLtMatrixLayoutOpaque_t a_ = {};
  cublasLtMatrixLayoutOpaque_t b_ = {};
  cublasLtMatrixLayoutOpaque_t d_ = {};
  cublasLtMatmulPreferenceOpaque_t preference_ = {};
  cublasLtMatmulHeuristicResult_t found_ = {};
  float beta_ = 0;
};

TEST_F(CublasLtShimTest, VersionAndWords) {
  EXPECT_EQ(LT(cublasLtGetVersion)(), 120304u);
  EXPECT_STREQ(LT(cublasLtGetStatusName)(CUBLAS_STATUS_NOT_SUPPORTED),
               "CUBLAS_STATUS_NOT_SUPPORTED");
}

TEST_F(CublasLtShimTest, AProductOnTheDriversStreamAndMemory) {
  write(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});  // column-major
  write(256, {1, 0, 0, 1, 0, 2, 0, 0});
  write(512, {1, 1, 1, 1, 1, 1});
  write(1024, {10, 20, 30});
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found_.workspaceSize, 0u);
  ASSERT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
  std::vector<float> got(6);
  EXPECT_EQ(read(512, &got), CUDA_SUCCESS);
  EXPECT_EQ(got, (std::vector<float>{11, 13, 15, 8, 10, 12}));
  // Adds a bias per row, and the previous contents.
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS)),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at(1024)), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  beta_ = 1;
  ASSERT_EQ(multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(read(512, &got), CUDA_SUCCESS);
  EXPECT_EQ(got, (std::vector<float>{32, 46, 60, 26, 40, 54}));
}

TEST_F(CublasLtShimTest, DescriptorsThatMakeNoSense) {
  lay_out(&b_, 5, 2);
  EXPECT_EQ(ask(), CUBLAS_STATUS_INVALID_VALUE) << "inner extents differ";
  lay_out(&b_, 4, 2, /*leading=*/3);
  EXPECT_EQ(ask(), CUBLAS_STATUS_INVALID_VALUE) << "columns overlap";
  lay_out(&b_, 4, 2, 0, CUDA_R_16F);
  EXPECT_EQ(ask(), CUBLAS_STATUS_NOT_SUPPORTED) << "two types";
  b_ = {};
  EXPECT_EQ(ask(), CUBLAS_STATUS_INVALID_VALUE) << "never set up";
  describe();
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}), CUBLAS_STATUS_NOT_SUPPORTED);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(ask(), CUBLAS_STATUS_INVALID_VALUE) << "a bias that is nowhere";
  cublasLtMatrixLayoutOpaque_t small = {};
  EXPECT_EQ(LT(cublasLtMatrixLayoutInit_internal)(&small, 8, CUDA_R_32F, 1, 1, 1),
            CUBLAS_STATUS_ALLOC_FAILED);
}

TEST_F(CublasLtShimTest, AnAlgorithmIsForOneProduct) {
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(0, 256, 516), CUBLAS_STATUS_INVALID_VALUE) << "less aligned than was said";
  prefer(4096, /*alignment=*/4);
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(0, 256, 516), CUBLAS_STATUS_SUCCESS);
  lay_out(&d_, 3, 2, /*leading=*/5);
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE) << "another product";
  found_.algo = {};
  EXPECT_EQ(multiply(), CUBLAS_STATUS_INVALID_VALUE) << "none at all";
}

TEST_F(CublasLtShimTest, TheWorkspaceIsAskedFor) {
  lay_out(&a_, 1, 64);
  lay_out(&b_, 64, 1);
  lay_out(&d_, 1, 1);
  prefer(/*workspace=*/100);
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found_.workspaceSize, 0u) << "there is no room for it";
  prefer(/*workspace=*/4096);
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found_.workspaceSize, 512u);
  EXPECT_EQ(multiply(0, 256, 512, 4096, 511), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(0, 256, 512, 4096 + 16, 512), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(0, 256, 512, 4096, 512), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtShimTest, AHandleIsOfOneContext) {
  CUcontext other = nullptr;
  ASSERT_EQ(DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuCtxPushCurrent, "cuCtxPushCurrent_v2")(other), CUDA_SUCCESS);
  EXPECT_EQ(ask(), CUBLAS_STATUS_NOT_INITIALIZED);
  ASSERT_EQ(DRIVER(cuCtxPopCurrent, "cuCtxPopCurrent_v2")(&other), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")(1), CUDA_SUCCESS);
  EXPECT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
}

// The last element of the result is out of bounds: as on a GPU, the context is lost.
TEST_F(CublasLtShimTest, AMatrixThatReachesPastItsAllocation) {
  lay_out(&d_, 3, 2, /*leading=*/64 - 2);
  ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(0, 256, 8192 - 256), CUBLAS_STATUS_SUCCESS);
  std::vector<float> got(6);
  EXPECT_EQ(read(512, &got), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
