#include "collectives/bridge/reach.h"

#include <algorithm>

#include "core/copy.h"
#include "core/staging.h"

namespace keel {

Status Patience::wait(const Ref<EventRecord>& record) const {
  constexpr int64_t kSliceNs = 20'000'000;
  while (true) {
    Status status = record->wait(Deadline::after(std::min(kSliceNs, deadline.remaining_ns())));
    if (status.code() != KEEL_TIMED_OUT || deadline.passed()) return status;
    if (cancelled.load(std::memory_order_relaxed)) {
      return failure(KEEL_ABORTED, "the communicator was aborted");
    }
  }
}

// ---- alias ----------------------------------------------------------------------

Status AliasReach::alias_of(const void* pointer, void** out_alias) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto base = reinterpret_cast<uintptr_t>(last_.base);
  if (last_.base == nullptr || address < base || address - base >= last_.size) {
    if (!device_.memory().find(pointer, &last_) || last_.host_alias == nullptr) {
      last_ = {};
      return failure(KEEL_INVALID_ARGUMENT, "{}: {} was freed while a collective used it",
                     device_.name(), pointer);
    }
  }
  *out_alias =
      static_cast<char*>(last_.host_alias) + (address - reinterpret_cast<uintptr_t>(last_.base));
  return {};
}

Status AliasReach::begin(const Ref<EventRecord>& ready, const Patience& patience) {
  last_ = {};  // an address may belong to another allocation by now
  return patience.wait(ready);
}

Status AliasReach::fetch(uint32_t slot, const void* source, uint64_t bytes) {
  if (fetched_.size() <= slot) fetched_.resize(slot + 1);
  void* alias = nullptr;
  KEEL_RETURN_IF_ERROR(alias_of(source, &alias));
  fetched_[slot] = alias;
  count(stats_.in_place, bytes);
  return {};
}

Status AliasReach::fetched(uint32_t slot, const Patience&, const void** out_data) {
  *out_data = fetched_[slot];
  return {};
}

Status AliasReach::target(uint32_t, void* destination, uint64_t, void** out_data) {
  return alias_of(destination, out_data);
}

Status AliasReach::deliver(uint32_t, void*, uint64_t bytes) {
  count(stats_.in_place, bytes);
  return {};
}

Status AliasReach::finish_slot(uint32_t, const Patience&) {
  return {};
}

// ---- staged ---------------------------------------------------------------------

Status StagedReach::create(Device& device, uint32_t slots, uint64_t slot_bytes,
                           std::unique_ptr<Reach>* out_reach) {
  std::unique_ptr<StagedReach> reach(new StagedReach(device));
  KEEL_RETURN_IF_ERROR(alloc_staging(device, slots * slot_bytes, &reach->staging_));
  for (uint32_t slot = 0; slot < slots; ++slot) {
    reach->slots_.push_back({static_cast<char*>(reach->staging_) + slot * slot_bytes, {}, {}});
  }
  KEEL_RETURN_IF_ERROR(device.lease_stream(&reach->to_host_));
  KEEL_RETURN_IF_ERROR(device.lease_stream(&reach->to_device_));
  *out_reach = std::move(reach);
  return {};
}

StagedReach::~StagedReach() {
  // Both may still have work in flight after a failure: the device reuses the streams
  // only when they are idle, and the pool the memory only when all streams are past it.
  if (to_host_) device_.return_stream(std::move(to_host_));
  if (to_device_) device_.return_stream(std::move(to_device_));
  if (staging_ != nullptr) device_.memory().free(staging_).ok();
}

Status StagedReach::begin(const Ref<EventRecord>& ready, const Patience&) {
  KEEL_RETURN_IF_ERROR(to_host_->wait(ready));
  return to_device_->wait(ready);
}

Status StagedReach::fetch(uint32_t slot, const void* source, uint64_t bytes) {
  Slot& into = slots_[slot];
  KEEL_RETURN_IF_ERROR(
      submit_copy(*to_host_, KEEL_COPY_DEVICE_TO_HOST, into.buffer, source, bytes));
  count(stats_.to_host, bytes);
  return to_host_->record(0, &into.fetched);
}

Status StagedReach::fetched(uint32_t slot, const Patience& patience, const void** out_data) {
  *out_data = slots_[slot].buffer;
  return patience.wait(slots_[slot].fetched);
}

Status StagedReach::target(uint32_t slot, void*, uint64_t, void** out_data) {
  // The rank's own contribution has been read by then, so its buffer serves both ways.
  *out_data = slots_[slot].buffer;
  return {};
}

Status StagedReach::deliver(uint32_t slot, void* destination, uint64_t bytes) {
  Slot& from = slots_[slot];
  KEEL_RETURN_IF_ERROR(
      submit_copy(*to_device_, KEEL_COPY_HOST_TO_DEVICE, destination, from.buffer, bytes));
  count(stats_.to_device, bytes);
  return to_device_->record(0, &from.delivered);
}

Status StagedReach::finish_slot(uint32_t slot, const Patience& patience) {
  Ref<EventRecord> delivered = std::move(slots_[slot].delivered);
  return delivered ? patience.wait(delivered) : Status();
}

}  // namespace keel
