// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/device.h"
#include "core/epoch.h"
#include "core/host_callbacks.h"
#include "core/log.h"
#include "core/observer.h"
#include "core/passthrough_allocator.h"
#include "core/pinned_segment_cache.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

namespace {

constexpr uint64_t kGranule = 512;
constexpr uint64_t kMiB = 1 << 20;
// The largest small and medium blocks; docs/decisions/007 explains the choice.
constexpr uint64_t kSmallLimit = kMiB;
constexpr uint64_t kMediumLimit = 64 * kMiB;
constexpr uint64_t kSmallSegment = 2 * kMiB;
// A block may leave 1/8 of its own size unused in a huge segment.
constexpr uint64_t kHugeWaste = 8;
// Limits of a request before it allocates new memory: free blocks examined, and blocks whose
// streams are polled.
constexpr int kCandidates = 16;
constexpr int kPolls = 4;

std::atomic<uint64_t> g_next_memory_id{4};
constexpr uint64_t kKindBits = 3;

char* alias_of(const MemoryBlock& block) {
  const MemorySegment& segment = *block.segment;
  return segment.host_alias == nullptr ? nullptr : segment.host_alias + (block.base - segment.base);
}

// Caches nothing if the thread has made no call yet or memory has run out.
void remember(uint64_t memory, const MemoryBlock& block, const void* pointer) noexcept {
  epoch::EpochRecord* thread = epoch::registered();
  if (thread == nullptr) return;
  BlockLookupCache*& cache = thread->lookup_cache;
  if (cache == &BlockLookupCache::nothing()) {
    BlockLookupCache* own = new (std::nothrow) BlockLookupCache;
    if (own == nullptr) return;
    cache = own;
  }
  cache->at(pointer) = {memory | block.segment->kind,
                        block.generation.load(std::memory_order_relaxed),
                        &block,
                        block.base,
                        block.base + block.requested,
                        block.requested,
                        alias_of(block)};
}

// Advances the streams found ready after every lock is released, however the call ends.
class WakeAtEnd {
 public:
  WakeAtEnd() = default;
  ~WakeAtEnd() {
    try {
      advance_all(list_);
    } catch (const std::exception& error) {
      log(KEEL_LOG_ERROR, "streams may be late: {}", error.what());
    }
  }
  WakeAtEnd(const WakeAtEnd&) = delete;
  WakeAtEnd& operator=(const WakeAtEnd&) = delete;

  WakeList& operator*() { return list_; }

 private:
  WakeList list_;
};

}  // namespace

Memory::Memory(Device& device)
    : device_(device),
      id_(g_next_memory_id.fetch_add(4, std::memory_order_relaxed)),
      store_(std::max<uint64_t>(kGranule, device.info().alignment)) {}

// ---- allocation -------------------------------------------------------------------

Status Memory::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  KEEL_RETURN_IF_ERROR(allocate(kind, size, nullptr, out_pointer));
  tell_handed_out(kind, *out_pointer, size, nullptr);
  tell_observers();
  return {};
}

Status Memory::alloc(Stream& stream, uint64_t size, void** out_pointer) {
  KEEL_RETURN_IF_ERROR(allocate(KEEL_MEMORY_DEVICE, size, &stream, out_pointer));
  tell_handed_out(KEEL_MEMORY_DEVICE, *out_pointer, size, &stream);
  tell_observers();
  return {};
}

void Memory::tell_handed_out(keel_memory_kind kind, const void* pointer, uint64_t size,
                             Stream* stream) const {
  observers::tell([&](Observer& observer) {
    // Managed memory belongs to the device and the host.
    if (kind != KEEL_MEMORY_PINNED) observer.memory_handed_out(&device_, pointer, size, stream);
    if (kind != KEEL_MEMORY_DEVICE) observer.memory_handed_out(nullptr, pointer, size, stream);
  });
}

void Memory::tell_observers() const {
  if (!observers::active()) [[likely]] {
    return;
  }
  uint64_t allocated = 0;
  {
    std::lock_guard lock(mutex_);
    allocated = allocated_;
  }
  observers::tell([&](Observer& observer) { observer.memory_changed(device_, allocated); });
}

Status Memory::make_request(keel_memory_kind kind, uint64_t size, Stream* stream,
                            Request* out_request) const {
  if (kind > KEEL_MEMORY_MANAGED) {
    return failure(KEEL_INVALID_ARGUMENT, "kind {} is no kind of memory", kind);
  }
  if ((kind == KEEL_MEMORY_PINNED && !device_.has(KEEL_CAPABILITY_PINNED)) ||
      (kind == KEEL_MEMORY_MANAGED && !device_.has(KEEL_CAPABILITY_MANAGED))) {
    return failure(KEEL_UNSUPPORTED, "{} has no {} memory", device_.name(),
                   kind == KEEL_MEMORY_PINNED ? "pinned" : "managed");
  }
  const uint64_t limit = device_.info().max_alloc_bytes;
  const uint64_t granule = store_.granule();
  if (size > UINT64_MAX - granule || (limit != 0 && size > limit)) {
    return failure(KEEL_OUT_OF_MEMORY, "{}: {} bytes, more than one allocation can have ({})",
                   device_.name(), size, limit);
  }
  if (passthrough_allocator::enabled()) {
    *out_request = {kind, size, size, SizeClass::kHuge, stream};
    return {};
  }
  uint64_t block = (size + granule - 1) & ~(granule - 1);
  if (limit != 0) block = std::min(block, limit);
  const SizeClass size_class = block <= kSmallLimit    ? SizeClass::kSmall
                               : block <= kMediumLimit ? SizeClass::kMedium
                                                       : SizeClass::kHuge;
  *out_request = {kind, size, block, size_class, stream};
  return {};
}

Status Memory::allocate(keel_memory_kind kind, uint64_t size, Stream* stream, void** out_pointer) {
  Request request;
  KEEL_RETURN_IF_ERROR(make_request(kind, size, stream, &request));
  KEEL_RETURN_IF_ERROR(device_.open());
  KEEL_RETURN_IF_ERROR(stream == nullptr ? device_.check_alive() : stream->status());
  if (size == 0) {
    *out_pointer = nullptr;
    return {};
  }
  uint64_t segment = 0;
  std::vector<MemorySegment> idle;
  {
    WakeAtEnd wake;
    std::lock_guard lock(mutex_);
    if (take_cached(request, *wake, out_pointer)) return {};
    segment = segment_size(request);
    // Before the reserved total exceeds its peak, idle segments return to the plugin: sizes that
    // never recur would pile up otherwise. A program in a steady state never gets here.
    const uint64_t after = store_.reserved() + segment;
    if (passthrough_allocator::enabled()) {
      idle = remove_idle(UINT64_MAX, *wake);
    } else if (after > reserved_peak_) {
      idle = remove_idle(after - reserved_peak_, *wake);
    }
  }
  give_back(idle);
  Status status = allocate_native(request, segment, out_pointer);
  if (status.code() == KEEL_OUT_OF_MEMORY) status = make_room(request, out_pointer);
  return status;
}

bool Memory::take_cached(const Request& request, WakeList& wake, void** out_pointer) {
  if (passthrough_allocator::enabled()) return false;
  store_.prepare_split();
  MemoryBlock* const block = find_cached(request, wake);
  if (block == nullptr) return false;
  store_.take(*block, request.block);
  *out_pointer = hand_out(*block, request);
  ++cache_hits_;
  return true;
}

void* Memory::hand_out(MemoryBlock& block, const Request& request) {
  std::erase_if(block.points,
                [](const StreamPoint& point) { return point.timeline->is_done(point.position); });
  block.waits_for_all = false;
  block.requested = request.size;
  block.stream = request.stream == nullptr ? 0 : request.stream->timeline()->id();
  block.generation.fetch_add(1, std::memory_order_release);
  allocated_ += block.size;
  requested_ += request.size;
  allocated_peak_ = std::max(allocated_peak_, allocated_);
  ++live_blocks_;
  ++allocations_;
  remember(id_, block, block.base);
  return block.base;
}

bool Memory::is_usable(const MemoryBlock& block, Stream* stream) {
  if (block.waits_for_all) {
    bool any_busy = false;
    Timeline::for_each_busy([&](const Timeline&) { any_busy = true; });
    if (any_busy) return false;
  }
  Timeline* const own = stream == nullptr ? nullptr : stream->timeline().get();
  return std::all_of(block.points.begin(), block.points.end(), [&](const StreamPoint& point) {
    return point.timeline->is_done(point.position) || point.timeline.get() == own ||
           (own != nullptr && own->is_behind(point.timeline->id(), point.position));
  });
}

MemoryBlock* Memory::find_cached(const Request& request, WakeList& wake) {
  const FreeBins& bins = store_.bins(request.kind, request.size_class);
  store_.join_for(request.size_class, request.block);
  int polls = 0;
  const auto search = [&]() -> MemoryBlock* {
    MemoryBlock* block = bins.best_fit(request.block);
    for (int i = 0; i < kCandidates && block != nullptr; ++i, block = bins.next(*block)) {
      if (request.size_class == SizeClass::kHuge &&
          block->size - request.block > request.block / kHugeWaste) {
        return nullptr;
      }
      if (is_usable(*block, request.stream)) return block;
      if (polls++ >= kPolls) continue;
      for (const StreamPoint& point : block->points) {
        point.timeline->poll(point.position, /*may_fence=*/false, wake);
      }
      if (is_usable(*block, request.stream)) return block;
    }
    return nullptr;
  };
  if (MemoryBlock* const block = search()) return block;
  store_.join_recent();
  if (MemoryBlock* const block = search()) return block;
  return join_cached(request, wake);
}

MemoryBlock* Memory::join_cached(const Request& request, WakeList& wake) {
  bool any_points = false;
  std::vector<StreamPoint> wanted;
  store_.for_each_block([&](const MemoryBlock& block) {
    if (!block.is_free() || block.segment->kind != request.kind ||
        block.segment->size_class != request.size_class || !block.has_points()) {
      return;
    }
    any_points = true;
    if (!is_usable(block, request.stream)) gather_points(block, &wanted);
  });
  // Neighbours without points are joined already.
  if (!any_points) return nullptr;
  poll_all(wanted, wake);
  return store_.join_run(
      request.kind, request.size_class, request.block,
      [&](const MemoryBlock& block) { return is_usable(block, request.stream); });
}

void Memory::gather_points(const MemoryBlock& block, std::vector<StreamPoint>* points) {
  for (const StreamPoint& point : block.points) {
    if (point.timeline->is_done(point.position)) continue;
    const auto known = std::find_if(points->begin(), points->end(), [&](const StreamPoint& other) {
      return other.timeline == point.timeline;
    });
    if (known == points->end()) {
      points->push_back(point);
    } else {
      known->position = std::max(known->position, point.position);
    }
  }
}

void Memory::poll_all(const std::vector<StreamPoint>& points, WakeList& wake) {
  // The memory of these streams is wanted: each may record an event from now on, for later polls.
  for (const StreamPoint& point : points) {
    point.timeline->poll(point.position, /*may_fence=*/true, wake);
  }
}

uint64_t Memory::segment_size(const Request& request) const {
  if (passthrough_allocator::enabled()) return request.block;
  uint64_t size = request.block;
  if (request.size_class == SizeClass::kSmall) size = std::max(size, kSmallSegment);
  if (request.size_class == SizeClass::kMedium) {
    // Medium segments grow with the reserved total, so that they are few and blocks find
    // neighbours, and only 1/16 of the total is allocated ahead of need.
    size = std::max(size, std::min(store_.reserved() / 16, kMediumLimit));
  }
  return std::max(size, (size + kSmallSegment - 1) & ~(kSmallSegment - 1));  // no overflow
}

Status Memory::allocate_native(const Request& request, uint64_t segment_size, void** out_pointer) {
  const uint64_t limit = device_.info().max_alloc_bytes;
  if (limit != 0) segment_size = std::min(segment_size, limit);
  Status status = allocate_segment(request, segment_size, out_pointer);
  if (status.code() == KEEL_OUT_OF_MEMORY && segment_size > request.block) {
    status = allocate_segment(request, request.block, out_pointer);
  }
  return status;
}

Status Memory::allocate_segment(const Request& request, uint64_t segment_size, void** out_pointer) {
  const keel_memory_table* table = device_.memory_table();
  // Device and host addresses share one map. If a chip gives pinned memory the address of device
  // memory, or the reverse, the segment is put aside and a new segment allocated, so that each
  // pointer names a single allocation.
  struct Aside {
    Memory& memory;
    std::vector<MemorySegment> segments;
    ~Aside() {
      for (const MemorySegment& segment : segments) memory.give_back(segment);
    }
  } aside{*this, {}};
  while (true) {
    aside.segments.reserve(aside.segments.size() + 1);  // nothing may throw after the allocation
    void* base = nullptr;
    KEEL_RETURN_IF_ERROR(device_.check(
        table->alloc(device_.native(), request.kind, segment_size, 0, &base), "memory.alloc"));
    if (base == nullptr) {
      return failure(KEEL_INTERNAL, "{}: memory.alloc gave a NULL pointer", device_.name());
    }
    aside.segments.push_back(
        {static_cast<char*>(base), segment_size, request.kind, nullptr, request.size_class});
    MemorySegment& segment = aside.segments.back();
    if (request.kind != KEEL_MEMORY_DEVICE) {
      segment.host_alias = segment.base;
    } else if (device_.has(KEEL_CAPABILITY_HOST_ALIAS) &&
               KEEL_HAS(keel_memory_table, table, host_alias)) {
      void* alias = nullptr;
      KEEL_RETURN_IF_ERROR(device_.check(
          table->host_alias(device_.native(), base, segment_size, &alias), "memory.host_alias"));
      segment.host_alias = static_cast<char*>(alias);
    }
    std::lock_guard lock(mutex_);
    ++native_allocs_;
    MemoryBlock* const block = store_.add_segment(segment);
    if (block != nullptr) {
      aside.segments.pop_back();
      reserved_peak_ = std::max(reserved_peak_, store_.reserved());
      store_.take(*block, request.block);
      *out_pointer = hand_out(*block, request);
      return {};
    }
    if (aside.segments.size() == 8) {
      return failure(KEEL_INTERNAL, "{}: memory.alloc gives addresses that are in use",
                     device_.name());
    }
  }
}

// ---- out of memory ----------------------------------------------------------------

Status Memory::make_room(const Request& request, void** out_pointer) {
  {
    std::lock_guard lock(mutex_);
    ++out_of_memory_;
  }
  trim();
  Status status = allocate_native(request, request.block, out_pointer);
  if (status.code() != KEEL_OUT_OF_MEMORY) return status;
  // A callback that waits would delay all later ones, and the awaited work may depend on them.
  if (!HostCallbacks::is_calling()) wait_for_cached();
  if (insiders::are_cut_off()) return insiders::cut_off();
  {
    WakeAtEnd wake;
    std::lock_guard lock(mutex_);
    if (take_cached(request, *wake, out_pointer)) return {};
  }
  trim();
  status = allocate_native(request, request.block, out_pointer);
  return status.code() == KEEL_OUT_OF_MEMORY ? out_of_memory(request, status) : status;
}

void Memory::wait_for_cached() {
  std::vector<StreamPoint> wanted;
  {
    std::lock_guard lock(mutex_);
    store_.for_each_block([&](const MemoryBlock& block) {
      if (block.is_free()) gather_points(block, &wanted);
    });
  }
  const Deadline deadline = Runtime::get().default_deadline();
  for (const StreamPoint& point : wanted) {
    const Ref<Stream> stream = point.timeline->stream();
    Ref<EventRecord> fence;
    if (!stream || !stream->fence(&fence).ok()) continue;
    // Work behind a closed gate may itself wait for this allocation.
    if (fence->state() != EventRecord::State::kHeld) (void)fence->wait(deadline);
  }
}

Status Memory::out_of_memory(const Request& request, const Status& cause) const {
  std::lock_guard lock(mutex_);
  return failure(KEEL_OUT_OF_MEMORY,
                 "{}: out of memory: {} bytes asked for; {} bytes are allocated in {} blocks, "
                 "{} reserved from the plugin, of which none that would help is idle: {}",
                 device_.name(), request.size, allocated_, live_blocks_, store_.reserved(),
                 cause.text());
}

std::vector<MemorySegment> Memory::remove_idle(uint64_t bytes, WakeList& wake) {
  std::vector<StreamPoint> wanted;
  store_.for_each_block([&](const MemoryBlock& block) {
    if (block.is_free()) gather_points(block, &wanted);
  });
  poll_all(wanted, wake);
  std::vector<MemorySegment> idle = store_.remove_idle(
      bytes, [&](const MemoryBlock& block) { return is_usable(block, nullptr); });
  native_frees_ += idle.size();
  return idle;
}

void Memory::trim() {
  std::vector<MemorySegment> idle;
  {
    WakeAtEnd wake;
    std::lock_guard lock(mutex_);
    idle = remove_idle(UINT64_MAX, *wake);
  }
  give_back(idle);
}

void Memory::give_back(const std::vector<MemorySegment>& segments) {
  for (const MemorySegment& segment : segments) give_back(segment);
}

void Memory::give_back(const MemorySegment& segment) {
  if (segment.host_alias != nullptr) PinnedSegmentCache::get().forget(segment.host_alias);
  const Status status = device_.check(
      device_.memory_table()->free(device_.native(), segment.kind, segment.base), "memory.free");
  if (!status.ok()) log(KEEL_LOG_WARNING, "{}", status.text());
}

void Memory::release_all() {
  std::vector<MemorySegment> segments;
  {
    std::lock_guard lock(mutex_);
    if (live_blocks_ != 0) {
      log(KEEL_LOG_WARNING, "{}: {} allocations of {} bytes were never freed", device_.name(),
          live_blocks_, requested_);
    }
    segments = store_.remove_all();
    native_frees_ += segments.size();
    allocated_ = requested_ = live_blocks_ = 0;
  }
  give_back(segments);
}

// ---- free -------------------------------------------------------------------------

void Memory::add_point(MemoryBlock& block, Timeline& timeline, uint64_t position) {
  for (StreamPoint& point : block.points) {
    if (point.timeline.get() == &timeline) {
      point.position = std::max(point.position, position);
      return;
    }
  }
  try {
    block.points.push_back({Ref<Timeline>(&timeline), position});
  } catch (const std::bad_alloc&) {
    block.waits_for_all = true;
  }
}

Status Memory::free(void* pointer) {
  KEEL_RETURN_IF_ERROR(release(pointer, nullptr));
  tell_observers();
  return {};
}

Status Memory::free(Stream& stream, void* pointer) {
  KEEL_RETURN_IF_ERROR(release(pointer, &stream));
  tell_observers();
  return {};
}

Status Memory::release(void* pointer, Stream* stream) {
  if (pointer == nullptr) return {};
  std::lock_guard lock(mutex_);
  const CachedBlock& known = epoch::lookup_cache().at(pointer);
  MemoryBlock* block = nullptr;
  if ((known.memory & ~kKindBits) == id_ && known.base == pointer &&
      known.block->generation.load(std::memory_order_relaxed) == known.generation) {
    block = const_cast<MemoryBlock*>(known.block);
  } else {
    block = store_.find(pointer);
  }
  if (block == nullptr || block->is_free() || block->base != pointer) {
    return failure(KEEL_INVALID_ARGUMENT, "pointer {} is not an allocation of {}", pointer,
                   device_.name());
  }
  if (!block->points.empty()) {
    std::erase_if(block->points,
                  [](const StreamPoint& point) { return point.timeline->is_done(point.position); });
  }
  if (stream != nullptr && !stream->is_held_or_failed()) {
    Timeline& timeline = *stream->timeline();
    const uint64_t position = timeline.enqueued();
    if (!timeline.is_done(position)) add_point(*block, timeline, position);
  } else {
    Timeline::for_each_busy([&](Timeline& timeline) {
      const uint64_t position = timeline.enqueued();
      if (!timeline.is_done(position)) add_point(*block, timeline, position);
    });
  }
  allocated_ -= block->size;
  requested_ -= block->requested;
  --live_blocks_;
  block->requested = 0;
  block->generation.fetch_add(1, std::memory_order_release);
  store_.give(*block);
  return {};
}

// ---- look-ups ---------------------------------------------------------------------

bool Memory::find(const void* pointer, Allocation* out_allocation) const {
  const CachedBlock& known = epoch::lookup_cache().at(pointer);
  if ((known.memory & ~kKindBits) == id_ &&
      reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(known.base) < known.size &&
      known.block->generation.load(std::memory_order_acquire) == known.generation) [[likely]] {
    const auto kind = static_cast<keel_memory_kind>(known.memory & kKindBits);
    *out_allocation = {known.base, known.size, kind, known.host_alias};
    return true;
  }
  return find_anew(pointer, out_allocation);
}

bool Memory::find_anew(const void* pointer, Allocation* out_allocation) const {
  std::lock_guard lock(mutex_);
  const MemoryBlock* const block = store_.find(pointer);
  if (block == nullptr ||
      static_cast<uint64_t>(static_cast<const char*>(pointer) - block->base) >= block->requested) {
    return false;
  }
  remember(id_, *block, pointer);
  *out_allocation = {block->base, block->requested, block->segment->kind, alias_of(*block)};
  return true;
}

bool Memory::owns(const void* pointer) const {
  std::lock_guard lock(mutex_);
  return store_.find(pointer) != nullptr;
}

bool Memory::find_segment(const void* pointer, MemorySegment* out_segment) const {
  std::lock_guard lock(mutex_);
  const MemoryBlock* const block = store_.find(pointer);
  if (block == nullptr || block->is_free()) return false;
  *out_segment = *block->segment;
  return true;
}

Status Memory::refuse_range(const void* pointer, uint64_t size, const char* what,
                            const Allocation* found) const {
  if (pointer == nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", what);
  if (found == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "{} {} is not memory of {}", what, pointer,
                   device_.name());
  }
  return failure(KEEL_OUT_OF_RANGE, "{} {}: {} bytes reach past its allocation of {} at offset {}",
                 what, pointer, size, found->size,
                 reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(found->base));
}

}  // namespace keel
