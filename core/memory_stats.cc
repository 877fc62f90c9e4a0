// SPDX-License-Identifier: Apache-2.0
// Statistics and snapshots of Memory.
#include <fmt/format.h>

#include "core/device.h"
#include "core/json_writer.h"
#include "core/memory.h"

namespace keel {

namespace {

const char* kind_name(keel_memory_kind kind) {
  return kind == KEEL_MEMORY_DEVICE ? "device" : kind == KEEL_MEMORY_PINNED ? "pinned" : "managed";
}

const char* class_name(SizeClass size_class) {
  return size_class == SizeClass::kSmall    ? "small"
         : size_class == SizeClass::kMedium ? "medium"
                                            : "huge";
}

// Returns "used"; "free"; or "pending" for a freed block with earlier work not known to be over.
const char* state_name(const MemoryBlock& block) {
  if (!block.is_free()) return "used";
  for (const StreamPoint& point : block.points) {
    if (!point.timeline->is_done(point.position)) return "pending";
  }
  return block.waits_for_all ? "pending" : "free";
}

void write_block(JsonWriter& json, const MemoryBlock& block) {
  json.begin_object();
  json.key("offset").number(block.base - block.segment->base);
  json.key("size").number(block.size);
  json.key("state").text(state_name(block));
  if (!block.is_free()) {
    json.key("requested").number(block.requested);
    json.key("stream").number(block.stream);
  }
  json.key("after").begin_array();
  for (const StreamPoint& point : block.points) {
    if (point.timeline->is_done(point.position)) continue;
    json.begin_object();
    json.key("stream").number(point.timeline->id());
    json.key("position").number(point.position);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace

void Memory::get_stats(keel_memory_stats* out_stats) const {
  std::lock_guard lock(mutex_);
  out_stats->allocated = allocated_;
  out_stats->allocated_peak = allocated_peak_;
  out_stats->reserved = store_.reserved();
  out_stats->reserved_peak = reserved_peak_;
  out_stats->requested = requested_;
  out_stats->live_blocks = live_blocks_;
  out_stats->allocations = allocations_;
  out_stats->cache_hits = cache_hits_;
  out_stats->native_allocs = native_allocs_;
  out_stats->native_frees = native_frees_;
  out_stats->splits = store_.splits();
  out_stats->merges = store_.merges();
  out_stats->out_of_memory = out_of_memory_;
}

void Memory::reset_peaks() {
  std::lock_guard lock(mutex_);
  allocated_peak_ = allocated_;
  reserved_peak_ = store_.reserved();
}

std::string Memory::snapshot() const {
  std::lock_guard lock(mutex_);
  std::string text;
  JsonWriter json(&text, JsonLayout::kOneLine);
  json.begin_object();
  json.key("device").text(device_.name());
  json.key("allocated").number(allocated_);
  json.key("requested").number(requested_);
  json.key("reserved").number(store_.reserved());
  json.key("segments").begin_array();
  const MemorySegment* segment = nullptr;
  const auto end_segment = [&] {
    if (segment == nullptr) return;
    json.end_array();
    json.end_object();
  };
  store_.for_each_block([&](const MemoryBlock& block) {
    if (block.segment != segment) {
      end_segment();
      segment = block.segment;
      json.begin_object();
      json.key("address").text(fmt::format("{:#x}", reinterpret_cast<uintptr_t>(segment->base)));
      json.key("size").number(segment->size);
      json.key("kind").text(kind_name(segment->kind));
      json.key("class").text(class_name(segment->size_class));
      json.key("blocks").begin_array();
    }
    write_block(json, block);
  });
  end_segment();
  json.end_array();
  json.end_object();
  return text;
}

}  // namespace keel
