// SPDX-License-Identifier: Apache-2.0
// Tests repeated operator calls, and changes that must invalidate remembered ones.
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "ops/dispatch_fixture.h"

namespace {

namespace kit = keel::kit;
using keel::testing::Call;
using keel::testing::Dispatch;
using keel::testing::real;

class OpCallCache : public Dispatch {
 protected:
  void SetUp() override {
    Dispatch::SetUp();
    const std::string path = keel::testing::plugin_path("dispatch_test_plugin");
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library_, nullptr) << dlerror();
    asked_ = reinterpret_cast<uint64_t (*)()>(dlsym(library_, "keel_dispatch_test_queries"));
    ASSERT_NE(asked_, nullptr) << dlerror();
    stream_ = stream_on(poor_);
    x_ = tensor(stream_, poor_, {3}, {1, 2, 3});
    y_ = tensor(stream_, poor_, {3}, {10, 20, 30});
    out_ = tensor(stream_, poor_, {3}, {0, 0, 0});
  }
  void TearDown() override {
    Dispatch::TearDown();
    dlclose(library_);
  }

  // out = alpha x + y.
  Call axpy(double alpha = 2) { return Call(KEEL_OP_AXPY, {x_, y_}, {out_}, {real(alpha)}); }
  std::vector<float> result() { return read(stream_, poor_, out_, 3); }
  // Runs |call| and expects |queries| queries to the plugin.
  void run(const Call& call, uint64_t queries) {
    const uint64_t before = asked_();
    EXPECT_OK(keel_op_run(stream_, &call.call));
    if (remembers()) {
      EXPECT_EQ(asked_() - before, queries);
    }
  }
  // False where the cache is off: under the validation layer, which sees each call and makes its
  // own queries; and where the kernel does not fence all threads (docs/decisions/018), which the
  // thread sanitizer would not know of.
  static bool remembers() {
#if defined(__SANITIZE_THREAD__)
    return false;
#else
    const char* const validate = std::getenv("KEEL_VALIDATE");
    const long fences = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return (validate == nullptr || *validate == '0') && fences > 0 &&
           (fences & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
#endif
  }

  void* library_ = nullptr;
  uint64_t (*asked_)() = nullptr;
  keel_stream stream_ = {};
  keel_tensor x_ = {}, y_ = {}, out_ = {};
};

TEST_F(OpCallCache, ThePluginIsAskedOnce) {
  const Call call = axpy();
  run(call, 1);
  EXPECT_EQ(result(), (std::vector<float>{12, 24, 36}));
  const std::vector<float> other = {-1, 0, 1};
  EXPECT_OK(keel_copy(stream_, poor_, x_.data, KEEL_HOST, other.data(), 12));
  // The same call in other structs: contents count, not addresses.
  const Call again = axpy();
  run(again, 0);
  EXPECT_EQ(result(), (std::vector<float>{8, 20, 32}));
}

TEST_F(OpCallCache, AnAttributeOrAShapeThatDiffersIsAskedForAndTaken) {
  const Call call = axpy();
  EXPECT_OK(keel_op_run(stream_, &call.call));
  run(axpy(-1), 1);
  EXPECT_EQ(result(), (std::vector<float>{9, 18, 27}));
  Call shorter = axpy(1);
  for (keel_tensor* each : {&shorter.inputs[0], &shorter.inputs[1], &shorter.outputs[0]}) {
    each->shape[0] = 2;
  }
  run(shorter, 1);
  EXPECT_EQ(result(), (std::vector<float>{11, 22, 27}));
}

TEST_F(OpCallCache, WhatIsWrongIsRefusedThoughTheCallBeforeWasRight) {
  const Call right = axpy();
  const auto refused = [&](const char* text, const auto& spoil,
                           keel_status want = KEEL_INVALID_ARGUMENT) {
    EXPECT_OK(keel_op_run(stream_, &right.call));
    Call wrong = axpy();
    spoil(wrong);
    expect_refused(keel_op_run(stream_, &wrong.call), text, want);
  };
  refused("axpy: input x: size", [](Call& call) { call.inputs[0].size = 8; });
  refused("axpy: input x", [](Call& call) { call.inputs[0].dtype = 99; });
  refused("axpy: input y: rank", [](Call& call) { call.inputs[1].rank = 99; });
  refused("axpy: input y", [](Call& call) { call.inputs[1].strides[0] = -1; });
  refused("axpy: output out", [](Call& call) { call.outputs[0].shape[0] = 4; });
  refused("axpy: input x: data is NULL", [](Call& call) { call.inputs[0].data = nullptr; });
  refused("axpy: input x: its data is not memory",
          [](Call& call) { call.inputs[0].data = &call.inputs[0]; });
  refused("axpy: output out", [](Call& call) { call.outputs[0].byte_offset = 2; });
  refused("axpy: 1 inputs", [](Call& call) { call.call.input_count = 1; });
  refused("axpy: 0 attributes", [](Call& call) { call.call.attribute_count = 0; });
  refused("axpy: an array", [](Call& call) { call.call.inputs = nullptr; });
  refused("axpy: an array", [](Call& call) { call.call.outputs = nullptr; });
  refused("axpy: an array", [](Call& call) { call.call.attributes = nullptr; });
  refused("axpy: input y: is NULL", [](Call& call) { call.pointers[1] = nullptr; });
  refused("axpy: output out: is NULL", [](Call& call) { call.pointers[2] = nullptr; });
  refused("call: its header", [](Call& call) { call.call.header.size = 8; });
  refused("call: its header", [](Call& call) { call.call.header.type = 1; });
  refused(
      "operator", [](Call& call) { call.call.op = KEEL_OP_COUNT; }, KEEL_NOT_FOUND);
  keel_header required = {sizeof(required), KEEL_STRUCT_REQUIRED | 99, nullptr};
  refused(
      "required extension", [&](Call& call) { call.call.header.next = &required; },
      KEEL_UNSUPPORTED);
  EXPECT_OK(keel_op_run(stream_, &right.call));
}

TEST_F(OpCallCache, MemoryThatIsGoneIsNotUsed) {
  void* data = nullptr;
  ASSERT_OK(keel_alloc(poor_, KEEL_MEMORY_DEVICE, 12, &data));
  const keel_tensor gone = kit::make_tensor(data, KEEL_FLOAT32, {3});
  const Call call(KEEL_OP_AXPY, {x_, y_}, {gone}, {real(1)});
  EXPECT_OK(keel_op_run(stream_, &call.call));
  EXPECT_OK(keel_op_run(stream_, &call.call));
  ASSERT_OK(keel_free(poor_, data));
  expect_refused(keel_op_run(stream_, &call.call), "output out", KEEL_INVALID_ARGUMENT);
}

TEST_F(OpCallCache, ACallOfOneDeviceIsNoneOfAnother) {
  const Call call = axpy();
  EXPECT_OK(keel_op_run(stream_, &call.call));
  expect_refused(keel_op_run(stream_on(rich_), &call.call), "input x", KEEL_INVALID_ARGUMENT);
}

keel_status run_nothing(void* user, keel_stream, const keel_op_call*) {
  ++*static_cast<int*>(user);
  return KEEL_OK;
}
int accepts_after_first(void* user, const keel_op_call*) {
  return *static_cast<int*>(user) > 0 ? 1 : 0;
}

TEST_F(OpCallCache, ACustomKernelThatComesLaterIsChosen) {
  const Call call = axpy();
  EXPECT_OK(keel_op_run(stream_, &call.call));
  int runs = 0;
  keel_custom_kernel kernel = KEEL_STRUCT_INIT(keel_custom_kernel, KEEL_STRUCT_CUSTOM_KERNEL);
  kernel.op = KEEL_OP_AXPY;
  kernel.score = 1000;
  kernel.backend = "dispatchtest";
  kernel.name = "nothing";
  kernel.user = &runs;
  kernel.accepts = accepts_after_first;
  kernel.run = run_nothing;
  ASSERT_OK(keel_op_register(&kernel));
  // The kernel declines the call but may accept it later: nothing is remembered.
  EXPECT_OK(keel_op_run(stream_, &call.call));
  EXPECT_EQ(0, runs);
  runs = 1;
  EXPECT_OK(keel_op_run(stream_, &call.call));
  EXPECT_EQ(2, runs);
}

TEST_F(OpCallCache, ACallWithAWorkspaceIsNotRemembered) {
  const Call call(KEEL_OP_ADD, {x_, y_}, {out_});
  run(call, 1);
  run(call, 1);
}

}  // namespace
