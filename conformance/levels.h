// SPDX-License-Identifier: Apache-2.0
// The levels of conformance, and the claims of a device by name.
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
  const char* name;  // first component of the ids of its cases
  uint64_t mandatory_claims;
  const char* doc;
};

// In the order in which they run.
std::span<const LevelInfo> levels();
const LevelInfo& level_info(Level level);
std::optional<Level> find_level(std::string_view name);
// The level of the case |id|: kNull for an id of no level, which the catalogue has not.
Level level_of(std::string_view id);

// Cases about the plugin's own tables, which keel.h cannot reach: they are run in workers where
// Keel does not load the plugin, since it is queried once in a process. Those of one rank show that
// a library answers, and alone certify nothing.
inline constexpr std::string_view kOneRank = "collectives/one_rank/";
inline bool is_on_tables(std::string_view id) {
  return id.starts_with(kOneRank) || id.find("/tables/") != std::string_view::npos;
}

// Whether a pass of the case shows something of what its level certifies. A plugin that refuses
// binaries has launched no kernel, and a communicator of one rank has brought none together.
inline bool counts_for_level(std::string_view id) {
  return !id.starts_with(kOneRank) && !id.starts_with("kernels/load/");
}

// "PINNED", "ASYNC", ... of the bits that are set, lowest first; a bit without a name
// reads "bit 40".
std::vector<std::string> claim_names(uint64_t claims);
// The same in one line, "none" for 0.
std::string claim_text(uint64_t claims);
// Every claim that abi.h knows.
uint64_t known_claims();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LEVELS_H_
