// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_lanes.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "collectives/hosts/host_exchange.h"

namespace keel {

namespace {

// Lanes of |group|: as many as its smallest host has ranks; 0 if every host has one rank.
uint32_t lanes_of(const HostGroup& group) {
  if (group.ranks_per_host() == 1) return 0;
  size_t least = SIZE_MAX;
  for (const std::vector<uint32_t>& host : group.hosts()) least = std::min(least, host.size());
  return static_cast<uint32_t>(least);
}

// The ranks of the lane of |group|'s rank; empty without one.
std::vector<uint32_t> lane_of(const HostGroup& group) {
  std::vector<uint32_t> lane;
  if (group.local_rank() >= lanes_of(group)) return lane;
  for (const std::vector<uint32_t>& host : group.hosts()) {
    lane.push_back(host[group.local_rank()]);
  }
  return lane;
}

std::vector<uint32_t> wires_of(const HostGroup& group, const std::vector<uint32_t>& lane) {
  std::vector<uint32_t> members;
  for (const uint32_t rank : lane) members.push_back(group.members()[rank]);
  return members;
}

HostRanks ranks_of(const HostGroup& group, const std::vector<uint32_t>& lane) {
  const auto world = std::max<uint32_t>(1, static_cast<uint32_t>(lane.size()));
  return {lane.empty() ? 0 : group.host(), world, group.agreement().chunk_bytes};
}

void* at(void* base, uint64_t bytes) {
  return static_cast<char*>(base) + bytes;
}

}  // namespace

HostLanes::HostLanes(RankContext& context, Runner& inner, const Selection& selection,
                     HostGroup& group)
    : context_(context),
      inside_(context, inner, selection, context.world()),
      group_(group),
      size_(lanes_of(group)),
      lane_(lane_of(group)),
      executor_(context, group.wires(), ranks_of(group, lane_), wires_of(group, lane_)),
      meter_(size_, group.agreement().lane_shares),
      scratch_(context, group.agreement().chunk_bytes) {}

bool HostLanes::takes(const Request& request) const {
  if (size_ == 0) return false;
  // Below, the messages of all pairs of ranks cost less than two more operations inside.
  constexpr uint64_t kLeastBytes = 8192;
  constexpr uint32_t kMostPairs = 8;
  const bool is_scatter_v = request.collective == KEEL_REDUCE_SCATTER_V;
  const uint64_t count = is_scatter_v ? request.largest_piece() : request.count;
  const bool is_large = count * request.element() >= kLeastBytes || group_.world() > kMostPairs;
  const bool are_even = group_.ranks_per_host() != 0;
  // 8-bit floats, of 2 or 3 bits, lose too much where a host's sum is rounded before the total is.
  const bool is_rough = request.element() == 1 && loses_by_parts(request.dtype, request.reduction);
  switch (request.collective) {
    case KEEL_ALL_REDUCE:
      // The sums of hosts with 3 ranks and with 1 differ in what rounding takes off.
      return is_large && (are_even || !is_rough);
    case KEEL_BROADCAST:
      return is_large;
    case KEEL_ALL_GATHER:
      // Each rank carries its own data, so each needs a lane.
      return is_large && are_even;
    case KEEL_REDUCE_SCATTER:
    case KEEL_REDUCE_SCATTER_V:
      // Each rank carries the sums that it is to get.
      return is_large && are_even && !is_rough;
    case KEEL_BARRIER:
      return true;
    default:
      return false;
  }
}

Status HostLanes::run(const Request& request, WireWait& wait) {
  switch (request.collective) {
    case KEEL_ALL_REDUCE:
      return all_reduce(request, wait);
    case KEEL_ALL_GATHER:
      return all_gather(request, wait);
    case KEEL_REDUCE_SCATTER:
    case KEEL_REDUCE_SCATTER_V:
      return reduce_scatter(request, wait);
    case KEEL_BROADCAST:
      return broadcast(request, wait);
    default:
      return barrier(request, wait);
  }
}

Status HostLanes::run_inside(Request& part, WaitContext& wait_context) {
  inside_.choose(&part);
  return inside_.run(part, wait_context);
}

Status HostLanes::run_between(const Request& whole, Request& part, uint64_t divisor,
                              WireWait& wait) {
  if (lane_.empty()) return {};
  part.algorithm = whole.algorithm;
  part.print = whole.print;
  return executor_.run(part, {divisor}, wait);
}

std::vector<Piece> HostLanes::shares(const Request& request) const {
  // In steps, the order of a sum depends on the element's place in the lane's part, and so the bits
  // would depend on what was measured.
  const bool is_ordered = !is_stepped(request.algorithm) || !reduces(request.collective);
  std::vector<Piece> pieces =
      divide_by_lanes(request.count, request.element(), size_,
                      is_ordered ? meter_.shares() : group_.agreement().lane_shares);
  pieces.resize(context_.world(), {request.count, 0});
  return pieces;
}

// At the deadline, the ranks of the lanes name the missing ranks of other hosts before a rank
// without a lane could name a rank of its host, which waits for those.
Status HostLanes::gather_inside(Request& part, WireWait& wait) {
  if (!lane_.empty()) return run_inside(part, wait.context());
  WaitContext later(wait.context(), context_.failures(), kHostGraceNs);
  return run_inside(part, later);
}

Status HostLanes::agree_on_shares(WireWait& wait) {
  std::vector<uint64_t> rates;
  KEEL_RETURN_IF_ERROR(exchange_between_hosts(group_, context_, kLaneRatesCollective, /*lane=*/0,
                                              meter_.rate(), wait.context(), wait, &rates));
  // The host that came last did not wait for the others, and has the highest rate.
  std::vector<uint64_t> by_lane(size_);
  for (const std::vector<uint32_t>& host : group_.hosts()) {
    for (uint32_t lane = 0; lane < size_; ++lane) {
      by_lane[lane] = std::max(by_lane[lane], rates[host[lane]]);
    }
  }
  meter_.agree(by_lane);
  return {};
}

Status HostLanes::all_reduce(const Request& request, WireWait& wait) {
  const uint64_t element = request.element();
  const std::vector<Piece> pieces = shares(request);
  const Piece& own = pieces[group_.local_rank()];
  void* const share = at(request.receive, own.offset * element);
  Request scatter = request;
  scatter.collective = KEEL_REDUCE_SCATTER_V;
  scatter.count = 0;
  scatter.receive = share;
  scatter.send_pieces = scatter.receive_pieces = pieces;
  if (request.reduction == KEEL_AVG) scatter.reduction = KEEL_SUM;
  KEEL_RETURN_IF_ERROR(run_inside(scatter, wait.context()));
  Request between = request;
  between.send = between.receive = share;
  between.count = own.count;
  between.factor = 1;
  if (request.reduction == KEEL_PREMUL_SUM) between.reduction = KEEL_SUM;
  const bool is_noted = meter_.notes(request.count * element) && !is_stepped(request.algorithm);
  const auto begin = std::chrono::steady_clock::now();
  KEEL_RETURN_IF_ERROR(run_between(request, between, group_.world(), wait));
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
  if (is_noted) meter_.note(own.count * element, time.count());
  Request gather = request;
  gather.collective = KEEL_ALL_GATHER_V;
  gather.reduction = KEEL_SUM;
  gather.count = 0;
  gather.send = share;
  gather.send_pieces = gather.receive_pieces = pieces;
  KEEL_RETURN_IF_ERROR(gather_inside(gather, wait));
  return is_noted && meter_.is_due() ? agree_on_shares(wait) : Status();
}

Status HostLanes::all_gather(const Request& request, WireWait& wait) {
  const uint64_t element = request.element();
  const auto piece_of = [&](uint32_t rank) -> Piece {
    return {rank * request.count, request.count};
  };
  Request between = request;
  between.collective = KEEL_ALL_GATHER_V;
  for (const uint32_t rank : lane_) between.receive_pieces.push_back(piece_of(rank));
  between.send_pieces = between.receive_pieces;
  KEEL_RETURN_IF_ERROR(run_between(request, between, 0, wait));
  for (const std::vector<uint32_t>& host : group_.hosts()) {
    Request inside = request;
    inside.collective = KEEL_ALL_GATHER_V;
    inside.count = 0;
    for (const uint32_t rank : host) inside.receive_pieces.push_back(piece_of(rank));
    inside.send_pieces = inside.receive_pieces;
    inside.send = at(request.receive, piece_of(host[group_.local_rank()]).offset * element);
    KEEL_RETURN_IF_ERROR(run_inside(inside, wait.context()));
  }
  return {};
}

// The ranks of a host sum the blocks for the ranks of each lane, of one host after the other, and
// the ranks of the lane add the sums of the hosts. A block thus crosses once from each host, not
// from each rank. Blocks may differ in length: a round takes the next elements of those that have
// more.
Status HostLanes::reduce_scatter(const Request& request, WireWait& wait) {
  constexpr uint64_t kChunks = 4;  // of a round: enough for HostExecutor to overlap its own
  const bool is_even = request.collective == KEEL_REDUCE_SCATTER;
  const uint64_t element = std::max<uint64_t>(request.element(), 1);
  const uint64_t hosts = group_.hosts().size();
  const uint64_t longest = is_even ? request.count : request.largest_piece();
  const uint64_t round =
      std::max<uint64_t>(1, std::min(longest, kChunks * scratch_.window_bytes() / element / hosts));
  KEEL_RETURN_IF_ERROR(scratch_.reserve(hosts * round * element));
  WaitContext later(wait.context(), context_.failures(), kHostGraceNs);
  for (uint64_t begin = 0; begin == 0 || begin < longest; begin += round) {
    const uint64_t most = std::min(round, longest - begin);
    // The elements of |rank|'s block in this round.
    const auto piece_of = [&](uint32_t rank) -> Piece {
      if (is_even) return {rank * request.count + begin, most};
      const Piece& block = request.send_pieces[rank];
      const uint64_t skipped = std::min(begin, block.count);
      return {block.offset + skipped, std::min(most, block.count - skipped)};
    };
    std::vector<Piece> sums;  // of this rank's lane, by host
    for (uint64_t host = 0; host < hosts; ++host) {
      Request inside = request;
      inside.collective = KEEL_REDUCE_SCATTER_V;
      inside.count = 0;
      inside.send_pieces.clear();
      for (const uint32_t rank : group_.hosts()[host]) {
        inside.send_pieces.push_back(piece_of(rank));
      }
      inside.receive_pieces = inside.send_pieces;
      sums.push_back({host * most, inside.send_pieces[group_.local_rank()].count});
      inside.receive = scratch_.data() + sums.back().offset * element;
      inside.keeps_off_library = true;  // libraries take memory of the device alone
      if (request.reduction == KEEL_AVG) inside.reduction = KEEL_SUM;
      // From the second round on, a rank of the host may wait for other hosts: see gather_inside().
      KEEL_RETURN_IF_ERROR(run_inside(inside, begin == 0 ? wait.context() : later));
    }
    Request between = request;
    between.send = scratch_.data();
    between.receive = at(request.receive, begin * element);
    if (is_even) {
      between.count = most;
    } else {
      // A block of this rank that has ended may leave no memory there.
      const uint64_t skipped = std::min(begin, request.send_pieces[group_.rank()].count);
      between.receive = at(request.receive, skipped * element);
      between.send_pieces = between.receive_pieces = std::move(sums);
    }
    between.factor = 1;
    if (request.reduction == KEEL_PREMUL_SUM) between.reduction = KEEL_SUM;
    KEEL_RETURN_IF_ERROR(run_between(request, between, group_.world(), wait));
  }
  return {};
}

Status HostLanes::broadcast(const Request& request, WireWait& wait) {
  const uint64_t element = request.element();
  const std::vector<Piece> pieces = shares(request);
  const Piece& own = pieces[group_.local_rank()];
  void* const share = at(request.receive, own.offset * element);
  uint32_t root_host = 0;
  uint32_t root_index = 0;
  for (uint32_t host = 0; host < group_.hosts().size(); ++host) {
    const std::vector<uint32_t>& ranks = group_.hosts()[host];
    const auto found = std::find(ranks.begin(), ranks.end(), request.root);
    if (found == ranks.end()) continue;
    root_host = host;
    root_index = static_cast<uint32_t>(found - ranks.begin());
  }
  if (group_.host() == root_host) {
    Request scatter = request;
    scatter.collective = KEEL_SCATTER_V;
    scatter.count = 0;
    scatter.root = root_index;
    scatter.receive = share;
    scatter.send_pieces = scatter.receive_pieces = pieces;
    KEEL_RETURN_IF_ERROR(run_inside(scatter, wait.context()));
  }
  Request between = request;
  between.root = root_host;
  between.count = own.count;
  between.send = group_.host() == root_host ? share : nullptr;
  between.receive = share;
  KEEL_RETURN_IF_ERROR(run_between(request, between, 0, wait));
  Request gather = request;
  gather.collective = KEEL_ALL_GATHER_V;
  gather.count = 0;
  gather.root = 0;
  gather.send = share;
  gather.send_pieces = gather.receive_pieces = pieces;
  return gather_inside(gather, wait);
}

Status HostLanes::barrier(const Request& request, WireWait& wait) {
  Request inside = request;
  KEEL_RETURN_IF_ERROR(run_inside(inside, wait.context()));
  // One rank of each host is enough, and the others need no connections for it.
  if (group_.local_rank() == 0) {
    Request between = request;
    KEEL_RETURN_IF_ERROR(run_between(request, between, 0, wait));
  }
  // At the deadline, local rank 0 names the missing ranks of other hosts before the others could
  // name local rank 0.
  WaitContext later(wait.context(), context_.failures(), kHostGraceNs);
  return run_inside(inside, later);
}

}  // namespace keel
