// SPDX-License-Identifier: Apache-2.0
// Counts instructions, where times are too short or too noisy.
#ifndef KEEL_BENCH_CALLGRIND_H_
#define KEEL_BENCH_CALLGRIND_H_

#include <string>

namespace keel::bench {

bool has_callgrind();

// Of one call. |command|, of the shell, takes a number of calls as its last argument: what it
// executes more with twice as many.
double instructions_of_call(const std::string& command);

}  // namespace keel::bench

#endif  // KEEL_BENCH_CALLGRIND_H_
