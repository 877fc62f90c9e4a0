// SPDX-License-Identifier: Apache-2.0
// When the allocator reuses freed memory, on devices that execute no work while paused.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSize = 4096;       // shares a segment with other blocks
constexpr uint64_t kLarge = 4 * kMiB;  // has its own segment

class AllocatorTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    use(load(GetParam(), {{"devices", "1"}}).at(0));
  }
  // Loads a device with |mib| MiB of memory.
  keel_device load_with_memory(uint64_t mib) {
    const bool is_sim = GetParam() == std::string("sim_paused");
    return load(GetParam(),
                {{"devices", "1"},
                 {is_sim ? "memory_mib" : "memory", std::to_string(is_sim ? mib : mib * kMiB)}})
        .at(0);
  }
  void use(keel_device device) {
    device_ = device;
    first_ = new_stream(device);
    second_ = new_stream(device);
    third_ = new_stream(device);
  }

  void* alloc_on(keel_stream stream, uint64_t size = kSize) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc_on_stream(stream, size, &pointer));
    return pointer;
  }
  // Allocates memory and enqueues work on it on |stream|.
  void* used_by(keel_stream stream, uint64_t size = kSize) {
    void* pointer = alloc_on(stream, size);
    EXPECT_KEEL_OK(fill(stream, pointer, 1, 4));
    return pointer;
  }
  void order(keel_stream before, keel_stream after) {
    const keel_event event = record(before);
    EXPECT_KEEL_OK(keel_stream_wait_event(after, event));
    EXPECT_KEEL_OK(keel_event_destroy(event));
  }
  keel_gate new_gate() {
    keel_gate gate = {};
    EXPECT_KEEL_OK(keel_gate_create(&gate));
    return gate;
  }
  void synchronize(keel_stream stream) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  }
  keel_memory_stats stats() {
    auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    EXPECT_KEEL_OK(keel_memory_stats_get(device_, &stats));
    return stats;
  }

  keel_device device_ = {};
  keel_stream first_ = {};
  keel_stream second_ = {};
  keel_stream third_ = {};
};

// ---- reuse ----------------------------------------------------------------------

TEST_P(AllocatorTest, TheSameStreamReusesAtOnce) {
  const FakePause pause;
  for (const uint64_t size : {uint64_t{1}, kSize, kLarge}) {
    void* memory = used_by(first_, std::max<uint64_t>(size, 16));
    ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
    EXPECT_EQ(alloc_on(first_, std::max<uint64_t>(size, 16)), memory);
  }
}

TEST_P(AllocatorTest, AnotherStreamReusesOnceItHasWaited) {
  const FakePause pause;
  void* memory = used_by(first_);
  order(first_, second_);  // before the last use: no order
  ASSERT_KEEL_OK(fill(first_, memory, 2, 4));
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  EXPECT_NE(alloc_on(second_), memory);
  order(first_, second_);
  EXPECT_EQ(alloc_on(second_), memory);
}

TEST_P(AllocatorTest, OrderIsInherited) {
  const FakePause pause;
  void* memory = used_by(first_);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  order(second_, third_);  // before the second stream waits
  order(first_, second_);
  EXPECT_NE(alloc_on(third_), memory);
  order(second_, third_);
  EXPECT_EQ(alloc_on(third_), memory);
}

TEST_P(AllocatorTest, WhatIsOverIsFreeForAll) {
  void* memory = nullptr;
  {
    const FakePause pause;
    memory = used_by(first_);
    ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
    EXPECT_NE(alloc_on(second_), memory);
    EXPECT_NE(alloc(device_, kSize), memory) << "for any stream, also one that has not waited";
  }
  synchronize(first_);
  EXPECT_EQ(alloc(device_, kSize), memory);
}

TEST_P(AllocatorTest, APlainFreeCoversEveryStream) {
  void* memory = nullptr;
  {
    const FakePause pause;
    memory = alloc(device_, kSize);  // belongs to no stream
    ASSERT_KEEL_OK(fill(first_, memory, 1, 4));
    ASSERT_KEEL_OK(fill(second_, static_cast<char*>(memory) + 16, 2, 4));
    ASSERT_KEEL_OK(keel_free(device_, memory));
    EXPECT_NE(alloc_on(first_), memory) << "the second still uses it";
    EXPECT_NE(alloc_on(second_), memory) << "and the first";
    order(first_, second_);
    EXPECT_EQ(alloc_on(second_), memory);
  }
  synchronize(second_);
}

// Work enqueued after the free does not hold the block back.
TEST_P(AllocatorTest, ItIsThePointOfTheFreeThatCounts) {
  const keel_gate gate = new_gate();
  void* memory = nullptr;
  keel_event passed = {};
  {
    const FakePause pause;
    memory = used_by(first_, kLarge);
    ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
    EXPECT_NE(alloc_on(second_, kLarge), memory);  // the stream now records fences
    passed = record(first_);
    ASSERT_KEEL_OK(keel_stream_wait_gate(first_, gate));
  }
  ASSERT_KEEL_OK(keel_event_wait(passed, kTestTimeout));
  EXPECT_EQ(alloc_on(second_, kLarge), memory);
  EXPECT_EQ(keel_stream_query(first_), KEEL_NOT_READY);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  synchronize(first_);
}

// A failed stream drops its held waits: the end of its work then proves nothing about the streams
// that it would have waited for.
TEST_P(AllocatorTest, AFailureDoesNotFreeWhatTheStreamWouldHaveWaitedFor) {
  const keel_gate slow = new_gate();
  const keel_gate broken = new_gate();
  void* memory = alloc_on(first_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(second_, slow));
  ASSERT_KEEL_OK(fill(second_, memory, 2, 4));
  ASSERT_KEEL_OK(keel_stream_wait_gate(first_, broken));
  order(second_, first_);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  ASSERT_KEEL_OK(keel_gate_open(broken, KEEL_ABORTED, "given up"));
  EXPECT_EQ(keel_stream_synchronize(first_, kTestTimeout), KEEL_ABORTED);
  ASSERT_KEEL_OK(keel_stream_recover(first_, kTestTimeout));
  EXPECT_NE(alloc_on(first_), memory);
  EXPECT_NE(alloc(device_, kSize), memory);
  ASSERT_KEEL_OK(keel_gate_open(slow, KEEL_OK, nullptr));
  synchronize(second_);
  EXPECT_EQ(alloc(device_, kSize), memory);
}

// Taken by stream order on one stream, freed unused on another.
TEST_P(AllocatorTest, UnusedMemoryKeepsItsHistory) {
  const FakePause pause;
  void* memory = used_by(first_);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  ASSERT_EQ(alloc_on(first_), memory);
  ASSERT_KEEL_OK(keel_free_on_stream(second_, memory));
  EXPECT_NE(alloc_on(second_), memory) << "the first stream's fill is not over";
}

TEST_P(AllocatorTest, MemoryOutlivesTheStreamItWasFreedOn) {
  void* memory = used_by(first_);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  ASSERT_KEEL_OK(keel_stream_destroy(first_));
  EXPECT_EQ(alloc(device_, kSize), memory);
}

TEST_P(AllocatorTest, EitherFormFreesEither) {
  void* plain = alloc(device_, kSize);
  void* ordered = alloc_on(first_);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, plain));
  ASSERT_KEEL_OK(keel_free(device_, ordered));
  EXPECT_EQ(stats().live_blocks, 0u);
  EXPECT_KEEL_OK(keel_free_on_stream(first_, nullptr));
  EXPECT_EQ(keel_free_on_stream(first_, plain), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_free_on_stream({77}, plain), KEEL_INVALID_HANDLE);
  EXPECT_EQ(keel_alloc_on_stream(first_, 1, nullptr), KEEL_INVALID_ARGUMENT);
}

// ---- blocks ---------------------------------------------------------------------

TEST_P(AllocatorTest, BlocksAreCutAndJoined) {
  std::vector<void*> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(alloc(device_, kMiB / 2));
  EXPECT_EQ(stats().native_allocs, 1u) << "of 2 MiB";
  EXPECT_EQ(stats().reserved, 2 * kMiB);
  EXPECT_EQ(stats().splits, 3u);
  for (void* quarter : quarters) ASSERT_KEEL_OK(keel_free(device_, quarter));
  for (int i = 0; i < 2; ++i) alloc(device_, kMiB);
  EXPECT_EQ(stats().native_allocs, 1u);
  EXPECT_GE(stats().merges, 2u);
}

TEST_P(AllocatorTest, TheSmallestFitIsTaken) {
  void* large = alloc(device_, 64 << 10);
  alloc(device_, 512);  // keeps the two apart
  void* small = alloc(device_, 32 << 10);
  alloc(device_, 512);
  ASSERT_KEEL_OK(keel_free(device_, small));
  ASSERT_KEEL_OK(keel_free(device_, large));
  EXPECT_EQ(alloc(device_, 20 << 10), small);
  EXPECT_EQ(alloc(device_, 40 << 10), large);
}

TEST_P(AllocatorTest, AllocationsDoNotOverlap) {
  std::map<uintptr_t, uint64_t> live;
  std::vector<void*> order;
  uint64_t state = 7;
  for (int i = 0; i < 4000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (order.size() > 200 || (!order.empty() && state >> 62 == 0)) {
      const size_t victim = (state >> 20) % order.size();
      ASSERT_KEEL_OK(keel_free(device_, order[victim]));
      live.erase(reinterpret_cast<uintptr_t>(order[victim]));
      order[victim] = order.back();
      order.pop_back();
      continue;
    }
    const uint64_t size = 1 + (state >> 33) % (uint64_t{1} << (1 + (state >> 58) % 21));
    void* memory = alloc(device_, size);
    const auto start = reinterpret_cast<uintptr_t>(memory);
    EXPECT_EQ(start % 64, 0u);
    const auto next = live.upper_bound(start);
    if (next != live.end()) {
      ASSERT_LE(start + size, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, start);
    }
    live[start] = size;
    order.push_back(memory);
  }
  uint64_t requested = 0;
  for (const auto& [start, size] : live) requested += size;
  EXPECT_EQ(stats().requested, requested);
  EXPECT_EQ(stats().live_blocks, live.size());
  for (void* memory : order) ASSERT_KEEL_OK(keel_free(device_, memory));
  ASSERT_KEEL_OK(keel_memory_trim(device_));
  EXPECT_EQ(stats().reserved, 0u);
}

TEST_P(AllocatorTest, StatisticsCount) {
  void* one = alloc(device_, 1000);
  void* other = alloc(device_, 3 * kMiB);
  keel_memory_stats now = stats();
  EXPECT_EQ(now.requested, 1000 + 3 * kMiB);
  EXPECT_EQ(now.allocated, 1024 + 3 * kMiB);
  EXPECT_EQ(now.reserved, 2 * kMiB + 4 * kMiB);
  EXPECT_EQ(now.live_blocks, 2u);
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.cache_hits, 0u);
  EXPECT_EQ(now.native_allocs, 2u);
  ASSERT_KEEL_OK(keel_free(device_, other));
  ASSERT_KEEL_OK(keel_free(device_, one));
  EXPECT_EQ(stats().allocated, 0u);
  EXPECT_EQ(stats().allocated_peak, 1024 + 3 * kMiB);
  alloc(device_, 1000);
  EXPECT_EQ(stats().cache_hits, 1u);
  ASSERT_KEEL_OK(keel_memory_trim(device_));
  ASSERT_KEEL_OK(keel_memory_stats_reset_peaks(device_));
  now = stats();
  EXPECT_EQ(now.native_frees, 1u) << "the large segment is idle, the small one is not";
  EXPECT_EQ(now.allocated_peak, 1024u);
  EXPECT_EQ(now.reserved_peak, 2 * kMiB);
}

// ---- out of memory ----------------------------------------------------------------

TEST_P(AllocatorTest, TellsWhatTookTheMemory) {
  use(load_with_memory(8));
  alloc(device_, kLarge);
  void* half = alloc(device_, kLarge);
  void* memory = nullptr;
  ASSERT_EQ(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory), KEEL_OUT_OF_MEMORY);
  const std::string text = keel_last_error();
  for (const char* part :
       {"3145728 bytes asked for", "8388608 bytes are allocated in 2 blocks", "8388608 reserved"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(stats().out_of_memory, 1u);
  ASSERT_KEEL_OK(keel_free(device_, half));
  EXPECT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory));
}

TEST_P(AllocatorTest, WaitsForWorkThatWillGiveMemoryBack) {
  use(load_with_memory(kLarge / kMiB));
  std::optional<FakePause> pause(std::in_place);
  void* memory = used_by(first_, kLarge);
  ASSERT_KEEL_OK(keel_free_on_stream(first_, memory));
  std::thread device([&] {
    while (stats().out_of_memory == 0) std::this_thread::yield();
    pause.reset();
  });
  EXPECT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory));
  device.join();
}

TEST_P(AllocatorTest, DoesNotWaitInAHostCallback) {
  use(load_with_memory(kLarge / kMiB));
  std::promise<void> is_paused;
  std::promise<keel_status> allocated;
  std::function<void()> allocate = [&] {
    is_paused.get_future().wait();
    void* memory = nullptr;
    allocated.set_value(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory));
  };
  ASSERT_KEEL_OK(keel_stream_on_done(
      second_, [](void* user, keel_status) { (*static_cast<std::function<void()>*>(user))(); },
      &allocate));
  synchronize(second_);
  const FakePause pause;
  ASSERT_KEEL_OK(keel_free_on_stream(first_, used_by(first_, kLarge)));
  is_paused.set_value();
  std::future<keel_status> status = allocated.get_future();
  ASSERT_EQ(status.wait_for(std::chrono::nanoseconds(kTestTimeout)), std::future_status::ready);
  EXPECT_EQ(status.get(), KEEL_OUT_OF_MEMORY);
}

TEST_P(AllocatorTest, DoesNotWaitForAClosedGate) {
  use(load_with_memory(kLarge / kMiB));
  const keel_gate gate = new_gate();
  void* memory = alloc(device_, kLarge);
  ASSERT_KEEL_OK(keel_stream_wait_gate(first_, gate));
  ASSERT_KEEL_OK(fill(first_, memory, 1, 4));
  ASSERT_KEEL_OK(keel_free(device_, memory));
  // The allocating thread may be the one that would open the gate.
  EXPECT_EQ(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory), KEEL_OUT_OF_MEMORY);
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  EXPECT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, 3 * kMiB, &memory));
}

// Only for the fake device: the emulated chip reports no largest allocation.
using LargestAllocationTest = AllocatorTest;

TEST_P(LargestAllocationTest, IsNotRefusedForItsRounding) {
  constexpr uint64_t kMost = 3'000'001;
  use(load(GetParam(), {{"max_alloc", std::to_string(kMost)}}).at(0));
  for (const uint64_t size : {kMost, kMost - 1, kMost - 600, uint64_t{1100} << 10}) {
    void* memory = nullptr;
    ASSERT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, size, &memory)) << size;
    EXPECT_KEEL_OK(fill(first_, static_cast<char*>(memory) + size / 4 * 4 - 4, 1, 1));
    synchronize(first_);
    ASSERT_KEEL_OK(keel_free(device_, memory));
  }
  void* memory = nullptr;
  EXPECT_EQ(keel_alloc(device_, KEEL_MEMORY_DEVICE, kMost + 1, &memory), KEEL_OUT_OF_MEMORY);
}

// ---- threads ----------------------------------------------------------------------

// A thread that has cached a pointer's look-up notices that another thread freed the pointer.
TEST_P(AllocatorTest, LookUpsOfOtherThreadsNoticeAFree) {
  void* memory = alloc(device_, kSize);
  std::atomic<int> stage{0};
  std::thread looker([&] {
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    EXPECT_KEEL_OK(keel_memory_find(device_, memory, &info));
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    EXPECT_EQ(keel_memory_find(device_, memory, &info), KEEL_NOT_FOUND);
    stage = 3;
    while (stage != 4) std::this_thread::yield();
    EXPECT_KEEL_OK(keel_memory_find(device_, memory, &info));
    EXPECT_EQ(info.size, kSize - 1);
  });
  while (stage != 1) std::this_thread::yield();
  EXPECT_KEEL_OK(keel_free(device_, memory));
  stage = 2;
  while (stage != 3) std::this_thread::yield();
  EXPECT_EQ(alloc(device_, kSize - 1), memory);
  stage = 4;
  looker.join();
}

// Each thread fills its blocks and reads them back on its own streams, while all threads take
// memory from each other.
TEST_P(AllocatorTest, ThreadsShareTheCache) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 150;
  std::vector<std::thread> threads;
  for (uint32_t index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      const keel_stream stream = new_stream(device_);
      uint32_t received = 0;
      for (uint32_t round = 0; round < kRounds; ++round) {
        const uint64_t size = 512 << (round + index) % 5;
        const bool ordered = round % 3 != 0;
        void* memory = ordered ? alloc_on(stream, size) : alloc(device_, size);
        const uint32_t value = index << 16 | round;
        EXPECT_KEEL_OK(fill(stream, memory, value, size / 4));
        EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, &received, device_,
                                 static_cast<char*>(memory) + size - 4, 4));
        if (round % 2 == 0) {
          EXPECT_KEEL_OK(keel_free_on_stream(stream, memory));
        } else {
          EXPECT_KEEL_OK(keel_free(device_, memory));
        }
        if (round % 16 == 0) {
          EXPECT_KEEL_OK(keel_memory_trim(device_));
        }
        EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
        EXPECT_EQ(received, value);
      }
      EXPECT_KEEL_OK(keel_stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats().live_blocks, 0u);
  EXPECT_EQ(stats().allocations, uint64_t{kThreads} * kRounds);
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}
INSTANTIATE_TEST_SUITE_P(Plugins, AllocatorTest, ::testing::Values("fake", "sim_paused"), name_of);
INSTANTIATE_TEST_SUITE_P(Plugins, LargestAllocationTest, ::testing::Values("fake"), name_of);

}  // namespace
}  // namespace keel::testing
