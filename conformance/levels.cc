// SPDX-License-Identifier: Apache-2.0
#include "conformance/levels.h"

#include <fmt/format.h>

namespace keel::conformance {

namespace {

constexpr LevelInfo kLevels[] = {
    {Level::kNull, "null", 0, "loads, refuses unknown settings, says what devices there are"},
    {Level::kCore, "core", KEEL_CAPABILITY_PINNED, "memory, copies and fills on one stream"},
    {Level::kAsync, "async", KEEL_CAPABILITY_ASYNC,
     "events, gates, order within and across streams"},
    {Level::kMemory, "memory", KEEL_CAPABILITY_PINNED, "kinds of memory, exhaustion, threads"},
    {Level::kOps, "ops", KEEL_CAPABILITY_OPS, "operators against the float64 reference"},
    {Level::kKernels, "kernels", KEEL_CAPABILITY_KERNELS, "binaries of the caller"},
    {Level::kCollectives, "collectives", KEEL_CAPABILITY_CCL, "the vendor's collectives library"},
    {Level::kMultiDevice, "multi_device", 0, "copies, events and all-reduce between devices"},
};

struct CapabilityName {
  uint64_t bit;
  const char* name;
};

constexpr CapabilityName kCapabilities[] = {
    {KEEL_CAPABILITY_PINNED, "PINNED"},
    {KEEL_CAPABILITY_MANAGED, "MANAGED"},
    {KEEL_CAPABILITY_HOST_REGISTER, "HOST_REGISTER"},
    {KEEL_CAPABILITY_HOST_ALIAS, "HOST_ALIAS"},
    {KEEL_CAPABILITY_EXPORT, "EXPORT"},
    {KEEL_CAPABILITY_PEER_COPY, "PEER_COPY"},
    {KEEL_CAPABILITY_ASYNC, "ASYNC"},
    {KEEL_CAPABILITY_TIMING, "TIMING"},
    {KEEL_CAPABILITY_NOTIFY, "NOTIFY"},
    {KEEL_CAPABILITY_PRIORITY, "PRIORITY"},
    {KEEL_CAPABILITY_NATIVE_GATE, "NATIVE_GATE"},
    {KEEL_CAPABILITY_STREAM_ALLOC, "STREAM_ALLOC"},
    {KEEL_CAPABILITY_KERNELS, "KERNELS"},
    {KEEL_CAPABILITY_OPS, "OPS"},
    {KEEL_CAPABILITY_CCL, "CCL"},
    {KEEL_CAPABILITY_MEMORY_INFO, "MEMORY_INFO"},
    {KEEL_CAPABILITY_FILL, "FILL"},
    {KEEL_CAPABILITY_PAGEABLE_ASYNC, "PAGEABLE_ASYNC"},
};

}  // namespace

std::span<const LevelInfo> levels() {
  return kLevels;
}

const LevelInfo& level_info(Level level) {
  return kLevels[static_cast<size_t>(level)];
}

std::optional<Level> find_level(std::string_view name) {
  for (const LevelInfo& info : kLevels) {
    if (info.name == name) return info.level;
  }
  return std::nullopt;
}

Level level_of(std::string_view id) {
  return find_level(id.substr(0, id.find('/'))).value_or(Level::kNull);
}

std::vector<std::string> capability_names(uint64_t capabilities) {
  std::vector<std::string> names;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if ((capabilities >> bit & 1) == 0) continue;
    std::string name = fmt::format("bit {}", bit);
    for (const CapabilityName& each : kCapabilities) {
      if (each.bit == uint64_t{1} << bit) name = each.name;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string capability_text(uint64_t capabilities) {
  return capabilities == 0 ? "none"
                           : fmt::format("{}", fmt::join(capability_names(capabilities), " "));
}

uint64_t known_capabilities() {
  uint64_t all = 0;
  for (const CapabilityName& each : kCapabilities) all |= each.bit;
  return all;
}

}  // namespace keel::conformance
