// SPDX-License-Identifier: Apache-2.0
// The catalogue of all cases for a device with every capability.
#include "conformance/catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "conformance/levels.h"

namespace keel::conformance {
namespace {

Environment with_device() {
  Environment environment;
  environment.target.backend = "chip";
  environment.target.device = "chip:0";
  environment.info.capabilities = known_capabilities();
  environment.backend_devices = {{"chip:1", {}}};
  return environment;
}

TEST(Catalogue, IdsAreUnique) {
  const Environment environment = with_device();
  std::set<std::string> ids;
  for (const Case& each : make_catalogue(environment)) {
    EXPECT_TRUE(ids.insert(each.id).second) << each.id;
  }
  EXPECT_GT(ids.size(), 7000U);
}

// Hundreds of cases with a worker each once took half of a run, because a word in their ids marked
// them as such.
TEST(Catalogue, FewCasesRunAlone) {
  const Environment environment = with_device();
  const std::vector<Case> cases = make_catalogue(environment);
  std::vector<std::string> alone;
  for (const Case& each : cases) {
    if (each.alone) alone.push_back(each.id);
  }
  EXPECT_EQ(alone, (std::vector<std::string>{"async/tables/failure/alone/unmapped_address",
                                             "collectives/abort"}));
}

}  // namespace
}  // namespace keel::conformance
