// SPDX-License-Identifier: Apache-2.0
#include "emulator/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace keel::emulator {
namespace {

uint64_t physical_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HostMemory::Result HostMemory::allocate(Kind kind, uint64_t size, void** out_pointer) {
  if (size == 0) return Result::kInvalid;
  std::shared_ptr<Storage> storage = size > physical_memory() ? nullptr : Storage::create(size);
  if (storage == nullptr) return Result::kOutOfMemory;
  void* const pointer = storage->data();
  if (size <= Memory::kPoisonedSize) std::memset(pointer, Memory::kPoison, size);
  const std::lock_guard lock(mutex_);
  if (!pin(pointer, size)) return Result::kOutOfMemory;
  blocks_.emplace(address_of(pointer), Block{size, kind, std::move(storage)});
  *out_pointer = pointer;
  return Result::kOk;
}

HostMemory::Result HostMemory::free(Kind kind, void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address_of(pointer));
  if (found == blocks_.end() || found->second.kind != kind) return Result::kAbsent;
  unpin(pointer);
  blocks_.erase(found);
  return Result::kOk;
}

HostMemory::Result HostMemory::add(void* pointer, uint64_t size) {
  std::string ignored;
  const DeviceRange* const range = DeviceRange::get(&ignored);
  if (pointer == nullptr || size == 0 ||
      (range != nullptr && range->touches(address_of(pointer), size))) {
    return Result::kInvalid;
  }
  const std::lock_guard lock(mutex_);
  const Address begin = address_of(pointer);
  const auto next = blocks_.lower_bound(begin);
  if ((next != blocks_.end() && next->first - begin < size) ||
      (next != blocks_.begin() && begin - std::prev(next)->first < std::prev(next)->second.size)) {
    return Result::kOverlaps;
  }
  if (!pin(pointer, size)) return Result::kInvalid;
  blocks_.emplace(begin, Block{size, Kind::kRegistered, nullptr});
  return Result::kOk;
}

HostMemory::Result HostMemory::remove(void* pointer) {
  return free(Kind::kRegistered, pointer);
}

HostMemory::Result HostMemory::find(const void* pointer, uint64_t size) const {
  const Address begin = address_of(pointer);
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(begin);
  if (next != blocks_.begin()) {
    const auto& [at, block] = *std::prev(next);
    const uint64_t offset = begin - at;
    if (offset < block.size) return size <= block.size - offset ? Result::kOk : Result::kOverlaps;
  }
  return next != blocks_.end() && next->first - begin < size ? Result::kOverlaps : Result::kAbsent;
}

void HostMemory::introduce(const std::shared_ptr<Device>& chip) {
  const std::lock_guard lock(mutex_);
  std::erase_if(chips_, [](const auto& known) { return known.expired(); });
  chips_.push_back(chip);
  for (const auto& [address, block] : blocks_) {
    // A new chip has no pinned memory, so blocks that do not overlap cannot be refused.
    (void)chip->memory().pin(reinterpret_cast<void*>(address), block.size);
  }
}

bool HostMemory::pin(void* pointer, uint64_t size) {
  for (const auto& weak : chips_) {
    const auto chip = weak.lock();
    if (chip == nullptr || chip->memory().pin(pointer, size).ok()) continue;
    for (const auto& before : chips_) {
      if (&before == &weak) return false;
      if (const auto taken = before.lock()) (void)taken->memory().unpin(pointer);
    }
  }
  return true;
}

void HostMemory::unpin(void* pointer) {
  for (const auto& weak : chips_) {
    if (const auto chip = weak.lock()) (void)chip->memory().unpin(pointer);
  }
}

}  // namespace keel::emulator
