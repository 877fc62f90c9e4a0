// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/pair_reduction.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "core/observer.h"

namespace keel {

uint64_t PairReduction::window() const {
  const uint64_t element = request_.element();
  return DeviceReduction::window_bytes(request_.count * element, context_.chunk_bytes()) / element;
}

bool PairReduction::can_do() {
  const uint64_t bytes = request_.count * request_.element();
  if (request_.collective != KEEL_ALL_REDUCE || request_.reduction != KEEL_SUM ||
      bytes < DeviceReduction::kLeastBytes) {
    return false;
  }
  if (has_link()) {
    // Excludes the caller's own memory, merely reachable by the device.
    return send_.staged && receive_.staged &&
           context_.device_reduction().prepare(request_.dtype, request_.count, window());
  }
  Device* const device = context_.team().device(1 - context_.rank());
  if (device == nullptr ||
      !DeviceReduction::has_kernels(*device, request_.dtype, request_.count, window())) {
    return false;
  }
  const auto reaches = [&](const Side& side, PinnedSegmentLease& hold) {
    return hold.take(*device, context_.device(), side.buffer.device, side.buffer.host, bytes);
  };
  return reaches(send_, holds_[0]) && reaches(receive_, holds_[1]);
}

bool PairReduction::can_other_do() const {
  const OperationDescriptor& descriptor =
      context_.board().descriptor(1 - context_.rank(), sequence_);
  return (descriptor.flags & OperationDescriptor::kSumsOnDevice) != 0;
}

Status PairReduction::run(bool has_fetched) {
  const uint32_t in_flight =
      context_.may_yield() ? DeviceReduction::kFewWindows : DeviceReduction::kWindows;
  const auto begin = std::chrono::steady_clock::now();
  if (has_link()) {
    Status summed;
    try {
      summed = sum_windows(has_fetched, in_flight);
    } catch (const std::bad_alloc&) {
      summed = Status::no_memory();
    }
    // The second rank's memory returns to its caller as soon as the first rank's Act ends.
    if (!summed.ok()) context_.device_reduction().settle();
    KEEL_RETURN_IF_ERROR(summed);
  }
  {
    const HostSpan span("device sum", [&](AccessList& accesses) {
      if (has_link()) return;  // the enqueued work has reported its accesses
      accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
      accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
    });
    KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
  }
  tell_exchange(in_flight, begin);
  if (!has_link()) context_.count_in_place(send_.bytes + receive_.bytes);
  return {};
}

Status PairReduction::sum_windows(bool has_fetched, uint64_t in_flight) {
  // Waits for chunks staged before the ranks agreed on the device.
  for (uint64_t round = 0; has_fetched && round < context_.stage().windows(); ++round) {
    KEEL_RETURN_IF_ERROR(context_.stage().await_fetched(round, wait_context_));
  }
  const OperationDescriptor& descriptor =
      context_.board().descriptor(1 - context_.rank(), sequence_);
  const DeviceReduction::Ends ends = {
      send_.buffer.device, receive_.buffer.device,
      reinterpret_cast<const char*>(descriptor.send.address),  // NOLINT: within this process
      reinterpret_cast<char*>(descriptor.receive.address)};    // NOLINT
  DeviceReduction& sum = context_.device_reduction();
  const auto await = [&](uint64_t round) {
    const Status over = sum.await(round, wait_context_, context_.failures());
    return context_.failures().failed() ? context_.failures().status() : over;
  };
  const uint64_t elements = window();
  const uint64_t rounds = (request_.count + elements - 1) / elements;
  for (uint64_t round = 0; round < rounds; ++round) {
    context_.yield_to_urgent();
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

void PairReduction::tell_exchange(uint32_t in_flight, std::chrono::steady_clock::time_point begin) {
  const uint64_t bytes = request_.count * request_.element();
  OperationPath way;
  way.round_bytes = window() * request_.element();
  way.rounds = (bytes + way.round_bytes - 1) / way.round_bytes;
  way.is_staged = way.is_planned = way.is_summed_on_device = true;
  OperationStatistics& exchange = context_.exchange;
  context_.read_links(sequence_, &exchange.links);
  plan_device_reduction({bytes, request_.element(), way.round_bytes}, exchange.links,
                        has_link() ? context_.rank() : 1 - context_.rank(), in_flight,
                        &exchange.plan);
  context_.tell_exchange(request_, send_, receive_, way, begin);
}

}  // namespace keel
