// SPDX-License-Identifier: Apache-2.0
// Open files, threads and mappings of the worker, for cases that look for leaks.
#ifndef KEEL_CONFORMANCE_PROCESS_COUNTS_H_
#define KEEL_CONFORMANCE_PROCESS_COUNTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "conformance/observation.h"

namespace keel::conformance {

// Fails the case where each |rounds| calls of |body| leave the process with at least |rounds| / 2
// more open files, threads or mapped ranges (of which an object file has several), twice running:
// what is made once and kept, and what other threads do meanwhile, is not counted. Calls |body|
// |rounds| times to begin with, and then once or twice as often.
void expect_given_back(uint32_t rounds, const std::function<void()>& body, const std::string& what,
                       Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PROCESS_COUNTS_H_
