#include "core/memory.h"

#include <algorithm>
#include <bit>

#include "core/device.h"
#include "core/log.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

namespace {

constexpr uint64_t kSmallestBlock = 512;

// Up to the next multiple of an eighth of its power of two; 0 when that overflows.
uint64_t rounded_size(uint64_t size) {
  if (size <= kSmallestBlock) return kSmallestBlock;
  const uint64_t step = std::max<uint64_t>(1, std::bit_floor(size) / 8);
  return size > UINT64_MAX - step ? 0 : (size + step - 1) / step * step;
}

bool is_done(std::vector<Ref<EventRecord>>& fences, WakeList& wake) {
  std::erase_if(fences, [&](const Ref<EventRecord>& fence) {
    return fence->query(wake).code() != KEEL_NOT_READY;
  });
  return fences.empty();
}

}  // namespace

Status Memory::alloc_native(keel_memory_kind kind, uint64_t size, Block* out_block) {
  const keel_memory_table* table = device_.memory_table();
  // Device and host addresses share one map. Where a chip gives pinned memory the
  // address of device memory, or the reverse, that block is put aside and another
  // asked for, so that a pointer names one allocation.
  std::vector<Block> clashing;
  Status status;
  while (true) {
    Block block{nullptr, size, kind, nullptr, {}};
    status =
        device_.check(table->alloc(device_.native(), kind, size, 0, &block.base), "memory.alloc");
    if (!status.ok()) break;
    if (block.base == nullptr) {
      status = failure(KEEL_INTERNAL, "{}: memory.alloc gave a NULL pointer", device_.name());
      break;
    }
    const auto start = reinterpret_cast<uintptr_t>(block.base);
    std::shared_lock lock(live_mutex_);
    const auto next = live_.lower_bound(start);
    const bool clash = (next != live_.end() && next->first < start + size) ||
                       (next != live_.begin() &&
                        std::prev(next)->first + std::prev(next)->second.block.size > start);
    lock.unlock();
    if (clash && clashing.size() < 8) {
      clashing.push_back(std::move(block));
      continue;
    }
    if (clash) {
      give_back(block);
      status = failure(KEEL_INTERNAL, "{}: memory.alloc gives addresses that are in use",
                       device_.name());
      break;
    }
    if (kind != KEEL_MEMORY_DEVICE) {
      block.host_alias = block.base;
    } else if (device_.claims(KEEL_CLAIM_HOST_ALIAS) &&
               KEEL_HAS(keel_memory_table, table, host_alias)) {
      status =
          device_.check(table->host_alias(device_.native(), block.base, size, &block.host_alias),
                        "memory.host_alias");
      if (!status.ok()) {
        give_back(block);
        break;
      }
    }
    *out_block = std::move(block);
    break;
  }
  for (const Block& block : clashing) give_back(block);
  return status;
}

bool Memory::take_cached(keel_memory_kind kind, uint64_t size, Block* out_block) {
  WakeList wake;
  bool found = false;
  {
    std::lock_guard lock(cache_mutex_);
    for (size_t i = cache_.size(); i-- > 0;) {  // the warmest first
      Block& block = cache_[i];
      if (block.kind != kind || block.size != size || !is_done(block.fences, wake)) continue;
      *out_block = std::move(block);
      cache_.erase(cache_.begin() + static_cast<std::ptrdiff_t>(i));
      found = true;
      break;
    }
  }
  advance_all(wake);
  return found;
}

Status Memory::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (size == 0) return failure(KEEL_INVALID_ARGUMENT, "size is 0");
  if (kind > KEEL_MEMORY_MANAGED) {
    return failure(KEEL_INVALID_ARGUMENT, "kind {} is no kind of memory", kind);
  }
  if ((kind == KEEL_MEMORY_PINNED && !device_.claims(KEEL_CLAIM_PINNED)) ||
      (kind == KEEL_MEMORY_MANAGED && !device_.claims(KEEL_CLAIM_MANAGED))) {
    return failure(KEEL_UNSUPPORTED, "{} has no {} memory", device_.name(),
                   kind == KEEL_MEMORY_PINNED ? "pinned" : "managed");
  }
  KEEL_RETURN_IF_ERROR(device_.open());
  KEEL_RETURN_IF_ERROR(device_.check_alive());
  const uint64_t rounded = rounded_size(size);
  const uint64_t limit = device_.info().max_alloc_bytes;
  if (rounded == 0 || (limit != 0 && size > limit)) {
    return failure(KEEL_OUT_OF_MEMORY, "{}: {} bytes, more than one allocation can have ({})",
                   device_.name(), size, limit);
  }
  const uint64_t wanted = limit == 0 ? rounded : std::min(rounded, limit);
  Block block;
  if (!take_cached(kind, wanted, &block)) {
    Status status = alloc_native(kind, wanted, &block);
    if (status.code() == KEEL_OUT_OF_MEMORY) {
      wait_for_cached();
      trim();
      status = alloc_native(kind, wanted, &block);
    }
    KEEL_RETURN_IF_ERROR(status);
  }
  *out_pointer = block.base;
  const auto address = reinterpret_cast<uintptr_t>(block.base);
  std::unique_lock lock(live_mutex_);
  live_.emplace(address, Live{std::move(block), size});
  return {};
}

Status Memory::free(void* pointer) {
  if (pointer == nullptr) return {};
  LiveMap::node_type node;
  {
    std::unique_lock lock(live_mutex_);
    node = live_.extract(reinterpret_cast<uintptr_t>(pointer));
  }
  if (node.empty()) {
    return failure(KEEL_INVALID_ARGUMENT, "pointer {} is not an allocation of {}", pointer,
                   device_.name());
  }
  Block block = std::move(node.mapped().block);
  Runtime::get().fence_streams(&block.fences);
  std::lock_guard lock(cache_mutex_);
  cache_.push_back(std::move(block));
  return {};
}

void Memory::wait_for_cached() {
  std::vector<Ref<EventRecord>> fences;
  {
    std::lock_guard lock(cache_mutex_);
    for (const Block& block : cache_) {
      fences.insert(fences.end(), block.fences.begin(), block.fences.end());
    }
  }
  for (const auto& fence : fences) {
    // Work behind a closed gate may itself wait for this allocation.
    if (fence->state() != EventRecord::State::kHeld) {
      (void)fence->wait(Runtime::get().default_deadline());
    }
  }
}

void Memory::trim() {
  std::vector<Block> idle;
  WakeList wake;
  {
    std::lock_guard lock(cache_mutex_);
    const auto first_idle = std::stable_partition(
        cache_.begin(), cache_.end(), [&](Block& block) { return !is_done(block.fences, wake); });
    idle.assign(std::make_move_iterator(first_idle), std::make_move_iterator(cache_.end()));
    cache_.erase(first_idle, cache_.end());
  }
  advance_all(wake);
  for (const Block& block : idle) give_back(block);
}

void Memory::give_back(const Block& block) {
  const Status status = device_.check(
      device_.memory_table()->free(device_.native(), block.kind, block.base), "memory.free");
  if (!status.ok()) log(KEEL_LOG_WARNING, "{}", status.text());
}

void Memory::release_all() {
  LiveMap live;
  {
    std::unique_lock lock(live_mutex_);
    live.swap(live_);
  }
  uint64_t bytes = 0;
  for (const auto& [address, allocation] : live) {
    bytes += allocation.requested;
    give_back(allocation.block);
  }
  if (bytes != 0) {
    log(KEEL_LOG_WARNING, "{}: {} allocations of {} bytes were never freed", device_.name(),
        live.size(), bytes);
  }
  std::vector<Block> cached;
  {
    std::lock_guard lock(cache_mutex_);
    cached.swap(cache_);
  }
  for (const Block& block : cached) give_back(block);
}

bool Memory::find(const void* pointer, Allocation* out_allocation) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(live_mutex_);
  auto next = live_.upper_bound(address);
  if (next == live_.begin()) return false;
  const auto& [start, live] = *--next;
  if (address - start >= live.requested) return false;
  *out_allocation = {live.block.base, live.requested, live.block.kind, live.block.host_alias};
  return true;
}

Status Memory::check_range(const void* pointer, uint64_t size, const char* what,
                           Allocation* out_allocation) const {
  if (pointer == nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", what);
  if (!find(pointer, out_allocation)) {
    return failure(KEEL_INVALID_ARGUMENT, "{} {} is not memory of {}", what, pointer,
                   device_.name());
  }
  const uint64_t offset =
      reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(out_allocation->base);
  if (size > out_allocation->size - offset) {
    return failure(KEEL_OUT_OF_RANGE,
                   "{} {}: {} bytes reach past its allocation of {} at offset {}", what, pointer,
                   size, out_allocation->size, offset);
  }
  return {};
}

}  // namespace keel
