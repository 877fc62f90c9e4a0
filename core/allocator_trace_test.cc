// SPDX-License-Identifier: Apache-2.0
// Replays allocation traces on a device without memory behind its addresses, and checks how much
// the allocator reserved. A paused device executes no work, like a device far behind its host:
// memory is then reused by stream order alone.
#include <map>
#include <optional>
#include <string>

#include "core/testing/allocation_traces.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr bool kIdle = false;
constexpr bool kFarBehind = true;

class AllocatorTraceTest : public KeelTest {
 protected:
  keel_memory_stats replay(const Trace& trace, bool paused) {
    const keel_device device = load("fake", {{"unbacked", "1"}, {"no_alias", "1"}}).at(0);
    const keel_stream streams[] = {new_stream(device), new_stream(device)};
    keel_gate open = {};  // holds no work back: a wait without effect
    EXPECT_KEEL_OK(keel_gate_create(&open));
    EXPECT_KEEL_OK(keel_gate_open(open, KEEL_OK, nullptr));
    std::map<uint64_t, void*> memory;
    keel_memory_stats stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    {
      std::optional<FakePause> pause;
      if (paused) pause.emplace();
      for (const TraceStep& step : trace) {
        const bool order =
            step.kind == TraceStep::Kind::kWork || step.kind == TraceStep::Kind::kWaitFor;
        if (order && !paused) continue;  // all work is done before the host looks
        const keel_stream stream = streams[step.stream];
        switch (step.kind) {
          case TraceStep::Kind::kAlloc:
            EXPECT_KEEL_OK(keel_alloc_on_stream(stream, step.size, &memory[step.id]));
            break;
          case TraceStep::Kind::kFree:
            EXPECT_KEEL_OK(keel_free_on_stream(stream, memory.at(step.id)));
            memory.erase(step.id);
            break;
          case TraceStep::Kind::kWork:
            EXPECT_KEEL_OK(keel_stream_wait_gate(stream, open));
            break;
          case TraceStep::Kind::kWaitFor: {
            const keel_event event = record(streams[step.id]);
            EXPECT_KEEL_OK(keel_stream_wait_event(stream, event));
            EXPECT_KEEL_OK(keel_event_destroy(event));
          }
        }
      }
      EXPECT_KEEL_OK(keel_memory_stats_get(device, &stats));
    }
    for (const keel_stream stream : streams) {
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
    for (const auto& [id, pointer] : memory) EXPECT_KEEL_OK(keel_free(device, pointer));
    EXPECT_KEEL_OK(keel_memory_trim(device));
    auto after = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    EXPECT_KEEL_OK(keel_memory_stats_get(device, &after));
    EXPECT_EQ(after.reserved, 0u) << "all was free and idle";
    EXPECT_EQ(after.native_allocs, after.native_frees);
    return stats;
  }

  void expect_tight(const Trace& trace, bool paused, double limit) {
    ASSERT_FALSE(trace.empty());
    const keel_memory_stats stats = replay(trace, paused);
    const double ratio =
        static_cast<double>(stats.reserved_peak) / static_cast<double>(stats.allocated_peak);
    EXPECT_GE(ratio, 1.0);
    EXPECT_LE(ratio, limit);
    RecordProperty("reserved_to_allocated", std::to_string(ratio));
  }
};

TEST_F(AllocatorTraceTest, TrainingStep) {
  expect_tight(gpt2_training(3), kIdle, 1.10);
}

TEST_F(AllocatorTraceTest, TrainingStepFarBehind) {
  expect_tight(gpt2_training(3), kFarBehind, 1.10);
}

TEST_F(AllocatorTraceTest, VariableLengths) {
  expect_tight(variable_lengths(40), kIdle, 1.10);
}

TEST_F(AllocatorTraceTest, TwoStreams) {
  expect_tight(two_streams(3), kIdle, 1.10);
}

// Three steps of which the device has executed nothing: no segment can be returned, and memory
// freed by one stream is not merged with memory of the other. 1.14 when written.
TEST_F(AllocatorTraceTest, TwoStreamsFarBehind) {
  expect_tight(two_streams(3), kFarBehind, 1.15);
}

// Programs that allocate all memory at once, or hold little: the last segment of each size class
// dominates.
TEST_F(AllocatorTraceTest, RecordedTraining) {
  // 1.17 when written: 163 MiB in 32 blocks, each in a somewhat larger segment.
  expect_tight(recorded_training(), kIdle, 1.20);
}

TEST_F(AllocatorTraceTest, RecordedConformance) {
  const Trace trace = recorded_conformance();
  ASSERT_GT(trace.size(), 1000u);
  const keel_memory_stats stats = replay(trace, kIdle);
  EXPECT_GT(stats.cache_hits * 10, stats.allocations * 9);
  constexpr uint64_t kSegment = 2 << 20;
  EXPECT_LE(stats.reserved_peak, stats.allocated_peak + 2 * kSegment);
}

}  // namespace
}  // namespace keel::testing
