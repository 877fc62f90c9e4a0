// SPDX-License-Identifier: Apache-2.0
// The full product of case parameters, run by one rank with few waits: for tests of many ranks.
#ifndef KEEL_COLLECTIVES_TESTING_PRODUCT_H_
#define KEEL_COLLECTIVES_TESTING_PRODUCT_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/testing/reference.h"

namespace keel::testing {

// Algorithm case: an algorithm and the operations it implements.
struct AlgorithmCase {
  const char* algorithm;
  std::vector<Operation> operations;
};
// All algorithms. The built-in ones, eager and direct, come last.
const std::vector<AlgorithmCase>& algorithm_cases();

// Each operation of |algorithm_case| in each dtype, by each reduction where it reduces, in place
// and not, in several odd sizes: below and above a cache line, and above a chunk. In slow builds
// only every 8th case (address sanitizer, KEEL_VALIDATE, KEEL_CPU_GUARD) or every 32nd (thread
// sanitizer) is returned, in an order in which neighbors differ in every parameter.
std::vector<Case> product_cases(const AlgorithmCase& algorithm_case, uint32_t world);

// Runs the cases as rank |rank| of |comm|, many in flight. Returns the failure, or an empty text.
std::string run_product(const AlgorithmCase& algorithm_case, keel_device device, keel_comm comm);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_PRODUCT_H_
