// SPDX-License-Identifier: Apache-2.0
#include "device_allocator.h"

#include <c10/util/SmallVector.h>
#include <keel/keel.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "devices.h"

namespace keel_torch::device {

namespace {

// Blocks up to this size are cached here, so that a small tensor costs no call of Keel.
constexpr size_t kStep = 256;
constexpr size_t kBuckets = 16;
// A bucket holds at most 16 MiB in all.
constexpr size_t kMostCached = (size_t{16} << 20) / (kStep * kBuckets) / kBuckets;

// One allocation; PyTorch's context of a data pointer.
struct Block {
  void* pointer = nullptr;
  keel_stream stream{};
  c10::DeviceIndex device = 0;
  size_t bucket = 0;  // in steps; 0: not cached
  c10::SmallVector<c10::Stream, 1> other_streams;
};

// Free small blocks of one device, each of which the device reuses in the order of its stream.
struct Cache {
  std::mutex mutex;
  std::array<std::vector<Block*>, kBuckets + 1> free;

  Block* take(size_t bucket, keel_stream stream) {
    const std::lock_guard lock(mutex);
    std::vector<Block*>& blocks = free[bucket];
    // The last few alone: with several streams, a search would take longer than Keel's allocator.
    for (size_t i = 0; i < 4 && i < blocks.size(); ++i) {
      Block*& found = blocks[blocks.size() - 1 - i];
      if (found->stream.id != stream.id) continue;
      Block* const block = found;
      found = blocks.back();
      blocks.pop_back();
      return block;
    }
    return nullptr;
  }
  bool give(Block* block) {
    const std::lock_guard lock(mutex);
    if (free[block->bucket].size() >= kMostCached) return false;
    free[block->bucket].push_back(block);
    return true;
  }
  void clear() {
    std::array<std::vector<Block*>, kBuckets + 1> taken;
    {
      const std::lock_guard lock(mutex);
      taken.swap(free);
    }
    for (const std::vector<Block*>& blocks : taken) {
      for (Block* const block : blocks) {
        (void)keel_free_on_stream(block->stream, block->pointer);
        delete block;
      }
    }
  }
};

// Never destroyed: tensors may outlive static objects.
Cache& cache_of(c10::DeviceIndex device) {
  static auto* const caches = new std::array<Cache, 16>;
  return (*caches)[device];
}

// Makes the release of |block| wait for the other streams that use the memory.
void wait_for_others(Block& block) {
  for (const c10::Stream& other : block.other_streams) {
    keel_event event;
    if (keel_event_create(0, &event) != KEEL_OK) continue;
    if (keel_event_record(event, handle(other)) == KEEL_OK) {
      (void)keel_stream_wait_event(block.stream, event);
    }
    (void)keel_event_destroy(event);
  }
  block.other_streams.clear();
}

void release(void* context) {
  auto* const block = static_cast<Block*>(context);
  if (is_forked()) return;  // the memory stays the parent's
  if (!block->other_streams.empty()) wait_for_others(*block);
  if (block->bucket != 0 && cache_of(block->device).give(block)) return;
  (void)keel_free_on_stream(block->stream, block->pointer);
  delete block;
}

keel_memory_stats stats_of(c10::DeviceIndex index) {
  keel_memory_stats stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
  check(keel_memory_stats_get(handle(index), &stats), "reading memory statistics");
  return stats;
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  // The functions that torch.accelerator calls.
  bool initialized() override { return is_initialized(); }
  void emptyCache(c10::MempoolId_t) override { empty_cache(); }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    record_stream(pointer, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const keel_memory_stats of_keel = stats_of(resolve(index));
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocation[kAll].current = static_cast<int64_t>(of_keel.live_blocks);
    stats.allocation[kAll].allocated = static_cast<int64_t>(of_keel.allocations);
    stats.allocated_bytes[kAll].current = static_cast<int64_t>(of_keel.allocated);
    stats.allocated_bytes[kAll].peak = static_cast<int64_t>(of_keel.allocated_peak);
    stats.reserved_bytes[kAll].current = static_cast<int64_t>(of_keel.reserved);
    stats.reserved_bytes[kAll].peak = static_cast<int64_t>(of_keel.reserved_peak);
    stats.requested_bytes[kAll].current = static_cast<int64_t>(of_keel.requested);
    stats.num_ooms = static_cast<int64_t>(of_keel.out_of_memory);
    stats.num_device_alloc = static_cast<int64_t>(of_keel.native_allocs);
    stats.num_device_free = static_cast<int64_t>(of_keel.native_frees);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}  // Keel keeps the sums
  void resetPeakStats(c10::DeviceIndex index) override {
    check(keel_memory_stats_reset_peaks(handle(resolve(index))), "resetting memory statistics");
  }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current();
    const c10::Device device(kType, index);
    const keel_stream stream = stream_of(index);
    if (bytes == 0) return {nullptr, device};
    const size_t steps = (bytes + kStep - 1) / kStep;
    const size_t bucket = steps <= kBuckets ? steps : 0;
    if (bucket != 0) {
      if (Block* const block = cache_of(index).take(bucket, stream)) {
        return {block->pointer, block, &release, device};
      }
    }
    auto block = std::make_unique<Block>();
    block->stream = stream;
    block->device = index;
    block->bucket = bucket;
    const size_t size = bucket == 0 ? bytes : bucket * kStep;
    keel_status status = keel_alloc_on_stream(stream, size, &block->pointer);
    if (status == KEEL_OUT_OF_MEMORY) {
      empty_cache();
      status = keel_alloc_on_stream(stream, size, &block->pointer);
    }
    check(status, "allocating a tensor's memory");
    return {block->pointer, block.release(), &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    const c10::DeviceIndex index = current();
    check(keel_copy(stream_of(index), handle(index), destination, handle(index), source, bytes),
          "copying memory");
  }
};

// Addresses of pinned blocks, with their sizes.
struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, size_t> blocks;
};
Pinned& pinned() {
  static auto* const blocks = new Pinned;
  return *blocks;
}

struct PinnedBlock {
  keel_device device{};
  void* pointer = nullptr;
};

void release_pinned(void* context) {
  auto* const block = static_cast<PinnedBlock*>(context);
  {
    const std::lock_guard lock(pinned().mutex);
    pinned().blocks.erase(reinterpret_cast<uintptr_t>(block->pointer));
  }
  if (!is_forked()) (void)keel_free(block->device, block->pointer);
  delete block;
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<PinnedBlock>();
    block->device = handle(current());
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    check(keel_alloc(block->device, KEEL_MEMORY_PINNED, bytes, &block->pointer),
          "allocating pinned memory");
    {
      const std::lock_guard lock(pinned().mutex);
      pinned().blocks[reinterpret_cast<uintptr_t>(block->pointer)] = bytes;
    }
    return {block->pointer, block.release(), &release_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

}  // namespace

c10::DeviceAllocator* device_allocator() {
  static auto* const allocator = new DeviceAllocator;
  return allocator;
}

void record_stream(const c10::DataPtr& pointer, const c10::Stream& stream) {
  if (pointer.get_deleter() != &release) return;
  auto* const block = static_cast<Block*>(pointer.get_context());
  if (block == nullptr || handle(stream).id == block->stream.id) return;
  const std::lock_guard lock(cache_of(block->device).mutex);
  for (const c10::Stream& other : block->other_streams) {
    if (other == stream) return;
  }
  block->other_streams.push_back(stream);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceIndex index = storage.device().index();
  const c10::DeviceIndex former = current();
  set_current(index);  // the device on which the allocator allocates
  c10::DataPtr memory;
  try {
    memory = device_allocator()->allocate(bytes);
    const size_t kept = std::min<size_t>(bytes, storage.nbytes());
    if (kept != 0) {
      check(keel_copy(stream_of(index), handle(index), memory.get(), handle(index), storage.data(),
                      kept),
            "resizing a tensor");
    }
  } catch (...) {
    set_current(former);
    throw;
  }
  set_current(former);
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

void empty_cache() {
  for (c10::DeviceIndex i = 0; i < count(); ++i) {
    cache_of(i).clear();
    (void)keel_memory_trim(handle(i));
  }
}

c10::Allocator* pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return allocator;
}

bool is_pinned(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard lock(pinned().mutex);
  auto next = pinned().blocks.upper_bound(address);
  if (next == pinned().blocks.begin()) return false;
  --next;
  return address < next->first + next->second;
}

}  // namespace keel_torch::device
