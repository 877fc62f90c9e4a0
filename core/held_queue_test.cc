// SPDX-License-Identifier: Apache-2.0
#include "core/held_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace keel {
namespace {

HeldItem wait_for(const Ref<Gate>& gate, uint64_t position) {
  return {Step::Kind::kWaitGate, position, {}, {}, gate, {}};
}

HeldItem work(uint64_t position, int* out_runs) {
  const auto run = [out_runs](keel_plugin_stream*) -> Status {
    ++*out_runs;
    return {};
  };
  return {Step::Kind::kWork, position, run, {}, {}, {}};
}

TEST(HeldQueueTest, ItemsLeaveInOrderWithTheirArguments) {
  HeldQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.head_gate());
  const Ref<Gate> gate = make_ref<Gate>();
  int runs = 0;
  queue.push(wait_for(gate, 1));
  queue.push(work(2, &runs));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.head_gate().get(), gate.get());
  EXPECT_FALSE(queue.ends_with(*gate));
  EXPECT_EQ(queue.pop().position, 1u);
  EXPECT_FALSE(queue.head_gate());
  EXPECT_TRUE(queue.pop().work(nullptr).ok());
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(queue.empty());
  queue.push(wait_for(gate, 3));
  EXPECT_TRUE(queue.ends_with(*gate));
}

// The next head registers with its own gate or event.
TEST(HeldQueueTest, PopForgetsTheWakerOfTheHead) {
  HeldQueue queue;
  const Ref<Gate> gate = make_ref<Gate>();
  queue.push(wait_for(gate, 1));
  EXPECT_FALSE(queue.is_parked_on(gate.get()));
  queue.park_on(gate.get());
  EXPECT_TRUE(queue.is_parked_on(gate.get()));
  queue.pop();
  EXPECT_FALSE(queue.is_parked_on(gate.get()));
}

TEST(HeldQueueTest, StepNamesTheItem) {
  const Ref<Gate> gate = make_ref<Gate>();
  EXPECT_EQ(wait_for(gate, 1).step().kind, Step::Kind::kWaitGate);
  EXPECT_EQ(wait_for(gate, 1).step().serial, gate->serial());
  HeldItem copy = work(2, nullptr);
  EXPECT_EQ(copy.step().serial, 0u) << "no observer was set";
  copy.observed = std::make_unique<const ObservedWork>(ObservedWork{"copy", 7, {}});
  EXPECT_EQ(copy.step().serial, 7u);
  EXPECT_STREQ(copy.step().name, "copy");
}

}  // namespace
}  // namespace keel
