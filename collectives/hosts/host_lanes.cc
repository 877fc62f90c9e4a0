// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_lanes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

#include "collectives/hosts/host_exchange.h"
#include "collectives/hosts/wire_work.h"

namespace keel {

namespace {

// Chunks of a rank that are between the hosts at once: HostExecutor overlaps two.
constexpr uint64_t kChunks = 2;

// Lanes of |group|: as many as its smallest host has ranks; 0 if every host has one rank.
uint32_t lanes_of(const HostGroup& group) {
  if (group.ranks_per_host() == 1) return 0;
  size_t least = SIZE_MAX;
  for (const std::vector<uint32_t>& host : group.hosts()) least = std::min(least, host.size());
  return static_cast<uint32_t>(least);
}

// Blocks that one lane carries for the ranks of |group|'s largest host, of |lanes|.
uint32_t passes_of(const HostGroup& group, uint32_t lanes) {
  size_t most = 0;
  for (const std::vector<uint32_t>& host : group.hosts()) most = std::max(most, host.size());
  return lanes == 0 ? 0 : (static_cast<uint32_t>(most) + lanes - 1) / lanes;
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
const void* at(const void* base, uint64_t bytes) {
  return static_cast<const char*>(base) + bytes;
}

}  // namespace

HostLanes::HostLanes(RankContext& context, Runner& inner, const Selection& selection,
                     HostGroup& group)
    : context_(context),
      inside_(context, inner, selection, context.world()),
      group_(group),
      size_(lanes_of(group)),
      passes_(passes_of(group, size_)),
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
    case KEEL_ALL_GATHER:
      return is_large;
    case KEEL_REDUCE_SCATTER:
    case KEEL_REDUCE_SCATTER_V:
      return is_large && !is_rough;
    case KEEL_BARRIER:
      return true;
    default:
      return false;
  }
}

bool HostLanes::keeps_form(const Request& request) const {
  if (request.collective == KEEL_ALL_GATHER) return false;
  // In some passes, some hosts have no block.
  return request.collective != KEEL_REDUCE_SCATTER || passes_ == 1;
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

// From the second part on, a rank of the host may wait for other hosts: see gather_inside().
Status HostLanes::run_beside(Request& part, WireWait& wait) {
  WaitContext later(wait.context(), context_.failures(), kHostGraceNs);
  if (lane_.empty()) return run_inside(part, later);
  WireWork work(executor_, wait);
  KEEL_RETURN_IF_ERROR(work.advance());
  WaitContext both(later, work);
  both.spin().spend();  // turns would keep the wires waiting
  KEEL_RETURN_IF_ERROR(run_inside(part, both));
  return work.failure();
}

Status HostLanes::start_between(const Request& whole, Request& part,
                                const HostExecutor::Options& options, WireWait& wait) {
  if (lane_.empty()) return {};
  part.algorithm = whole.algorithm;
  part.print = whole.print;
  return executor_.start(part, options, wait.context());
}

Status HostLanes::run_between(const Request& whole, Request& part, uint64_t divisor,
                              WireWait& wait) {
  KEEL_RETURN_IF_ERROR(start_between(whole, part, {.divisor = divisor}, wait));
  return lane_.empty() ? Status() : executor_.finish(wait);
}

uint64_t HostLanes::round_of(const Request& request, uint64_t longest) const {
  const uint64_t most = kChunks * scratch_.window_bytes() / request.element();
  return std::max<uint64_t>(1, std::min(longest, most / group_.hosts().size()));
}

const uint32_t* HostLanes::owner(const std::vector<uint32_t>& host, uint32_t local,
                                 uint64_t pass) const {
  const uint64_t index = local + pass * size_;
  return local < size_ && index < host.size() ? &host[index] : nullptr;
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

HostLanes::Part HostLanes::part_of(const Request& request, uint64_t begin, uint64_t count) const {
  const uint64_t element = request.element();
  Request whole = request;
  whole.count = count;
  whole.send = at(request.send, begin * element);
  whole.receive = at(request.receive, begin * element);
  const std::vector<Piece> pieces = shares(whole);
  const Piece& own = pieces[group_.local_rank()];
  void* const share = at(whole.receive, own.offset * element);
  Part part = {whole, whole, whole};
  part.scatter.collective = KEEL_REDUCE_SCATTER_V;
  part.scatter.count = 0;
  part.scatter.receive = share;
  part.scatter.send_pieces = part.scatter.receive_pieces = pieces;
  if (request.reduction == KEEL_AVG) part.scatter.reduction = KEEL_SUM;
  part.between.send = part.between.receive = share;
  part.between.count = own.count;
  part.between.factor = 1;
  if (request.reduction == KEEL_PREMUL_SUM) part.between.reduction = KEEL_SUM;
  part.gather.collective = KEEL_ALL_GATHER_V;
  part.gather.reduction = KEEL_SUM;
  part.gather.count = 0;
  part.gather.send = share;
  part.gather.send_pieces = part.gather.receive_pieces = pieces;
  return part;
}

template <typename InFlight, typename Prepare, typename Start, typename Conclude>
Status HostLanes::overlap(uint64_t parts, WireWait& wait, Prepare prepare, Start start,
                          Conclude conclude) {
  std::array<InFlight, 2> in_flight;
  for (uint64_t i = 0; i <= parts; ++i) {
    InFlight& next = in_flight[i % 2];
    if (i < parts) KEEL_RETURN_IF_ERROR(prepare(i, &next));
    if (i > 0 && !lane_.empty()) KEEL_RETURN_IF_ERROR(executor_.finish(wait));
    if (i < parts) KEEL_RETURN_IF_ERROR(start(i, &next));
    if (i > 0) KEEL_RETURN_IF_ERROR(conclude(in_flight[(i - 1) % 2], /*is_last=*/i == parts));
  }
  return {};
}

// While a part of a long one is between the hosts, the ranks of each host sum the next one and
// gather the one before.
Status HostLanes::all_reduce(const Request& request, WireWait& wait) {
  const uint64_t element = request.element();
  const uint64_t most = std::max<uint64_t>(1, kChunks * scratch_.window_bytes() * size_ / element);
  const uint64_t parts = std::max<uint64_t>(1, (request.count + most - 1) / most);
  const bool is_noted = meter_.notes(request.count * element) && !is_stepped(request.algorithm);
  const std::chrono::nanoseconds before = executor_.time();
  uint64_t carried = 0;  // bytes between the hosts
  KEEL_RETURN_IF_ERROR(overlap<Part>(
      parts, wait,
      [&](uint64_t i, Part* part) {
        const uint64_t begin = i * most;
        *part = part_of(request, begin, std::min(most, request.count - begin));
        return i == 0 ? run_inside(part->scatter, wait.context()) : run_beside(part->scatter, wait);
      },
      [&](uint64_t, Part* part) {
        carried += part->between.count * element;
        return start_between(request, part->between, {group_.world(), is_noted}, wait);
      },
      [&](Part& part, bool is_last) {
        return is_last ? gather_inside(part.gather, wait) : run_beside(part.gather, wait);
      }));
  if (!is_noted) return {};
  meter_.note(carried, (executor_.time() - before).count());
  return meter_.is_due() ? agree_on_shares(wait) : Status();
}

// While a lane's blocks, or parts of long ones, are between the hosts, the ranks of each host
// gather those before: first those of their own host.
Status HostLanes::all_gather(const Request& request, WireWait& wait) {
  const uint64_t round = round_of(request, request.count);
  const uint64_t parts = std::max<uint64_t>(1, (request.count + round - 1) / round) * passes_;
  return overlap<Blocks>(
      parts, wait,
      [&](uint64_t i, Blocks* blocks) {
        const uint64_t begin = i / passes_ * round;
        *blocks = {{begin, std::min(round, request.count - begin)}, i % passes_, request};
        prepare_gather(blocks, /*is_own_new=*/i == 0);
        return Status();
      },
      [&](uint64_t i, Blocks* blocks) {
        KEEL_RETURN_IF_ERROR(start_between(blocks->between, blocks->between, {}, wait));
        return i == 0 ? gather_own_host(request, parts > 1, wait) : Status();
      },
      [&](const Blocks& blocks, bool is_last) {
        return gather_blocks(request, blocks, !is_last, wait);
      });
}

Piece HostLanes::Blocks::of(const uint32_t* rank) const {
  if (rank == nullptr) return {};
  return {*rank * between.count + range.offset, range.count};
}

void HostLanes::prepare_gather(Blocks* blocks, bool is_own_new) {
  Request& between = blocks->between;
  for (const std::vector<uint32_t>& host : group_.hosts()) {
    between.receive_pieces.push_back(blocks->of(owner(host, group_.local_rank(), blocks->pass)));
  }
  between.send_pieces = between.receive_pieces;
  // The ranks of the host have their own blocks once gather_own_host() is over.
  if (!is_own_new) {
    const uint64_t offset = between.send_pieces[group_.host()].offset;
    between.send = at(between.receive, offset * between.element());
  }
  between.collective = KEEL_ALL_GATHER_V;
}

Status HostLanes::gather_own_host(const Request& request, bool is_long, WireWait& wait) {
  Request inside = request;
  inside.collective = KEEL_ALL_GATHER_V;
  inside.count = 0;
  for (const uint32_t rank : group_.hosts()[group_.host()]) {
    inside.receive_pieces.push_back({rank * request.count, request.count});
  }
  inside.send_pieces = inside.receive_pieces;
  if (is_long) return run_beside(inside, wait);
  wait.poll();  // short messages go at once
  return run_inside(inside, wait.context());
}

Status HostLanes::gather_blocks(const Request& request, const Blocks& blocks, bool is_beside,
                                WireWait& wait) {
  for (const std::vector<uint32_t>& host : group_.hosts()) {
    if (&host == &group_.hosts()[group_.host()]) continue;
    Request inside = request;
    inside.collective = KEEL_ALL_GATHER_V;
    inside.count = 0;
    for (uint32_t local = 0; local < context_.world(); ++local) {
      inside.receive_pieces.push_back(blocks.of(owner(host, local, blocks.pass)));
    }
    inside.send_pieces = inside.receive_pieces;
    const uint64_t offset = inside.send_pieces[group_.local_rank()].offset;
    inside.send = at(request.receive, offset * request.element());
    KEEL_RETURN_IF_ERROR(is_beside ? run_beside(inside, wait) : gather_inside(inside, wait));
  }
  return {};
}

// The ranks of a host sum the blocks for the ranks of each lane, of one host after the other, and
// the ranks of the lane add the sums of the hosts. A block thus crosses once from each host, not
// from each rank. Blocks may differ in length: a round takes the next elements of those that have
// more. What a lane has summed for a rank without one, it hands to that rank. While sums are
// between the hosts, the next ones are made.
Status HostLanes::reduce_scatter(const Request& request, WireWait& wait) {
  const uint64_t element = request.element();
  const uint64_t hosts = group_.hosts().size();
  const uint64_t longest =
      request.collective == KEEL_REDUCE_SCATTER ? request.count : request.largest_piece();
  const uint64_t round = round_of(request, longest);
  const uint64_t rounds = std::max<uint64_t>(1, (longest + round - 1) / round);
  const uint64_t parts = rounds * passes_;
  // The sums for each host, and those for a rank without a lane.
  const uint64_t part_bytes = (passes_ > 1 ? hosts + 1 : hosts) * round * element;
  KEEL_RETURN_IF_ERROR(scratch_.reserve(std::min<uint64_t>(parts, 2) * part_bytes));
  return overlap<Sums>(
      parts, wait,
      [&](uint64_t i, Sums* sums) {
        const uint64_t begin = i / passes_ * round;
        sums->range = {begin, std::min(round, longest - begin)};
        sums->pass = i % passes_;
        sums->memory = scratch_.data() + i % 2 * part_bytes;
        return sum_inside(request, /*is_first=*/i == 0, sums, wait);
      },
      [&](uint64_t, Sums* sums) {
        return start_between(request, sums->between, {.divisor = group_.world()}, wait);
      },
      [&](const Sums& sums, bool) { return hand_over(request, sums, wait); });
}

Piece HostLanes::piece_of(const Request& request, const Sums& sums, const uint32_t* rank) const {
  if (rank == nullptr) return {};
  const Piece& range = sums.range;
  if (request.collective == KEEL_REDUCE_SCATTER) {
    return {*rank * request.count + range.offset, range.count};
  }
  const Piece& block = request.send_pieces[*rank];
  const uint64_t skipped = std::min(range.offset, block.count);
  return {block.offset + skipped, std::min(range.count, block.count - skipped)};
}

// A block that has ended may leave no memory there.
void* HostLanes::result_of(const Request& request, const Sums& sums) const {
  uint64_t skipped = sums.range.offset;
  if (request.collective != KEEL_REDUCE_SCATTER) {
    skipped = std::min(skipped, request.send_pieces[group_.rank()].count);
  }
  return at(request.receive, skipped * request.element());
}

Status HostLanes::sum_inside(const Request& request, bool is_first, Sums* sums, WireWait& wait) {
  const uint64_t element = request.element();
  std::vector<Piece> pieces;  // of this rank's lane, by host
  for (const std::vector<uint32_t>& host : group_.hosts()) {
    Request inside = request;
    inside.collective = KEEL_REDUCE_SCATTER_V;
    inside.count = 0;
    inside.send_pieces.clear();
    for (uint32_t local = 0; local < context_.world(); ++local) {
      inside.send_pieces.push_back(piece_of(request, *sums, owner(host, local, sums->pass)));
    }
    inside.receive_pieces = inside.send_pieces;
    pieces.push_back(
        {pieces.size() * sums->range.count, inside.send_pieces[group_.local_rank()].count});
    inside.receive = sums->memory + pieces.back().offset * element;
    inside.keeps_off_library = true;  // libraries take memory of the device alone
    if (request.reduction == KEEL_AVG) inside.reduction = KEEL_SUM;
    KEEL_RETURN_IF_ERROR(is_first ? run_inside(inside, wait.context()) : run_beside(inside, wait));
  }
  sums->handed_over = sums->memory + pieces.size() * sums->range.count * element;
  sums->between = request;
  sums->between.send = sums->memory;
  sums->between.receive = sums->pass == 0 ? result_of(request, *sums) : sums->handed_over;
  if (request.collective == KEEL_REDUCE_SCATTER && keeps_form(request)) {
    sums->between.count = sums->range.count;
  } else {
    sums->between.collective = KEEL_REDUCE_SCATTER_V;
    sums->between.count = 0;
    sums->between.send_pieces = sums->between.receive_pieces = std::move(pieces);
  }
  sums->between.factor = 1;
  if (request.reduction == KEEL_PREMUL_SUM) sums->between.reduction = KEEL_SUM;
  return {};
}

Status HostLanes::hand_over(const Request& request, const Sums& sums, WireWait& wait) {
  const std::vector<uint32_t>& host = group_.hosts()[group_.host()];
  const uint32_t local = group_.local_rank();
  const uint32_t lane = local % size_;
  if (sums.pass == 0 || host.size() <= sums.pass * size_) return {};
  Request inside = request;
  inside.collective = KEEL_ALL_TO_ALL_V;
  inside.keeps_off_library = true;
  inside.reduction = KEEL_SUM;
  inside.factor = 1;
  inside.count = 0;
  inside.send = sums.handed_over;
  inside.receive = result_of(request, sums);
  inside.send_pieces.assign(host.size(), {});
  inside.receive_pieces.assign(host.size(), {});
  if (const uint32_t* const rank = owner(host, local, sums.pass)) {
    inside.send_pieces[local + sums.pass * size_] = {0, piece_of(request, sums, rank).count};
  }
  if (local / size_ == sums.pass) {
    inside.receive_pieces[lane] = {0, piece_of(request, sums, &host[local]).count};
  }
  return run_beside(inside, wait);
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
