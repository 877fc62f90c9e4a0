// SPDX-License-Identifier: Apache-2.0
// The calls that a training step makes a thousand times allocate nothing: no host memory is
// allocated or freed once the first calls have filled the pools.
#include <functional>
#include <vector>

#include "core/testing/host_memory.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr int kCalls = 10'000;
constexpr uint64_t kBytes = 64;

class OverheadTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load("null").at(0);
    stream_ = new_stream(device_);
    source_ = alloc(device_, kBytes);
    destination_ = alloc(device_, kBytes);
  }
  void TearDown() override {
    EXPECT_KEEL_OK(keel_free(device_, source_));
    EXPECT_KEEL_OK(keel_free(device_, destination_));
    EXPECT_KEEL_OK(keel_stream_destroy(stream_));
    KeelTest::TearDown();
  }
  // Returns the allocations of kCalls calls, after as many calls that fill the pools.
  uint64_t count(const std::function<keel_status()>& call) {
    for (int i = 0; i < kCalls; ++i) EXPECT_KEEL_OK(call());
    const uint64_t before = t_allocations;
    for (int i = 0; i < kCalls; ++i) EXPECT_KEEL_OK(call());
    return t_allocations - before;
  }
  keel_device device_ = {};
  keel_stream stream_ = {};
  void* source_ = nullptr;
  void* destination_ = nullptr;
};

TEST_F(OverheadTest, EventsAllocateNothing) {
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  EXPECT_EQ(count([&] { return keel_event_record(event, stream_); }), 0u);
  EXPECT_EQ(count([&] { return keel_event_query(event); }), 0u);
  EXPECT_EQ(count([&] { return keel_event_wait(event, kTestTimeout); }), 0u);
  EXPECT_EQ(count([&] { return keel_stream_query(stream_); }), 0u);
  EXPECT_EQ(count([&] { return keel_stream_synchronize(stream_, kTestTimeout); }), 0u);
  EXPECT_KEEL_OK(keel_event_destroy(event));
}

TEST_F(OverheadTest, CopiesAndFillsAllocateNothing) {
  EXPECT_EQ(
      count([&] { return keel_copy(stream_, device_, destination_, device_, source_, kBytes); }),
      0u);
  std::vector<char> host(kBytes);
  EXPECT_EQ(
      count([&] { return keel_copy(stream_, device_, destination_, KEEL_HOST, host.data(), 1); }),
      0u);
  EXPECT_EQ(
      count([&] { return keel_copy(stream_, KEEL_HOST, host.data(), device_, source_, kBytes); }),
      0u);
  const uint32_t pattern = 7;
  EXPECT_EQ(
      count([&] { return keel_fill(stream_, destination_, &pattern, sizeof(pattern), kBytes); }),
      0u);
}

TEST_F(OverheadTest, AllocationFromTheCacheAllocatesNothing) {
  EXPECT_EQ(count([&] {
              void* memory = nullptr;
              EXPECT_KEEL_OK(keel_alloc_on_stream(stream_, kBytes, &memory));
              return keel_free_on_stream(stream_, memory);
            }),
            0u);
}

TEST_F(OverheadTest, KernelLaunchesAllocateNothing) {
  keel_module module = {};
  ASSERT_KEEL_OK(keel_module_load(device_, KEEL_BINARY_VENDOR, "x", 1, &module));
  keel_kernel kernel = {};
  ASSERT_KEEL_OK(keel_kernel_find(module, "nothing", &kernel));
  const int64_t size = 5;
  const void* const arguments[] = {&source_, &size};
  const uint32_t sizes[] = {sizeof(source_), sizeof(size)};
  auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  for (int axis = 0; axis < 3; ++axis) launch.grid[axis] = launch.block[axis] = 1;
  launch.argument_count = 2;
  launch.arguments = arguments;
  launch.argument_sizes = sizes;
  EXPECT_EQ(count([&] { return keel_kernel_launch(stream_, kernel, &launch); }), 0u);
  EXPECT_KEEL_OK(keel_module_unload(module));
}

TEST_F(OverheadTest, OperatorsAllocateNothing) {
  keel_tensor x = {};
  x.size = sizeof(x);
  x.dtype = KEEL_FLOAT32;
  x.rank = 1;
  x.shape[0] = kBytes / sizeof(float);
  x.strides[0] = 1;
  x.data = source_;
  keel_tensor y = x;
  y.data = destination_;
  const keel_tensor* const inputs[] = {&x};
  const keel_tensor* const outputs[] = {&y};
  auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_GELU;
  const keel_attribute form = {};
  call.input_count = call.output_count = call.attribute_count = 1;
  call.attributes = &form;
  call.inputs = inputs;
  call.outputs = outputs;
  EXPECT_EQ(count([&] { return keel_op_run(stream_, &call); }), 0u);
  const keel_tensor* const two_inputs[] = {&x, &x};
  call.op = KEEL_OP_ADD;
  call.input_count = 2;
  call.attribute_count = 0;
  call.inputs = two_inputs;
  EXPECT_EQ(count([&] { return keel_op_run(stream_, &call); }), 0u);
}

}  // namespace
}  // namespace keel::testing
