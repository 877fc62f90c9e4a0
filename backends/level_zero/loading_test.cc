// SPDX-License-Identifier: Apache-2.0
// Loaders and drivers that are absent, incomplete or faulty at start-up: the plugin loads with each
// and says why it has no devices.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/level_zero/testing/own_loader.h"
#include "core/testing/keel_test.h"
#include "vendor/level_zero.h"

namespace keel::testing {
namespace {

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

class LevelZeroLoadingTest : public KeelTest {
 protected:
  // Why an instance with the loader in |folder| has no device.
  static std::string reason(const std::string& folder) {
    uint32_t backend = 0;
    EXPECT_KEEL_OK(keel_backend_count(&backend));
    EXPECT_TRUE(load("level_zero", {{"library_folder", folder}}).empty());
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    EXPECT_KEEL_OK(keel_backend_get(backend, &info));
    return info.reason;
  }
};

TEST_F(LevelZeroLoadingTest, AbsentLoaderIsNamed) {
  const std::string why = reason("/nowhere/at/all");
  EXPECT_HAS(why, "no Level Zero loader");
  EXPECT_HAS(why, "/nowhere/at/all/libze_loader.so.1");
}

TEST_F(LevelZeroLoadingTest, MissingSymbolIsNamed) {
  for (const char* const name : {"zeInit", "zeDriverGet", "zeEventHostSynchronize"}) {
    const OwnLoader loader;
    loader.remove_symbol(name);
    EXPECT_HAS(reason(loader.folder()), std::string("symbols missing: ") + name);
  }
}

TEST_F(LevelZeroLoadingTest, MissingOptionalSymbolCostsThePciAddress) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  loader.remove_symbol("zeDevicePciGetPropertiesExt");
  const std::vector<keel_device> devices =
      load("level_zero", {{"library_folder", loader.folder()}});
  ASSERT_EQ(devices.size(), 1u);
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  EXPECT_KEEL_OK(keel_device_info_get(devices[0], &info));
  EXPECT_STREQ(info.pci_address, "");
}

// The emulated library ends the process at any call after a failed zeInit.
TEST_F(LevelZeroLoadingTest, FailedInitIsNamedAndNothingElseCalled) {
  EXPECT_HAS(reason(OwnLoader("init=2013265921").folder()),
             "zeInit: ZE_RESULT_ERROR_UNINITIALIZED (0x78000001): no driver of a GPU");
  EXPECT_HAS(reason(OwnLoader("init=1879048193").folder()), "ZE_RESULT_ERROR_DEVICE_LOST");
  EXPECT_HAS(reason(OwnLoader("colour=red").folder()), "ZE_RESULT_ERROR_UNKNOWN");
}

TEST_F(LevelZeroLoadingTest, DriverWithoutGpuIsSaid) {
  EXPECT_HAS(reason(OwnLoader("devices=0").folder()), "Level Zero shows no GPU");
}

TEST_F(LevelZeroLoadingTest, DriverOfAnotherMajorVersionIsSaid) {
  EXPECT_HAS(reason(OwnLoader("devices=1 major=0 minor=91").folder()),
             "a driver of version 0, not 1");
  EXPECT_HAS(reason(OwnLoader("devices=1 major=2").folder()), "a driver of version 2, not 1");
}

TEST_F(LevelZeroLoadingTest, FirstVersionOfTheInterfaceSuffices) {
  const OwnLoader loader("devices=1 memory_mib=16 minor=0", /*with_kernels=*/false);
  for (const char* const name :
       {"zeDevicePciGetPropertiesExt", "zeDriverGetExtensionFunctionAddress",
        "zesDeviceEnumMemoryModules"}) {
    loader.remove_symbol(name);
  }
  EXPECT_EQ(load("level_zero", {{"library_folder", loader.folder()}}).size(), 1u);
}

// ---- the driver below a loader ---------------------------------------------------

class LevelZeroShimTest : public ::testing::Test {
 protected:
  template <typename Function>
  static void find(void* library, const char* name, Function** out_function) {
    void* const address = dlsym(library, name);
    ASSERT_NE(address, nullptr) << name;
    std::memcpy(out_function, &address, sizeof(address));
  }
};

TEST_F(LevelZeroShimTest, TablesHaveAnAnswerInEverySlot) {
  const OwnLoader loader("devices=1 memory_mib=16");
  void* const library = dlopen(loader.file().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  constexpr uint32_t kVersion = 1 << 16 | 4;
#define KEEL_ZE_TRY(prefix, table, slots)                                \
  {                                                                      \
    ze::Result (*get)(uint32_t, void*) = nullptr;                        \
    find(library, #prefix "Get" #table "ProcAddrTable", &get);           \
    std::vector<void*> filled((slots) + 1, nullptr);                     \
    EXPECT_EQ(get(kVersion, filled.data()), ze::kSuccess);               \
    for (size_t i = 0; i < (slots); ++i) EXPECT_NE(filled[i], nullptr);  \
    EXPECT_EQ(filled[slots], nullptr) << "written past the table's end"; \
    EXPECT_EQ(get(2 << 16, filled.data()), ze::kUnsupportedVersion);     \
  }
#define KEEL_ZE_TRY_ZE(table, slots) KEEL_ZE_TRY(ze, table, slots)
#define KEEL_ZE_TRY_ZET(table, slots) KEEL_ZE_TRY(zet, table, slots)
#define KEEL_ZE_TRY_ZES(table, slots) KEEL_ZE_TRY(zes, table, slots)
  KEEL_ZE_TABLES(KEEL_ZE_TRY_ZE)
  KEEL_ZET_TABLES(KEEL_ZE_TRY_ZET)
  KEEL_ZES_TABLES(KEEL_ZE_TRY_ZES)
#undef KEEL_ZE_TRY_ZES
#undef KEEL_ZE_TRY_ZET
#undef KEEL_ZE_TRY_ZE
#undef KEEL_ZE_TRY
}

TEST_F(LevelZeroShimTest, BinaryThatIsNoSpirvIsRefusedWithALog) {
  const OwnLoader loader("devices=1 memory_mib=16");
  void* const library = dlopen(loader.file().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  ze::Functions ze;
#define KEEL_ZE_FIND(table, name, slot, arguments) \
  find(library, std::string(#table) == "Global" ? "ze" #name : "ze" #table #name, &ze.table##name);
  KEEL_ZE_FUNCTIONS(KEEL_ZE_FIND)
#undef KEEL_ZE_FIND
  uint32_t count = 1;
  ze::Driver driver = nullptr;
  EXPECT_EQ(ze.DriverGet(&count, &driver), ze::kUninitialized);
  ASSERT_EQ(ze.GlobalInit(0), ze::kSuccess);
  ASSERT_EQ(ze.DriverGet(&count, &driver), ze::kSuccess);
  ze::Device device = nullptr;
  ASSERT_EQ(ze.DeviceGet(driver, &count, &device), ze::kSuccess);
  const ze::ContextDesc context_desc;
  ze::Context context = nullptr;
  ASSERT_EQ(ze.ContextCreate(driver, &context_desc, &context), ze::kSuccess);
  const std::string text = "no SPIR-V at all";
  ze::ModuleDesc desc;
  desc.bytes = text.size();
  desc.data = reinterpret_cast<const uint8_t*>(text.data());
  ze::Module module = nullptr;
  ze::BuildLog log = nullptr;
  EXPECT_EQ(ze.ModuleCreate(context, device, &desc, &module, &log), ze::kModuleBuildFailure);
  char said[256] = {};
  size_t size = sizeof(said);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(ze.ModuleBuildLogGetString(log, &size, said), ze::kSuccess);
  EXPECT_HAS(said, "no SPIR-V");
  EXPECT_EQ(ze.ModuleBuildLogDestroy(log), ze::kSuccess);
  EXPECT_EQ(ze.ContextDestroy(context), ze::kSuccess);
}

// ---- below the real loader ---------------------------------------------------------

// In a process of its own, since a loader looks for drivers once: whether the loader of this
// machine shows the emulated driver's devices. Exits with their number.
[[noreturn]] void count_devices_below_the_loader(const std::string& driver) {
  setenv("ZE_ENABLE_ALT_DRIVERS", driver.c_str(), 1);
  setenv("KEEL_EMULATED_LEVEL_ZERO", "devices=2 memory_mib=64", 1);
  const std::vector<keel_device> devices = load("level_zero");
  for (const keel_device device : devices) {
    void* memory = nullptr;
    if (keel_alloc(device, KEEL_MEMORY_DEVICE, 4096, &memory) != KEEL_OK) _exit(100);
    const uint64_t word = 42;
    uint64_t read = 0;
    keel_stream stream = {};
    if (keel_stream_create(device, 0, &stream) != KEEL_OK ||
        keel_fill(stream, memory, &word, 8, 4096) != KEEL_OK ||
        keel_copy(stream, KEEL_HOST, &read, device, memory, 8) != KEEL_OK ||
        keel_stream_synchronize(stream, kTestTimeout) != KEEL_OK || read != word) {
      _exit(101);
    }
  }
  _exit(static_cast<int>(devices.size()));
}

class LevelZeroLoaderTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    void* const loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loader == nullptr) GTEST_SKIP() << "no Level Zero loader here (libze1)";
    dlclose(loader);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(LevelZeroLoaderTest, RealLoaderShowsTheEmulatedDriver) {
  EXPECT_EXIT(count_devices_below_the_loader(KEEL_EMULATED_LEVEL_ZERO_FILE),
              ::testing::ExitedWithCode(2), "");
}

TEST_F(LevelZeroLoaderTest, DriverWithHalfOfItsTablesHasNoDevice) {
  const OwnLoader half;
  for (const char* const name :
       {"zeGetCommandListProcAddrTable", "zeGetEventProcAddrTable", "zeGetMemProcAddrTable"}) {
    half.remove_symbol(name);
  }
  EXPECT_EXIT(count_devices_below_the_loader(half.file()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace keel::testing
