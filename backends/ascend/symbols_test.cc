// SPDX-License-Identifier: Apache-2.0
// Libraries of operators and of collectives that lack a symbol, each symbol in its turn: the
// devices are there, and what needs the symbol is not claimed.
#include <string>

#include "backends/ascend/sdk.h"
#include "backends/ascend/testing/own_sdk.h"
#include "core/testing/library_file.h"

namespace keel::testing {
namespace {

constexpr uint64_t kBoth = KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_CCL;

// Expects |wanted| of operators and collectives where |file| lacks |symbol|.
void expect_claims(const char* file, const std::string& symbol, uint64_t wanted) {
  SCOPED_TRACE(symbol);
  const OwnSdk sdk;
  ASSERT_TRUE(remove_symbol(sdk.path(file), symbol));
  const OwnInstance instance(sdk.folder());
  ASSERT_EQ(instance.count(), 2u) << instance.reason();
  EXPECT_EQ(instance.capabilities() & kBoth, wanted);
}

#define KEEL_NAME(name) #name,

TEST(AscendSymbolsTest, WithoutEachSymbolOfHcclTheOperatorsStay) {
  for (const char* const name : {KEEL_ASCEND_COLLECTIVES(KEEL_NAME)}) {
    expect_claims("libhccl.so", name, KEEL_CAPABILITY_OPS);
  }
  for (const char* const name : {KEEL_ASCEND_OPTIONAL_COLLECTIVES(KEEL_NAME)}) {
    expect_claims("libhccl.so", name, kBoth);
  }
}

TEST(AscendSymbolsTest, WithoutEachDescriptorTheCollectivesStay) {
  for (const char* const name : {KEEL_ASCEND_DESCRIPTORS(KEEL_NAME)}) {
    expect_claims("libnnopbase.so", name, KEEL_CAPABILITY_CCL);
  }
  for (const char* const name : {KEEL_ASCEND_OPTIONAL_DESCRIPTORS(KEEL_NAME)}) {
    expect_claims("libnnopbase.so", name, kBoth);
  }
}

TEST(AscendSymbolsTest, WithoutEachOperatorOfTheLibraryTheOthersStay) {
  for (const std::string name : {KEEL_FOR_EACH_ACLNN(KEEL_NAME)}) {
    const bool is_needed = name == "Add" || name == "Cast" || name == "InplaceFillScalar";
    for (const char* const phase : {"GetWorkspaceSize", ""}) {
      expect_claims("libopapi.so", "aclnn" + name + phase,
                    is_needed ? uint64_t{KEEL_CAPABILITY_CCL} : kBoth);
    }
  }
}

#undef KEEL_NAME

}  // namespace
}  // namespace keel::testing
