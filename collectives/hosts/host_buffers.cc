// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_buffers.h"

#include <algorithm>

#include "collectives/reduce/reduce.h"
#include "collectives/shares.h"

namespace keel {

namespace {

// Chunks in each direction: those of the rounds in flight, and as many that the device fills or
// drains meanwhile.
constexpr uint32_t kWindows = 2 * HostBuffers::kDepth;

// Bytes of a chunk. Holds at least kLine bytes for each rank.
uint64_t window_bytes_of(const HostRanks& ranks) {
  constexpr uint64_t kLine = 64;
  return std::max(ranks.chunk_bytes, (uint64_t{ranks.world} + 1) * kLine);
}

}  // namespace

HostBuffers::HostBuffers(RankContext& context, const HostRanks& ranks)
    : context_(context),
      ranks_(ranks),
      window_bytes_(window_bytes_of(ranks)),
      // A pipeline has two windows in each direction unless it is divided otherwise.
      stage_(context.device(), window_bytes_ * kWindows / 2, /*shared=*/false,
             context.team().is_urgent()) {
  stage_.use_windows(window_bytes_, kWindows);
}

Status HostBuffers::begin(const Request& request, const MessagePlan& plan) {
  request_ = &request;
  plan_ = &plan;
  element_ = request.element();
  send_parts_ = request.send_parts(ranks_.world);
  receive_parts_ = request.receive_parts(ranks_.world);
  const uint32_t parts = std::max(send_parts_, receive_parts_ + plan.work_parts);
  const uint64_t elements = window_bytes_ / element_ / parts;
  const uint64_t line = line_elements(element_);
  round_elements_ = elements < line ? std::max<uint64_t>(1, elements) : elements / line * line;
  const uint64_t longest = request.largest_piece();
  rounds_ = std::max<uint64_t>(1, (longest + round_elements_ - 1) / round_elements_);
  fetched_ = 0;
  KEEL_RETURN_IF_ERROR(context_.make_side(
      request.send, request.send_bytes(ranks_.rank, ranks_.world), /*published=*/false, &send_));
  KEEL_RETURN_IF_ERROR(context_.make_side(request.receive,
                                          request.receive_bytes(ranks_.rank, ranks_.world),
                                          /*published=*/false, &receive_));
  if (is_staged()) KEEL_RETURN_IF_ERROR(stage_.prepare(/*device_copies=*/true));
  copy_exchanged();
  if (plan.work_parts != 0 && !receive_.staged) {
    const uint64_t bytes = (rounds_ == 1 ? std::max<uint64_t>(longest, 1) : round_elements_) *
                           plan.work_parts * element_;
    for (std::vector<char>& slot : work_) {
      if (slot.size() < bytes) slot.resize(bytes);
    }
  }
  return {};
}

// In place, a message from a peer overwrites the piece for that peer, perhaps not sent yet.
void HostBuffers::copy_exchanged() {
  const bool is_exchange =
      request_->collective == KEEL_ALL_TO_ALL || request_->collective == KEEL_ALL_TO_ALL_V;
  if (!is_exchange || request_->send != request_->receive || send_.staged || send_.bytes == 0) {
    return;
  }
  if (sent_.size() < send_.bytes) sent_.resize(send_.bytes);
  copy_bytes(sent_.data(), send_.buffer.host, send_.bytes, Store::kCached);
  send_.buffer.host = sent_.data();
}

uint64_t HostBuffers::clip(uint64_t count, uint64_t round) const {
  const uint64_t begin = round * round_elements_;
  return begin >= count ? 0 : std::min(round_elements_, count - begin);
}

Piece HostBuffers::piece_of(StepBuffer buffer, uint32_t part) const {
  if (buffer == StepBuffer::kWork) return {0, request_->count};
  if (buffer == StepBuffer::kSend) {
    if (send_parts_ == 1) return {0, send_.bytes / element_};
    return request_->send_piece(ranks_.rank, part);
  }
  if (receive_parts_ == 1) return {0, receive_.bytes / element_};
  return request_->receive_piece(ranks_.rank, part, ranks_.world);
}

HostBuffers::Range HostBuffers::find(const PartRange& range, uint64_t round) const {
  const Piece piece = piece_of(range.buffer, range.part);
  const uint64_t count = clip(piece.count, round);
  const uint64_t share = share_elements(count, plan_->shares, element_);
  const uint64_t begin = std::min(count, range.first_share * share);
  const uint64_t end = std::min(count, range.end_share * share);
  if (begin == end) return {};
  char* part = nullptr;
  if (range.buffer == StepBuffer::kWork) {
    part = receive_.staged ? stage_.out(round) + window_offset(receive_parts_ + range.part)
                           : const_cast<char*>(work_[round % kDepth].data()) +
                                 range.part * std::min(round_elements_, piece.count) * element_;
  } else {
    const bool is_send = range.buffer == StepBuffer::kSend;
    const Side& side = is_send ? send_ : receive_;
    part = side.staged
               ? (is_send ? stage_.in(round) : stage_.out(round)) + window_offset(range.part)
               : side.buffer.host + (piece.offset + round * round_elements_) * element_;
  }
  return {part + begin * element_, end - begin};
}

Status HostBuffers::fetch(uint64_t round) {
  if (!send_.staged || send_.bytes == 0) return {};
  for (uint32_t part = 0; part < send_parts_; ++part) {
    const Piece piece = piece_of(StepBuffer::kSend, part);
    const uint64_t count = clip(piece.count, round);
    if (count == 0) continue;
    KEEL_RETURN_IF_ERROR(stage_.fetch(round, send_.buffer,
                                      (piece.offset + round * round_elements_) * element_,
                                      window_offset(part), count * element_));
  }
  return {};
}

Status HostBuffers::enter(uint64_t round, WaitContext& wait_context) {
  const uint64_t end = std::min(rounds_, round + kDepth + 1);
  for (; fetched_ < end; ++fetched_) KEEL_RETURN_IF_ERROR(fetch(fetched_));
  if (send_.staged) KEEL_RETURN_IF_ERROR(stage_.await_fetched(round, wait_context));
  if (receive_.staged) KEEL_RETURN_IF_ERROR(stage_.await_delivered(round, wait_context));
  return {};
}

Status HostBuffers::leave(uint64_t round) {
  if (!receive_.staged || receive_.bytes == 0) return {};
  for (uint32_t part = 0; part < receive_parts_; ++part) {
    const Piece piece = piece_of(StepBuffer::kReceive, part);
    const uint64_t count = clip(piece.count, round);
    if (count == 0) continue;
    const uint64_t offset = (piece.offset + round * round_elements_) * element_;
    if (receive_.buffer.host != nullptr) {
      copy_bytes(receive_.buffer.host + offset, stage_.out(round) + window_offset(part),
                 count * element_, Store::kCached);
      continue;
    }
    KEEL_RETURN_IF_ERROR(
        stage_.deliver(round, receive_.buffer, offset, window_offset(part), count * element_));
  }
  return {};
}

Status HostBuffers::finish(WaitContext& wait_context) {
  for (uint32_t window = 0; window < kWindows && receive_.staged; ++window) {
    KEEL_RETURN_IF_ERROR(stage_.await_delivered(window, wait_context));
  }
  return {};
}

char* HostBuffers::land(uint64_t round, uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  Arena& arena = landed_[round % kDepth];
  bytes = (bytes + kLine - 1) / kLine * kLine;
  uint64_t begin = 0;  // of the block
  for (std::vector<char>& block : arena.blocks) {
    const uint64_t at = std::max(arena.used, begin);
    if (at + bytes <= begin + block.size()) {
      arena.used = at + bytes;
      return block.data() + (at - begin);
    }
    begin += block.size();
  }
  constexpr uint64_t kLeastBlock = 64 << 10;
  arena.blocks.emplace_back(std::max(bytes, kLeastBlock));
  arena.used = begin + bytes;
  return arena.blocks.back().data();
}

}  // namespace keel
