// SPDX-License-Identifier: Apache-2.0
// Plugins that were compiled with an older and with a newer minor version of abi.h.
#include <cstdlib>
#include <string>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class AbiGrowthTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    const std::vector<keel_device> devices = load(GetParam(), {{"devices", "1"}});
    ASSERT_EQ(devices.size(), 1u);
    device_ = devices[0];
    stream_ = new_stream(device_);
  }
  void TearDown() override {
    keel_stream_destroy(stream_);
    KeelTest::TearDown();
  }
  bool is_newer() const { return std::string(GetParam()) == "newer"; }

  keel_device device_ = {};
  keel_stream stream_ = {};
};

TEST_P(AbiGrowthTest, AllThatBothVersionsKnowWorks) {
  constexpr size_t kWords = 5000;
  void* const first = alloc_filled(device_, pattern(kWords, 1));
  void* const second = alloc(device_, kWords * sizeof(uint32_t));
  ASSERT_KEEL_OK(keel_copy(stream_, device_, second, device_, first, kWords * sizeof(uint32_t)));
  const keel_event event = record(stream_);
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  EXPECT_EQ(read(device_, second, kWords), pattern(kWords, 1));
  EXPECT_KEEL_OK(fill(stream_, second, 7, kWords));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(device_, second, kWords), std::vector<uint32_t>(kWords, 7));
  EXPECT_KEEL_OK(keel_event_destroy(event));
  EXPECT_KEEL_OK(keel_free(device_, first));
  EXPECT_KEEL_OK(keel_free(device_, second));
}

TEST_P(AbiGrowthTest, CollectivesNeedNoneOfTheOlderTables) {
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm));
  void* const memory = alloc_filled(device_, pattern(3000, 2));
  ASSERT_KEEL_OK(keel_all_reduce(comm, memory, memory, 3000, KEEL_UINT32, KEEL_SUM, stream_));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 3000), pattern(3000, 2));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
  EXPECT_KEEL_OK(keel_free(device_, memory));
}

// Slots that the older tables do not have are missing, not called.
TEST_P(AbiGrowthTest, MissingSlotsAreUnsupported) {
  uint64_t free = 0;
  uint64_t total = 0;
  const keel_status info = keel_device_memory_info(device_, &free, &total);
  EXPECT_EQ(info, is_newer() ? KEEL_OK : KEEL_UNSUPPORTED);
  std::vector<uint32_t> words(4096);
  const keel_status registered = keel_host_register(device_, words.data(), 16384);
  EXPECT_EQ(registered, is_newer() ? KEEL_OK : KEEL_UNSUPPORTED);
  if (registered == KEEL_OK) {
    EXPECT_KEEL_OK(keel_host_unregister(device_, words.data()));
  }
}

INSTANTIATE_TEST_SUITE_P(Plugins, AbiGrowthTest, ::testing::Values("older", "newer"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
