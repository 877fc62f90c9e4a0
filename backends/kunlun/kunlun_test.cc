// SPDX-License-Identifier: Apache-2.0
// The Kunlun backend through keel.h, on the emulated chip: what core emulates for XRE, collectives
// by BKCL and by Keel's own path, and failures as a framework sees them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "backends/kunlun/testing/own_sdk.h"
#include "collectives/testing/device_ranks.h"
#include "core/testing/library_file.h"

namespace keel::testing {
namespace {

class KunlunTest : public DeviceRanks {
 protected:
  static std::vector<keel_device> load_kunlun(const OwnSdk& sdk) {
    return load("kunlun", {{"library_folder", sdk.folder()}});
  }
};

// ---- what XRE lacks --------------------------------------------------------------

TEST_F(KunlunTest, FillsOfEveryPatternAreCopies) {
  const OwnSdk sdk("devices=1 memory_mib=64");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  ASSERT_EQ(devices.size(), 1u);
  keel_stream stream = new_stream(devices[0]);
  constexpr size_t kCount = 100'000;
  void* const memory = alloc(devices[0], kCount * 4);
  EXPECT_KEEL_OK(fill(stream, memory, 0x12345678, kCount));
  const uint8_t byte = 0xab;
  EXPECT_KEEL_OK(keel_fill(stream, memory, &byte, 1, 8));
  const uint64_t word = 0x1111222233334444;
  EXPECT_KEEL_OK(keel_fill(stream, static_cast<char*>(memory) + 8, &word, 8, 16));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  const std::vector<uint32_t> words = read(devices[0], memory, kCount);
  EXPECT_EQ(std::vector<uint32_t>(words.begin(), words.begin() + 7),
            (std::vector<uint32_t>{0xabababab, 0xabababab, 0x33334444, 0x11112222, 0x33334444,
                                   0x11112222, 0x12345678}));
  EXPECT_EQ(words.back(), 0x12345678u);
  EXPECT_KEEL_OK(keel_free(devices[0], memory));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
}

TEST_F(KunlunTest, WhatXreCannotMeasureIsNotClaimed) {
  const OwnSdk sdk("devices=1 memory_mib=64");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  ASSERT_EQ(devices.size(), 1u);
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  EXPECT_KEEL_OK(keel_device_info_get(devices[0], &info));
  EXPECT_EQ(info.capabilities &
                (KEEL_CAPABILITY_TIMING | KEEL_CAPABILITY_FILL | KEEL_CAPABILITY_PEER_COPY |
                 KEEL_CAPABILITY_PRIORITY | KEEL_CAPABILITY_MEMORY_INFO | KEEL_CAPABILITY_OPS),
            0u);
  EXPECT_EQ(info.memory_bytes, uint64_t{64} << 20);
  keel_stream stream = new_stream(devices[0]);
  keel_event event = {};
  EXPECT_KEEL_OK(keel_event_create(KEEL_EVENT_TIMING, &event));
  EXPECT_EQ(keel_event_record(event, stream), KEEL_UNSUPPORTED);
  EXPECT_KEEL_OK(keel_event_destroy(event));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
}

// ---- collectives -----------------------------------------------------------------

constexpr Operation kNative[] = {
    Operation::kAllReduce, Operation::kReduce,   Operation::kReduceScatter, Operation::kBroadcast,
    Operation::kAllGather, Operation::kAllToAll, Operation::kAllGatherV,    Operation::kAllToAllV,
    Operation::kGather,    Operation::kGatherV,  Operation::kScatter,       Operation::kScatterV};

TEST_F(KunlunTest, OneIslandOfAll) {
  const OwnSdk sdk("devices=4 memory_mib=64");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  ASSERT_EQ(devices.size(), 4u);
  for (const uint32_t ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    make_ranks({devices.begin(), devices.begin() + ranks});
    expect_explained(R"("library": "BKCL)");
    for (uint32_t number = 0; number < kOperations; ++number) {
      const auto operation = static_cast<Operation>(number);
      const bool is_native = std::count(std::begin(kNative), std::end(kNative), operation) != 0;
      for (const uint64_t count : {1, 5001}) {
        EXPECT_EQ(run(scenario(operation, KEEL_FLOAT32, count)), is_native ? 1u : 0u)
            << number << " of " << count;
        if (HasFailure()) return;
      }
    }
  }
}

// Types and reductions that BKCL lacks use Keel's own path, with equal results.
TEST_F(KunlunTest, EveryDtypeByEveryReduction) {
  const OwnSdk sdk("devices=3 memory_mib=64");
  make_ranks(load_kunlun(sdk));
  constexpr keel_dtype kTypes[] = {KEEL_UINT8,    KEEL_INT32,   KEEL_INT64,  KEEL_FLOAT16,
                                   KEEL_BFLOAT16, KEEL_FLOAT32, KEEL_FLOAT64};
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const bool has_type = std::count(std::begin(kTypes), std::end(kTypes), dtype) != 0;
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      Case made = scenario(Operation::kAllReduce, dtype, 777);
      made.reduction = reduction;
      const bool has_reduction = reduction != KEEL_AVG && reduction != KEEL_PREMUL_SUM;
      EXPECT_EQ(run(made), has_type && has_reduction ? 1u : 0u) << made.describe();
    }
    EXPECT_EQ(run(scenario(Operation::kAllGather, dtype, 334)), has_type ? 1u : 0u);
    EXPECT_EQ(run(scenario(Operation::kAllToAll, dtype, 334)), has_type ? 1u : 0u);
    if (HasFailure()) return;
  }
}

TEST_F(KunlunTest, CpuRanksBesideAnIsland) {
  const OwnSdk sdk("devices=3 memory_mib=64");
  const std::vector<keel_device> cpus = load("cpu");
  const std::vector<keel_device> xpus = load_kunlun(sdk);
  ASSERT_FALSE(cpus.empty());
  ASSERT_EQ(xpus.size(), 3u);
  make_ranks({xpus[0], cpus[0], xpus[1], xpus[2], cpus[0]});
  expect_explained(R"("islands": [{"ranks": "ranks 0, 2, 3", "library": "BKCL)");
  for (uint32_t number = 0; number < kOperations; ++number) {
    for (const uint64_t count : {1, 6001}) {
      run(scenario(static_cast<Operation>(number), KEEL_FLOAT32, count));
      if (HasFailure()) return;
    }
  }
  expect_same_bits(10'007);
}

// Real and emulated chips: their libraries have different names.
TEST_F(KunlunTest, TwoInstancesAreTwoIslands) {
  const OwnSdk one("devices=2 memory_mib=64");
  const std::vector<keel_device> first = load_kunlun(one);
  const OwnSdk two("devices=2 memory_mib=64");
  const std::vector<keel_device> second = load_kunlun(two);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  make_ranks({first[0], second[0], first[1], second[1]});
  expect_explained(R"({"ranks": "ranks 0, 2", "library": "BKCL)");
  expect_explained(R"({"ranks": "ranks 1, 3", "library": "BKCL)");
  expect_same_bits(20'000);
}

// ---- failures --------------------------------------------------------------------

TEST_F(KunlunTest, ALostDeviceInMidCollectiveIsNamedAndTheOthersGoOn) {
  const OwnSdk sdk("devices=3 memory_mib=64 faults=0/lose:ccl@1");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  expect_lost_device_is_named(devices, "kunlun:0");
}

TEST_F(KunlunTest, AHangEndsAtTheDeadlineAndHarmsNoDevice) {
  const OwnSdk sdk("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  expect_hang_ends_at_deadline(devices);
}

// A BKCL without bkcl_comm_abort: the work is abandoned, and its devices are reported lost.
TEST_F(KunlunTest, AHangThatCannotBeAbortedLosesTheDevices) {
  const OwnSdk sdk("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  ASSERT_TRUE(remove_symbol(sdk.bkcl(), "bkcl_comm_abort"));
  const std::vector<keel_device> devices = load_kunlun(sdk);
  expect_hang_loses_devices(devices);
}

// Counts the communicators that Keel did not destroy.
class LeftBehind {
 public:
  LeftBehind() { EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_ERROR, &LeftBehind::add, this)); }
  ~LeftBehind() { EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr)); }
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;

  uint32_t count() const { return count_; }

 private:
  static void add(void* user, keel_log_level, const char* text) {
    if (std::strstr(text, "a native communicator is left behind") == nullptr) return;
    ++static_cast<LeftBehind*>(user)->count_;
  }

  std::atomic<uint32_t> count_ = 0;
};

// The ranks go on without the abort, and never destroy a communicator that it may still use.
TEST_F(KunlunTest, AnAbortThatHangsLosesTheDevices) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "the thread of the abort stays in the plugin, and has read the device that closes";
#endif
  const OwnSdk sdk("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  setenv("KEEL_EMULATED_BKCL", "abort_hangs=1", 1);
  const std::vector<keel_device> devices = load_kunlun(sdk);
  const LeftBehind left_behind;
  expect_hang_loses_devices(devices);
  EXPECT_EQ(left_behind.count(), 2u);
}

// A wait in the second communicator ends as soon as the first one's hang has lost the devices,
// while the operation still hangs: the ranks must destroy neither communicator.
TEST_F(KunlunTest, AHangInOneCommunicatorDestroysNoOther) {
  const OwnSdk sdk("devices=2 memory_mib=64 faults=1/stall:ccl@1+");
  ASSERT_TRUE(remove_symbol(sdk.bkcl(), "bkcl_comm_abort"));
  const std::vector<keel_device> devices = load_kunlun(sdk);
  ASSERT_EQ(devices.size(), 2u);
  const LeftBehind left_behind;
  make_ranks(devices);
  set_timeout(kSecond);
  enqueue(1000);
  const std::vector<keel_comm> first = std::exchange(comms_, std::vector<keel_comm>(2));
  const keel_comm_options given = options();
  ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), 2, &given, comms_.data()));
  const std::vector<keel_stream> streams = std::exchange(streams_, std::vector<keel_stream>(2));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_KEEL_OK(keel_stream_create(devices[rank], 0, &streams_[rank]));
  }
  enqueue(2000);
  for (keel_stream stream : streams_) {
    EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST) << keel_last_error();
  }
  for (keel_comm comm : first) keel_comm_destroy(comm);
  for (keel_stream stream : streams) keel_stream_destroy(stream);
  end_ranks();
  EXPECT_EQ(left_behind.count(), 4u);
}

TEST_F(KunlunTest, AnAbortEndsAllRanks) {
  const OwnSdk sdk("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  const std::vector<keel_device> devices = load_kunlun(sdk);
  expect_abort_ends_all(devices);
}

}  // namespace
}  // namespace keel::testing
