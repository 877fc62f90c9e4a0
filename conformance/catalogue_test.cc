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

// In one process the chip would have the faults of all cases.
TEST(Catalogue, CasesWithAFaultyLibraryRunAlone) {
  Environment environment = with_device();
  uint32_t faulty = 0;
  for (const bool is_emulated : {false, true}) {
    environment.emulated = is_emulated;
    for (const Case& each : make_catalogue(environment)) {
      if (each.fault.empty()) continue;
      EXPECT_TRUE(is_emulated && each.alone) << each.id;
      EXPECT_NE(each.id.find("/library/"), std::string::npos) << each.id;
      ++faulty;
    }
  }
  EXPECT_EQ(faulty, 11U);
}

}  // namespace
}  // namespace keel::conformance
