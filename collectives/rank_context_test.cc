// SPDX-License-Identifier: Apache-2.0
// A rank's view of the descriptors of its peers before the operation.
#include "collectives/rank_context.h"

#include <array>
#include <future>
#include <memory>
#include <vector>

#include "collectives/all_gather_control.h"
#include "collectives/explain.h"
#include "core/api.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class RankContextTest : public KeelTest {
 protected:
  static constexpr uint32_t kWorld = 3;

  void SetUp() override {
    KeelTest::SetUp();
    Ref<Device> device;
    ASSERT_TRUE(find_device(load("fake", {{"devices", "1"}}).at(0), "device", &device).ok());
    std::vector<PeerInfo> peer_infos(kWorld);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      peer_infos[rank].rank = rank;
      peer_infos[rank].device = device->name();
      peer_infos[rank].process = MemHandleServer::get().token();
    }
    ASSERT_TRUE(Team::create_local(std::move(peer_infos), &team_).ok());
    team_->segment().set_chunk_bytes(4096);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ranks_[rank] = std::make_unique<RankContext>(team_, rank, device, /*forbid_alias=*/false);
      ranks_[rank]->make_staging();
    }
  }
  void TearDown() override {
    for (auto& rank : ranks_) rank = nullptr;
    team_ = nullptr;
    KeelTest::TearDown();
  }

  // Returns each rank's status of an exchange of all.
  std::array<Status, kWorld> all_gather_control_to_all() {
    std::array<std::future<Status>, kWorld> running;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      running[rank] = std::async(std::launch::async, [this, rank] {
        const std::atomic<bool> never{false};
        WaitContext wait_context(60'000'000'000, never);
        std::vector<uint32_t> all;
        return exchange(*ranks_[rank], kSplitCollective, rank, wait_context, &all);
      });
    }
    std::array<Status, kWorld> results;
    for (uint32_t rank = 0; rank < kWorld; ++rank) results[rank] = running[rank].get();
    return results;
  }

  std::shared_ptr<Team> team_;
  std::array<std::unique_ptr<RankContext>, kWorld> ranks_;
};

// A call made but not published would leave the ranks one operation apart.
TEST_F(RankContextTest, ARankThatHasMadeAnotherNumberOfCallsEndsTheCommunicatorByName) {
  for (auto& rank : ranks_) rank->call = 0x1ffff;  // 16 bits are published
  for (const Status& status : all_gather_control_to_all())
    EXPECT_TRUE(status.ok()) << status.text();
  for (auto& rank : ranks_) ++rank->call;
  ++ranks_[1]->call;
  for (const Status& status : all_gather_control_to_all()) {
    EXPECT_EQ(status.code(), KEEL_RANK_FAILED);
    EXPECT_NE(std::string(status.text()).find("rank 1 (fake:0) made another number of calls"),
              std::string::npos)
        << status.text();
  }
  EXPECT_EQ(team_->segment().failures().status().code(), KEEL_RANK_FAILED);
}

TEST_F(RankContextTest, ADeviceNameOfAnyBytesIsAStringOfTheExplanation) {
  Ref<Device> device;
  ASSERT_TRUE(find_device(load("fake", {{"devices", "1"}}).at(0), "device", &device).ok());
  std::vector<PeerInfo> peer_infos(1);
  peer_infos[0].device = "odd\"\\\xff";
  peer_infos[0].process = MemHandleServer::get().token();
  std::shared_ptr<Team> team;
  ASSERT_TRUE(Team::create_local(std::move(peer_infos), &team).ok());
  RankContext context(team, 0, device, /*forbid_alias=*/false);
  Selection selection;
  ASSERT_TRUE(Selection::make({}, {}, &selection).ok());
  std::string text;
  JsonWriter json(&text, JsonLayout::kOneLine);
  const HierarchicalPlan alone(std::vector<NativeRank>(1));
  explain_communicator(context, 1, selection, "built-in", alone, /*lane=*/nullptr, json);
  EXPECT_NE(text.find("\"device\": \"odd\\\"\\\\\\ufffd\", "), std::string::npos) << text;
}

}  // namespace
}  // namespace keel::testing
