// SPDX-License-Identifier: Apache-2.0
// Communicators in which all or some ranks use the emulated chip's native library.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <thread>

#include "collectives/testing/device_ranks.h"

namespace keel::testing {
namespace {

class HierarchicalTest : public DeviceRanks {
 protected:
  static std::vector<keel_device> sims(uint32_t count, const Settings& more = {}) {
    Settings settings = {{"devices", std::to_string(count)}};
    settings.insert(more.begin(), more.end());
    return load("sim", settings);
  }
  void run_everything();
};

// The library has no calls for the last six, which run as the library's sends and receives.
constexpr Operation kNative[] = {
    Operation::kAllReduce, Operation::kReduce,   Operation::kReduceScatter, Operation::kBroadcast,
    Operation::kAllGather, Operation::kAllToAll, Operation::kAllGatherV,    Operation::kAllToAllV,
    Operation::kGather,    Operation::kGatherV,  Operation::kScatter,       Operation::kScatterV};

void HierarchicalTest::run_everything() {
  for (uint32_t number = 0; number < kOperations; ++number) {
    const auto operation = static_cast<Operation>(number);
    const bool is_native = std::count(std::begin(kNative), std::end(kNative), operation) != 0;
    for (const uint64_t count : {1, 100, 5001}) {
      EXPECT_EQ(run(scenario(operation, KEEL_FLOAT32, count)), is_native ? 1u : 0u)
          << number << " of " << count;
      if (HasFailure()) return;
    }
  }
}

// ---- one island --------------------------------------------------------------------

TEST_F(HierarchicalTest, OneIslandRunsNatively) {
  const std::vector<keel_device> devices = sims(8);
  for (const uint32_t ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    make_ranks({devices.begin(), devices.begin() + ranks});
    const std::string last = std::to_string(ranks - 1);
    expect_explained(R"("islands": [{"ranks": "ranks 0)" + (ranks == 2 ? ", " + last : "-" + last) +
                     R"(", "library": "emulated ccl)");
    run_everything();
    if (HasFailure()) return;
  }
}

TEST_F(HierarchicalTest, EveryDtypeNativelyOrNot) {
  make_ranks(sims(3, {{"ccl", "float32,bfloat16,int32,float8_e4m3"}}));
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const bool has = dtype == KEEL_FLOAT32 || dtype == KEEL_BFLOAT16 || dtype == KEEL_INT32 ||
                     dtype == KEEL_FLOAT8_E4M3FN;
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      Case made = scenario(Operation::kAllReduce, dtype, 777);
      made.reduction = reduction;
      EXPECT_EQ(run(made), has ? 1u : 0u) << made.describe();
    }
    EXPECT_EQ(run(scenario(Operation::kAllGather, dtype, 333)), has ? 1u : 0u);
  }
}

TEST_F(HierarchicalTest, TheLastOperationIsExplained) {
  make_ranks(sims(3));
  run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000));
  expect_explained(R"("last": {"operation": "all_reduce", "bytes": 20000, "path": "native")");
  expect_explained(R"("reduced_by": "library", "measured_ms")");
}

TEST_F(HierarchicalTest, OneRankHasNoIsland) {
  make_ranks(sims(1));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 100)), 0u);
  expect_explained("\"islands\": []");
}

TEST_F(HierarchicalTest, AThreadARankAndParts) {
  const std::vector<keel_device> devices = sims(4);
  make_ranks(devices);
  std::vector<std::thread> threads;
  std::vector<std::string> problems(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const keel_comm_options given = options();
      keel_comm part = {};
      problems[rank] =
          keel_comm_split(comms_[rank], static_cast<int32_t>(rank % 2), 0, &given, &part) == KEEL_OK
              ? ""
              : keel_last_error();
      if (!problems[rank].empty()) return;
      Case made = scenario(Operation::kAllReduce, KEEL_FLOAT32, 2000);
      made.world = 2;
      const Reference reference(made);
      problems[rank] = run_case(reference, rank / 2, devices[rank], part, streams_[rank]);
      auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
      EXPECT_KEEL_OK(keel_comm_stats_get(part, &stats));
      EXPECT_EQ(stats.native_operations, 1u);
      EXPECT_KEEL_OK(keel_comm_destroy(part));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 500)), 1u);
}

// ---- several -----------------------------------------------------------------------

class MixedIslandsTest : public HierarchicalTest {
 protected:
  // 'c': a CPU device; 's' and 't': two kinds of emulated devices; 'v': a Vulkan device. Each
  // letter takes the next device of its kind.
  void make_mix(const std::string& kinds, const Settings& sim = {}) {
    std::map<char, std::vector<keel_device>> kind;
    kind['c'] = load("cpu");
    kind['s'] = sims(4, sim);
    kind['t'] = sims(4);
    if (kinds.find('v') != std::string::npos) kind['v'] = load("vulkan");
    if (kinds.find('v') != std::string::npos && kind['v'].empty()) {
      GTEST_SKIP() << "no Vulkan device";
    }
    std::map<char, size_t> next;
    std::vector<keel_device> devices;
    for (const char each : kinds) {
      devices.push_back(kind[each][next[each]++ % kind[each].size()]);
    }
    make_ranks(devices);
  }
};

struct Mix {
  const char* kinds;
  const char* explained;
  bool is_even = false;
};

// One test per mix, since a backend's streams are threads: some 60 per rank at the end of a test.
class InterleavedIslandsTest : public MixedIslandsTest,
                               public ::testing::WithParamInterface<Mix> {};

TEST_P(InterleavedIslandsTest, EveryOperation) {
  const Mix& mix = GetParam();
  make_mix(mix.kinds);
  if (IsSkipped() || HasFailure()) return;
  expect_explained(mix.explained);
  for (uint32_t number = 0; number < kOperations; ++number) {
    const auto operation = static_cast<Operation>(number);
    const bool has_pieces =
        operation == Operation::kAllGather || operation == Operation::kReduceScatter;
    const bool is_mixed = operation == Operation::kAllReduce ||
                          operation == Operation::kBroadcast || (has_pieces && mix.is_even);
    for (const uint64_t count : {1, 6000, 6001, 40'000}) {
      // Small messages travel inline in the operation descriptors.
      EXPECT_EQ(run(scenario(operation, KEEL_FLOAT32, count)), is_mixed && count > 1 ? 1u : 0u)
          << number << " of " << count;
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, InterleavedIslandsTest,
    ::testing::Values(Mix{"scs", R"({"ranks": "ranks 0, 2", "library")"},
                      Mix{"csvscs", R"({"ranks": "ranks 1, 3, 5", "library")"},
                      Mix{"sscvs", R"("lanes": 1)"}, Mix{"tsts", R"("lanes": 2)", /*is_even=*/true},
                      Mix{"stsstt", R"("lanes": 3)", /*is_even=*/true},
                      Mix{"ssttst", R"("lanes": 3)", /*is_even=*/true},
                      Mix{"sstsst", R"("lanes": 2)"},  // islands of four and of two
                      Mix{"tsttsct", R"("lanes": 1)"},
                      Mix{"sssss", R"("why": "its device is another rank's already")"}),
    [](const auto& info) { return std::string(info.param.kinds); });

TEST_F(MixedIslandsTest, EveryDtypeByEveryReduction) {
  make_mix("cssscs");
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const bool has = dtype != KEEL_INT16 && dtype != KEEL_UINT16 && dtype != KEEL_FLOAT64 &&
                     dtype != KEEL_FLOAT8_E4M3FN && dtype != KEEL_FLOAT8_E5M2;
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      Case made = scenario(Operation::kAllReduce, dtype, 9001);
      made.reduction = reduction;
      // Partial sums of narrow floats would round twice.
      const bool is_narrow = dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
      const bool is_native = has && reduction < KEEL_AVG &&
                             (!is_narrow || reduction == KEEL_MIN || reduction == KEEL_MAX);
      EXPECT_EQ(run(made), is_native ? 1u : 0u) << made.describe();
    }
    Case made = scenario(Operation::kBroadcast, dtype, 9001);
    for (made.seed = 0; made.seed < world(); ++made.seed) {
      EXPECT_EQ(run(made), has ? 1u : 0u) << made.describe();
    }
  }
}

TEST_F(MixedIslandsTest, PiecesInEveryDtypeByEveryReduction) {
  make_mix("stts");
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const bool has = dtype != KEEL_INT16 && dtype != KEEL_UINT16 && dtype != KEEL_FLOAT64 &&
                     dtype != KEEL_FLOAT8_E4M3FN && dtype != KEEL_FLOAT8_E5M2;
    const bool is_narrow = dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
    for (const uint64_t count : {20'001, 20'002}) {  // the second count runs in place
      for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
        Case made = scenario(Operation::kReduceScatter, dtype, count);
        made.reduction = reduction;
        const bool is_native = has && reduction < KEEL_AVG &&
                               (!is_narrow || reduction == KEEL_MIN || reduction == KEEL_MAX);
        EXPECT_EQ(run(made), is_native ? 1u : 0u) << made.describe();
      }
      EXPECT_EQ(run(scenario(Operation::kAllGather, dtype, count)), has ? 1u : 0u);
    }
  }
}

// All ranks hold the same bits, wherever a lane or the library rounds.
TEST_F(MixedIslandsTest, AllRanksHoldTheSameBits) {
  for (const char* kinds : {"cssscs", "stssts", "ststts"}) {
    make_mix(kinds);
    constexpr uint64_t kCount = 10'007;
    std::vector<void*> memory;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      std::vector<uint32_t> values = pattern(kCount, rank);
      for (uint32_t& value : values)
        value = value % 0x10000000 + 0x38000000;  // floats of all sizes
      memory.push_back(alloc_filled(devices_[rank], values));
      ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory[rank], memory[rank], kCount, KEEL_FLOAT32,
                                     KEEL_SUM, streams_[rank]));
    }
    for (keel_stream stream : streams_)
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_EQ(native_operations(), 1u);
    const std::vector<uint32_t> first = read(devices_[0], memory[0], kCount);
    for (uint32_t rank = 1; rank < world(); ++rank) {
      EXPECT_EQ(read(devices_[rank], memory[rank], kCount), first) << kinds << ", rank " << rank;
    }
  }
}

TEST_F(MixedIslandsTest, TheLastOperationIsExplainedWithTheRanksLane) {
  make_mix("ssc");
  run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000));
  expect_explained(R"("last": {"operation": "all_reduce", "bytes": 20000, "path": "native")");
  expect_explained(R"("reduced_by": "library", "lane": {"operation": ")");
  expect_explained(R"("path": "bridge", "algorithm": "direct")");
}

// Ranks that call first free their memory before any peer has called.
TEST_F(MixedIslandsTest, MemoryFreedBehindACallServesUntilItsEnd) {
  for (const char* kinds : {"scs", "stst"}) {
    make_mix(kinds);
    constexpr uint64_t kCount = 10'000;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      void* const memory = alloc(devices_[rank], kCount * 4);
      ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory, memory, kCount, KEEL_FLOAT32, KEEL_SUM,
                                     streams_[rank]));
      ASSERT_KEEL_OK(keel_free(devices_[rank], memory));
    }
    for (keel_stream stream : streams_) {
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout)) << kinds;
    }
    EXPECT_EQ(native_operations(), 1u);
  }
}

TEST_F(MixedIslandsTest, AFailureInOneIslandIsEverybodys) {
  make_mix("cscss", {{"faults", "1/fail:ccl@1"}});
  enqueue(10'000);
  for (uint32_t rank = 0; rank < world(); ++rank) {
    expect_failure(rank, KEEL_INTERNAL, {"rank 3 (sim:1)", "injected failure of ccl 1"});
  }
}

TEST_F(MixedIslandsTest, AFailureInPiecesIsEverybodysToo) {
  constexpr uint64_t kPiece = 10'000;
  for (const bool gathers : {true, false}) {
    make_mix("stst", {{"faults", "1/fail:ccl@1"}});
    std::vector<void*> memory;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      memory.push_back(alloc(devices_[rank], 4 * kPiece * 4));
      auto* const own = static_cast<float*>(memory[rank]) + rank * kPiece;
      ASSERT_KEEL_OK(gathers ? keel_all_gather(comms_[rank], own, memory[rank], kPiece,
                                               KEEL_FLOAT32, streams_[rank])
                             : keel_reduce_scatter(comms_[rank], memory[rank], own, kPiece,
                                                   KEEL_FLOAT32, KEEL_SUM, streams_[rank]));
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      expect_failure(rank, KEEL_INTERNAL, {"rank 2 (sim", "injected failure of ccl 1"});
    }
    for (uint32_t rank = 0; rank < world(); ++rank) keel_free(devices_[rank], memory[rank]);
  }
}

// ---- who has no part -----------------------------------------------------------------

TEST_F(HierarchicalTest, ForbiddenByAnOption) {
  keel_comm_options given = options();
  given.forbid_native = 1;
  make_ranks(sims(3), given);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
  expect_explained("{\"ranks\": \"ranks 0-2\", \"why\": \"forbidden\"}");
}

TEST_F(HierarchicalTest, ForbiddenByTheEnvironment) {
  const std::vector<keel_device> devices = sims(2);
  ASSERT_EQ(setenv("KEEL_NATIVE", "0", 1), 0);
  make_ranks(devices);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
  ASSERT_EQ(setenv("KEEL_NATIVE", "off", 1), 0);
  keel_comm comms[2];
  EXPECT_EQ(keel_comm_init_all(devices.data(), 2, nullptr, comms), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(keel_last_error()).find("KEEL_NATIVE is 'off'"), std::string::npos);
  ASSERT_EQ(setenv("KEEL_NATIVE", "1", 1), 0);
  make_ranks(devices);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
  unsetenv("KEEL_NATIVE");
}

TEST_F(HierarchicalTest, AChipWithoutALibraryOrWithOneQueue) {
  make_ranks(sims(2, {{"ccl", "none"}}));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
  expect_explained("no native library");
  make_ranks(sims(2, {{"single_queue", "1"}}));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
}

// Callers compiled against shorter structs.
TEST_F(HierarchicalTest, ShorterStructsAreTaken) {
  const std::vector<keel_device> devices = sims(2);
  keel_comm_options given = options();
  given.header.size = offsetof(keel_comm_options, forbid_native);
  given.forbid_native = 1;  // beyond the shortened struct
  make_ranks(devices, given);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 100)), 1u);
  auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
  stats.header.size = offsetof(keel_comm_stats, native_operations);
  stats.native_operations = 77;
  EXPECT_KEEL_OK(keel_comm_stats_get(comms_[0], &stats));
  EXPECT_EQ(stats.native_operations, 77u);
  EXPECT_EQ(stats.operations, 1u);
  stats.header.size -= 8;
  EXPECT_EQ(keel_comm_stats_get(comms_[0], &stats), KEEL_INVALID_ARGUMENT);
}

// ---- failures ------------------------------------------------------------------------

TEST_F(HierarchicalTest, AnErrorOfTheLibraryNamesTheRank) {
  make_ranks(sims(4, {{"faults", "2/fail:ccl@2"}}));
  enqueue(1000);
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  enqueue(1000);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    expect_failure(rank, KEEL_INTERNAL,
                   {"all_reduce", "rank 2 (sim:2)", "injected failure of ccl 2"});
    EXPECT_EQ(keel_comm_async_error(comms_[rank]), KEEL_INTERNAL);
  }
}

TEST_F(HierarchicalTest, ARefusedCallAndALostDeviceAreNamedToo) {
  make_ranks(sims(3, {{"faults", "1/refuse:ccl@1"}}));
  enqueue(1000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_UNAVAILABLE, {"rank 1 (sim:1)", "injected refusal of ccl 1"});
  }
  make_ranks(sims(3, {{"faults", "0/lose:ccl@1"}}));
  enqueue(1000);
  for (uint32_t rank = 1; rank < 3; ++rank) {
    expect_failure(rank, KEEL_DEVICE_LOST, {"rank 0 (sim#2:0)", "injected at ccl 1"});
  }
}

TEST_F(HierarchicalTest, ALibraryThatHangsEndsAtTheDeadline) {
  make_ranks(sims(3, {{"faults", "1/stall:ccl@1"}}));
  set_timeout(kSecond);
  enqueue(1000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_TIMED_OUT, {"native all_reduce did not end in time"});
  }
}

TEST_F(HierarchicalTest, AMissingRankIsNamedAtTheDeadline) {
  make_ranks(sims(3));
  set_timeout(kSecond);
  enqueue({0, 2}, 1000);
  for (const uint32_t rank : {0, 2}) {
    expect_failure(rank, KEEL_TIMED_OUT, {"rank 1 (sim:1) did not call in time"});
  }
}

TEST_F(HierarchicalTest, AnAbortInMidOperationEndsAllAndHarmsNobody) {
  const std::vector<keel_device> devices = sims(4, {{"faults", "1/stall:ccl@1"}});
  make_ranks({devices[0], devices[1], devices[2]});
  enqueue(100'000);
  std::thread aborting([&] { EXPECT_KEEL_OK(keel_comm_abort(comms_[2])); });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_ABORTED, {"rank 2 aborted"});
  }
  aborting.join();
  // The devices and their library still work. Leaves out the faulty device: if the abort preceded
  // its call, the fault is still pending.
  make_ranks({devices[0], devices[2], devices[3]});
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(HierarchicalTest, CallsThatDoNotMatchFailOnAllAndItGoesOn) {
  make_ranks(sims(3));
  enqueue({0, 2}, 1000);
  enqueue({1}, 2000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_INVALID_ARGUMENT,
                   {"mismatch: rank 1 called all_reduce(2000 float32, sum)"});
  }
  EXPECT_EQ(native_operations(), 0u);
  // Native on two ranks, Keel's own path on the third: only a mismatch.
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    void* memory = buffers_[{rank, rank == 1 ? 2000 : 1000}];
    ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory, memory, 500,
                                   rank == 1 ? KEEL_FLOAT64 : KEEL_FLOAT32, KEEL_SUM,
                                   streams_[rank]));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_INVALID_ARGUMENT, {"mismatch: rank 1 called"});
  }
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

// The library would wait for the missing elements, or write beyond the buffer.
TEST_F(HierarchicalTest, AnExchangeThatDoesNotFitAnothersNamesBoth) {
  make_ranks(sims(3));
  const uint64_t counts[] = {100, 100, 100};
  const uint64_t fewer[] = {100, 100, 90};
  const uint64_t offsets[] = {0, 100, 200};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    void*& memory = buffers_[{rank, 600}];
    memory = alloc(devices_[rank], 600);
    ASSERT_KEEL_OK(keel_all_to_all_v(comms_[rank], memory, counts, offsets,
                                     static_cast<char*>(memory) + 300, rank == 1 ? fewer : counts,
                                     offsets, KEEL_UINT8, streams_[rank]));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_INVALID_ARGUMENT,
                   {"rank 2 sends 100 elements to rank 1, which receives 90"});
  }
}

TEST_F(HierarchicalTest, ARankWhoseStreamFailedIsNamedAndItGoesOn) {
  make_ranks(sims(3, {{"faults", "1/fail:fill@1"}}));
  void* memory = alloc(devices_[1], 4000);
  buffers_[{1, 1000}] = memory;
  ASSERT_KEEL_OK(fill(streams_[1], memory, 1, 1000));
  enqueue(1000);
  for (const uint32_t rank : {0, 2}) {
    expect_failure(rank, KEEL_RANK_FAILED, {"rank 1 (sim:1)", "injected failure of fill 1"});
  }
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(HierarchicalTest, DestroyedInMidOperation) {
  make_ranks(sims(2, {{"faults", "1/stall:ccl@1=50"}}));
  enqueue(1000);
  // Destroy waits for running operations, as documented.
  for (keel_comm comm : comms_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  comms_.clear();
  for (keel_stream stream : streams_) EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
}

}  // namespace
}  // namespace keel::testing
