// SPDX-License-Identifier: Apache-2.0
// Failures of RCCL's collectives as a framework sees them, on the emulated chip.
#include <thread>
#include <vector>

#include "backends/hip/testing/own_runtime.h"
#include "collectives/testing/device_ranks.h"

namespace keel::testing {
namespace {

class HipRanksTest : public DeviceRanks {
 protected:
  static std::vector<keel_device> load_hip(const OwnRuntime& runtime) {
    return load("hip", {{"library_folder", runtime.folder()}});
  }
  void set_timeout(int64_t timeout_ns) {
    for (keel_comm comm : comms_) ASSERT_KEEL_OK(keel_comm_timeout_set(comm, timeout_ns));
  }
};

TEST_F(HipRanksTest, AHangEndsAtTheDeadlineAndHarmsNoDevice) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  make_ranks(devices);
  set_timeout(kSecond);
  enqueue(1000);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_TIMED_OUT, {"native all_reduce did not end in time"});
  }
  make_ranks(devices);
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

// The work is abandoned, and its devices are reported lost.
TEST_F(HipRanksTest, AHangThatAnAbortDoesNotEndLosesTheDevices) {
  const OwnRuntime runtime("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl("abort=0");
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 2u);
  make_ranks(devices);
  set_timeout(kSecond);
  enqueue(1000);
  for (keel_stream stream : streams_) {
    EXPECT_NE(keel_stream_synchronize(stream, kTestTimeout), KEEL_OK);
  }
  end_ranks();
  for (keel_device device : devices) {
    void* memory = nullptr;
    EXPECT_EQ(keel_alloc(device, KEEL_MEMORY_DEVICE, 1 << 20, &memory), KEEL_DEVICE_LOST);
  }
}

TEST_F(HipRanksTest, ALostDeviceInMidCollectiveIsNamedAndTheOthersGoOn) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=0/lose:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  make_ranks(devices);
  set_timeout(20 * kSecond);
  enqueue(1000);
  for (uint32_t rank = 1; rank < 3; ++rank) {
    expect_failure(rank, KEEL_DEVICE_LOST, {"rank 0 (hip:0)"});
  }
  make_ranks({devices[1], devices[2]});
  EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
}

TEST_F(HipRanksTest, AnAbortEndsAllRanks) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  make_ranks(devices);
  enqueue(100'000);
  std::thread aborting([&] { EXPECT_KEEL_OK(keel_comm_abort(comms_[2])); });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_failure(rank, KEEL_ABORTED, {"rank 2 aborted"});
  }
  aborting.join();
}

}  // namespace
}  // namespace keel::testing
