// SPDX-License-Identifier: Apache-2.0
// Formats a list of ranks for messages.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

// Returns "rank 3" or "ranks 3-7, 12". |ranks| in ascending order. After 16 runs the remaining
// ranks are only counted ("and 40 more"), so the text has at most 400 bytes.
std::string rank_list(const std::vector<uint32_t>& ranks);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_
