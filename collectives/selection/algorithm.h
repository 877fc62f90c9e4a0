// SPDX-License-Identifier: Apache-2.0
// The algorithms that can run an operation.
#ifndef KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_
#define KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_

#include <keel/keel.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

// Part of the fingerprint of every call, so the numbers are stable.
enum class Algorithm : uint8_t {
  kDirect,
  kEager,
  kOneShot,  // if the descriptors of all ranks allow it, else direct
  kRing,
  kDoubling,
  kHalving,
  kBinomial,
  kKnomial,
  kBruck,
  kPairwise,
  kAggregated,  // between hosts alone: see hosts/host_all_to_all.h
};
inline constexpr uint32_t kAlgorithms = 11;

const char* algorithm_name(Algorithm algorithm);
std::optional<Algorithm> find_algorithm(std::string_view name);
// "direct, eager, ...": all names.
std::string algorithm_names();

// Whether |algorithm| supports |collective| among |world| ranks of one host.
bool applies(Algorithm algorithm, keel_collective collective, uint32_t world);
// Same, among |world| ranks of several hosts. Eager and one_shot need shared memory.
bool applies_between_hosts(Algorithm algorithm, keel_collective collective, uint32_t world);
// Whether |algorithm| runs the plans of algorithms/steps.h.
inline bool is_stepped(Algorithm algorithm) {
  return algorithm >= Algorithm::kRing && algorithm <= Algorithm::kPairwise;
}
// Whether |algorithm| stores partial results of some ranks in the element type and reduces them
// further.
inline bool has_partial_results(Algorithm algorithm) {
  return is_stepped(algorithm);
}
// Whether partial results lose precision: 16- and 8-bit floats should be summed in float32 and
// rounded once, not at every hop.
bool loses_by_parts(keel_dtype dtype, keel_reduction reduction);

// "all_reduce": finds a collective that has algorithms to choose from.
std::optional<keel_collective> find_chosen_collective(std::string_view name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_
