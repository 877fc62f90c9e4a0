// SPDX-License-Identifier: Apache-2.0
// Counts open files, threads and mappings of the worker, for cases that detect leaks.
#ifndef KEEL_CONFORMANCE_PROCESS_COUNTS_H_
#define KEEL_CONFORMANCE_PROCESS_COUNTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "conformance/observation.h"

namespace keel::conformance {

// Fails the case if |rounds| calls of |body| leave the process with at least |rounds| / 2 more open
// files, threads or mapped ranges (a loaded object file has several), twice in succession. Objects
// created once and cached, and concurrent activity of other threads, therefore do not count. Calls
// |body| |rounds| times to warm up and then one or two times |rounds| more.
void expect_given_back(uint32_t rounds, const std::function<void()>& body, const std::string& what,
                       Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PROCESS_COUNTS_H_
