// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_messages.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "collectives/transports/wait_policy.h"

namespace keel {

namespace {

// Equal on both ends of a transfer.
WireMark mark_of(const Transfer& transfer) {
  Fingerprint print;
  print.collective = KEEL_SEND;
  print.dtype = static_cast<uint8_t>(transfer.dtype);
  print.count = transfer.count;
  return std::bit_cast<WireMark>(print);
}

std::string describe(uint64_t count, uint32_t dtype) {
  return fmt::format("{} {}", count, kit::dtype_name(static_cast<keel_dtype>(dtype)));
}

}  // namespace

uint64_t HostMessages::chunk_size(const Moving& moving, uint64_t chunk) const {
  const uint64_t most = group_.agreement().chunk_bytes;
  return std::min(most, moving.transfer->bytes() - chunk * most);
}

char* HostMessages::chunk_data(const Moving& moving, uint64_t chunk) const {
  if (moving.transfer->bytes() == 0) return nullptr;
  if (moving.side.staged) {
    return moving.transfer->sends ? moving.stage->in(chunk) : moving.stage->out(chunk);
  }
  return moving.side.buffer.host + chunk * group_.agreement().chunk_bytes;
}

Status HostMessages::begin(const Transfer& transfer, Moving* out_moving) {
  Moving& moving = *out_moving;
  moving.transfer = &transfer;
  const uint64_t most = group_.agreement().chunk_bytes;
  moving.chunks = std::max<uint64_t>(1, (transfer.bytes() + most - 1) / most);
  const void* const pointer = transfer.sends ? transfer.source : transfer.destination;
  KEEL_RETURN_IF_ERROR(
      context_.make_message_side(pointer, transfer.bytes(), /*published=*/false, &moving.side));
  if (!moving.side.staged) return {};
  if (stages_.empty()) {
    moving.stage = std::make_unique<StagingPipeline>(context_.device(), most, /*shared=*/false,
                                                     context_.team().is_urgent());
    return moving.stage->prepare(/*device_copies=*/true);
  }
  moving.stage = std::move(stages_.back());
  stages_.pop_back();
  return {};
}

Status HostMessages::start(const std::vector<const Transfer*>& transfers, WireWait& wait) {
  moving_.clear();
  for (const Transfer* transfer : transfers) {
    KEEL_RETURN_IF_ERROR(begin(*transfer, &moving_.emplace_back()));
  }
  return advance(wait);
}

bool HostMessages::is_over() const {
  return std::all_of(moving_.begin(), moving_.end(),
                     [](const Moving& moving) { return moving.is_over(); });
}

Status HostMessages::finish(WireWait& wait) {
  const auto is_any_done = [&] {
    return std::any_of(moving_.begin(), moving_.end(), [](const Moving& moving) {
      return moving.is_in_flight() && moving.requests[moving.done % kInFlight].is_done();
    });
  };
  while (true) {
    KEEL_RETURN_IF_ERROR(advance(wait));
    if (is_over()) break;
    KEEL_RETURN_IF_ERROR(wait.until(is_any_done));
  }
  for (Moving& moving : moving_) {
    if (!moving.side.staged) continue;
    for (uint32_t window = 0; window < kInFlight && !moving.transfer->sends; ++window) {
      KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(window, wait.context()));
    }
    stages_.push_back(std::move(moving.stage));
  }
  moving_.clear();
  return {};
}

Status HostMessages::advance(WireWait& wait) {
  // Peers with a transfer that is not fully posted, by direction.
  std::set<std::pair<uint32_t, bool>> blocked;
  for (Moving& moving : moving_) {
    const std::pair<uint32_t, bool> key = {moving.transfer->peer, moving.transfer->sends};
    KEEL_RETURN_IF_ERROR(advance(moving, blocked.count(key) == 0, wait));
    if (moving.posted != moving.chunks) blocked.insert(key);
  }
  return {};
}

Status HostMessages::advance(Moving& moving, bool may_post, WireWait& wait) {
  while (moving.is_in_flight() && moving.requests[moving.done % kInFlight].is_done()) {
    KEEL_RETURN_IF_ERROR(complete(moving));
  }
  const bool is_fetched = moving.side.staged && moving.transfer->sends;
  for (; is_fetched && moving.fetched != moving.chunks && moving.fetched - moving.done < kInFlight;
       ++moving.fetched) {
    const uint64_t offset = moving.fetched * group_.agreement().chunk_bytes;
    KEEL_RETURN_IF_ERROR(moving.stage->fetch(moving.fetched, moving.side.buffer, offset, 0,
                                             chunk_size(moving, moving.fetched)));
  }
  while (may_post && moving.posted != moving.chunks && moving.posted - moving.done < kInFlight) {
    KEEL_RETURN_IF_ERROR(post(moving, wait));
  }
  return {};
}

Status HostMessages::post(Moving& moving, WireWait& wait) {
  const Transfer& transfer = *moving.transfer;
  const uint64_t chunk = moving.posted;
  const uint64_t bytes = chunk_size(moving, chunk);
  if (moving.side.staged && transfer.sends) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_fetched(chunk, wait.context()));
  } else if (moving.side.staged) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(chunk, wait.context()));
  }
  WireRequest& request = moving.requests[chunk % kInFlight];
  request.set_memory(chunk_data(moving, chunk), bytes);
  request.set_mark(mark_of(transfer));
  const uint32_t peer = group_.members()[transfer.peer];
  if (transfer.sends) {
    group_.wires().post_send(peer, kLane, request);
  } else {
    group_.wires().post_receive(peer, kLane, request);
  }
  ++moving.posted;
  return {};
}

Status HostMessages::complete(Moving& moving) {
  const uint64_t chunk = moving.done;
  const WireRequest& request = moving.requests[chunk % kInFlight];
  const Transfer& transfer = *moving.transfer;
  if (!transfer.sends && request.has_message()) {
    const bool is_same =
        request.mark() == mark_of(transfer) && request.message_bytes() == request.posted_bytes();
    const keel_status code = request.status().code();
    if (!is_same && (code == KEEL_OK || code == KEEL_INVALID_ARGUMENT)) {
      const auto sent = std::bit_cast<Fingerprint>(request.mark());
      return failure(KEEL_INVALID_ARGUMENT,
                     "mismatch: rank {} sends {} to rank {}, which receives {}", transfer.peer,
                     describe(sent.count, sent.dtype), group_.rank(),
                     describe(transfer.count, transfer.dtype));
    }
  }
  KEEL_RETURN_IF_ERROR(request.status());  // awaited() names the peer still
  ++moving.done;
  if (transfer.sends || !moving.side.staged || transfer.bytes() == 0) return {};
  return moving.stage->deliver(chunk, moving.side.buffer, chunk * group_.agreement().chunk_bytes, 0,
                               chunk_size(moving, chunk));
}

void HostMessages::settle() {
  const auto is_posted = [](const Moving& moving) {
    for (uint64_t chunk = moving.done; chunk < moving.posted; ++chunk) {
      if (!moving.requests[chunk % kInFlight].is_done()) return true;
    }
    return false;
  };
  while (std::any_of(moving_.begin(), moving_.end(), is_posted)) {
    if (!group_.wires().progress()) group_.wires().park(WaitPolicy::kSliceNs);
  }
  for (Moving& moving : moving_) {
    if (moving.stage) moving.stage->settle();
  }
  moving_.clear();  // refers to the operation's transfers
}

std::vector<uint32_t> HostMessages::awaited() const {
  std::vector<uint32_t> ranks;
  for (const Moving& moving : moving_) {
    if (!moving.is_over()) ranks.push_back(moving.transfer->peer);
  }
  return ranks;
}

}  // namespace keel
