// SPDX-License-Identifier: Apache-2.0
// Statistics and snapshots of Memory.
#include <fmt/format.h>

#include <iterator>

#include "core/device.h"
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

void append_block(const MemoryBlock& block, std::string* text) {
  auto out = std::back_inserter(*text);
  fmt::format_to(out, "{{\"offset\":{},\"size\":{},\"state\":\"{}\"",
                 block.base - block.segment->base, block.size, state_name(block));
  if (!block.is_free()) {
    fmt::format_to(out, ",\"requested\":{},\"stream\":{}", block.requested, block.stream);
  }
  *text += ",\"after\":[";
  bool first = true;
  for (const StreamPoint& point : block.points) {
    if (point.timeline->is_done(point.position)) continue;
    fmt::format_to(out, "{}{{\"stream\":{},\"position\":{}}}", first ? "" : ",",
                   point.timeline->id(), point.position);
    first = false;
  }
  *text += "]}";
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
  std::string text = fmt::format(
      "{{\"device\":\"{}\",\"allocated\":{},\"requested\":{},\"reserved\":{},\"segments\":[",
      device_.name(), allocated_, requested_, store_.reserved());
  const MemorySegment* segment = nullptr;
  store_.for_each_block([&](const MemoryBlock& block) {
    if (block.segment == segment) {
      text += ',';
    } else {
      if (segment != nullptr) text += "]},";
      segment = block.segment;
      fmt::format_to(std::back_inserter(text),
                     "{{\"address\":\"{:#x}\",\"size\":{},\"kind\":\"{}\",\"class\":\"{}\","
                     "\"blocks\":[",
                     reinterpret_cast<uintptr_t>(segment->base), segment->size,
                     kind_name(segment->kind), class_name(segment->size_class));
    }
    append_block(block, &text);
  });
  text += segment == nullptr ? "]}" : "]}]}";
  return text;
}

}  // namespace keel
