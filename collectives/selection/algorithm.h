// SPDX-License-Identifier: Apache-2.0
// The ways in which an operation can be done.
#ifndef KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_
#define KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_

#include <keel/keel.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

// In the fingerprint of every call, so the numbers stay.
enum class Algorithm : uint8_t {
  kDirect,
  kEager,
  kOneShot,  // where it can be done, which the posts tell; else direct
  kRing,
  kDoubling,
  kHalving,
  kBinomial,
  kKnomial,
  kBruck,
  kPairwise,
};
inline constexpr uint32_t kAlgorithms = 10;

const char* algorithm_name(Algorithm algorithm);
std::optional<Algorithm> find_algorithm(std::string_view name);
// "direct, eager, ...": all names.
std::string algorithm_names();

// Whether it can do |collective| among |world| ranks at all.
bool applies(Algorithm algorithm, keel_collective collective, uint32_t world);
// Whether it goes by the plans of algorithms/steps.h.
inline bool is_stepped(Algorithm algorithm) {
  return algorithm >= Algorithm::kRing;
}
// Whether it reduces partial results of some ranks, in the type of the elements, with others.
inline bool has_partial_results(Algorithm algorithm) {
  return is_stepped(algorithm);
}
// Whether such a partial result loses what the whole would have: 16- and 8-bit floats are
// summed in float32 and rounded once, not at every hop.
bool loses_by_parts(keel_dtype dtype, keel_reduction reduction);

// "all_reduce": those that have algorithms to choose from.
std::optional<keel_collective> find_chosen_collective(std::string_view name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_ALGORITHM_H_
