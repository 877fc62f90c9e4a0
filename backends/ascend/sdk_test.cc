// SPDX-License-Identifier: Apache-2.0
// The start of the plugin on SDKs that are absent, older, damaged or refuse to start.
#include "backends/ascend/sdk.h"

#include <fstream>
#include <string>

#include "backends/ascend/testing/own_sdk.h"
#include "core/testing/library_file.h"

namespace keel::testing {
namespace {

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

TEST(AscendSdkTest, WithoutAnSdkTheReasonIsASentence) {
  const OwnInstance instance("/nowhere/at/all");
  EXPECT_EQ(instance.count(), 0u);
  expect_has(instance.reason(), "no Ascend runtime: /nowhere/at/all/libascendcl.so");
}

TEST(AscendSdkTest, AFileThatIsNoLibraryIsNamed) {
  const OwnSdk sdk;
  std::ofstream(sdk.path("libascendcl.so")) << "no library";
  const OwnInstance instance(sdk.folder());
  EXPECT_EQ(instance.count(), 0u);
  expect_has(instance.reason(), "no Ascend runtime");
  expect_has(instance.reason(), "libascendcl.so");
}

TEST(AscendSdkTest, AFailureOfEachStepOfTheStartIsNamed) {
  const struct {
    const char* settings;
    const char* reason;
  } starts[] = {
      {"init=500000", "aclInit: error 500000"},
      {"count=507000", "aclrtGetDeviceCount: error 507000"},
      {"devices=0", "aclrtGetDeviceCount: error 207004"},
      {"unknown=1", "aclInit: error 100000"},
  };
  for (const auto& [settings, reason] : starts) {
    const OwnSdk sdk(settings);
    const OwnInstance instance(sdk.folder());
    EXPECT_EQ(instance.count(), 0u) << settings;
    expect_has(instance.reason(), reason);
  }
}

TEST(AscendSdkTest, ADeviceThatCannotBeSetIsNotOpened) {
  const OwnSdk sdk("device=507000");
  const OwnInstance instance(sdk.folder());
  ASSERT_EQ(instance.count(), 2u);
  keel_plugin_device* device = nullptr;
  EXPECT_EQ(instance.plugin().device->open(instance.get(), 0, &device), KEEL_INTERNAL);
  expect_has(t_error, "aclrtSetDevice: error 507000");
}

// The second device goes between the count and its first use.
TEST(AscendSdkTest, ADeviceThatHasGoneIsNamedWhenItIsOpened) {
  const OwnSdk sdk("devices_later=1");
  const OwnInstance instance(sdk.folder());
  ASSERT_EQ(instance.count(), 2u);
  keel_plugin_device* device = nullptr;
  EXPECT_EQ(instance.plugin().device->open(instance.get(), 1, &device), KEEL_NOT_FOUND);
  expect_has(t_error, "aclrtSetDevice: error 107001");
  ASSERT_EQ(instance.plugin().device->open(instance.get(), 0, &device), KEEL_OK) << t_error;
  instance.plugin().device->close(device);
}

// Ranks form an island only if their libraries have one name: neither two versions nor two kinds of
// chip do, an emulated one included.
TEST(AscendSdkTest, TheLibraryOfCollectivesNamesItsVersionAndChip) {
  const auto library = [](const char* settings) {
    const OwnSdk sdk(settings);
    const OwnInstance instance(sdk.folder());
    keel_ccl_info info = {};
    info.header = {sizeof(info), KEEL_STRUCT_CCL_INFO, nullptr};
    EXPECT_EQ(instance.plugin().ccl->info(instance.get(), &info), KEEL_OK) << t_error;
    return std::string(info.library);
  };
  EXPECT_EQ(library(""), "HCCL of ACL 1.16.0 on Ascend_emulated");
  EXPECT_EQ(library("minor=15"), "HCCL of ACL 1.15.0 on Ascend_emulated");
}

TEST(AscendSdkTest, EachRequiredSymbolOfTheRuntimeIsNamedWhereItIsMissing) {
  const char* const names[] = {
#define KEEL_NAME(name) #name,
      KEEL_ASCEND_RUNTIME(KEEL_NAME)
#undef KEEL_NAME
  };
  for (const char* name : names) {
    const OwnSdk sdk;
    ASSERT_TRUE(remove_symbol(sdk.path("libascendcl.so"), name)) << name;
    const OwnInstance instance(sdk.folder());
    EXPECT_EQ(instance.count(), 0u) << name;
    expect_has(instance.reason(), std::string("symbols missing: ") + name);
  }
}

TEST(AscendSdkTest, WithoutAnyOptionalSymbolTheDevicesAreThere) {
  const char* const names[] = {
#define KEEL_NAME(name) #name,
      KEEL_ASCEND_OPTIONAL_RUNTIME(KEEL_NAME)
#undef KEEL_NAME
  };
  for (const char* name : names) {
    const OwnSdk sdk;
    ASSERT_TRUE(remove_symbol(sdk.path("libascendcl.so"), name)) << name;
    const OwnInstance instance(sdk.folder());
    EXPECT_EQ(instance.count(), 2u) << name << ": " << instance.reason();
    EXPECT_NE(instance.capabilities() & KEEL_CAPABILITY_ASYNC, 0u) << name;
  }
}

TEST(AscendSdkTest, CapabilitiesFollowTheLibrariesThatAreThere) {
  const auto capabilities = [](const std::string& file, const std::string& symbol) {
    const OwnSdk sdk;
    if (symbol.empty()) {
      std::filesystem::remove(sdk.path(file));
    } else {
      EXPECT_TRUE(remove_symbol(sdk.path(file), symbol)) << symbol;
    }
    const OwnInstance instance(sdk.folder());
    EXPECT_EQ(instance.count(), 2u) << instance.reason();
    return instance.capabilities();
  };
  constexpr uint64_t kBoth = KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_CCL;
  EXPECT_EQ(capabilities("libhccl.so", "") & kBoth, KEEL_CAPABILITY_OPS);
  EXPECT_EQ(capabilities("libhccl.so", "HcclAllReduce") & kBoth, KEEL_CAPABILITY_OPS);
  EXPECT_EQ(capabilities("libhccl.so", "HcclBatchSendRecv") & kBoth, kBoth);
  EXPECT_EQ(capabilities("libopapi.so", "") & kBoth, KEEL_CAPABILITY_CCL);
  EXPECT_EQ(capabilities("libnnopbase.so", "") & kBoth, KEEL_CAPABILITY_CCL);
  EXPECT_EQ(capabilities("libnnopbase.so", "aclCreateTensor") & kBoth, KEEL_CAPABILITY_CCL);
  EXPECT_EQ(capabilities("libnnopbase.so", "aclSetAclOpExecutorRepeatable") & kBoth, kBoth);
  EXPECT_EQ(capabilities("libopapi.so", "aclnnMatmulGetWorkspaceSize") & kBoth, kBoth);
  EXPECT_EQ(capabilities("libopapi.so", "aclnnAddGetWorkspaceSize") & kBoth, KEEL_CAPABILITY_CCL);
}

TEST(AscendSdkTest, AnUnknownSettingIsRefusedByName) {
  const char* const key = "colour";
  const char* const value = "red";
  const keel_instance_settings settings = {
      {sizeof(settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
  keel_plugin_instance* instance = nullptr;
  EXPECT_EQ(query_plugin()->create_instance(&settings, &instance), KEEL_INVALID_ARGUMENT);
  expect_has(t_error, "setting 'colour' is not known");
}

}  // namespace
}  // namespace keel::testing
