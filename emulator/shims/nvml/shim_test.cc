// SPDX-License-Identifier: Apache-2.0
// The library as users load it: at run time, by name, in the driver's folder.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "vendor/nvml.h"

namespace {

// Opened once, with two devices.
void* library() {
  static void* const opened = [] {
    setenv("KEEL_EMULATED_CUDA", "devices=2 faults=1/slow:op=3", 1);
    setenv("KEEL_EMULATED_NVML", "corrected=5", 1);
    return dlopen(KEEL_SHIM, RTLD_NOW | RTLD_LOCAL);
  }();
  return opened;
}

#define CALL(name) reinterpret_cast<decltype(&name)>(dlsym(library(), #name))

class NvmlShimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library(), nullptr) << dlerror();
    ASSERT_EQ(CALL(nvmlInit_v2)(), NVML_SUCCESS);
  }
  void TearDown() override { EXPECT_EQ(CALL(nvmlShutdown)(), NVML_SUCCESS); }
  static nvmlDevice_t device(const char* address) {
    nvmlDevice_t found = nullptr;
    EXPECT_EQ(CALL(nvmlDeviceGetHandleByPciBusId_v2)(address, &found), NVML_SUCCESS);
    return found;
  }
};

TEST_F(NvmlShimTest, NothingIsAnsweredWhileNobodyUsesIt) {
  ASSERT_EQ(CALL(nvmlShutdown)(), NVML_SUCCESS);
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByPciBusId_v2)("fffe:00:00.0", &found),
            NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(CALL(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
  ASSERT_EQ(CALL(nvmlInit_v2)(), NVML_SUCCESS);
}

TEST_F(NvmlShimTest, DevicesByAddress) {
  EXPECT_NE(device("fffe:00:00.0"), device("fffe:01:00.0"));
  EXPECT_EQ(device("fffe:01:00.0"), device("fffe:01:00.0"));
  nvmlDevice_t none = nullptr;
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByPciBusId_v2)("fffe:02:00.0", &none), NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlShimTest, Counters) {
  unsigned long long count = 99;
  const auto errors = CALL(nvmlDeviceGetTotalEccErrors);
  EXPECT_EQ(
      errors(device("fffe:00:00.0"), NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &count),
      NVML_SUCCESS);
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(
      errors(device("fffe:00:00.0"), NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &count),
      NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(errors(nullptr, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &count),
            NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlShimTest, ASlowDeviceIsHot) {
  unsigned long long reasons[2] = {};
  for (const auto reasons_of : {CALL(nvmlDeviceGetCurrentClocksEventReasons),
                                CALL(nvmlDeviceGetCurrentClocksThrottleReasons)}) {
    EXPECT_EQ(reasons_of(device("fffe:00:00.0"), &reasons[0]), NVML_SUCCESS);
    EXPECT_EQ(reasons_of(device("fffe:01:00.0"), &reasons[1]), NVML_SUCCESS);
    EXPECT_EQ(reasons[0], 0u);
    EXPECT_NE(reasons[1] & nvmlClocksThrottleReasonHwThermalSlowdown, 0u);
  }
}

TEST_F(NvmlShimTest, AnEventSetWithNothingToTell) {
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t data = {};
  ASSERT_EQ(CALL(nvmlEventSetCreate)(&set), NVML_SUCCESS);
  EXPECT_EQ(
      CALL(nvmlDeviceRegisterEvents)(device("fffe:00:00.0"), nvmlEventTypeXidCriticalError, set),
      NVML_SUCCESS);
  EXPECT_EQ(CALL(nvmlDeviceRegisterEvents)(device("fffe:00:00.0"), ~0ULL, set),
            NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CALL(nvmlEventSetWait_v2)(set, &data, 0), NVML_ERROR_TIMEOUT);
  EXPECT_EQ(CALL(nvmlEventSetFree)(set), NVML_SUCCESS);
  EXPECT_EQ(CALL(nvmlEventSetFree)(set), NVML_ERROR_INVALID_ARGUMENT);
}

}  // namespace
