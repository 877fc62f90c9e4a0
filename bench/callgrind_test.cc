// SPDX-License-Identifier: Apache-2.0
#include "bench/callgrind.h"

#include <gtest/gtest.h>

#include <sstream>

namespace keel::bench {
namespace {

// A program calls a library (30 instructions of its own), whose plugin (20) calls a driver (500).
// The driver calls the C library, too, and so does the plugin (7).
constexpr char kProfile[] = R"(version: 1
positions: line
events: Ir

ob=/lib/libkeel.so
fl=???
fn=keel_copy
0 30
cob=/lib/plugins/libkeel_cuda.so
cfi=???
cfn=copy
calls=1 0
0 527

ob=/lib/plugins/libkeel_cuda.so
fl=???
fn=copy
0 20
cob=/lib/keel/emulated/cuda/libcuda.so.1
cfi=???
cfn=cuMemcpyAsync
calls=1 0
0 500
cob=/lib/libc.so.6
cfi=???
cfn=memcpy
calls=1 0
0 7

ob=/lib/keel/emulated/cuda/libcuda.so.1
fl=???
fn=cuMemcpyAsync
0 490
cob=/lib/libc.so.6
cfi=???
cfn=memcpy
calls=2 0
0 10

ob=/lib/libc.so.6
fl=???
fn=memcpy
0 17

totals: 557
)";

double cost(const std::string& caller, const std::string& callee) {
  std::istringstream profile(kProfile);
  return cost_above(profile, caller, callee);
}

TEST(CallgrindTest, CallsOfTheDriverAreLeftOutWithWhatTheyCall) {
  EXPECT_EQ(cost("/libkeel_cuda.so", "/keel/emulated/cuda/"), 57);
  EXPECT_EQ(cost("/libkeel_hip.so", "/keel/emulated/hip/"), 557);
}

// The object of a call that names none is that of the caller.
TEST(CallgrindTest, CallsWithinAnObjectAreKept) {
  std::istringstream profile(
      "ob=/keel/emulated/cuda/libcuda.so.1\nfn=a\n0 1\ncfn=b\ncalls=1 0\n0 2\nfn=b\n0 2\n");
  EXPECT_EQ(cost_above(profile, "/libkeel_cuda.so", "/keel/emulated/cuda/"), 3);
}

}  // namespace
}  // namespace keel::bench
