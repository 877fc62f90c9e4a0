// SPDX-License-Identifier: Apache-2.0
#include "conformance/catalogue.h"

namespace keel::conformance {

std::vector<Case> make_catalogue(const Environment& environment) {
  std::vector<Case> cases;
  if (environment.tables) {
    add_one_rank_cases(&cases);
    return cases;
  }
  add_null_cases(environment, &cases);
  if (!environment.target.has_device()) return cases;
  add_core_cases(environment, &cases);
  add_async_cases(environment, &cases);
  add_memory_cases(environment, &cases);
  add_ops_cases(environment, &cases);
  add_kernels_cases(environment, &cases);
  add_collectives_cases(environment, &cases);
  add_one_rank_cases(&cases);
  add_multi_device_cases(environment, &cases);
  return cases;
}

}  // namespace keel::conformance
