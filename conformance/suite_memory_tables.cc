// SPDX-License-Identifier: Apache-2.0
#include "conformance/catalogue.h"

namespace keel::conformance {

void add_memory_table_cases(const Environment&, std::vector<Case>*) {}

}  // namespace keel::conformance
