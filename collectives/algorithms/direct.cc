// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/direct.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/algorithms/one_shot.h"
#include "collectives/reduce/reduce.h"
#include "collectives/shares.h"
#include "core/observer.h"

namespace keel {

namespace {

// Results of this size and more do not stay in a cache. Stores past the caches save the read of the
// overwritten lines. Processors differ: with these stores, 1 MiB over 2 ranks took 38 us instead of
// 57 on an Intel processor, and 93 instead of 50 on an AMD processor.
constexpr uint64_t kStreamedShares = 8 << 20;
constexpr uint64_t kStreamedResult = 4 << 20;

}  // namespace

DirectAlgorithm::DirectAlgorithm(RankContext& context, const Request& request, uint64_t sequence,
                                 const Side& send, const Side& receive, WaitContext& wait_context)
    : context_(context),
      request_(request),
      sequence_(sequence),
      send_(send),
      receive_(receive),
      wait_context_(wait_context),
      world_(context.world()),
      rank_(context.rank()),
      element_(request.element()),
      pair_reduction_(context, request, sequence, send, receive, wait_context),
      host_copies_(!context.any_staged()),
      is_copied_whole_(context.attach().is_agreed() && may_copy_one_shot(context, request)),
      shares_(request.collective == KEEL_ALL_REDUCE || request.collective == KEEL_REDUCE) {}

bool DirectAlgorithm::shares_result(const Request& request, uint32_t rank) {
  if (request.collective == KEEL_ALL_REDUCE) return true;
  return request.collective == KEEL_REDUCE && rank != request.root;
}

bool DirectAlgorithm::reads_from(uint32_t peer) const {
  return request_.receive_piece(rank_, peer, world_).count != 0;
}

bool DirectAlgorithm::is_in_place(uint32_t peer) const {
  if (peer != rank_ || reduces(request_.collective) || send_.bytes == 0) return false;
  return send_.buffer.device + request_.send_piece(rank_, rank_).offset * element_ ==
         receive_.buffer.device + request_.receive_piece(rank_, rank_, world_).offset * element_;
}

bool DirectAlgorithm::is_read() const {
  // In all_to_all_v the peers read the rank's arrays, even if the rank sends no data.
  return send_.bytes != 0 || shares_result(request_, rank_) ||
         request_.collective == KEEL_ALL_TO_ALL_V;
}

DirectAlgorithm::Range DirectAlgorithm::range_of(const Piece& piece, uint64_t round) const {
  const uint64_t begin = round * round_elements_;
  if (begin >= piece.count) return {0, 0};
  return {begin, std::min(round_elements_, piece.count - begin)};
}

DirectAlgorithm::Range DirectAlgorithm::share_of(uint32_t peer, uint64_t count) const {
  if (window_ != 0) {
    const ShareRange part =
        keel::share_of(context_.exchange.plan, peer, count, static_cast<uint32_t>(element_));
    return {part.begin, part.count};
  }
  const uint64_t share = share_elements(count, world_, element_);
  const uint64_t begin = std::min(count, peer * share);
  return {begin, std::min(share, count - begin)};
}

LinkTraffic DirectAlgorithm::traffic_of(uint32_t rank) const {
  LinkTraffic traffic = {request_.send_bytes(rank, world_), request_.receive_bytes(rank, world_)};
  // In place, a rank's own piece does not come back.
  if (!reduces(request_.collective)) {
    traffic.in -= request_.receive_piece(rank, rank, world_).count * element_;
  }
  return traffic;
}

void DirectAlgorithm::make_plan() {
  if (window_ != 0) return;
  const uint64_t parts = std::max(request_.send_parts(world_), request_.receive_parts(world_));
  OperationStatistics& exchange = context_.exchange;
  context_.read_links(sequence_, &exchange.links);
  // In the forms with arrays the ranks do not even know the largest piece.
  const bool is_known = !has_arrays(request_.collective);
  const uint64_t bytes = is_known ? request_.count * element_ * parts : UINT64_MAX;
  exchange.traffic.assign(world_, {});
  for (uint32_t rank = 0; is_known && rank < world_; ++rank) {
    exchange.traffic[rank] = traffic_of(rank);
  }
  plan_chunks({bytes, static_cast<uint32_t>(element_), context_.window_bytes()}, exchange.links,
              exchange.traffic, host_copies_, &exchange.plan);
  window_ = std::max<uint64_t>(1, exchange.plan.window_bytes / element_ / parts);
  context_.stage().use_windows(exchange.plan.window_bytes, exchange.plan.windows);
}

// ---- staged sides ---------------------------------------------------------------

Status DirectAlgorithm::fetch(uint64_t round) {
  if (!send_.staged) return {};
  const uint32_t parts = request_.send_parts(world_);
  for (uint32_t part = 0; part < parts; ++part) {
    const Piece piece = request_.send_piece(
        rank_, parts == 1 && has_root(request_.collective) ? request_.root : part);
    const Range range = range_of(piece, round);
    // Data for this rank alone is not staged if the host reaches the data.
    const bool is_kept = send_.buffer.host != nullptr;
    if (is_kept && parts > 1 && part == rank_) continue;
    Range kept = {range.count, 0};
    if (is_kept && shares_ && !is_copied_whole_) kept = share_of(rank_, range.count);
    const auto bring = [&](uint64_t begin, uint64_t end) {
      return context_.stage().fetch(
          round, send_.buffer, (piece.offset + range.begin + begin) * element_,
          (part * round_elements_ + begin) * element_, (end - begin) * element_);
    };
    KEEL_RETURN_IF_ERROR(bring(0, kept.begin));
    KEEL_RETURN_IF_ERROR(bring(kept.begin + kept.count, range.count));
  }
  context_.to_host.store(context_.stage().traffic().to_host, std::memory_order_relaxed);
  return {};
}

Status DirectAlgorithm::deliver(uint64_t round) {
  if (!receive_.staged || receive_.bytes == 0 || receive_.buffer.device == nullptr) return {};
  if (receive_.buffer.host != nullptr) return {};  // see target()
  const uint32_t parts = request_.receive_parts(world_);
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t peer = parts == 1 && has_root(request_.collective) ? request_.root : part;
    const Piece piece = request_.receive_piece(rank_, peer, world_);
    if (is_in_place(peer)) continue;
    const Range range = range_of(piece, round);
    KEEL_RETURN_IF_ERROR(
        context_.stage().deliver(round, receive_.buffer, (piece.offset + range.begin) * element_,
                                 part * round_elements_ * element_, range.count * element_));
  }
  context_.to_device.store(context_.stage().traffic().to_device, std::memory_order_relaxed);
  return {};
}

char* DirectAlgorithm::target(uint64_t round, uint32_t part, const Piece& piece,
                              const Range& range) {
  // A rank reaches its buffer in host memory even where the peers cannot.
  if (receive_.buffer.host == nullptr) {
    const uint64_t in_window = part * round_elements_ + (range.begin - round * round_elements_);
    return context_.stage().out(round) + in_window * element_;
  }
  return receive_.buffer.host + (piece.offset + range.begin) * element_;
}

// ---- the other ranks' sides -----------------------------------------------------

Status DirectAlgorithm::source(uint32_t peer, uint64_t round, uint32_t part, const Piece& piece,
                               const Range& range, const char** out_data) {
  if (peer == rank_ && send_.buffer.host != nullptr) {
    *out_data = send_.buffer.host + (piece.offset + range.begin) * element_;
    return {};
  }
  const uint64_t in_window =
      (part * round_elements_ + range.begin - round * round_elements_) * element_;
  if (peer == rank_) {
    *out_data = context_.stage().in(round) + in_window;
    return {};
  }
  const OperationDescriptor& descriptor = context_.board().descriptor(peer, sequence_);
  uint64_t offset = (piece.offset + range.begin) * element_;
  if ((descriptor.flags & OperationDescriptor::kSendStaged) != 0)
    offset = context_.stage().in_offset(round) + in_window;
  return context_.resolve(peer, descriptor.send, descriptor.memory_epoch, offset,
                          range.count * element_, wait_context_, out_data);
}

Status DirectAlgorithm::shared_result(uint32_t peer, uint64_t round, const Range& range,
                                      const char** out_data) {
  const OperationDescriptor& descriptor = context_.board().descriptor(peer, sequence_);
  uint64_t offset = range.begin * element_;
  if ((descriptor.flags & OperationDescriptor::kReceiveStaged) != 0) {
    offset =
        context_.stage().out_offset(round) + (range.begin - round * round_elements_) * element_;
  }
  return context_.resolve(peer, descriptor.receive, descriptor.memory_epoch, offset,
                          range.count * element_, wait_context_, out_data);
}

// ---- rounds ---------------------------------------------------------------------

Status DirectAlgorithm::start(bool is_fetched) {
  if (context_.may_sum_on_device()) can_sum_pair_ = pair_reduction_.can_do();
  if (!send_.staged) return {};
  // If the device has reduced the last operation, the chunks will most likely not be needed.
  if (can_sum_pair_ && context_.sums_on_device) return {};
  make_plan();
  return fetch_first(is_fetched);
}

Status DirectAlgorithm::fetch_first(bool is_fetched) {
  has_fetched_ = true;
  round_elements_ = window_;
  if (is_fetched) return {};
  for (uint64_t round = 0; round < context_.stage().windows(); ++round) {
    KEEL_RETURN_IF_ERROR(fetch(round));
  }
  return {};
}

Status DirectAlgorithm::run() {
  // Use the local value for this rank: a remote process may have overwritten the value in shared
  // memory.
  const uint64_t own = request_.largest_piece();
  uint64_t largest = own;
  any_staged_ = send_.staged || receive_.staged;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    const OperationDescriptor& descriptor = context_.board().descriptor(rank, sequence_);
    any_staged_ = any_staged_ || (descriptor.flags & (OperationDescriptor::kSendStaged |
                                                      OperationDescriptor::kReceiveStaged)) != 0;
    const uint64_t theirs = descriptor.largest;
    largest = std::max(largest, theirs);
    // Only all_to_all_v has pieces unknown to the peers.
    if (theirs == own || request_.collective == KEEL_ALL_TO_ALL_V) continue;
    return failure(KEEL_RANK_FAILED, "{} posted a piece of {} elements, where all have {}",
                   context_.team().name(rank), theirs, own);
  }
  if (can_sum_pair_) {
    context_.sums_on_device = pair_reduction_.can_other_do();
    if (context_.sums_on_device) return pair_reduction_.run(has_fetched_);
  }
  if (any_staged_) make_plan();
  if (send_.staged && !has_fetched_) KEEL_RETURN_IF_ERROR(fetch_first(/*is_fetched=*/false));
  const ReduceScatterChunks& sums = context_.reduce_scatter_chunks;
  const bool is_streamed = !any_staged_ && shares_ && largest * element_ >= sums.streamed_bytes;
  round_elements_ = any_staged_               ? window_
                    : shares_ && !is_streamed ? sums.round_bytes / element_
                                              : largest;
  if (receive_.buffer.host != nullptr) {
    if (receive_.bytes >= kStreamedShares) gather_store_ = Store::kStreaming;
    if (is_streamed || (receive_.bytes >= kStreamedResult && !shares_)) store_ = Store::kStreaming;
  }
  rounds_ = round_elements_ == 0 ? 0 : (largest + round_elements_ - 1) / round_elements_;
  if (request_.collective == KEEL_ALL_TO_ALL_V) {
    for (uint32_t peer = 0; peer < world_; ++peer) {
      Piece piece;
      KEEL_RETURN_IF_ERROR(context_.read_piece(request_, peer, &piece));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  KEEL_RETURN_IF_ERROR(run_rounds());
  tell_exchange(begin);
  if (!send_.staged && send_.bytes != 0) context_.count_in_place(send_.bytes);
  if (!receive_.staged && receive_.bytes != 0) context_.count_in_place(receive_.bytes);
  return {};
}

void DirectAlgorithm::tell_exchange(std::chrono::steady_clock::time_point begin) {
  OperationPath way;
  way.rounds = rounds_;
  way.round_bytes = round_elements_ * element_;
  way.is_staged = way.is_planned = any_staged_;
  context_.tell_exchange(request_, send_, receive_, way, begin);
}

Status DirectAlgorithm::run_rounds() {
  const uint64_t windows = context_.stage().windows();
  const uint64_t own = request_.largest_piece();
  for (uint64_t round = 0; round < rounds_; ++round) {
    context_.yield_to_urgent();
    // Rounds beyond the rank's pieces, as many as the peers announce: without this check they would
    // not end if the peers never wait.
    if (round * round_elements_ >= own && wait_context_.deadline().passed()) {
      return failure(KEEL_TIMED_OUT, "the rounds of the other ranks did not end in time");
    }
    if (any_staged_) {
      if (send_.staged) KEEL_RETURN_IF_ERROR(context_.stage().await_fetched(round, wait_context_));
      // Ensures that all ranks have staged their part of the round, and have completed the round
      // before. Known already with host copies: for the first round from the descriptors, and for
      // reductions from the barrier after the reduction of the round before.
      const bool is_there = host_copies_ && (round == 0 || shares_);
      if (!is_there) KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
      if (round > 0 && !shares_) KEEL_RETURN_IF_ERROR(fetch(round - 1 + windows));
      if (receive_.staged)
        KEEL_RETURN_IF_ERROR(context_.stage().await_delivered(round, wait_context_));
    }
    if (shares_) {
      KEEL_RETURN_IF_ERROR(share_round(round));
    } else if (reduces(request_.collective)) {
      KEEL_RETURN_IF_ERROR(reduce_round(round));
    } else {
      KEEL_RETURN_IF_ERROR(copy_round(round));
    }
    KEEL_RETURN_IF_ERROR(deliver(round));
  }
  // A buffer must not change until all ranks have read it.
  context_.arrive();
  if (is_read()) KEEL_RETURN_IF_ERROR(context_.await(wait_context_));
  if (receive_.staged && receive_.buffer.device != nullptr) {
    for (uint64_t round = 0; round < windows; ++round) {
      KEEL_RETURN_IF_ERROR(context_.stage().await_delivered(round, wait_context_));
    }
  }
  return {};
}

Status DirectAlgorithm::copy_round(uint64_t round) {
  if (receive_.bytes == 0) return {};
  const uint32_t parts = request_.receive_parts(world_);
  const HostSpan span("host copy", [&](AccessList& accesses) {
    if (receive_.staged) return;
    accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
    if (!send_.staged) accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
  });
  // Each rank starts with its own data and goes on with the next rank, so the ranks do not all read
  // from the same rank at a time.
  for (uint32_t turn = 0; turn < world_; ++turn) {
    const uint32_t peer = (rank_ + turn) % world_;
    if (!reads_from(peer) || is_in_place(peer)) continue;
    Piece from;
    KEEL_RETURN_IF_ERROR(context_.read_piece(request_, peer, &from));
    const Piece to = request_.receive_piece(rank_, peer, world_);
    const Range range = range_of(to, round);
    if (range.count == 0) continue;
    char* const destination = target(round, parts == 1 ? 0 : peer, to, range);
    const uint64_t bytes = range.count * element_;
    const OperationDescriptor& descriptor = context_.board().descriptor(peer, sequence_);
    if ((descriptor.flags & OperationDescriptor::kSendAttached) != 0 &&
        !context_.team().is_here(peer)) {
      const uint64_t address = descriptor.send.address + (from.offset + range.begin) * element_;
      KEEL_RETURN_IF_ERROR(context_.read_attached(peer, address, bytes, destination));
      continue;
    }
    const char* data = nullptr;
    const uint32_t send_part = request_.send_parts(world_) == 1 ? 0 : rank_;
    KEEL_RETURN_IF_ERROR(source(peer, round, send_part, from, range, &data));
    KEEL_RETURN_IF_ERROR(copy_in_steps(destination, data, bytes, store_));
  }
  return {};
}

Status DirectAlgorithm::copy_in_steps(char* destination, const char* source, uint64_t bytes,
                                      Store store) {
  for (uint64_t done = 0; done < bytes; done += RankContext::kStepBytes) {
    if (done != 0) KEEL_RETURN_IF_ERROR(context_.between_steps());
    copy_bytes(destination + done, source + done, std::min(RankContext::kStepBytes, bytes - done),
               store);
  }
  return {};
}

Status DirectAlgorithm::reduce_round(uint64_t round) {
  const Piece to = request_.receive_piece(rank_, rank_, world_);
  const Range range = range_of(to, round);
  if (range.count == 0) return {};
  for (uint32_t peer = 0; peer < world_; ++peer) {
    const Piece from = request_.send_piece(peer, rank_);
    const char* data = nullptr;
    KEEL_RETURN_IF_ERROR(source(peer, round, rank_, from, range, &data));
    context_.sources[peer] = data;
    context_.factors[peer] = context_.published_factor(peer, request_, sequence_);
  }
  const HostSpan span("host reduce", [&](AccessList& accesses) {
    if (!receive_.staged) {
      accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
    }
    if (!send_.staged) accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
  });
  return context_.reduce_in_steps(request_, target(round, 0, to, range), range.count, store_);
}

Status DirectAlgorithm::share_round(uint64_t round) {
  const Piece whole = {0, request_.count};
  const Range window = range_of(whole, round);
  const HostSpan span("host reduce", [&](AccessList& accesses) {
    if (receive_.buffer.host != nullptr) {
      accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
    }
    if (send_.buffer.host != nullptr) {
      accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
    }
  });
  const auto share = [&](uint32_t peer) {
    const Range part = share_of(peer, window.count);
    return Range{window.begin + part.begin, part.count};
  };
  const Range own = share(rank_);
  if (own.count != 0) {
    for (uint32_t peer = 0; peer < world_; ++peer) {
      const char* data = nullptr;
      KEEL_RETURN_IF_ERROR(source(peer, round, 0, whole, own, &data));
      context_.sources[peer] = data;
      context_.factors[peer] = context_.published_factor(peer, request_, sequence_);
    }
    char* const sums = target(round, 0, whole, own);
    if (receive_.staged && receive_.buffer.host != nullptr) {
      // The peers read the chunk, since the buffer is out of reach.
      char* const shown = context_.stage().out(round) + (own.begin - window.begin) * element_;
      void* const destinations[] = {sums, shown};
      reduce(request_.dtype, request_.reduction, context_.sources, destinations, own.count,
             {context_.factors_of(request_), store_});
    } else {
      KEEL_RETURN_IF_ERROR(context_.reduce_in_steps(request_, sums, own.count, store_));
    }
  }
  KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
  // The chunks of all ranks have been read.
  if (any_staged_) KEEL_RETURN_IF_ERROR(fetch(round + context_.stage().windows()));
  if (request_.collective == KEEL_REDUCE && rank_ != request_.root) return {};
  for (uint32_t turn = 1; turn < world_; ++turn) {
    const uint32_t peer = (rank_ + turn) % world_;
    const Range part = share(peer);
    if (part.count == 0) continue;
    const char* data = nullptr;
    KEEL_RETURN_IF_ERROR(shared_result(peer, round, part, &data));
    KEEL_RETURN_IF_ERROR(
        copy_in_steps(target(round, 0, whole, part), data, part.count * element_, gather_store_));
  }
  return {};
}

}  // namespace keel
