// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/interleaving.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"

namespace keel::testing {

namespace {

constexpr uint32_t kLanes = 3;  // number of communicators and of streams
constexpr int64_t kDefault = KEEL_TIMEOUT_DEFAULT;

struct Lane {
  keel_comm comm = {};
  keel_stream stream = {};
  uint32_t rank = 0;
  uint32_t world = 0;
};

struct Running {
  std::unique_ptr<Reference> reference;
  std::unique_ptr<CaseRun> run;
};

std::array<uint32_t, kLanes> shuffled(Random& random) {
  std::array<uint32_t, kLanes> order = {0, 1, 2};
  for (uint32_t i = kLanes - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

// Ranks of one communicator draw the same case; the two halves of the split draw different ones.
Case draw_case(uint32_t seed, const Lane& lane, uint32_t lane_index, uint32_t round) {
  Random random((uint64_t{seed} * 1000 + round) * kLanes + lane_index);
  Case scenario;
  scenario.operation = static_cast<Operation>(random.below(kOperations));
  scenario.dtype = KEEL_DTYPE_INVALID + 1 + random.below(KEEL_DTYPE_COUNT - 1);
  scenario.reduction = random.below(KEEL_REDUCTION_COUNT);
  scenario.world = lane.world;
  scenario.count = random.below(4) == 0 ? random.below(20000) : random.below(600);
  scenario.in_place = random.below(2) == 0;
  scenario.seed = random.below(1000);
  return scenario;
}

std::string make_lanes(keel_device device, keel_comm world, std::array<Lane, kLanes>& lanes) {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  if (keel_comm_rank(world, &rank, &ranks) != KEEL_OK) return keel_last_error();
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.chunk_bytes = 4096;
  lanes[0].comm = world;
  if (keel_comm_duplicate(world, &options, &lanes[1].comm) != KEEL_OK) return keel_last_error();
  // Reverses the order, so that a rank's number in the split differs.
  const auto color = static_cast<int32_t>(rank % 2);
  const auto key = -static_cast<int32_t>(rank);
  if (keel_comm_split(world, color, key, &options, &lanes[2].comm) != KEEL_OK) {
    return keel_last_error();
  }
  for (Lane& lane : lanes) {
    if (keel_stream_create(device, 0, &lane.stream) != KEEL_OK ||
        keel_comm_rank(lane.comm, &lane.rank, &lane.world) != KEEL_OK) {
      return keel_last_error();
    }
  }
  const uint32_t after = (ranks - 1 - rank) / 2;  // higher ranks of the same parity
  if (lanes[1].rank != rank || lanes[1].world != ranks || lanes[2].rank != after) {
    return fmt::format("rank {}: {} of {} in the duplicate, {} of {} in the part", rank,
                       lanes[1].rank, lanes[1].world, lanes[2].rank, lanes[2].world);
  }
  return "";
}

std::string settle(std::array<Lane, kLanes>& lanes, std::vector<Running>& running) {
  for (Lane& lane : lanes) {
    if (keel_stream_synchronize(lane.stream, kDefault) != KEEL_OK) return keel_last_error();
  }
  for (const Running& each : running) {
    std::string problem = each.run->check();
    if (!problem.empty()) return problem;
  }
  running.clear();
  return "";
}

}  // namespace

std::string run_interleaving(keel_device device, keel_comm world, uint32_t seed,
                             uint32_t operations) {
  std::array<Lane, kLanes> lanes;
  std::string problem = make_lanes(device, world, lanes);
  Random own(seed * 31 + lanes[0].rank);
  std::vector<Running> running;
  for (uint32_t round = 0; problem.empty() && round < operations / kLanes; ++round) {
    const auto order = shuffled(own);
    // Operations of one round must not wait for each other, so each uses a different stream.
    const auto streams = shuffled(own);
    for (const uint32_t index : order) {
      const Lane& lane = lanes[index];
      const keel_stream stream = lanes[streams[index]].stream;
      Running next;
      next.reference = std::make_unique<Reference>(draw_case(seed, lane, index, round));
      next.run = std::make_unique<CaseRun>(*next.reference, lane.rank, device);
      if (problem.empty()) problem = next.run->prepare(stream);
      if (problem.empty()) problem = next.run->call(lane.comm, stream);
      if (problem.empty()) problem = next.run->fetch(stream);
      running.push_back(std::move(next));
    }
    if (problem.empty() && own.below(6) == 0) problem = settle(lanes, running);
  }
  if (problem.empty()) problem = settle(lanes, running);
  // Running operations still write to the memory of |running|.
  for (const Lane& lane : lanes) {
    if (!problem.empty()) keel_comm_abort(lane.comm);
  }
  for (uint32_t i = 1; i < kLanes; ++i) keel_comm_destroy(lanes[i].comm);
  for (const Lane& lane : lanes) keel_stream_destroy(lane.stream);
  return problem.empty() ? "" : fmt::format("seed {}: {}", seed, problem);
}

}  // namespace keel::testing
