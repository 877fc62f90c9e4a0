// SPDX-License-Identifier: Apache-2.0
// Failures of HCCL's collectives as a framework sees them, on the emulated chip. HCCL has neither
// an abort nor a deadline.
#include <string>
#include <vector>

#include "backends/ascend/testing/own_sdk.h"
#include "collectives/testing/device_ranks.h"

namespace keel::testing {
namespace {

class AscendRanksTest : public DeviceRanks {
 protected:
  static std::vector<keel_device> load_ascend(const OwnSdk& sdk) {
    return load("ascend", {{"library_folder", sdk.folder()}});
  }
};

// The operation does not end on the other devices, which are lost with it.
TEST_F(AscendRanksTest, ALostDeviceInMidCollectiveIsNamed) {
  const OwnSdk sdk("devices=3 memory_mib=64 faults=0/lose:ccl@1");
  const std::vector<keel_device> devices = load_ascend(sdk);
  ASSERT_EQ(devices.size(), 3u);
  make_ranks(devices);
  set_timeout(20 * kSecond);
  enqueue(1000);
  for (uint32_t rank = 1; rank < 3; ++rank) {
    // The stream may tell of its own device first.
    EXPECT_EQ(keel_stream_synchronize(streams_[rank], kTestTimeout), KEEL_DEVICE_LOST)
        << keel_last_error();
    EXPECT_NE(keel_comm_async_error(comms_[rank]), KEEL_OK);
    EXPECT_NE(std::string(keel_last_error()).find("rank 0 (ascend:0)"), std::string::npos)
        << keel_last_error();
  }
}

TEST_F(AscendRanksTest, AHangEndsAtTheDeadlineAndLosesTheDevices) {
  const OwnSdk sdk("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  const std::vector<keel_device> devices = load_ascend(sdk);
  ASSERT_EQ(devices.size(), 2u);
  expect_hang_loses_devices(devices);
}

// Rank 1's ccl.run fails at its second call, with the first call under way: rank 0 stalls.
TEST_F(AscendRanksTest, ARunThatFailsHalfwayDestroysNothingThatRuns) {
  const OwnSdk one("devices=2 memory_mib=64 faults=0/stall:ccl@1,1/refuse:ccl@2");
  const std::vector<keel_device> first = load_ascend(one);
  const OwnSdk two("devices=4 memory_mib=64");
  const std::vector<keel_device> second = load_ascend(two);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 4u);
  make_ranks({first[0], first[1], second[2], second[3]});  // other chips
  set_timeout(20 * kSecond);
  enqueue(100'001);  // an odd count is reduced by a call for each lane
  for (keel_stream stream : streams_) {
    EXPECT_NE(keel_stream_synchronize(stream, kTestTimeout), KEEL_OK);
  }
  EXPECT_NE(keel_comm_async_error(comms_[3]), KEEL_OK);
  EXPECT_NE(std::string(keel_last_error()).find("HcclReduce"), std::string::npos)
      << keel_last_error();
}

// An abort of one rank, while the library hangs: the ranks return, with the device lost.
TEST_F(AscendRanksTest, AnAbortEndsRanksWhoseLibraryHangs) {
  const OwnSdk sdk("devices=2 memory_mib=64 faults=1/stall:ccl@1");
  const std::vector<keel_device> devices = load_ascend(sdk);
  ASSERT_EQ(devices.size(), 2u);
  make_ranks(devices);
  enqueue(1000);
  ASSERT_KEEL_OK(keel_comm_abort(comms_[0]));
  for (keel_stream stream : streams_) {
    const keel_status status = keel_stream_synchronize(stream, kTestTimeout);
    EXPECT_TRUE(status == KEEL_ABORTED || status == KEEL_DEVICE_LOST) << keel_last_error();
  }
}

}  // namespace
}  // namespace keel::testing
