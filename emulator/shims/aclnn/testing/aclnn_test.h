// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_ACLNN_TESTING_ACLNN_TEST_H_
#define KEEL_EMULATOR_SHIMS_ACLNN_TESTING_ACLNN_TEST_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "emulator/shims/acl/testing/library.h"

namespace keel::emulator::testing {

// A stream and memory of an emulated chip, and tensors in the memory.
class AclnnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library("libopapi.so"), nullptr) << dlerror();
    ACL(aclInit)(nullptr);
    ASSERT_EQ(ACL(aclrtSetDevice)(0), ACL_SUCCESS);
    ASSERT_EQ(ACL(aclrtCreateStreamWithConfig)(&stream_, 0, 0), ACL_SUCCESS);
    ASSERT_EQ(ACL(aclrtMalloc)(&memory_, kMemory, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    ASSERT_EQ(ACL(aclrtMalloc)(&workspace_, 65536, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  void TearDown() override {
    for (const aclTensor* tensor : tensors_) NNOPBASE(aclDestroyTensor)(tensor);
    EXPECT_EQ(ACL(aclrtFree)(workspace_), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtFree)(memory_), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtDestroyStream)(stream_), ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtResetDevice)(0), ACL_SUCCESS);
  }

  // A float32 tensor at byte |at| of the memory.
  aclTensor* tensor(size_t at, std::vector<int64_t> dims, std::vector<int64_t> strides) {
    const int64_t storage[] = {1024};
    aclTensor* const made =
        NNOPBASE(aclCreateTensor)(dims.data(), dims.size(), ACL_FLOAT, strides.data(), 0,
                                  ACL_FORMAT_ND, storage, 1, static_cast<char*>(memory_) + at);
    EXPECT_NE(made, nullptr);
    if (made != nullptr) tensors_.push_back(made);
    return made;
  }
  void put(size_t at, const std::vector<float>& values) { put_bytes(at, values); }
  template <typename Value>
  void put_bytes(size_t at, const std::vector<Value>& values) {
    EXPECT_EQ(
        ACL(aclrtMemcpyAsync)(static_cast<char*>(memory_) + at, kMemory - at, values.data(),
                              values.size() * sizeof(Value), ACL_MEMCPY_HOST_TO_DEVICE, stream_),
        ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_SUCCESS);
  }
  std::vector<float> get(size_t at, size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(ACL(aclrtMemcpyAsync)(values.data(), count * 4, static_cast<char*>(memory_) + at,
                                    count * 4, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
              ACL_SUCCESS);
    EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_SUCCESS);
    return values;
  }

  // A dense tensor of |values| in the next piece of the memory.
  template <typename Value>
  aclTensor* dense(aclDataType type, std::vector<int64_t> dims, const std::vector<Value>& values) {
    const size_t at = next_;
    const size_t size = values.size() * sizeof(Value);
    next_ += (size + kPiece - 1) / kPiece * kPiece;
    EXPECT_LE(next_, kMemory);
    put_bytes(at, values);
    aclTensor* const made =
        NNOPBASE(aclCreateTensor)(dims.data(), dims.size(), type, nullptr, 0, ACL_FORMAT_ND,
                                  dims.data(), dims.size(), static_cast<char*>(memory_) + at);
    EXPECT_NE(made, nullptr);
    tensors_.push_back(made);
    places_[made] = {at, values.size()};
    return made;
  }
  aclTensor* floats(std::vector<int64_t> dims, const std::vector<float>& values) {
    return dense(ACL_FLOAT, std::move(dims), values);
  }
  // A float32 tensor for a result.
  aclTensor* result(const std::vector<int64_t>& dims) {
    size_t count = 1;
    for (const int64_t extent : dims) count *= static_cast<size_t>(extent);
    return floats(dims, std::vector<float>(count, 77));
  }
  // The elements of a float32 tensor of dense().
  std::vector<float> read(const aclTensor* tensor) {
    return get(places_.at(tensor).first, places_.at(tensor).second);
  }

  // Runs the second phase |run| if the first one returned 0, which it does if |prepared| is 0.
  aclnnStatus launch(aclnnStatus prepared, decltype(&aclnnExp) run) {
    if (prepared != 0) return prepared;
    EXPECT_LE(size_, 65536u);
    return run(workspace_, size_, executor_, stream_);
  }

  static constexpr size_t kPiece = 512;
  static constexpr size_t kMemory = size_t{5} << 20;

  aclrtStream stream_ = nullptr;
  void* memory_ = nullptr;
  void* workspace_ = nullptr;
  uint64_t size_ = 0;
  aclOpExecutor* executor_ = nullptr;

 private:
  size_t next_ = 0;
  std::vector<const aclTensor*> tensors_;
  std::map<const aclTensor*, std::pair<size_t, size_t>> places_;  // byte, count
};

// The library's answers to a bad call.
inline constexpr aclnnStatus kNullPointer = 161001;
inline constexpr aclnnStatus kBadParameter = 161002;

// A function of a vector, for a derivative.
using VectorFunction = std::function<std::vector<double>(const std::vector<double>&)>;

// The derivatives of the sum of |weights| * |function|(x) by finite differences.
inline std::vector<double> differentiate(const VectorFunction& function, std::vector<double> x,
                                         const std::vector<float>& weights) {
  constexpr double kStep = 1e-5;
  std::vector<double> derivatives(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + kStep;
    const std::vector<double> above = function(x);
    x[i] = before - kStep;
    const std::vector<double> below = function(x);
    x[i] = before;
    for (size_t j = 0; j < weights.size(); ++j) {
      derivatives[i] += weights[j] * (above[j] - below[j]) / (2 * kStep);
    }
  }
  return derivatives;
}

inline std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

inline void expect_near(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

}  // namespace keel::emulator::testing

// Runs both phases of operator |name| in a test of AclnnTest, and returns the answer of the last
// phase that was called.
#define ACLNN(name, ...)                                                                    \
  launch(OPAPI(aclnn##name##GetWorkspaceSize)(__VA_ARGS__, &this->size_, &this->executor_), \
         OPAPI(aclnn##name))

#endif  // KEEL_EMULATOR_SHIMS_ACLNN_TESTING_ACLNN_TEST_H_
