// SPDX-License-Identifier: Apache-2.0
// Device health reported by the CUDA backend, on the emulated chip and its NVML.
#include <filesystem>
#include <string>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

class CudaHealthTest : public CudaFixture {
 protected:
  void TearDown() override {
    unsetenv("KEEL_EMULATED_NVML");
    KeelTest::TearDown();
  }
  // |settings|: as in KEEL_EMULATED_NVML.
  static void add_nvml(const OwnDriver& driver, const std::string& settings = "") {
    std::filesystem::copy_file(KEEL_EMULATED_NVML_FILE, driver.folder() + "/libnvidia-ml.so.1");
    setenv("KEEL_EMULATED_NVML", settings.c_str(), 1);
  }
  static keel_device_health health(keel_device device) {
    auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
    EXPECT_KEEL_OK(keel_device_health_get(device, &health));
    return health;
  }
};

TEST_F(CudaHealthTest, ADeviceThatIsWell) {
  const OwnDriver driver;
  add_nvml(driver, "corrected=3");
  const keel_device_health well = health(load_cuda(driver).at(0));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_EQ(well.throttled, 0u);
  EXPECT_EQ(well.corrected_ecc, 3u);
  EXPECT_EQ(well.uncorrected_ecc, 0u);
  EXPECT_STREQ(well.text, "");
}

TEST_F(CudaHealthTest, WithoutNvml) {
  const OwnDriver driver("faults=lose:fill@1");
  const keel_device device = load_cuda(driver).at(0);
  EXPECT_EQ(health(device).ok, 1u);
  EXPECT_HAS(health(device).text, "no NVML: " + driver.folder() + "/libnvidia-ml.so.1");
  const keel_stream stream = new_stream(device);
  ASSERT_KEEL_OK(fill(stream, alloc(device, 4), 1, 1));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  EXPECT_EQ(health(device).ok, 0u);
  EXPECT_HAS(health(device).text, "CUDA_ERROR_ECC_UNCORRECTABLE");
}

TEST_F(CudaHealthTest, AnErrorOfItsMemory) {
  const OwnDriver driver("devices=2 faults=0/lose:fill@3");
  add_nvml(driver);
  const auto devices = load_cuda(driver);
  EXPECT_EQ(health(devices.at(0)).ok, 1u);
  EXPECT_EQ(health(devices.at(1)).ok, 1u);
  const keel_stream stream = new_stream(devices[0]);
  void* const memory = alloc(devices[0], 4);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_KEEL_OK(fill(stream, memory, i, 1));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  const keel_device_health unwell = health(devices[0]);
  EXPECT_EQ(unwell.ok, 0u);
  EXPECT_EQ(unwell.uncorrected_ecc, 1u);
  EXPECT_HAS(unwell.text, "the device is lost: CUDA_ERROR_ECC_UNCORRECTABLE");
  EXPECT_HAS(unwell.text, "Xid 48");
  const keel_device_health other = health(devices[1]);
  EXPECT_EQ(other.ok, 1u);
  EXPECT_EQ(other.uncorrected_ecc, 0u);
  EXPECT_STREQ(other.text, "");

  // A later user may use the device and sees the condition.
  ASSERT_KEEL_OK(keel_shutdown());
  SetUp();
  const keel_device_health later = health(load_cuda(driver).at(0));
  EXPECT_EQ(later.ok, 1u);
  EXPECT_EQ(later.uncorrected_ecc, 1u);
  EXPECT_HAS(later.text, "uncorrected ECC errors: 1");
}

// The health query itself detects a failure that no call has reported.
TEST_F(CudaHealthTest, AFailureThatNobodyHasAskedAbout) {
  const OwnDriver driver("faults=fail:fill@1");
  add_nvml(driver);
  const keel_device device = load_cuda(driver).at(0);
  EXPECT_EQ(health(device).ok, 1u);
  ASSERT_KEEL_OK(fill(new_stream(device), alloc(device, 4), 1, 1));
  while (health(device).ok != 0) {
  }
  EXPECT_HAS(health(device).text, "CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_HAS(health(device).text, "Xid 13");
  EXPECT_EQ(health(device).uncorrected_ecc, 0u);
  void* memory = nullptr;
  EXPECT_EQ(keel_alloc(device, KEEL_MEMORY_PINNED, 8, &memory), KEEL_DEVICE_LOST);
}

TEST_F(CudaHealthTest, ClocksThatAreHeldDown) {
  const OwnDriver driver("devices=2 faults=1/slow=2");
  add_nvml(driver);
  const auto devices = load_cuda(driver);
  EXPECT_EQ(health(devices.at(0)).throttled, 0u);
  const keel_device_health hot = health(devices.at(1));
  EXPECT_EQ(hot.throttled, 1u);
  EXPECT_EQ(hot.ok, 1u);
  EXPECT_STREQ(hot.text, "clocks are held down by heat (hardware)");
}

TEST_F(CudaHealthTest, ADeviceThatHasFallenOffTheBus) {
  const OwnDriver driver;
  add_nvml(driver, "device=15");
  const keel_device_health gone = health(load_cuda(driver).at(0));
  EXPECT_EQ(gone.ok, 0u);
  EXPECT_STREQ(gone.text, "nvmlDeviceGetTotalEccErrors: the GPU is lost");
}

TEST_F(CudaHealthTest, MemoryThatCannotBeRepaired) {
  const OwnDriver driver;
  add_nvml(driver, "remap_failed=1");
  const keel_device_health bad = health(load_cuda(driver).at(0));
  EXPECT_EQ(bad.ok, 0u);
  EXPECT_STREQ(bad.text, "bad rows of its memory could not be replaced");
}

// Consumer chips have no ECC, and some queries need privileges.
TEST_F(CudaHealthTest, WhatADeviceCannotTellIsLeftOut) {
  const OwnDriver driver;
  add_nvml(driver, "device=3");
  const keel_device_health well = health(load_cuda(driver).at(0));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_STREQ(well.text, "");
}

TEST_F(CudaHealthTest, AnNvmlThatDoesNotStart) {
  const OwnDriver driver;
  add_nvml(driver, "init=18");
  const keel_device device = load_cuda(driver).at(0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(health(device).ok, 1u);
    EXPECT_STREQ(health(device).text,
                 "no NVML: nvmlInit_v2: the driver and the library are of different versions");
  }
}

}  // namespace
}  // namespace keel::testing
