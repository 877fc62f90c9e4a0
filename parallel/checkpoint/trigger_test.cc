// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <keel/parallel/checkpoint_trigger.hpp>
#include <string>
#include <vector>

#include "parallel/testing/thread_ranks.h"

namespace keel::parallel {
namespace {

// Calls |body| on three ranks.
void on_three_ranks(const CheckpointTriggerOptions& options,
                    const std::function<void(uint32_t rank, CheckpointTrigger& trigger)>& body) {
  const std::vector<Device> devices = {Device::find("cpu:0"), Device::find("cpu:1"),
                                       Device::find("cpu:2")};
  const std::vector<std::string> failures =
      run_thread_ranks(devices, [&](uint32_t rank, Communicator& world, Device device) {
        CheckpointTrigger trigger(world, device, options);
        body(rank, trigger);
      });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(CheckpointTriggerTest, AfterSteps) {
  on_three_ranks({.every_steps = 3}, [](uint32_t, CheckpointTrigger& trigger) {
    for (int64_t step = 1; step < 8; ++step) EXPECT_EQ(trigger.is_due(step), step % 3 == 0);
  });
}

TEST(CheckpointTriggerTest, NeverWithoutAReason) {
  on_three_ranks({}, [](uint32_t, CheckpointTrigger& trigger) {
    for (int64_t step = 1; step < 4; ++step) EXPECT_FALSE(trigger.is_due(step));
  });
}

// All ranks save at one step, wherever they are when the signal comes.
TEST(CheckpointTriggerTest, ASignalIsAllRanksAtOneStep) {
  on_three_ranks({.signal = SIGUSR1}, [](uint32_t rank, CheckpointTrigger& trigger) {
    EXPECT_FALSE(trigger.is_due(1));
    if (rank == 1) raise(SIGUSR1);
    EXPECT_TRUE(trigger.is_due(2));  // no earlier than rank 1's note
    EXPECT_FALSE(trigger.is_due(3));
  });
}

TEST(CheckpointTriggerTest, OneSignalIsOneSave) {
  const std::vector<Device> devices = {Device::find("cpu:0")};
  const std::vector<std::string> failures =
      run_thread_ranks(devices, [](uint32_t, Communicator& world, Device device) {
        CheckpointTrigger trigger(world, device, {.signal = SIGUSR1});
        raise(SIGUSR1);
        EXPECT_TRUE(trigger.is_due(1));
        EXPECT_FALSE(trigger.is_due(2));
      });
  EXPECT_EQ(failures[0], "");
  struct sigaction now = {};
  sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL) << "the old handler is not back";
}

TEST(CheckpointTriggerTest, ABadSignalIsNamed) {
  const std::vector<Device> devices = {Device::find("cpu:0")};
  const std::vector<std::string> failures =
      run_thread_ranks(devices, [](uint32_t, Communicator& world, Device device) {
        CheckpointTrigger(world, device, {.signal = 1000});
      });
  EXPECT_NE(failures[0].find("signal 1000"), std::string::npos) << failures[0];
}

}  // namespace
}  // namespace keel::parallel
