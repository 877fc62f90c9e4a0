// SPDX-License-Identifier: Apache-2.0
// Ranks named in a text.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

// "rank 3", "ranks 3-7, 12". |ranks| in ascending order; after 16 runs the rest is counted,
// "and 40 more", so that the text has at most 400 bytes.
std::string rank_list(const std::vector<uint32_t>& ranks);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_RANK_LIST_H_
