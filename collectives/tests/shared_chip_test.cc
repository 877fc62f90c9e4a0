// SPDX-License-Identifier: Apache-2.0
// A job that names two devices of one chip is told.
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class SharedChipTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    ASSERT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, &SharedChipTest::keep, this));
  }
  void TearDown() override {
    EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr));
    KeelTest::TearDown();
  }
  static void keep(void* self, keel_log_level, const char* text) {
    static_cast<SharedChipTest*>(self)->log_.emplace_back(text);
  }
  void make_and_destroy(const std::vector<keel_device>& devices) {
    std::vector<keel_comm> comms(devices.size());
    ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), static_cast<uint32_t>(devices.size()),
                                      nullptr, comms.data()));
    for (const keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  }

  std::vector<std::string> log_;
};

// By PCI address, as one vendor and another write it.
TEST_F(SharedChipTest, RanksOfTwoBackendsAreNamedOnce) {
  const keel_device cpu = load("cpu").at(0);
  const std::vector<keel_device> one = load("fake", {{"devices", "2"}, {"pci_bus", "59"}});
  const std::vector<keel_device> two =
      load("fake", {{"devices", "1"}, {"pci_bus", "59"}, {"pci_style", "1"}});
  make_and_destroy({cpu, one[0], one[1]});
  EXPECT_TRUE(log_.empty()) << log_[0];
  for (int i = 0; i < 2; ++i) make_and_destroy({two[0], cpu, one[1], one[0]});
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0],
            "rank 0 (fake#2:0) and rank 3 (fake:0) drive one chip: they share its memory and time");
}

// By UUID, with a thread for each rank.
TEST_F(SharedChipTest, RanksOfThreadsAreNamedToo) {
  const keel_device one = load("fake", {{"devices", "1"}}).at(0);
  const keel_device two = load("fake", {{"devices", "1"}, {"uuid", "9"}}).at(0);
  const keel_device three = load("fake", {{"devices", "1"}, {"uuid", "9"}}).at(0);
  keel_unique_id id = {};
  ASSERT_KEEL_OK(keel_unique_id_create(&id));
  const keel_device devices[] = {one, two, three};
  std::vector<keel_comm> comms(3);
  {
    std::vector<std::jthread> ranks;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        EXPECT_KEEL_OK(keel_comm_init_rank(devices[rank], &id, rank, 3, nullptr, &comms[rank]));
      });
    }
  }
  for (const keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("rank 1 (fake#2:0) and rank 2 (fake#3:0) drive one chip"),
            std::string::npos)
      << log_[0];
}

}  // namespace
}  // namespace keel::testing
