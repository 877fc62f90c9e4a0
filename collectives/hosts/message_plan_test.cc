// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/message_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "collectives/selection/algorithm.h"

namespace keel {
namespace {

struct Planned {
  uint32_t step;
  PartRange range;
  bool operator==(const Planned&) const = default;
};
using Messages = std::map<std::pair<uint32_t, uint32_t>, std::vector<Planned>>;

Request request_of(keel_collective collective, Algorithm algorithm, uint32_t root, uint64_t count) {
  Request request;
  request.collective = collective;
  request.algorithm = algorithm;
  request.root = root;
  request.count = count;
  request.dtype = KEEL_FLOAT32;
  return request;
}

// Expects that every message is received by its peer, in the same step and order.
void expect_matching(const Request& request, uint32_t world) {
  Messages sent;
  Messages received;
  for (uint32_t rank = 0; rank < world; ++rank) {
    MessagePlan plan;
    make_message_plan(request, rank, world, /*small_bytes=*/64, &plan);
    for (const PlannedSend& send : plan.sends) {
      ASSERT_LT(send.step, plan.steps);
      sent[{rank, send.peer}].push_back({send.step, send.range});
    }
    uint32_t step = 0;
    for (const PlannedWork& work : plan.work) {
      ASSERT_GE(work.step, step);
      step = work.step;
      for (const PlannedSource& source : plan.sources_of(work)) {
        if (source.rank != rank) received[{source.rank, rank}].push_back({step, source.range});
      }
    }
  }
  EXPECT_EQ(sent, received) << request.describe() << " by " << algorithm_name(request.algorithm)
                            << " among " << world;
}

TEST(MessagePlanTest, EverySendHasItsReceive) {
  const std::vector<keel_collective> collectives = {
      KEEL_ALL_REDUCE, KEEL_REDUCE, KEEL_BROADCAST, KEEL_ALL_GATHER, KEEL_REDUCE_SCATTER,
      KEEL_ALL_TO_ALL, KEEL_GATHER, KEEL_SCATTER,   KEEL_BARRIER};
  for (uint32_t world = 2; world <= 9; ++world) {
    for (const keel_collective collective : collectives) {
      for (uint32_t number = 0; number < kAlgorithms; ++number) {
        const auto algorithm = static_cast<Algorithm>(number);
        if (is_stepped(algorithm) && !applies(algorithm, collective, world)) continue;
        for (const uint64_t count : {1, 1000}) {
          expect_matching(request_of(collective, algorithm, world / 2, count), world);
        }
      }
    }
  }
}

TEST(MessagePlanTest, ArraysTakeOneStep) {
  for (const keel_collective collective : {KEEL_ALL_GATHER_V, KEEL_REDUCE_SCATTER_V,
                                           KEEL_ALL_TO_ALL_V, KEEL_GATHER_V, KEEL_SCATTER_V}) {
    const Request request = request_of(collective, Algorithm::kDirect, 1, 0);
    expect_matching(request, 4);
    MessagePlan plan;
    make_message_plan(request, 0, 4, 64, &plan);
    EXPECT_EQ(plan.steps, 1u);
  }
}

}  // namespace
}  // namespace keel
