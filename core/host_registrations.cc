// SPDX-License-Identifier: Apache-2.0
#include "core/host_registrations.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/mapped_memory.h"
#include "core/range_lookup_cache.h"

namespace keel {

namespace {

std::atomic<uint64_t> g_states{0};

// Ranges of the caller's memory with the same address on a device, valid while the device's
// registrations are in the remembered state.
thread_local constinit RangeLookupCache t_remembered;

// Returns the first range of |ranges| that ends after |begin|.
template <typename Ranges>
auto first_after(Ranges& ranges, uintptr_t begin) {
  auto range = ranges.upper_bound(begin);
  if (range != ranges.begin() && std::prev(range)->second.end > begin) --range;
  return range;
}

}  // namespace

void HostRegistrations::change() {
  state_.store(++g_states, std::memory_order_release);
}

HostRegistrations::Ranges HostRegistrations::gaps(const Ranges& ranges, uintptr_t begin,
                                                  uintptr_t end) {
  Ranges gaps;
  for (auto range = first_after(ranges, begin); range != ranges.end() && range->first < end;
       ++range) {
    if (range->first > begin) gaps.emplace(begin, Range{range->first, 0});
    begin = range->second.end;
  }
  if (begin < end) gaps.emplace(begin, Range{end, 0});
  return gaps;
}

void HostRegistrations::split(uintptr_t at) {
  const auto range = first_after(covered_, at);
  if (range == covered_.end() || range->first >= at) return;
  covered_.emplace_hint(std::next(range), at, range->second);
  range->second.end = at;
}

Status HostRegistrations::add(void* pointer, uint64_t size, const Pin& pin, const Unpin& unpin) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t end = begin + size;
  if (end < begin) {
    return failure(KEEL_INVALID_ARGUMENT, "size {} reaches past the end of the address space",
                   size);
  }
  std::lock_guard changing(changes_);
  // All memory comes first: once the plugin has pinned, nothing may fail.
  std::multimap<uintptr_t, uintptr_t> registration{{begin, end}};
  Ranges new_pinned;
  Ranges new_covered;
  {
    std::lock_guard lock(mutex_);
    split(begin);
    split(end);
    new_covered = gaps(covered_, begin, end);
    new_pinned = gaps(pinned_, begin, end);
  }
  for (auto& [at, range] : new_pinned) {
    void* const address = reinterpret_cast<void*>(at);
    void* device_pointer = nullptr;
    const Status status = pin(address, range.end - at, &device_pointer);
    if (!status.ok()) {
      for (const auto& [done, unused] : new_pinned) {
        if (done == at) break;
        unpin(reinterpret_cast<void*>(done)).ok();
      }
      return status;
    }
    range.same_address = device_pointer == address;
  }
  std::lock_guard lock(mutex_);
  registrations_.merge(registration);
  covered_.merge(new_covered);
  pinned_.merge(new_pinned);
  for (Ranges* const ranges : {&covered_, &pinned_}) {
    for (auto range = first_after(*ranges, begin); range != ranges->end() && range->first < end;
         ++range) {
      ++range->second.registrations;
    }
  }
  change();
  return {};
}

Status HostRegistrations::check_last(uintptr_t begin, const CheckUnused& check) const {
  std::vector<std::pair<uintptr_t, uintptr_t>> last;
  {
    std::lock_guard lock(mutex_);
    const auto [first, after] = registrations_.equal_range(begin);
    if (first == after) return {};
    const uintptr_t end = std::prev(after)->second;
    for (auto range = first_after(covered_, begin); range != covered_.end() && range->first < end;
         ++range) {
      if (range->second.registrations == 1) last.emplace_back(range->first, range->second.end);
    }
  }
  for (const auto& [from, to] : last) KEEL_RETURN_IF_ERROR(check(from, to));
  return {};
}

Status HostRegistrations::remove(void* pointer, const Unpin& unpin, const CheckUnused& check) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard changing(changes_);
  if (check != nullptr) KEEL_RETURN_IF_ERROR(check_last(begin, check));
  Ranges unused;
  {
    std::lock_guard lock(mutex_);
    const auto [first, last] = registrations_.equal_range(begin);
    if (first == last) {
      return failure(KEEL_INVALID_ARGUMENT, "no registration begins at {}", pointer);
    }
    const auto latest = std::prev(last);
    const uintptr_t end = latest->second;
    registrations_.erase(latest);
    const auto release = [&](Ranges& ranges, Ranges* out_unused) {
      for (auto range = first_after(ranges, begin); range != ranges.end() && range->first < end;) {
        const auto next = std::next(range);
        if (--range->second.registrations == 0) out_unused->insert(ranges.extract(range));
        range = next;
      }
    };
    Ranges uncovered;
    release(covered_, &uncovered);
    release(pinned_, &unused);
    change();
  }
  Status status;
  for (const auto& [at, range] : unused) {
    const Status unpinned = unpin(reinterpret_cast<void*>(at));
    if (status.ok()) status = unpinned;
  }
  return status;
}

void HostRegistrations::add_all() {
  std::lock_guard lock(mutex_);
  all_.fetch_add(1, std::memory_order_release);
  change();
}

Status HostRegistrations::remove_all(const CheckUnused& check) {
  std::lock_guard changing(changes_);
  const uint32_t count = all_.load(std::memory_order_relaxed);
  if (count == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "all memory of the process is not registered");
  }
  if (count == 1) KEEL_RETURN_IF_ERROR(check(0, UINTPTR_MAX));
  std::lock_guard lock(mutex_);
  all_.fetch_sub(1, std::memory_order_release);
  change();
  return {};
}

bool HostRegistrations::has_same_address(const void* pointer, uint64_t size) const {
  const uint64_t state = this->state();
  if (state == 0) return false;
  if (is_covered(pointer, size)) return true;
  return has_all() && is_mapped(pointer, size);
}

uint64_t HostRegistrations::state_of(const void* pointer, uint64_t size) const {
  return !has_all() || is_covered(pointer, size) ? state() : ++g_states;
}

bool HostRegistrations::is_covered(const void* pointer, uint64_t size) const {
  const uint64_t state = this->state();
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (t_remembered.hold(state, address, size)) return true;
  std::lock_guard lock(mutex_);
  // The ends of the registered memory around |address|, across adjacent ranges.
  uintptr_t begin = 0;
  uintptr_t end = UINTPTR_MAX;
  for (const Ranges* const ranges : {&covered_, &pinned_}) {
    auto range = first_after(*ranges, address);
    if (range == ranges->end() || range->first > address) return false;
    begin = std::max(begin, range->first);
    uintptr_t reached = range->first;
    for (; range != ranges->end() && range->first == reached; ++range) {
      if (reached > address && reached - address >= size) break;
      if (ranges == &pinned_ && !range->second.same_address) break;
      reached = range->second.end;
    }
    end = std::min(end, reached);
  }
  if (end <= address || end - address < size) return false;
  t_remembered.remember(state_.load(std::memory_order_relaxed), begin, end - begin);
  return true;
}

}  // namespace keel
