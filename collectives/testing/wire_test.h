// SPDX-License-Identifier: Apache-2.0
// Tests that run with each wire.
#ifndef KEEL_COLLECTIVES_TESTING_WIRE_TEST_H_
#define KEEL_COLLECTIVES_TESTING_WIRE_TEST_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace keel::testing {

// Jobs whose messages the wire of the parameter, a value of KEEL_WIRE, carries.
class WireTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  void TearDown() override;
  static bool is_ucx() { return std::string(GetParam()) == "ucx"; }
  static bool is_ucx_there();
};
inline const auto kWires = ::testing::Values("tcp", "ucx");
std::string name_of_wire(const ::testing::TestParamInfo<const char*>& wire);

// The worker "has_ucx", which a test program with a WireTest lists: ends with 0 if UCX is there.
int has_ucx(const std::vector<std::string>& arguments);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_WIRE_TEST_H_
