// SPDX-License-Identifier: Apache-2.0
// Runs the plans of the step-wise algorithms on symbols: checks the result of each rank, and that
// no rank writes data that another rank reads in the same step.
#include "collectives/algorithms/steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

using keel::Algorithm;
using keel::Request;
using keel::StepAction;
using keel::StepBuffer;
using keel::StepPlan;
using keel::StepSource;

// Contents of a share of a part: the send buffers summed up there, and how often each.
using Content = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, int>;  // rank, part, share
// (rank; 0 send, or receive if in place, 1 receive, 2 scratch; part; share)
using Cell = std::tuple<uint32_t, int, uint32_t, uint32_t>;

struct Scene {
  keel_collective collective;
  Algorithm algorithm;
  uint32_t world;
  uint32_t root;
  bool in_place;

  std::string describe() const {
    return std::string(keel::collective_name(collective)) + " by " +
           keel::algorithm_name(algorithm) + ", world " + std::to_string(world) + ", root " +
           std::to_string(root) + (in_place ? ", in place" : "");
  }
};

class Machine {
 public:
  explicit Machine(const Scene& scene) : scene_(scene) {
    request_.collective = scene.collective;
    request_.algorithm = scene.algorithm;
    request_.root = scene.root;
    request_.count = 1;
    plans_.resize(scene.world);
    for (uint32_t rank = 0; rank < scene.world; ++rank) {
      keel::make_step_plan(request_, rank, scene.world, &plans_[rank]);
    }
    shares_ = plans_[0].shares;
    for (uint32_t rank = 0; rank < scene.world; ++rank) {
      for (uint32_t part = 0; part < request_.send_parts(scene.world); ++part) {
        if (!sends(rank)) continue;
        for (uint32_t share = 0; share < shares_; ++share) {
          memory_[cell(rank, StepBuffer::kSend, part, share)] = {{{rank, part, share}, 1}};
        }
      }
    }
  }

  void run() {
    for (const StepPlan& plan : plans_) {
      ASSERT_EQ(plan.steps, plans_[0].steps);
      ASSERT_EQ(plan.shares, plans_[0].shares);
      ASSERT_EQ(plan.work_parts, plans_[0].work_parts);
      ASSERT_EQ(plan.reads_receive, plans_[0].reads_receive);
    }
    for (uint32_t step = 0; step < plans_[0].steps; ++step) run_step(step);
    for (const StepPlan& plan : plans_) {
      for (const StepAction& action : plan.actions) EXPECT_LT(action.step, plan.steps);
    }
  }

  void check() const {
    for (uint32_t rank = 0; rank < scene_.world; ++rank) {
      if (!receives(rank)) continue;
      for (uint32_t part = 0; part < request_.receive_parts(scene_.world); ++part) {
        for (uint32_t share = 0; share < shares_; ++share) {
          const auto found = memory_.find(cell(rank, StepBuffer::kReceive, part, share));
          ASSERT_NE(found, memory_.end()) << "rank " << rank << " has no part " << part;
          EXPECT_EQ(found->second, expected(rank, part, share))
              << "rank " << rank << ", part " << part << ", share " << share;
        }
      }
    }
  }

 private:
  bool is_rooted() const { return keel::has_root(scene_.collective); }
  bool sends(uint32_t rank) const {
    const bool is_from_root =
        scene_.collective == KEEL_BROADCAST || scene_.collective == KEEL_SCATTER;
    return !is_from_root || rank == scene_.root;
  }
  bool receives(uint32_t rank) const {
    const bool is_to_root = scene_.collective == KEEL_REDUCE || scene_.collective == KEEL_GATHER;
    return !is_to_root || rank == scene_.root;
  }

  // In place, the send buffer is a part of the receive buffer, or the reverse.
  Cell cell(uint32_t rank, StepBuffer buffer, uint32_t part, uint32_t share) const {
    if (buffer == StepBuffer::kWork) return {rank, 2, part, share};
    const bool received = buffer == StepBuffer::kReceive;
    if (!scene_.in_place || !sends(rank) || !receives(rank)) {
      return {rank, received ? 1 : 0, part, share};
    }
    const uint32_t send_parts = request_.send_parts(scene_.world);
    const uint32_t receive_parts = request_.receive_parts(scene_.world);
    if (received && receive_parts < send_parts) part = rank;
    if (!received && send_parts < receive_parts) part = rank;
    return {rank, 0, part, share};
  }

  Content expected(uint32_t rank, uint32_t part, uint32_t share) const {
    Content content;
    switch (scene_.collective) {
      case KEEL_ALL_REDUCE:
      case KEEL_REDUCE:
        for (uint32_t peer = 0; peer < scene_.world; ++peer) content[{peer, 0, share}] = 1;
        break;
      case KEEL_REDUCE_SCATTER:
        for (uint32_t peer = 0; peer < scene_.world; ++peer) content[{peer, rank, share}] = 1;
        break;
      case KEEL_BROADCAST:
        content[{scene_.root, 0, share}] = 1;
        break;
      case KEEL_SCATTER:
        content[{scene_.root, rank, share}] = 1;
        break;
      case KEEL_ALL_TO_ALL:
        content[{part, rank, share}] = 1;
        break;
      default:  // all_gather, gather
        content[{part, 0, share}] = 1;
    }
    return content;
  }

  void run_step(uint32_t step) {
    std::map<Cell, std::set<uint32_t>> readers;
    std::map<Cell, Content> written;
    for (uint32_t rank = 0; rank < scene_.world; ++rank) {
      const bool skips_own = scene_.in_place && sends(rank) && receives(rank);
      std::set<Cell> own_written;
      for (const StepAction& action : plans_[rank].actions) {
        if (action.step != step || (action.is_own && skips_own)) continue;
        ASSERT_GE(action.source_count, 1u);
        ASSERT_LE(action.source_count, StepAction::kMostSources);
        ASSERT_TRUE(action.source_count == 1 || keel::reduces(scene_.collective));
        if (action.to == StepBuffer::kWork) {
          ASSERT_LT(action.part, plans_[rank].work_parts);
        }
        for (uint32_t share = action.first_share; share < action.end_share; ++share) {
          Content content;
          for (uint32_t i = 0; i < action.source_count; ++i) {
            const StepSource& source = action.sources[i];
            ASSERT_LT(source.rank, scene_.world);
            if (source.buffer == StepBuffer::kReceive && source.rank != rank) {
              ASSERT_TRUE(plans_[rank].reads_receive);
            }
            const Cell from = cell(source.rank, source.buffer, source.part, share);
            ASSERT_TRUE(memory_.count(from)) << "rank " << rank << " reads what is not there";
            ASSERT_FALSE(own_written.count(from)) << "rank " << rank << " reads what it wrote";
            readers[from].insert(rank);
            for (const auto& [what, times] : memory_.at(from)) content[what] += times;
          }
          const Cell to = cell(rank, action.to, action.part, share);
          ASSERT_TRUE(own_written.insert(to).second) << "rank " << rank << " writes twice";
          written[to] = std::move(content);
        }
        // The last action of a reduction makes the result, and no earlier action does.
        if (action.source_count > 1) {
          const Cell to = cell(rank, action.to, action.part, action.first_share);
          EXPECT_EQ(action.is_last, written[to].size() == scene_.world) << "rank " << rank;
        }
      }
    }
    for (auto& [to, content] : written) {
      for (const uint32_t reader : readers[to]) {
        ASSERT_EQ(reader, std::get<0>(to)) << "step " << step << ": rank " << std::get<0>(to)
                                           << " writes what rank " << reader << " reads";
      }
      memory_[to] = std::move(content);
    }
  }

  const Scene scene_;
  Request request_;
  std::vector<StepPlan> plans_;
  uint32_t shares_ = 1;
  std::map<Cell, Content> memory_;
};

std::vector<Scene> scenes() {
  std::vector<Scene> all;
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    for (uint32_t j = 0; j < keel::kAlgorithms; ++j) {
      const auto collective = static_cast<keel_collective>(i);
      const auto algorithm = static_cast<Algorithm>(j);
      if (!keel::is_stepped(algorithm)) continue;
      for (uint32_t world = 2; world <= 18; ++world) {
        if (!keel::applies(algorithm, collective, world)) continue;
        const uint32_t roots = keel::has_root(collective) ? world : 1;
        for (uint32_t root = 0; root < roots; ++root) {
          // An in-place exchange sends from a copy.
          for (const bool in_place : {false, true}) {
            if (in_place && collective == KEEL_ALL_TO_ALL) continue;
            all.push_back({collective, algorithm, world, root, in_place});
          }
        }
      }
    }
  }
  return all;
}

TEST(StepPlans, EveryRankHasItsResultAndNobodyReadsWhatIsWritten) {
  const std::vector<Scene> all = scenes();
  ASSERT_GT(all.size(), 1000u);
  for (const Scene& scene : all) {
    SCOPED_TRACE(scene.describe());
    Machine machine(scene);
    machine.run();
    if (!HasFatalFailure()) machine.check();
    if (HasFailure()) return;
  }
}

TEST(StepPlans, AreAsShortAsTheirPapersSay) {
  const auto steps = [](keel_collective collective, Algorithm algorithm, uint32_t world) {
    Request request;
    request.collective = collective;
    request.algorithm = algorithm;
    StepPlan plan;
    keel::make_step_plan(request, 0, world, &plan);
    return plan.steps;
  };
  EXPECT_EQ(steps(KEEL_ALL_REDUCE, Algorithm::kRing, 8), 14u);
  EXPECT_EQ(steps(KEEL_ALL_GATHER, Algorithm::kRing, 8), 7u);
  EXPECT_EQ(steps(KEEL_REDUCE_SCATTER, Algorithm::kRing, 8), 7u);
  EXPECT_EQ(steps(KEEL_ALL_REDUCE, Algorithm::kDoubling, 8), 3u);
  EXPECT_EQ(steps(KEEL_ALL_REDUCE, Algorithm::kDoubling, 11), 5u) << "the rest before and after";
  EXPECT_EQ(steps(KEEL_ALL_REDUCE, Algorithm::kHalving, 8), 6u);
  EXPECT_EQ(steps(KEEL_BROADCAST, Algorithm::kBinomial, 16), 4u);
  EXPECT_EQ(steps(KEEL_BROADCAST, Algorithm::kKnomial, 16), 2u);
  EXPECT_EQ(steps(KEEL_ALL_GATHER, Algorithm::kBruck, 11), 4u);
  EXPECT_EQ(steps(KEEL_ALL_TO_ALL, Algorithm::kBruck, 11), 4u);
  EXPECT_EQ(steps(KEEL_ALL_TO_ALL, Algorithm::kPairwise, 11), 10u);
}

// A plan is made for each operation, so repeated plans must not allocate.
TEST(StepPlans, KeepTheirMemory) {
  Request request;
  request.collective = KEEL_ALL_REDUCE;
  request.algorithm = Algorithm::kRing;
  StepPlan plan;
  keel::make_step_plan(request, 3, 8, &plan);
  const StepAction* const memory = plan.actions.data();
  keel::make_step_plan(request, 3, 8, &plan);
  EXPECT_EQ(plan.actions.data(), memory);
}

}  // namespace
