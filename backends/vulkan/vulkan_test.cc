// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and events of the built plugin, through the raw ABI.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backends/vulkan/test_plugin.h"

namespace keel::vulkan {

namespace {

std::vector<uint8_t> pattern_bytes(size_t size, uint32_t seed) {
  std::vector<uint8_t> data(size);
  for (size_t i = 0; i < size; ++i) {
    data[i] = static_cast<uint8_t>((i * 2654435761U + seed * 40503U) >> 11);
  }
  return data;
}

constexpr uint64_t kSizes[] = {1, 3, 4, 5, 4096, 65537, 5 << 20};

TEST(VulkanInstance, MissingLoaderGivesNoDeviceAndSaysWhy) {
  ASSERT_NE(load_plugin(), nullptr) << g_last_error;
  keel_plugin_instance* instance = nullptr;
  ASSERT_EQ(create_instance({{"library_folder", "/nonexistent"}}, &instance), KEEL_OK);
  uint32_t count = 7;
  g_last_error.clear();
  EXPECT_EQ(load_plugin()->device->count(instance, &count), KEEL_OK);
  EXPECT_EQ(count, 0U);
  EXPECT_NE(g_last_error.find("/nonexistent"), std::string::npos) << g_last_error;
  keel_plugin_device* device = nullptr;
  EXPECT_EQ(load_plugin()->device->open(instance, 0, &device), KEEL_NOT_FOUND);
  load_plugin()->destroy_instance(instance);
}

TEST(VulkanInstance, UnknownSettingIsRefusedByName) {
  ASSERT_NE(load_plugin(), nullptr) << g_last_error;
  keel_plugin_instance* instance = nullptr;
  EXPECT_EQ(create_instance({{"colour", "blue"}}, &instance), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_last_error.find("colour"), std::string::npos) << g_last_error;
  EXPECT_EQ(create_instance({{"matmul_kernel", "best"}}, &instance), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_last_error.find("best"), std::string::npos) << g_last_error;
}

TEST_F(VulkanTest, InfoDescribesTheDevice) {
  EXPECT_NE(info_.name[0], '\0');
  EXPECT_NE(info_.driver[0], '\0');
  EXPECT_GE(info_.alignment, 64U);
  EXPECT_GE(info_.hardware_queues, 1U);
  EXPECT_GT(info_.memory_bytes, 0U);
  EXPECT_GT(info_.max_alloc_bytes, 0U);
  constexpr uint64_t kAlways = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_ASYNC |
                               KEEL_CAPABILITY_NOTIFY | KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_FILL;
  EXPECT_EQ(info_.capabilities & kAlways, kAlways);
  void* native = nullptr;
  EXPECT_EQ(plugin_->device->native_handle(device_, 0, &native), KEEL_OK);
  EXPECT_NE(native, nullptr);
}

TEST_F(VulkanTest, AbsurdAllocationIsOutOfMemory) {
  void* pointer = nullptr;
  for (keel_memory_kind kind : {KEEL_MEMORY_DEVICE, KEEL_MEMORY_PINNED}) {
    EXPECT_EQ(memory_->alloc(device_, kind, uint64_t{1} << 60, 0, &pointer), KEEL_OUT_OF_MEMORY);
  }
  EXPECT_EQ(memory_->alloc(device_, KEEL_MEMORY_MANAGED, 64, 0, &pointer), KEEL_UNSUPPORTED);
}

TEST_F(VulkanTest, AllocationsAreAlignedAndDistinct) {
  for (uint64_t size : kSizes) {
    const auto first = reinterpret_cast<uintptr_t>(alloc(size));
    const auto second = reinterpret_cast<uintptr_t>(alloc(size));
    EXPECT_EQ(first % info_.alignment, 0U);
    EXPECT_TRUE(first + size <= second || second + size <= first);
  }
}

TEST_F(VulkanTest, PageableCopiesRoundTripAtAnyOffset) {
  for (uint64_t size : kSizes) {
    for (uint64_t offset : {0, 1, 7}) {
      const std::vector<uint8_t> data = pattern_bytes(size, 1);
      char* device = static_cast<char*>(alloc(size + offset)) + offset;
      ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, device, data.data(), size),
                KEEL_OK);
      EXPECT_EQ(download<uint8_t>(device, size), data) << size << " + " << offset;
    }
  }
}

TEST_F(VulkanTest, PageableCopiesBehindBusyStreamKeepTheirOrder) {
  constexpr uint64_t kSize = 3 << 20;
  void* device = alloc(kSize);
  void* other = alloc(kSize);
  for (uint32_t round = 0; round < 20; ++round) {
    // Enough work in front that the stream is busy for the host.
    const uint32_t word = round;
    ASSERT_EQ(streams_->fill(stream_, device, &word, 4, kSize), KEEL_OK);
    ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_DEVICE_TO_DEVICE, other, device, kSize), KEEL_OK);
    std::vector<uint8_t> small = pattern_bytes(4099, round);
    const std::vector<uint8_t> expected = small;
    char* into = static_cast<char*>(other) + 17;
    ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, into, small.data(), small.size()),
              KEEL_OK);
    // The call has read the source.
    std::fill(small.begin(), small.end(), uint8_t{0xee});
    EXPECT_EQ(download<uint8_t>(into, expected.size()), expected);
    EXPECT_EQ(download<uint32_t>(static_cast<char*>(other) + kSize - 4, 1)[0], word);
  }
}

TEST_F(VulkanTest, ManySmallUploadsWrapTheStagingRing) {
  constexpr size_t kPart = 40000;
  constexpr size_t kParts = 200;
  char* device = static_cast<char*>(alloc(kPart * kParts));
  const std::vector<uint8_t> data = pattern_bytes(kPart * kParts, 3);
  const uint8_t zero = 0;
  for (size_t i = 0; i < kParts; ++i) {
    ASSERT_EQ(streams_->fill(stream_, device + i * kPart, &zero, 1, kPart), KEEL_OK);
    ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, device + i * kPart,
                             data.data() + i * kPart, kPart),
              KEEL_OK);
  }
  EXPECT_EQ(download<uint8_t>(device, data.size()), data);
}

TEST_F(VulkanTest, PinnedCopiesRoundTrip) {
  for (uint64_t size : kSizes) {
    auto* from = static_cast<uint8_t*>(alloc(size, KEEL_MEMORY_PINNED));
    auto* to = static_cast<uint8_t*>(alloc(size, KEEL_MEMORY_PINNED));
    void* device = alloc(size);
    const std::vector<uint8_t> data = pattern_bytes(size, 2);
    std::memcpy(from, data.data(), size);
    std::memset(to, 0, size);
    ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, device, from, size), KEEL_OK);
    ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_DEVICE_TO_HOST, to, device, size), KEEL_OK);
    ASSERT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
    EXPECT_EQ(std::memcmp(to, data.data(), size), 0) << size;
  }
}

TEST_F(VulkanTest, CopyOfForeignDeviceMemoryIsRefused) {
  std::vector<char> data(64);
  void* device = alloc(32);
  EXPECT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, device, data.data(), 64),
            KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, data.data(), data.data(), 8),
            KEEL_INVALID_ARGUMENT);
}

TEST_F(VulkanTest, FillWritesEveryPatternAndNothingBeside) {
  const uint8_t pattern[8] = {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
  for (uint32_t width : {1U, 2U, 4U, 8U}) {
    for (uint64_t start : {0U, 1U, 3U}) {
      for (uint64_t count : {1U, 2U, 3U, 5U, 1000U, 70001U, 700001U}) {
        const uint64_t offset = 16 + start * width;
        const uint64_t size = count * width;
        const std::vector<uint8_t> before(offset + size + 16, 0xab);
        auto* device = static_cast<char*>(upload(before));
        ASSERT_EQ(streams_->fill(stream_, device + offset, pattern, width, size), KEEL_OK);
        std::vector<uint8_t> expected = before;
        for (uint64_t i = 0; i < size; ++i) expected[offset + i] = pattern[i % width];
        ASSERT_EQ(download<uint8_t>(device, expected.size()), expected)
            << "width " << width << " start " << start << " count " << count;
      }
    }
  }
}

TEST_F(VulkanTest, HostAliasSeesDeviceMemory) {
  void* device = alloc(4096);
  void* alias = nullptr;
  const keel_status status = memory_->host_alias(device_, device, 4096, &alias);
  if ((info_.capabilities & KEEL_CAPABILITY_HOST_ALIAS) == 0) {
    EXPECT_EQ(status, KEEL_UNSUPPORTED);
    GTEST_SKIP() << "the host cannot reach this device's memory";
  }
  ASSERT_EQ(status, KEEL_OK);
  const uint32_t word = 0x01020304;
  ASSERT_EQ(streams_->fill(stream_, device, &word, 4, 4096), KEEL_OK);
  ASSERT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
  EXPECT_EQ(static_cast<uint32_t*>(alias)[1023], word);
  static_cast<uint32_t*>(alias)[5] = 77;
  void* copy = alloc(4096);
  ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_DEVICE_TO_DEVICE, copy, device, 4096), KEEL_OK);
  EXPECT_EQ(download<uint32_t>(copy, 6)[5], 77U);
}

TEST_F(VulkanTest, RegisteredMemoryIsCopiedWithoutABounce) {
  if ((info_.capabilities & KEEL_CAPABILITY_HOST_REGISTER) == 0) GTEST_SKIP() << "not claimed";
  std::vector<uint8_t> host = pattern_bytes(100000, 9);
  const std::vector<uint8_t> data = host;
  void* address = nullptr;
  ASSERT_EQ(memory_->host_register(device_, host.data() + 100, 90000, &address), KEEL_OK)
      << g_last_error;
  EXPECT_NE(address, nullptr);
  void* device = alloc(90000);
  ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, device, host.data() + 100, 90000),
            KEEL_OK);
  const uint8_t zero = 0;
  ASSERT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
  std::fill(host.begin() + 100, host.begin() + 90100, zero);
  ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_DEVICE_TO_HOST, host.data() + 100, device, 90000),
            KEEL_OK);
  ASSERT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
  EXPECT_EQ(host, data);
  EXPECT_EQ(memory_->host_unregister(device_, host.data() + 100), KEEL_OK);
  EXPECT_NE(memory_->host_unregister(device_, host.data() + 100), KEEL_OK);
}

TEST_F(VulkanTest, EventOrdersTwoStreams) {
  constexpr uint64_t kSize = 4 << 20;
  keel_plugin_stream* second = nullptr;
  ASSERT_EQ(streams_->create(device_, 0, &second), KEEL_OK);
  void* a = alloc(kSize);
  void* b = alloc(kSize);
  for (uint32_t round = 1; round <= 20; ++round) {
    ASSERT_EQ(streams_->fill(stream_, a, &round, 4, kSize), KEEL_OK);
    keel_plugin_event* filled = record(stream_);
    ASSERT_EQ(streams_->stream_wait_event(second, filled), KEEL_OK);
    ASSERT_EQ(streams_->copy(second, KEEL_COPY_DEVICE_TO_DEVICE, b, a, kSize), KEEL_OK);
    keel_plugin_event* copied = record(second);
    // The first stream may overwrite only copied data.
    ASSERT_EQ(streams_->stream_wait_event(stream_, copied), KEEL_OK);
    const uint32_t other = ~round;
    ASSERT_EQ(streams_->fill(stream_, a, &other, 4, kSize), KEEL_OK);
    ASSERT_EQ(streams_->event_wait(copied, kMinuteNs), KEEL_OK);
    // Pageable copy on a stream without work of its own left, but which waited.
    const std::vector<uint32_t> got = download<uint32_t>(b, kSize / 4);
    EXPECT_EQ(std::count(got.begin(), got.end(), round), static_cast<std::ptrdiff_t>(kSize / 4));
    streams_->event_destroy(filled);
    streams_->event_destroy(copied);
  }
  ASSERT_EQ(streams_->synchronize(second, kMinuteNs), KEEL_OK);
  streams_->destroy(second);
}

TEST_F(VulkanTest, HostCopyBehindAnEventWaitsForIt) {
  constexpr uint64_t kSize = 32 << 20;
  keel_plugin_stream* second = nullptr;
  ASSERT_EQ(streams_->create(device_, 0, &second), KEEL_OK);
  void* a = alloc(kSize);
  for (uint32_t round = 1; round <= 10; ++round) {
    ASSERT_EQ(streams_->fill(stream_, a, &round, 4, kSize), KEEL_OK);
    keel_plugin_event* filled = record(stream_);
    ASSERT_EQ(streams_->stream_wait_event(second, filled), KEEL_OK);
    uint32_t last = 0;
    const char* end = static_cast<char*>(a) + kSize - 4;
    ASSERT_EQ(streams_->copy(second, KEEL_COPY_DEVICE_TO_HOST, &last, end, 4), KEEL_OK);
    ASSERT_EQ(streams_->synchronize(second, kMinuteNs), KEEL_OK);
    EXPECT_EQ(last, round);
    streams_->event_destroy(filled);
  }
  streams_->destroy(second);
}

TEST_F(VulkanTest, ManyStreamsFromManyThreadsShareTheQueue) {
  constexpr int kThreads = 8;
  constexpr uint64_t kSize = 256 << 10;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  void* blocks[kThreads];
  for (void*& block : blocks) block = alloc(2 * kSize);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      keel_plugin_stream* stream = nullptr;
      keel_plugin_event* event = nullptr;
      wrong += streams_->create(device_, 0, &stream) != KEEL_OK;
      wrong += streams_->event_create(device_, 0, &event) != KEEL_OK;
      char* from = static_cast<char*>(blocks[t]);
      for (uint32_t round = 0; round < 50; ++round) {
        const uint32_t word = round * kThreads + static_cast<uint32_t>(t);
        uint32_t got = ~word;
        wrong += streams_->fill(stream, from, &word, 4, kSize) != KEEL_OK;
        wrong += streams_->copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, from + kSize, from, kSize) !=
                 KEEL_OK;
        wrong += streams_->event_record(event, stream) != KEEL_OK;
        wrong += streams_->event_wait(event, kMinuteNs) != KEEL_OK;
        wrong += streams_->event_query(event) != KEEL_OK;
        wrong += streams_->copy(stream, KEEL_COPY_DEVICE_TO_HOST, &got, from + 2 * kSize - 4, 4) !=
                 KEEL_OK;
        wrong += streams_->synchronize(stream, kMinuteNs) != KEEL_OK;
        wrong += got != word;
      }
      streams_->event_destroy(event);
      streams_->destroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Enqueues work that runs long enough for any host to observe.
void enqueue_long_work(const keel_stream_table* streams, keel_plugin_stream* stream, void* a,
                       void* b, uint64_t size) {
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(streams->copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, i % 2 == 0 ? b : a,
                            i % 2 == 0 ? a : b, size),
              KEEL_OK);
  }
}

TEST_F(VulkanTest, DeadlinePassesWhileWorkGoesOn) {
  constexpr uint64_t kSize = 32 << 20;
  void* a = alloc(kSize);
  void* b = alloc(kSize);
  enqueue_long_work(streams_, stream_, a, b, kSize);
  keel_plugin_event* event = record(stream_);
  EXPECT_EQ(streams_->event_query(event), KEEL_NOT_READY);
  EXPECT_EQ(streams_->event_wait(event, 0), KEEL_TIMED_OUT);
  EXPECT_EQ(streams_->event_wait(event, 100'000), KEEL_TIMED_OUT);
  EXPECT_EQ(streams_->synchronize(stream_, 100'000), KEEL_TIMED_OUT);
  EXPECT_EQ(streams_->query(stream_), KEEL_NOT_READY);
  EXPECT_EQ(streams_->event_wait(event, kMinuteNs), KEEL_OK);
  EXPECT_EQ(streams_->event_query(event), KEEL_OK);
  EXPECT_EQ(streams_->query(stream_), KEEL_OK);
  streams_->event_destroy(event);
}

// Counts calls, and lets a thread wait for calls.
struct Notifier {
  std::mutex mutex;
  std::condition_variable rung;
  int count = 0;
  keel_status last = KEEL_UNKNOWN;

  static void ring(void* user, keel_status status) {
    Notifier* notifier = static_cast<Notifier*>(user);
    const std::lock_guard lock(notifier->mutex);
    ++notifier->count;
    notifier->last = status;
    notifier->rung.notify_all();
  }
  bool wait_for_count(int wanted) {
    std::unique_lock lock(mutex);
    return rung.wait_for(lock, std::chrono::minutes(1), [&] { return count >= wanted; });
  }
};

TEST_F(VulkanTest, NotifyCallsOncePerEvent) {
  constexpr uint64_t kSize = 16 << 20;
  void* a = alloc(kSize);
  void* b = alloc(kSize);
  Notifier notifier;
  enqueue_long_work(streams_, stream_, a, b, kSize);
  keel_plugin_event* late = record(stream_);
  ASSERT_EQ(streams_->event_notify(late, Notifier::ring, &notifier), KEEL_OK);
  ASSERT_EQ(streams_->event_notify(late, Notifier::ring, &notifier), KEEL_OK);
  ASSERT_TRUE(notifier.wait_for_count(2));
  EXPECT_EQ(notifier.last, KEEL_OK);
  EXPECT_EQ(streams_->event_query(late), KEEL_OK);
  // For a completed event: immediately, on this thread.
  ASSERT_EQ(streams_->event_notify(late, Notifier::ring, &notifier), KEEL_OK);
  EXPECT_EQ(notifier.count, 3);
  streams_->event_destroy(late);
}

TEST_F(VulkanTest, NotifyOfManyShortEventsLosesNone) {
  void* a = alloc(4096);
  Notifier notifier;
  std::vector<keel_plugin_event*> events;
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_EQ(streams_->fill(stream_, a, &i, 4, 4096), KEEL_OK);
    events.push_back(record(stream_));
    ASSERT_EQ(streams_->event_notify(events.back(), Notifier::ring, &notifier), KEEL_OK);
  }
  ASSERT_TRUE(notifier.wait_for_count(500));
  EXPECT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
  EXPECT_EQ(notifier.count, 500);
  for (keel_plugin_event* event : events) streams_->event_destroy(event);
}

TEST_F(VulkanTest, TimingEventsMeasureTheWorkBetween) {
  if ((info_.capabilities & KEEL_CAPABILITY_TIMING) == 0) GTEST_SKIP() << "not claimed";
  constexpr uint64_t kSize = 32 << 20;
  void* a = alloc(kSize);
  void* b = alloc(kSize);
  keel_plugin_event* start = record(stream_, KEEL_EVENT_TIMING);
  keel_plugin_event* empty = record(stream_, KEEL_EVENT_TIMING);
  enqueue_long_work(streams_, stream_, a, b, kSize);
  keel_plugin_event* end = record(stream_, KEEL_EVENT_TIMING);
  ASSERT_EQ(streams_->event_wait(end, kMinuteNs), KEEL_OK);
  uint64_t nothing = 0;
  uint64_t work = 0;
  ASSERT_EQ(streams_->event_elapsed(start, empty, &nothing), KEEL_OK) << g_last_error;
  ASSERT_EQ(streams_->event_elapsed(empty, end, &work), KEEL_OK) << g_last_error;
  // 60 copies of 32 MiB move 4 GB: no device does that in under 100 us.
  EXPECT_GT(work, 100'000U);
  EXPECT_GT(work, nothing);
  for (keel_plugin_event* event : {start, empty, end}) streams_->event_destroy(event);
}

// Behind work in flight a timing event is submitted only on demand.
TEST_F(VulkanTest, TimingEventsAreSubmittedForWhoeverAsks) {
  if ((info_.capabilities & KEEL_CAPABILITY_TIMING) == 0) GTEST_SKIP() << "not claimed";
  constexpr uint64_t kSize = 32 << 20;
  void* a = alloc(kSize);
  void* b = alloc(kSize);
  keel_plugin_stream* second = nullptr;
  ASSERT_EQ(streams_->create(device_, 0, &second), KEEL_OK);
  const auto behind_work = [&](keel_plugin_stream* stream) {
    enqueue_long_work(streams_, stream, a, b, kSize);
    return record(stream, KEEL_EVENT_TIMING);
  };

  keel_plugin_event* waited_for = behind_work(stream_);
  std::thread([&] { EXPECT_EQ(streams_->event_wait(waited_for, kMinuteNs), KEEL_OK); }).join();

  keel_plugin_event* polled = behind_work(stream_);
  std::thread([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (streams_->event_query(polled) == KEEL_NOT_READY) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
    EXPECT_EQ(streams_->event_query(polled), KEEL_OK);
  }).join();

  keel_plugin_event* ordered = behind_work(stream_);
  ASSERT_EQ(streams_->stream_wait_event(second, ordered), KEEL_OK);
  ASSERT_EQ(streams_->synchronize(second, kMinuteNs), KEEL_OK);
  keel_plugin_event* after = record(second);
  ASSERT_EQ(streams_->event_wait(after, kMinuteNs), KEEL_OK);
  EXPECT_EQ(streams_->event_query(ordered), KEEL_OK);

  Notifier notifier;
  keel_plugin_event* notified = behind_work(stream_);
  ASSERT_EQ(streams_->event_notify(notified, Notifier::ring, &notifier), KEEL_OK);
  EXPECT_TRUE(notifier.wait_for_count(1));

  // Abandoned by destroying the event and by destroying the stream.
  streams_->event_destroy(behind_work(stream_));
  ASSERT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
  keel_plugin_event* outlives = behind_work(second);
  streams_->destroy(second);
  EXPECT_EQ(streams_->event_query(outlives), KEEL_OK);
  for (keel_plugin_event* event : {waited_for, polled, ordered, after, notified, outlives}) {
    streams_->event_destroy(event);
  }
}

TEST_F(VulkanTest, OneThreadAsksWhileAnotherEnqueues) {
  if ((info_.capabilities & KEEL_CAPABILITY_TIMING) == 0) GTEST_SKIP() << "not claimed";
  constexpr uint32_t kEvents = 200;  // several batches
  constexpr uint64_t kSize = 64 << 10;
  void* a = alloc(kSize);
  std::vector<keel_plugin_event*> events(kEvents);
  std::atomic<uint32_t> recorded = 0;
  std::thread asker([&] {
    for (uint32_t i = 0; i < kEvents; ++i) {
      while (recorded.load() <= i) std::this_thread::yield();
      if (i % 2 == 0) {
        EXPECT_EQ(streams_->event_wait(events[i], kMinuteNs), KEEL_OK);
      } else {
        const keel_status status = streams_->event_query(events[i]);
        EXPECT_TRUE(status == KEEL_OK || status == KEEL_NOT_READY) << status;
      }
    }
  });
  for (uint32_t i = 0; i < kEvents; ++i) {
    EXPECT_EQ(streams_->fill(stream_, a, &i, 4, kSize), KEEL_OK);
    events[i] = record(stream_, KEEL_EVENT_TIMING);
    recorded.store(i + 1);
  }
  asker.join();
  EXPECT_EQ(download<uint32_t>(a, 4)[3], kEvents - 1);
  uint64_t last = 0;
  for (uint32_t i = 1; i < kEvents; ++i) {
    uint64_t since_first = 0;
    ASSERT_EQ(streams_->event_query(events[i]), KEEL_OK);
    ASSERT_EQ(streams_->event_elapsed(events[0], events[i], &since_first), KEEL_OK);
    EXPECT_GE(since_first, last) << i;
    last = since_first;
  }
  for (keel_plugin_event* event : events) streams_->event_destroy(event);
}

}  // namespace

}  // namespace keel::vulkan
