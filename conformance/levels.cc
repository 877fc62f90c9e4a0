// SPDX-License-Identifier: Apache-2.0
#include "conformance/levels.h"

#include <fmt/format.h>

namespace keel::conformance {

namespace {

constexpr LevelInfo kLevels[] = {
    {Level::kNull, "null", 0, "loads, refuses unknown settings, says what devices there are"},
    {Level::kCore, "core", KEEL_CLAIM_PINNED, "memory, copies and fills on one stream"},
    {Level::kAsync, "async", KEEL_CLAIM_ASYNC, "events, gates, order within and across streams"},
    {Level::kMemory, "memory", KEEL_CLAIM_PINNED, "kinds of memory, exhaustion, threads"},
    {Level::kOps, "ops", KEEL_CLAIM_OPS, "operators against the float64 reference"},
    {Level::kKernels, "kernels", KEEL_CLAIM_KERNELS, "binaries of the caller"},
    {Level::kCollectives, "collectives", KEEL_CLAIM_CCL, "the vendor's collectives library"},
    {Level::kMultiDevice, "multi_device", 0, "copies, events and all-reduce between devices"},
};

struct ClaimName {
  uint64_t bit;
  const char* name;
};

constexpr ClaimName kClaims[] = {
    {KEEL_CLAIM_PINNED, "PINNED"},
    {KEEL_CLAIM_MANAGED, "MANAGED"},
    {KEEL_CLAIM_HOST_REGISTER, "HOST_REGISTER"},
    {KEEL_CLAIM_HOST_ALIAS, "HOST_ALIAS"},
    {KEEL_CLAIM_EXPORT, "EXPORT"},
    {KEEL_CLAIM_PEER_COPY, "PEER_COPY"},
    {KEEL_CLAIM_ASYNC, "ASYNC"},
    {KEEL_CLAIM_TIMING, "TIMING"},
    {KEEL_CLAIM_NOTIFY, "NOTIFY"},
    {KEEL_CLAIM_PRIORITY, "PRIORITY"},
    {KEEL_CLAIM_NATIVE_GATE, "NATIVE_GATE"},
    {KEEL_CLAIM_STREAM_ALLOC, "STREAM_ALLOC"},
    {KEEL_CLAIM_KERNELS, "KERNELS"},
    {KEEL_CLAIM_OPS, "OPS"},
    {KEEL_CLAIM_CCL, "CCL"},
    {KEEL_CLAIM_MEMORY_INFO, "MEMORY_INFO"},
    {KEEL_CLAIM_FILL, "FILL"},
    {KEEL_CLAIM_PAGEABLE_ASYNC, "PAGEABLE_ASYNC"},
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

std::vector<std::string> claim_names(uint64_t claims) {
  std::vector<std::string> names;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if ((claims >> bit & 1) == 0) continue;
    std::string name = fmt::format("bit {}", bit);
    for (const ClaimName& claim : kClaims) {
      if (claim.bit == uint64_t{1} << bit) name = claim.name;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string claim_text(uint64_t claims) {
  return claims == 0 ? "none" : fmt::format("{}", fmt::join(claim_names(claims), " "));
}

uint64_t known_claims() {
  uint64_t all = 0;
  for (const ClaimName& claim : kClaims) all |= claim.bit;
  return all;
}

}  // namespace keel::conformance
