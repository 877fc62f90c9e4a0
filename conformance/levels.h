// SPDX-License-Identifier: Apache-2.0
// The levels of conformance, and the names of device capabilities.
#ifndef KEEL_CONFORMANCE_LEVELS_H_
#define KEEL_CONFORMANCE_LEVELS_H_

#include <keel/keel.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keel::conformance {

enum class Level : uint8_t {
  kNull,
  kCore,
  kAsync,
  kMemory,
  kOps,
  kKernels,
  kCollectives,
  kMultiDevice,
};

struct LevelInfo {
  Level level;
  const char* name;  // first component of the level's case ids
  uint64_t mandatory_capabilities;
  const char* doc;
};

// Returns the levels in the order in which they run.
std::span<const LevelInfo> levels();
const LevelInfo& level_info(Level level);
std::optional<Level> find_level(std::string_view name);
// Returns the level of the case |id|; kNull for an id without a level (the catalogue contains no
// such id).
Level level_of(std::string_view id);

// Cases on the plugin's own tables, not exposed by keel.h. The cases run in workers where Keel does
// not load the plugin, because a process queries a plugin once. The one-rank cases show only that
// the library responds; alone they certify nothing.
inline constexpr std::string_view kOneRank = "collectives/one_rank/";
inline bool is_on_tables(std::string_view id) {
  return id.starts_with(kOneRank) || id.find("/tables/") != std::string_view::npos;
}

// Returns whether a pass of the case counts towards certification of its level. A rejected binary
// launches no kernel, and a communicator of one rank connects no ranks.
inline bool counts_for_level(std::string_view id) {
  return !id.starts_with(kOneRank) && !id.starts_with("kernels/load/");
}

// Returns the names of the set bits, lowest first: "PINNED", "ASYNC", ...; a bit without a name
// reads "bit 40".
std::vector<std::string> capability_names(uint64_t capabilities);
// Returns capability_names() in one line, "none" for 0.
std::string capability_text(uint64_t capabilities);
// Returns every capability bit that abi.h defines.
uint64_t known_capabilities();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LEVELS_H_
