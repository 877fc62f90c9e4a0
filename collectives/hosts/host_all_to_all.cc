// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_all_to_all.h"

#include <algorithm>

#include "collectives/reduce/reduce.h"

namespace keel {

namespace {

// Bytes of a bounce buffer: a round of all blocks, of at least a line each.
uint64_t window_bytes_of(const HostGroup& group) {
  constexpr uint64_t kLine = 64;
  return std::max(group.agreement().chunk_bytes, group.world() * kLine);
}

}  // namespace

HostAllToAll::HostAllToAll(RankContext& context, Runner& inner, const Selection& selection,
                           HostGroup& group, HostExecutor& flat)
    : context_(context),
      group_(group),
      flat_(flat),
      inside_(context, inner, selection, static_cast<uint32_t>(local_size())),
      carriers_(group),
      scratch_(context, window_bytes_of(group)),
      carried_(context, group, carriers_, inside_, scratch_) {}

Status HostAllToAll::run(const Request& request, const MayCarry& may_carry, WireWait& wait) {
  is_staged_ = false;
  if (request.algorithm != Algorithm::kAggregated) return run_direct(request, wait);
  return request.collective == KEEL_ALL_TO_ALL_V ? run_carried(request, may_carry, wait)
                                                 : run_aggregated(request, wait);
}

Status HostAllToAll::run_inside(Request& part, WireWait& wait) {
  const uint64_t called = part.print.count;
  inside_.choose(&part);
  // The count that the caller gave, so that different calls of ranks of a host do not match.
  part.print.count = called;
  return inside_.run(part, wait.context());
}

// ---- direct ---------------------------------------------------------------------

Status HostAllToAll::run_direct(const Request& request, WireWait& wait) {
  if (local_size() == 1) return flat_.run(request, {}, wait);
  Request inside;
  Request between;
  divide(request, &inside, &between);
  KEEL_RETURN_IF_ERROR(exchange_direct(inside, wait));
  return flat_.run(between, {}, wait);
}

// Blocks that stay in the host move while the messages of carried ones are on their way.
Status HostAllToAll::run_carried(const Request& request, const MayCarry& may_carry,
                                 WireWait& wait) {
  Request rest;
  KEEL_RETURN_IF_ERROR(carried_.start(request, may_carry, wait, &rest));
  is_staged_ = carried_.is_staged();
  Request inside;
  Request between;
  divide(rest, &inside, &between);
  if (local_size() == 1) {
    KEEL_RETURN_IF_ERROR(carried_.finish(wait));
    return flat_.run(rest, {}, wait);
  }
  if (carried_.leaves_inside()) KEEL_RETURN_IF_ERROR(exchange_direct(inside, wait));
  KEEL_RETURN_IF_ERROR(carried_.finish(wait));
  return flat_.run(between, {}, wait);
}

void HostAllToAll::divide(const Request& request, Request* out_inside, Request* out_between) const {
  const uint32_t world = group_.world();
  const uint32_t rank = group_.rank();
  Request& inside = *out_inside;
  inside = request;
  inside.collective = KEEL_ALL_TO_ALL_V;
  inside.count = 0;
  inside.send_pieces.clear();
  inside.receive_pieces.clear();
  Request& between = *out_between;
  between = inside;
  for (uint32_t peer = 0; peer < world; ++peer) {
    between.send_pieces.push_back(request.send_piece(rank, peer));
    between.receive_pieces.push_back(request.receive_piece(rank, peer, world));
  }
  for (const uint32_t peer : local()) {
    inside.send_pieces.push_back(between.send_pieces[peer]);
    inside.receive_pieces.push_back(between.receive_pieces[peer]);
    between.send_pieces[peer].count = between.receive_pieces[peer].count = 0;
  }
}

// In place, both layouts are equal: no data from the own host overwrites a block for another one.
Status HostAllToAll::exchange_direct(Request& inside, WireWait& wait) {
  if (inside.send == inside.receive && context_.has_alias()) {
    KEEL_RETURN_IF_ERROR(copy_local(&inside));
  }
  return run_inside(inside, wait);
}

Status HostAllToAll::copy_local(Request* in_out_inside) {
  const uint64_t element = in_out_inside->element();
  uint64_t count = 0;
  uint64_t end = 0;
  for (const Piece& piece : in_out_inside->send_pieces) {
    count += piece.count;
    end = std::max(end, piece.end());
  }
  if (count == 0) return {};
  KEEL_RETURN_IF_ERROR(scratch_.reserve(count * element));
  Side send;
  KEEL_RETURN_IF_ERROR(
      context_.make_side(in_out_inside->send, end * element, /*published=*/false, &send));
  uint64_t packed = 0;
  for (Piece& piece : in_out_inside->send_pieces) {
    if (piece.count == 0) continue;
    copy_bytes(scratch_.host() + packed * element, send.buffer.host + piece.offset * element,
               piece.count * element, Store::kCached);
    piece.offset = packed;
    packed += piece.count;
  }
  in_out_inside->send = scratch_.data();
  return {};
}

// ---- aggregated -----------------------------------------------------------------

Status HostAllToAll::run_aggregated(const Request& request, WireWait& wait) {
  const uint64_t element = std::max<uint64_t>(request.element(), 1);
  const uint64_t bytes = group_.world() * request.count * element;
  Side send;
  Side receive;
  KEEL_RETURN_IF_ERROR(context_.make_side(request.send, bytes, /*published=*/false, &send));
  KEEL_RETURN_IF_ERROR(context_.make_side(request.receive, bytes, /*published=*/false, &receive));
  is_staged_ = send.staged || receive.staged;
  if (is_staged_) KEEL_RETURN_IF_ERROR(scratch_.prepare_stage());
  const uint64_t window_bytes = scratch_.window_bytes();
  const uint64_t round =
      std::max<uint64_t>(1, std::min(request.count, window_bytes / element / group_.world()));
  KEEL_RETURN_IF_ERROR(scratch_.reserve(scratch_blocks() * round * element));
  uint64_t begin = 0;
  do {
    if (begin != 0) context_.yield_to_urgent();
    const uint64_t count = std::min(round, request.count - begin);
    KEEL_RETURN_IF_ERROR(run_round(request, send, receive, begin, count, wait));
    begin += count;
  } while (begin < request.count);
  return is_staged_ ? scratch_.stage().await_delivered(0, wait.context()) : Status();
}

Status HostAllToAll::run_round(const Request& request, const Side& send, const Side& receive,
                               uint64_t begin, uint64_t count, WireWait& wait) {
  const uint64_t element = request.element();
  const uint64_t block = count * element;
  const uint32_t world = group_.world();
  const auto own_at = [&](uint32_t rank) { return (rank * request.count + begin) * element; };
  const auto scratch_at = [&](uint64_t index) { return scratch_.host() + index * block; };
  if (send.staged && block != 0) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      KEEL_RETURN_IF_ERROR(
          scratch_.stage().fetch(0, send.buffer, own_at(rank), rank * block, block));
    }
    KEEL_RETURN_IF_ERROR(scratch_.stage().await_fetched(0, wait.context()));
  }
  const auto pack = [&](uint64_t index, uint32_t rank) {
    if (block == 0) return;
    const char* const from =
        send.staged ? scratch_.stage().in(0) + rank * block : send.buffer.host + own_at(rank);
    copy_bytes(scratch_at(index), from, block, Store::kCached);
  };
  const bool is_alone = local_size() == 1;
  const uint64_t packed = is_alone ? collected_at() : packed_at();
  for (uint64_t j = 0; j < local_size(); ++j) {
    uint64_t index = packed + j * stride();
    pack(index++, local()[j]);
    for (const uint32_t rank : carriers_.carried_by(j)) pack(index++, rank);
  }
  if (!is_alone) KEEL_RETURN_IF_ERROR(exchange_inside(request, count, wait));
  KEEL_RETURN_IF_ERROR(exchange_between(request, count, wait));
  if (block == 0) return {};
  if (receive.staged) KEEL_RETURN_IF_ERROR(scratch_.stage().await_delivered(0, wait.context()));
  const auto unpack = [&](uint64_t index, uint32_t rank) -> Status {
    char* const to = receive.staged ? scratch_.stage().out(0) + rank * block
                                    : receive.buffer.host + own_at(rank);
    copy_bytes(to, scratch_at(index), block, Store::kCached);
    if (!receive.staged) return {};
    return scratch_.stage().deliver(0, receive.buffer, own_at(rank), rank * block, block);
  };
  for (uint64_t j = 0; j < local_size(); ++j) {
    KEEL_RETURN_IF_ERROR(unpack(collected_at() + j * stride(), local()[j]));
  }
  uint64_t index = incoming_at();
  for (uint32_t host = 0; host < group_.hosts().size(); ++host) {
    if (host == group_.host()) continue;
    for (const uint32_t rank : group_.hosts()[host]) KEEL_RETURN_IF_ERROR(unpack(index++, rank));
  }
  return {};
}

Status HostAllToAll::exchange_inside(const Request& request, uint64_t count, WireWait& wait) {
  const uint64_t block = count * request.element();
  Request inside = request;
  inside.count = count * stride();
  inside.send = scratch_.data() + packed_at() * block;
  inside.receive = scratch_.data() + collected_at() * block;
  inside.keeps_off_library = true;  // libraries take memory of the device alone
  return run_inside(inside, wait);
}

Status HostAllToAll::exchange_between(const Request& request, uint64_t count, WireWait& wait) {
  const uint64_t block = count * request.element();
  const std::vector<uint32_t>& carried = carriers_.carried();
  const uint64_t size = local_size();
  Request between = request;
  between.collective = KEEL_ALL_TO_ALL_V;
  between.algorithm = Algorithm::kDirect;
  between.count = 0;
  between.send = scratch_.data() + outgoing_at() * block;
  between.receive = scratch_.data() + incoming_at() * block;
  between.send_pieces.assign(group_.world(), {});
  between.receive_pieces.assign(group_.world(), {});
  for (uint64_t k = 0; k < carried.size(); ++k) {
    between.send_pieces[carried[k]] = {k * size * count, size * count};
    for (uint64_t j = 0; j < size && block != 0; ++j) {
      copy_bytes(scratch_.host() + (outgoing_at() + k * size + j) * block,
                 scratch_.host() + (collected_at() + j * stride() + 1 + k) * block, block,
                 Store::kCached);
    }
  }
  uint64_t arrived = 0;
  for (uint32_t host = 0; host < group_.hosts().size(); ++host) {
    if (host == group_.host()) continue;
    const std::vector<uint32_t>& ranks = group_.hosts()[host];
    between.receive_pieces[carriers_.carrier_of(host)] = {arrived * count, ranks.size() * count};
    arrived += ranks.size();
  }
  return flat_.run(between, {}, wait);
}

void HostAllToAll::settle() {
  carried_.settle();
  scratch_.settle();
}

}  // namespace keel
