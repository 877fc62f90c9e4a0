// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/message_plan.h"

#include <algorithm>

#include "collectives/algorithms/step_plans.h"

namespace keel {

namespace {

constexpr StepBuffer kSend = StepBuffer::kSend;
constexpr StepBuffer kReceive = StepBuffer::kReceive;
constexpr StepBuffer kWork = StepBuffer::kWork;

// Calls |visit|(peer) for every other rank, from the next one on: in each step the ranks then send
// to different ranks.
template <typename Visit>
void for_each_peer(uint32_t rank, uint32_t world, const Visit& visit) {
  for (uint32_t distance = 1; distance < world; ++distance) visit((rank + distance) % world);
}

PartRange share(StepBuffer buffer, uint32_t index) {
  return {buffer, 0, index, index + 1};
}

class DirectPlan {
 public:
  DirectPlan(const Request& request, uint32_t rank, uint32_t world, MessagePlan* plan)
      : rank_(rank), world_(world), root_(request.root), plan_(*plan) {}

  void barrier() {
    plan_.is_barrier = true;
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.send(peer, {});
      plan_.copy({kReceive}, {peer, {}});
    });
  }

  // Every rank receives all data and reduces it in rank order.
  void all_reduce_at_once() {
    plan_.settles_sends = true;
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, {kSend}); });
    reduce_from_all({kReceive}, {kSend});
  }

  // Each rank reduces one share and sends the result to all.
  void all_reduce_by_shares() {
    reduce_shares(kReceive);
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, share(kReceive, rank_)); });
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.copy(share(kReceive, peer), {peer, share(kReceive, peer)});
    });
  }

  void reduce_at_once() {
    if (rank_ != root_) return plan_.send(root_, {kSend});
    reduce_from_all({kReceive}, {kSend});
  }

  void reduce_by_shares() {
    plan_.work_parts = 1;
    reduce_shares(rank_ == root_ ? kReceive : kWork);
    if (rank_ != root_) return plan_.send(root_, share(kWork, rank_));
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.copy(share(kReceive, peer), {peer, share(kWork, peer)});
    });
  }

  void broadcast_at_once() {
    if (rank_ != root_) return plan_.copy({kReceive}, {root_, {kSend}});
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, {kSend}); });
    plan_.copy({kReceive}, {rank_, {kSend}}, /*is_own=*/true);
  }

  // The root scatters shares; their holders send them on to all others but the root.
  void broadcast_by_shares() {
    plan_.shares = world_;
    if (rank_ == root_) {
      for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, share(kSend, peer)); });
      plan_.copy({kReceive, 0, 0, world_}, {rank_, {kSend, 0, 0, world_}}, /*is_own=*/true);
      plan_.end_step();
      for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, share(kSend, rank_)); });
      return;
    }
    plan_.copy(share(kReceive, rank_), {root_, share(kSend, rank_)});
    plan_.end_step();
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      if (peer != root_) plan_.send(peer, share(kReceive, rank_));
    });
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.copy(share(kReceive, peer), {peer, share(peer == root_ ? kSend : kReceive, peer)});
    });
  }

  void reduce_scatter() {
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, {kSend, peer}); });
    reduce_from_all({kReceive}, {kSend, rank_});
  }

  // |sends_parts|: each peer gets a different part of the send buffer.
  void exchange(bool sends_parts) {
    const auto sent_to = [&](uint32_t peer) -> PartRange {
      return {kSend, sends_parts ? peer : 0};
    };
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, sent_to(peer)); });
    plan_.copy({kReceive, rank_}, {rank_, sent_to(rank_)}, /*is_own=*/true);
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.copy({kReceive, peer}, {peer, sent_to(rank_)});
    });
  }

  void gather() {
    if (rank_ != root_) return plan_.send(root_, {kSend});
    plan_.copy({kReceive, rank_}, {rank_, {kSend}}, /*is_own=*/true);
    for_each_peer(rank_, world_, [&](uint32_t peer) {
      plan_.copy({kReceive, peer}, {peer, {kSend}});
    });
  }

  void scatter() {
    if (rank_ != root_) return plan_.copy({kReceive}, {root_, {kSend, rank_}});
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, {kSend, peer}); });
    plan_.copy({kReceive}, {rank_, {kSend, rank_}}, /*is_own=*/true);
  }

 private:
  void reduce_from_all(const PartRange& to, const PartRange& from) {
    plan_.reduce(to);
    plan_.work.back().is_last = true;
    for (uint32_t source = 0; source < world_; ++source) plan_.add_source(source, from);
  }
  // The rank's share of the sum goes to |to|; the next step follows.
  void reduce_shares(StepBuffer to) {
    plan_.shares = world_;
    for_each_peer(rank_, world_, [&](uint32_t peer) { plan_.send(peer, share(kSend, peer)); });
    reduce_from_all(share(to, rank_), share(kSend, rank_));
    plan_.end_step();
  }

  const uint32_t rank_;
  const uint32_t world_;
  const uint32_t root_;
  MessagePlan& plan_;
};

void make_direct(const Request& request, uint32_t rank, uint32_t world, bool is_small,
                 MessagePlan* plan) {
  DirectPlan direct(request, rank, world, plan);
  switch (request.collective) {
    case KEEL_ALL_REDUCE:
      return is_small ? direct.all_reduce_at_once() : direct.all_reduce_by_shares();
    case KEEL_REDUCE:
      return is_small ? direct.reduce_at_once() : direct.reduce_by_shares();
    case KEEL_BROADCAST:
      return is_small ? direct.broadcast_at_once() : direct.broadcast_by_shares();
    case KEEL_REDUCE_SCATTER:
    case KEEL_REDUCE_SCATTER_V:
      return direct.reduce_scatter();
    case KEEL_ALL_GATHER:
    case KEEL_ALL_GATHER_V:
      return direct.exchange(/*sends_parts=*/false);
    case KEEL_ALL_TO_ALL:
    case KEEL_ALL_TO_ALL_V:
      return direct.exchange(/*sends_parts=*/true);
    case KEEL_GATHER:
    case KEEL_GATHER_V:
      return direct.gather();
    case KEEL_SCATTER:
    case KEEL_SCATTER_V:
      return direct.scatter();
    default:
      return direct.barrier();
  }
}

PartRange range_of(const StepSource& source, const StepAction& action) {
  return {source.buffer, source.part, action.first_share, action.end_share};
}

// Sends of |rank| for the |actions| of |peer|, all of one step.
void add_sends(const StepAction& action, uint32_t peer, uint32_t rank, MessagePlan* plan) {
  for (uint32_t i = 0; i < action.source_count; ++i) {
    const StepSource& source = action.sources[i];
    if (source.rank == rank) plan->sends.push_back({action.step, peer, range_of(source, action)});
  }
}

void make_stepped(const Request& request, uint32_t rank, uint32_t world, MessagePlan* plan) {
  StepPlan steps;
  make_step_plan(request, rank, world, &steps);
  plan->steps = std::max(steps.steps, 1u);
  plan->shares = steps.shares;
  plan->work_parts = steps.work_parts;
  for (const StepAction& action : steps.actions) {
    PlannedWork& one = plan->work.emplace_back();
    one.step = action.step;
    one.to = {action.to, action.part, action.first_share, action.end_share};
    one.first_source = static_cast<uint32_t>(plan->sources.size());
    one.source_count = action.source_count;
    one.is_last = action.is_last;
    one.is_own = action.is_own;
    for (uint32_t i = 0; i < action.source_count; ++i) {
      plan->sources.push_back({action.sources[i].rank, range_of(action.sources[i], action)});
    }
  }
  for_each_peer(rank, world, [&](uint32_t peer) {
    make_step_plan(request, peer, world, &steps);
    for (const StepAction& action : steps.actions) add_sends(action, peer, rank, plan);
  });
  // Stable: messages to one peer keep the order of the peer's plan.
  std::stable_sort(plan->sends.begin(), plan->sends.end(),
                   [](const PlannedSend& a, const PlannedSend& b) { return a.step < b.step; });
}

}  // namespace

void MessagePlan::clear() {
  steps = 1;
  shares = 1;
  work_parts = 0;
  is_barrier = settles_sends = false;
  sends.clear();
  work.clear();
  sources.clear();
}

void MessagePlan::send(uint32_t peer, const PartRange& range) {
  sends.push_back({steps - 1, peer, range});
}

void MessagePlan::copy(const PartRange& to, const PlannedSource& source, bool is_own) {
  reduce(to);
  work.back().is_own = is_own;
  add_source(source.rank, source.range);
}

void MessagePlan::reduce(const PartRange& to) {
  PlannedWork& one = work.emplace_back();
  one.step = steps - 1;
  one.to = to;
  one.first_source = static_cast<uint32_t>(sources.size());
  one.source_count = 0;
}

void MessagePlan::add_source(uint32_t rank, const PartRange& range) {
  sources.push_back({rank, range});
  ++work.back().source_count;
}

void make_message_plan(const Request& request, uint32_t rank, uint32_t world, uint64_t small_bytes,
                       MessagePlan* out_plan) {
  out_plan->clear();
  if (is_stepped(request.algorithm) && world > 1) {
    return make_stepped(request, rank, world, out_plan);
  }
  const bool is_small = world < 3 && request.collective == KEEL_BROADCAST
                            ? true
                            : request.count * request.element() <= small_bytes;
  make_direct(request, rank, world, is_small, out_plan);
}

}  // namespace keel
