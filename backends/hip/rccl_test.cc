// SPDX-License-Identifier: Apache-2.0
// Collectives of the HIP backend through keel.h, on the RCCL over the emulated chip.
#include <string>
#include <vector>

#include "backends/hip/testing/hip_test.h"

namespace keel::testing {
namespace {

class HipRcclTest : public HipFixture {
 protected:
  void TearDown() override {
    for (const keel_comm comm : comms_) keel_comm_destroy(comm);
    HipFixture::TearDown();
  }
  void make_ranks(const std::vector<keel_device>& devices) {
    devices_ = devices;
    comms_.resize(devices_.size());
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = kTestTimeout;
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), static_cast<uint32_t>(devices_.size()),
                                      &options, comms_.data()));
  }
  // Sums 5000 words over all ranks; the number of operations that RCCL ran on rank 0.
  uint64_t sum() {
    constexpr uint32_t kCount = 5000;
    const uint64_t before = native_operations();
    std::vector<keel_stream> streams;
    std::vector<void*> buffers;
    for (const keel_device device : devices_) {
      streams.push_back(new_stream(device));
      buffers.push_back(alloc_filled(device, std::vector<uint32_t>(kCount, 3)));
    }
    for (size_t i = 0; i < comms_.size(); ++i) {
      EXPECT_KEEL_OK(keel_all_reduce(comms_[i], buffers[i], buffers[i], kCount, KEEL_UINT32,
                                     KEEL_SUM, streams[i]));
    }
    const auto wanted = static_cast<uint32_t>(3 * devices_.size());
    for (size_t i = 0; i < comms_.size(); ++i) {
      EXPECT_KEEL_OK(keel_stream_synchronize(streams[i], kTestTimeout));
      EXPECT_EQ(read(devices_[i], buffers[i], kCount), std::vector<uint32_t>(kCount, wanted));
    }
    return native_operations() - before;
  }
  uint64_t native_operations() {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(comms_[0], &stats));
    return stats.native_operations;
  }
  static bool claims_collectives(keel_device device) {
    return (info(device).capabilities & KEEL_CAPABILITY_CCL) != 0;
  }

  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
};

TEST_F(HipRcclTest, TheLibraryRunsTheCollective) {
  const OwnRuntime runtime("devices=3 memory_mib=64");
  runtime.add_rccl();
  make_ranks(load_hip(runtime));
  EXPECT_TRUE(claims_collectives(devices_[0]));
  EXPECT_EQ(sum(), 1u);
}

TEST_F(HipRcclTest, WithoutALibraryAllGoesOn) {
  const OwnRuntime runtime("devices=2 memory_mib=64");
  make_ranks(load_hip(runtime));
  EXPECT_FALSE(claims_collectives(devices_[0]));
  EXPECT_EQ(sum(), 0u);
}

// RCCL of ROCm 5.2 is that old.
TEST_F(HipRcclTest, ALibraryThatIsTooOldIsNotUsed) {
  const OwnRuntime runtime("devices=2 memory_mib=64");
  runtime.add_rccl("version=21210");
  make_ranks(load_hip(runtime));
  EXPECT_FALSE(claims_collectives(devices_[0]));
  EXPECT_EQ(sum(), 0u);
}

}  // namespace
}  // namespace keel::testing
