// SPDX-License-Identifier: Apache-2.0
// Counts instructions with callgrind, for calls whose times are too short or too noisy.
#ifndef KEEL_BENCH_CALLGRIND_H_
#define KEEL_BENCH_CALLGRIND_H_

#include <string>

namespace keel::bench {

bool has_callgrind();

// Returns the instructions of one call. The last argument of |command|, a shell command, is a
// number of calls: the result is the difference between two runs, the second with twice as many
// calls, divided by the difference in calls.
double instructions_of_call(const std::string& command);

}  // namespace keel::bench

#endif  // KEEL_BENCH_CALLGRIND_H_
