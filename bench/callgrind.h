// SPDX-License-Identifier: Apache-2.0
// Counts instructions with callgrind, for calls whose times are too short or too noisy.
#ifndef KEEL_BENCH_CALLGRIND_H_
#define KEEL_BENCH_CALLGRIND_H_

#include <istream>
#include <string>
#include <vector>

namespace keel::bench {

bool has_callgrind();

// Returns the instructions of one call. The last argument of |command|, a shell command, is a
// number of calls: the result is the difference between two runs, the second with twice as many
// calls, divided by the difference in calls.
double instructions_of_call(const std::string& command);

// Returns the cost of a profile's instructions, less the inclusive cost of the calls from an object
// whose path contains |caller| to one whose path contains |callee|. The profile has uncompressed
// names and positions.
double cost_above(std::istream& profile, const std::string& caller, const std::string& callee);

// As instructions_of_call(), but counts only within the C functions |functions|, on the threads
// that call them, and leaves out what those instructions call from a library whose path contains
// |caller| in a library whose path contains |callee|: a plugin's calls of a driver. Throws if the
// process fails.
double instructions_above(const std::string& command, const std::vector<std::string>& functions,
                          const std::string& caller, const std::string& callee);

}  // namespace keel::bench

#endif  // KEEL_BENCH_CALLGRIND_H_
