// SPDX-License-Identifier: Apache-2.0
// Tests operators of a CPU device on memory of others, as used to step optimizer state that does
// not fit a GPU.
#include <cmath>

#include "ops/dispatch_fixture.h"

namespace {

namespace kit = keel::kit;
using keel::testing::Call;
using keel::testing::Dispatch;
using keel::testing::integer;
using keel::testing::real;

constexpr int64_t kCount = 1001;

class HostMemory : public Dispatch {
 protected:
  void SetUp() override {
    Dispatch::SetUp();
    ASSERT_OK(keel_device_find("cpu", &cpu_));
    stream_ = stream_on(cpu_);
  }
  void TearDown() override {
    for (void* const pointer : registered_) EXPECT_OK(keel_host_unregister(cpu_, pointer));
    Dispatch::TearDown();
  }

  void enroll(void* pointer, uint64_t bytes) {
    ASSERT_OK(keel_host_register(cpu_, pointer, bytes));
    registered_.push_back(pointer);
  }

  // Runs one AdamW step of |p|, |g|, |m|, |v| after clipping by |norm|.
  void step(keel_tensor p, keel_tensor g, keel_tensor m, keel_tensor v, keel_tensor norm,
            keel_tensor found) {
    const keel_tensor none = {};
    Call sum(KEEL_OP_SUM_OF_SQUARES, {g, none}, {norm, found});
    Call clip(KEEL_OP_CLIP, {g, norm}, {g}, {real(1)});
    Call adamw(KEEL_OP_ADAMW, {p, g, m, v}, {p, m, v},
               {real(0.01), real(0.9), real(0.99), real(1e-8), real(0.1), integer(1), real(1)});
    for (Call* const call : {&sum, &clip, &adamw}) ASSERT_OK(keel_op_run(stream_, &call->call));
    ASSERT_OK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
  }

  keel_device cpu_ = {};
  keel_stream stream_ = {};
  std::vector<void*> registered_;
};

std::vector<float> waves(double length) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) / length));
  }
  return values;
}

TEST_F(HostMemory, AnOptimizersStepInRegisteredMemoryIsTheSameAsInTheDevices) {
  std::vector<float> p = waves(3), g = waves(5), m(kCount), v(kCount), norm(1);
  int32_t found = -1;

  const keel_tensor device_p = tensor(stream_, cpu_, {kCount}, p);
  const keel_tensor device_m = tensor(stream_, cpu_, {kCount}, m);
  const keel_tensor device_v = tensor(stream_, cpu_, {kCount}, v);
  keel_tensor device_found = tensor(stream_, cpu_, {1}, {-1});
  device_found.dtype = KEEL_INT32;
  device_found.rank = 0;
  keel_tensor device_norm = tensor(stream_, cpu_, {1}, norm);
  device_norm.rank = 0;
  step(device_p, tensor(stream_, cpu_, {kCount}, g), device_m, device_v, device_norm, device_found);

  const auto on_host = [&](std::vector<float>& values) {
    enroll(values.data(), values.size() * sizeof(float));
    return kit::make_tensor(values.data(), KEEL_FLOAT32, {kCount});
  };
  enroll(&found, sizeof(found));
  enroll(norm.data(), sizeof(float));
  step(on_host(p), on_host(g), on_host(m), on_host(v),
       kit::make_tensor(norm.data(), KEEL_FLOAT32, {}), kit::make_tensor(&found, KEEL_INT32, {}));

  EXPECT_EQ(found, 0);
  EXPECT_GT(norm[0], 100);
  EXPECT_EQ(p, read(stream_, cpu_, device_p, kCount));
  EXPECT_EQ(m, read(stream_, cpu_, device_m, kCount));
  EXPECT_EQ(v, read(stream_, cpu_, device_v, kCount));
  EXPECT_NE(p, waves(3));
}

TEST_F(HostMemory, PinnedMemoryOfAnotherDeviceServesOnceItIsRegistered) {
  void* pinned = nullptr;
  ASSERT_OK(keel_alloc(rich_, KEEL_MEMORY_PINNED, 3 * sizeof(float), &pinned));
  memory_.emplace_back(rich_, pinned);
  auto* const values = static_cast<float*>(pinned);
  for (int i = 0; i < 3; ++i) values[i] = static_cast<float>(i + 1);
  const keel_tensor x = kit::make_tensor(pinned, KEEL_FLOAT32, {3});
  Call scale(KEEL_OP_SCALE, {x}, {x}, {real(3)});
  EXPECT_EQ(keel_op_run(stream_, &scale.call), KEEL_INVALID_ARGUMENT);
  enroll(pinned, 3 * sizeof(float));
  ASSERT_OK(keel_op_run(stream_, &scale.call));
  ASSERT_OK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
  EXPECT_EQ(std::vector<float>(values, values + 3), (std::vector<float>{3, 6, 9}));
}

TEST_F(HostMemory, WhatIsNotRegisteredIsRefused) {
  std::vector<float> values = {1, 2, 3, 4};
  const keel_tensor inside = kit::make_tensor(values.data(), KEEL_FLOAT32, {3});
  const keel_tensor beyond = kit::make_tensor(values.data() + 1, KEEL_FLOAT32, {3});
  Call good(KEEL_OP_SCALE, {inside}, {inside}, {real(2)});
  Call bad(KEEL_OP_SCALE, {beyond}, {beyond}, {real(2)});
  expect_refused(keel_op_run(stream_, &good.call), "scale: input x: its data is not memory of cpu",
                 KEEL_INVALID_ARGUMENT);
  ASSERT_OK(keel_host_register(cpu_, values.data(), 3 * sizeof(float)));
  ASSERT_OK(keel_op_run(stream_, &good.call));
  expect_refused(keel_op_run(stream_, &bad.call), "scale: input x: its data is not memory of cpu",
                 KEEL_INVALID_ARGUMENT);
  ASSERT_OK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
  ASSERT_OK(keel_host_unregister(cpu_, values.data()));
  expect_refused(keel_op_run(stream_, &good.call), "scale: input x: its data is not memory of cpu",
                 KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(values, (std::vector<float>{2, 4, 6, 4}));
}

// A device other than the CPU must copy the memory first.
TEST_F(HostMemory, IsNotForOtherDevices) {
  std::vector<float> values = {1, 2, 3};
  enroll(values.data(), values.size() * sizeof(float));
  const keel_tensor x = kit::make_tensor(values.data(), KEEL_FLOAT32, {3});
  Call add(KEEL_OP_ADD, {x, x}, {x});
  expect_refused(keel_op_run(stream_on(poor_), &add.call), "add: input a: its data is not memory",
                 KEEL_INVALID_ARGUMENT);
}

}  // namespace
