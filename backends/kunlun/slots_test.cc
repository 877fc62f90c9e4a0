// SPDX-License-Identifier: Apache-2.0
// Slots of the plugin's tables as core calls them, and those that core does not call yet: an
// all-to-all with counts, ids of a wrong size, notifications.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/kunlun/testing/own_sdk.h"
#include "backends/kunlun/testing/queried_plugin.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint32_t kWorld = 3;
constexpr uint64_t kWords = 1024;

// A device each for |kWorld| ranks, with a stream and memory.
class KunlunSlotsTest : public ::testing::Test {
 protected:
  struct Rank {
    keel_plugin_device* device = nullptr;
    keel_plugin_stream* stream = nullptr;
    keel_plugin_event* event = nullptr;
    keel_plugin_comm* comm = nullptr;
    void* memory = nullptr;
  };

  void start(const std::string& settings) {
    sdk_ = std::make_unique<OwnSdk>("devices=3 memory_mib=64 " + settings);
    plugin_ = query_plugin(plugin_path("kunlun"));
    ASSERT_NE(plugin_, nullptr) << dlerror();
    const char* const key = "library_folder";
    const char* const value = sdk_->folder().c_str();
    const keel_instance_settings with = {
        {sizeof(with), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
    ASSERT_EQ(plugin_->create_instance(&with, &instance_), KEEL_OK) << t_error;
    for (uint32_t i = 0; i < kWorld; ++i) {
      Rank& rank = ranks_[i];
      ASSERT_EQ(plugin_->device->open(instance_, i, &rank.device), KEEL_OK) << t_error;
      ASSERT_EQ(plugin_->stream->create(rank.device, 0, &rank.stream), KEEL_OK) << t_error;
      ASSERT_EQ(plugin_->stream->event_create(rank.device, 0, &rank.event), KEEL_OK) << t_error;
      ASSERT_EQ(
          plugin_->memory->alloc(rank.device, KEEL_MEMORY_DEVICE, kWords * 4, 0, &rank.memory),
          KEEL_OK)
          << t_error;
    }
  }
  void TearDown() override {
    if (plugin_ == nullptr) return;
    for (Rank& rank : ranks_) {
      if (rank.comm != nullptr) plugin_->ccl->destroy(rank.comm);
      if (rank.memory != nullptr) {
        EXPECT_EQ(plugin_->memory->free(rank.device, KEEL_MEMORY_DEVICE, rank.memory), KEEL_OK);
      }
      if (rank.event != nullptr) plugin_->stream->event_destroy(rank.event);
      if (rank.stream != nullptr) plugin_->stream->destroy(rank.stream);
      if (rank.device != nullptr) plugin_->device->close(rank.device);
    }
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
  }

  static void each_rank(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }
  void connect() {
    std::vector<uint8_t> id(8192);
    uint64_t size = id.size();
    ASSERT_EQ(plugin_->ccl->unique_id(ranks_[0].device, id.data(), &size), KEEL_OK) << t_error;
    each_rank([&](uint32_t rank) {
      EXPECT_EQ(
          plugin_->ccl->init_rank(ranks_[rank].device, id.data(), size, static_cast<int32_t>(rank),
                                  kWorld, kTestTimeout, &ranks_[rank].comm),
          KEEL_OK)
          << t_error;
    });
  }
  void write(const Rank& rank, const std::vector<uint32_t>& words) const {
    EXPECT_EQ(plugin_->stream->copy(rank.stream, KEEL_COPY_HOST_TO_DEVICE, rank.memory,
                                    words.data(), words.size() * 4),
              KEEL_OK)
        << t_error;
  }
  keel_status finish(const Rank& rank) const {
    const keel_status recorded = plugin_->stream->event_record(rank.event, rank.stream);
    if (recorded != KEEL_OK) return recorded;
    return plugin_->stream->event_wait(rank.event, kTestTimeout);
  }
  std::vector<uint32_t> read(const Rank& rank, size_t count) const {
    std::vector<uint32_t> words(count);
    EXPECT_EQ(plugin_->stream->copy(rank.stream, KEEL_COPY_DEVICE_TO_HOST, words.data(),
                                    rank.memory, count * 4),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(finish(rank), KEEL_OK) << t_error;
    return words;
  }
  static keel_ccl_call call_of(keel_collective collective, void* send, void* receive,
                               uint64_t count) {
    keel_ccl_call call = {};
    call.header = {sizeof(call), KEEL_STRUCT_CCL_CALL, nullptr};
    call.collective = collective;
    call.dtype = KEEL_INT32;
    call.send = send;
    call.receive = receive;
    call.count = count;
    return call;
  }

  std::unique_ptr<OwnSdk> sdk_;
  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  Rank ranks_[kWorld];
};

// Rank r sends r + p + 1 words to rank p, from offset 16 p to offset 512 + 16 r there. BKCL reads
// the counts in device memory; the plugin uploads them.
TEST_F(KunlunSlotsTest, AnAllToAllWithCountsOfTheHost) {
  start("");
  connect();
  for (int round = 0; round < 3; ++round) {
    each_rank([&](uint32_t self) {
      const Rank& rank = ranks_[self];
      std::vector<uint32_t> words(kWords, 0);
      uint64_t arrays[4][kWorld];
      for (uint32_t peer = 0; peer < kWorld; ++peer) {
        arrays[0][peer] = arrays[2][peer] = self + peer + 1;
        arrays[1][peer] = uint64_t{16} * peer;
        arrays[3][peer] = uint64_t{16} * peer;
        for (uint32_t i = 0; i < self + peer + 1; ++i) {
          words[16 * peer + i] = 10000 * self + 100 * peer + i + static_cast<uint32_t>(round);
        }
      }
      write(rank, words);
      keel_ccl_call call =
          call_of(KEEL_ALL_TO_ALL_V, rank.memory, static_cast<uint32_t*>(rank.memory) + 512, 0);
      call.send_counts = arrays[0];
      call.send_offsets = arrays[1];
      call.receive_counts = arrays[2];
      call.receive_offsets = arrays[3];
      EXPECT_EQ(plugin_->ccl->run(rank.comm, rank.stream, &call, 1), KEEL_OK) << t_error;
      std::memset(arrays, 0xff, sizeof(arrays));  // the call has read them
      const std::vector<uint32_t> got = read(rank, kWords);
      for (uint32_t peer = 0; peer < kWorld; ++peer) {
        for (uint32_t i = 0; i < self + peer + 1; ++i) {
          EXPECT_EQ(got[512 + 16 * peer + i],
                    10000 * peer + 100 * self + i + static_cast<uint32_t>(round));
        }
      }
    });
  }
}

TEST_F(KunlunSlotsTest, AnAllToAllInPlaceSendsFromACopy) {
  start("");
  connect();
  each_rank([&](uint32_t self) {
    const Rank& rank = ranks_[self];
    write(rank, {10 * self, 10 * self + 1, 10 * self + 2});
    keel_ccl_call call = call_of(KEEL_ALL_TO_ALL, rank.memory, rank.memory, 1);
    EXPECT_EQ(plugin_->ccl->run(rank.comm, rank.stream, &call, 1), KEEL_OK) << t_error;
    EXPECT_EQ(read(rank, 3), (std::vector<uint32_t>{self, 10 + self, 20 + self}));
  });
}

// Sends around a ring: neither half can proceed without the other.
TEST_F(KunlunSlotsTest, MessagesOfAGroupProceedTogether) {
  start("");
  connect();
  each_rank([&](uint32_t self) {
    const Rank& rank = ranks_[self];
    write(rank, {100 + self, 0});
    keel_ccl_call calls[2] = {
        call_of(KEEL_SEND, rank.memory, nullptr, 1),
        call_of(KEEL_RECV, nullptr, static_cast<uint32_t*>(rank.memory) + 1, 1)};
    calls[0].root = static_cast<int32_t>((self + 1) % kWorld);
    calls[1].root = static_cast<int32_t>((self + kWorld - 1) % kWorld);
    EXPECT_EQ(plugin_->ccl->run(rank.comm, rank.stream, calls, 2), KEEL_OK) << t_error;
    EXPECT_EQ(read(rank, 2)[1], 100 + (self + kWorld - 1) % kWorld);
  });
}

TEST_F(KunlunSlotsTest, TypesAndReductionsThatBkclLacksAreRefused) {
  start("");
  const auto can = [&](keel_collective collective, keel_dtype dtype, keel_reduction reduction) {
    return plugin_->ccl->capability(instance_, collective, dtype, reduction) == KEEL_OK;
  };
  EXPECT_TRUE(can(KEEL_ALL_REDUCE, KEEL_FLOAT16, KEEL_SUM));
  EXPECT_TRUE(can(KEEL_BROADCAST, KEEL_UINT8, KEEL_SUM));
  // Its bytes could be moved as uint8, but then the library would not run the dtype itself.
  EXPECT_FALSE(can(KEEL_BROADCAST, KEEL_INT8, KEEL_SUM));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_UINT32, KEEL_SUM));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_AVG));
  EXPECT_FALSE(can(KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_PREMUL_SUM));
  EXPECT_FALSE(can(KEEL_BARRIER, KEEL_FLOAT32, KEEL_SUM));
}

// Ranks form an island only if their libraries have one name: neither two releases do, nor a real
// chip and an emulated one.
TEST_F(KunlunSlotsTest, TheLibrarysNameSaysItsKindAndRelease) {
  start("version=412");
  keel_ccl_info info = {};
  info.header = {sizeof(info), KEEL_STRUCT_CCL_INFO, nullptr};
  ASSERT_EQ(plugin_->ccl->info(instance_, &info), KEEL_OK) << t_error;
  EXPECT_STREQ(info.library, "BKCL (keel) of XRE 4.12");
}

TEST_F(KunlunSlotsTest, AnIdThatIsCutShortIsRefused) {
  start("");
  std::vector<uint8_t> id(8192);
  uint64_t size = 8;
  EXPECT_EQ(plugin_->ccl->unique_id(ranks_[0].device, id.data(), &size), KEEL_INVALID_ARGUMENT);
  EXPECT_GT(size, 8u);  // how much room an id needs
  uint64_t whole = id.size();
  ASSERT_EQ(plugin_->ccl->unique_id(ranks_[0].device, id.data(), &whole), KEEL_OK) << t_error;
  EXPECT_EQ(size, whole);
  EXPECT_EQ(plugin_->ccl->init_rank(ranks_[0].device, id.data(), whole - 1, 0, 1, kTestTimeout,
                                    &ranks_[0].comm),
            KEEL_INVALID_ARGUMENT);
  EXPECT_NE(t_error.find("the id has"), std::string::npos) << t_error;
}

TEST_F(KunlunSlotsTest, AnAbortEndsTheCommunicator) {
  start("faults=0/stall:ccl@1");
  connect();
  each_rank([&](uint32_t self) {
    keel_ccl_call call = call_of(KEEL_ALL_REDUCE, ranks_[self].memory, ranks_[self].memory, 1);
    EXPECT_EQ(plugin_->ccl->run(ranks_[self].comm, ranks_[self].stream, &call, 1), KEEL_OK);
  });
  EXPECT_EQ(plugin_->stream->event_record(ranks_[1].event, ranks_[1].stream), KEEL_OK);
  EXPECT_EQ(plugin_->stream->event_wait(ranks_[1].event, 20'000'000), KEEL_TIMED_OUT);
  for (const Rank& rank : ranks_) EXPECT_EQ(plugin_->ccl->abort(rank.comm), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->stream->event_wait(ranks_[1].event, kTestTimeout), KEEL_OK) << t_error;
  keel_ccl_call call = call_of(KEEL_ALL_REDUCE, ranks_[0].memory, ranks_[0].memory, 1);
  EXPECT_EQ(plugin_->ccl->run(ranks_[0].comm, ranks_[0].stream, &call, 1), KEEL_ABORTED);
}

// ---- events ----------------------------------------------------------------------

TEST_F(KunlunSlotsTest, AnEventTellsOnceAndKeepsItsAnswer) {
  start("");
  const Rank& rank = ranks_[0];
  for (int round = 0; round < 100; ++round) {
    write(rank, pattern(kWords, 1));
    ASSERT_EQ(plugin_->stream->event_record(rank.event, rank.stream), KEEL_OK) << t_error;
    std::atomic<int> told{0};
    std::atomic<keel_status> said{KEEL_UNKNOWN};
    struct Both {
      std::atomic<int>* told;
      std::atomic<keel_status>* said;
    } both = {&told, &said};
    ASSERT_EQ(plugin_->stream->event_notify(
                  rank.event,
                  [](void* user, keel_status status) {
                    const auto& to = *static_cast<Both*>(user);
                    to.said->store(status);
                    to.told->fetch_add(1);
                  },
                  &both),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(plugin_->stream->event_wait(rank.event, kTestTimeout), KEEL_OK) << t_error;
    while (told.load() == 0) std::this_thread::yield();
    EXPECT_EQ(said.load(), KEEL_OK);
    EXPECT_EQ(told.load(), 1);
    EXPECT_EQ(plugin_->stream->event_query(rank.event), KEEL_OK);
  }
}

// The later event cannot be done without the earlier one.
TEST_F(KunlunSlotsTest, AnEventVouchesForThoseBefore) {
  start("");
  const Rank& rank = ranks_[0];
  keel_plugin_event* earlier = nullptr;
  ASSERT_EQ(plugin_->stream->event_create(rank.device, 0, &earlier), KEEL_OK);
  write(rank, pattern(kWords, 1));
  ASSERT_EQ(plugin_->stream->event_record(earlier, rank.stream), KEEL_OK);
  write(rank, pattern(kWords, 2));
  EXPECT_EQ(finish(rank), KEEL_OK);
  EXPECT_EQ(plugin_->stream->event_query(earlier), KEEL_OK);
  plugin_->stream->event_destroy(earlier);
}

// A stream waits for an event of another one, and a host that waits for the later stream first
// still sees the earlier event.
TEST_F(KunlunSlotsTest, StreamsWaitForEachOther) {
  start("");
  const Rank& rank = ranks_[0];
  keel_plugin_stream* other = nullptr;
  ASSERT_EQ(plugin_->stream->create(rank.device, 0, &other), KEEL_OK);
  keel_plugin_event* behind = nullptr;
  ASSERT_EQ(plugin_->stream->event_create(rank.device, 0, &behind), KEEL_OK);
  write(rank, {7, 8, 9});
  ASSERT_EQ(plugin_->stream->event_record(rank.event, rank.stream), KEEL_OK);
  ASSERT_EQ(plugin_->stream->stream_wait_event(other, rank.event), KEEL_OK) << t_error;
  std::vector<uint32_t> words(3);
  ASSERT_EQ(plugin_->stream->copy(other, KEEL_COPY_DEVICE_TO_HOST, words.data(), rank.memory, 12),
            KEEL_OK)
      << t_error;
  ASSERT_EQ(plugin_->stream->event_record(behind, other), KEEL_OK);
  EXPECT_EQ(plugin_->stream->event_wait(behind, kTestTimeout), KEEL_OK) << t_error;
  EXPECT_EQ(words, (std::vector<uint32_t>{7, 8, 9}));
  EXPECT_EQ(plugin_->stream->event_query(rank.event) == KEEL_OK ||
                plugin_->stream->event_wait(rank.event, kTestTimeout) == KEEL_OK,
            true);
  plugin_->stream->event_destroy(behind);
  plugin_->stream->destroy(other);
}

TEST_F(KunlunSlotsTest, FailedWorkLosesTheDeviceAndTheOthersGoOn) {
  start("faults=0/fail:copy@2");
  const Rank& rank = ranks_[0];
  write(rank, {1});
  EXPECT_EQ(finish(rank), KEEL_OK) << t_error;
  write(rank, {2});
  EXPECT_EQ(plugin_->stream->event_record(rank.event, rank.stream) == KEEL_OK
                ? plugin_->stream->event_wait(rank.event, kTestTimeout)
                : keel_status{KEEL_DEVICE_LOST},
            KEEL_DEVICE_LOST);
  EXPECT_NE(t_error.find("XPUERR_KEXCEPTION"), std::string::npos) << t_error;
  void* memory = nullptr;
  EXPECT_EQ(plugin_->memory->alloc(rank.device, KEEL_MEMORY_DEVICE, 64, 0, &memory),
            KEEL_DEVICE_LOST);
  write(ranks_[1], {5});
  EXPECT_EQ(read(ranks_[1], 1), std::vector<uint32_t>{5});
}

// The framework's current device stays the framework's.
TEST_F(KunlunSlotsTest, TheCurrentDeviceOfTheCallerStays) {
  start("");
  void* const runtime = dlopen(sdk_->runtime().c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(runtime, nullptr);
  const auto set = reinterpret_cast<int (*)(int)>(dlsym(runtime, "xpu_set_device"));
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(runtime, "xpu_current_device"));
  ASSERT_EQ(set(2), 0);
  write(ranks_[0], {3});
  EXPECT_EQ(read(ranks_[0], 1), std::vector<uint32_t>{3});
  int current = -1;
  EXPECT_EQ(get(&current), 0);
  EXPECT_EQ(current, 2);
}

}  // namespace
}  // namespace keel::testing
