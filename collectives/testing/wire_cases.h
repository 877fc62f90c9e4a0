// SPDX-License-Identifier: Apache-2.0
// Cases of the serial reference, as programs of a WireJob.
#ifndef KEEL_COLLECTIVES_TESTING_WIRE_CASES_H_
#define KEEL_COLLECTIVES_TESTING_WIRE_CASES_H_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/testing/wire_job.h"

namespace keel::testing {

// The first |most| cases after |first| on |comm|, of all in a circle; all of them with
// KEEL_HOSTS_ALL. Returns what is wrong, or an empty text.
std::string run_cases(const WireRank& self, keel_comm comm, uint64_t first, size_t most);

// A WireProgram. Each job begins elsewhere, so that the jobs together run all cases.
std::string cases(const WireRank& self);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_WIRE_CASES_H_
