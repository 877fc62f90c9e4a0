// SPDX-License-Identifier: Apache-2.0
// Tests wrong arguments to every operator function of keel.h: each returns a status with a text
// that names the argument, and the runtime continues to work.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <keel/plugin_kit.hpp>
#include <string>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

class OpApi : public testing::Test {
 protected:
  static constexpr int64_t kCount = 16;

  static void SetUpTestSuite() {
    keel::testing::set_test_devices(2);
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    const std::string backend = keel::testing::test_backend();
    options.backends = backend.c_str();
    ASSERT_EQ(KEEL_OK, keel_init(&options)) << keel_last_error();
  }
  static void TearDownTestSuite() { EXPECT_EQ(KEEL_OK, keel_shutdown()); }

  void SetUp() override {
    for (uint32_t i = 0; i < 2; ++i) {
      ASSERT_EQ(KEEL_OK, keel_device_get(i, &devices_[i]));
      ASSERT_EQ(KEEL_OK, keel_alloc(devices_[i], KEEL_MEMORY_DEVICE, kCount * 4, &memory_[i]));
      tensors_[i] = keel::kit::make_tensor(memory_[i], KEEL_FLOAT32, {kCount});
    }
    ASSERT_EQ(KEEL_OK, keel_stream_create(devices_[0], 0, &stream_));
    call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call_.op = KEEL_OP_ADD;
    call_.input_count = 2;
    call_.output_count = 1;
    call_.inputs = inputs_;
    call_.outputs = outputs_;
  }
  void TearDown() override {
    // The stream still works after every test.
    inputs_[0] = inputs_[1] = outputs_[0] = &tensors_[0];
    EXPECT_EQ(KEEL_OK, keel_op_run(stream_, &call_)) << keel_last_error();
    EXPECT_EQ(KEEL_OK, keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
    EXPECT_EQ(KEEL_OK, keel_stream_destroy(stream_));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(KEEL_OK, keel_free(devices_[i], memory_[i]));
  }

  keel_device devices_[2] = {};
  void* memory_[2] = {};
  keel_tensor tensors_[2] = {};
  keel_stream stream_ = {};
  const keel_tensor* inputs_[2] = {&tensors_[0], &tensors_[0]};
  const keel_tensor* outputs_[1] = {&tensors_[0]};
  keel_op_call call_ = {};
};

TEST_F(OpApi, HandlesThatAreNone) {
  keel_event event;
  ASSERT_EQ(KEEL_OK, keel_event_create(0, &event));
  keel_stream destroyed;
  ASSERT_EQ(KEEL_OK, keel_stream_create(devices_[0], 0, &destroyed));
  ASSERT_EQ(KEEL_OK, keel_stream_destroy(destroyed));
  auto plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  uint64_t size = 0;
  for (const uint64_t id : {uint64_t{0}, event.id, destroyed.id, UINT64_MAX}) {
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "stream", keel_op_run({id}, &call_));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "device", keel_op_plan_get({id}, &call_, &plan));
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "device", keel_op_explain({id}, &call_, nullptr, &size));
  }
  EXPECT_EQ(KEEL_OK, keel_event_destroy(event));
}

TEST_F(OpApi, NullArguments) {
  auto plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  uint64_t size = 0;
  keel_op_id op = KEEL_OP_INVALID;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "call", keel_op_run(stream_, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "call", keel_op_plan_get(devices_[0], nullptr, &plan));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_plan", keel_op_plan_get(devices_[0], &call_, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "call",
               keel_op_explain(devices_[0], nullptr, nullptr, &size));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "in_out_size",
               keel_op_explain(devices_[0], &call_, nullptr, nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "name", keel_op_find(nullptr, &op));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_op", keel_op_find("add", nullptr));
  EXPECT_FAILS(KEEL_NOT_FOUND, "addd", keel_op_find("addd", &op));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "kernel", keel_op_register(nullptr));
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "out_count", keel_op_fallback_count(nullptr));
  EXPECT_EQ(nullptr, keel_op_name(9999));
}

TEST_F(OpApi, AStreamOfOneDeviceWithMemoryOfAnother) {
  if (memory_[0] == memory_[1]) {
    GTEST_SKIP() << "the devices use equal addresses: the other's memory is this one's too";
  }
  inputs_[1] = &tensors_[1];
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "input b", keel_op_run(stream_, &call_));
  inputs_[1] = &tensors_[0];
  outputs_[0] = &tensors_[1];
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "output", keel_op_run(stream_, &call_));
}

TEST_F(OpApi, TensorsThatReachPastTheirMemory) {
  keel_tensor longer = keel::kit::make_tensor(memory_[0], KEEL_FLOAT32, {kCount + 1});
  inputs_[0] = inputs_[1] = outputs_[0] = &longer;
  EXPECT_NE(KEEL_OK, keel_op_run(stream_, &call_));
  EXPECT_NE(std::string(keel_last_error()).find("input a"), std::string::npos) << keel_last_error();
  float on_host[kCount] = {};
  keel_tensor host = keel::kit::make_tensor(on_host, KEEL_FLOAT32, {kCount});
  inputs_[0] = &host;
  inputs_[1] = outputs_[0] = &tensors_[0];
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "input a", keel_op_run(stream_, &call_));
}

}  // namespace
