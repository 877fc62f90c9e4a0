// SPDX-License-Identifier: Apache-2.0
// SDKs that are absent, old, of another kind or faulty at start-up: the plugin loads with each and
// says why it has no devices, or no collectives.
#include <fstream>
#include <string>
#include <vector>

#include "backends/kunlun/testing/own_sdk.h"
#include "core/testing/keel_test.h"
#include "core/testing/library_file.h"
#include "vendor/xre.h"

namespace keel::testing {
namespace {

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

class KunlunLoadingTest : public KeelTest {
 protected:
  static std::vector<keel_device> load_from(const std::string& folder) {
    return load("kunlun", {{"library_folder", folder}});
  }
  // Why an instance with the SDK in |folder| has no device.
  static std::string reason(const std::string& folder) {
    uint32_t backend = 0;
    EXPECT_KEEL_OK(keel_backend_count(&backend));
    EXPECT_TRUE(load_from(folder).empty());
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    EXPECT_KEEL_OK(keel_backend_get(backend, &info));
    return info.reason;
  }
  static keel_device_info info(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info;
  }
  // Whether words survive the way to |device| and back, past its streams and events.
  void expect_usable(keel_device device) {
    const std::vector<uint32_t> words = pattern(1000, 7);
    void* const memory = alloc_filled(device, words);
    EXPECT_EQ(read(device, memory, words.size()), words);
    EXPECT_KEEL_OK(keel_free(device, memory));
  }
};

TEST_F(KunlunLoadingTest, WithoutAnSdkTheReasonIsSaid) {
  const std::string why = reason("/nowhere/at/all");
  EXPECT_HAS(why, "no XRE");
  EXPECT_HAS(why, "/nowhere/at/all/libxpurt.so");
}

TEST_F(KunlunLoadingTest, AFileThatIsNoLibraryIsNamed) {
  const OwnSdk sdk;
  std::ofstream(sdk.runtime()) << "no library";
  EXPECT_HAS(reason(sdk.folder()), "no XRE");
}

TEST_F(KunlunLoadingTest, EachRequiredSymbolThatIsMissingIsNamed) {
#define KEEL_NAME(name, arguments) "xpu_" #name,
  for (const char* const name : {KEEL_XRE_FUNCTIONS(KEEL_NAME)}) {
#undef KEEL_NAME
    const OwnSdk sdk;
    ASSERT_TRUE(remove_symbol(sdk.runtime(), name));
    const std::string why = reason(sdk.folder());
    EXPECT_HAS(why, std::string("symbols missing: ") + name);
  }
}

TEST_F(KunlunLoadingTest, WithoutEachOptionalSymbolTheDevicesWork) {
  const struct {
    const char* name;
    uint64_t capability;  // that is not claimed then
  } kSymbols[] = {
      {"xpu_device_list", 0},
      {"xpu_get_runtime_version", 0},
      {"xpu_host_alloc", KEEL_CAPABILITY_PINNED},
      {"xpu_host_free", KEEL_CAPABILITY_PINNED},
      {"xpu_host_register", KEEL_CAPABILITY_HOST_REGISTER},
      {"xpu_host_unregister", KEEL_CAPABILITY_HOST_REGISTER},
      {"xpu_memcpy_async", KEEL_CAPABILITY_ASYNC},
  };
  for (const auto& symbol : kSymbols) {
    SCOPED_TRACE(symbol.name);
    const OwnSdk sdk("devices=2 memory_mib=64");
    ASSERT_TRUE(remove_symbol(sdk.runtime(), symbol.name));
    const std::vector<keel_device> devices = load_from(sdk.folder());
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(info(devices[0]).capabilities & symbol.capability, 0u);
    expect_usable(devices[1]);
  }
}

TEST_F(KunlunLoadingTest, EachStepOfStartUpThatFailsIsNamed) {
  EXPECT_HAS(reason(OwnSdk("fail=xpu_device_count:702").folder()),
             "xpu_device_count: XPUERR_UNINIT (702)");
  EXPECT_HAS(reason(OwnSdk("fail=xpu_device_list:701").folder()),
             "xpu_device_list: XPUERR_INVALID_DEVICE (701)");
  EXPECT_HAS(reason(OwnSdk("devices=0").folder()), "XRE shows no device");
  EXPECT_HAS(reason(OwnSdk("colour=red").folder()), "XPUERR_UNINIT");
}

TEST_F(KunlunLoadingTest, ErrorsOfEitherSignAreRead) {
  EXPECT_HAS(reason(OwnSdk("positive=1 fail=xpu_device_count:704").folder()), "VERSION (704)");
  const OwnSdk sdk("devices=1 memory_mib=16 positive=1");
  const std::vector<keel_device> devices = load_from(sdk.folder());
  ASSERT_EQ(devices.size(), 1u);
  void* memory = nullptr;
  EXPECT_EQ(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 64 << 20, &memory), KEEL_OUT_OF_MEMORY);
  EXPECT_HAS(keel_last_error(), "XPUERR_NOMEM");
}

TEST_F(KunlunLoadingTest, AnErrorOfDeviceInformationFailsTheBackend) {
  const OwnSdk sdk("fail=xpu_device_get_attr:712");
  uint32_t backend = 0;
  const char* const key = "library_folder";
  const char* const value = sdk.folder().c_str();
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  EXPECT_EQ(keel_plugin_load(plugin_path("kunlun").c_str(), &settings, nullptr, &backend),
            KEEL_UNSUPPORTED);
  EXPECT_HAS(keel_last_error(), "xpu_device_get_attr: XPUERR_NOSUPPORT");
}

// The devices were counted before: opening one that has gone says so.
TEST_F(KunlunLoadingTest, ADeviceThatHasGoneIsSaidAtItsFirstUse) {
  const OwnSdk sdk("devices=2 memory_mib=64 devices_later=1 fail=xpu_set_device:701");
  uint32_t backend = 0;
  const char* const key = "library_folder";
  const char* const value = sdk.folder().c_str();
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  ASSERT_KEEL_OK(keel_plugin_load(plugin_path("kunlun").c_str(), &settings, nullptr, &backend));
  keel_device device = {};
  EXPECT_EQ(keel_device_find("kunlun:1", &device), KEEL_NOT_FOUND);
  EXPECT_HAS(keel_last_error(), "XPUERR_INVALID_DEVICE");
}

TEST_F(KunlunLoadingTest, VisibleDevicesKeepTheirNumbers) {
  setenv("XPU_VISIBLE_DEVICES", "3,1", 1);
  const OwnSdk sdk("devices=4 memory_mib=64");
  const std::vector<keel_device> devices = load_from(sdk.folder());
  unsetenv("XPU_VISIBLE_DEVICES");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_STREQ(info(devices[0]).pci_address, "fffd:03:00.0");
  EXPECT_STREQ(info(devices[1]).pci_address, "fffd:01:00.0");
  expect_usable(devices[0]);
  expect_usable(devices[1]);
}

TEST_F(KunlunLoadingTest, ModelsAreNamed) {
  const OwnSdk kl2("devices=1 model=9 version=412");
  const std::vector<keel_device> older = load_from(kl2.folder());
  ASSERT_EQ(older.size(), 1u);
  EXPECT_STREQ(info(older[0]).name, "Kunlun RG800");
  EXPECT_STREQ(info(older[0]).architecture, "xpu2");
  EXPECT_HAS(info(older[0]).driver, "XRE 4.12, ");
  const OwnSdk kl3("devices=1 model=310");
  const std::vector<keel_device> newer = load_from(kl3.folder());
  ASSERT_EQ(newer.size(), 1u);
  EXPECT_STREQ(info(newer[0]).name, "Kunlun, model 310");
  EXPECT_STREQ(info(newer[0]).architecture, "xpu3");
}

TEST_F(KunlunLoadingTest, SettingsThatAreNotKnownAreRefused) {
  uint32_t backend = 0;
  const char* const key = "color";
  const char* const value = "red";
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  EXPECT_EQ(keel_plugin_load(plugin_path("kunlun").c_str(), &settings, nullptr, &backend),
            KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(keel_last_error(), "setting 'color' is not known");
}

// ---- BKCL ------------------------------------------------------------------------

TEST_F(KunlunLoadingTest, WithoutBkclNoCollectivesAreClaimed) {
  const OwnSdk sdk("devices=2 memory_mib=64", /*with_bkcl=*/false);
  const std::vector<keel_device> devices = load_from(sdk.folder());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(info(devices[0]).capabilities & KEEL_CAPABILITY_CCL, 0u);
}

TEST_F(KunlunLoadingTest, ABkclOfAnotherKindOrWithoutASymbolIsNotUsed) {
  for (const char* const name :
       {"bkcl_header_kind", "bkcl_all_gather", "bkcl_all_reduce", "bkcl_all_to_all",
        "bkcl_all_to_all_v", "bkcl_broadcast", "bkcl_destroy_context", "bkcl_get_unique_id",
        "bkcl_group_end", "bkcl_group_start", "bkcl_init_rank", "bkcl_recv", "bkcl_reduce",
        "bkcl_reduce_scatter", "bkcl_send"}) {
    SCOPED_TRACE(name);
    const OwnSdk sdk("devices=2 memory_mib=64");
    ASSERT_TRUE(remove_symbol(sdk.bkcl(), name));
    const std::vector<keel_device> devices = load_from(sdk.folder());
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(info(devices[0]).capabilities & KEEL_CAPABILITY_CCL, 0u);
  }
}

TEST_F(KunlunLoadingTest, TheFolderOfBkclIsASettingOfItsOwn) {
  const OwnSdk sdk("devices=2 memory_mib=64", /*with_bkcl=*/false);
  const OwnSdk elsewhere("devices=2 memory_mib=64");
  const auto claims = [&](const Settings& more) {
    Settings settings = {{"library_folder", sdk.folder()}};
    settings.insert(more.begin(), more.end());
    return (info(load("kunlun", settings).at(0)).capabilities & KEEL_CAPABILITY_CCL) != 0;
  };
  EXPECT_FALSE(claims({}));
  EXPECT_TRUE(claims({{"bkcl_folder", elsewhere.folder()}}));
  setenv("KEEL_BKCL_LIBRARY_FOLDER", elsewhere.folder().c_str(), 1);
  EXPECT_TRUE(claims({}));
  EXPECT_FALSE(claims({{"bkcl_folder", sdk.folder()}})) << "a setting goes first";
  unsetenv("KEEL_BKCL_LIBRARY_FOLDER");
}

}  // namespace
}  // namespace keel::testing
