// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/carried_blocks.h"

#include <algorithm>
#include <bit>

#include "collectives/reduce/reduce.h"
#include "collectives/transports/wait_policy.h"
#include "core/deadline.h"

namespace keel {

namespace {

// Lane of the wires; HostExecutor, which uses it too, begins once these messages have ended.
constexpr uint32_t kLane = 0;

constexpr uint64_t to_line(uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

void add_piece(char* data, uint64_t bytes, std::vector<iovec>* pieces) {
  if (bytes == 0) return;
  if (!pieces->empty()) {
    iovec& last = pieces->back();
    if (static_cast<char*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += bytes;
      return;
    }
  }
  pieces->push_back({data, bytes});
}

// Calls |visit|(offset, window_at, bytes) for each range of the carried |blocks| that lies together
// in the caller's memory and in the bounce buffer, until a call fails.
template <typename Blocks, typename Visit>
Status for_each_range(const Blocks& blocks, uint64_t element, const Visit& visit) {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t window_at = 0;
  for (const auto& block : blocks) {
    if (!block.is_carried || block.bytes == 0) continue;
    const uint64_t offset = block.piece.offset * element;
    if (begin == end || offset != end) {
      if (begin != end) KEEL_RETURN_IF_ERROR(visit(begin, window_at, end - begin));
      begin = offset;
      window_at = block.window_at;
    }
    end = offset + block.bytes;
  }
  return begin == end ? Status() : visit(begin, window_at, end - begin);
}

}  // namespace

CarriedBlocks::CarriedBlocks(RankContext& context, HostGroup& group, const HostCarriers& carriers,
                             HostInside& inside, HostScratch& bounce)
    : context_(context),
      group_(group),
      carriers_(carriers),
      inside_(inside),
      bounce_(bounce),
      slots_(context, /*window_bytes=*/0),
      scratch_(context, /*window_bytes=*/0) {}

Status CarriedBlocks::start(const Request& request, const MayCarry& may_carry, WireWait& wait,
                            Request* out_rest) {
  request_ = &request;
  calls_.clear();
  sends_.used = receives_.used = 0;
  KEEL_RETURN_IF_ERROR(begin(may_carry, wait));
  KEEL_RETURN_IF_ERROR(exchange_slots(wait));
  context_.yield_to_urgent();
  KEEL_RETURN_IF_ERROR(exchange_inside(wait));
  post_between();
  *out_rest = request;
  for (uint32_t rank = 0; rank < group_.world(); ++rank) {
    if (sent_[rank].is_carried) out_rest->send_pieces[rank].count = 0;
    if (received_[rank].is_carried) out_rest->receive_pieces[rank].count = 0;
  }
  return {};
}

Status CarriedBlocks::finish(WireWait& wait) {
  KEEL_RETURN_IF_ERROR(await_between(wait));
  return deliver(wait);
}

Status CarriedBlocks::mismatch(uint32_t sender, uint64_t sent, uint32_t receiver,
                               uint64_t received) const {
  const uint32_t bits = request_->called.lane_bits;
  return failure(KEEL_INVALID_ARGUMENT,
                 "mismatch: rank {} sends {} elements to rank {}, which receives {}", sender,
                 sent >> bits, receiver, received >> bits);
}

// ---- the rank's own blocks ------------------------------------------------------

Status CarriedBlocks::begin(const MayCarry& may_carry, WireWait& wait) {
  const Request& request = *request_;
  const uint32_t world = group_.world();
  const uint32_t rank = group_.rank();
  element_ = request.element();
  KEEL_RETURN_IF_ERROR(context_.make_side(request.send, request.send_bytes(rank, world),
                                          /*published=*/false, &send_));
  KEEL_RETURN_IF_ERROR(context_.make_side(request.receive, request.receive_bytes(rank, world),
                                          /*published=*/false, &receive_));
  may_carry_ = &may_carry;
  const auto divide = [&](const std::vector<Piece>& pieces, std::vector<Block>* out_blocks) {
    out_blocks->resize(world);
    uint64_t window_at = 0;
    for (uint32_t peer = 0; peer < world; ++peer) {
      Block& block = (*out_blocks)[peer];
      block.piece = pieces[peer];
      block.bytes = block.piece.count * element_;
      block.window_at = window_at;
      block.is_carried = carries(block.piece.count);
      if (block.is_carried) window_at += block.bytes;
    }
  };
  divide(request.send_pieces, &sent_);
  divide(request.receive_pieces, &received_);
  flags_ = 0;
  packed_bytes_.assign(local_size(), 0);
  for (uint64_t j = 0; j < local_size(); ++j) {
    visit_blocks(j, [&](uint32_t peer) {
      if (sent_[peer].is_carried) packed_bytes_[j] += sent_[peer].bytes;
    });
    if (packed_bytes_[j] > slot_room()) flags_ |= kMovesInside;
    if (!sent_[local()[j]].is_carried) flags_ |= kLeavesInside;
  }
  if (is_staged()) KEEL_RETURN_IF_ERROR(bounce_.prepare_stage());
  if (!send_.staged ||
      std::ranges::all_of(packed_bytes_, [](uint64_t bytes) { return bytes == 0; }))
    return {};
  StagingPipeline& stage = bounce_.stage();
  KEEL_RETURN_IF_ERROR(
      for_each_range(sent_, element_, [&](uint64_t offset, uint64_t window_at, uint64_t bytes) {
        return stage.fetch(0, send_.buffer, offset, window_at, bytes);
      }));
  return stage.await_fetched(0, wait.context());
}

// All carried blocks of a rank together fit into a chunk, and so into a bounce buffer.
bool CarriedBlocks::carries(uint64_t count) const {
  const uint64_t most = group_.agreement().chunk_bytes / group_.world() / element_;
  return count <= most && (*may_carry_)(count * element_);
}

char* CarriedBlocks::arrival_of(const Block& block) const {
  return receive_.staged ? bounce_.stage().out(0) + block.window_at
                         : receive_.buffer.host + block.piece.offset * element_;
}

// ---- inside the host ------------------------------------------------------------

// As much as costs little to copy in vain, and in whole lines.
uint64_t CarriedBlocks::slot_room() const {
  constexpr uint64_t kMostBytes = 16 << 10;  // of all slots of a rank
  if (local_size() == 1) return 0;
  const uint64_t each = kMostBytes / local_size();
  const uint64_t told = told_size() * sizeof(uint64_t);
  return each <= told ? 0 : (each - told) / sizeof(uint64_t) * sizeof(uint64_t);
}

Status CarriedBlocks::exchange_slots(WireWait& wait) {
  const uint64_t size = local_size();
  const uint64_t slot = told_size() * sizeof(uint64_t) + slot_room();
  KEEL_RETURN_IF_ERROR(slots_.reserve(2 * size * slot));
  for (uint64_t j = 0; j < size; ++j) {
    char* const at = slots_.host() + j * slot;
    auto* number = reinterpret_cast<uint64_t*>(at);
    std::fill_n(number, told_size(), 0);
    *number++ = flags_;
    visit_blocks(j, [&](uint32_t rank) { *number++ = sent_[rank].piece.count; });
    if (packed_bytes_[j] <= slot_room()) pack(j, at + told_size() * sizeof(uint64_t));
  }
  arrived_slots_ = slots_.host();
  if (size > 1) {
    Request part;
    part.collective = KEEL_ALL_TO_ALL;
    part.dtype = KEEL_UINT64;
    part.count = slot / sizeof(uint64_t);
    part.send = slots_.data();
    part.receive = slots_.data() + size * slot;
    KEEL_RETURN_IF_ERROR(run_inside(part, wait));
    arrived_slots_ += size * slot;
  }
  told_.clear();
  for (uint64_t j = 0; j < size; ++j) {
    const auto* const told = reinterpret_cast<const uint64_t*>(arrived_slots_ + j * slot);
    told_.insert(told_.end(), told, told + told_size());
    flags_ |= told_by(j, 0);
    const uint32_t sender = local()[j];
    const uint64_t expected = received_[sender].piece.count;
    if (told_by(j, 1) != expected) {
      return mismatch(sender, told_by(j, 1), group_.rank(), expected);
    }
  }
  return {};
}

Status CarriedBlocks::run_inside(Request& part, WireWait& wait) {
  part.keeps_off_library = true;  // libraries take memory of the device alone
  inside_.choose(&part);
  part.print = request_->print;
  return inside_.run(part, wait.context());
}

Status CarriedBlocks::exchange_inside(WireWait& wait) {
  const uint64_t size = local_size();
  Request part;
  part.collective = KEEL_ALL_TO_ALL_V;
  part.dtype = request_->dtype;
  uint64_t packed = 0;
  for (const uint64_t bytes : packed_bytes_) {
    const uint64_t count = bytes > slot_room() ? bytes / element_ : 0;
    part.send_pieces.push_back({packed, count});
    packed += count;
  }
  // Alone, a rank collects what it has packed.
  const uint64_t collected_at = size == 1 ? 0 : to_line(packed * element_);
  const uint64_t blocks = 1 + carriers_.carried().size();
  uint64_t collected = 0;
  collected_.clear();
  for (uint64_t j = 0; j < size; ++j) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint64_t told = told_by(j, 1 + i);
      collected_.push_back({nullptr, carries(told) ? told * element_ : 0});
      count += collected_.back().iov_len / element_;
    }
    if (count * element_ <= slot_room()) count = 0;
    part.receive_pieces.push_back({collected, count});
    collected += count;
  }
  KEEL_RETURN_IF_ERROR(scratch_.reserve(collected_at + collected * element_));
  const uint64_t told_bytes = told_size() * sizeof(uint64_t);
  for (uint64_t j = 0; j < size; ++j) {
    const Piece& piece = part.receive_pieces[j];
    char* at = piece.count != 0 ? scratch_.host() + collected_at + piece.offset * element_
                                : arrived_slots_ + j * (told_bytes + slot_room()) + told_bytes;
    for (uint64_t i = 0; i < blocks; ++i) {
      collected_[j * blocks + i].iov_base = at;
      at += collected_[j * blocks + i].iov_len;
    }
  }
  if ((flags_ & kMovesInside) == 0) return {};
  for (uint64_t j = 0; j < size; ++j) {
    const Piece& piece = part.send_pieces[j];
    if (piece.count != 0) pack(j, scratch_.host() + piece.offset * element_);
  }
  if (size == 1) return {};
  part.send = scratch_.data();
  part.receive = scratch_.data() + collected_at;
  return run_inside(part, wait);
}

void CarriedBlocks::pack(uint64_t local, char* to) const {
  visit_blocks(local, [&](uint32_t rank) {
    const Block& block = sent_[rank];
    if (!block.is_carried || block.bytes == 0) return;
    const char* const from = send_.staged ? bounce_.stage().in(0) + block.window_at
                                          : send_.buffer.host + block.piece.offset * element_;
    copy_bytes(to, from, block.bytes, Store::kCached);
    to += block.bytes;
  });
}

// ---- between hosts --------------------------------------------------------------

void CarriedBlocks::post_between() {
  const uint64_t hosts = group_.hosts().size();
  arrivals_.resize(hosts);
  outgoing_counts_.resize(carriers_.carried().size() * local_size());
  for (uint32_t host = 0; host < hosts; ++host) {
    if (host != group_.host()) post_receives(host);
  }
  for (uint64_t k = 0; k < carriers_.carried().size(); ++k) post_sends(k);
  group_.wires().progress();
}

Status CarriedBlocks::await_between(WireWait& wait) {
  for (uint32_t host = 0; host < group_.hosts().size(); ++host) {
    if (host == group_.host()) continue;
    Arrival& arrival = arrivals_[host];
    KEEL_RETURN_IF_ERROR(await(*arrival.sizes, wait));
    KEEL_RETURN_IF_ERROR(check(host));
    if (arrival.data == nullptr) continue;
    KEEL_RETURN_IF_ERROR(await(*arrival.data, wait));
    KEEL_RETURN_IF_ERROR(arrival.data->request.status());
  }
  for (size_t i = 0; i < sends_.used; ++i) {
    KEEL_RETURN_IF_ERROR(await(sends_.all[i], wait));
    KEEL_RETURN_IF_ERROR(sends_.all[i].request.status());
  }
  return {};
}

void CarriedBlocks::post(Message& message, uint32_t peer, bool is_send) {
  message.peer = peer;
  message.is_posted = true;
  message.request.set_pieces(message.pieces);
  message.request.set_mark(std::bit_cast<WireMark>(request_->print));
  const uint32_t member = group_.members()[peer];
  if (is_send) {
    group_.wires().post_send(member, kLane, message.request);
  } else {
    group_.wires().post_receive(member, kLane, message.request);
  }
}

void CarriedBlocks::post_receives(uint32_t host) {
  const std::vector<uint32_t>& ranks = group_.hosts()[host];
  const uint32_t carrier = carriers_.carrier_of(host);
  Arrival& arrival = arrivals_[host];
  arrival.counts.resize(ranks.size());
  arrival.sizes = &receives_.add();
  arrival.sizes->pieces = {{arrival.counts.data(), ranks.size() * sizeof(uint64_t)}};
  post(*arrival.sizes, carrier, /*is_send=*/false);
  Message& data = receives_.add();
  data.pieces.clear();
  for (const uint32_t rank : ranks) {
    const Block& block = received_[rank];
    if (block.is_carried && block.bytes != 0) {
      add_piece(arrival_of(block), block.bytes, &data.pieces);
    }
  }
  arrival.data = data.pieces.empty() ? nullptr : &data;
  if (arrival.data != nullptr) post(data, carrier, /*is_send=*/false);
}

void CarriedBlocks::post_sends(uint64_t carried) {
  const uint32_t peer = carriers_.carried()[carried];
  const uint64_t size = local_size();
  const uint64_t blocks = 1 + carriers_.carried().size();
  uint64_t* const counts = outgoing_counts_.data() + carried * size;
  Message& sizes = sends_.add();
  Message& data = sends_.add();
  data.pieces.clear();
  for (uint64_t j = 0; j < size; ++j) {
    counts[j] = told_by(j, 2 + carried);
    const iovec& piece = collected_[j * blocks + 1 + carried];
    add_piece(static_cast<char*>(piece.iov_base), piece.iov_len, &data.pieces);
  }
  sizes.pieces = {{counts, size * sizeof(uint64_t)}};
  post(sizes, peer, /*is_send=*/true);
  if (!data.pieces.empty()) post(data, peer, /*is_send=*/true);
}

Status CarriedBlocks::await(Message& message, WireWait& wait) {
  if (!message.is_posted) return {};
  KEEL_RETURN_IF_ERROR(wait.until([&] { return message.request.is_done(); }));
  message.is_posted = false;
  return {};
}

Status CarriedBlocks::check(uint32_t host) {
  const Arrival& arrival = arrivals_[host];
  const WireRequest& request = arrival.sizes->request;
  const Status& status = request.status();
  if (!status.ok() && (status.code() != KEEL_INVALID_ARGUMENT || !request.has_message())) {
    return status;
  }
  if (!status.ok() || std::bit_cast<Fingerprint>(request.mark()) != request_->print) {
    collect_calls();
    return failure(KEEL_INVALID_ARGUMENT, "mismatch: rank {} sends something else than sizes",
                   arrival.sizes->peer);
  }
  const std::vector<uint32_t>& ranks = group_.hosts()[host];
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint64_t expected = received_[ranks[i]].piece.count;
    if (arrival.counts[i] != expected) {
      return mismatch(ranks[i], arrival.counts[i], group_.rank(), expected);
    }
  }
  return {};
}

void CarriedBlocks::collect_calls() {
  // Long enough for ranks that call at about the same time, short enough to end the operation soon.
  const Deadline deadline = Deadline::after(200'000'000);
  WireSet& wires = group_.wires();
  // The ranks of a host have compared their calls before.
  const auto add = [&](const std::vector<uint32_t>& ranks, const Fingerprint& print) {
    for (const uint32_t rank : ranks) calls_.push_back({rank, print});
  };
  add(local(), request_->print);
  for (uint32_t host = 0; host < group_.hosts().size(); ++host) {
    if (host == group_.host()) continue;
    const Message& sizes = *arrivals_[host].sizes;
    while (!sizes.request.is_done() && !deadline.passed() && wires.failure().ok()) {
      if (!wires.progress()) wires.park(std::max<int64_t>(1, deadline.remaining_ns()));
    }
    if (!sizes.request.is_done() || !sizes.request.has_message()) continue;
    const auto print = std::bit_cast<Fingerprint>(sizes.request.mark());
    const bool has_compared = print.collective == request_->print.collective &&
                              print.algorithm == request_->print.algorithm;
    if (has_compared) {
      add(group_.hosts()[host], print);
    } else {
      calls_.push_back({sizes.peer, print});
    }
  }
}

// ---- the end --------------------------------------------------------------------

Status CarriedBlocks::deliver(WireWait& wait) {
  const uint64_t blocks = 1 + carriers_.carried().size();
  for (uint64_t j = 0; j < local_size(); ++j) {
    const iovec& from = collected_[j * blocks];
    if (from.iov_len == 0) continue;
    copy_bytes(arrival_of(received_[local()[j]]), static_cast<const char*>(from.iov_base),
               from.iov_len, Store::kCached);
  }
  if (!receive_.staged) return {};
  StagingPipeline& stage = bounce_.stage();
  KEEL_RETURN_IF_ERROR(
      for_each_range(received_, element_, [&](uint64_t offset, uint64_t window_at, uint64_t bytes) {
        return stage.deliver(0, receive_.buffer, offset, window_at, bytes);
      }));
  return stage.await_delivered(0, wait.context());
}

void CarriedBlocks::settle() {
  const auto is_over = [](const Messages& messages) {
    return std::none_of(messages.all.begin(), messages.all.end(), [](const Message& message) {
      return message.is_posted && !message.request.is_done();
    });
  };
  while (!is_over(sends_) || !is_over(receives_)) {
    if (!group_.wires().progress()) group_.wires().park(WaitPolicy::kSliceNs);
  }
}

std::vector<uint32_t> CarriedBlocks::awaited() const {
  std::vector<uint32_t> ranks;
  for (const Messages* messages : {&receives_, &sends_}) {
    for (const Message& message : messages->all) {
      if (message.is_posted && !message.request.has_succeeded()) ranks.push_back(message.peer);
    }
  }
  return ranks;
}

}  // namespace keel
