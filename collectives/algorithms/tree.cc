// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

// Ranks numbered from the root, node 0. At the level of |distance|, a node with a multiple of
// |distance| as number represents |distance| nodes, from itself on.
struct Tree {
  Tree(const RankPosition& of, uint32_t radix_of)
      : place(of), radix(radix_of), self((of.rank + of.world - of.root) % of.world) {}

  uint32_t rank(uint32_t node) const { return (node + place.root) % place.world; }
  bool is_root() const { return self == 0; }
  // End of the nodes represented by |node| at the level.
  uint32_t end(uint32_t node, uint64_t distance) const {
    return static_cast<uint32_t>(std::min<uint64_t>(place.world, node + distance));
  }
  // Distance of the topmost level.
  uint64_t top() const {
    uint64_t distance = 1;
    while (distance * radix < place.world) distance *= radix;
    return distance;
  }

  const RankPosition& place;
  const uint32_t radix;
  const uint32_t self;
};

}  // namespace

void plan_tree_broadcast(const RankPosition& place, uint32_t radix, StepPlan* plan) {
  const Tree tree(place, radix);
  plan->reads_receive = place.world > radix;
  if (tree.is_root()) plan->copy(kReceive, 0, {place.rank, kSend, 0}).is_own = true;
  for (uint64_t distance = 1; distance < place.world; distance *= radix) {
    if (distance <= tree.self && tree.self < distance * radix) {
      const auto parent = static_cast<uint32_t>(tree.self % distance);
      plan->copy(kReceive, 0, {tree.rank(parent), parent == 0 ? kSend : kReceive, 0});
    }
    plan->end_step();
  }
}

void plan_tree_reduce(const RankPosition& place, uint32_t radix, StepPlan* plan) {
  const Tree tree(place, radix);
  plan->work_parts = place.world > radix ? 1 : 0;
  // Location of a node's sum before the level.
  const auto sum_of = [&](uint64_t node, uint64_t distance) -> StepSource {
    const auto number = static_cast<uint32_t>(node);
    // A node without children so far holds the rank's own data only.
    const bool is_alone = distance == 1 || node + 1 >= place.world;
    return {tree.rank(number), is_alone ? kSend : number == 0 ? kReceive : kWork, 0};
  };
  for (uint64_t distance = 1; distance < place.world; distance *= radix) {
    const bool is_parent = tree.self % (distance * radix) == 0;
    if (is_parent && tree.self + distance < place.world) {
      StepAction& action =
          plan->reduce(tree.is_root() ? kReceive : kWork, 0, sum_of(tree.self, distance),
                       sum_of(tree.self + distance, distance));
      for (uint64_t child = 2; child < radix; ++child) {
        const uint64_t node = tree.self + child * distance;
        if (node >= place.world) break;
        action.sources[action.source_count++] = sum_of(node, distance);
      }
      action.is_last = tree.is_root() && distance == tree.top();
    }
    plan->end_step();
  }
}

void plan_tree_gather(const RankPosition& place, uint32_t radix, StepPlan* plan) {
  const Tree tree(place, radix);
  plan->work_parts = place.world > radix ? place.world : 0;
  if (tree.is_root()) plan->copy(kReceive, place.rank, {place.rank, kSend, 0}).is_own = true;
  for (uint64_t distance = 1; distance < place.world; distance *= radix) {
    const bool is_parent = tree.self % (distance * radix) == 0;
    for (uint64_t i = 1; i < radix && is_parent; ++i) {
      const uint64_t child = tree.self + i * distance;
      if (child >= place.world) break;
      const auto first = static_cast<uint32_t>(child);
      for (uint32_t node = first; node < tree.end(first, distance); ++node) {
        const uint32_t piece = tree.rank(node);
        plan->copy(tree.is_root() ? kReceive : kWork, piece,
                   node == first ? StepSource{tree.rank(first), kSend, 0}
                                 : StepSource{tree.rank(first), kWork, piece});
      }
    }
    plan->end_step();
  }
}

void plan_tree_scatter(const RankPosition& place, uint32_t radix, StepPlan* plan) {
  const Tree tree(place, radix);
  plan->work_parts = place.world > radix ? place.world : 0;
  if (tree.is_root()) plan->copy(kReceive, 0, {place.rank, kSend, place.rank}).is_own = true;
  for (uint64_t distance = tree.top(); distance != 0; distance /= radix) {
    const bool is_child = tree.self % distance == 0 && tree.self % (distance * radix) != 0;
    if (is_child) {
      const auto parent = static_cast<uint32_t>(tree.self - tree.self % (distance * radix));
      for (uint32_t node = tree.self; node < tree.end(tree.self, distance); ++node) {
        const uint32_t piece = tree.rank(node);
        const bool is_own = node == tree.self;
        plan->copy(is_own ? kReceive : kWork, is_own ? 0 : piece,
                   {tree.rank(parent), parent == 0 ? kSend : kWork, piece});
      }
    }
    plan->end_step();
  }
}

}  // namespace keel
