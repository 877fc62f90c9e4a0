// SPDX-License-Identifier: Apache-2.0
// Cleanup of a stage after a failure half-way.
#include "collectives/bridge/staging_pipeline.h"

#include <chrono>
#include <future>
#include <vector>

#include "core/api.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class StagingPipelineTest : public KeelTest {
 protected:
  static constexpr uint64_t kBytes = 32 << 10;  // too short to be measured

  void SetUp() override {
    KeelTest::SetUp();
    handle_ = load("fake", {{"devices", "1"}, {"refuse_events", "1"}}).at(0);
    ASSERT_TRUE(find_device(handle_, "device", &device_).ok());
  }
  void TearDown() override {
    device_ = nullptr;
    KeelTest::TearDown();
  }

  keel_device handle_ = {};
  Ref<Device> device_;
};

// After a failed operation the caller owns the memory again.
TEST_F(StagingPipelineTest, ACopyThatNobodyCouldBeToldOfIsWaitedFor) {
  void* const memory = alloc_filled(handle_, pattern(kBytes / 4, 1));
  const StagingPipeline::Buffer buffer = {nullptr, static_cast<char*>(memory)};
  StagingPipeline stage(*device_, 2 * kBytes, /*shared=*/false, /*urgent=*/false);
  ASSERT_TRUE(stage.prepare(/*device_copies=*/true).ok());
  for (const bool leaves : {true, false}) {
    std::future<void> settled;
    {
      const FakePause pause;
      const Status copied =
          leaves ? stage.fetch(0, buffer, 0, 0, kBytes) : stage.deliver(0, buffer, 0, 0, kBytes);
      ASSERT_EQ(copied.code(), KEEL_OUT_OF_MEMORY) << copied.text();
      settled = std::async(std::launch::async, [&] { stage.settle(); });
      EXPECT_EQ(settled.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
          << "the copy is under way";
    }
    settled.get();
  }
}

}  // namespace
}  // namespace keel::testing
