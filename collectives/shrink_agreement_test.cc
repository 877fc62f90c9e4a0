// SPDX-License-Identifier: Apache-2.0
#include "collectives/shrink_agreement.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "collectives/testing/test_segment.h"

namespace keel {
namespace {

using Votes = ShrinkAgreement::Votes;
using Outcome = ShrinkAgreement::Outcome;

class ShrinkAgreementTest : public ::testing::Test {
 protected:
  void start(uint32_t world) {
    segment_ = testing::make_segment(world, /*oversubscribed=*/true);
    ASSERT_NE(segment_, nullptr);
    gone_ = std::vector<std::atomic<bool>>(world);
    for (uint32_t rank = 0; rank < world; ++rank) ranks_.push_back(make(rank));
  }
  ShrinkAgreement make(uint32_t rank) {
    return {segment_->shrink(), rank, [this](uint32_t other) { return gone_[other].load(); }};
  }
  using Members = std::vector<uint32_t>;

  std::unique_ptr<ControlSegment> segment_;
  std::vector<std::atomic<bool>> gone_;
  std::vector<ShrinkAgreement> ranks_;
  Members members_;
};

TEST_F(ShrinkAgreementTest, AllThatVotedAreMembersOnceTheOthersAreGone) {
  start(3);
  ASSERT_TRUE(ranks_[0].vote(4).ok());
  EXPECT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kOpen);
  gone_[1] = true;
  EXPECT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kOpen);
  ASSERT_TRUE(ranks_[2].vote(8).ok());
  for (const uint32_t rank : {2, 0}) {
    ASSERT_EQ(ranks_[rank].poll_votes(false, &members_), Votes::kDecided);
    EXPECT_EQ(members_, (Members{0, 2}));
  }
  EXPECT_EQ(ranks_[0].flags(2), 8u);
  ranks_[0].enter();
  EXPECT_EQ(ranks_[0].poll_entered(members_), Outcome::kOpen);
  ranks_[2].enter();
  EXPECT_EQ(ranks_[2].poll_entered(members_), Outcome::kCommitted);
  EXPECT_EQ(ranks_[0].outcome(), Outcome::kCommitted);
  EXPECT_EQ(ranks_[0].vote(0).code(), KEEL_FAILED_PRECONDITION);
}

// A rank that was taken for ended, and was not.
TEST_F(ShrinkAgreementTest, RankThatWasLeftOutIsRefused) {
  start(2);
  ASSERT_TRUE(ranks_[0].vote(0).ok());
  ASSERT_EQ(ranks_[0].poll_votes(/*leaves_out_absent=*/true, &members_), Votes::kDecided);
  EXPECT_EQ(members_, Members{0});
  EXPECT_EQ(ranks_[1].vote(0).code(), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(ranks_[0].is_out(1));
}

TEST_F(ShrinkAgreementTest, MemberThatEndsBeforeItEntersCostsARound) {
  start(3);
  for (ShrinkAgreement& rank : ranks_) ASSERT_TRUE(rank.vote(0).ok());
  ASSERT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kDecided);
  ranks_[0].enter();
  ranks_[1].enter();
  gone_[2] = true;
  EXPECT_EQ(ranks_[0].poll_entered(members_), Outcome::kAbandoned);
  EXPECT_EQ(ranks_[1].poll_entered(members_), Outcome::kAbandoned);
  EXPECT_EQ(ranks_[1].poll_votes(false, &members_), Votes::kAbandoned);
  for (const uint32_t rank : {0, 1}) ASSERT_TRUE(ranks_[rank].vote(0).ok());
  EXPECT_EQ(ranks_[0].round(), 2u);
  ASSERT_EQ(ranks_[1].poll_votes(false, &members_), Votes::kDecided);
  EXPECT_EQ(members_, (Members{0, 1}));
  EXPECT_FALSE(ranks_[0].has_entered(1)) << "of the round before";
}

// Its vote was read by others, so it cannot be taken back: the round is.
TEST_F(ShrinkAgreementTest, RankThatStepsOutIsNoMemberOfTheNextRound) {
  start(2);
  for (ShrinkAgreement& rank : ranks_) ASSERT_TRUE(rank.vote(0).ok());
  EXPECT_EQ(ranks_[1].step_out(), Outcome::kAbandoned);
  EXPECT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kAbandoned);
  ASSERT_TRUE(ranks_[0].vote(0).ok());
  ASSERT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kDecided);
  EXPECT_EQ(members_, Members{0});
}

TEST_F(ShrinkAgreementTest, CommittedRoundCannotBeAbandoned) {
  start(1);
  ASSERT_TRUE(ranks_[0].vote(0).ok());
  ASSERT_EQ(ranks_[0].poll_votes(false, &members_), Votes::kDecided);
  ranks_[0].enter();
  EXPECT_EQ(ranks_[0].poll_entered(members_), Outcome::kCommitted);
  EXPECT_EQ(ranks_[0].abandon(), Outcome::kCommitted);
  EXPECT_EQ(ranks_[0].step_out(), Outcome::kCommitted);
}

TEST_F(ShrinkAgreementTest, OfferIsOfItsRoundAlone) {
  start(2);
  ObjectId found;
  for (ShrinkAgreement& rank : ranks_) ASSERT_TRUE(rank.vote(0).ok());
  ranks_[0].offer({1, 2});
  ASSERT_TRUE(ranks_[1].find_offer(0, &found));
  EXPECT_EQ(found.inode, 2u);
  ranks_[1].abandon();
  ASSERT_TRUE(ranks_[1].vote(0).ok());
  EXPECT_FALSE(ranks_[1].find_offer(0, &found));
}

// Ranks on threads of their own end at random; all others commit the same group, of ranks that had
// not ended before they entered.
TEST_F(ShrinkAgreementTest, RanksAgreeWhileOthersEndAtRandom) {
  constexpr uint32_t kWorld = 5;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    segment_.reset();
    ranks_.clear();
    start(kWorld);
    std::vector<Members> agreed(kWorld);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] {
        std::mt19937 random(seed * kWorld + rank);
        // One action of the ranks 1 to 3 is their last; ranks 0 and 4 survive.
        uint32_t actions = rank % 4 == 0 ? UINT32_MAX : random() % 12;
        const auto act = [&] {
          if (actions-- > 0) return true;
          gone_[rank] = true;
          return false;
        };
        ShrinkAgreement& self = ranks_[rank];
        Members members;
        while (true) {
          if (!act()) return;
          if (!self.vote(0).ok()) return;
          Votes votes = Votes::kOpen;
          while (votes == Votes::kOpen) {
            votes = self.poll_votes(false, &members);
            std::this_thread::yield();
          }
          if (votes == Votes::kAbandoned) continue;
          if (!act()) return;
          self.enter();
          if (!act()) return;
          Outcome outcome = Outcome::kOpen;
          while (outcome == Outcome::kOpen) {
            outcome = self.poll_entered(members);
            std::this_thread::yield();
          }
          if (outcome == Outcome::kAbandoned) continue;
          agreed[rank] = members;
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(agreed[0].empty());
    for (const Members& each : agreed) {
      if (!each.empty()) {
        EXPECT_EQ(each, agreed[0]) << "seed " << seed;
      }
    }
    EXPECT_EQ(agreed[4], agreed[0]);
  }
}

}  // namespace
}  // namespace keel
