// SPDX-License-Identifier: Apache-2.0
// The rules of an algorithm table for communicators over several hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_RULES_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_RULES_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/selection/selection.h"

namespace keel {

// Returns those of |rules| that are for several hosts.
std::vector<Rule> host_rules_of(const std::vector<Rule>& rules);

// Text of host rules for HostTable, and back. read_host_rules() returns false for malformed text
// and for rules refused by read_table().
std::string write_host_rules(const std::vector<Rule>& rules);
bool read_host_rules(std::string_view text, std::vector<Rule>* out_rules);

// Returns the rule of |rules| for |bytes| of |collective| with the highest score, of equal scores
// the last, whose algorithm |is_possible|(algorithm) admits; NULL: no rule. |rules| fit the
// communicator.
template <typename IsPossible>
const Rule* find_host_rule(const std::vector<Rule>& rules, keel_collective collective,
                           uint64_t bytes, const IsPossible& is_possible) {
  const Rule* best = nullptr;
  for (const Rule& rule : rules) {
    const bool covers = rule.collective == collective && rule.first_byte_count <= bytes &&
                        bytes <= rule.last_byte_count;
    if (!covers || (best != nullptr && rule.score < best->score)) continue;
    if (is_possible(rule.algorithm)) best = &rule;
  }
  return best;
}

// Returns those of |rules| that are for |world| ranks over |hosts| hosts.
std::vector<Rule> fitting_host_rules(const std::vector<Rule>& rules, uint32_t world,
                                     uint32_t hosts);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_RULES_H_
