// SPDX-License-Identifier: Apache-2.0
// Instances, devices, kernels and operators through the validation layer.
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "core/validation/testing/checked_test.h"

namespace keel::validation::testing {
namespace {

class CheckedDevice : public CheckedTest {
 protected:
  keel_status info(keel_device_info* out_info) {
    *out_info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    return device().info(instance_, 0, out_info);
  }
  // Checks for the problem |text| in the plugin's info after |edit|.
  ::testing::AssertionResult info_problem(std::function<void(keel_device_info*)> edit,
                                          const char* text) {
    stub().edit_info = std::move(edit);
    keel_device_info answer;
    EXPECT_EQ(info(&answer), KEEL_OK);
    stub().edit_info = nullptr;
    return found(text);
  }
};

TEST_F(CheckedDevice, InfoThatLies) {
  EXPECT_TRUE(
      info_problem([](keel_device_info* info) { info->capabilities |= KEEL_CAPABILITY_CCL; },
                   "claims KEEL_CAPABILITY_CCL without the slots for it"));
  EXPECT_TRUE(info_problem([](keel_device_info* info) { info->capabilities |= uint64_t{1} << 40; },
                           "out_info->capabilities has unknown bits 0x10000000000"));
  EXPECT_TRUE(info_problem([](keel_device_info* info) { info->type = 77; },
                           "out_info->type 77 is no type of device"));
  EXPECT_TRUE(info_problem([](keel_device_info* info) { info->header.size = 8; },
                           "changed out_info.header to size 8"));
  EXPECT_TRUE(info_problem(
      [](keel_device_info* info) { std::memset(info->driver, 'x', sizeof(info->driver)); },
      "out_info->driver has no end within its 128 bytes"));
  EXPECT_TRUE(info_problem([](keel_device_info* info) { *reinterpret_cast<char*>(info + 1) = 1; },
                           "wrote past the"));
  keel_device_info answer;
  EXPECT_EQ(info(&answer), KEEL_OK);
  EXPECT_STREQ(answer.name, "stub");
  EXPECT_TRUE(clean());
}

TEST_F(CheckedDevice, CountsAndOrdinals) {
  uint32_t count = 0;
  stub().silent.insert("count");
  EXPECT_EQ(device().count(instance_, &count), KEEL_INTERNAL);
  EXPECT_TRUE(found("left *out_count unset"));
  keel_plugin_device* opened = nullptr;
  EXPECT_EQ(device().open(instance_, 2, &opened), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("ordinal is 2, there are 2 devices"));
  EXPECT_EQ(device().open(instance_, 1, &opened), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("device 1 is open already"));
  uint64_t free = 0;
  uint64_t total = 0;
  EXPECT_EQ(device().memory_info(device_, &free, &total), KEEL_OK);
  EXPECT_TRUE(found("2000 bytes are free of 1000 in all"));
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  EXPECT_EQ(device().health(device_, &health), KEEL_OK);
  EXPECT_TRUE(found("out_health->text has no end"));
}

TEST_F(CheckedDevice, ClosesOnlyWhenNothingIsLeft) {
  void* block = nullptr;
  ASSERT_EQ(memory().alloc(other_device_, KEEL_MEMORY_DEVICE, 4096, 0, &block), KEEL_OK);
  device().close(other_device_);
  const auto problems = take_problems();
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[0].find("stub:1: device.close: a stream is left, made at"), std::string::npos)
      << problems[0];
  EXPECT_NE(problems[1].find("an allocation of 4096 bytes"), std::string::npos) << problems[1];
  EXPECT_EQ(stub().calls["close"], 0);
  EXPECT_EQ(memory().free(other_device_, KEEL_MEMORY_DEVICE, block), KEEL_OK) << "it is open still";
  plugin_->destroy_instance(instance_);
  EXPECT_TRUE(found("stub: destroy_instance: 2 of its devices are open"));
  EXPECT_EQ(stub().calls["destroy_instance"], 0);
}

TEST_F(CheckedDevice, ALostDeviceMayBeGivenUp) {
  char* const block = alloc(1024);
  ASSERT_EQ(copy(block, block + 512, 512), KEEL_OK);
  stub().work = KEEL_DEVICE_LOST;
  EXPECT_EQ(stream().query(stream_), KEEL_DEVICE_LOST);
  void* other = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &other), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, other), KEEL_OK);
  EXPECT_TRUE(clean());
}

// ---- kernels ---------------------------------------------------------------------

TEST_F(CheckedDevice, KernelsLiveWithTheirModule) {
  keel_plugin_module* module = nullptr;
  EXPECT_EQ(kernel().load(device_, 0, "x", 1, &module), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("format 0 is no format of binaries"));
  EXPECT_EQ(kernel().load(device_, KEEL_BINARY_VENDOR, nullptr, 1, &module), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("data is NULL"));
  ASSERT_EQ(kernel().load(device_, KEEL_BINARY_VENDOR, "x", 1, &module), KEEL_OK);
  keel_plugin_kernel* found_kernel = nullptr;
  ASSERT_EQ(kernel().find(module, "scale", &found_kernel), KEEL_OK);

  uint32_t value = 1;
  const void* arguments[] = {&value};
  uint32_t sizes[] = {sizeof(value)};
  auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  EXPECT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("launch->grid[0] is 0"));
  for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = launch.block[axis] = 1;
  launch.argument_count = 1;
  EXPECT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("launch->arguments is NULL"));
  launch.arguments = arguments;
  launch.argument_sizes = sizes;
  EXPECT_EQ(kernel().launch(other_stream_, found_kernel, &launch), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("kernel scale is of stub:0, stream of stub:1"));
  EXPECT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_OK);
  arguments[0] = nullptr;
  EXPECT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("launch->arguments[0] is NULL"));
  EXPECT_EQ(stub().calls["launch"], 1);

  kernel().unload(module);
  arguments[0] = &value;
  EXPECT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_INVALID_HANDLE);
  EXPECT_TRUE(found("is not a live handle"));
}

TEST_F(CheckedDevice, ALaunchUsesTheMemoryItIsGiven) {
  keel_plugin_module* module = nullptr;
  keel_plugin_kernel* found_kernel = nullptr;
  ASSERT_EQ(kernel().load(device_, KEEL_BINARY_VENDOR, "x", 1, &module), KEEL_OK);
  ASSERT_EQ(kernel().find(module, "scale", &found_kernel), KEEL_OK);
  void* block = nullptr;
  ASSERT_EQ(memory().alloc(device_, KEEL_MEMORY_DEVICE, 64, 0, &block), KEEL_OK);
  const void* arguments[] = {&block};
  const uint32_t sizes[] = {sizeof(block)};
  auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = launch.block[axis] = 1;
  launch.argument_count = 1;
  launch.arguments = arguments;
  launch.argument_sizes = sizes;
  ASSERT_EQ(kernel().launch(stream_, found_kernel, &launch), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, block), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("kernel.launch uses it"));
  ASSERT_EQ(stream().synchronize(stream_, 0), KEEL_OK);
  EXPECT_EQ(memory().free(device_, KEEL_MEMORY_DEVICE, block), KEEL_OK);
  kernel().unload(module);
}

// ---- operators -------------------------------------------------------------------

class CheckedOp : public CheckedTest {
 protected:
  void SetUp() override {
    CheckedTest::SetUp();
    input_ = kit::make_tensor(alloc(4096), KEEL_FLOAT32, {16, 16});
    output_ = kit::make_tensor(alloc(4096), KEEL_FLOAT32, {16, 16});
    call_.op = KEEL_OP_GELU;
    call_.input_count = 1;
    call_.output_count = 1;
    call_.attribute_count = 1;
    call_.inputs = inputs_;
    call_.outputs = outputs_;
    call_.attributes = &form_;
  }
  keel_status run(void* workspace = nullptr) { return op().run(stream_, &call_, workspace); }

  keel_tensor input_ = {};
  keel_tensor output_ = {};
  const keel_tensor* inputs_[1] = {&input_};
  const keel_tensor* outputs_[1] = {&output_};
  const keel_attribute form_ = {};
  keel_op_call call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
};

TEST_F(CheckedOp, TensorsLieInLiveMemory) {
  EXPECT_EQ(run(), KEEL_OK);
  input_.byte_offset = 3500;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("stub:0: op.run: an input"));
  input_.byte_offset = 0;
  input_.rank = 9;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("input 0: rank is 9"));
  input_.rank = 2;
  input_.strides[0] = -1;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("input 0: strides[0] is -1"));
  input_.strides[0] = 16;
  output_.dtype = 99;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("output 0: dtype 99 is none"));
  output_.dtype = KEEL_FLOAT32;
  output_.data = static_cast<char*>(input_.data) + 64;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("output 0 overlaps a part of input 0"));
  output_.data = input_.data;
  EXPECT_EQ(run(), KEEL_OK) << "in place";
  call_.op = KEEL_OP_COUNT;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("is no operator"));
  EXPECT_EQ(stub().calls["op.run"], 2);
}

TEST_F(CheckedOp, RunsWhatWasPromised) {
  stub().support_level = KEEL_OP_NONE;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("the plugin has no kernel for this call"));
  stub().support_level = KEEL_OP_NATIVE;
  stub().answers["op.run"] = KEEL_UNSUPPORTED;
  EXPECT_EQ(run(), KEEL_UNSUPPORTED);
  EXPECT_TRUE(found("the plugin promised to run this call of op 8 and returned KEEL_UNSUPPORTED"));
  stub().answers["op.run"] = KEEL_OUT_OF_MEMORY;
  EXPECT_EQ(run(), KEEL_OUT_OF_MEMORY);
  EXPECT_TRUE(clean()) << "for want of a resource";
  auto support = KEEL_STRUCT_INIT(keel_op_support, KEEL_STRUCT_OP_SUPPORT);
  stub().silent.insert("op.query");
  EXPECT_EQ(op().query(device_, &call_, &support), KEEL_INTERNAL);
  EXPECT_TRUE(found("which is none"));
}

TEST_F(CheckedOp, TheWorkspaceIsAsLargeAsAskedFor) {
  stub().workspace_bytes = 1024;
  EXPECT_EQ(run(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("workspace is NULL"));
  EXPECT_EQ(run(alloc(512)), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("+ 1024 reaches past its allocation of 512"));
  EXPECT_EQ(run(alloc(1024)), KEEL_OK);
}

}  // namespace
}  // namespace keel::validation::testing
