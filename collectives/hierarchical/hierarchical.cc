// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/hierarchical.h"

#include <algorithm>
#include <utility>

#include "collectives/all_gather_control.h"
#include "collectives/outcome.h"
#include "collectives/runner.h"
#include "collectives/split.h"

namespace keel {

// This rank as a member of a lane: the ranks, one per island, that exchange a share of the data by
// Keel's own algorithms. A communicator without handles.
struct Hierarchical::Lane {
  Lane(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device, bool forbid_alias)
      : context(std::move(team), rank, std::move(device), forbid_alias), runner(context) {
    context.make_staging();
  }
  RankContext context;
  Runner runner;
  FlightEntry entry;  // discarded: the recorder logs the whole operation
};

// ---- forming --------------------------------------------------------------------

namespace {

// |flags|: of PeerInfo.
NativeOffer::Why why_of(uint32_t flags) {
  return static_cast<NativeOffer::Why>((flags & Team::kNative) >> Team::kNativeShift);
}

std::vector<NativeRank> ranks_of(const Team& team) {
  std::vector<NativeRank> ranks(team.world());
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    const PeerInfo& peer_info = team.peer_info(rank);
    ranks[rank].why = why_of(peer_info.flags);
    ranks[rank].process = peer_info.process;
    ranks[rank].device = peer_info.device;
  }
  return ranks;
}

constexpr const char* kCouldNotJoin = "could not join its native island";
constexpr const char* kCouldNotPart = "could not part its native island";

// Aborts the communicator after this rank failed with |own| while forming its island or the lane
// between the islands. Aborts at once: other ranks may be blocked for this rank inside the library,
// where they do not see its operation descriptors. The first reason stays. Returns that reason,
// with the code of |own| if the reason is this rank's.
Status give_up(RankContext& context, const Status& own, const char* what) {
  Team& team = context.team();
  if (team.segment().failures().failed()) return team.segment().failures().status();
  const Status named = own.with_prefix(fmt::format("{} {}: ", team.name(context.rank()), what));
  team.abort(failure(KEEL_RANK_FAILED, "{}", named.text()));
  return named;
}

// Returns once all ranks have arrived, or with the reason why a rank cannot.
Status meet_all(RankContext& context, WaitContext& wait_context) {
  return exchange(context, kIslandsCollective, uint32_t{0}, wait_context,
                  [](uint32_t, uint32_t) {});
}

}  // namespace

bool Hierarchical::may_form(const Team& team) {
  uint32_t offers = 0;
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    if (why_of(team.peer_info(rank).flags) == NativeOffer::Why::kOffered) ++offers;
  }
  return offers > 1;
}

HierarchicalPlan Hierarchical::plan_without(const Team& team) {
  return HierarchicalPlan(ranks_of(team));
}

Hierarchical::Hierarchical(RankContext& context, std::shared_ptr<const HierarchicalPlan> plan)
    : context_(context),
      plan_(std::move(plan)),
      size_(static_cast<uint32_t>(plan_->island(context.rank()).size())),
      index_(plan_->index_of(context.rank())) {
  // Upper limit, reached with messages: one to and one from each peer.
  calls_.reserve(std::max(plan_->lanes(), plan_->is_even() ? 2 * plan_->world() : 1));
  copies_.reserve(2);
}

Hierarchical::~Hierarchical() = default;

Status Hierarchical::form(RankContext& context, const Ref<Device>& device, bool forbid_alias,
                          std::unique_ptr<NativeGroup> inherited, WaitContext& wait_context,
                          std::unique_ptr<Hierarchical>* out_hierarchical) {
  Team& team = context.team();
  std::vector<NativeRank> ranks = ranks_of(team);
  NativeOffer own;
  if (ranks[context.rank()].why == NativeOffer::Why::kOffered) {
    const Status offered = make_native_offer(*device, &own);
    if (!offered.ok()) return give_up(context, offered, kCouldNotJoin);
  }
  KEEL_RETURN_IF_ERROR(
      exchange(context, kIslandsCollective, own, wait_context,
               [&](uint32_t rank, const NativeOffer& offer) { ranks[rank].offer = offer; }));
  auto plan = std::make_shared<const HierarchicalPlan>(std::move(ranks));
  std::unique_ptr<Hierarchical> islands(new Hierarchical(context, std::move(plan)));
  if (islands->plan_->any()) {
    NativeId id;
    Status status;
    const bool has_inherited =
        inherited && inherited->size() == islands->size_ && inherited->index() == islands->index_;
    // Each rank finds missing resources before any rank enters the library, where ranks block for
    // each other.
    StreamLease stream;
    if (has_inherited) {
      id.inherited = islands->size_;
    } else if (islands->size_ > 1) {
      status = StreamLease::take(device, team.is_urgent(), &stream);
      if (status.ok() && islands->index_ == 0) status = NativeGroup::make_id(*device, &id);
      if (!status.ok()) return give_up(context, status, kCouldNotJoin);
    }
    NativeId wanted;
    const uint32_t first = islands->plan_->island(context.rank())[0];
    KEEL_RETURN_IF_ERROR(exchange(context, kIslandsCollective, id, wait_context,
                                  [&](uint32_t rank, const NativeId& theirs) {
                                    if (rank == first) wanted = theirs;
                                  }));
    // An island is inherited by all of its ranks or by none.
    if (has_inherited) {
      islands->island_ = std::move(inherited);
    } else if (islands->size_ > 1 && wanted.inherited != 0) {
      status = failure(KEEL_INTERNAL, "the first rank of its island has another one from a split");
    } else if (islands->size_ > 1 && wanted.size > wanted.bytes.size()) {
      status = failure(KEEL_INTERNAL, "the id of {} has {} bytes", team.name(first), wanted.size);
    } else if (islands->size_ > 1) {
      status =
          NativeGroup::create(device, wanted, islands->index_, islands->size_, std::move(stream),
                              wait_context.timeout_ns(), team.segment().failures(),
                              wait_context.deadline(), &islands->island_);
    }
    if (!status.ok()) return give_up(context, status, kCouldNotJoin);
  }
  KEEL_RETURN_IF_ERROR(meet_all(context, wait_context));
  if (islands->plan_->any() && !islands->plan_->is_one()) {
    KEEL_RETURN_IF_ERROR(islands->enter_lane(device, forbid_alias, wait_context));
  }
  *out_hierarchical = std::move(islands);
  return {};
}

namespace {

// Among the islands that |parts| will have, those whose ranks all belong to island |island| of
// |plan|, as indices in that island: the groups into which the library can split the island.
std::vector<std::vector<uint32_t>> groups_of(const HierarchicalPlan& plan,
                                             const std::vector<Part>& parts, uint32_t island) {
  std::vector<std::vector<uint32_t>> groups;
  for (const Part& part : parts) {
    std::vector<NativeRank> ranks;
    for (size_t i = 0; i < part.ranks.size(); ++i) {
      NativeRank rank = plan.ranks()[part.ranks[i]];
      // Offers made since the plan was formed are unknown here.
      const bool is_known = rank.why == NativeOffer::Why::kOffered;
      rank.why = is_known ? why_of(part.flags[i]) : NativeOffer::Why::kForbidden;
      ranks.push_back(std::move(rank));
    }
    const HierarchicalPlan parted(std::move(ranks));
    for (const std::vector<uint32_t>& members : parted.islands()) {
      std::vector<uint32_t> group;
      for (const uint32_t member : members) {
        const uint32_t rank = part.ranks[member];
        if (plan.island_of(rank) == island) group.push_back(plan.index_of(rank));
      }
      if (group.size() > 1 && group.size() == members.size()) groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace

Status Hierarchical::split(const Ref<Device>& device, const std::vector<Part>& parts,
                           const Status& so_far, int64_t timeout_ns, WaitContext& wait_context,
                           std::unique_ptr<NativeGroup>* out_group) {
  Team& team = context_.team();
  const auto groups = groups_of(*plan_, parts, plan_->island_of(context_.rank()));
  std::span<const uint32_t> own;
  uint32_t index = 0;
  for (const std::vector<uint32_t>& group : groups) {
    const auto found = std::find(group.begin(), group.end(), index_);
    if (found == group.end()) continue;
    own = group;
    index = static_cast<uint32_t>(found - group.begin());
  }
  Status status = so_far;
  StreamLease stream;
  if (status.ok() && island_ && !own.empty()) {
    status = StreamLease::take(device, team.is_urgent(), &stream)
                 .with_prefix(fmt::format("{} {}: ", team.name(context_.rank()), kCouldNotPart));
  }
  // Inside the library all ranks block for each other, so no rank enters if any rank cannot.
  std::vector<Outcome> outcomes;
  KEEL_RETURN_IF_ERROR(
      exchange(context_, kIslandsCollective, Outcome(status), wait_context, &outcomes));
  KEEL_RETURN_IF_ERROR(status);
  for (const Outcome& outcome : outcomes) {
    if (!outcome.ok()) return failure(KEEL_RANK_FAILED, "{}", outcome.text());
  }
  if (island_ && !groups.empty()) {
    status = island_->split(own, index, std::move(stream), timeout_ns, context_.failures(),
                            wait_context.deadline(), out_group);
  }
  // The other ranks stay in the library until they see the failure, and the island is not usable
  // any more.
  if (!status.ok() && status.code() != KEEL_UNSUPPORTED) {
    status = give_up(context_, status, kCouldNotPart);
  }
  std::vector<int32_t> codes;
  const auto all = [&](const auto& is) { return std::all_of(codes.begin(), codes.end(), is); };
  const Status met = exchange(context_, kIslandsCollective, static_cast<int32_t>(status.code()),
                              wait_context, &codes);
  // Without splits on some rank, all ranks use a unique id instead, since the others would wait for
  // the rank that cannot split.
  if (met.ok() && all([](int32_t code) { return code == KEEL_OK || code == KEEL_UNSUPPORTED; })) {
    if (!all([](int32_t code) { return code == KEEL_OK; })) out_group->reset();
    return {};
  }
  out_group->reset();
  KEEL_RETURN_IF_ERROR(status);
  KEEL_RETURN_IF_ERROR(met);
  // This rank's island was split; a rank whose island was not has published the reason.
  if (context_.failures().failed()) return context_.failures().status();
  return failure(KEEL_RANK_FAILED, "a native library did not part its island");
}

Status Hierarchical::enter_lane(const Ref<Device>& device, bool forbid_alias,
                                WaitContext& wait_context) {
  const bool takes_part = index_ < plan_->lanes();
  const auto island = static_cast<int32_t>(plan_->island_of(context_.rank()));
  std::shared_ptr<Team> team;
  uint32_t rank = 0;
  Status status =
      split_team(context_, takes_part ? static_cast<int32_t>(index_) : KEEL_NO_COLOR, island,
                 context_.team().is_urgent() ? Team::kUrgent : 0u, wait_context, &team, &rank);
  // Colors and keys come from other processes and may be wrong: a valid lane has one rank per
  // island, in the order of the islands.
  if (status.ok() && takes_part &&
      (team->world() != plan_->islands().size() || rank != plan_->island_of(context_.rank()))) {
    status = failure(KEEL_RANK_FAILED, "others have entered its lane than the islands have");
  }
  if (status.ok() && takes_part) {
    std::vector<uint32_t> numbers;
    for (const std::vector<uint32_t>& each : plan_->islands()) numbers.push_back(each[index_]);
    team->number_ranks(numbers);
    if (rank == 0) team->segment().set_chunk_bytes(context_.chunk_bytes());
    team->segment().board().arrive(rank, 1);
    WaitContext part(wait_context, context_.failures());
    status = team->segment().board().await_step(1, part);
    if (status.ok()) {
      lane_ = std::make_unique<Lane>(std::move(team), rank, device, forbid_alias);
      lane_->context.step = 1;
    }
  }
  if (!status.ok()) {
    return give_up(context_, status, "could not enter its lane between the islands");
  }
  return meet_all(context_, wait_context);
}

// ---- operations -----------------------------------------------------------------

Status Hierarchical::run(const Request& request, WaitContext& wait_context) {
  Status status;
  if (plan_->is_one()) {
    status = run_whole(request, wait_context);
  } else if (request.collective == KEEL_BROADCAST) {
    status = run_broadcast(request, wait_context);
  } else if (request.collective == KEEL_ALL_GATHER) {
    status = run_all_gather(request, wait_context);
  } else if (request.collective == KEEL_REDUCE_SCATTER) {
    status = run_reduce_scatter(request, wait_context);
  } else {
    status = run_all_reduce(request, wait_context);
  }
  // No rank reports success before all ranks have finished.
  if (status.ok()) status = context_.meet(wait_context);
  if (!status.ok() && context_.failures().failed()) return context_.failures().status();
  operations_.fetch_add(1, std::memory_order_relaxed);
  return status;
}

void Hierarchical::add_call(const Request& request, keel_collective collective, const Share& share,
                            uint32_t root, const void* send, void* receive) {
  if (share.count == 0) return;
  keel_ccl_call& call = calls_.emplace_back();
  call = KEEL_STRUCT_INIT(keel_ccl_call, KEEL_STRUCT_CCL_CALL);
  const uint64_t offset = share.offset * request.element();
  call.collective = collective;
  call.dtype = request.dtype;
  call.reduction = request.reduction;
  call.root = static_cast<int32_t>(root);
  call.send = send == nullptr ? nullptr : static_cast<const char*>(send) + offset;
  call.receive = receive == nullptr ? nullptr : static_cast<char*>(receive) + offset;
  call.count = share.count;
  call.factor = request.factor;
}

Status Hierarchical::run_native(const Request& request, WaitContext& wait_context) {
  if (calls_.empty() && copies_.empty()) return {};
  Status status = island_->run(collective_name(request.collective), copies_, calls_,
                               context_.team(), context_.rank(), wait_context);
  copies_.clear();
  calls_.clear();
  return status;
}

Status Hierarchical::run_whole(const Request& request, WaitContext& wait_context) {
  if (plan_->by_messages(request)) return run_by_messages(request, wait_context);
  add_call(request, request.collective, {0, request.count}, request.root, request.send,
           request.receive);
  return run_native(request, wait_context);
}

void Hierarchical::add_piece(const Request& request, keel_collective collective, const Piece& piece,
                             uint32_t peer, const void* buffer) {
  add_call(request, collective, {piece.offset, piece.count}, plan_->index_of(peer),
           collective == KEEL_SEND ? buffer : nullptr,
           collective == KEEL_RECV ? const_cast<void*>(buffer) : nullptr);
}

// Copies the rank's own piece: not every library can send to the calling rank.
Status Hierarchical::run_by_messages(const Request& request, WaitContext& wait_context) {
  const uint32_t rank = context_.rank();
  const uint32_t world = context_.world();
  if (request.collective == KEEL_ALL_TO_ALL_V) {
    for (uint32_t peer = 0; peer < world; ++peer) {
      Piece piece;
      KEEL_RETURN_IF_ERROR(context_.read_piece(request, peer, &piece));
    }
  }
  const bool is_exchange =
      request.collective == KEEL_ALL_TO_ALL || request.collective == KEEL_ALL_TO_ALL_V;
  const uint64_t send_bytes = request.send_bytes(rank, world);
  auto& memory = context_.device().memory();
  const void* source = request.send;
  void* scratch = nullptr;
  if (is_exchange && send_bytes != 0 && request.send == request.receive) {
    // In place: received pieces would overwrite pieces not yet sent.
    KEEL_RETURN_IF_ERROR(memory.alloc(KEEL_MEMORY_DEVICE, send_bytes, &scratch));
    copies_.push_back({scratch, source, send_bytes});
    source = scratch;
  }
  for (uint32_t peer = 0; peer < world; ++peer) {
    const Piece sent = request.send_piece(rank, peer);
    const Piece received = request.receive_piece(rank, peer, world);
    if (peer != rank) {
      add_piece(request, KEEL_SEND, sent, peer, source);
      add_piece(request, KEEL_RECV, received, peer, request.receive);
      continue;
    }
    const uint64_t element = request.element();
    const void* const from = static_cast<const char*>(source) + sent.offset * element;
    void* const to = static_cast<char*>(request.receive) + received.offset * element;
    if (received.count != 0 && from != to) copies_.push_back({to, from, received.count * element});
  }
  Status status = run_native(request, wait_context);
  if (scratch == nullptr) return status;
  const Status freed = memory.free(scratch);
  return status.ok() ? freed : status;
}

Status Hierarchical::run_lane(const Request& request, WaitContext& wait_context) {
  if (request.count == 0) return {};
  WaitContext part(wait_context, context_.failures());
  // The lane looks the buffers up too, which the caller may have freed behind the call.
  lane_->context.kept = context_.kept;
  Status status = lane_->runner.run(request, {}, &lane_->entry, part);
  lane_->context.kept = nullptr;
  return status;
}

Hierarchical::Share Hierarchical::share_of(uint32_t lane, uint64_t count) const {
  const uint64_t share = (count + plan_->lanes() - 1) / plan_->lanes();
  const uint64_t begin = std::min(count, lane * share);
  return {begin, std::min(share, count - begin)};
}

void Hierarchical::add_shares_out(const Request& request) {
  for (uint32_t lane = 0; lane < plan_->lanes(); ++lane) {
    add_call(request, KEEL_BROADCAST, share_of(lane, request.count), lane, request.receive,
             request.receive);
  }
}

Status Hierarchical::run_all_reduce(const Request& request, WaitContext& wait_context) {
  const uint32_t lanes = plan_->lanes();
  const uint64_t count = request.count;
  // If every rank of the island has a lane, two collectives replace one collective per lane.
  const bool is_even = size_ == lanes && count % lanes == 0 &&
                       plan_->can(KEEL_REDUCE_SCATTER, request.dtype, request.reduction) &&
                       plan_->can(KEEL_ALL_GATHER, request.dtype, KEEL_SUM);
  const Share own = lane_ ? share_of(index_, count) : Share();
  char* const receive = static_cast<char*>(request.receive);
  char* const own_receive = receive + own.offset * request.element();
  if (island_ && is_even) {
    add_call(request, KEEL_REDUCE_SCATTER, {0, own.count}, 0, request.send, own_receive);
  } else if (island_) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      add_call(request, KEEL_REDUCE, share_of(lane, count), lane, request.send, request.receive);
    }
  }
  KEEL_RETURN_IF_ERROR(run_native(request, wait_context));
  if (lane_) {
    Request part = request;
    part.count = own.count;
    part.receive = own_receive;
    part.send = own_receive;
    if (!island_) {
      part.send = static_cast<const char*>(request.send) + own.offset * request.element();
    }
    KEEL_RETURN_IF_ERROR(run_lane(part, wait_context));
  }
  if (island_ && is_even) {
    add_call(request, KEEL_ALL_GATHER, {0, own.count}, 0, own_receive, receive);
  } else if (island_) {
    add_shares_out(request);
  }
  return run_native(request, wait_context);
}

Status Hierarchical::run_broadcast(const Request& request, WaitContext& wait_context) {
  const uint32_t home = plan_->island_of(request.root);
  const bool is_home = plan_->island_of(context_.rank()) == home;
  if (is_home && island_) {
    add_call(request, KEEL_BROADCAST, {0, request.count}, plan_->index_of(request.root),
             request.send, request.receive);
    KEEL_RETURN_IF_ERROR(run_native(request, wait_context));
  }
  if (lane_) {
    const Share own = share_of(index_, request.count);
    const uint64_t offset = own.offset * request.element();
    Request part = request;
    part.root = home;
    part.count = own.count;
    part.receive = static_cast<char*>(request.receive) + offset;
    // On the root's island all ranks hold the data by now; a root alone in its island sends from
    // |send|.
    const void* from = island_ ? request.receive : request.send;
    part.send = is_home ? static_cast<const char*>(from) + offset : nullptr;
    KEEL_RETURN_IF_ERROR(run_lane(part, wait_context));
  }
  if (!is_home && island_) add_shares_out(request);
  return run_native(request, wait_context);
}

// First the ranks of a lane gather each other's pieces, then each rank broadcasts its lane's pieces
// within its island. A piece thus enters an island once, not once per rank.
Status Hierarchical::run_all_gather(const Request& request, WaitContext& wait_context) {
  Request part = request;
  part.collective = KEEL_ALL_GATHER_V;
  part.algorithm = Algorithm::kDirect;
  for (const std::vector<uint32_t>& island : plan_->islands()) {
    part.receive_pieces.push_back({island[index_] * request.count, request.count});
  }
  part.send_pieces = part.receive_pieces;
  KEEL_RETURN_IF_ERROR(run_lane(part, wait_context));
  for (uint32_t rank = 0; rank < plan_->world(); ++rank) {
    add_call(request, KEEL_BROADCAST, {rank * request.count, request.count}, plan_->index_of(rank),
             request.receive, request.receive);
  }
  return run_native(request, wait_context);
}

// The island reduces every rank's piece onto the rank whose lane carries that piece; then each lane
// completes the pieces of its own ranks.
Status Hierarchical::run_reduce_scatter(const Request& request, WaitContext& wait_context) {
  const uint64_t piece = request.count * request.element();
  const auto islands = static_cast<uint32_t>(plan_->islands().size());
  auto& memory = context_.device().memory();
  void* partial = nullptr;
  KEEL_RETURN_IF_ERROR(memory.alloc(KEEL_MEMORY_DEVICE, piece * islands, &partial));
  for (uint32_t rank = 0; rank < plan_->world(); ++rank) {
    add_call(request, KEEL_REDUCE, {0, request.count}, plan_->index_of(rank),
             static_cast<const char*>(request.send) + rank * piece,
             static_cast<char*>(partial) + plan_->island_of(rank) * piece);
  }
  Status status = run_native(request, wait_context);
  if (status.ok()) {
    Request part = request;
    part.send = partial;
    status = run_lane(part, wait_context);
  }
  const Status freed = memory.free(partial);
  return status.ok() ? freed : status;
}

// ---- numbers --------------------------------------------------------------------

StagingPipeline::Traffic Hierarchical::staged() const {
  return lane_ ? lane_->context.traffic() : StagingPipeline::Traffic();
}

uint64_t Hierarchical::in_place() const {
  return lane_ ? lane_->context.in_place() : 0;
}

uint64_t Hierarchical::preempted() const {
  return lane_ ? lane_->context.preempted() : 0;
}

const LastOperation* Hierarchical::last_operation() const {
  return lane_ ? &lane_->context.last_operation : nullptr;
}

}  // namespace keel
