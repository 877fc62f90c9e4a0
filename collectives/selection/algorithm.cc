// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/algorithm.h"

#include <array>

#include "collectives/operation.h"

namespace keel {

namespace {

constexpr std::array<const char*, kAlgorithms> kNames = {
    "direct",   "eager",   "one_shot", "ring",     "doubling",  "halving",
    "binomial", "knomial", "bruck",    "pairwise", "aggregated"};

}  // namespace

const char* algorithm_name(Algorithm algorithm) {
  const auto index = static_cast<uint32_t>(algorithm);
  return index < kAlgorithms ? kNames[index] : "unknown";
}

std::optional<Algorithm> find_algorithm(std::string_view name) {
  for (uint32_t i = 0; i < kAlgorithms; ++i) {
    if (name == kNames[i]) return static_cast<Algorithm>(i);
  }
  return {};
}

std::string algorithm_names() {
  std::string text;
  for (const char* name : kNames) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

bool applies(Algorithm algorithm, keel_collective collective, uint32_t world) {
  const bool is_message =
      collective == KEEL_SEND || collective == KEEL_RECV || collective == KEEL_SEND_RECV;
  const bool is_moving = collective != KEEL_BARRIER && !is_message;
  const bool has_steps = is_moving && !has_arrays(collective) && world > 1;
  switch (algorithm) {
    case Algorithm::kDirect:
      return is_moving;
    case Algorithm::kEager:
      return !is_message && !has_arrays(collective);
    case Algorithm::kOneShot:
      return collective == KEEL_ALL_REDUCE;
    case Algorithm::kRing:
      return has_steps && (collective == KEEL_ALL_REDUCE || collective == KEEL_ALL_GATHER ||
                           collective == KEEL_REDUCE_SCATTER);
    case Algorithm::kDoubling:
      return has_steps && (collective == KEEL_ALL_REDUCE || collective == KEEL_ALL_GATHER);
    case Algorithm::kHalving:
      return has_steps && (collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE_SCATTER);
    case Algorithm::kBinomial:
    case Algorithm::kKnomial:
      return has_steps && (collective == KEEL_BROADCAST || collective == KEEL_REDUCE ||
                           collective == KEEL_GATHER || collective == KEEL_SCATTER);
    case Algorithm::kBruck:
      return has_steps && (collective == KEEL_ALL_GATHER || collective == KEEL_ALL_TO_ALL);
    case Algorithm::kPairwise:
      return has_steps && collective == KEEL_ALL_TO_ALL;
    case Algorithm::kAggregated:
      return false;
  }
  return false;
}

bool applies_between_hosts(Algorithm algorithm, keel_collective collective, uint32_t world) {
  if (algorithm == Algorithm::kAggregated) {
    return collective == KEEL_ALL_TO_ALL || collective == KEEL_ALL_TO_ALL_V;
  }
  const bool has_messages = algorithm == Algorithm::kDirect || is_stepped(algorithm);
  return has_messages && applies(algorithm, collective, world);
}

bool loses_by_parts(keel_dtype dtype, keel_reduction reduction) {
  const bool is_narrow = dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16 ||
                         dtype == KEEL_FLOAT8_E4M3FN || dtype == KEEL_FLOAT8_E5M2;
  return is_narrow && reduction != KEEL_MIN && reduction != KEEL_MAX;
}

std::optional<keel_collective> find_chosen_collective(std::string_view name) {
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    const bool is_chosen =
        applies(Algorithm::kDirect, collective, 2) && applies(Algorithm::kEager, collective, 2);
    if (is_chosen && name == collective_name(collective)) return collective;
  }
  return {};
}

}  // namespace keel
