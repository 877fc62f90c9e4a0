// SPDX-License-Identifier: Apache-2.0
// Failures of RCCL's collectives as a framework sees them, on the emulated chip.
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
};

TEST_F(HipRanksTest, AHangEndsAtTheDeadlineAndHarmsNoDevice) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  expect_hang_ends_at_deadline(devices);
}

// The work is abandoned, and its devices are reported lost.
TEST_F(HipRanksTest, AHangThatAnAbortDoesNotEndLosesTheDevices) {
  const OwnRuntime runtime("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl("abort=0");
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 2u);
  expect_hang_loses_devices(devices);
}

TEST_F(HipRanksTest, ALostDeviceInMidCollectiveIsNamedAndTheOthersGoOn) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=0/lose:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  expect_lost_device_is_named(devices, "hip:0");
}

TEST_F(HipRanksTest, AnAbortEndsAllRanks) {
  const OwnRuntime runtime("devices=3 memory_mib=64 faults=1/stall:ccl@1");
  runtime.add_rccl();
  const std::vector<keel_device> devices = load_hip(runtime);
  ASSERT_EQ(devices.size(), 3u);
  expect_abort_ends_all(devices);
}

}  // namespace
}  // namespace keel::testing
