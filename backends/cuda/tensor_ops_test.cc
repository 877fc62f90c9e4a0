// SPDX-License-Identifier: Apache-2.0
// Operators over tensors of any strides on the emulated chip: what conformance leaves undefined,
// and must not end the program.
#include <cstdint>
#include <keel/keel.hpp>
#include <limits>
#include <vector>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

class CudaTensorOpsTest : public CudaFixture {
 protected:
  void SetUp() override {
    CudaFixture::SetUp();
    device_ = Device(load_cuda(driver_).at(0));
  }

  template <typename T>
  Buffer upload(Stream& stream, const std::vector<T>& values) {
    Buffer buffer = Buffer::of<T>(device_, values.size());
    stream.upload(buffer, std::span<const T>(values));
    return buffer;
  }

  // Whether the device's own kernel runs the call.
  bool is_native(const OpCall& call) { return call.plan(device_).fallback == 0; }

  const OwnDriver driver_;
  Device device_;
};

TEST_F(CudaTensorOpsTest, DivisionOfIntegersNeverTraps) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> as = {7, -7, 0, kLowest, kLowest, 9};
  const std::vector<int64_t> bs = {0, 0, 0, 0, -1, 2};
  const auto count = static_cast<int64_t>(as.size());
  Stream stream(device_);
  const Buffer a = upload(stream, as);
  const Buffer b = upload(stream, bs);
  const Buffer y = Buffer::of<int64_t>(device_, as.size());
  const auto quotient = [&](ops::ElementwiseFunction function) {
    const keel_tensor a_tensor = a.tensor<int64_t>({count});
    const keel_tensor b_tensor = b.tensor<int64_t>({count});
    const keel_tensor y_tensor = y.tensor<int64_t>({count});
    const OpCall call(
        ops::Elementwise{.a = a_tensor, .b = b_tensor, .y = y_tensor, .function = function});
    EXPECT_TRUE(is_native(call));
    call.run(stream);
    std::vector<int64_t> result(as.size());
    stream.download(std::span<int64_t>(result), y);
    stream.synchronize();
    return result.back();
  };
  EXPECT_EQ(quotient(ops::ElementwiseFunction::kDiv), 4);
  EXPECT_EQ(quotient(ops::ElementwiseFunction::kFloorDiv), 4);
  EXPECT_EQ(quotient(ops::ElementwiseFunction::kRemainder), 1);
  EXPECT_EQ(quotient(ops::ElementwiseFunction::kFmod), 1);
  EXPECT_EQ(quotient(ops::ElementwiseFunction::kPow), 81);
}

// Numbers beyond the range of an integer type give an unspecified integer.
TEST_F(CudaTensorOpsTest, FloatsBeyondIntegersConvert) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> xs = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                                 1e30F,     -2.75F,     3.0F};
  const auto count = static_cast<int64_t>(xs.size());
  Stream stream(device_);
  const Buffer x = upload(stream, xs);
  const Buffer y = Buffer::of<int8_t>(device_, xs.size());
  const keel_tensor x_tensor = x.tensor<float>({count});
  const keel_tensor y_tensor = y.tensor<int8_t>({count});
  const OpCall call(
      ops::Elementwise{.a = x_tensor, .y = y_tensor, .function = ops::ElementwiseFunction::kCopy});
  EXPECT_TRUE(is_native(call));
  call.run(stream);
  std::vector<int8_t> result(xs.size());
  stream.download(std::span<int8_t>(result), y);
  stream.synchronize();
  EXPECT_EQ(result[4], -2);
  EXPECT_EQ(result[5], 3);
}

// The bounds that a clamp without bounds has.
TEST_F(CudaTensorOpsTest, InfiniteBoundsLeaveIntegersAsTheyAre) {
  const std::vector<int32_t> xs = {std::numeric_limits<int32_t>::min(), -1, 0,
                                   std::numeric_limits<int32_t>::max()};
  const auto count = static_cast<int64_t>(xs.size());
  Stream stream(device_);
  const Buffer x = upload(stream, xs);
  const Buffer y = Buffer::of<int32_t>(device_, xs.size());
  const keel_tensor x_tensor = x.tensor<int32_t>({count});
  const keel_tensor y_tensor = y.tensor<int32_t>({count});
  ops::Elementwise clamp{
      .a = x_tensor, .y = y_tensor, .function = ops::ElementwiseFunction::kClamp};
  clamp.b_number = -std::numeric_limits<double>::infinity();
  clamp.c_number = std::numeric_limits<double>::infinity();
  const OpCall call(clamp);
  EXPECT_TRUE(is_native(call));
  call.run(stream);
  std::vector<int32_t> result(xs.size());
  stream.download(std::span<int32_t>(result), y);
  stream.synchronize();
  EXPECT_EQ(result, xs);
}

// One line of many elements is divided among threads by the places that its indices name.
TEST_F(CudaTensorOpsTest, ALongScatterKeepsTheOrderOfItsIndices) {
  constexpr int32_t kCount = 3001;
  constexpr int32_t kPlaces = 257;
  std::vector<int32_t> values(kCount);
  std::vector<int32_t> indices(kCount);
  std::vector<int32_t> last(kPlaces, -1);
  std::vector<int32_t> sum(kPlaces, -1);
  for (int32_t i = 0; i < kCount; ++i) {
    values[i] = i;
    indices[i] = i * 7 % (kPlaces + 2) - 1;
    if (indices[i] < 0 || indices[i] >= kPlaces) continue;
    last[indices[i]] = i;
    sum[indices[i]] += i;
  }
  Stream stream(device_);
  const Buffer x = upload(stream, values);
  const Buffer index = upload(stream, indices);
  const keel_tensor x_tensor = x.tensor<int32_t>({kCount});
  const keel_tensor index_tensor = index.tensor<int32_t>({kCount});
  for (const bool add : {false, true}) {
    const Buffer y = upload(stream, std::vector<int32_t>(kPlaces, -1));
    const keel_tensor y_tensor = y.tensor<int32_t>({kPlaces});
    const OpCall call(
        ops::Scatter{.x = x_tensor, .index = index_tensor, .y = y_tensor, .add = add});
    EXPECT_TRUE(is_native(call));
    call.run(stream);
    std::vector<int32_t> result(kPlaces);
    stream.download(std::span<int32_t>(result), y);
    stream.synchronize();
    EXPECT_EQ(result, add ? sum : last);
  }
}

}  // namespace
}  // namespace keel::testing
