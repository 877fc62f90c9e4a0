// SPDX-License-Identifier: Apache-2.0
// Gradients of normalisations through the ABI: the inputs that sums over all rows depend on.
#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

constexpr int64_t kRows = 1543;  // many slices, and a short one at the end
constexpr int64_t kColumns = 515;

// The concatenated dx, dgamma and dbeta on a device of |cores| cores.
std::vector<float> layer_norm_gradients(const char* cores) {
  const Machine machine({{"devices", "1"}, {"cores", cores}});
  const StreamHandle stream(machine.device());
  const auto tensor = [&](std::initializer_list<int64_t> shape, uint32_t seed) {
    DeviceTensor result(machine.device(), KEEL_FLOAT32, shape);
    upload(stream, result.data(), random_values(result.count(), seed));
    return result;
  };
  const DeviceTensor dy = tensor({kRows, kColumns}, 1), x = tensor({kRows, kColumns}, 2);
  const DeviceTensor gamma = tensor({kColumns}, 3), mean = tensor({kRows}, 4);
  const DeviceTensor rstd = tensor({kRows}, 5), dx = tensor({kRows, kColumns}, 6);
  const DeviceTensor dgamma = tensor({kColumns}, 7), dbeta = tensor({kColumns}, 8);
  const keel_tensor* inputs[] = {dy, x, gamma, mean, rstd};
  const keel_tensor* outputs[] = {dx, dgamma, dbeta};
  const keel_op_call call = {kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL),
                             KEEL_OP_LAYER_NORM_BACKWARD,
                             5,
                             3,
                             0,
                             inputs,
                             outputs,
                             nullptr};
  keel_op_support support = {};
  support.header = kit::header<keel_op_support>(KEEL_STRUCT_OP_SUPPORT);
  EXPECT_EQ(plugin().op->query(machine.device(), &call, &support), KEEL_OK);
  const Buffer workspace(machine.device(), support.workspace_bytes);
  EXPECT_EQ(plugin().op->run(stream, &call, workspace.get()), KEEL_OK);
  EXPECT_EQ(stream.synchronize(), KEEL_OK);
  std::vector<float> all;
  for (const DeviceTensor* each : {&dx, &dgamma, &dbeta}) {
    const auto values = download<float>(stream, each->data(), each->count());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(CpuNorm, GradientsDoNotDependOnTheNumberOfCores) {
  const std::vector<float> one = layer_norm_gradients("1");
  EXPECT_EQ(one, layer_norm_gradients("2"));
  EXPECT_EQ(one, layer_norm_gradients("3"));
}

// The mean is half a unit in the last place away from its float32 rounding, as much as the elements
// deviate from the mean.
TEST_P(CpuOps, LayerNormOfLargeOffsetsKeepsWhatTheMeanIsRoundedBy) {
  const DeviceTensor x = floats({2, 4}, {100000, 100000, 100000, 100000,  //
                                         100000, 100000.0078125f, 100000, 100000.0078125f});
  const DeviceTensor gamma = floats({4}, {1, 1, 1, 1}), y = floats({2, 4}, std::vector<float>(8));
  const DeviceTensor mean = floats({2}, {0, 0}), rstd = floats({2}, {0, 0});
  run(KEEL_OP_LAYER_NORM, {x, gamma, nullptr}, {y, mean, rstd}, {real(1e-5)});
  const double deviation = 0.5 / 128;
  const double scale = 1 / std::sqrt(deviation * deviation + 1e-5);
  const double want[] = {0, 0, 0, 0, -1, 1, -1, 1};
  const std::vector<float> got = values(y);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], want[i] * deviation * scale, 1e-6) << i;
  EXPECT_NEAR(values(rstd)[0], 316.2278, 1e-3);
  EXPECT_NEAR(values(rstd)[1], scale, 1e-3);
}

TEST_P(CpuOps, NormsOfWhatFloat32HasNoSquaresOf) {
  for (const float size : {0x1p127f, 0x1p64f, 0x1p-64f, 0x1p-100f}) {
    SCOPED_TRACE(size);
    const DeviceTensor x = floats({1, 4}, {size, -size, size, -size});
    const DeviceTensor gamma = floats({4}, {1, 2, 3, 4}), y = floats({1, 4}, {0, 0, 0, 0});
    const DeviceTensor mean = floats({1}, {7}), rstd = floats({1}, {7});
    const std::vector<float> want = {1, -2, 3, -4};
    run(KEEL_OP_LAYER_NORM, {x, gamma, nullptr}, {y, mean, rstd}, {real(0)});
    EXPECT_EQ(values(y), want);
    EXPECT_EQ(values(mean)[0], 0);
    EXPECT_EQ(values(rstd)[0], 1 / size);
    run(KEEL_OP_RMS_NORM, {x, gamma}, {y, rstd}, {real(0)});
    EXPECT_EQ(values(y), want);
    EXPECT_EQ(values(rstd)[0], 1 / size);
  }
}

TEST_P(CpuOps, GradientsOfNoRowsAreZero) {
  DeviceTensor empty(device(), KEEL_FLOAT32, {0, 3}), rstd(device(), KEEL_FLOAT32, {0});
  const DeviceTensor gamma = floats({3}, {1, 2, 3}), dgamma = floats({3}, {4, 5, 6});
  DeviceTensor x(device(), KEEL_FLOAT32, {0, 3}), dx(device(), KEEL_FLOAT32, {0, 3});
  run(KEEL_OP_RMS_NORM_BACKWARD, {empty, x, gamma, rstd}, {dx, dgamma});
  EXPECT_EQ(values(dgamma), std::vector<float>(3, 0.0f));
}

TEST_P(CpuOps, StridedRowsAreRefusedNotMisread) {
  DeviceTensor x(device(), KEEL_FLOAT32, {4, 4}), y(device(), KEEL_FLOAT32, {4, 4});
  const keel_tensor* none = nullptr;
  EXPECT_EQ(query(KEEL_OP_SOFTMAX, {x, none}, {y}, {real(1), integer(0)}).level, KEEL_OP_NATIVE);
  x.view().strides[0] = 1;
  x.view().strides[1] = 4;
  EXPECT_EQ(query(KEEL_OP_SOFTMAX, {x, none}, {y}, {real(1), integer(0)}).level, KEEL_OP_NONE);
}

}  // namespace
}  // namespace keel::cpu::testing
