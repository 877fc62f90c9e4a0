// SPDX-License-Identifier: Apache-2.0
// Collectives of the CUDA backend through keel.h, on the NCCL over the emulated chip: the
// operations that use the library and those that do not, unusable libraries, and failures.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "collectives/testing/device_ranks.h"

namespace keel::testing {
namespace {

class CudaCclTest : public DeviceRanks {
 protected:
  static std::vector<keel_device> load_cuda(const OwnDriver& driver) {
    return load("cuda", {{"library_folder", driver.folder()}});
  }
  static bool claims_collectives(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return (info.capabilities & KEEL_CAPABILITY_CCL) != 0;
  }
};

// The last six use sends and receives in a group.
constexpr Operation kNative[] = {
    Operation::kAllReduce, Operation::kReduce,   Operation::kReduceScatter, Operation::kBroadcast,
    Operation::kAllGather, Operation::kAllToAll, Operation::kAllGatherV,    Operation::kAllToAllV,
    Operation::kGather,    Operation::kGatherV,  Operation::kScatter,       Operation::kScatterV};

// NCCL has no 16-bit integers, and 8-bit floats only from compute capability 9.0 on.
bool has_type(keel_dtype dtype) {
  return dtype != KEEL_INT16 && dtype != KEEL_UINT16 && dtype != KEEL_FLOAT8_E4M3FN &&
         dtype != KEEL_FLOAT8_E5M2;
}

// ---- what goes through it -----------------------------------------------------

TEST_F(CudaCclTest, OneIslandOfAll) {
  const OwnDriver driver("devices=4 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> devices = load_cuda(driver);
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_TRUE(claims_collectives(devices[0]));
  for (const uint32_t ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    make_ranks({devices.begin(), devices.begin() + ranks});
    expect_explained(R"("library": "NCCL 2.28.9")");
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
}

// Operations that NCCL lacks use Keel's own path, with equal results.
TEST_F(CudaCclTest, EveryDtypeByEveryReduction) {
  const OwnDriver driver("devices=3 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  make_ranks(load_cuda(driver));
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      Case made = scenario(Operation::kAllReduce, dtype, 777);
      made.reduction = reduction;
      EXPECT_EQ(run(made), has_type(dtype) ? 1u : 0u) << made.describe();
    }
    EXPECT_EQ(run(scenario(Operation::kAllGather, dtype, 334)), has_type(dtype) ? 1u : 0u);
    EXPECT_EQ(run(scenario(Operation::kAllToAll, dtype, 334)), has_type(dtype) ? 1u : 0u);
    EXPECT_EQ(run(scenario(Operation::kAllToAllV, dtype, 333)), has_type(dtype) ? 1u : 0u);
    if (HasFailure()) return;
  }
}

// CPU ranks beside an island: the library inside the island, Keel's own path between.
TEST_F(CudaCclTest, CpuRanksBesideAnIsland) {
  const OwnDriver driver("devices=3 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> cpus = load("cpu");
  const std::vector<keel_device> gpus = load_cuda(driver);
  ASSERT_FALSE(cpus.empty());
  ASSERT_EQ(gpus.size(), 3u);
  make_ranks({gpus[0], cpus[0], gpus[1], gpus[2], cpus[0]});
  expect_explained(R"("islands": [{"ranks": "ranks 0, 2, 3", "library": "NCCL 2.28.9"}])");
  expect_explained(R"("why": "no native library")");
  for (uint32_t number = 0; number < kOperations; ++number) {
    const auto operation = static_cast<Operation>(number);
    const bool is_mixed = operation == Operation::kAllReduce || operation == Operation::kBroadcast;
    for (const uint64_t count : {1, 6000, 40'001}) {
      EXPECT_EQ(run(scenario(operation, KEEL_FLOAT32, count)), is_mixed && count > 1 ? 1u : 0u)
          << number << " of " << count;
      if (HasFailure()) return;
    }
  }
  // All ranks hold the same bits, regardless of rounding.
  constexpr uint64_t kCount = 10'007;
  std::vector<void*> memory;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    std::vector<uint32_t> values = pattern(kCount, rank);
    for (uint32_t& value : values) value = value % 0x10000000 + 0x38000000;  // floats
    memory.push_back(alloc_filled(devices_[rank], values));
    ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory[rank], memory[rank], kCount, KEEL_FLOAT32,
                                   KEEL_SUM, streams_[rank]));
  }
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  const std::vector<uint32_t> first = read(devices_[0], memory[0], kCount);
  for (uint32_t rank = 1; rank < world(); ++rank) {
    EXPECT_EQ(read(devices_[rank], memory[rank], kCount), first) << "rank " << rank;
  }
  for (uint32_t rank = 0; rank < world(); ++rank) {
    EXPECT_KEEL_OK(keel_free(devices_[rank], memory[rank]));
  }
}

// ---- parts ----------------------------------------------------------------------

// Sums over the ranks of |colors| in their parts, one thread per rank. Returns, by rank, the number
// of the parts' operations that used the library.
std::vector<uint64_t> sum_in_parts(const std::vector<keel_comm>& comms,
                                   const std::vector<keel_device>& devices,
                                   const std::vector<keel_stream>& streams,
                                   const std::vector<int32_t>& colors) {
  std::vector<uint64_t> native(comms.size());
  std::vector<std::string> problems(comms.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([&, rank] {
      keel_comm part = {};
      // In reverse order of the ranks.
      if (keel_comm_split(comms[rank], colors[rank], -static_cast<int32_t>(rank), nullptr, &part) !=
          KEEL_OK) {
        problems[rank] = keel_last_error();
        return;
      }
      if (colors[rank] == KEEL_NO_COLOR) return;
      Case made;
      made.operation = Operation::kAllGather;
      made.dtype = KEEL_FLOAT32;
      made.count = 2000;
      uint32_t part_rank = 0;
      for (uint32_t other = 0; other < comms.size(); ++other) {
        if (colors[other] != colors[rank]) continue;
        ++made.world;
        if (other > rank) ++part_rank;
      }
      --made.world;  // a world of one rank at first
      problems[rank] = run_case(Reference(made), part_rank, devices[rank], part, streams[rank]);
      auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
      EXPECT_KEEL_OK(keel_comm_stats_get(part, &stats));
      native[rank] = stats.native_operations;
      EXPECT_KEEL_OK(keel_comm_destroy(part));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  return native;
}

// The library provides a single unique id, so any further communicator is a split made by the
// library.
TEST_F(CudaCclTest, PartsAreSplitByTheLibrary) {
  const OwnDriver driver("devices=4 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE, "ids=1");
  make_ranks(load_cuda(driver));
  const std::vector<int32_t> colors = {7, 3, 7, 3};
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, colors), std::vector<uint64_t>(4, 1));
  // A pair, a single rank, and a rank without a part.
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, {1, 1, 2, KEEL_NO_COLOR}),
            (std::vector<uint64_t>{1, 1, 0, 0}));
  // All ranks, as in a duplicate.
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, {0, 0, 0, 0}), std::vector<uint64_t>(4, 1));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(CudaCclTest, PartsOfAnIslandBesideCpuRanks) {
  const OwnDriver driver("devices=4 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE, "ids=1");
  const std::vector<keel_device> cpus = load("cpu");
  const std::vector<keel_device> gpus = load_cuda(driver);
  make_ranks({gpus[0], cpus[0], gpus[1], gpus[2], cpus[0], gpus[3]});
  // The first part spans an island of two ranks and CPU ranks, and uses Keel's own path up to 4
  // KiB.
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, {0, 0, 0, 1, 1, 1}),
            (std::vector<uint64_t>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, {0, 1, 0, 0, 1, 0}),
            (std::vector<uint64_t>{1, 0, 1, 1, 0, 1}));
}

// A library without splits: the parts rendezvous with new ids.
TEST_F(CudaCclTest, PartsOfAnOlderLibraryMeetAnew) {
  const OwnDriver driver("devices=4 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_OLDER, "version=21403");
  make_ranks(load_cuda(driver));
  EXPECT_EQ(sum_in_parts(comms_, devices_, streams_, {7, 3, 7, 3}), std::vector<uint64_t>(4, 1));
}

// ---- libraries ------------------------------------------------------------------

TEST_F(CudaCclTest, WithoutALibraryNothingIsClaimedAndAllGoesOn) {
  const OwnDriver driver("devices=2 memory_mib=64");
  make_ranks(load_cuda(driver));
  EXPECT_FALSE(claims_collectives(devices_[0]));
  expect_explained("no native library");
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
}

TEST_F(CudaCclTest, ALibraryThatIsTooOldIsNotUsed) {
  const OwnDriver driver("devices=2 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE, "version=21307");
  make_ranks(load_cuda(driver));
  EXPECT_FALSE(claims_collectives(devices_[0]));
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 0u);
}

TEST_F(CudaCclTest, AnOlderLibraryDoesWhatItHas) {
  const OwnDriver driver("devices=2 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_OLDER, "version=21403");
  make_ranks(load_cuda(driver));
  EXPECT_TRUE(claims_collectives(devices_[0]));
  expect_explained(R"("library": "NCCL 2.14.3")");
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
  // By sends and receives, in place and out of place: the library has no other way.
  EXPECT_EQ(run(scenario(Operation::kAllToAll, KEEL_FLOAT32, 5000)), 1u);
  EXPECT_EQ(run(scenario(Operation::kAllToAll, KEEL_FLOAT32, 5001)), 1u);
}

TEST_F(CudaCclTest, TheFolderOfTheLibrary) {
  const OwnDriver driver("devices=2 memory_mib=64");
  const OwnDriver elsewhere("devices=2 memory_mib=64");
  elsewhere.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const auto claims = [&](const Settings& more) {
    Settings settings = {{"library_folder", driver.folder()}};
    settings.insert(more.begin(), more.end());
    return claims_collectives(load("cuda", settings).at(0));
  };
  EXPECT_FALSE(claims({}));
  EXPECT_TRUE(claims({{"nccl_folder", elsewhere.folder()}}));
  setenv("KEEL_NCCL_LIBRARY_FOLDER", elsewhere.folder().c_str(), 1);
  EXPECT_TRUE(claims({}));
  EXPECT_FALSE(claims({{"nccl_folder", driver.folder()}})) << "a setting goes first";
  unsetenv("KEEL_NCCL_LIBRARY_FOLDER");
}

// ---- failures -------------------------------------------------------------------

TEST_F(CudaCclTest, AnErrorOfTheLibraryNamesTheRankAndTheDevicesGoOn) {
  const OwnDriver driver("devices=3 memory_mib=64 faults=1/fail:ccl@2");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> devices = load_cuda(driver);
  make_ranks(devices);
  enqueue(1000);
  for (keel_stream stream : streams_) ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  enqueue(1000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_INTERNAL,
                   {"all_reduce", "rank 1 (cuda:1)", "injected failure of ccl 2"});
    EXPECT_EQ(keel_comm_async_error(comms_[rank]), KEEL_INTERNAL);
  }
  make_ranks(devices);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(CudaCclTest, ARefusedCallIsNamed) {
  const OwnDriver driver("devices=3 memory_mib=64 faults=1/refuse:ccl@1");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  make_ranks(load_cuda(driver));
  enqueue(1000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_UNAVAILABLE, {"rank 1 (cuda:1)", "injected refusal of ccl 1"});
  }
}

TEST_F(CudaCclTest, ALostDeviceIsNamedAndTheOthersGoOn) {
  const OwnDriver driver("devices=3 memory_mib=64 faults=0/lose:ccl@1");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> devices = load_cuda(driver);
  make_ranks(devices);
  enqueue(1000);
  for (uint32_t rank = 1; rank < 3; ++rank) {
    expect_failure(rank, KEEL_DEVICE_LOST, {"rank 0 (cuda:0)", "CUDA_ERROR_ECC_UNCORRECTABLE"});
  }
  make_ranks({devices[1], devices[2]});
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(CudaCclTest, AnAbortInMidOperationEndsAllAndHarmsNoDevice) {
  const OwnDriver driver("devices=4 memory_mib=64 faults=1/stall:ccl@1");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> devices = load_cuda(driver);
  expect_abort_ends_all({devices[0], devices[1], devices[2]});
  // Without the faulty device: the abort may precede its call.
  make_ranks({devices[0], devices[2], devices[3]});
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

// With more work behind, which the aborting rank publishes as failed: all ranks see the abort.
TEST_F(CudaCclTest, AnAbortAtAnyMomentIsToldAsOne) {
  const OwnDriver driver("devices=2 memory_mib=64");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  const std::vector<keel_device> devices = load_cuda(driver);
  for (int round = 0; round < 30; ++round) {
    make_ranks(devices);
    for (int i = 0; i < 4; ++i) enqueue(500'000);
    std::thread aborting([&] { EXPECT_KEEL_OK(keel_comm_abort(comms_[1])); });
    for (keel_stream stream : streams_) {
      const keel_status status = keel_stream_synchronize(stream, kTestTimeout);
      EXPECT_TRUE(status == KEEL_OK || status == KEEL_ABORTED) << keel_last_error();
    }
    aborting.join();
  }
}

TEST_F(CudaCclTest, WhatHangsEndsAtTheDeadlineAndHarmsNoDevice) {
  const OwnDriver driver("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE);
  expect_hang_ends_at_deadline(load_cuda(driver));
}

// The work is abandoned, and its devices are reported lost.
TEST_F(CudaCclTest, AHangThatAnAbortDoesNotEndLosesTheDevices) {
  const OwnDriver driver("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  driver.add_nccl(KEEL_EMULATED_NCCL_FILE, "abort=0");
  expect_hang_loses_devices(load_cuda(driver));
}

}  // namespace
}  // namespace keel::testing
