// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/wire_cases.h"

#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"

namespace keel::testing {

std::string run_cases(const WireRank& self, keel_comm comm, uint64_t first, size_t most) {
  const std::vector<Case> all = pairwise_cases({self.world}, /*seed=*/self.world);
  if (getenv("KEEL_HOSTS_ALL") != nullptr) most = all.size();
  for (size_t i = 0; i < std::min(most, all.size()); ++i) {
    Case scenario = all[(first + i) % all.size()];
    scenario.staged = self.staged;
    const Reference reference(scenario, self.rank);
    std::string problem = run_case(reference, self.rank, self.device, comm, self.stream);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string cases(const WireRank& self) {
  return run_cases(self, self.comm, self.job, kIsSlow ? 20 : 70);
}

}  // namespace keel::testing
