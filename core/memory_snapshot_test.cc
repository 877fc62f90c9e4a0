// SPDX-License-Identifier: Apache-2.0
// keel_memory_snapshot is JSON, and agrees with keel_memory_stats.
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class MemorySnapshotTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
  }
  nlohmann::json snapshot() {
    uint64_t size = 0;
    EXPECT_EQ(keel_memory_snapshot(device_, nullptr, &size), KEEL_OUT_OF_RANGE);
    std::string text(size, '\0');
    EXPECT_KEEL_OK(keel_memory_snapshot(device_, text.data(), &size));
    text.resize(size - 1);
    auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(parsed.is_discarded()) << text;
    return parsed;
  }
  void expect_sums() {
    auto stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    ASSERT_KEEL_OK(keel_memory_stats_get(device_, &stats));
    const nlohmann::json all = snapshot();
    ASSERT_TRUE(all.is_object());
    EXPECT_EQ(all["allocated"], stats.allocated);
    EXPECT_EQ(all["requested"], stats.requested);
    EXPECT_EQ(all["reserved"], stats.reserved);
    uint64_t reserved = 0;
    uint64_t allocated = 0;
    uint64_t requested = 0;
    uint64_t live = 0;
    for (const nlohmann::json& segment : all["segments"]) {
      reserved += segment["size"].get<uint64_t>();
      uint64_t offset = 0;
      for (const nlohmann::json& block : segment["blocks"]) {
        EXPECT_EQ(block["offset"], offset) << "blocks follow each other";
        offset += block["size"].get<uint64_t>();
        if (block["state"] != "used") {
          EXPECT_FALSE(block.contains("requested"));
          EXPECT_EQ(block["state"] == "pending", !block["after"].empty());
          continue;
        }
        ++live;
        allocated += block["size"].get<uint64_t>();
        requested += block["requested"].get<uint64_t>();
      }
      EXPECT_EQ(offset, segment["size"]);
    }
    EXPECT_EQ(reserved, stats.reserved);
    EXPECT_EQ(allocated, stats.allocated);
    EXPECT_EQ(requested, stats.requested);
    EXPECT_EQ(live, stats.live_blocks);
  }

  keel_device device_ = {};
  keel_stream stream_ = {};
};

TEST_P(MemorySnapshotTest, OfNothing) {
  expect_sums();
  EXPECT_TRUE(snapshot()["segments"].empty());
}

TEST_P(MemorySnapshotTest, SumsAreThoseOfTheStatistics) {
  const FakePause pause;  // so that freed blocks stay pending
  std::mt19937_64 random(5);
  std::vector<void*> live;
  for (int round = 0; round < 400; ++round) {
    if (live.empty() || random() % 3 != 0) {
      // Of every class: small, medium, and a few huge ones.
      const uint64_t limit = round % 50 == 0 ? 80 << 20 : round % 5 == 0 ? 4 << 20 : 64 << 10;
      void* memory = nullptr;
      ASSERT_KEEL_OK(keel_alloc_on_stream(stream_, random() % limit + 16, &memory));
      ASSERT_KEEL_OK(fill(stream_, memory, 1, 1));
      live.push_back(memory);
    } else {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_KEEL_OK(keel_free_on_stream(stream_, live.back()));
      live.pop_back();
    }
    if (round % 40 == 0) expect_sums();
  }
  expect_sums();
  for (void* memory : live) ASSERT_KEEL_OK(keel_free(device_, memory));
  expect_sums();
}

INSTANTIATE_TEST_SUITE_P(Plugins, MemorySnapshotTest, ::testing::Values("fake", "sim_paused"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
