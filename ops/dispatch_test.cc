// SPDX-License-Identifier: Apache-2.0
// Tests operators through keel.h: on a backend with all operators, and on a device with few
// kernels.
#include <cstring>
#include <numeric>

#include "ops/dispatch_fixture.h"

namespace {

namespace kit = keel::kit;
using keel::testing::Call;
using keel::testing::Dispatch;
using keel::testing::integer;
using keel::testing::real;
using keel::testing::test_backend;
using keel::testing::test_device;

TEST_F(Dispatch, RunsTheBackendsKernel) {
  const keel_stream stream = stream_on(rich_);
  const uint64_t before = fallbacks();
  const keel_tensor a = tensor(stream, rich_, {3}, {1, 2, 3});
  const keel_tensor b = tensor(stream, rich_, {3}, {10, 20, 30});
  const keel_tensor c = tensor(stream, rich_, {3}, {0, 0, 0});
  Call add(KEEL_OP_ADD, {a, b}, {c});
  ASSERT_OK(keel_op_run(stream, &add.call));
  EXPECT_EQ(read(stream, rich_, c, 3), (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(fallbacks(), before);
}

TEST_F(Dispatch, GivesTheWorkspaceAskedFor) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor a = tensor(stream, poor_, {3}, {1, 2, 3});
  Call add(KEEL_OP_ADD, {a, a}, {a});
  ASSERT_OK(keel_op_run(stream, &add.call));
  ASSERT_OK(keel_op_run(stream, &add.call));
  EXPECT_EQ(read(stream, poor_, a, 3), (std::vector<float>{4, 8, 12}));
}

TEST_F(Dispatch, FallsBackToTheCpuInStreamOrder) {
  const keel_stream stream = stream_on(poor_);
  const uint64_t before = fallbacks();
  const keel_tensor x = tensor(stream, poor_, {3}, {1, 2, 3});
  Call scale(KEEL_OP_SCALE, {x}, {x}, {real(3)});
  Call add(KEEL_OP_ADD, {x, x}, {x});
  ASSERT_OK(keel_op_run(stream, &scale.call));  // on the CPU, in place
  ASSERT_OK(keel_op_run(stream, &add.call));    // on the device
  ASSERT_OK(keel_op_run(stream, &scale.call));
  EXPECT_EQ(read(stream, poor_, x, 3), (std::vector<float>{18, 36, 54}));
  EXPECT_EQ(fallbacks(), before + 2);
}

TEST_F(Dispatch, FallbackReadsOutputsThatAccumulate) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor a = tensor(stream, poor_, {2, 2}, {1, 2, 3, 4});
  const keel_tensor bias = tensor(stream, poor_, {2}, {100, 200});
  const keel_tensor c = tensor(stream, poor_, {2, 2}, {1, 1, 1, 1});
  Call matmul(KEEL_OP_MATMUL, {a, a, bias}, {c},
              {integer(0), integer(1), real(1), real(10), integer(0)});
  ASSERT_OK(keel_op_run(stream, &matmul.call));
  EXPECT_EQ(read(stream, poor_, c, 4), (std::vector<float>{115, 221, 121, 235}));
}

TEST_F(Dispatch, FallbackKeepsTheGapsOfStridedOutputs) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor x = tensor(stream, poor_, {2, 2}, {1, 2, 3, 4});
  keel_tensor y = tensor(stream, poor_, {2, 2}, {7, 7, 7, 7, 7, 7});
  y.strides[0] = 3;
  Call scale(KEEL_OP_SCALE, {x}, {y}, {real(2)});
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  keel_device cpu = {};
  ASSERT_OK(keel_device_find("cpu", &cpu));
  if (keel_op_plan_get(cpu, &scale.call, &plan) == KEEL_UNSUPPORTED) {
    expect_refused(keel_op_run(stream, &scale.call), "scale: neither", KEEL_UNSUPPORTED);
    GTEST_SKIP() << "the CPU backend has no kernel for strided tensors";
  }
  ASSERT_OK(keel_op_run(stream, &scale.call));
  EXPECT_EQ(read(stream, poor_, y, 6), (std::vector<float>{2, 4, 7, 6, 8, 7}));
}

// Tensors with gaps between rows; among the CPU's kernels, matmul takes strides.
TEST_F(Dispatch, FallbackWritesRows) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor a = tensor(stream, poor_, {2, 2}, {1, 2, 3, 4});
  const keel_tensor b = tensor(stream, poor_, {2, 2}, {1, 0, 0, 1});
  const struct {
    int64_t strides[2];
    std::vector<float> expected;
  } layouts[] = {
      {{2, 1}, {1, 2, 3, 4}},
      {{3, 1}, {1, 2, 7, 3, 4, 7}},
      {{5, 1}, {1, 2, 7, 7, 7, 3, 4, 7}},
  };
  for (const auto& layout : layouts) {
    const size_t count = layout.expected.size();
    keel_tensor c = tensor(stream, poor_, {2, 2}, std::vector<float>(count, 7));
    std::copy_n(layout.strides, 2, c.strides);
    Call matmul(KEEL_OP_MATMUL, {a, b, keel_tensor{}}, {c},
                {integer(0), integer(0), real(1), real(0), integer(0)});
    const uint64_t before = fallbacks();
    ASSERT_OK(keel_op_run(stream, &matmul.call));
    EXPECT_EQ(read(stream, poor_, c, count), layout.expected);
    EXPECT_EQ(fallbacks(), before + 1);
  }
}

TEST_F(Dispatch, FallbackOfEmptyTensors) {
  const keel_stream stream = stream_on(poor_);
  keel_tensor empty = kit::make_tensor(nullptr, KEEL_FLOAT32, {0, 3});
  Call scale(KEEL_OP_SCALE, {empty}, {empty}, {real(2)});
  ASSERT_OK(keel_op_run(stream, &scale.call));
  EXPECT_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  const keel_tensor sums = tensor(stream, poor_, {3}, {5, 5, 5});
  Call sum(KEEL_OP_SUM, {empty}, {sums}, {integer(0)});
  ASSERT_OK(keel_op_run(stream, &sum.call));
  EXPECT_EQ(read(stream, poor_, sums, 3), (std::vector<float>{0, 0, 0}));
}

TEST_F(Dispatch, ForbiddenFallbackIsRefused) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor x = tensor(stream, poor_, {2}, {1, 2});
  Call scale(KEEL_OP_SCALE, {x}, {x}, {real(3)});
  ASSERT_OK(keel_op_forbid_fallback(1));
  const uint64_t before = fallbacks();
  expect_refused(keel_op_run(stream, &scale.call), "the fallback to cpu:0 is forbidden",
                 KEEL_UNSUPPORTED);
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  expect_refused(keel_op_plan_get(poor_, &scale.call, &plan), "nothing can run scale",
                 KEEL_UNSUPPORTED);
  EXPECT_EQ(fallbacks(), before);
  EXPECT_EQ(read(stream, poor_, x, 2), (std::vector<float>{1, 2}));
}

// The CPU's kernels would silently interpret the bytes in another order.
TEST_F(Dispatch, PackedWeightsFallBackToNobody) {
  const keel_stream stream = stream_on(poor_);
  const keel_tensor b = tensor(stream, poor_, {2, 2}, {1, 2, 3, 4});
  const keel_tensor packed = tensor(stream, poor_, {64, 64}, std::vector<float>(64 * 64, 7));
  const Call pack(KEEL_OP_PACK_WEIGHTS, {b}, {packed}, {integer(0)});
  const Call multiply(KEEL_OP_PACKED_MATMUL, {b, packed, keel_tensor{}}, {b},
                      {integer(0), real(1), real(0), integer(0)});
  const keel_tensor c = tensor(stream, poor_, {2, 2}, {0, 0, 0, 0});
  const Call into_c(KEEL_OP_PACKED_MATMUL, {b, packed, keel_tensor{}}, {c},
                    {integer(0), real(1), real(0), integer(0)});
  expect_refused(keel_op_run(stream, &multiply.call), "output c: is input a",
                 KEEL_INVALID_ARGUMENT);
  const uint64_t before = fallbacks();
  for (const Call* call : {&pack, &into_c}) {
    expect_refused(keel_op_run(stream, &call->call), "another order of packed weights",
                   KEEL_UNSUPPORTED);
    keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
    expect_refused(keel_op_plan_get(poor_, &call->call, &plan), "nothing can run",
                   KEEL_UNSUPPORTED);
    const std::string text = explain(poor_, *call);
    EXPECT_EQ(text.find("staged copies"), std::string::npos);
    EXPECT_NE(text.find("has no kernel for this call, and gives no reason"), std::string::npos)
        << text;
  }
  EXPECT_EQ(fallbacks(), before);
  EXPECT_EQ(read(stream, poor_, packed, 3), (std::vector<float>{7, 7, 7}));
}

TEST_F(Dispatch, WorkBehindAGateKeepsItsCall) {
  for (keel_device device : {rich_, poor_}) {
    const keel_stream stream = stream_on(device);
    const keel_tensor x = tensor(stream, device, {2}, {1, 2});
    keel_gate gate = {};
    ASSERT_OK(keel_gate_create(&gate));
    ASSERT_OK(keel_stream_wait_gate(stream, gate));
    {
      Call scale(KEEL_OP_SCALE, {x}, {x}, {real(3)});  // a fallback on |poor_|
      Call add(KEEL_OP_ADD, {x, x}, {x});
      ASSERT_OK(keel_op_run(stream, &scale.call));
      ASSERT_OK(keel_op_run(stream, &add.call));
      // The caller's structs may change after the call.
      std::memset(static_cast<void*>(scale.inputs.data()), 0xff, sizeof(keel_tensor));
      std::memset(static_cast<void*>(add.inputs.data()), 0xff, 2 * sizeof(keel_tensor));
      scale.attributes.front() = real(1000);
    }
    EXPECT_EQ(keel_stream_query(stream), KEEL_NOT_READY);
    ASSERT_OK(keel_gate_open(gate, KEEL_OK, nullptr));
    EXPECT_EQ(read(stream, device, x, 2), (std::vector<float>{6, 12}));
    ASSERT_OK(keel_gate_destroy(gate));
  }
}

TEST_F(Dispatch, TensorsMustBeMemoryOfTheStreamsDevice) {
  const keel_stream stream = stream_on(rich_);
  const keel_stream other = stream_on(poor_);
  const keel_tensor a = tensor(stream, rich_, {3}, {1, 2, 3});
  const keel_tensor foreign = tensor(other, poor_, {3}, {1, 2, 3});
  Call of_other_device(KEEL_OP_ADD, {a, foreign}, {a});
  expect_refused(keel_op_run(stream, &of_other_device.call),
                 "add: input b: its data is not memory of " + test_device(0),
                 KEEL_INVALID_ARGUMENT);
  float host[3] = {};
  Call of_host(KEEL_OP_ADD, {a, a}, {kit::make_tensor(host, KEEL_FLOAT32, {3})});
  expect_refused(keel_op_run(stream, &of_host.call), "add: output c: its data is not memory",
                 KEEL_INVALID_ARGUMENT);
  keel_tensor beyond = a;
  beyond.byte_offset = 4;
  Call too_long(KEEL_OP_SCALE, {beyond}, {beyond}, {real(1)});
  expect_refused(keel_op_run(stream, &too_long.call),
                 "scale: input x: it reaches past its allocation", KEEL_INVALID_ARGUMENT);
  void* pinned = nullptr;
  ASSERT_OK(keel_alloc(rich_, KEEL_MEMORY_PINNED, 64, &pinned));
  memory_.emplace_back(rich_, pinned);
  Call of_pinned(KEEL_OP_ADD, {a, kit::make_tensor(pinned, KEEL_FLOAT32, {3})}, {a});
  expect_refused(keel_op_run(stream, &of_pinned.call), "add: input b: it is host memory",
                 KEEL_INVALID_ARGUMENT);
}

TEST_F(Dispatch, MalformedCallsAreRefused) {
  const keel_stream stream = stream_on(rich_);
  const keel_tensor a = tensor(stream, rich_, {3}, {1, 2, 3});
  Call add(KEEL_OP_ADD, {a, kit::make_tensor(a.data, KEEL_FLOAT32, {2})}, {a});
  expect_refused(keel_op_run(stream, &add.call), "add: input b: its shape is [2], not [3]",
                 KEEL_INVALID_ARGUMENT);
  expect_refused(keel_op_run(stream, nullptr), "call is NULL", KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_op_run({12345}, &add.call), KEEL_INVALID_HANDLE);
}

TEST_F(Dispatch, PlanAndExplainNeedNoMemory) {
  Call add(
      KEEL_OP_ADD,
      {kit::make_tensor(nullptr, KEEL_FLOAT32, {3}), kit::make_tensor(nullptr, KEEL_FLOAT32, {3})},
      {kit::make_tensor(nullptr, KEEL_FLOAT32, {3})});
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  ASSERT_OK(keel_op_plan_get(poor_, &add.call, &plan));
  EXPECT_EQ(plan.level, keel_op_level{KEEL_OP_COMPOSED});
  EXPECT_EQ(plan.score, 50u);
  EXPECT_EQ(plan.workspace_bytes, 256u);
  EXPECT_EQ(plan.fallback, 0u);
  EXPECT_EQ(plan.candidates, 2u);
  EXPECT_STREQ(plan.kernel, "add_by_workspace");
  const std::string text = explain(poor_, add);
  EXPECT_NE(text.find("add on dispatchtest:0\n1 dispatchtest:0: add_by_workspace, level composed "
                      "score 50 workspace 256\n2 cpu:0: "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("through staged copies"), std::string::npos) << text;

  Call strided(KEEL_OP_ADD, {add.inputs[0], add.inputs[1]}, {add.outputs[0]});
  strided.inputs[1].strides[0] = 2;
  EXPECT_NE(explain(poor_, strided).find("- dispatchtest:0: add: wants dense tensors\n"),
            std::string::npos)
      << explain(poor_, strided);

  Call scale(KEEL_OP_SCALE, {add.inputs[0]}, {add.outputs[0]}, {real(1)});
  ASSERT_OK(keel_op_plan_get(poor_, &scale.call, &plan));
  EXPECT_EQ(plan.fallback, 1u);
}

TEST_F(Dispatch, NamesAndNumbers) {
  keel_op_id op = 0;
  EXPECT_OK(keel_op_find("matmul", &op));
  EXPECT_EQ(op, keel_op_id{KEEL_OP_MATMUL});
  EXPECT_STREQ(keel_op_name(KEEL_OP_ADAMW), "adamw");
  EXPECT_EQ(keel_op_name(KEEL_OP_COUNT), nullptr);
  expect_refused(keel_op_find("conv2d", &op), "conv2d", KEEL_NOT_FOUND);
}

// A framework's kernel for add that writes 42s and counts its calls in |user|.
keel_status run_42(void* user, keel_stream stream, const keel_op_call* call) {
  ++*static_cast<int*>(user);
  const float value = 42;
  const keel_tensor& c = *call->outputs[0];
  return keel_fill(stream, kit::first_element(c), &value, sizeof(value), kit::span_bytes(c));
}
int accepts_small(void*, const keel_op_call* call) {
  return kit::element_count(*call->outputs[0]) < 100 ? 1 : 0;
}

TEST_F(Dispatch, CustomKernelsAreScoredWithTheOthers) {
  int calls = 0;
  const std::string backend = test_backend();
  keel_custom_kernel kernel = KEEL_STRUCT_INIT(keel_custom_kernel, KEEL_STRUCT_CUSTOM_KERNEL);
  kernel.op = KEEL_OP_ADD;
  kernel.score = 99;
  kernel.backend = backend.c_str();
  kernel.name = "forty_two";
  kernel.user = &calls;
  kernel.accepts = accepts_small;
  kernel.run = run_42;
  ASSERT_OK(keel_op_register(&kernel));
  expect_refused(keel_op_register(&kernel), "forty_two", KEEL_ALREADY_EXISTS);

  const keel_stream stream = stream_on(rich_);
  const keel_tensor a = tensor(stream, rich_, {3}, {1, 2, 3});
  const keel_tensor c = tensor(stream, rich_, {3}, {0, 0, 0});
  Call add(KEEL_OP_ADD, {a, a}, {c});
  ASSERT_OK(keel_op_run(stream, &add.call));
  EXPECT_EQ(read(stream, rich_, c, 3), (std::vector<float>{2, 4, 6}));  // 99 < 100

  kernel.score = 1000;
  kernel.name = "forty_two_again";
  ASSERT_OK(keel_op_register(&kernel));
  ASSERT_OK(keel_op_run(stream, &add.call));
  EXPECT_EQ(read(stream, rich_, c, 3), (std::vector<float>{42, 42, 42}));
  EXPECT_EQ(calls, 1);
  EXPECT_NE(
      explain(rich_, add)
          .find("1 " + test_device(0) + ": forty_two_again (custom), level native score 1000"),
      std::string::npos)
      << explain(rich_, add);

  const keel_tensor large = tensor(stream, rich_, {100}, std::vector<float>(100, 1));
  Call refused(KEEL_OP_ADD, {large, large}, {large});
  ASSERT_OK(keel_op_run(stream, &refused.call));
  EXPECT_EQ(read(stream, rich_, large, 100), std::vector<float>(100, 2));
  EXPECT_NE(explain(rich_, refused).find("forty_two_again (custom) does not accept"),
            std::string::npos);

  // For the other backend: a native custom kernel beats the plugin's composed one.
  kernel.backend = "dispatchtest";
  kernel.score = 1;
  ASSERT_OK(keel_op_register(&kernel));
  const keel_stream poor_stream = stream_on(poor_);
  const keel_tensor x = tensor(poor_stream, poor_, {3}, {1, 2, 3});
  Call poor_add(KEEL_OP_ADD, {x, x}, {x});
  ASSERT_OK(keel_op_run(poor_stream, &poor_add.call));
  EXPECT_EQ(read(poor_stream, poor_, x, 3), (std::vector<float>{42, 42, 42}));

  kernel.backend = "nobody";
  expect_refused(keel_op_register(&kernel), "nobody", KEEL_NOT_FOUND);
  kernel.backend = backend.c_str();
  kernel.op = KEEL_OP_COUNT;
  expect_refused(keel_op_register(&kernel), "no operator", KEEL_NOT_FOUND);
  kernel.op = KEEL_OP_ADD;
  kernel.accepts = nullptr;
  expect_refused(keel_op_register(&kernel), "accepts is NULL", KEEL_INVALID_ARGUMENT);
}

TEST_F(Dispatch, CustomKernelsEndWithShutdown) {
  // The kernel of the previous test would write 42s.
  const keel_stream stream = stream_on(rich_);
  const keel_tensor a = tensor(stream, rich_, {3}, {1, 2, 3});
  Call add(KEEL_OP_ADD, {a, a}, {a});
  EXPECT_EQ(explain(rich_, add).find("custom"), std::string::npos);
  ASSERT_OK(keel_op_run(stream, &add.call));
  EXPECT_EQ(read(stream, rich_, a, 3), (std::vector<float>{2, 4, 6}));
}

}  // namespace
