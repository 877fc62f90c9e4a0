// SPDX-License-Identifier: Apache-2.0
#include "collectives/transfer_ranges.h"

#include <algorithm>
#include <iterator>

namespace keel {

namespace {

uintptr_t begin_of(const Transfer& transfer) {
  return reinterpret_cast<uintptr_t>(transfer.sends ? transfer.source : transfer.destination);
}

uintptr_t end_of(const Transfer& transfer) {
  return begin_of(transfer) + transfer.bytes();
}

std::string describe(const Transfer& transfer) {
  return fmt::format("{} of {} {} {} rank {}", transfer.sends ? "send" : "receive", transfer.count,
                     element_name(transfer.dtype), transfer.sends ? "to" : "from", transfer.peer);
}

}  // namespace

Status check_apart(const Transfer& one, const Transfer& other) {
  if (one.sends && other.sends) return {};
  if (one.bytes() == 0 || other.bytes() == 0) return {};
  if (end_of(one) <= begin_of(other) || end_of(other) <= begin_of(one)) return {};
  return failure(KEEL_INVALID_ARGUMENT, "the {} overlaps the {} of the same group", describe(other),
                 describe(one));
}

void TransferRanges::Union::add(uintptr_t begin, uintptr_t end) {
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin() && std::prev(next)->second >= begin) --next;
  while (next != ends_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = ends_.erase(next);
  }
  ends_.emplace_hint(next, begin, end);
}

bool TransferRanges::Union::overlaps(uintptr_t begin, uintptr_t end) const {
  // Among the ranges with a begin before |end|, the last also has the largest end.
  const auto next = ends_.lower_bound(end);
  return next != ends_.begin() && std::prev(next)->second > begin;
}

Status TransferRanges::add(const std::vector<Transfer>& earlier,
                           const std::vector<Transfer>& added) {
  for (const Transfer& transfer : added) {
    const uintptr_t begin = begin_of(transfer);
    const uintptr_t end = end_of(transfer);
    if (begin == end) continue;
    const bool is_apart =
        !received_.overlaps(begin, end) && (transfer.sends || !sent_.overlaps(begin, end));
    if (is_apart) continue;
    for (const Transfer& other : earlier) KEEL_RETURN_IF_ERROR(check_apart(other, transfer));
  }
  for (const Transfer& transfer : added) {
    if (transfer.bytes() == 0) continue;
    (transfer.sends ? sent_ : received_).add(begin_of(transfer), end_of(transfer));
  }
  return {};
}

}  // namespace keel
