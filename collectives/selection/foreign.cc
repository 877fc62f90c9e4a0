// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/foreign.h"

#include <array>

#include "collectives/operation.h"
#include "collectives/selection/algorithm.h"

namespace keel {

namespace {

constexpr std::array<const char*, kForeignWays> kNames = {"staging", "attach"};

}  // namespace

const char* foreign_way_name(ForeignWay way) {
  const auto index = static_cast<uint32_t>(way);
  return index < kForeignWays ? kNames[index] : "unknown";
}

std::optional<ForeignWay> find_foreign_way(std::string_view name) {
  for (uint32_t i = 0; i < kForeignWays; ++i) {
    if (name == kNames[i]) return static_cast<ForeignWay>(i);
  }
  return {};
}

bool can_attach(keel_collective collective) {
  return applies(Algorithm::kDirect, collective, /*world=*/2) &&
         (!reduces(collective) || applies(Algorithm::kOneShot, collective, /*world=*/2));
}

}  // namespace keel
