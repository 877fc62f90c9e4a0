// SPDX-License-Identifier: Apache-2.0
// Text format of algorithm tables, written by users and by `keel perf --tune`.
#ifndef KEEL_COLLECTIVES_SELECTION_TABLE_H_
#define KEEL_COLLECTIVES_SELECTION_TABLE_H_

#include <string_view>
#include <vector>

#include "collectives/selection/selection.h"
#include "core/status.h"

namespace keel {

// The first line is "keel-collectives 1". Each further line is a rule of words separated by blanks:
//   COLLECTIVE BYTES RANKS REACH CORES ALGORITHM [SCORE]
//   all_reduce 64K-1M 2-4 alias * ring 20
// BYTES and RANKS are a number, FIRST-LAST, FIRST-, or * for all; numbers of bytes may end in K, M
// or G. REACH is alias, staged or *; CORES is dedicated, oversubscribed or *. SCORE is 1 to 1000,
// default 100. If REACH is hosts or hosts:2-4, the rule is for communicators over several hosts, or
// over so many, CORES is *, and RANKS counts the ranks of all hosts. If REACH is foreign, the rule
// is for foreign buffers, and ALGORITHM is how other processes read them: attach or staging. '#'
// begins a comment. KEEL_INVALID_ARGUMENT names the line.
Status read_table(std::string_view text, std::vector<Rule>* out_rules);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_TABLE_H_
