// SPDX-License-Identifier: Apache-2.0
// All cases that there are of some values, run by one rank in few waits: for tests of many ranks.
#ifndef KEEL_COLLECTIVES_TESTING_PRODUCT_H_
#define KEEL_COLLECTIVES_TESTING_PRODUCT_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/testing/reference.h"

namespace keel::testing {

// An algorithm, and the operations that it is for.
struct Doing {
  const char* algorithm;
  std::vector<Operation> operations;
};
// All of them. Eager and direct come last: they are what is built in.
const std::vector<Doing>& doings();

// Each operation of |doing| in each dtype, by each reduction where it reduces, in place and not,
// in each of some odd sizes: below and above a cache line, and a window. Where each takes longer it
// is every 8th of them (the address sanitizer, KEEL_VALIDATE, KEEL_CPU_GUARD) or every 32nd (the
// thread sanitizer), in an order in which neighbours differ in every value.
std::vector<Case> product_cases(const Doing& doing, uint32_t world);

// Runs them as rank |rank| of |comm|, many at a time. What went wrong, or nothing.
std::string run_product(const Doing& doing, keel_device device, keel_comm comm);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_PRODUCT_H_
