// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/pair_sum.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "core/observer.h"

namespace keel {

uint64_t PairSum::window() const {
  const uint64_t element = request_.element();
  return DeviceSum::window_bytes(request_.count * element, context_.chunk_bytes()) / element;
}

bool PairSum::can_do() {
  const uint64_t bytes = request_.count * request_.element();
  if (request_.collective != KEEL_ALL_REDUCE || request_.reduction != KEEL_SUM ||
      bytes < DeviceSum::kLeastBytes) {
    return false;
  }
  if (has_leg()) {
    // Excludes the caller's own memory, merely reachable by the device.
    return send_.staged && receive_.staged &&
           context_.device_sum().prepare(request_.dtype, request_.count, window());
  }
  Device* const device = context_.team().device(1 - context_.rank());
  if (device == nullptr ||
      !DeviceSum::has_kernels(*device, request_.dtype, request_.count, window())) {
    return false;
  }
  const auto reaches = [&](const Side& side, HostHold& hold) {
    return hold.take(*device, context_.device(), side.buffer.device, side.buffer.host, bytes);
  };
  return reaches(send_, holds_[0]) && reaches(receive_, holds_[1]);
}

bool PairSum::can_other_do() const {
  const Post& post = context_.segment().post(1 - context_.rank(), sequence_);
  return (post.flags & Post::kSumsOnDevice) != 0;
}

Status PairSum::run(bool has_fetched) {
  const uint32_t in_flight = context_.may_give_way() ? DeviceSum::kFewWindows : DeviceSum::kWindows;
  const auto begin = std::chrono::steady_clock::now();
  if (has_leg()) {
    Status summed;
    try {
      summed = sum_windows(has_fetched, in_flight);
    } catch (const std::bad_alloc&) {
      summed = Status::no_memory();
    }
    // The second rank's memory returns to its caller as soon as the first rank's Act ends.
    if (!summed.ok()) context_.device_sum().settle();
    KEEL_RETURN_IF_ERROR(summed);
  }
  {
    const HostSpan span("device sum", [&](AccessList& accesses) {
      if (has_leg()) return;  // the enqueued work has reported its accesses
      accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
      accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
    });
    KEEL_RETURN_IF_ERROR(context_.meet(patience_));
  }
  tell_exchange(in_flight, begin);
  if (!has_leg()) context_.count_in_place(send_.bytes + receive_.bytes);
  return {};
}

Status PairSum::sum_windows(bool has_fetched, uint64_t in_flight) {
  // Waits for chunks staged before the ranks agreed on the device.
  for (uint64_t round = 0; has_fetched && round < context_.stage().windows(); ++round) {
    KEEL_RETURN_IF_ERROR(context_.stage().await_fetched(round, patience_));
  }
  ControlSegment& segment = context_.segment();
  const Post& post = segment.post(1 - context_.rank(), sequence_);
  const DeviceSum::Ends ends = {
      send_.buffer.device, receive_.buffer.device,
      reinterpret_cast<const char*>(post.send.address),  // NOLINT: within this process
      reinterpret_cast<char*>(post.receive.address)};    // NOLINT
  DeviceSum& sum = context_.device_sum();
  const auto await = [&](uint64_t round) {
    const Status over = sum.await(round, patience_, segment);
    return segment.failed() ? segment.failure_status() : over;
  };
  const uint64_t elements = window();
  const uint64_t rounds = (request_.count + elements - 1) / elements;
  for (uint64_t round = 0; round < rounds; ++round) {
    context_.give_way();
    if (round >= in_flight) KEEL_RETURN_IF_ERROR(await(round - in_flight));
    const uint64_t done = round * elements;
    KEEL_RETURN_IF_ERROR(sum.enqueue(round, request_.dtype,
                                     std::min(elements, request_.count - done),
                                     ends.at(done * request_.element())));
  }
  for (uint64_t left = std::min(rounds, in_flight); left > 0; --left) {
    KEEL_RETURN_IF_ERROR(await(rounds - left));
  }
  return {};
}

void PairSum::tell_exchange(uint32_t in_flight, std::chrono::steady_clock::time_point begin) {
  const uint64_t bytes = request_.count * request_.element();
  ExchangeWay way;
  way.round_bytes = window() * request_.element();
  way.rounds = (bytes + way.round_bytes - 1) / way.round_bytes;
  way.is_staged = way.is_planned = way.is_summed_on_device = true;
  Exchange& exchange = context_.exchange;
  context_.read_legs(sequence_, &exchange.legs);
  plan_device_sum({bytes, request_.element(), way.round_bytes}, exchange.legs,
                  has_leg() ? context_.rank() : 1 - context_.rank(), in_flight, &exchange.plan);
  context_.tell_exchange(request_, send_, receive_, way, begin);
}

}  // namespace keel
