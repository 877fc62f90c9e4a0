// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/wire_test.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {

void WireTest::SetUp() {
  if (is_ucx() && !is_ucx_there()) {
    GTEST_SKIP() << "libucp.so.0 cannot be opened (package libucx0)";
  }
  setenv("KEEL_WIRE", GetParam(), 1);
  setenv("UCX_TLS", "tcp", 0);
}

void WireTest::TearDown() {
  unsetenv("KEEL_WIRE");
}

// In a child: a library that UCX loads may leak.
bool WireTest::is_ucx_there() {
  static const bool is_there = ChildProcess("has_ucx", {}).wait() == 0;
  return is_there;
}

std::string name_of_wire(const ::testing::TestParamInfo<const char*>& wire) {
  return wire.param;
}

int has_ucx(const std::vector<std::string>& /*arguments*/) {
  return dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL) == nullptr ? 1 : 0;
}

}  // namespace keel::testing
