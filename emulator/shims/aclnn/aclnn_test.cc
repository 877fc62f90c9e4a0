// SPDX-License-Identifier: Apache-2.0
// libnnopbase.so and libopapi.so over the emulated chip: descriptors with strides, the two phases,
// workspaces, executors.
#include "emulator/shims/aclnn/testing/aclnn_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

class AclnnShimTest : public keel::emulator::testing::AclnnTest {};

TEST_F(AclnnShimTest, AProductOfATransposedViewHasAWorkspace) {
  put(0, {1, 2, 3, 4});
  put(4096, {1, 0, 0, 2});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(OPAPI(aclnnMatmulGetWorkspaceSize)(
                tensor(0, {2, 2}, {1, 2}), tensor(4096, {2, 2}, {2, 1}),
                tensor(8192, {2, 2}, {2, 1}), ACLNN_KEEP_DTYPE, &size, &executor),
            0);
  EXPECT_GT(size, 0u);
  EXPECT_EQ(OPAPI(aclnnMatmul)(workspace_, size, executor, stream_), 0);
  EXPECT_EQ(get(8192, 4), (std::vector<float>{1, 6, 2, 8}));
}

// [33,17] of bfloat16 in blocks of 16 x 16, which the product reads as the matrix it is.
TEST_F(AclnnShimTest, WeightsInBlocksAreTheSameMatrix) {
  constexpr int64_t kRows = 33;
  constexpr int64_t kColumns = 17;
  constexpr uint16_t kOne = 0x3f80;
  constexpr uint16_t kNaN = 0x7fc0;  // between the matrix and the end of its blocks
  std::vector<uint16_t> blocks(2 * 3 * 16 * 16, kNaN);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const int64_t block = column / 16 * 3 + row / 16;
      blocks[static_cast<size_t>((block * 16 + row % 16) * 16 + column % 16)] =
          row == 32 && column == 16 ? kOne : 0;
    }
  }
  put_bytes(0, blocks);
  const auto weights_of = [&](std::vector<int64_t> storage) {
    const int64_t dims[] = {kRows, kColumns};
    const int64_t strides[] = {kColumns, 1};
    return NNOPBASE(aclCreateTensor)(dims, 2, ACL_BF16, strides, 0, ACL_FORMAT_FRACTAL_NZ,
                                     storage.data(), storage.size(), memory_);
  };
  EXPECT_EQ(weights_of({2, 2, 16, 16}), nullptr);
  aclTensor* const weights = weights_of({2, 3, 16, 16});
  ASSERT_NE(weights, nullptr);
  std::vector<uint16_t> ones(kRows, kOne);
  put_bytes(8192, ones);
  const int64_t row[] = {1, kRows};
  aclTensor* const a = NNOPBASE(aclCreateTensor)(row, 2, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, row,
                                                 2, static_cast<char*>(memory_) + 8192);
  ASSERT_NE(a, nullptr);
  aclTensor* const c = tensor(16384, {1, kColumns}, {kColumns, 1});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_NE(OPAPI(aclnnMatmulGetWorkspaceSize)(a, weights, c, ACLNN_KEEP_DTYPE, &size, &executor),
            0);
  ASSERT_EQ(
      OPAPI(aclnnMatmulWeightNzGetWorkspaceSize)(a, weights, c, ACLNN_KEEP_DTYPE, &size, &executor),
      0);
  EXPECT_EQ(OPAPI(aclnnMatmulWeightNz)(workspace_, size, executor, stream_), 0);
  std::vector<float> want(kColumns, 0);
  want[16] = 1;
  EXPECT_EQ(get(16384, kColumns), want);
  EXPECT_EQ(NNOPBASE(aclDestroyTensor)(a), 0);
  EXPECT_EQ(NNOPBASE(aclDestroyTensor)(weights), 0);
}

TEST_F(AclnnShimTest, ARepeatableExecutorRunsAgain) {
  float two = 2;
  aclScalar* const factor = NNOPBASE(aclCreateScalar)(&two, ACL_FLOAT);
  put(0, {1, 2});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  aclTensor* const x = tensor(0, {2}, {1});
  ASSERT_EQ(OPAPI(aclnnMulsGetWorkspaceSize)(x, factor, x, &size, &executor), 0);
  ASSERT_EQ(NNOPBASE(aclSetAclOpExecutorRepeatable)(executor), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(OPAPI(aclnnMuls)(nullptr, 0, executor, stream_), 0);
  EXPECT_EQ(get(0, 2), (std::vector<float>{8, 16}));
  EXPECT_EQ(NNOPBASE(aclDestroyAclOpExecutor)(executor), 0);
  EXPECT_EQ(NNOPBASE(aclDestroyScalar)(factor), 0);
}

TEST_F(AclnnShimTest, OneMatrixMultipliesABatch) {
  aclTensor* const a = floats({2, 1, 2}, {1, 2, 3, 4});
  aclTensor* const b = floats({1, 2, 1}, {10, 1});
  aclTensor* const c = result({2, 1, 1});
  EXPECT_EQ(ACLNN(BatchMatMul, a, b, c, ACLNN_KEEP_DTYPE), 0);
  EXPECT_EQ(read(c), (std::vector<float>{12, 34}));
  aclTensor* const square = floats({1, 1, 1}, {7});
  EXPECT_EQ(ACLNN(BatchMatMul, square, floats({2, 1, 1}, {1, 2}), c, ACLNN_KEEP_DTYPE), 0);
  EXPECT_EQ(read(c), (std::vector<float>{7, 14}));
  EXPECT_NE(ACLNN(BatchMatMul, square, square, c, ACLNN_KEEP_DTYPE), 0);
  EXPECT_NE(ACLNN(BatchMatMul, floats({3, 1, 1}, {1, 2, 3}), square, c, ACLNN_KEEP_DTYPE), 0);
}

// A float16 tensor makes the factor float16; a bfloat16 one does not make it bfloat16.
TEST_F(AclnnShimTest, FactorsOfFloat16AreRounded) {
  float factor = 1e6;
  aclScalar* const scalar = NNOPBASE(aclCreateScalar)(&factor, ACL_FLOAT);
  aclTensor* const wide = result({1});
  aclTensor* const half = dense<uint16_t>(ACL_FLOAT16, {1}, {0x0400});  // 2^-14
  EXPECT_EQ(ACLNN(Muls, half, scalar, half), 0);
  EXPECT_EQ(ACLNN(Cast, half, ACL_FLOAT, wide), 0);
  EXPECT_EQ(read(wide), (std::vector<float>{INFINITY}));
  aclTensor* const brain = dense<uint16_t>(ACL_BF16, {1}, {0x3880});  // 2^-14
  EXPECT_EQ(ACLNN(Muls, brain, scalar, brain), 0);
  EXPECT_EQ(ACLNN(Cast, brain, ACL_FLOAT, wide), 0);
  EXPECT_EQ(read(wide), (std::vector<float>{61}));
  EXPECT_EQ(NNOPBASE(aclDestroyScalar)(scalar), 0);
}

TEST_F(AclnnShimTest, EightBitFloatsAreCastAlone) {
  aclTensor* const x = floats({4}, {1, -448, 480, NAN});
  aclTensor* const back = result({4});
  aclTensor* const small = dense<uint8_t>(ACL_FLOAT8_E4M3FN, {4}, {9, 9, 9, 9});
  EXPECT_EQ(ACLNN(Cast, x, ACL_FLOAT8_E4M3FN, small), 0);
  EXPECT_EQ(ACLNN(Cast, small, ACL_FLOAT, back), 0);
  const std::vector<float> values = read(back);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -448);
  EXPECT_TRUE(std::isnan(values[2]) && std::isnan(values[3]));
  EXPECT_NE(ACLNN(Exp, small, small), 0);
}

TEST_F(AclnnShimTest, SoftmaxOfARowWithoutAFiniteElementIsNaN) {
  put(0, {0, 0, -INFINITY, -INFINITY});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  aclTensor* const x = tensor(0, {2, 2}, {2, 1});
  ASSERT_EQ(OPAPI(aclnnSoftmaxGetWorkspaceSize)(x, -1, x, &size, &executor), 0);
  EXPECT_EQ(OPAPI(aclnnSoftmax)(workspace_, size, executor, stream_), 0);
  const std::vector<float> y = get(0, 4);
  EXPECT_EQ(y[0], 0.5f);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST_F(AclnnShimTest, ShapesThatDoNotFitAreRefused) {
  float one = 1;
  aclScalar* const alpha = NNOPBASE(aclCreateScalar)(&one, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_NE(OPAPI(aclnnAddGetWorkspaceSize)(tensor(0, {2}, {1}), tensor(0, {3}, {1}), alpha,
                                            tensor(0, {2}, {1}), &size, &executor),
            0);
  EXPECT_NE(OPAPI(aclnnAddGetWorkspaceSize)(nullptr, tensor(0, {3}, {1}), alpha,
                                            tensor(0, {2}, {1}), &size, &executor),
            0);
  NNOPBASE(aclDestroyScalar)(alpha);
}

TEST(AclnnShimDeathTest, AnExecutorUsedTwiceEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ACL(aclInit)(nullptr);
        ACL(aclrtSetDevice)(0);
        aclrtStream stream = nullptr;
        ACL(aclrtCreateStreamWithConfig)(&stream, 0, 0);
        void* memory = nullptr;
        ACL(aclrtMalloc)(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
        const int64_t dims[] = {4};
        aclTensor* const x = NNOPBASE(aclCreateTensor)(dims, 1, ACL_FLOAT, nullptr, 0,
                                                       ACL_FORMAT_ND, dims, 1, memory);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        OPAPI(aclnnSqrtGetWorkspaceSize)(x, x, &size, &executor);
        OPAPI(aclnnSqrt)(nullptr, 0, executor, stream);
        OPAPI(aclnnSqrt)(nullptr, 0, executor, stream);
      },
      "aclnnSqrt: an executor that was used or destroyed");
}

}  // namespace
