// SPDX-License-Identifier: Apache-2.0
#include "emulator/reference_kernel.h"

#include <cmath>
#include <keel/plugin_kit.hpp>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

class ReferenceKernelTest : public EmulatorTest {
 protected:
  explicit ReferenceKernelTest(const DeviceOptions& options = {})
      : device_(make_device(options)), stream_(make_stream(device_)) {}

  // Creates a float32 tensor on the device.
  keel_tensor tensor(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
    const Address address = alloc(*device_, values.size() * 4);
    expect_ok(stream_->copy_from_host(address, values.data(), values.size() * 4));
    return kit::make_tensor(reinterpret_cast<void*>(address), KEEL_FLOAT32, shape);
  }
  std::vector<float> floats(const keel_tensor& tensor, size_t count) {
    std::vector<float> values(count);
    expect_ok(stream_->copy_to_host(values.data(), address_of(tensor.data), count * 4));
    expect_ok(stream_->synchronize(test_timeout()));
    return values;
  }
  static keel_op_call make_call(keel_op_id op, std::vector<const keel_tensor*>* tensors) {
    keel_op_call call = {};
    call.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
    call.op = op;
    call.input_count = static_cast<uint32_t>(tensors->size()) - 1;
    call.output_count = 1;
    call.inputs = tensors->data();
    call.outputs = tensors->data() + call.input_count;
    return call;
  }

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
};

TEST_F(ReferenceKernelTest, RunsInStreamOrderOnItsOwnCopyOfTheCall) {
  const keel_tensor a = tensor({3}, {1, 2, 3});
  const keel_tensor c = tensor({3}, {0, 0, 0});
  const auto gate = close_gate(*stream_);
  {
    std::vector<const keel_tensor*> tensors = {&a, &a, &c};
    keel_op_call add = make_call(KEEL_OP_ADD, &tensors);
    ASSERT_TRUE(reference_takes(add));
    expect_ok(launch_reference(*stream_, add));
    tensors = {&c, &a, &c};  // in place
    add = make_call(KEEL_OP_ADD, &tensors);
    expect_ok(launch_reference(*stream_, add));
    std::fill(tensors.begin(), tensors.end(), nullptr);
  }
  open(*gate);
  EXPECT_EQ(floats(c, 3), (std::vector<float>{3, 6, 9}));
}

TEST_F(ReferenceKernelTest, KeepsTheGapsOfStridedOutputs) {
  const keel_tensor x = tensor({2, 2}, {1, 2, 3, 4});
  keel_tensor y = tensor({2, 2}, {7, 7, 7, 7, 7, 7});
  y.strides[0] = 3;
  std::vector<const keel_tensor*> tensors = {&x, &x, &y};
  expect_ok(launch_reference(*stream_, make_call(KEEL_OP_ADD, &tensors)));
  EXPECT_EQ(floats(y, 6), (std::vector<float>{2, 4, 7, 6, 8, 7}));
}

TEST_F(ReferenceKernelTest, EmptyTensorsNeedNoMemory) {
  const keel_tensor empty = kit::make_tensor(nullptr, KEEL_FLOAT32, {0});
  std::vector<const keel_tensor*> tensors = {&empty, &empty, &empty};
  expect_ok(launch_reference(*stream_, make_call(KEEL_OP_ADD, &tensors)));
  expect_ok(stream_->synchronize(test_timeout()));
}

TEST_F(ReferenceKernelTest, ATensorBeyondItsMemoryFailsTheStream) {
  keel_tensor a = tensor({3}, {1, 2, 3});
  a.byte_offset = 4;
  std::vector<const keel_tensor*> tensors = {&a, &a, &a};
  expect_ok(launch_reference(*stream_, make_call(KEEL_OP_ADD, &tensors)));
  expect_fails(Code::kIllegalAddress, "12 bytes", stream_->synchronize(test_timeout()));
}

TEST_F(ReferenceKernelTest, TakesOnlyWhatTheSchemaAllows) {
  const keel_tensor a = kit::make_tensor(nullptr, KEEL_FLOAT32, {3});
  const keel_tensor b = kit::make_tensor(nullptr, KEEL_FLOAT32, {2});
  std::vector<const keel_tensor*> tensors = {&a, &b, &a};
  EXPECT_FALSE(reference_takes(make_call(KEEL_OP_ADD, &tensors)));
  tensors[1] = &a;
  EXPECT_TRUE(reference_takes(make_call(KEEL_OP_ADD, &tensors)));
  EXPECT_FALSE(reference_takes(make_call(KEEL_OP_CUSTOM_BASE, &tensors)));
}

class UncomputedKernelTest : public ReferenceKernelTest {
 protected:
  UncomputedKernelTest() : ReferenceKernelTest(options()) {}

 private:
  static DeviceOptions options() {
    DeviceOptions options;
    options.computes = false;
    return options;
  }
};

TEST_F(UncomputedKernelTest, PoisonsTheOutputsElementsAlone) {
  const keel_tensor x = tensor({2, 2}, {1, 2, 3, 4});
  keel_tensor y = tensor({2, 2}, {7, 7, 7, 7, 7, 7});
  y.strides[0] = 3;
  std::vector<const keel_tensor*> tensors = {&x, &x, &y};
  expect_ok(launch_reference(*stream_, make_call(KEEL_OP_ADD, &tensors)));
  const std::vector<float> values = floats(y, 6);
  for (const size_t poisoned : {0, 1, 3, 4}) EXPECT_TRUE(std::isnan(values[poisoned]));
  for (const size_t kept : {2, 5}) EXPECT_EQ(values[kept], 7);
  EXPECT_EQ(floats(x, 4), (std::vector<float>{1, 2, 3, 4}));  // copies move their bytes
}

TEST_F(UncomputedKernelTest, ChecksAddressesAllTheSame) {
  keel_tensor a = tensor({3}, {1, 2, 3});
  a.byte_offset = 4;
  std::vector<const keel_tensor*> tensors = {&a, &a, &a};
  expect_ok(launch_reference(*stream_, make_call(KEEL_OP_ADD, &tensors)));
  expect_fails(Code::kIllegalAddress, "12 bytes", stream_->synchronize(test_timeout()));
}

}  // namespace
}  // namespace keel::emulator
